//! BIDS: labels of subjects and sessions, the sessions of a study, and suggestions for misspelled names.
//!
//! A label is always valid: `sub-` or `ses-`, followed by letters, digits or `+`
//! (BIDS specification 1.10, "Entities"). So it can be used in paths, job names and
//! arguments without further checks.

pub mod cohort;
pub mod suggest;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cohort::{Cohort, CohortSource};

/// A subject: `sub-0001`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectLabel(Arc<str>);

/// A session: `ses-202411010600`, or the empty text if there is no session level
/// (tasks of subject scope, datasets without sessions).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionLabel(Arc<str>);

/// Maximum combined length of a subject's and a session's label, including prefixes. Both are part of the
/// names of jobs, which accounting truncates at 255 bytes, and of log files, which have the same limit:
/// `<procedure>_<subject>_<session>_<job id>.out` with 100 characters for the procedure and 18 for an array task's id.
pub const LONGEST: usize = 130;

/// True if both labels fit into the names of jobs and logs.
pub fn have_room(subject: &str, session: &str) -> bool {
    subject.len() + session.len() <= LONGEST
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a valid BIDS label: use '{prefix}' followed by letters, digits or '+'")]
pub struct LabelError {
    pub text: String,
    pub prefix: &'static str,
}

impl SubjectLabel {
    pub const PREFIX: &'static str = "sub-";
}

impl SessionLabel {
    pub const PREFIX: &'static str = "ses-";

    /// The empty label, for "no session".
    pub fn none() -> Self {
        Self(Arc::from(""))
    }

    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

fn check(text: &str, prefix: &'static str) -> Result<Arc<str>, LabelError> {
    let is_label = |rest: &str| !rest.is_empty() && rest.chars().all(is_of_label);
    match text.strip_prefix(prefix).is_some_and(is_label) {
        true => Ok(Arc::from(text)),
        false => Err(LabelError {
            text: text.to_owned(),
            prefix,
        }),
    }
}

/// A label or a pattern with its prefix, which people may omit. `*` at the start of a pattern also stands for the prefix.
pub fn with_prefix(text: &str, prefix: &str) -> String {
    match text.starts_with(prefix) || text.starts_with('*') {
        true => text.to_owned(),
        false => format!("{prefix}{text}"),
    }
}

/// True for the characters of a label after its prefix.
pub fn is_of_label(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '+'
}

macro_rules! labels {
    ($($name:ident),*) => {$(
        impl $name {
            /// Accepts a label with its prefix, but not the empty text.
            pub fn new(text: &str) -> Result<Self, LabelError> {
                check(text, Self::PREFIX).map(Self)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The label's shared text, for a key of the state.
            pub fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                Path::new(&*self.0)
            }
        }
    )*};
}
labels!(SubjectLabel, SessionLabel);

/// One session of one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub subject: SubjectLabel,
    /// [`SessionLabel::none`] in a dataset without sessions.
    pub session: SessionLabel,
    pub dicom: Dicom,
}

/// The location of a session's DICOM files.
#[derive(Debug, Clone, PartialEq)]
pub enum Dicom {
    At(Arc<Path>),
    /// There are none, so no task of this session is due.
    Missing,
    /// Sessions come from `bids_root`, so no DICOM files are needed.
    NotNeeded,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSource {
    /// `sub-*/ses-*` below `dicom_root`.
    Dicom,
    /// `sub-*[/ses-*]` below `bids_root` (`discover: bids`).
    Bids,
    /// A CSV or TSV file (`sessions_file`).
    Csv {
        file: PathBuf,
        subject_col: String,
        session_col: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_prefix_then_letters_digits_or_plus() {
        for good in ["sub-0001", "sub-a", "sub-Ab+9"] {
            assert_eq!(SubjectLabel::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "sub-",
            "sub",
            "sub-a b",
            "sub-a_b",
            "sub-../x",
            "sub-01.bak",
            "ses-1",
            "sub-é",
            "SUB-01",
            " sub-01",
            "sub-01\n",
        ] {
            assert!(SubjectLabel::new(bad).is_err(), "{bad:?}");
        }
        assert!(SessionLabel::new("").is_err());
        assert!(SessionLabel::none().is_none());
    }
}
