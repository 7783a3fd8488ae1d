//! Selects what is old and no longer needed (rows of tasks that no longer exist, logs of complete tasks, directories of
//! job arrays), and removes such files. Old events are selected and archived in [`crate::store::audit_log::archive`].
//!
//! Only logs with given names directly in `<log dir>/<procedure>` are removed. No links are followed, and nothing is
//! removed below the data roots.
#![expect(clippy::disallowed_methods, reason = "lists the directories of logs")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use itertools::Itertools as _;
use serde::Serialize;

use crate::base::regular::{FileError, if_exists};
use crate::executor::{Answer, JobReport, Observation, array};
use crate::gather::logs::log_path;
use crate::model::bids::Session;
use crate::model::job::array::split_task_id;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{State, TaskKey, TaskRow, TaskStatus};

/// Rows of removed procedures and of sessions that no longer exist, unless they changed since
/// `before`. Never a row in flight or in doubt. `sessions` must be complete.
pub fn obsolete_rows<'a>(
    state: &'a State,
    sessions: &[Session],
    dag: &ProcedureDag,
    before: DateTime<Utc>,
) -> Vec<&'a TaskRow> {
    let labels = Labels::of(sessions);
    let is_obsolete = |row: &&TaskRow| {
        !row.is_in_flight() && is_older(row, before) && labels.cause(&row.key, dag).is_some()
    };
    let obsolete = state.rows().iter().filter(is_obsolete);
    obsolete.sorted_by(|a, b| a.key.cmp(&b.key)).collect()
}

/// Why a row has no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanCause {
    /// The procedure was removed.
    Procedure,
    /// The subject or session does not exist.
    Session,
    /// The row has a session although the procedure has subject scope, or vice versa.
    Scope,
}

/// The subjects and sessions that exist.
pub struct Labels<'a> {
    subjects: HashSet<&'a str>,
    sessions: HashSet<(&'a str, &'a str)>,
}

impl<'a> Labels<'a> {
    pub fn of(sessions: &'a [Session]) -> Self {
        let pairs = sessions
            .iter()
            .map(|s| (s.subject.as_str(), s.session.as_str()));
        Self {
            subjects: sessions.iter().map(|s| s.subject.as_str()).collect(),
            sessions: pairs.collect(),
        }
    }

    /// `None` if the task exists.
    pub fn cause(&self, key: &TaskKey, dag: &ProcedureDag) -> Option<OrphanCause> {
        let Some(procedure) = dag.named(&key.procedure) else {
            return Some(OrphanCause::Procedure);
        };
        let has_subject = self.subjects.contains(&*key.subject);
        match (procedure.scope, key.session.is_empty()) {
            (Scope::Subject, true) => (!has_subject).then_some(OrphanCause::Session),
            (Scope::Session, _) if self.sessions.contains(&(&*key.subject, &*key.session)) => None,
            (Scope::Session, true) if has_subject => Some(OrphanCause::Scope),
            (Scope::Session, _) => Some(OrphanCause::Session),
            (Scope::Subject, false) => Some(OrphanCause::Scope),
        }
    }
}

/// By procedure, the log names of all attempts of complete tasks that did not change since `before`.
pub fn log_names(
    state: &State,
    attempts: &[TaskRow],
    before: DateTime<Utc>,
) -> BTreeMap<String, HashSet<String>> {
    let mut names: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    let is_old = |row: &&TaskRow| row.status == TaskStatus::Complete && is_older(row, before);
    let rows = state.rows().iter().filter(is_old);
    let complete: HashMap<&TaskKey, &TaskRow> = rows.map(|row| (&row.key, row)).collect();
    let is_its = |row: &&TaskRow| complete.contains_key(&row.key) && !row.is_in_flight();
    let earlier = attempts.iter().filter(is_its);
    for row in complete.values().copied().chain(earlier) {
        let of_procedure = names.entry(row.key.procedure.to_string()).or_default();
        of_procedure.extend(own_logs(row));
    }
    names.retain(|_, names| !names.is_empty());
    // Logs of live jobs are kept, even if an old attempt has the same log name.
    for row in state.in_flight() {
        if let Some(names) = names.get_mut(&*row.key.procedure) {
            own_logs(row).for_each(|name| _ = names.remove(&name));
        }
    }
    names
}

/// The names of an attempt's logs. A name with a `/` in it matches no file.
fn own_logs(row: &TaskRow) -> impl Iterator<Item = String> {
    let output = log_path(row, "");
    let stem = output.and_then(|output| {
        let name = output.strip_prefix(&format!("/{}/", row.key.procedure))?;
        Some(name.strip_suffix(".out")?.to_owned())
    });
    let names = stem.map(|stem| [format!("{stem}.out"), format!("{stem}.err")]);
    names.into_iter().flatten()
}

/// False for a row without any time: its age is unknown.
fn is_older(row: &TaskRow, before: DateTime<Utc>) -> bool {
    let times = [row.submitted_at, row.facts.ended_at, row.updated_at];
    let newest = times.into_iter().flatten().max();
    newest.is_some_and(|newest| newest < before)
}

/// Removes old array directories that no row in flight and no live job can need.
pub fn clean_arrays(arrays: &Path, state: &State, observation: &Observation, now: DateTime<Utc>) {
    let Answer::Got(queue) = &observation.queue else {
        return;
    };
    let of_rows = state.in_flight().map(|row| row.submission_id.as_deref());
    let live = queue.iter().filter(|job| job.phase.is_live());
    let of_jobs = live.map(JobReport::submission_id);
    let needed: HashSet<String> = of_rows
        .chain(of_jobs)
        .flatten()
        .map(|id| split_task_id(id).map_or(id, |(array, _)| array).to_owned())
        .collect();
    array::clean(arrays, &needed, now);
}

/// The old logs of one directory.
#[derive(Debug)]
pub struct OldLogs {
    pub directory: PathBuf,
    /// Sorted, with sizes.
    pub files: Vec<(String, u64)>,
}

/// Why logs are not removed.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("{} is inside {root} ({}), where nothing is ever removed", .directory.display(), .path.display())]
    BelowData {
        directory: PathBuf,
        root: &'static str,
        path: PathBuf,
    },
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Finds logs by name that were not written since `before`; none in a directory that is missing or a
/// link.
pub fn find_logs(
    log_dir: &Path,
    names: &BTreeMap<String, HashSet<String>>,
    roots: &[(&'static str, &Path)],
    before: DateTime<Utc>,
) -> Result<Vec<OldLogs>, LogsError> {
    let real = if_exists(std::fs::canonicalize(log_dir));
    let Some(log_dir) = real.map_err(FileError::of("follow", log_dir))? else {
        return Ok(Vec::new());
    };
    let roots: Vec<(&'static str, PathBuf)> = roots
        .iter()
        .filter_map(|(name, path)| Some((*name, std::fs::canonicalize(path).ok()?)))
        .collect();
    let mut found = Vec::new();
    for (procedure, names) in names {
        // Rows that other programs wrote may contain any text.
        if procedure.contains('/') || ["", ".", ".."].contains(&procedure.as_str()) {
            continue;
        }
        let directory = log_dir.join(procedure);
        if let Some((root, path)) = roots.iter().find(|(_, root)| directory.starts_with(root)) {
            return Err(LogsError::BelowData {
                directory,
                root,
                path: path.clone(),
            });
        }
        if let Some(old) = old_of(&directory, names, before)? {
            found.push(old);
        }
    }
    Ok(found)
}

impl OldLogs {
    /// Removes the files; one that is already gone is no error.
    pub fn remove(&self) -> Result<(), LogsError> {
        // A link may have taken its place.
        if !is_directory(&self.directory)? {
            return Ok(());
        }
        for (name, _) in &self.files {
            let path = self.directory.join(name);
            if_exists(std::fs::remove_file(&path)).map_err(FileError::of("remove", &path))?;
        }
        Ok(())
    }

    /// Total bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }
}

fn old_of(
    directory: &Path,
    names: &HashSet<String>,
    before: DateTime<Utc>,
) -> Result<Option<OldLogs>, LogsError> {
    if !is_directory(directory)? {
        return Ok(None);
    }
    let read = FileError::of("read", directory);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(&read)? {
        let entry = entry.map_err(&read)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if names.contains(&name)
            && let Some(stat) = if_exists(entry.metadata()).map_err(&read)?
            && stat.is_file()
            && stat.mtime() < before.timestamp()
        {
            files.push((name, stat.len()));
        }
    }
    files.sort();
    let directory = directory.to_owned();
    Ok(Some(OldLogs { directory, files }))
}

/// False for a link.
fn is_directory(path: &Path) -> Result<bool, FileError> {
    let found = if_exists(std::fs::symlink_metadata(path)).map_err(FileError::of("read", path))?;
    Ok(found.is_some_and(|found| found.is_dir()))
}

#[cfg(test)]
mod tests;
