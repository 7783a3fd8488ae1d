//! Reads the files of the state, and replaces them so that a crash leaves the old or the new one.
//!
//! Only a [`LockedStore`] can write. A file that cannot be read is an error, never an empty state.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::journal::{self, Entry, Extent, JournalError};
use super::lock::{Lock, LockError};
use super::schema::{self, Contents, FORMAT_VERSION, ReadError};
use crate::base::durable::{self, ReplaceError};
use crate::base::regular::{FileError, identity, if_exists, is_local};
use crate::base::sys;
use crate::model::state::table::{Metadata, Origin};
use crate::model::state::{State, TaskRow};

mod locked;
mod paths;

pub use locked::Rebuilding;
pub use paths::StatePaths;
pub(crate) use paths::resolve;

/// The state of one study, for reading.
#[derive(Debug, Clone)]
pub struct Store {
    pub paths: StatePaths,
}

/// The state of one study, for reading and writing while the lock is held.
#[derive(Debug)]
pub struct LockedStore {
    pub store: Store,
    lock: Lock,
    /// The journal that this process writes, once opened.
    opened: Mutex<Option<Opened>>,
}

#[derive(Debug, Clone)]
struct Opened {
    /// The journal before it was opened, if it existed.
    before: Option<JournalMark>,
    now: Extent,
}

/// Inode and length: a journal only grows.
type JournalMark = (u64, u64);

/// An error of a file of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Io(#[from] FileError),
    #[error("{} is damaged: {error}", .path.display())]
    Damaged { path: PathBuf, error: ReadError },
    #[error("cannot read {} as a state file: {error}", .path.display())]
    NotUnderstood { path: PathBuf, error: ReadError },
    #[error("{} was changed by another process meanwhile; nothing was overwritten", .0.display())]
    Conflict(PathBuf),
    /// All rows were saved.
    #[error("another process wrote to {} at the same time; the file was kept for the next run", .0.display())]
    Shared(PathBuf),
    #[error("{} belongs to {}, but this command runs as {}", .path.display(), sys::user(*.owner), sys::user(*.user))]
    OtherOwner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
    #[error("{} is a file of git-annex", .0.display())]
    Annexed(PathBuf),
    /// The files are in order, but this command must not use them.
    #[error("{text}")]
    Refused { text: String, hint: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl StateError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let failed = FileError::of(action, path);
        move |source| failed(source).into()
    }

    pub(crate) fn refused(text: String, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        Self::Refused { text, hint }
    }

    /// How to fix it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io(error) => match error.source.kind() {
                io::ErrorKind::IsADirectory => "state_file must be a file",
                _ => durable::hint(&error.source)?,
            },
            Self::Damaged { path, .. } if !is_local(path) => {
                return Some(format!(
                    "run again in a minute, because another node may have just replaced it; if it stays damaged: {DAMAGE_HINT}"
                ));
            }
            Self::Damaged { .. } => DAMAGE_HINT,
            Self::NotUnderstood { path, .. } => {
                return Some(format!(
                    "correct {} with the program that wrote it (for example pandas); it was not changed",
                    path.display()
                ));
            }
            Self::Conflict(_) => "run the command again",
            Self::Shared(_) => {
                "run snbb-scheduler on one host only, since locks do not work between these processes; then run again (nothing is lost)"
            }
            Self::OtherOwner { .. } => {
                "run the command as that user, or add --as-owner to continue anyway (Slurm may hide the owner's jobs from you)"
            }
            Self::Annexed(path) => {
                return Some(format!(
                    "run `git annex unlock {}`, since git-annex files must not change, and add the state's files to .gitignore",
                    path.display()
                ));
            }
            Self::Refused { hint, .. } => hint,
            Self::Journal(error) => error.hint(),
            Self::Lock(error) => error.hint(),
        };
        Some(hint.to_owned())
    }
}

impl From<ReplaceError> for StateError {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Changed(path) => Self::Conflict(path),
            ReplaceError::Io { error, .. } => Self::Io(error),
        }
    }
}

/// The remedy for a damaged file.
const DAMAGE_HINT: &str = "run `snbb-scheduler state repair` to see what can be rebuilt from its backup, \
     the journal, the audit log and Slurm; the file was not changed";

/// Number of tries of a reader while a writer replaces the files.
pub(super) const TRIES: usize = 3;

/// Time for which a file on a network file system may look damaged because this node still shows the size that it had
/// before another node replaced it. FUSE file systems cache for 1 s, NFS for 3 s at least.
const CACHED_FOR: Duration = Duration::from_secs(10);

impl Store {
    pub fn at(state_file: &Path) -> Result<Self, StateError> {
        Ok(Self {
            paths: StatePaths::of(state_file)?,
        })
    }

    /// Reads the state file and the journal. A missing file is an empty state; an unreadable file is
    /// an error. Problems to report are in [`State::warnings`].
    pub fn read(&self) -> Result<State, StateError> {
        self.read_with(|| Ok(journal::read(&self.paths.journal)?))
    }

    /// The journal is read before the state file: a fold writes the state file first and then removes
    /// the journal, so that a reader may find an entry in both, but never in neither. If the journal
    /// was removed meanwhile, its entries may be older than the rows: read again.
    fn read_with(
        &self,
        mut entries: impl FnMut() -> Result<Vec<Entry>, StateError>,
    ) -> Result<State, StateError> {
        let mut tries = 1;
        loop {
            // Held open, so that no new journal can get its inode meanwhile.
            let held = self.open_journal()?;
            let before = held.as_ref().map(|(_, mark)| *mark);
            let entries = match held {
                Some(_) => entries()?,
                None => Vec::new(),
            };
            let mut state = self.read_file()?;
            let is_there_still = match (before, self.journal_mark()?) {
                (None, _) => true,
                (Some((before, _)), Some((after, _))) => before == after,
                (Some(_), None) => false,
            };
            if is_there_still || tries == TRIES {
                if !entries.is_empty() {
                    journal::replay(&entries, &mut state);
                    entries.iter().for_each(|entry| entry.fill(&mut state.meta));
                }
                state.origin.journal = before;
                return Ok(state);
            }
            tries += 1;
        }
    }

    fn read_file(&self) -> Result<State, StateError> {
        let Some(contents) = self.load(&self.paths.state)? else {
            return Ok(State::default());
        };
        let mut state = State::from_rows(contents.rows, contents.other_columns, contents.meta);
        state.origin = Origin {
            state: Some(contents.identity),
            journal: None,
        };
        let path = self.paths.state.display();
        let warnings = contents.warnings.into_iter();
        state
            .warnings
            .extend(warnings.map(|warning| format!("{path}: {warning}")));
        Ok(state)
    }

    /// Reads earlier attempts, oldest first. A crash between the two files of a save can leave an
    /// attempt here that is still the newest one in the state.
    pub fn read_attempts(&self) -> Result<Vec<TaskRow>, StateError> {
        let contents = self.load(&self.paths.attempts)?;
        Ok(contents.map_or_else(Vec::new, |contents| contents.rows))
    }

    /// The metadata of a study whose state file is gone, from the copies beside it.
    pub fn meta_of_copies(&self) -> Option<Metadata> {
        [&self.paths.backup, &self.paths.attempts]
            .into_iter()
            .filter_map(|path| Some(self.load(path).ok()??.meta))
            .find(|meta| self.original(meta).is_none())
    }

    /// The state file of which this one is a copy, if the study continues there: both would treat each other's jobs
    /// as their own. If the path is not visible from here, the study was moved.
    pub fn original(&self, meta: &Metadata) -> Option<PathBuf> {
        let path = Path::new(meta.path.as_deref()?);
        let identity = |path: &Path| path.metadata().ok().map(|found| identity(&found));
        let there = identity(path)?;
        // A client of a file server may still see the file that the last save replaced, now the backup.
        let names = [&self.paths.state, &self.paths.backup];
        if names.iter().any(|own| identity(own) == Some(there)) {
            return None;
        }
        // Two mounts of one directory have different devices, but the same lock file.
        let lock = |paths: &StatePaths| std::fs::read(&paths.lock).ok();
        let held = StatePaths::of(path).ok().and_then(|paths| lock(&paths));
        if held.is_some() && held == lock(&self.paths) {
            return None;
        }
        match self.load(path) {
            Ok(None) => None,
            // A file without a project was rewritten by another program, so it does not prove another study.
            Ok(Some(found))
                if found.meta.project.is_some() && found.meta.project != meta.project =>
            {
                None
            }
            _ => Some(path.to_owned()),
        }
    }

    /// Waits for the lock. Creates the directory of the state if needed.
    pub fn lock(self, command: &str, timeout: Duration) -> Result<LockedStore, LockError> {
        durable::make_directory_of(&self.paths.lock)
            .map_err(FileError::of("create the directory of", &self.paths.lock))?;
        let lock = Lock::acquire(&self.paths.lock, command, timeout)?;
        Ok(self.locked_by(lock))
    }

    /// Uses a lock that the caller took. With [`Lock::unlocked`], tests see what happens without a lock.
    pub fn locked_by(self, lock: Lock) -> LockedStore {
        LockedStore {
            store: self,
            lock,
            opened: Mutex::new(None),
        }
    }

    /// Reads a Parquet file through one descriptor, so that a replacement meanwhile does not matter.
    pub(crate) fn load(&self, path: &Path) -> Result<Option<Contents>, StateError> {
        let since = Instant::now();
        loop {
            let bytes = durable::read(path)?;
            let Some(bytes) = bytes else { return Ok(None) };
            match schema::file::read(bytes.into()) {
                Err(error)
                    if error.is_damage() && since.elapsed() < CACHED_FOR && !is_local(path) =>
                {
                    std::thread::sleep(Duration::from_millis(500));
                }
                Ok(contents) => return Ok(Some(contents)),
                Err(error) => {
                    let path = path.to_owned();
                    return Err(match error.is_damage() {
                        true => StateError::Damaged { path, error },
                        false => StateError::NotUnderstood { path, error },
                    });
                }
            }
        }
    }

    pub(crate) fn journal_mark(&self) -> Result<Option<JournalMark>, StateError> {
        Ok(self.open_journal()?.map(|(_, mark)| mark))
    }

    /// Opens the journal, because on NFS only opening asks the server.
    fn open_journal(&self) -> Result<Option<(File, JournalMark)>, StateError> {
        let path = &self.paths.journal;
        let open = || {
            let file = durable::open_again(path)?;
            let metadata = file.metadata()?;
            Ok((file, (metadata.ino(), metadata.len())))
        };
        if_exists(open()).map_err(StateError::io("read", path))
    }
}

/// Refuses to write to the copy of a study.
pub fn check_original(store: &Store, meta: &Metadata) -> Result<(), StateError> {
    let paths = &store.paths;
    let Some(original) = store.original(meta) else {
        return Ok(());
    };
    let original = original.display();
    let files = [&paths.state, &paths.backup, &paths.journal];
    let [state, backup, journal] = files.map(|path| path.display());
    let copied = match paths.state.symlink_metadata() {
        Ok(_) => &state,
        Err(_) => &journal,
    };
    Err(StateError::refused(
        format!("{copied} is a copy of {original}, and its jobs belong to the study there"),
        format!(
            "to continue that study here, move {original} away; to start a new study here, remove {state}, {backup}, \
             {journal}"
        ),
    ))
}

/// Refuses to write to another user's state: Slurm may hide the owner's jobs.
pub fn check_owner(paths: &StatePaths, meta: &Metadata, user: u32) -> Result<(), StateError> {
    match meta.owner_uid {
        Some(owner) if owner != user => Err(StateError::OtherOwner {
            path: paths.state.clone(),
            owner,
            user,
        }),
        _ => Ok(()),
    }
}

fn refuse_newer(path: &Path, meta: &Metadata) -> Result<(), StateError> {
    if meta.format_version > FORMAT_VERSION {
        let (path, found) = (path.display(), meta.format_version);
        return Err(StateError::refused(
            format!(
                "{path} has format version {found}, but this program writes version {FORMAT_VERSION}"
            ),
            "use the newer snbb-scheduler that wrote it; this version can read the file, but not write it",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
