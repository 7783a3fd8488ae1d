//! Where the outputs of complete tasks lie: directories, and the files in them.
//!
//! Reads only. Links are listed and never followed.

use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::config::Config;
use crate::manifest::Planned;
use crate::procedure::{Check, Procedure};
use crate::request::output_dir;

/// Says what could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", .path.display())]
pub struct OutputError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Returns the directories (or single files) that hold a task's outputs, those that are there, sorted.
///
/// FreeSurfer keeps each session's run and each longitudinal one beside the subject's own
/// (`<sub>_<ses>`, `<sub>_<ses>.long.<sub>`); QSIRecon keeps each workflow in a dataset of its own
/// (`derivatives/qsirecon-<suffix>`), with a report beside the subjects.
pub fn places(
    config: &Config,
    procedure: &Procedure,
    task: &Planned,
) -> Result<Vec<PathBuf>, OutputError> {
    let mut places: Vec<PathBuf> = there(output_dir(config, procedure, task))?
        .into_iter()
        .collect();
    let top = config.derivatives_root.join(&procedure.output_dir);
    let (subject, session) = (task.subject.as_str(), task.session.as_str());
    match procedure.check {
        Check::Markers => {}
        Check::Freesurfer => {
            let prefix = format!("{subject}_");
            for (name, path) in children(&top)? {
                if name == subject.as_bytes() || name.starts_with(prefix.as_bytes()) {
                    places.push(path);
                }
            }
        }
        Check::Qsirecon => {
            let report = match session {
                "" => format!("{subject}.html"),
                _ => format!("{subject}_{session}.html"),
            };
            for (name, dataset) in children(&top.join("derivatives"))? {
                if name.starts_with(b".") {
                    continue;
                }
                places.extend(there(dataset.join(subject).join(session))?);
                places.extend(there(dataset.join(&report))?);
            }
        }
    }
    places.sort();
    places.dedup();
    Ok(places)
}

/// Returns the files and links below a directory, sorted; of a file itself.
pub fn files(place: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let mut found = Vec::new();
    let walk = WalkDir::new(place)
        .follow_links(false)
        .follow_root_links(true)
        .sort_by_file_name();
    for entry in walk {
        let entry = entry.map_err(|error| OutputError {
            path: error.path().unwrap_or(place).to_owned(),
            source: error.into(),
        })?;
        let kind = entry.file_type();
        if kind.is_file() || kind.is_symlink() {
            found.push(entry.into_path());
        }
    }
    Ok(found)
}

/// Returns a path without the empty session's part, if something stands there.
fn there(path: PathBuf) -> Result<Option<PathBuf>, OutputError> {
    let path: PathBuf = path.components().collect();
    match path.metadata() {
        Ok(_) => Ok(Some(path)),
        Err(source) if is_absent(&source) => Ok(None),
        Err(source) => Err(OutputError { path, source }),
    }
}

/// Returns names and paths of a directory's entries.
fn children(directory: &Path) -> Result<Vec<(Vec<u8>, PathBuf)>, OutputError> {
    let mut found = Vec::new();
    for entry in WalkDir::new(directory).min_depth(1).max_depth(1) {
        match entry {
            Ok(entry) => found.push((
                entry.file_name().as_encoded_bytes().to_vec(),
                entry.into_path(),
            )),
            Err(error) => {
                let path = error.path().unwrap_or(directory).to_owned();
                let source = io::Error::from(error);
                if !is_absent(&source) {
                    return Err(OutputError { path, source });
                }
            }
        }
    }
    Ok(found)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
