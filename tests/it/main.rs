//! All tests that start the program or real services, in one binary (one link).
//! A file per subject; what they share is in `harness`.

mod audit;
mod config;
mod crash;
mod doubt;
mod errors;
mod fake_slurm;
mod harness;
mod harness_slurm;
mod harness_tree;
mod local;
mod lock_and_journal;
mod model;
mod output;
mod python;
mod readme;
mod repair;
mod run;
mod scan;
mod scripts;
mod site;
mod slurm;
mod state;
mod together;
