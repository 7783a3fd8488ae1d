//! The table of all tasks in memory: the newest attempt of each, and the file's metadata.
//!
//! Pure. One row per task holds by construction.
#![expect(
    clippy::indexing_slicing,
    reason = "`index` holds places in `rows`, which grow and shrink together"
)]

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use arrow::record_batch::RecordBatch;

use super::{TaskKey, TaskRow, TaskStatus};

/// Holds the rows of the state file, what left them since they were read, and the metadata.
#[derive(Debug, Clone, Default)]
pub struct State {
    rows: Vec<TaskRow>,
    index: HashMap<TaskKey, usize>,
    /// Attempts that were replaced or cleared since the file was read; they go to the attempts file.
    superseded: Vec<TaskRow>,
    /// Attempts beside those that the rows tell of; they go to the attempts file unless they are
    /// there already.
    overtaken: Vec<TaskRow>,
    /// Columns that are not ours, one line per row that was read (see [`TaskRow::other_columns`]).
    other_columns: Option<RecordBatch>,
    pub meta: Metadata,
    changed: bool,
    /// Things that a person should hear of once.
    warnings: Vec<String>,
    /// The files that this table stands for, so that the store can tell whether they are still the same.
    pub(crate) origin: Origin,
}

/// Tells one state of a file from every other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Ours {
        generation: u64,
        hash: String,
    },
    /// Of another program: its length and the SHA-256 of its bytes.
    Foreign {
        length: u64,
        sha256: String,
    },
}

/// Names what was read, exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// None: there was no state file.
    pub state: Option<Identity>,
    /// Inode and length of the journal. None: there was none.
    pub journal: Option<(u64, u64)>,
}

/// Holds the key-value metadata of the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// 0: the file is not ours (written by the Python program or pandas).
    pub format_version: u32,
    /// Counts the saves.
    pub generation: u64,
    pub project: Option<String>,
    pub owner_uid: Option<u32>,
    /// ClusterName of the Slurm that runs the jobs whose rows name no cluster.
    pub cluster: Option<String>,
    /// Where the state file was at the last save, without symbolic links. It tells a study that was moved from a copy.
    pub path: Option<String>,
    /// Counts that the safety stop compares with, by name.
    pub baselines: BTreeMap<String, u64>,
    /// When a run began a new file although an older one had been there, seconds since 1970. Stands until a repair.
    pub begun_anew: Option<u64>,
}

/// Prefix of the baselines that name a host that has saved the state; their value is when, in seconds since 1970.
const SAVED_BY: &str = "saved_by/";

impl Metadata {
    /// Notes that a host saves the state, and forgets hosts that have not for a day.
    pub fn note_saver(&mut self, host: &str, now: u64) {
        self.baselines
            .retain(|name, at| !name.starts_with(SAVED_BY) || now.abs_diff(*at) < 86_400);
        self.baselines.insert(format!("{SAVED_BY}{host}"), now);
    }

    /// True if another host has saved the state within a time before or after now, both in seconds.
    pub fn has_other_saver(&self, host: &str, now: u64, within: u64) -> bool {
        self.baselines.iter().any(|(name, at)| {
            let saver = name.strip_prefix(SAVED_BY);
            saver.is_some_and(|saver| saver != host) && now.abs_diff(*at) < within
        })
    }
}

impl State {
    /// Counts the rows of a status.
    pub fn count(&self, status: TaskStatus) -> usize {
        let rows = self.rows().iter();
        rows.filter(|row| row.status == status).count()
    }

    /// Makes a table of rows as they were read. Of several rows of a task a live one wins, else the
    /// newest (the later one, if equally new); the others go to the attempts file.
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
        let doubled = rows
            .iter()
            .enumerate()
            .any(|(at, row)| state.index.insert(row.key.clone(), at).is_some());
        if !doubled {
            // The usual case; large tables are not copied.
            state.rows = rows;
            return state;
        }
        state.index.clear();
        for row in rows {
            state.take_in(row);
        }
        state.changed = true;
        state
    }

    fn take_in(&mut self, row: TaskRow) {
        match self.index.entry(row.key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(self.rows.len());
                self.rows.push(row);
            }
            Entry::Occupied(entry) => {
                let kept = &mut self.rows[*entry.get()];
                if kept.is_in_flight() && row.is_in_flight() {
                    self.warnings.push(format!(
                        "{}: two rows in flight (jobs {} and {}); the newer one counts, the other goes to the attempts file",
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

    pub fn other_columns(&self) -> Option<&RecordBatch> {
        self.other_columns.as_ref()
    }

    /// Adds the row of a new attempt; the row before goes to the attempts file.
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

    /// Takes a row out; it goes to the attempts file.
    pub fn clear(&mut self, key: &TaskKey) -> Option<&TaskRow> {
        let row = self.forget(key)?;
        self.superseded.push(row);
        self.superseded.last()
    }

    /// Takes out the row of a submission that never became a job: there is nothing to keep.
    pub fn forget(&mut self, key: &TaskKey) -> Option<TaskRow> {
        let at = self.index.remove(key)?;
        self.changed = true;
        let row = self.rows.swap_remove(at);
        if let Some(moved) = self.rows.get(at) {
            self.index.insert(moved.key.clone(), at);
        }
        Some(row)
    }

    /// Takes out the row of an attempt that never was, and puts back the row before if it has not
    /// gone to the attempts file yet. Returns whether it did.
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

    /// Adds attempts that were found in the file beside a task's newest one.
    pub fn add_superseded(&mut self, rows: Vec<TaskRow>) {
        self.changed |= !rows.is_empty();
        self.superseded.extend(rows);
    }

    /// Keeps an attempt whose task has another row already, and is to keep it.
    pub(crate) fn add_overtaken(&mut self, row: TaskRow) {
        self.overtaken.push(row);
    }

    pub fn overtaken(&self) -> &[TaskRow] {
        &self.overtaken
    }

    pub fn superseded(&self) -> &[TaskRow] {
        &self.superseded
    }

    /// Things in the files that a person should hear of once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn add_warning(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// True if the rows come from a file: a study's first run has none yet.
    pub fn is_stored(&self) -> bool {
        self.origin.state.is_some()
    }

    /// True if there is something to save.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Makes the next save write the file even if no row changed (metadata, a folded journal).
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Called by the store once everything is safe on disk.
    pub(crate) fn mark_saved(&mut self) {
        self.superseded.clear();
        self.overtaken.clear();
        self.changed = false;
    }

    /// Gives [`super::transition`] and the journal's replay access to one row.
    pub(crate) fn row_mut(&mut self, key: &TaskKey) -> Option<&mut TaskRow> {
        let at = *self.index.get(key)?;
        self.changed = true;
        Some(&mut self.rows[at])
    }
}

/// Orders the rows of one task: live ones first, then by time.
fn rank(row: &TaskRow) -> (bool, Option<DateTime<Utc>>) {
    (row.is_in_flight(), row.submitted_at)
}

fn job_text(row: &TaskRow) -> &str {
    row.job_id.as_ref().map_or("unknown", |id| id.as_str())
}
