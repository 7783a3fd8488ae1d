//! Slurm behind the [`Executor`](crate::executor::Executor) trait.
//!
//! [`client`] implements the trait: `array` submits job arrays, `query` asks squeue and sacct, `home` checks which
//! cluster answers, `others` finds our jobs of other users, `usage` asks about steps. [`inspect`] and [`offers`] ask
//! for `check` and `init`. `command` is the only file that starts Slurm's
//! commands. `sbatch_line` writes sbatch's, [`parse`] reads the answers; [`sbatch_answer`] and [`job_state`] know
//! what the answers mean; `identity` decides which of them are about one job. These five are pure.

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
