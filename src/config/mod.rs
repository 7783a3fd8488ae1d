//! The configuration file, read into plain, valid data.
//!
//! A file goes through [`tree`] (YAML with positions), then `reader` (typed access that collects
//! problems), then `site`, `steps` and `markers` (what keys mean) and `validate` (what must hold
//! between them). [`keys`] is the list of all keys, [`load`] puts it all together.

mod cohort;
pub mod data;
pub mod duration;
mod files;
pub mod keys;
pub mod load;
pub(crate) mod log_patterns;
mod markers;
mod notify;
pub mod occasion;
pub(crate) mod paths;
pub mod problem;
mod reader;
mod rules;
mod sbatch_args;
pub mod schema;
mod site;
mod steps;
pub mod tree;
mod validate;

pub use data::{
    AuditConfig, Ceiling, Config, Fairness, LogPattern, SafetyConfig, Secret, SlurmConfig,
};
pub use files::{file_of_study, root_above};
pub use load::{Overrides, Source, load};
pub use occasion::{NotifyConfig, Occasion};
pub use problem::{ConfigError, Problem};

pub use crate::job::ExecutorKind;
