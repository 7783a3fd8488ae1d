//! The table of all tasks in memory: the newest attempt of each, and the file's metadata.
#![expect(
    clippy::indexing_slicing,
    reason = "`index` contains positions in `rows`; both change together"
)]

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use arrow::record_batch::RecordBatch;

use super::{TaskKey, TaskRow, TaskStatus};

/// The rows of the state file, at most one per task, the rows removed since reading, and the metadata.
#[derive(Debug, Clone, Default)]
pub struct State {
    rows: Vec<TaskRow>,
    index: HashMap<TaskKey, usize>,
    /// Attempts replaced or cleared since the file was read; they move to the attempts file.
    superseded: Vec<TaskRow>,
    /// Attempts of tasks whose row is another attempt; they move to the attempts file unless they are
    /// there already.
    pub overtaken: Vec<TaskRow>,
    /// Other programs' columns, one line per row read (see [`TaskRow::other_columns`]).
    pub other_columns: Option<RecordBatch>,
    pub meta: Metadata,
    changed: bool,
    /// Problems in the files that are reported once.
    pub warnings: Vec<String>,
    /// The files that were read, so that the store can detect changes.
    pub(crate) origin: Origin,
}

/// Identifies one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Ours {
        generation: u64,
        hash: String,
    },
    /// A file of another program: its length and SHA-256.
    Foreign {
        length: u64,
        sha256: String,
    },
}

/// Identifies the files that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` if there was no state file.
    pub state: Option<Identity>,
    /// Inode and length of the journal, if there was one.
    pub journal: Option<(u64, u64)>,
}

/// The key-value metadata of the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// 0 for files of the Python program or pandas.
    pub format_version: u32,
    /// Number of saves.
    pub generation: u64,
    pub project: Option<String>,
    pub owner_uid: Option<u32>,
    /// Slurm's ClusterName for the jobs of rows without a cluster.
    pub cluster: Option<String>,
    /// Path of the state file at the last save, without symbolic links. Distinguishes a moved study from a copy.
    pub path: Option<String>,
    /// Numbers that the safety stop compares with, by name.
    pub baselines: BTreeMap<String, u64>,
    /// When a run created a new file although an older one had existed, in seconds since 1970. Kept until a repair.
    pub begun_anew: Option<u64>,
}

/// Prefix of the baselines that name a host that has saved the state; their value is when, in seconds since 1970.
const SAVED_BY: &str = "saved_by/";

fn seconds(time: DateTime<Utc>) -> u64 {
    u64::try_from(time.timestamp()).unwrap_or(0)
}

impl Metadata {
    /// Notes that a host saves the state, and forgets hosts that have not for a day.
    pub fn note_saver(&mut self, host: &str, now: DateTime<Utc>) {
        let now = seconds(now);
        self.baselines
            .retain(|name, at| !name.starts_with(SAVED_BY) || now.abs_diff(*at) < 86_400);
        self.baselines.insert(format!("{SAVED_BY}{host}"), now);
    }

    /// True if another host saved the state less than `within` seconds before or after `now`.
    pub fn has_other_saver(&self, host: &str, now: DateTime<Utc>, within: u64) -> bool {
        let now = seconds(now);
        self.baselines.iter().any(|(name, at)| {
            let saver = name.strip_prefix(SAVED_BY);
            saver.is_some_and(|saver| saver != host) && now.abs_diff(*at) < within
        })
    }
}

impl State {
    pub fn count(&self, status: TaskStatus) -> usize {
        let rows = self.rows().iter();
        rows.filter(|row| row.status == status).count()
    }

    /// Builds a table from rows of a file. If a task has several rows, one in flight wins, otherwise the
    /// newest (or the last of equally new ones). The others move to the attempts file.
    pub fn from_rows(
        rows: Vec<TaskRow>,
        other_columns: Option<RecordBatch>,
        meta: Metadata,
    ) -> Self {
        let mut state = Self {
            index: HashMap::with_capacity(rows.len()),
            other_columns,
            meta,
            ..Self::default()
        };
        let has_duplicates = rows
            .iter()
            .enumerate()
            .any(|(at, row)| state.index.insert(row.key.clone(), at).is_some());
        if !has_duplicates {
            // The normal case, without copying large tables.
            state.rows = rows;
            return state;
        }
        state.index.clear();
        for row in rows {
            state.insert_or_supersede(row);
        }
        state.changed = true;
        state
    }

    fn insert_or_supersede(&mut self, row: TaskRow) {
        match self.index.entry(row.key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(self.rows.len());
                self.rows.push(row);
            }
            Entry::Occupied(entry) => {
                let kept = &mut self.rows[*entry.get()];
                if kept.is_in_flight() && row.is_in_flight() {
                    self.warnings.push(format!(
                        "{}: two rows in flight (jobs {} and {}); keeping the newer one and moving the other to the attempts file",
                        row.key,
                        job_text(kept),
                        job_text(&row),
                    ));
                }
                if rank(&row) >= rank(kept) {
                    self.superseded.push(std::mem::replace(kept, row));
                } else {
                    self.superseded.push(row);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn get(&self, key: &TaskKey) -> Option<&TaskRow> {
        self.index.get(key).map(|&at| &self.rows[at])
    }

    pub fn rows(&self) -> &[TaskRow] {
        &self.rows
    }

    /// The rows of jobs that may be waiting or running.
    pub fn in_flight(&self) -> impl Iterator<Item = &TaskRow> {
        self.rows().iter().filter(|row| row.is_in_flight())
    }

    /// Adds the row of a new attempt; the previous row moves to the attempts file.
    pub fn put(&mut self, row: TaskRow) {
        self.changed = true;
        match self.index.get(&row.key) {
            Some(&at) => {
                let before = std::mem::replace(&mut self.rows[at], row);
                self.superseded.push(before);
            }
            None => {
                self.index.insert(row.key.clone(), self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// Moves a row to the attempts file.
    pub fn clear(&mut self, key: &TaskKey) -> Option<&TaskRow> {
        let row = self.forget(key)?;
        self.superseded.push(row);
        self.superseded.last()
    }

    /// Removes the row of a submission that never became a job.
    pub fn forget(&mut self, key: &TaskKey) -> Option<TaskRow> {
        let at = self.index.remove(key)?;
        self.changed = true;
        let row = self.rows.swap_remove(at);
        if let Some(moved) = self.rows.get(at) {
            self.index.insert(moved.key.clone(), at);
        }
        Some(row)
    }

    /// Removes the row of an attempt that never happened, and restores the previous row if it has not been
    /// written to the attempts file yet. Returns whether it was restored.
    pub(crate) fn withdraw(&mut self, key: &TaskKey) -> bool {
        let mut superseded = self.superseded.iter();
        let before = superseded.rposition(|row| row.key == *key);
        match (self.index.get(key), before) {
            (Some(&at), Some(before)) => {
                self.changed = true;
                self.rows[at] = self.superseded.remove(before);
                true
            }
            _ => {
                self.forget(key);
                false
            }
        }
    }

    /// Adds earlier attempts found in the file.
    pub fn add_superseded(&mut self, rows: Vec<TaskRow>) {
        self.changed |= !rows.is_empty();
        self.superseded.extend(rows);
    }

    pub fn superseded(&self) -> &[TaskRow] {
        &self.superseded
    }

    /// True if the rows come from a file (not in a study's first run).
    pub fn is_stored(&self) -> bool {
        self.origin.state.is_some()
    }

    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Forces the next save to write the file even if no row changed (metadata, a folded journal).
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Called by the store after everything was written to disk.
    pub(crate) fn mark_saved(&mut self) {
        self.superseded.clear();
        self.overtaken.clear();
        self.changed = false;
    }

    /// For [`super::transition`] and the journal's replay.
    pub(crate) fn row_mut(&mut self, key: &TaskKey) -> Option<&mut TaskRow> {
        let at = *self.index.get(key)?;
        self.changed = true;
        Some(&mut self.rows[at])
    }
}

/// The order of one task's rows: in flight, then by time.
fn rank(row: &TaskRow) -> (bool, Option<DateTime<Utc>>) {
    (row.is_in_flight(), row.submitted_at)
}

fn job_text(row: &TaskRow) -> &str {
    row.job_id.as_ref().map_or("unknown", |id| id.as_str())
}
