//! The [`Executor`](crate::executor::Executor) for Slurm.
//!
//! [`client`] implements the trait: `array` submits job arrays, `query` asks squeue and sacct, `home` checks which
//! cluster answers, `others` finds our jobs under other users, `usage` asks about steps. [`inspect`] and [`offers`]
//! serve `check` and `init`. Only `command` starts Slurm's commands.
//!
//! Five modules are pure: `sbatch_line` builds sbatch's command line, [`parse`] reads the answers, [`sbatch_answer`]
//! and [`job_state`] interpret them, and `identity` decides which of them are about the same job.

mod array;
pub mod client;
mod command;
mod identity;
pub mod inspect;
pub mod job_state;
pub mod offers;
pub mod parse;
pub mod sbatch_answer;
mod sbatch_line;
mod time_left;
mod usage;

pub use crate::executor::slurm::client::home::Home;
pub use client::{SlurmExecutor, SlurmSettings};
pub use command::KEPT;
