//! What `init` writes for a site: the configuration and the job scripts, from answers to a few questions.
//!
//! Pure but for two files: [`look`] sees what stands at the given roots, [`write`] puts files where none are. Asks
//! nobody and knows no terminal: that is `cli/init`.

pub mod add;
pub mod choose;
pub mod error;
pub mod existing;
pub mod look;
mod template;
pub mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::InitError;

use crate::base::shell;
use crate::model::bids::SessionSource;
use crate::model::procedure::MemSize;
use crate::setup::catalogue;
use crate::setup::catalogue::App;

/// The configuration's name in the directory of a study.
pub const CONFIG: &str = "config.yaml";

/// Where job scripts are, below the directory of a study.
pub const SCRIPTS: &str = "scripts";

/// The JSON Schema beside the configuration, so that editors know its keys without a network.
const SCHEMA: &str = ".snbb-schema.json";

/// Where scripts of the catalogue look for the files that they need, unless a variable says otherwise.
const SHARED: &str = "/opt/snbb";

/// All that the files are made of. Paths are absolute and stand for themselves: nothing in them is expanded.
#[derive(Debug, Clone)]
pub struct Answers {
    pub sessions: SessionSource,
    /// None: there are no DICOM files, or only a list says where.
    pub dicom_root: Option<PathBuf>,
    /// Subjects have no `ses-*` below `dicom_root`.
    pub sessionless: bool,
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

/// What runs the jobs.
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

/// A file that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Relative to the directory of the study, or absolute.
    pub path: PathBuf,
    pub text: String,
    pub is_executable: bool,
}

impl NewFile {
    fn plain(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
            is_executable: false,
        }
    }
}

/// Makes all files of a study whose directory is `dir`, an absolute path. The configuration comes first.
///
/// # Errors
/// A path that a configuration or a script cannot hold.
pub fn files(answers: &Answers, dir: &Path) -> Result<Vec<NewFile>, InitError> {
    let example = [catalogue::EXAMPLE];
    let apps = match answers.apps.as_slice() {
        [] => example.as_slice(),
        apps => apps,
    };
    let names: Vec<&str> = apps.iter().map(|app| app.name).collect();
    let entries: Vec<String> = apps.iter().map(|app| app.entry_for(&names)).collect();
    let schema = include_str!("../../docs/schema/config.json");
    let mut files = vec![
        NewFile::plain(CONFIG, template::text(answers, dir, &entries)?),
        NewFile::plain(SCHEMA, schema),
    ];
    for app in apps {
        files.extend(scripts(app, dir, Path::new(SCRIPTS))?);
    }
    if answers.describes {
        let name = answers.bids_root.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let name = answers.project.as_deref().unwrap_or(&name);
        files.push(NewFile::plain(
            answers.bids_root.join(catalogue::DESCRIPTION),
            catalogue::description(name) + "\n",
        ));
    }
    Ok(files)
}

/// Returns an app's script and the files beside it, for a study in the directory `dir`. The script looks for them there.
///
/// # Errors
/// A path that a script cannot hold.
pub fn scripts(app: &App, dir: &Path, scripts: &Path) -> Result<Vec<NewFile>, InitError> {
    let mut text = app.script.to_owned();
    let mut files = Vec::new();
    for (name, content) in app.files() {
        let path = scripts.join(name);
        let place = dir.join(&path);
        let Some(place) = place.to_str() else {
            let why = "is not UTF-8, which a script must be";
            return Err(InitError::unfit_path("the directory", dir, why));
        };
        text = text.replace(&format!("{SHARED}/{name}"), &shell::quote(place));
        files.push(NewFile::plain(path, *content));
    }
    let script = NewFile::plain(scripts.join(app.script_name()), text);
    let script = NewFile {
        is_executable: true,
        ..script
    };
    files.insert(0, script);
    Ok(files)
}

/// Returns the root that a path lies in, if any: a study's own files have no place there.
pub fn root_around<'a>(answers: &'a Answers, path: &Path) -> Option<(&'static str, &'a Path)> {
    roots(answers).find(|(_, root)| path.starts_with(root))
}

/// Returns the data roots with their keys.
fn roots(answers: &Answers) -> impl Iterator<Item = (&'static str, &Path)> {
    let dicom = answers.dicom_root.as_deref();
    dicom.map(|root| ("dicom_root", root)).into_iter().chain([
        ("bids_root", answers.bids_root.as_path()),
        ("derivatives_root", answers.derivatives_root.as_path()),
    ])
}
