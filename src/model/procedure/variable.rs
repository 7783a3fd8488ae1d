//! The environment variables of every job.

use crate::base::words::words;

words! {
    /// A variable that is set for every job.
    pub enum Variable {
        Subject = "SNBB_SUBJECT",
        Session = "SNBB_SESSION",
        Procedure = "SNBB_PROCEDURE",
        Attempt = "SNBB_ATTEMPT",
        /// The reason of the previous attempt's failure.
        LastReason = "SNBB_LAST_REASON",
        DicomPath = "SNBB_DICOM_PATH",
        BidsRoot = "SNBB_BIDS_ROOT",
        DerivativesRoot = "SNBB_DERIVATIVES_ROOT",
        OutputDir = "SNBB_OUTPUT_DIR",
    }
}

impl Variable {
    /// True if a procedure's `env` may set it, for nodes that see a root under another path. The others identify the
    /// task and its outputs.
    const fn may_be_set(self) -> bool {
        matches!(self, Self::BidsRoot | Self::DerivativesRoot)
    }

    /// The names that a procedure's `env` may not set.
    pub fn reserved() -> Vec<&'static str> {
        let reserved = Self::ALL.iter().filter(|variable| !variable.may_be_set());
        reserved.map(|variable| variable.as_str()).collect()
    }

    /// True if the value depends on the task; all others are equal within a job array.
    const fn is_of_task(self) -> bool {
        !matches!(
            self,
            Self::Procedure | Self::BidsRoot | Self::DerivativesRoot
        )
    }
}

/// True if tasks that differ in this variable may be one job array.
pub fn may_differ(name: &str) -> bool {
    Variable::ALL
        .iter()
        .any(|variable| variable.is_of_task() && variable.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of one array share the other variables, which are passed to sbatch only once.
    #[test]
    fn only_variables_of_a_task_may_differ_in_an_array() {
        for name in [
            "SNBB_SUBJECT",
            "SNBB_SESSION",
            "SNBB_ATTEMPT",
            "SNBB_LAST_REASON",
            "SNBB_DICOM_PATH",
            "SNBB_OUTPUT_DIR",
        ] {
            assert!(may_differ(name), "{name}");
        }
        for name in [
            "SNBB_PROCEDURE",
            "SNBB_BIDS_ROOT",
            "SNBB_DERIVATIVES_ROOT",
            "PATH",
            "",
        ] {
            assert!(!may_differ(name), "{name}");
        }
    }
}
