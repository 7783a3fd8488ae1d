//! Scheduler of BIDS processing pipelines on Slurm.
//!
//! Every command gathers the world into plain values, decides purely, then acts; `docs/architecture.md` draws it.
//!
//! Where to begin: [`procedure`] and [`state`] hold what all else is about, [`manifest`] is the heart (why a task is
//! due or not), [`reconcile`] says what became of jobs, [`submit`] hands them over without losing one, [`pass`] puts
//! these together, and [`cli`] shows them to people. What each module is for, in the order of their dependencies,
//! stands in `docs/architecture.md`; below they are grouped in the same order.
//!
//! # Words
//!
//! - **Task**: a procedure of a session or subject. **Attempt**: one submission of it; its row is the newest one's.
//! - **Call**: one start of the program. **Run**: a call of `run`. **Pass**: look, decide, carry out; a run makes one,
//!   `monitor` makes its first half.
//! - **In doubt**: sbatch was started and its answer is not known. Until that is settled the task counts as in flight.
//!   **Adopted**: the job of such a submission was found. **Released**: there surely is none.
//! - **Tag**: `snbb:<project>:<submission id>` in a job's comment (Slurm's word for the field), by which it is found.
//! - **Canary**: a finished job that accounting is asked for too, to prove that it answers.
//! - **Stray**: a living job with a task's name that is not the one of its row. One with our tag is adopted too.
//! - **Brakes**: what pauses a procedure: a person, or the circuit breaker after failures in a row. **Safety stop**: the
//!   disk is not to be trusted, and nothing is submitted.
//! - **Folded**: what the journal says has been taken into the rows and saved with them.
//! - **Superseded**: an attempt whose row was replaced by a later one's. **Overtaken**: an attempt that the journal tells
//!   of when the row is a later one's already. Both go to the attempts file.
//! - **Gate**: what holds sessions back while their data still arrives. **Cohort**: the sessions that the site wants.

// What everything stands on.
pub mod disk;
pub mod exit;
pub mod hex;
pub mod parallel;
pub mod shell;
pub mod sys;

mod threads;

// What there is: jobs, rows, procedures, sessions, a configuration of them.
pub mod bids;
pub mod config;
pub mod job;
pub mod procedure;
pub mod state;

// What the disk shows, and who runs jobs.
pub mod array;
pub mod completion;
pub mod executor;
pub mod local;
pub mod script;
pub mod slurm;

// A pass.
pub mod manifest;
pub mod pass;
pub mod reconcile;
pub mod request;
pub mod safety;
pub mod submit;

// What is shown of it, and what goes with it.
pub mod audit;
pub mod catalogue;
pub mod check;
pub mod clean;
pub mod explain;
pub mod history;
pub mod init;
pub mod logs;
pub mod mail;
pub mod news;
pub mod outputs;
pub mod tables;

pub mod cli;
