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

/// A hash map for names in a study. The standard library's also resists texts that were made to collide, and needs several
/// times the time for short ones.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
