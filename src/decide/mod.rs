//! Decisions, all pure: which tasks are due, what became of jobs, whether the disk can be trusted.

pub mod manifest;
pub mod reconcile;
pub mod request;
pub mod safety;
