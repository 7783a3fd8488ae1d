//! Scheduler of BIDS processing pipelines on Slurm.
//!
//! Every command gathers the world into plain values, decides purely, then acts; `docs/architecture.md` draws it.
//!
//! Where to begin: [`model`] holds what all else is about, [`decide`] is the heart (why a task is due or not, what became
//! of its job), [`act`] hands jobs over without losing one, and [`cli`] shows the result. `docs/architecture.md` says
//! what each module is for.
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
