//! The files that `init` writes for a site: the configuration and the job scripts, from answers to a few questions.
//!
//! [`survey`] and [`existing`] read the given roots, [`write`] creates the files, and the rest is pure. The dialogue
//! is in `cli/init`.

pub mod existing;
pub mod survey;
pub mod template;
pub mod write;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use crate::base::shell;
use crate::base::text::printable;
use crate::model::bids::SessionSource;
use crate::model::bids::suggest;
use crate::model::bids::suggest::fold;
use crate::model::procedure::MemSize;
use crate::setup::catalogue;
use crate::setup::catalogue::App;

/// The configuration's name in the directory of a study.
pub const CONFIG: &str = "config.yaml";

/// Directory of job scripts in the directory of a study.
pub const SCRIPTS: &str = "scripts";

/// The JSON schema beside the configuration, so that editors do not need a network.
const SCHEMA: &str = ".snbb-schema.json";

/// Default directory of further files in the catalogue's scripts.
const SHARED: &str = "/opt/snbb";

/// Why nothing was written, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}", format!("{} {}", .option, .text).trim_start())]
pub struct InitError {
    /// The option with the wrong value, or empty.
    option: &'static str,
    text: String,
    pub hint: String,
    /// True if the command line is wrong.
    pub is_usage: bool,
}

impl InitError {
    /// An invalid value of an option.
    pub fn wrong(option: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            option,
            text: text.into(),
            hint: hint.into(),
            is_usage: true,
        }
    }

    /// A path that a configuration cannot contain.
    pub fn unfit_path(key: &'static str, path: &Path, why: &str) -> Self {
        let text = format!("{} {why}", shown(path));
        let hint = "rename the directory, or use a link to it with a plain name";
        Self::wrong(key, text, hint)
    }

    pub fn missing(options: &'static str) -> Self {
        Self::wrong(
            "",
            format!("missing {options}"),
            "pass the data directories, such as: snbb-scheduler init /data/study --dicom-root /data/dicom --bids-root \
             /data/bids (only --bids-root for a dataset that is already converted). In a terminal and without --yes, init \
             asks for them",
        )
    }

    pub fn exists(path: &Path) -> Self {
        Self {
            is_usage: false,
            ..Self::wrong(
                "",
                format!("{} already exists; nothing was written", shown(path)),
                "edit the existing files, or set up another directory: snbb-scheduler init DIR; `init --dry-run` prints \
                 the new configuration, so that you can copy parts of it",
            )
        }
    }

    pub fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a directory with write permission: snbb-scheduler init DIR"
            }
            io::ErrorKind::NotADirectory => {
                "a part of the path is a file; choose another directory"
            }
            _ => "free space or choose another directory; no files were left behind",
        };
        let text = format!("cannot {action} {}: {source}", shown(path));
        Self {
            is_usage: false,
            ..Self::wrong("", text, hint)
        }
    }

    /// The error and its hint for the dialogue, where no option was typed.
    pub fn in_dialogue(&self) -> String {
        format!("{} ({})", self.text, self.hint)
    }
}

/// A path for messages, without control characters.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// The input for the files. Paths are absolute and not expanded.
#[derive(Debug, Clone)]
pub struct Answers {
    pub sessions: SessionSource,
    /// `None` if there are no DICOM files, or if a list contains their paths.
    pub dicom_root: Option<PathBuf>,
    /// Subjects in `dicom_root` have no `ses-*` directories.
    pub sessionless: bool,
    pub bids_root: PathBuf,
    pub derivatives_root: PathBuf,
    /// Whether to write the missing description of the dataset.
    pub describes: bool,
    pub state_file: PathBuf,
    pub log_dir: PathBuf,
    /// `None` for a hash of the state file's path.
    pub project: Option<String>,
    pub jobs: Jobs,
    pub mem: Option<MemSize>,
    /// 0 for none.
    pub cpus: Option<u32>,
    /// In the order of the file. If empty, the example is used.
    pub apps: Vec<App>,
}

/// The executor and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jobs {
    Local,
    Slurm {
        /// `None` for Slurm's default.
        partition: Option<String>,
        account: Option<String>,
        /// The directory of its commands, if cron would not find them.
        bin_dir: Option<PathBuf>,
        accounting: bool,
    },
}

/// A file to write.
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

/// All files of a study in `dir`, an absolute path. The configuration comes first.
///
/// # Errors
/// A path that a configuration or a script cannot contain.
pub fn files(answers: &Answers, dir: &Path) -> Result<Vec<NewFile>, InitError> {
    let example = [catalogue::EXAMPLE];
    let apps = match answers.apps.as_slice() {
        [] => &example,
        apps => apps,
    };
    let names: Vec<&str> = apps.iter().map(|app| app.name).collect();
    let entries: Vec<String> = apps.iter().map(|app| app.entry_for(&names, None)).collect();
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
        let text = catalogue::description(answers.project.as_deref().unwrap_or(&name));
        let path = answers.bids_root.join(catalogue::DESCRIPTION);
        files.push(NewFile::plain(path, text + "\n"));
    }
    Ok(files)
}

/// An app's script and the files that it needs, with their paths in `dir`, the directory of the study.
///
/// # Errors
/// A path that a script cannot contain.
pub fn scripts(app: &App, dir: &Path, scripts: &Path) -> Result<Vec<NewFile>, InitError> {
    let mut text = app.script.to_owned();
    let mut files = Vec::new();
    for (name, content) in app.files() {
        let path = scripts.join(name);
        let place = dir.join(&path);
        let place = place.to_str().ok_or_else(|| {
            let why = "is not UTF-8, so a script cannot contain it";
            InitError::unfit_path("the directory", dir, why)
        })?;
        text = text.replace(&format!("{SHARED}/{name}"), &shell::quote(place));
        files.push(NewFile::plain(path, *content));
    }
    let script = NewFile {
        path: scripts.join(format!("{}.sh", app.name)),
        text,
        is_executable: true,
    };
    files.insert(0, script);
    Ok(files)
}

/// The data roots with their keys.
pub fn roots(answers: &Answers) -> impl Iterator<Item = (&'static str, &Path)> {
    let dicom = answers.dicom_root.as_deref();
    let dicom = dicom.map(|root| ("dicom_root", root));
    dicom.into_iter().chain([
        ("bids_root", answers.bids_root.as_path()),
        ("derivatives_root", answers.derivatives_root.as_path()),
    ])
}

/// The chosen apps, each after those that it needs.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub apps: Vec<App>,
    /// Apps that were added automatically, with the app that needs them.
    pub added: Vec<(&'static str, &'static str)>,
}

/// Chooses apps. `converts` means that there are DICOM files to convert.
///
/// # Errors
/// An unknown name; a choice between several needed apps; two converters.
pub fn choose(names: &[String], catalogue: &[App], converts: bool) -> Result<Choice, InitError> {
    let mut named: Vec<&App> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        if !name.is_empty() {
            let app = find(name, catalogue)?;
            named.extend(Some(app).filter(|app| !has(&named, &[app.name])));
        }
    }
    let mut choice = Choice::default();
    let mut at = 0;
    while let Some(app) = named.get(at).copied() {
        at += 1;
        for group in app.needs.iter().filter(|group| !has(&named, group)) {
            let options = catalogue.iter().filter(|other| group.contains(&other.name));
            let options: Vec<&App> = options.collect();
            match options.as_slice() {
                options if !converts && options.iter().all(|app| app.is_converter()) => {}
                [only] => choice.added.push((only.name, app.name)),
                _ => {
                    let (name, either) = (app.name, group.join(" or "));
                    return Err(InitError::wrong(
                        "",
                        format!("{name} needs {either} before it"),
                        format!(
                            "add {either} to --procedures; for a dataset that is already converted, omit --dicom-root instead"
                        ),
                    ));
                }
            }
        }
        for (name, _) in &choice.added {
            let app = catalogue.iter().find(|app| app.name == *name);
            named.extend(app.filter(|app| !has(&named, &[app.name])));
        }
    }
    if let Some(app) = named.iter().find(|app| !converts && app.reads_dicom()) {
        return Err(InitError::wrong(
            "--procedures",
            format!("'{}' reads DICOM files, but none are given", app.name),
            "pass the DICOM files with --dicom-root, or omit this procedure",
        ));
    }
    let mut converters = named.iter().filter(|app| app.is_converter());
    if let (Some(first), Some(second)) = (converters.next(), converters.next()) {
        let (first, second) = (first.name, second.name);
        return Err(InitError::wrong(
            "",
            format!("{first} and {second} both convert DICOM files to the same bids_root"),
            "choose one of them",
        ));
    }
    // In the catalogue's order, but after all apps that they need.
    let is_free = |named: &[&App], app: &App| !app.needs.iter().any(|group| has(named, group));
    while let Some(next) = catalogue
        .iter()
        .find(|app| has(&named, &[app.name]) && is_free(&named, app))
    {
        named.retain(|app| app.name != next.name);
        choice.apps.push((*next).clone());
    }
    Ok(choice)
}

fn has(named: &[&App], any: &[&str]) -> bool {
    named.iter().any(|app| any.contains(&app.name))
}

/// Finds an app by name, ignoring case and dashes.
pub fn find<'a>(name: &str, catalogue: &'a [App]) -> Result<&'a App, InitError> {
    let folded = fold(name);
    if let Some(app) = catalogue.iter().find(|app| fold(app.name) == folded) {
        return Ok(app);
    }
    let known = || catalogue.iter().map(|app| app.name);
    let similar: Vec<&str> = suggest::candidates(name, known()).take(3).collect();
    let hint = match similar.as_slice() {
        [] => format!("available: {}", known().collect::<Vec<_>>().join(", ")),
        similar => format!(
            "did you mean {}? `snbb-scheduler init --list` shows all",
            similar.join(" or ")
        ),
    };
    let text = format!("the catalogue has no procedure '{}'", name.escape_debug());
    Err(InitError::wrong("", text, hint))
}
