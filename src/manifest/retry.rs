//! Whether a failed task is tried again without a person, when, and how the next attempt differs. Pure.

use chrono::{DateTime, Utc};

use crate::procedure::RetryRules;
use crate::state::TaskRow;

/// Says what becomes of a failed task by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outlook {
    /// Nothing: no rule speaks of this failure, so it waits for a person.
    None,
    /// It is tried again now.
    Now,
    /// It is tried again at this time.
    At(DateTime<Utc>),
    /// The rules allow no more attempts: it waits for a person.
    Spent { attempts: u32, allowed: u32 },
}

/// Says what becomes of a failed row.
pub fn outlook(_rules: Option<&RetryRules>, _row: &TaskRow, _now: DateTime<Utc>) -> Outlook {
    Outlook::None
}
