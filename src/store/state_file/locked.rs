//! Writes under the lock, in an order of files in which a crash leaves the old state or the new one.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use arrow::record_batch::RecordBatch;

use super::{LockedStore, Opened, StateError, Store, refuse_newer};
use crate::base::durable::{self, ReplaceError, Replacement};
use crate::base::regular::if_exists;
use crate::base::sys;
use crate::model::state::table::{Identity, Metadata, Origin};
use crate::model::state::{AttemptId, State, TaskRow};
use crate::store::journal::Journal;
use crate::store::lock::LockError;
use crate::store::schema::{self, Contents, FORMAT_VERSION, join_other_columns};

/// The files that a rebuilt state replaces.
#[derive(Debug, Default)]
pub struct Rebuilding {
    /// The state file, readable or damaged; `None` if missing.
    pub state: Option<Identity>,
    /// True if the state file was readable: then it becomes the backup.
    pub state_is_sound: bool,
    /// The attempts file, if damaged: it is written anew from the superseded rows.
    pub damaged_attempts: Option<Identity>,
    /// The journal that was read, by inode and length.
    pub journal: Option<(u64, u64)>,
    /// Damaged files, kept under another name.
    pub damaged: Vec<PathBuf>,
}

impl LockedStore {
    /// Reads the state. A state that will be saved must be read under the lock: [`Self::save`]
    /// removes the journal, and refuses if it is not the one that was read.
    pub fn read(&self) -> Result<State, StateError> {
        self.store.read()
    }

    /// Saves the attempts, then the rows, then removes the journal. Does nothing if nothing changed
    /// and there is no journal. Returns whether a file was written.
    ///
    /// The rows must include all entries of the journal. A [`Journal`] that was opened before must be
    /// opened again, because its file was removed.
    pub fn save(&self, state: &mut State) -> Result<bool, StateError> {
        let paths = &self.store.paths;
        self.lock.check()?;
        let journal = self.store.journal_mark()?;
        if !state.is_changed() && journal.is_none() {
            return Ok(false);
        }
        let opened = self.opened().clone();
        let before = opened.as_ref().map_or(journal, |opened| opened.before);
        if before != state.origin.journal {
            return Err(StateError::Conflict(paths.journal.clone()));
        }
        refuse_newer(&paths.state, &state.meta)?;
        durable::make_directory_of(&paths.state)
            .map_err(StateError::io("create the directory of", &paths.state))?;
        save_attempts(&self.store, state)?;
        self.save_rows(state, Some(&paths.backup))?;
        // Entries that another process added meanwhile (the lock does not work) are not in these rows.
        let known = opened.map_or(state.origin.journal, |opened| Some(opened.now.mark()));
        let left = self.store.journal_mark()?;
        let is_shared = left.is_some() && left != known;
        if left.is_some() && !is_shared {
            self.remove_journal()?;
        }
        *self.opened() = None;
        state.origin.journal = None;
        state.mark_saved();
        if is_shared {
            return Err(StateError::Shared(paths.journal.clone()));
        }
        let files: [&Path; 4] = [&paths.state, &paths.backup, &paths.attempts, &paths.lock];
        durable::remove_leftovers(&files, durable::LEFTOVER_AGE);
        Ok(true)
    }

    pub fn journal(&self) -> Result<Journal, StateError> {
        let before = match &*self.opened() {
            Some(opened) => opened.before,
            None => self.store.journal_mark()?,
        };
        let journal = Journal::open(&self.store.paths.journal)?;
        *self.opened() = Some(Opened {
            before,
            now: journal.extent(),
        });
        Ok(journal)
    }

    /// Checks that the files have not changed since the rows were read. Called before a submission:
    /// if the lock does not work, another process may have submitted the same tasks.
    pub fn check_unchanged(&self, state: &State) -> Result<(), StateError> {
        let paths = &self.store.paths;
        let conflict = |path: &Path| StateError::Conflict(path.to_owned());
        if self.store.journal_mark()? != state.origin.journal {
            return Err(conflict(&paths.journal));
        }
        let identify = || {
            let file = if_exists(durable::open_again(&paths.state))?;
            file.map(|file| schema::file::identify(&file)).transpose()
        };
        let identity = identify().map_err(StateError::io("read", &paths.state))?;
        if identity == state.origin.state {
            Ok(())
        } else {
            Err(conflict(&paths.state))
        }
    }

    /// Removes earlier attempts permanently. The backup becomes a copy of the current state.
    ///
    /// # Errors
    /// A file that cannot be read or replaced, or a lock that is lost.
    pub fn forget_earlier(&self, is_its: &dyn Fn(&TaskRow) -> bool) -> Result<(), StateError> {
        let paths = &self.store.paths;
        self.lock.check()?;
        forget_attempts(&self.store, is_its)?;
        match durable::read(&paths.state)? {
            Some(bytes) => Ok(durable::overwrite(&paths.backup, &bytes, "PAR1")?),
            None => Ok(()),
        }
    }

    /// Checks that this process still holds the lock.
    pub fn check_lock(&self) -> Result<(), LockError> {
        self.lock.check()
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Option<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a rebuilt state. Nothing is lost: a crash at any moment leaves either a damaged file or the
    /// new one in its place.
    ///
    /// Keeps every damaged file under another name (ending in `stamp`), writes attempts and rows, and
    /// removes the journal. Returns the kept files. Never overwrites a file that changed since it was
    /// read.
    pub fn save_rebuilt(
        &self,
        state: &mut State,
        found: &Rebuilding,
        stamp: &str,
    ) -> Result<Vec<PathBuf>, StateError> {
        let paths = &self.store.paths;
        self.lock.check()?;
        if self.store.journal_mark()? != found.journal {
            return Err(StateError::Conflict(paths.journal.clone()));
        }
        refuse_newer(&paths.state, &state.meta)?;
        let mut kept = Vec::new();
        for path in &found.damaged {
            let name =
                durable::keep(path, stamp).map_err(StateError::io("keep a copy of", path))?;
            kept.push(name);
        }
        state.origin = Origin {
            state: found.state.clone(),
            journal: found.journal,
        };
        match &found.damaged_attempts {
            Some(damaged) => add_attempts(&self.store, state, None, Some(damaged))?,
            None => save_attempts(&self.store, state)?,
        }
        // A damaged file must not replace the backup from which the rows were rebuilt.
        self.save_rows(state, found.state_is_sound.then_some(&*paths.backup))?;
        if found.journal.is_some() {
            self.remove_journal()?;
        }
        if !found.state_is_sound && found.damaged.contains(&paths.backup) {
            std::fs::remove_file(&paths.backup).map_err(StateError::io("remove", &paths.backup))?;
        }
        state.origin.journal = None;
        state.mark_saved();
        Ok(kept)
    }

    fn save_rows(&self, state: &mut State, backup: Option<&Path>) -> Result<(), StateError> {
        let paths = &self.store.paths;
        let mut meta = state.meta.clone();
        meta.format_version = FORMAT_VERSION;
        meta.generation += 1;
        meta.owner_uid.get_or_insert_with(sys::effective_uid);
        meta.path = paths.real_path();
        meta.note_saver(&sys::host_name(), sys::now());
        let other_columns = state.other_columns.as_ref();
        let (bytes, identity) = encode(&paths.state, state.rows(), other_columns, &meta)?;
        self.lock.check()?;
        if let Some(backup) = backup {
            durable::refuse_foreign(backup, "PAR1").map_err(StateError::io("replace", backup))?;
        }
        let outcome = replace(
            &paths.state,
            backup,
            &bytes,
            state.origin.state.as_ref(),
            &identity,
        );
        if matches!(
            outcome,
            Ok(()) | Err(ReplaceError::Io { replaced: true, .. })
        ) {
            state.meta = meta;
            state.origin.state = Some(identity);
        }
        outcome.map_err(StateError::from)
    }

    fn remove_journal(&self) -> Result<(), StateError> {
        let path = &self.store.paths.journal;
        // A process that took over the lock may be writing to it.
        self.lock.check()?;
        if_exists(std::fs::remove_file(path))
            .and_then(|_| durable::sync_directory_of(path))
            .map_err(StateError::io("remove", path))
    }
}

/// Adds the superseded rows of a state. Replaces an attempt that is already there, because a save was
/// interrupted after this file.
fn save_attempts(store: &Store, state: &State) -> Result<(), StateError> {
    if state.superseded().is_empty() && state.overtaken.is_empty() {
        return Ok(());
    }
    let before = store.load(&store.paths.attempts)?;
    let identity = before.as_ref().map(|contents| contents.identity.clone());
    add_attempts(store, state, before, identity.as_ref())
}

/// Adds the superseded rows to `before`; `identity` is the file that they replace.
fn add_attempts(
    store: &Store,
    state: &State,
    before: Option<Contents>,
    identity: Option<&Identity>,
) -> Result<(), StateError> {
    let path = &store.paths.attempts;
    let (mut rows, others_before, mut meta) = match before {
        Some(contents) => (contents.rows, contents.other_columns, contents.meta),
        None => (Vec::new(), None, Metadata::default()),
    };
    refuse_newer(path, &meta)?;
    let (other_columns, shift) =
        join_other_columns(others_before.as_ref(), state.other_columns.as_ref())
            .map_err(|error| StateError::io("write", path)(io::Error::other(error)))?;
    let ids = rows.iter().map(AttemptId::of);
    let mut known: HashMap<AttemptId, usize> = ids.zip(0..).collect();
    let mut is_new = false;
    let superseded = state.superseded().iter().map(|row| (row, true));
    let overtaken = state.overtaken.iter().map(|row| (row, false));
    for (row, replaces) in superseded.chain(overtaken) {
        let mut row = row.clone();
        row.other_columns = row.other_columns.map(|line| line + shift);
        let at = *known.entry(AttemptId::of(&row)).or_insert(rows.len());
        match rows.get_mut(at) {
            Some(there) if replaces => *there = row,
            Some(_) => continue,
            None => rows.push(row),
        }
        is_new = true;
    }
    if !is_new {
        return Ok(());
    }
    meta.format_version = FORMAT_VERSION;
    meta.generation += 1;
    meta.project.clone_from(&state.meta.project);
    meta.cluster.clone_from(&state.meta.cluster);
    meta.path = store.paths.real_path();
    meta.owner_uid = meta
        .owner_uid
        .or(state.meta.owner_uid)
        .or_else(|| Some(sys::effective_uid()));
    let (bytes, after) = encode(path, &rows, other_columns.as_ref(), &meta)?;
    Ok(replace(path, None, &bytes, identity, &after)?)
}

/// Removes attempts permanently.
fn forget_attempts(store: &Store, is_its: &dyn Fn(&TaskRow) -> bool) -> Result<(), StateError> {
    let path = &store.paths.attempts;
    let Some(mut before) = store.load(path)? else {
        return Ok(());
    };
    let count = before.rows.len();
    before.rows.retain(|row| !is_its(row));
    if before.rows.len() == count {
        return Ok(());
    }
    refuse_newer(path, &before.meta)?;
    before.meta.generation += 1;
    let other_columns = before.other_columns.as_ref();
    let (bytes, after) = encode(path, &before.rows, other_columns, &before.meta)?;
    Ok(replace(path, None, &bytes, Some(&before.identity), &after)?)
}

fn encode(
    path: &Path,
    rows: &[TaskRow],
    other_columns: Option<&RecordBatch>,
    meta: &Metadata,
) -> Result<(Vec<u8>, Identity), StateError> {
    schema::file::write(rows, other_columns, meta)
        .map_err(|error| StateError::io("write", path)(io::Error::other(error)))
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
