//! The [`Executor`](crate::executor::Executor) for Slurm.
//!
//! [`client`] implements the trait: `observe` asks for everything that a pass needs, `query` has the single queries,
//! [`usage`] asks about steps. [`inspect`] serves `check` and `init`. Only `command` starts Slurm's commands.
//!
//! Five modules are pure: `sbatch_line` builds sbatch's command line, [`parse`] reads the answers, [`sbatch_answer`]
//! and [`job_state`] interpret them, and `identity` decides which of them are about the same job.

pub mod client;
mod command;
mod identity;
pub mod inspect;
pub mod job_state;
pub mod parse;
pub mod sbatch_answer;
mod sbatch_line;
pub mod usage;

pub use crate::executor::slurm::client::query::Home;
pub use client::{SlurmExecutor, SlurmSettings};
pub use command::KEPT;
