//! The files that the program writes: rows, journal, lock, audit log.

pub mod audit_log;
pub mod control;
mod findings;
pub mod journal;
pub mod lock;
pub mod purge;
pub mod repair;
pub mod schema;
pub mod sources;
pub mod state_file;
pub mod verify;
