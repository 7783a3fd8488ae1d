//! Job ids, our tag in a job's comment, and the names of job arrays.

pub mod array;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::words::words;

/// The id of a job (`123`), an array task (`123_4`) or a local job (`local-7`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
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

/// A job on a cluster of a multi-cluster site (`None` for the default cluster).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobRef {
    pub id: JobId,
    pub cluster: Option<Arc<str>>,
}

/// Our tag in a job's comment: `snbb:<study's word>:<submission id>`.
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

    /// The executor that assigned the id; others do not know the job.
    pub fn executor(&self) -> ExecutorKind {
        match self.local_number() {
            Some(_) => ExecutorKind::Local,
            None => ExecutorKind::Slurm,
        }
    }

    /// The id without the component number of a heterogeneous job: `7` of `7+1`.
    pub fn leader(&self) -> &str {
        self.0.split('+').next().unwrap_or_default()
    }

    /// The id without the index of an array task or the component of a heterogeneous job.
    pub fn number(&self) -> &str {
        array::split_job_id(self).map_or(self.leader(), |(array, _)| array)
    }
}

impl ExecutorKind {
    /// Prefix of the local executor's submission ids, because a submission in doubt has no job id.
    const LOCAL_SUBMISSION: &str = "local-";

    /// True if jobs request resources from a cluster; on this machine they use what is available.
    pub fn has_cluster(self) -> bool {
        self == Self::Slurm
    }

    /// A submission id of this executor.
    pub fn submission_id(self, digits: &str) -> String {
        match self {
            Self::Slurm => digits.to_owned(),
            Self::Local => format!("{}{digits}", Self::LOCAL_SUBMISSION),
        }
    }

    /// The executor of a submission.
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

impl JobTag {
    const WORD: &'static str = "snbb";

    /// Finds a tag in a job's comment. A site may add text before and after it, or truncate it.
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

    /// True if the site has truncated the submission id.
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

/// True if a word identifies this study. Earlier releases wrote only its name, without the mark.
pub fn is_same_study(word: &str, own: &str) -> bool {
    word == own || own.split_once('@').is_some_and(|(name, _)| name == word)
}

/// The name of a study: its word without the mark.
pub fn name_of_study(word: &str) -> &str {
    word.split('@').next().unwrap_or(word)
}

impl JobRef {
    /// The command line that cancels the job.
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
    fn a_tag_is_found_in_any_surrounding_text() {
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
