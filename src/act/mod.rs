//! What changes the world: passes, submissions, cleaning.

pub mod clean;
pub mod pass;
pub mod submit;
