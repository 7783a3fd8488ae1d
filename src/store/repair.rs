//! Rebuilds the rows from everything that is left: the state file or the copy before it, the
//! journal, the audit log, the attempts file. Pure.
//!
//! No row that any source knows is lost; where sources disagree the newer attempt wins. A readable
//! state file is believed as it stands: then only what is missing in it is added.

mod fix;
mod history;
mod merge;
mod same;

use std::collections::BTreeMap;

use super::journal::Entry;
use super::sources::Sources;
use crate::base::words::words;
use crate::model::state::{State, TaskKey};
use crate::store::state_file::Rebuilding;
use merge::Merge;

pub use fix::shared_jobs;
pub use same::is_same;

words! {
    /// The source of a row.
    pub enum Origin {
        StateFile = "state file",
        Backup = "copy before",
        Attempts = "attempts file",
        Journal = "journal",
        AuditLog = "audit log",
        /// Queue, accounting or disk.
        World = "Slurm and disk",
        /// A rule that the row broke.
        Mended = "broken rule",
    }
}

/// Holds what was rebuilt.
#[derive(Debug)]
pub struct Rebuilt {
    pub state: State,
    /// What the rows began as: the state file's, else those of the copy before it.
    pub base: Origin,
    /// The rows of the base, to compare with.
    pub before: State,
    /// Rows that do not stand in the base as they are now.
    pub origins: BTreeMap<TaskKey, Origin>,
    /// Earlier attempts that only the copy or the audit log still knew.
    pub past: usize,
    /// Files that are damaged or gone, one sentence each.
    pub damage: Vec<String>,
    /// What could not be used, and what a person should know.
    pub notes: Vec<String>,
    pub files: Rebuilding,
}

impl Rebuilt {
    /// True if there is something to repair.
    pub fn is_needed(&self) -> bool {
        !self.damage.is_empty()
            || self.past > 0
            // What the journal holds is folded in by the next call that writes.
            || self.origins.values().any(|origin| *origin != Origin::Journal)
    }
}

/// Rebuilds the state in memory.
pub fn rebuild(sources: &Sources) -> Rebuilt {
    let mut merge = Merge::begin(sources);
    merge.take_backup(sources);
    let entries: &[Entry] = sources
        .journal
        .read()
        .map_or(&[], |salvaged| &salvaged.entries);
    merge.take_journal(entries);
    let records = sources
        .audit
        .read()
        .map_or(&[][..], |contents| &contents.records);
    let tasks = history::replay(records);
    merge.take_attempts(sources, &tasks);
    merge.take_history(&tasks);
    // Results whose intent is damaged find the row that the log gave them.
    merge.take_journal(entries);
    let meta = &mut merge.out.state.meta;
    entries.iter().for_each(|entry| entry.fill(meta));
    if let (None, Some(attempts)) = (&meta.project, sources.attempts.read()) {
        meta.project.clone_from(&attempts.meta.project);
        meta.path.clone_from(&attempts.meta.path);
    }
    history::fill_meta(meta, records);
    fix::fix(&mut merge.out, &tasks);
    merge.finish(sources)
}

#[cfg(test)]
mod tests;
