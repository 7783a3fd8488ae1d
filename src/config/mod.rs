//! The configuration file, read into plain, valid data.
//!
//! A file goes through [`tree`] (YAML with positions), then `reader` (typed access that collects
//! problems), then `site`, `steps` and `rules` (the meaning of the keys) and `validate` (consistency
//! between them). [`keys`] is the list of all keys; [`load`] combines the steps.

pub mod duration;
pub mod keys;
pub mod load;
pub(crate) mod paths;
pub mod problem;
mod reader;
mod rules;
pub mod settings;
mod site;
mod steps;
pub mod tree;
mod validate;

use std::path::PathBuf;

pub use load::load;
pub use problem::{ConfigError, Problem};
pub use settings::{Origin, Setting};
pub(crate) use site::compile_patterns;
pub use validate::{file_of_study, root_above};

use crate::model::procedure::MemSize;

/// Values from the command line that override the file. `None` if not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--slurm-mem`: for every procedure, regardless of the file.
    pub slurm_mem: Option<MemSize>,
    /// `--slurm-cpus`: likewise; 0 means no `--cpus-per-task`.
    pub slurm_cpus: Option<u32>,
    /// `--slurm-log-dir`: relative to the working directory.
    pub slurm_log_dir: Option<PathBuf>,
}
