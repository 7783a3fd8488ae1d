//! What jobs are called: their ids, our tag on them, and the names of arrays. Pure.

pub mod array;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Names a job: `123`, an array task `123_4`, or a local one `local-7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

/// Says what runs jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorKind {
    Slurm,
    Local,
}

/// Points to a job on a cluster of a multi-cluster site (none: the default one).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobRef {
    pub id: JobId,
    pub cluster: Option<Arc<str>>,
}

/// Holds our tag on a job: `snbb:<study's word>:<submission id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTag {
    pub project: String,
    pub submission_id: String,
}

impl JobId {
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The id of a job of the local executor.
    pub fn local(number: u64) -> Self {
        Self::new(&format!("local-{number}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of a job of the local executor.
    pub fn local_number(&self) -> Option<u64> {
        self.0.strip_prefix("local-")?.parse().ok()
    }

    /// The executor that gave the id: no other one knows the job.
    pub fn executor(&self) -> ExecutorKind {
        match self.local_number() {
            Some(_) => ExecutorKind::Local,
            None => ExecutorKind::Slurm,
        }
    }

    /// The id without the number of a heterogeneous job's part: `7` of `7+1`.
    pub fn leader(&self) -> &str {
        self.0.split('+').next().unwrap_or_default()
    }
}

impl ExecutorKind {
    /// The submission ids of the local executor begin with this word, since a submission in doubt has no job id.
    const LOCAL_SUBMISSION: &str = "local-";

    /// Makes the submission id of this executor from digits.
    pub fn submission_id(self, digits: &str) -> String {
        match self {
            Self::Slurm => digits.to_owned(),
            Self::Local => format!("{}{digits}", Self::LOCAL_SUBMISSION),
        }
    }

    /// Returns the executor that a submission was sent to.
    pub fn of_submission(id: &str) -> Self {
        match id.starts_with(Self::LOCAL_SUBMISSION) {
            true => Self::Local,
            false => Self::Slurm,
        }
    }
}

impl fmt::Display for ExecutorKind {
    /// As the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slurm => "slurm",
            Self::Local => "local",
        })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for JobId {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl JobTag {
    const WORD: &'static str = "snbb";

    /// Reads a tag out of a job's comment, which may hold a site's own words or JSON beside it.
    pub fn parse(comment: &str) -> Option<Self> {
        comment
            .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\''))
            .find_map(Self::of_word)
    }

    fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Self::WORD), Some(project), Some(id))
                if !project.is_empty() && !id.is_empty() =>
            {
                Some(Self {
                    project: project.to_owned(),
                    submission_id: id.to_owned(),
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for JobTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", Self::WORD, self.project, self.submission_id)
    }
}

/// True for the word of a study, and for its name alone, which releases without marks wrote.
pub fn is_same_study(word: &str, own: &str) -> bool {
    word == own || own.split_once('@').is_some_and(|(name, _)| name == word)
}

/// The name of a study: its word without the mark.
pub fn name_of_study(word: &str) -> &str {
    word.split('@').next().unwrap_or(word)
}

impl JobRef {
    /// Returns the command line with which a person ends the job.
    pub fn scancel_line(&self) -> String {
        match &self.cluster {
            Some(cluster) => format!("scancel -M {cluster} {}", self.id),
            None => format!("scancel {}", self.id),
        }
    }
}
