//! Scheduler of BIDS processing pipelines on Slurm.
//!
//! Every command first collects facts into plain values, then decides purely, then acts.
//!
//! Good starting points: [`model`] for the data types, [`decide`] for the decision (why a task is due or not, what happened
//! to its job), [`act`] for submission without losing a job, [`cli`] for the output. `docs/architecture.md` describes every
//! module, `docs/glossary.md` every term. The most important ones:
//!
//! - **Task**: a procedure of a session or subject. **Attempt**: one submission of it; the row describes the newest one.
//! - **Invocation**: one start of the program. **Pass**: look, decide, submit; `run` makes one, `monitor` its first half.
//! - **Submission in doubt**: sbatch was started but has not answered. Until this is resolved, the task counts as in flight.
//!   **Adopted**: its job was found. **Released**: there certainly is none.
//! - **Tag**: `snbb:<project>:<submission id>` in the comment of a job, by which it is found.
//! - **Canary**: a finished job included in accounting queries, to prove that accounting responds.
//! - **Stray job**: a job in the queue with a task's name that is not the job of its row. One with our tag is adopted too.
//! - **Pause**: submission stopped by the user, or by the circuit breaker after repeated failures. **Safety stop**: nothing
//!   is submitted because the disk cannot be trusted.
//! - **Folded**: events of the journal that are in the saved rows.
//! - **Superseded**: an attempt whose row was replaced by a later attempt's. **Overtaken**: an attempt in the journal
//!   whose row already belongs to a later one. Both go to the attempts file.
//! - **Gate**: what holds back sessions whose data is still arriving. **Cohort**: the sessions that the site includes.

// Not in Cargo.toml: in tests nothing is reachable from outside.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod act;
pub mod base;
pub mod cli;
pub mod config;
pub mod decide;
pub mod executor;
pub mod gather;
pub mod model;
pub mod setup;
pub mod show;
pub mod store;
