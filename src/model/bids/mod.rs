//! BIDS: labels of subjects and sessions, the sessions of a study, and suggestions for misspelled names.

pub mod cohort;
pub mod labels;
pub mod session;
pub mod suggest;

pub use cohort::{Cohort, CohortSource};
pub use labels::{LabelError, SessionLabel, SubjectLabel, is_of_label};
pub use session::{Dicom, Gate, Search, Session, SessionSource};
