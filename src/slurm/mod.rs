//! Slurm behind the [`Executor`](crate::executor::Executor) trait.
//!
//! [`client`] implements the trait, `array` submits job arrays, `query` asks squeue and sacct and `usage` asks
//! about steps, [`inspect`] asks for `check`, `command` is the only file that starts Slurm's commands; [`parse`] reads their answers,
//! [`submit_error`] and [`job_state`] know what the
//! answers mean. The last three are pure.

mod array;
pub mod client;
mod command;
pub mod inspect;
pub mod job_state;
pub mod offers;
pub mod parse;
mod query;
pub mod submit_error;
mod time_left;
mod usage;

pub use client::{SlurmExecutor, SlurmSettings};
