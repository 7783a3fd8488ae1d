//! The modules that change things: passes, submissions, cleaning.

pub mod clean;
pub mod pass;
pub mod submit;
