//! What all topics look at: the configuration, and what was read of the study once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::executor::ExecutorError;
use crate::executor::script::find_script;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::{DiscoverError, Discovery};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Procedure;

/// The site under check, shared by all threads.
pub struct Site {
    pub config: Config,
    pub reader: Reader,
    /// Instead of `/proc/self/mountinfo`.
    pub mountinfo: Option<PathBuf>,
}

/// What the search for sessions gave; it is waited for before the topics that need it.
pub type Found = Result<Discovery, DiscoverError>;

impl Site {
    pub fn new(config: Config, mountinfo: Option<PathBuf>) -> Self {
        Self {
            reader: Reader::default().counting(config.annex),
            config,
            mountinfo,
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

    /// Looks for a script as the executor does, with another `PATH`.
    pub fn find_script(
        &self,
        script: &str,
        path: Option<&OsString>,
    ) -> Result<PathBuf, ExecutorError> {
        let dirs = self.config.script_dir.iter().cloned();
        let dirs: Vec<PathBuf> = dirs
            .chain(self.config.base_dir().map(Path::to_owned))
            .collect();
        find_script(script, &dirs, path.map(OsString::as_os_str))
    }
}
