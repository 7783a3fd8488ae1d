//! The names of a state's files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::StateError;
use crate::disk::annex;

/// Names the files of one study's state. All stand in the directory of the state file itself
/// (links are followed, so that the link stays).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePaths {
    /// `<state_file>`
    pub state: PathBuf,
    /// `<state_file>.bak`
    pub backup: PathBuf,
    /// `<stem>.attempts.parquet`; the stem is the state file's name without `.parquet`, any other name is whole.
    pub attempts: PathBuf,
    /// `<stem>.journal.jsonl`
    pub journal: PathBuf,
    /// `<stem>.lock`
    pub lock: PathBuf,
    /// `<stem>.control.json`
    pub control: PathBuf,
    /// `<stem>.calls.json`: what earlier calls said and did, for digests and metrics. Not part of the state.
    pub calls: PathBuf,
    /// `<stem>.local`: directory of the local executor's records.
    pub local: PathBuf,
    /// `<stem>.arrays`: directory of the task lists of job arrays.
    pub arrays: PathBuf,
}

impl StatePaths {
    /// Names the files for a state file of this path. Symbolic links of the file are followed,
    /// also if there is nothing at their end yet.
    pub fn of(state_file: &Path) -> Result<Self, StateError> {
        let state = resolve(state_file)?;
        let bad = |reason| StateError::Path {
            path: state_file.to_owned(),
            reason,
        };
        let Some(name) = state.file_name().map(OsStr::to_owned) else {
            return Err(bad("it has no file name"));
        };
        let stem = stem_of(&name);
        let beside = |stem: &OsStr, end: &str| {
            let mut name = OsString::from(stem);
            name.push(end);
            state.with_file_name(name)
        };
        let paths = Self {
            backup: beside(&name, ".bak"),
            attempts: beside(stem, ".attempts.parquet"),
            journal: beside(stem, ".journal.jsonl"),
            lock: beside(stem, ".lock"),
            control: beside(stem, ".control.json"),
            calls: beside(stem, ".calls.json"),
            local: beside(stem, ".local"),
            arrays: beside(stem, ".arrays"),
            state,
        };
        if paths.beside().contains(&&paths.state) {
            return Err(bad("its name is that of another file of the state"));
        }
        paths.check_names(stem)?;
        Ok(paths)
    }

    /// The files beside the state file.
    pub fn beside(&self) -> [&PathBuf; 6] {
        [
            &self.backup,
            &self.attempts,
            &self.journal,
            &self.lock,
            &self.control,
            &self.calls,
        ]
    }

    /// Refuses a state file whose files beside it may be those of another one.
    fn check_names(&self, stem: &OsStr) -> Result<(), StateError> {
        let beside = |stem: &OsStr, end: &str| {
            let mut name = OsString::from(stem);
            name.push(end);
            self.state.with_file_name(name)
        };
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let twin = match self.state.file_name() == Some(stem) {
            true => beside(stem, PARQUET),
            false => self.state.with_file_name(stem),
        };
        if is_there(&twin) {
            return Err(StateError::Twin {
                path: self.state.clone(),
                twin,
            });
        }
        // Earlier versions took any extension off.
        let before = Path::new(stem).file_stem().filter(|before| *before != stem);
        if let Some(before) = before
            && !is_there(&beside(before, PARQUET))
        {
            let ends = [
                ".journal.jsonl",
                ".lock",
                ".attempts.parquet",
                ".control.json",
                ".arrays",
                ".local",
            ];
            if let Some(old) = ends
                .iter()
                .map(|end| beside(before, end))
                .find(|old| is_there(old))
            {
                return Err(StateError::OldName {
                    path: self.state.clone(),
                    old,
                    stem: stem.to_string_lossy().into_owned(),
                });
            }
        }
        Ok(())
    }
}

const PARQUET: &str = ".parquet";

/// Returns what the names of the files beside a state file begin with: its whole name, but for `.parquet`.
fn stem_of(name: &OsStr) -> &OsStr {
    match Path::new(name).extension() {
        Some(end) if end == "parquet" => Path::new(name).file_stem().unwrap_or(name),
        _ => name,
    }
}

/// Follows the symbolic links of a file's last component.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, StateError> {
    let failed = |source| StateError::Io {
        action: "follow",
        path: path.to_owned(),
        source,
    };
    let mut now = std::path::absolute(path).map_err(failed)?;
    // The kernel's own limit.
    for _ in 0..40 {
        match now.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                let target = now.read_link().map_err(failed)?;
                if annex::elsewhere(target.as_os_str().as_encoded_bytes()).is_some() {
                    return Err(StateError::Annexed { path: now });
                }
                now = match now.parent() {
                    Some(parent) => parent.join(target),
                    None => target,
                };
            }
            Ok(_) => return Ok(now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(now),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(io::Error::from(rustix::io::Errno::LOOP)))
}
