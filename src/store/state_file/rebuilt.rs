//! Saves a rebuilt state in place of damaged or missing files.
//!
//! Nothing is lost: a damaged file gets a second name first, and a crash at any moment leaves either
//! the damaged file or the new one in its place.

use std::path::PathBuf;

use super::{LockedStore, StateError, attempts, refuse_newer};
use crate::base::durable;
use crate::model::state::State;
use crate::model::state::table::{Identity, Origin};

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
            return Err(StateError::Conflict {
                path: paths.journal.clone(),
            });
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
            Some(damaged) => attempts::write_anew(&self.store, state, Some(damaged))?,
            None => attempts::save(&self.store, state)?,
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
}
