//! Output for people and other programs.

pub mod audit;
pub mod efficiency;
pub mod explain;
pub mod failures;
pub mod graph;
pub mod layout;
pub mod mail;
pub mod notify;
pub mod progress;
pub mod tables;
