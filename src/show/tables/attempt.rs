//! One attempt of a task, in words. Pure.

use super::exit::{memory, node, time};
use super::failure_text;
use crate::model::state::{Reason, TaskRow};

/// Says where an attempt stands: `running`, `pending (held)`, `failed (timeout): reached its time limit`.
pub fn row_text(row: &TaskRow) -> String {
    let mut text = row.status.to_string();
    match row.reason {
        None | Some(Reason::Running | Reason::Verified) => {}
        Some(Reason::Submitting) => text.push_str(" (submission in doubt)"),
        Some(reason) => text.push_str(&format!(" ({reason})")),
    }
    if let Some(failure) = failure_text(row) {
        text.push_str(&format!(": {failure}"));
    }
    text
}

/// Slurm says so many seconds of a job without a time limit: a year.
const NO_LIMIT: i64 = 365 * 86_400;

/// Says what an attempt used of what it asked for: `ran 24:00:10 of 1-00:00:00, memory 31.5G seen of
/// 32G, on n1`. None: nothing is known.
pub fn used_text(row: &TaskRow) -> Option<String> {
    let facts = &row.facts;
    let elapsed = facts.elapsed_s.filter(|_| !row.is_in_flight());
    let is_unlimited = facts.time_limit_s >= Some(NO_LIMIT);
    let limit = facts.time_limit_s.filter(|_| !is_unlimited);
    let time = match time(elapsed, limit) {
        Some(text) if is_unlimited && elapsed.is_some() => Some(text + " (no limit)"),
        time => time,
    };
    let memory = memory(facts).map(|memory| format!("memory {memory}"));
    let node = node(facts).map(|node| format!("on {node}"));
    let parts: Vec<String> = [time, memory, node].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::row;
    use crate::model::state::{JobFacts, TaskStatus};

    #[test]
    fn a_job_without_a_time_limit_has_none() {
        let mut row = row("a", TaskStatus::Complete, Reason::Verified);
        row.facts.elapsed_s = Some(0);
        row.facts.time_limit_s = Some(365 * 86_400);
        assert_eq!(used_text(&row).unwrap(), "ran 0:00:00 (no limit)");
    }

    #[test]
    fn an_attempt_is_told_in_one_line() {
        let mut row = row("a", TaskStatus::Failed, Reason::Timeout);
        row.facts = JobFacts {
            elapsed_s: Some(86_410),
            time_limit_s: Some(86_400),
            req_mem_mb: Some(32_768),
            max_rss_mb: Some(16_384),
            node_list: Some("n1".into()),
            ..JobFacts::default()
        };
        assert_eq!(
            row_text(&row),
            "failed (timeout): reached its time limit (ran 1-00:00:10 of 1-00:00:00)"
        );
        assert_eq!(
            used_text(&row).unwrap(),
            "ran 1-00:00:10 of 1-00:00:00, memory 16.0G seen of 32G, on n1"
        );
        row.status = TaskStatus::Running;
        row.reason = Some(Reason::Running);
        assert_eq!(row_text(&row), "running");
        row.facts = JobFacts {
            node_list: Some("None assigned".into()),
            ..JobFacts::default()
        };
        assert_eq!(used_text(&row), None);
    }
}
