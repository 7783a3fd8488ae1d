//! Plain data: labels, procedures, jobs, rows, the configuration.

pub mod annex;
pub mod bids;
pub mod config;
pub mod job;
pub mod procedure;
pub mod state;
