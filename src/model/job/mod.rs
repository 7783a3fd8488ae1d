//! What jobs are called: their ids, our tag on them, and the names of arrays. Pure.

pub mod array;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::words::words;

/// Names a job: `123`, an array task `123_4`, or a local one `local-7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(Arc<str>);

words! {
    /// What runs jobs.
    #[derive(Default)]
    pub enum ExecutorKind {
        #[default]
        Slurm = "slurm",
        Local = "local",
    }
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

    /// True if jobs run on a cluster, which is asked for what they need; on this machine they get what there is.
    pub fn has_cluster(self) -> bool {
        match self {
            Self::Slurm => true,
            Self::Local => false,
        }
    }

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

    /// Reads a tag out of a job's comment. A site may write anything before and behind it, or cut it.
    pub fn parse(comment: &str) -> Option<Self> {
        comment.match_indices(Self::WORD).find_map(|(place, word)| {
            let rest = comment.get(place + word.len()..)?;
            let (project, rest) = rest.strip_prefix(':')?.split_once(':')?;
            let is_of_project = |c: char| c.is_ascii_alphanumeric() || "_.-@".contains(c);
            let id = array::leading_id(rest);
            let is_tag =
                !project.is_empty() && project.chars().all(is_of_project) && !id.is_empty();
            is_tag.then(|| Self {
                project: project.to_owned(),
                submission_id: id.to_owned(),
            })
        })
    }

    /// True if the site has cut the submission id: only its beginning is known.
    pub fn is_cut(&self) -> bool {
        array::split_task_id(&self.submission_id).is_none()
            && !array::is_whole_id(&self.submission_id)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_a_tag_is_read_whatever_a_site_writes_around_it() {
        const ID: &str = "0123456789abcdef";
        let array = format!("array-{ID}");
        for id in [ID, &*array] {
            for comment in [
                format!("snbb:S@0011:{id}"),
                format!("snbb:S@0011:{id};charge=x"),
                format!("snbb:S@0011:{id},foo"),
                format!("snbb:S@0011:{id}charge"),
                format!("snbb:S@0011:{id}:2"),
                format!("charge=x;snbb:S@0011:{id} more"),
                format!("snbb: snbb:? snbb:S@0011:{id}"),
                format!(r#"{{"snbb":"snbb:S@0011:{id}","a":1}}"#),
            ] {
                let tag = JobTag::parse(&comment).unwrap();
                assert_eq!(
                    (&*tag.project, &*tag.submission_id),
                    ("S@0011", id),
                    "{comment}"
                );
                assert!(!tag.is_cut(), "{comment}");
            }
        }
        for cut in ["snbb:S:0123456", "snbb:S:0123456...", "snbb:S:array-0123"] {
            assert!(JobTag::parse(cut).unwrap().is_cut(), "{cut}");
        }
        for none in [
            "",
            "snbb",
            "snbb:S",
            "snbb:S:",
            "snbb::0123",
            "snbb:a b:0123",
            "mine",
        ] {
            assert_eq!(JobTag::parse(none), None, "{none}");
        }
        assert_eq!(JobTag::parse("snbb:snbb:1").unwrap().project, "snbb");
    }
}
