//! The paths of a state's files.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::StateError;
use crate::base::durable::with_ending;
use crate::base::regular::open_regular;
use crate::model::annex;

/// The paths of one study's files. All are in the directory of the state file itself (links are
/// followed, so that a save keeps the link).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePaths {
    /// `<state_file>`
    pub state: PathBuf,
    /// `<state_file>.bak`
    pub backup: PathBuf,
    /// `<stem>.attempts.parquet`; the stem is the state file's name without `.parquet`.
    pub attempts: PathBuf,
    /// `<stem>.journal.jsonl`
    pub journal: PathBuf,
    /// `<stem>.lock`
    pub lock: PathBuf,
    /// `<stem>.control.json`
    pub control: PathBuf,
    /// `<stem>.calls.json`: a record of earlier invocations, for digests and metrics. Not part of the state.
    pub calls: PathBuf,
    /// `<stem>.local`: directory of the local executor's records.
    pub local: PathBuf,
    /// `<stem>.arrays`: directory of the task lists of job arrays.
    pub arrays: PathBuf,
}

impl StatePaths {
    /// The paths for this state file. Follows symbolic links of the file, even if their target does
    /// not exist yet.
    pub fn of(state_file: &Path) -> Result<Self, StateError> {
        let state = resolve(state_file)?;
        let name = state.file_name().unwrap_or_default();
        let is_taken = |end: &&str| name.as_encoded_bytes().ends_with(end.as_bytes());
        if name.is_empty() || ENDINGS.iter().chain(&[BACKUP]).any(is_taken) {
            let file = state_file.display();
            return Err(StateError::refused(
                format!(
                    "cannot use {file} as state file: it has no name, or that of another file of the state"
                ),
                "set state_file to the path of a file, such as .scheduler_state.parquet",
            ));
        }
        let stem = match Path::new(name).extension() {
            Some(end) if end == "parquet" => Path::new(name).file_stem().unwrap_or(name),
            _ => name,
        };
        // Another state file that would share the other files.
        let end = if stem == name { ".parquet" } else { "" };
        let stem = state.with_file_name(stem);
        let twin = with_ending(&stem, end);
        if is_parquet(&twin) {
            let (state, twin) = (state.display(), twin.display());
            return Err(StateError::refused(
                format!("{state} and {twin} would share their lock and journal"),
                "keep only one of them in this directory",
            ));
        }
        let [attempts, journal, lock, control, calls, local, arrays] =
            ENDINGS.map(|end| with_ending(&stem, end));
        Ok(Self {
            backup: with_ending(&state, BACKUP),
            attempts,
            journal,
            lock,
            control,
            calls,
            local,
            arrays,
            state,
        })
    }

    /// The path of the state file with all links resolved; `None` if it is not UTF-8.
    pub fn real_path(&self) -> Option<String> {
        let directory = std::fs::canonicalize(self.state.parent()?).ok()?;
        let path = directory.join(self.state.file_name()?);
        Some(path.to_str()?.to_owned())
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
}

/// True for a file that may be a state; other files may have such a name too.
fn is_parquet(path: &Path) -> bool {
    let mut mark = [0; 4];
    open_regular(path).is_ok_and(|mut file| file.read_exact(&mut mark).is_ok() && mark == *b"PAR1")
}

const BACKUP: &str = ".bak";

/// Endings of the names of the other files, which begin with the state file's name without `.parquet`.
const ENDINGS: [&str; 7] = [
    ".attempts.parquet",
    ".journal.jsonl",
    ".lock",
    ".control.json",
    ".calls.json",
    ".local",
    ".arrays",
];

/// Follows the symbolic links of a file's last component.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, StateError> {
    let failed = StateError::io("follow", path);
    let mut now = std::path::absolute(path).map_err(&failed)?;
    // The kernel's limit.
    for _ in 0..40 {
        match now.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                let target = now.read_link().map_err(&failed)?;
                if annex::elsewhere(target.as_os_str().as_encoded_bytes()).is_some() {
                    return Err(StateError::Annexed(now));
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
