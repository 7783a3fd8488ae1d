//! The three roots: are they there, can they be read, can jobs write to them. Pure.

use std::path::{Path, PathBuf};

use super::{Finding, few};
use crate::base::shell;
use crate::setup::catalogue;

/// Holds what is known of one root.
#[derive(Debug, Clone)]
pub struct Root<'a> {
    /// Its key in the configuration.
    pub key: &'static str,
    pub path: &'a Path,
    /// Sessions are looked for here.
    pub is_source: bool,
    /// Jobs of some procedure write here.
    pub takes_outputs: bool,
    pub look: Look,
    /// Output directories, or the root itself, in which this user may make nothing.
    pub unwritable: Vec<PathBuf>,
    /// Why `run` would stop over this root, and the way out.
    pub stop: Option<(String, String)>,
}

/// Says what stands at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    There,
    Empty,
    Missing,
    NotADirectory,
    /// The system's words.
    Unreadable(String),
}

/// Judges one root.
pub fn judge(root: &Root<'_>) -> Vec<Finding> {
    let about = root.path.display().to_string();
    let key = root.key;
    let mut findings = Vec::new();
    if let Some((message, hint)) = &root.stop {
        findings.push(Finding::error(
            key,
            about,
            format!("{message}; `run` would submit nothing (safety stop)"),
            hint,
        ));
        return findings;
    }
    let is_needed = root.is_source || root.takes_outputs;
    let mounted = format!(
        "see that its file system is mounted, and that '{key}' in the configuration is right"
    );
    findings.push(match &root.look {
        _ if !is_needed && !matches!(root.look, Look::There | Look::Empty) => {
            Finding::ok(key, about, "is not used by this configuration")
        }
        Look::Missing if root.is_source => Finding::error(
            key,
            about,
            "does not exist, so there are no sessions",
            mounted,
        ),
        Look::Missing => Finding::warning(
            key,
            about,
            "does not exist; the job scripts would have to make it",
            format!("{mounted}; for a new study, make the directory"),
        ),
        Look::NotADirectory => Finding::error(
            key,
            about,
            "is not a directory",
            format!("correct '{key}' in the configuration"),
        ),
        Look::Unreadable(error) => Finding::error(
            key,
            about,
            format!("cannot be read: {error}"),
            "the user who runs this needs read and search permission on it",
        ),
        Look::Empty if root.is_source => Finding::warning(
            key,
            about,
            "is empty, so there are no sessions",
            format!("{mounted}; for a new study, wait for the first data"),
        ),
        Look::Empty => Finding::ok(key, about, "is empty: nothing is done yet"),
        Look::There => Finding::ok(key, about, "is there and can be read"),
    });
    if !root.unwritable.is_empty() && matches!(root.look, Look::There | Look::Empty) {
        let paths: Vec<String> = root
            .unwritable
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        findings.push(Finding::warning(
            key,
            super::few(&paths),
            "this user may make nothing in it from this host, and jobs run as this user",
            "give the user write permission, or call the program as the user whose jobs may write there",
        ));
    }
    findings
}

/// Reports that a dataset has no description, which these procedures need.
pub fn no_description(dataset: &Path, procedures: &[String]) -> Finding {
    let file = dataset.join(catalogue::DESCRIPTION);
    let name = dataset.file_name().unwrap_or_default().to_string_lossy();
    let text = catalogue::description(&name);
    Finding::warning(
        "bids_root",
        dataset.display().to_string(),
        format!(
            "has no {}, without which it is no BIDS dataset to {}",
            catalogue::DESCRIPTION,
            few(procedures)
        ),
        format!(
            "the catalogue's heudiconv and dcm2bids write one; otherwise: echo {} >{}",
            shell::quote(&text),
            shell::quote(&file.to_string_lossy())
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn root(look: Look) -> Root<'static> {
        Root {
            key: "bids_root",
            path: Path::new("/b"),
            is_source: false,
            takes_outputs: true,
            look,
            unwritable: Vec::new(),
            stop: None,
        }
    }

    #[test]
    fn each_sight_of_a_root_has_its_level() {
        let unreadable = || Look::Unreadable("Permission denied".to_owned());
        for (look, source, outputs, unused) in [
            (Look::There, Level::Ok, Level::Ok, Level::Ok),
            (Look::Empty, Level::Warning, Level::Ok, Level::Ok),
            (Look::Missing, Level::Error, Level::Warning, Level::Ok),
            (Look::NotADirectory, Level::Error, Level::Error, Level::Ok),
            (unreadable(), Level::Error, Level::Error, Level::Ok),
        ] {
            for (is_source, takes_outputs, expected) in [
                (true, false, source),
                (false, true, outputs),
                (false, false, unused),
            ] {
                let findings = judge(&Root {
                    is_source,
                    takes_outputs,
                    ..root(look.clone())
                });
                assert_eq!(findings.len(), 1);
                assert_eq!(findings[0].level, expected, "{look:?} {is_source}");
                assert_eq!(findings[0].advice.is_none(), expected == Level::Ok);
            }
        }
    }

    #[test]
    fn a_root_that_would_stop_a_run_says_so_and_no_more() {
        let stopped = Root {
            stop: Some((
                "it is empty although 3 were there".into(),
                "mount it".into(),
            )),
            ..root(Look::Empty)
        };
        let findings = judge(&stopped);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Error);
        assert!(findings[0].text.contains("safety stop"));
    }

    #[test]
    fn a_directory_that_jobs_cannot_write_to_is_a_warning() {
        let findings = judge(&Root {
            unwritable: vec!["/b/qc".into()],
            ..root(Look::There)
        });
        assert_eq!(findings[1].level, Level::Warning);
        assert_eq!(findings[1].about, "/b/qc");
    }
}
