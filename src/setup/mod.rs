//! Setting a study up, and checking that it is sound.

pub mod catalogue;
pub mod check;
pub mod init;
pub mod place;
