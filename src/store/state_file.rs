//! The files of the state: reading, and replacing them so that a crash leaves the old or the new.
//!
//! Only a [`LockedStore`] can write. A file that cannot be read is an error, never an empty state.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::journal::{self, Entry, Extent};
use super::lock::{Lock, LockError};
use super::schema;
use super::schema::{Contents, FORMAT_VERSION};
use crate::base::durable;
use crate::base::durable::{ReplaceError, Replacement};
use crate::base::regular::{FileError, is_local, open_regular};
use crate::model::state::table::{Identity, Metadata, Origin};
use crate::model::state::{State, TaskRow};

mod attempts;
mod error;
mod locked;
mod paths;
mod rebuilt;

pub use error::StateError;
pub use paths::StatePaths;
pub(crate) use paths::resolve;
pub use rebuilt::Rebuilding;

/// Reads the state of one study.
#[derive(Debug, Clone)]
pub struct Store {
    pub paths: StatePaths,
}

/// Reads and writes it, while the lock is held.
#[derive(Debug)]
pub struct LockedStore {
    pub store: Store,
    lock: Lock,
    /// The journal that this process writes. None: not opened.
    opened: Mutex<Option<Opened>>,
}

#[derive(Debug, Clone)]
struct Opened {
    /// The journal as it was before. None: there was none.
    before: Option<JournalMark>,
    now: Extent,
}

/// Inode and length: a journal only grows.
type JournalMark = (u64, u64);

/// A reader that is overtaken by a writer looks again, this often.
const TRIES: usize = 3;

/// Time for which a file on a network file system may look damaged because this node still shows the size that it had
/// before another node replaced it. FUSE file systems cache for 1 s, NFS for 3 s at least.
const CACHED_FOR: Duration = Duration::from_secs(10);

impl Store {
    pub fn at(state_file: &Path) -> Result<Self, StateError> {
        Ok(Self {
            paths: StatePaths::of(state_file)?,
        })
    }

    /// Reads the state file and the journal. A missing file is an empty state; one that cannot be
    /// read never is. What a person should hear of is in [`State::warnings`].
    pub fn read(&self) -> Result<State, StateError> {
        self.read_with(|| Ok(journal::read(&self.paths.journal)?))
    }

    /// The journal is read before the state file: whoever folds it writes the state file first and
    /// removes the journal then, so that a reader may find an entry in both, but never in neither.
    /// If the journal went away meanwhile, its entries may be older than the rows: look again.
    fn read_with(
        &self,
        mut entries: impl FnMut() -> Result<Vec<Entry>, StateError>,
    ) -> Result<State, StateError> {
        let mut tries = 1;
        loop {
            // Held open, so that its inode cannot become another journal's meanwhile.
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

    /// Reads the state file alone.
    fn read_file(&self) -> Result<State, StateError> {
        let Some(contents) = self.load(&self.paths.state)? else {
            return Ok(State::default());
        };
        let mut state = State::from_rows(contents.rows, contents.other_columns, contents.meta);
        state.origin = Origin {
            state: Some(contents.identity),
            journal: None,
        };
        for warning in contents.warnings {
            state.add_warning(format!("{}: {warning}", self.paths.state.display()));
        }
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

    /// The state file of which this one is a copy, if the study goes on there: both would take each other's jobs for
    /// their own. A path that cannot be seen from here is that of a study which was moved.
    pub fn original(&self, meta: &Metadata) -> Option<PathBuf> {
        let path = Path::new(meta.path.as_deref()?);
        let identity = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let there = identity(path)?;
        // A client of a file server may still see the file that the last save replaced, which is the backup now.
        let names = [&self.paths.state, &self.paths.backup];
        if names.iter().any(|own| identity(own) == Some(there)) {
            return None;
        }
        // Two mounts of one directory have different devices, but show one lock.
        let lock = |paths: &StatePaths| std::fs::read(&paths.lock).ok();
        let held = StatePaths::of(path).ok().and_then(|paths| lock(&paths));
        if held.is_some() && held == lock(&self.paths) {
            return None;
        }
        match self.load(path) {
            Ok(None) => None,
            // A file without a project was rewritten by another program: it proves no other study.
            Ok(Some(found))
                if found.meta.project.is_some() && found.meta.project != meta.project =>
            {
                None
            }
            _ => Some(path.to_owned()),
        }
    }

    /// Waits for the lock. The directory of the state is made if need be.
    pub fn lock(self, command: &str, timeout: Duration) -> Result<LockedStore, LockError> {
        durable::make_directory_of(&self.paths.lock)
            .map_err(FileError::of("make the directory of", &self.paths.lock))?;
        let lock = Lock::acquire(&self.paths.lock, command, timeout)?;
        Ok(self.locked_by(lock))
    }

    /// Goes on under a lock that the caller took; [`Lock::unlocked`] shows what a lock that lies does.
    pub fn locked_by(self, lock: Lock) -> LockedStore {
        LockedStore {
            store: self,
            lock,
            opened: Mutex::new(None),
        }
    }

    /// Reads a Parquet file, through one descriptor: a replacement meanwhile does not matter.
    pub(crate) fn load(&self, path: &Path) -> Result<Option<Contents>, StateError> {
        let mut tries = 1;
        let since = Instant::now();
        loop {
            let bytes = match read_whole(path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) if durable::is_stale(&error) && tries < TRIES => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(StateError::io("read", path)(error)),
            };
            match schema::file::read(bytes.into()) {
                Err(error)
                    if error.is_damage() && since.elapsed() < CACHED_FOR && !is_local(path) =>
                {
                    std::thread::sleep(Duration::from_millis(500));
                }
                result => return result.map(Some).map_err(|error| explain(path, error)),
            }
        }
    }

    pub(crate) fn journal_mark(&self) -> Result<Option<JournalMark>, StateError> {
        Ok(self.open_journal()?.map(|(_, mark)| mark))
    }

    /// Opens the journal, since on NFS only that asks the server.
    fn open_journal(&self) -> Result<Option<(File, JournalMark)>, StateError> {
        let path = &self.paths.journal;
        let open = || {
            let file = durable::open_again(path)?;
            let metadata = file.metadata()?;
            Ok((file, (metadata.ino(), metadata.len())))
        };
        match open() {
            Ok(found) => Ok(Some(found)),
            Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::io("read", path)(error)),
        }
    }
}

/// Stops a command that writes on the copy of a study.
pub fn check_original(store: &Store, meta: &Metadata) -> Result<(), StateError> {
    let paths = &store.paths;
    match store.original(meta) {
        Some(original) => Err(StateError::Copied {
            path: match paths.state.symlink_metadata() {
                Ok(_) => paths.state.clone(),
                Err(_) => paths.journal.clone(),
            },
            files: [&paths.state, &paths.backup, &paths.journal]
                .map(|path| path.display().to_string())
                .join(", "),
            original,
        }),
        None => Ok(()),
    }
}

/// Stops a command that writes, if the state is another user's: Slurm may hide the owner's jobs.
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
        return Err(StateError::Newer {
            path: path.to_owned(),
            found: meta.format_version,
        });
    }
    Ok(())
}

fn explain(path: &Path, error: schema::ReadError) -> StateError {
    if !error.is_damage() {
        return StateError::NotUnderstood {
            path: path.to_owned(),
            error,
        };
    }
    StateError::Damaged {
        path: path.to_owned(),
        error,
    }
}

fn encode(
    path: &Path,
    rows: &[&TaskRow],
    other_columns: Option<&arrow::record_batch::RecordBatch>,
    meta: &Metadata,
) -> Result<(Vec<u8>, Identity), StateError> {
    schema::file::write(rows, other_columns, meta).map_err(|error| StateError::Encode {
        path: path.to_owned(),
        message: error.to_string(),
    })
}

fn replace(
    target: &Path,
    backup: Option<&Path>,
    bytes: &[u8],
    before: Option<&Identity>,
    after: &Identity,
) -> Result<(), ReplaceError> {
    Replacement {
        target,
        backup,
        bytes,
        before,
        after,
        identify: &schema::file::identify,
    }
    .run()
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    // A file of an absurd size is an error with a name, and not the end of the process.
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(size)
        .map_err(|_| io::Error::other(format!("it has {size} bytes, more than there is memory")))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
