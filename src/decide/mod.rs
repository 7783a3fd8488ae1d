//! Pure decisions: which tasks are due, what happened to jobs, whether the disk can be trusted.

pub mod manifest;
pub mod reconcile;
pub mod request;
pub mod safety;
