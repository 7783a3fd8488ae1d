//! Merges the sources: each task's newest attempt becomes its row, all others are kept.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use super::history::{Attempt, Place};
use super::{Origin, Rebuilt, is_same, logged, merge_rows};
use crate::model::state::table::Identity;
use crate::model::state::{CLOCK_SLACK, State, TaskKey, TaskRow};
use crate::store::findings::{Findings, Level};
use crate::store::journal::{self, Entry, is_later};
use crate::store::schema::Contents;
use crate::store::sources::{Found, Sources};
use crate::store::state_file::Rebuilding;

/// The rows merged so far.
pub(super) struct Merge {
    pub(super) out: Rebuilt,
    /// True if the state file was readable.
    sound: bool,
    /// Earlier attempts: from the attempts file, and the first `counted` superseded ones.
    known: HashMap<TaskKey, Vec<TaskRow>>,
    counted: usize,
    /// Submissions before this time are older than all rows, and not missing.
    oldest: Option<DateTime<Utc>>,
}

impl Merge {
    pub(super) fn begin(sources: &Sources) -> Self {
        let sound = sources.state.read().is_some();
        let (base, contents) = match sources.state.read() {
            Some(contents) => (Origin::StateFile, Some(contents)),
            None => (Origin::Backup, sources.backup.read()),
        };
        let mut state = State::default();
        if let Some(contents) = contents.cloned() {
            state = State::from_rows(contents.rows, contents.other_columns, contents.meta);
            state.warnings.extend(contents.warnings);
        }
        let mut known: HashMap<TaskKey, Vec<TaskRow>> = HashMap::new();
        for row in rows_of(&sources.attempts) {
            known.entry(row.key.clone()).or_default().push(row.clone());
        }
        let rows = state.rows().iter().chain(state.superseded());
        let rows = rows.chain(rows_of(&sources.attempts));
        let oldest = rows.filter_map(|row| row.submitted_at).min();
        let mut merge = Self {
            out: Rebuilt {
                before: state.clone(),
                notes: state.warnings.clone(),
                state,
                base,
                origins: BTreeMap::new(),
                past: 0,
                damage: Vec::new(),
                files: Rebuilding::default(),
            },
            sound,
            known,
            counted: 0,
            oldest,
        };
        // A backup that is newer than a readable state file.
        let rolled_back = sources.rolled_back().into_iter();
        for row in rolled_back.flat_map(|(_, backup)| &backup.rows) {
            merge.offer(without_others(row), true, Origin::Backup);
        }
        merge
    }

    pub(super) fn take_journal(&mut self, entries: &[Entry]) {
        for key in journal::replay(entries, &mut self.out.state) {
            self.out.origins.entry(key).or_insert(Origin::Journal);
        }
        // The replay ignores jobs whose task has a later attempt: they are earlier attempts.
        let mut alone = State::default();
        journal::replay(entries, &mut alone);
        let earlier = alone.superseded().iter().chain(&alone.overtaken);
        for row in earlier.chain(alone.rows()) {
            let current = self.out.state.get(&row.key);
            if !current.is_some_and(|current| is_same(current, row)) {
                self.offer(row.clone(), false, Origin::Journal);
            }
        }
    }

    /// Without a readable state, the newest attempt may be only in the attempts file.
    pub(super) fn take_attempts(
        &mut self,
        sources: &Sources,
        tasks: &BTreeMap<TaskKey, Vec<Attempt>>,
    ) {
        if self.sound {
            return;
        }
        for row in rows_of(&sources.attempts) {
            let is_past = logged(row, tasks).is_some_and(|a| a.place != Place::Current);
            let is_newer = match self.out.state.get(&row.key) {
                Some(current) => !is_same(current, row) && is_later(row, current),
                None => row.is_in_flight(),
            };
            if !is_past && is_newer {
                self.put(without_others(row), Origin::Attempts);
            }
        }
    }

    pub(super) fn take_attempt(&mut self, attempt: &Attempt) {
        let row = &attempt.row;
        if let Some(current) = self.out.state.get(&row.key)
            && is_same(current, row)
        {
            // A readable state is trusted, and so is a row saved after the last event.
            let is_newer = current.updated_at.is_none_or(|at| attempt.touched > at);
            if !self.sound && is_newer {
                self.update(attempt);
            }
            return;
        }
        // The Python program kept no earlier attempts, and its rows were removed by hand.
        let is_missed = !self.sound || (row.submission_id.is_some() && !self.is_too_old(row));
        if attempt.place != Place::Released && is_missed {
            let is_current = attempt.place == Place::Current;
            self.offer(row.clone(), is_current, Origin::AuditLog);
        }
    }

    /// Updates a row of the backup with later events.
    fn update(&mut self, attempt: &Attempt) {
        let key = &attempt.row.key;
        match attempt.place {
            Place::Cleared => {
                self.out.state.clear(key);
            }
            Place::Released => {
                if self.out.state.get(key).is_some_and(TaskRow::is_in_doubt) {
                    self.out.state.forget(key);
                }
            }
            Place::Followed => {
                // The later attempt replaces it, unless it never became a job.
                self.merge(attempt);
                self.out.state.clear(key);
            }
            Place::Current => {
                if !self.merge(attempt) {
                    return;
                }
            }
        }
        self.out.origins.insert(key.clone(), Origin::AuditLog);
    }

    /// Returns whether the log changed the row.
    fn merge(&mut self, attempt: &Attempt) -> bool {
        let Some(row) = self.out.state.row_mut(&attempt.row.key) else {
            return false;
        };
        let mut merged = merge_rows(row, &attempt.row);
        merged.updated_at = row.updated_at;
        let is_changed = merged != *row;
        if is_changed {
            merged.updated_at = Some(attempt.touched);
            *row = merged;
        }
        is_changed
    }

    /// Adds an attempt without a row: as the task's row if it is the newest, otherwise as an earlier
    /// attempt.
    fn offer(&mut self, row: TaskRow, is_current: bool, origin: Origin) {
        if self.is_known(&row) {
            return;
        }
        let current = self.out.state.get(&row.key);
        if current.is_some_and(|current| is_same(current, &row)) {
            return;
        }
        if is_current && current.is_none_or(|current| is_later(&row, current)) {
            self.put(row, origin);
        } else {
            if !is_current && current.is_some_and(|current| is_later(&row, current)) && !self.sound
            {
                // The task was cleared after an attempt that is newer than the backup.
                let key = row.key.clone();
                self.out.state.clear(&key);
                self.out.origins.insert(key, origin);
            }
            self.out.past += 1;
            self.out.state.add_superseded(vec![row]);
        }
    }

    fn put(&mut self, row: TaskRow, origin: Origin) {
        self.out.origins.insert(row.key.clone(), origin);
        self.out.state.put(row);
    }

    /// True if the attempt is among the earlier ones.
    fn is_known(&mut self, row: &TaskRow) -> bool {
        let superseded = self.out.state.superseded();
        for row in superseded.get(self.counted..).unwrap_or_default() {
            let rows = self.known.entry(row.key.clone()).or_default();
            rows.push(row.clone());
        }
        self.counted = superseded.len();
        self.known
            .get(&row.key)
            .is_some_and(|rows| rows.iter().any(|known| is_same(known, row)))
    }

    fn is_too_old(&self, row: &TaskRow) -> bool {
        let both = row.submitted_at.zip(self.oldest);
        both.is_some_and(|(submitted, oldest)| submitted + CLOCK_SLACK < oldest)
    }

    pub(super) fn finish(self, sources: &Sources) -> Rebuilt {
        let mut out = self.out;
        let files = [&sources.state, &sources.backup].into_iter();
        let generation = files.filter_map(generation_of).max().unwrap_or(0);
        let meta = &mut out.state.meta;
        meta.generation = meta.generation.max(generation) + u64::from(!self.sound);
        for finding in Findings::of_files(sources, out.state.len() + out.past).list {
            match finding.level {
                Level::Ok => {}
                Level::Warning => out.notes.push(finding.text),
                Level::Error => out.damage.push(finding.text),
            }
        }
        out.files = Rebuilding {
            state: sources.state.identity().cloned(),
            state_is_sound: self.sound,
            damaged_attempts: match &sources.attempts {
                Found::Damaged { identity, .. } => identity.clone(),
                _ => None,
            },
            journal: sources.journal_mark,
            damaged: sources.damaged(),
        };
        out
    }
}

fn without_others(row: &TaskRow) -> TaskRow {
    TaskRow {
        other_columns: None,
        ..row.clone()
    }
}

fn rows_of(found: &Found<Contents>) -> impl Iterator<Item = &TaskRow> {
    found.read().into_iter().flat_map(|contents| &contents.rows)
}

/// The number of saves in a file. A damaged file may have a wrong one: a huge number must not end the
/// counting.
fn generation_of(found: &Found<Contents>) -> Option<u64> {
    match (found, found.identity()?) {
        (Found::Read(contents), _) => Some(contents.meta.generation),
        (_, Identity::Ours { generation, .. }) => {
            Some(*generation).filter(|generation| *generation < u64::MAX / 2)
        }
        _ => None,
    }
}
