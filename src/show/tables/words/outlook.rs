//! What becomes of a failed task, in words.

use crate::base::sys::local_time;
use crate::decide::manifest::{Budget, Outlook};

/// Says the same of a task's `attempt`, the number of which goes on when a budget starts anew.
pub fn outlook_text(outlook: Outlook, attempt: i32) -> String {
    match outlook {
        Outlook::None => "'retry' clears it".to_owned(),
        Outlook::Now => "is tried again".to_owned(),
        Outlook::At(at) => format!("is tried again from {}", local_time(at)),
        Outlook::Spent(budget) => spent_text(budget, attempt),
    }
}

fn spent_text(budget: Budget, attempt: i32) -> String {
    let Budget { used, allowed, .. } = budget;
    let left = match (budget.infrastructure, allowed) {
        (true, 0) => "max_infrastructure is 0".to_owned(),
        (true, _) => {
            format!(
                "{used} retries after failures that are not its fault, and {allowed} are allowed"
            )
        }
        (false, 1) => "max_attempts is 1".to_owned(),
        (false, _) if i64::from(attempt) > i64::from(used) => {
            format!("all {allowed} attempts since it was last cleared are used up")
        }
        (false, _) => format!("all {allowed} attempts are used up"),
    };
    format!("{left}; 'retry' starts anew")
}
