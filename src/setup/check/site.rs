//! Input shared by all topics: the configuration, and the parts of the study that are read once.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::base::sys;
use crate::executor::ExecutorError;
use crate::executor::script::find_script;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::{DiscoverError, Discovery};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Procedure;
use crate::model::state::{State, TaskRow};
use crate::store::state_file::Store;
use crate::store::verify;

/// The site under check, shared by all threads.
pub struct Site {
    pub config: Config,
    pub reader: Reader,
    /// The discovered sessions. Empty if that took too long.
    pub found: OnceLock<Result<Discovery, DiscoverError>>,
    /// Empty if it cannot be read, or not in time.
    pub study: OnceLock<Study>,
}

/// The state and the files beside it.
pub struct Study {
    pub state: State,
    pub store: Store,
    pub attempts: Vec<TaskRow>,
    /// The findings of `state verify`.
    pub verified: Vec<verify::Finding>,
}

impl Site {
    pub fn new(config: Config) -> Self {
        Self {
            reader: Reader::default().with_annex(config.annex),
            config,
            found: OnceLock::new(),
            study: OnceLock::new(),
        }
    }

    pub fn is_slurm(&self) -> bool {
        self.config.executor == ExecutorKind::Slurm
    }

    pub fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.config
            .procedures
            .iter()
            .map(|(_, procedure)| procedure)
    }

    /// The discovered sessions, if discovery succeeded.
    pub fn discovery(&self) -> Option<&Discovery> {
        self.found.get()?.as_ref().ok()
    }

    pub fn state(&self) -> Option<&State> {
        self.study.get().map(|study| &study.state)
    }

    /// Finds a script like the executor.
    pub fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        let path = sys::env("PATH");
        find_script(script, &self.config.script_dirs(), path.as_deref())
    }
}
