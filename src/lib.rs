//! Scheduler of BIDS processing pipelines on Slurm.
//!
//! Every command gathers the world into plain values, decides purely, then acts:
//!
//! ```text
//!            gather (shell)                 decide (pure)                    act (shell)
//!  config ─┐
//!  bids::discover ──┐
//!  completion::probe├─► reconcile ─► changes ─► manifest::plan ─► Manifest ─► submit ─► state::store
//!  state::store ────┤                                                          │
//!  executor.observe ┘                                                          └► executor.submit
//! ```
//!
//! The modules in reading order:

pub mod disk;
pub mod exit;
pub mod hex;
pub mod job;
pub mod parallel;
pub mod shell;
pub mod sys;

mod threads;

pub mod bids;
pub mod procedure;

pub mod config;

pub mod completion;

pub mod state;

pub mod executor;
pub mod local;
pub mod script;
pub mod slurm;

pub mod array;
pub mod manifest;
pub mod pass;
pub mod reconcile;
pub mod request;
pub mod safety;
pub mod submit;

pub mod tables;

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

pub mod cli;
pub mod outputs;
