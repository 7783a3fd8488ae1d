//! Removes a subject who withdrew consent from all files of a state.
//!
//! Removes the subject's rows and events. In texts about several subjects (task lists of arrays,
//! records of the local executor), the letters of the label become `x`, so that nothing else moves.
//! After an interruption, run it again to finish.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::audit_log::archive;
use super::state_file::{LockedStore, StateError, Store};
use crate::base::durable;
use crate::base::regular::if_exists;
use crate::model::bids::{SubjectLabel, is_of_label};
use crate::model::state::{State, TaskRow};

/// Everything about a subject.
#[derive(Debug, Default)]
pub struct SubjectData {
    pub rows: usize,
    pub attempts: usize,
    /// Lines of the audit log and its archives.
    pub events: usize,
    logs: Vec<Text>,
    /// Texts that contain the label.
    pub texts: Vec<Text>,
    /// Copies that repairs and killed commands left. They may contain anything, so all are removed.
    pub copies: Vec<PathBuf>,
}

/// A file, its contents, and the contents without the subject's label.
pub type Text = (PathBuf, Vec<u8>, Vec<u8>);

impl SubjectData {
    /// Finds everything about a subject; changes nothing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn find(
        store: &Store,
        state: &State,
        log: &Path,
        subject: &SubjectLabel,
    ) -> Result<Self, StateError> {
        let count = |rows: &[TaskRow]| rows.iter().filter(|row| is_of(row, subject)).count();
        let [earlier, backup] = [&store.paths.attempts, &store.paths.backup].map(|path| {
            // The next save replaces a damaged backup.
            let found = store.load(path).ok().flatten();
            found.map_or(0, |found| count(&found.rows))
        });
        let (events, logs) = without(log, subject)?;
        Ok(Self {
            rows: count(state.rows()).max(backup),
            attempts: earlier,
            events,
            logs,
            texts: texts(store, subject)?,
            copies: copies(store, log),
        })
    }

    /// Removes what [`Self::find`] found about the subject under the same lock.
    ///
    /// # Errors
    /// A file that cannot be read or replaced; earlier files stay changed.
    pub fn remove(
        &self,
        locked: &LockedStore,
        state: &mut State,
        subject: &SubjectLabel,
    ) -> Result<(), StateError> {
        // First: they are not searched, so a purge that is interrupted must find the subject in other files again.
        for path in &self.copies {
            if_exists(std::fs::remove_file(path)).map_err(StateError::io("remove", path))?;
        }
        let rows = state.rows().iter().filter(|row| is_of(row, subject));
        for key in Vec::from_iter(rows.map(|row| row.key.clone())) {
            state.forget(&key);
        }
        locked.save(state)?;
        locked.forget_earlier(&|row| is_of(row, subject))?;
        for (path, before, after) in self.logs.iter().chain(&self.texts) {
            locked.check_lock()?;
            match after.is_empty() && path.extension() == Some(OsStr::new("gz")) {
                // An archive without events.
                true => std::fs::remove_file(path).map_err(StateError::io("remove", path))?,
                false => archive::rewrite(path, before, after)?,
            }
        }
        Ok(())
    }

    /// A text with the label that jobs of other subjects in flight still need: the task list of an array, which compute
    /// nodes check, or the script of a local job, which it has yet to read.
    pub fn in_use(&self, store: &Store, state: &State) -> Option<&Path> {
        let is_used = |path: &&Path| {
            let (dir, stem) = (path.parent(), path.file_stem().and_then(OsStr::to_str));
            state.in_flight().any(|row| {
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

    /// True if no file names the subject.
    pub fn is_nothing(&self) -> bool {
        self.rows + self.attempts + self.events + self.texts.len() == 0
    }
}

fn is_of(row: &TaskRow, subject: &SubjectLabel) -> bool {
    *row.key.subject == *subject.as_str()
}

/// The texts beside the state that name the subject.
fn texts(store: &Store, subject: &SubjectLabel) -> Result<Vec<Text>, StateError> {
    let paths = &store.paths;
    let mut files = vec![paths.calls.clone(), paths.control.clone()];
    files.extend(files_below(&paths.local));
    files.extend(files_below(&paths.arrays));
    let mut found = Vec::new();
    for path in files {
        if let Some(before) = durable::read(&path)?
            && let Some(after) = without_label(&before, subject)
        {
            found.push((path, before, after));
        }
    }
    Ok(found)
}

fn copies(store: &Store, log: &Path) -> Vec<PathBuf> {
    let paths = &store.paths;
    let log = std::fs::canonicalize(log).unwrap_or_else(|_| log.to_owned());
    let mut files = vec![paths.state.as_path(), &log];
    files.extend(paths.beside().map(PathBuf::as_path));
    let (temporary, kept) = durable::list_leftovers(&files);
    let mut all = [temporary, kept].concat();
    all.sort();
    all.dedup();
    all
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

/// The log and its archives, except those that do not contain the subject, and the number of lines to remove or change.
///
/// # Errors
/// A file that cannot be read.
fn without(log: &Path, subject: &SubjectLabel) -> Result<(usize, Vec<Text>), StateError> {
    let archives =
        archive::archives_of(log).map_err(StateError::io("list the archives of", log))?;
    let log = std::fs::canonicalize(log).unwrap_or_else(|_| log.to_owned());
    let (mut count, mut found) = (0, Vec::new());
    let mut files = vec![(log, false)];
    files.extend(archives.into_iter().map(|path| (path, true)));
    for (path, is_archive) in files {
        let Some(before) = durable::read(&path)? else {
            continue;
        };
        let text = match is_archive {
            true => archive::unpack(&before).map_err(StateError::io("unpack", &path))?,
            false => before.clone(),
        };
        let mut after = Vec::with_capacity(text.len());
        let mut events = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            match without_label(line, subject) {
                None => after.extend_from_slice(line),
                Some(other) => {
                    events += 1;
                    // A line about another subject is kept, without this subject's label.
                    let event: Option<Value> = serde_json::from_slice(line).ok();
                    let named = event
                        .as_ref()
                        .and_then(|event| event.get("subject")?.as_str());
                    if named != Some(subject.as_str()) {
                        after.extend(other);
                    }
                }
            }
        }
        if events > 0 {
            count += events;
            if is_archive && !after.is_empty() {
                after = archive::pack(&after).map_err(StateError::io("write", &path))?;
            }
            found.push((path, before, after));
        }
    }
    Ok((count, found))
}

/// The text with a subject's label masked: `sub-0001` becomes `sub-xxxx`. `None` if the label is not in the text.
/// Longer labels that contain it are not masked.
fn without_label(text: &[u8], subject: &SubjectLabel) -> Option<Vec<u8>> {
    let label = subject.as_str().as_bytes();
    let is_letter = |at: Option<&u8>| at.is_some_and(|&at| is_of_label(at.into()));
    let pattern = regex::bytes::Regex::new(&regex::escape(subject.as_str())).ok()?;
    let places: Vec<usize> = pattern
        .find_iter(text)
        .map(|found| found.start())
        .filter(|&at| {
            let before = at.checked_sub(1).and_then(|at| text.get(at));
            !is_letter(before) && !is_letter(text.get(at + label.len()))
        })
        .collect();
    if places.is_empty() {
        return None;
    }
    let mut after = text.to_vec();
    for at in places {
        let own = at + SubjectLabel::PREFIX.len()..at + label.len();
        after.get_mut(own)?.fill(b'x');
    }
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_label_is_masked() {
        let subject = SubjectLabel::new("sub-01").unwrap();
        let without = |text: &str| {
            without_label(text.as_bytes(), &subject).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            without("fmriprep_sub-01_ses-2 /bids/sub-01/x sub-01,sub-01").unwrap(),
            "fmriprep_sub-xx_ses-2 /bids/sub-xx/x sub-xx,sub-xx"
        );
        assert_eq!(without("sub-010 xsub-01 sub-0 sub-01+2 01"), None);
    }
}
