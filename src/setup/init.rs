//! What `init` writes for a site: the configuration and the job scripts, from answers to a few questions.
//!
//! Pure but for two files: [`look`] sees what stands at the given roots, [`write`] puts files where none are. Asks
//! nobody and knows no terminal: that is `cli/init`.

pub mod choose;
mod config_file;
pub mod entry;
pub mod error;
pub mod example;
pub mod fit;
pub mod look;
pub mod schema;
pub mod write;
pub mod yaml;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::InitError;

use crate::model::procedure::MemSize;
use crate::setup::catalogue;
use crate::setup::catalogue::App;

/// The configuration's name in the directory of a study.
pub const CONFIG: &str = "config.yaml";

/// Where job scripts are, below the directory of a study.
pub const SCRIPTS: &str = "scripts";

/// Holds all that the files are made of. Paths are absolute and stand for themselves: nothing in them is expanded.
#[derive(Debug, Clone)]
pub struct Answers {
    pub sessions: Sessions,
    pub bids_root: PathBuf,
    pub derivatives_root: PathBuf,
    /// Write the dataset's description, which is missing.
    pub describes: bool,
    pub state_file: PathBuf,
    pub log_dir: PathBuf,
    /// None: a hash of the state file's path.
    pub project: Option<String>,
    pub jobs: Jobs,
    pub mem: Option<MemSize>,
    /// 0: none.
    pub cpus: Option<u32>,
    /// In the order of the file. None: the example.
    pub apps: Vec<App>,
}

/// Says where sessions come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sessions {
    /// DICOM directories `sub-*/ses-*`, or `sub-*` alone.
    Dicom { root: PathBuf, sessionless: bool },
    /// A dataset that arrives converted.
    Bids,
    /// A CSV file.
    List {
        file: PathBuf,
        subject_col: String,
        session_col: String,
        dicom_root: Option<PathBuf>,
    },
}

/// Says what runs the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jobs {
    Local,
    Slurm {
        /// None: Slurm's own default.
        partition: Option<String>,
        account: Option<String>,
        /// Where its commands are, if cron would not find them.
        bin_dir: Option<PathBuf>,
        accounting: bool,
    },
}

/// Is a file that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Relative to the directory of the study, or absolute.
    pub path: PathBuf,
    pub text: String,
    pub is_executable: bool,
}

/// Makes all files of a study whose directory is `dir`, an absolute path. The configuration comes first.
///
/// # Errors
/// A path that a configuration cannot hold; an entry of the catalogue that is none.
pub fn files(answers: &Answers, dir: &Path) -> Result<Vec<NewFile>, InitError> {
    let example = [example::app()];
    let apps = if answers.apps.is_empty() {
        &example[..]
    } else {
        &answers.apps[..]
    };
    let names: Vec<&str> = apps.iter().map(|app| app.name).collect();
    let entries: Vec<String> = apps.iter().map(|app| app.entry_for(&names)).collect();
    let mut files = vec![
        NewFile {
            path: CONFIG.into(),
            text: config_file::text(answers, dir, &entries)?,
            is_executable: false,
        },
        NewFile {
            path: schema::FILE.into(),
            text: schema::TEXT.to_owned(),
            is_executable: false,
        },
    ];
    for app in apps {
        files.extend(entry::files(app, dir)?);
    }
    if answers.describes {
        let name = answers.bids_root.file_name().unwrap_or_default();
        let name = answers
            .project
            .clone()
            .unwrap_or_else(|| name.to_string_lossy().into_owned());
        files.push(NewFile {
            path: answers.bids_root.join(catalogue::DESCRIPTION),
            text: catalogue::description(&name) + "\n",
            is_executable: false,
        });
    }
    Ok(files)
}

/// Returns the root that a path lies in, if any: a study's own files have no place there.
pub fn root_around<'a>(answers: &'a Answers, path: &Path) -> Option<(&'static str, &'a Path)> {
    roots(answers).find(|(_, root)| path.starts_with(root))
}

/// Returns the data roots with their keys.
pub fn roots(answers: &Answers) -> impl Iterator<Item = (&'static str, &Path)> {
    let dicom = match &answers.sessions {
        Sessions::Dicom { root, .. } => Some(root),
        Sessions::List { dicom_root, .. } => dicom_root.as_ref(),
        Sessions::Bids => None,
    };
    dicom
        .map(|root| ("dicom_root", root.as_path()))
        .into_iter()
        .chain([
            ("bids_root", answers.bids_root.as_path()),
            ("derivatives_root", answers.derivatives_root.as_path()),
        ])
}
