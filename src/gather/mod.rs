//! What is on disk: sessions, outputs, logs.

pub mod completion;
pub mod disk;
pub mod logs;
pub mod sessions;
