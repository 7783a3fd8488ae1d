//! All tests that start the program or real services, in one binary (one link).
//! A file per subject; what they share is in `harness`.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod acceptance;
mod answers;
mod arrays;
mod audit;
mod baddays;
mod book;
mod catalogue;
mod check;
mod clean;
mod compare;
mod completions;
mod config;
mod crash;
mod doubt;
mod efficiency;
mod elsewhere;
mod errors;
mod existing;
mod expect;
mod explain;
mod fake_slurm;
mod features;
mod fuzz;
mod harness;
mod harness_slurm;
mod harness_tree;
mod hostile;
mod init;
mod layers;
mod local;
mod lock_and_journal;
mod logs;
mod mail;
mod man;
mod migrating;
mod model;
mod named;
mod news;
mod orders;
mod output;
mod outputs;
mod packages;
mod page;
mod policy;
mod pretty;
mod python;
mod python_helper;
mod readme;
mod repair;
mod retry;
mod run;
mod safety;
mod scan;
mod schema;
mod scripts;
mod site;
mod slurm;
mod soak;
mod state;
mod together;
mod watch;
mod words;
