//! All tests that start the program or real services, in one binary (one link).
//! A file per subject; what they share is in `harness`.

mod arrays;
mod baddays;
mod clean;
mod config;
mod crash;
mod doubt;
mod errors;
mod expect;
mod fake_slurm;
mod fuzz;
mod harness;
mod harness_slurm;
mod harness_tree;
mod hostile;
mod local;
mod lock_and_journal;
mod model;
mod orders;
mod output;
mod outputs;
mod policy;
mod python;
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
mod state;
mod together;
mod words;
