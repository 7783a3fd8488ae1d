//! The command line.

pub mod layout;
pub mod output;
pub mod progress;
pub mod views;
