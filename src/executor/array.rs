//! Job arrays: the files that are written for the tasks of one.
//!
//! One sbatch submits many tasks. Each keeps its own row, intent and submission id, so that journal, doubts and
//! adoption work as for single jobs. The task list maps each index to its task; it is on disk before sbatch starts
//! and never changes afterwards.

pub mod files;
pub mod list;
pub mod wrapper;
