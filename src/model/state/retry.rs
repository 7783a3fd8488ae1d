//! The automatic retries so far and their effects. Part of a task's row, so that it needs no other
//! file.

use serde::{Deserialize, Serialize};

/// The retries that led to an attempt. The default is an attempt that is not an automatic retry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryState {
    /// Retries after failures of the job itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Retries after infrastructure failures.
    #[serde(skip_serializing_if = "is_zero")]
    pub infrastructure: u32,
    /// Memory set by a retry rule, in MB (2^20 bytes); later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_mb: Option<u64>,
    /// Time limit set by a retry rule, in seconds; later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<u64>,
    /// Nodes excluded from further attempts, in Slurm's format (`n[1-3]`); the
    /// newest is last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl RetryState {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The text of the column, a small JSON object; `None` for the default.
    pub fn to_text(&self) -> Option<String> {
        if self.is_default() {
            return None;
        }
        serde_json::to_string(self).ok()
    }

    /// Parses the text of the column. Invalid text (another program's column of the same name) gives
    /// the default: at worst, a task is retried more often.
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The number of this attempt, from 1, without retries after infrastructure failures.
    pub fn attempts(&self) -> u32 {
        self.retries.saturating_add(1)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_states_are_parsed_back() {
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
