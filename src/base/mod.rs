//! General tools, independent of studies and jobs.

pub mod durable;
pub mod exit;
pub mod parallel;
pub mod process;
pub mod regular;
pub mod run;
pub mod shell;
pub mod sys;
pub mod text;
pub mod words;
