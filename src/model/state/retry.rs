//! What automatic retries have used up and changed so far: part of a task's row, so that the budget
//! of a task needs no other file. Pure.

use serde::{Deserialize, Serialize};

/// Holds the retries that led to an attempt. The default is an attempt that a person or the first
/// run asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryState {
    /// Retries after failures that are the job's own.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Retries after failures of the infrastructure.
    #[serde(skip_serializing_if = "is_zero")]
    pub infrastructure: u32,
    /// Memory that a retry rule raised to, MB (2^20 bytes); later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_mb: Option<u64>,
    /// Time limit that a retry rule raised to, seconds; later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<u64>,
    /// Nodes that the attempts of this task stay away from, as Slurm prints them (`n[1-3]`); the
    /// newest is last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl RetryState {
    /// True for an attempt that is no automatic retry.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the text of the column, a small JSON object; none for the default.
    pub fn to_text(&self) -> Option<String> {
        if self.is_default() {
            return None;
        }
        serde_json::to_string(self).ok()
    }

    /// Reads the text of the column. What is not understood (a foreign column of the same name) is
    /// the default: at worst a task is tried again more often.
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns how many attempts this one is beside those of the infrastructure, from 1.
    pub fn attempts(&self) -> u32 {
        self.retries.saturating_add(1)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(RetryState::default().to_text(), None);
        let state = RetryState {
            retries: 2,
            infrastructure: 1,
            mem_mb: Some(49_152),
            time_s: Some(7200),
            exclude: ["n1".to_owned(), "n[2-3]".to_owned()].into(),
        };
        assert_eq!(RetryState::from_text(&state.to_text().unwrap()), state);
        for foreign in ["", "yes", "3", "[]", "{\"retries\":-1}", "{\"else\":1}"] {
            assert_eq!(RetryState::from_text(foreign), RetryState::default());
        }
    }
}
