//! Removes a subject who withdrew consent from all files of a state.
//!
//! Removes the subject's rows and events. In texts about several subjects (task lists of arrays,
//! records of the local executor), the letters of the label become `x`, so that nothing else moves.
//! After an interruption, run it again to finish.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::audit_log::purge as events;
use super::audit_log::purge::without_label;
use super::state_file::{LockedStore, StateError, Store};
use crate::base::durable;
use crate::base::regular::if_exists;
use crate::model::bids::SubjectLabel;
use crate::model::state::{State, TaskKey, TaskRow};

/// The subject to remove, and the audit log.
#[derive(Debug)]
pub struct Purge<'a> {
    pub log: &'a Path,
    pub subject: &'a SubjectLabel,
}

/// Everything about the subject.
#[derive(Debug, Default)]
pub struct SubjectData {
    pub rows: usize,
    pub attempts: usize,
    /// Lines of the audit log and its archives.
    pub events: usize,
    logs: Vec<events::Rewritten>,
    /// Texts that contain the label.
    pub texts: Vec<Text>,
    /// Copies that repairs and killed commands left. They may contain anything, so all are removed.
    pub copies: Vec<PathBuf>,
}

/// A file, its contents, and the contents without the subject's label.
pub type Text = (PathBuf, Vec<u8>, Vec<u8>);

impl SubjectData {
    /// A text with the label that jobs of other subjects in flight still need: the task list of an array, which compute
    /// nodes check, or the script of a local job, which it has yet to read.
    pub fn in_use(&self, store: &Store, state: &State) -> Option<&Path> {
        let in_flight = state.rows().iter().filter(|row| row.is_in_flight());
        let in_flight: Vec<&TaskRow> = in_flight.collect();
        let is_used = |path: &&Path| {
            let (dir, stem) = (path.parent(), path.file_stem().and_then(OsStr::to_str));
            in_flight.iter().any(|row| {
                let submission = row.submission_id.as_deref();
                let array = submission.and_then(|id| id.split('.').next());
                let job = row.job_id.as_ref();
                let local = job.and_then(|id| id.as_str().strip_prefix("local-"));
                array.is_some_and(|id| dir == Some(&store.paths.arrays.join(id)))
                    || local.is_some() && local == stem && dir == Some(&store.paths.local)
            })
        };
        let mut texts = self.texts.iter().map(|(path, ..)| path.as_path());
        texts.find(is_used)
    }

    pub fn is_nothing(&self) -> bool {
        self.rows + self.attempts + self.events + self.texts.len() + self.copies.len() == 0
    }
}

impl Purge<'_> {
    /// Finds everything about the subject; changes nothing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn find(&self, store: &Store, state: &State) -> Result<SubjectData, StateError> {
        let is_subject = |key: &TaskKey| *key.subject == *self.subject.as_str();
        let [earlier, backup] = [&store.paths.attempts, &store.paths.backup].map(|path| {
            // The next save replaces a damaged backup.
            let rows = store.load(path).ok().flatten().map(|found| found.rows);
            rows.into_iter()
                .flatten()
                .filter(|row| is_subject(&row.key))
                .count()
        });
        let rows = state
            .rows()
            .iter()
            .filter(|row| is_subject(&row.key))
            .count();
        let logs = events::without(self.log, self.subject)?;
        Ok(SubjectData {
            rows: rows.max(backup),
            attempts: earlier,
            events: logs.iter().map(|file| file.events).sum(),
            logs,
            texts: self.texts(store)?,
            copies: self.copies(store),
        })
    }

    /// Removes what [`Self::find`] found under the same lock.
    ///
    /// # Errors
    /// A file that cannot be read or replaced; earlier files stay changed.
    pub fn carry_out(
        &self,
        locked: &LockedStore,
        state: &mut State,
        held: &SubjectData,
    ) -> Result<(), StateError> {
        if held.is_nothing() {
            return Ok(());
        }
        let keys: Vec<TaskKey> = state.rows().iter().map(|row| row.key.clone()).collect();
        for key in keys {
            if *key.subject == *self.subject.as_str() {
                state.forget(&key);
            }
        }
        locked.save(state)?;
        locked.forget_earlier(&|row| *row.key.subject == *self.subject.as_str())?;
        for file in &held.logs {
            locked.check_lock()?;
            file.write()?;
        }
        for (path, before, after) in &held.texts {
            locked.check_lock()?;
            durable::replace(path, after, Some(before))?;
        }
        for path in &held.copies {
            if_exists(std::fs::remove_file(path)).map_err(StateError::io("remove", path))?;
        }
        Ok(())
    }

    /// The texts beside the state that name the subject.
    fn texts(&self, store: &Store) -> Result<Vec<Text>, StateError> {
        let paths = &store.paths;
        let mut files = vec![paths.calls.clone(), paths.control.clone()];
        files.extend(files_below(&paths.local));
        files.extend(files_below(&paths.arrays));
        let mut found = Vec::new();
        for path in files {
            let before = durable::read(&path).map_err(StateError::io("read", &path))?;
            if let Some(before) = before
                && let Some(after) = without_label(&before, self.subject)
            {
                found.push((path, before, after));
            }
        }
        Ok(found)
    }

    fn copies(&self, store: &Store) -> Vec<PathBuf> {
        let paths = &store.paths;
        let mut files = vec![paths.state.as_path()];
        files.extend(paths.beside().map(PathBuf::as_path));
        let log = std::fs::canonicalize(self.log).unwrap_or_else(|_| self.log.to_owned());
        let (temporary, kept) = durable::list_leftovers(&files);
        let (of_log, kept_of_log) = durable::list_leftovers(&[&log]);
        let mut all = [temporary, kept, of_log, kept_of_log].concat();
        all.sort();
        all.dedup();
        all
    }
}

/// The regular files of a directory and of its subdirectories, except the jobs' logs.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(directory)
        .max_depth(2)
        .into_iter()
        .filter_entry(|entry| entry.depth() != 1 || entry.file_name() != "logs")
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect()
}
