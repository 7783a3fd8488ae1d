//! Job arrays: what is written beside the state for the tasks of one.
//!
//! One sbatch submits many tasks. Each of them keeps a row, an intent and a submission id of its own, so that
//! journal, doubts and adoption work on tasks as they do on single jobs. What an array's index means stands
//! in its task list, which is on disk before sbatch starts and never changes afterwards.

pub mod files;
pub mod list;
pub mod wrapper;
