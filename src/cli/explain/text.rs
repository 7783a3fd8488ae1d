//! An explanation as text.

use std::path::Path;

use chrono::{DateTime, Utc};

use crate::base::sys;
use crate::base::text::{and_more, maybe, plural_of, size};
use crate::cli::blocks::{Block, NO_BREAK};
use crate::gather::completion::explain::{
    ANYTHING, Finding, FindingState, Findings, Match, Nearest, Verdict,
};
use crate::model::state::{Reason, TaskStatus};
use crate::show::explain::{Attempt, Explanation, Next};
use crate::show::tables::TaskState;

/// Ready dependencies named individually.
const READY_SHOWN: usize = 3;

/// Adds every detail of a task.
pub(super) fn detailed(block: &mut Block, task: &Explanation, is_queue_known: bool) {
    block.title(&name(task), &task.headline);
    if task.text != task.headline {
        block.entry("why", &task.text);
    }
    for link in &task.because {
        block.entry("", &format!("because {link}"));
    }
    block.entry("to do", &task.todo);
    block.entries("held by", &task.held_by);
    dependencies(block, task);
    if let Some(dicom) = &task.dicom {
        let missing = if dicom.exists { "" } else { " (missing)" };
        block.entry("dicom", &format!("{}{missing}", dicom.path));
    }
    outputs(
        block,
        &task.outputs,
        task.decision.is_some_and(TaskState::is_in_flight),
    );
    on_record(block, task, is_queue_known);
    // The newest attempt is the row.
    if task.attempts.len() > usize::from(task.row.is_some()) {
        block.entries("attempts", task.attempts.iter().map(attempt_text));
    }
    if let Some(retry) = &task.retry {
        let newest = task.row.as_ref().map_or(0, |row| row.attempt);
        let since = match i64::from(newest) > i64::from(retry.attempts_used) {
            true => " since it was last cleared",
            false => "",
        };
        let allowed = match (retry.attempts_allowed, retry.infrastructure_allowed) {
            (Some(attempts), Some(infrastructure)) => format!(
                " (attempt {} of {attempts}{since}; {} of {infrastructure} retries after infrastructure failures)",
                retry.attempts_used, retry.infrastructure_used
            ),
            _ => " (the procedure has no retry rules)".to_owned(),
        };
        block.entry("retry", &format!("{}{allowed}", retry.text));
    }
    if let Some(next) = &task.next {
        upcoming(block, next);
    }
}

/// Adds the status of a task, its cause and its remedy.
pub(super) fn brief(block: &mut Block, task: &Explanation) {
    block.title(&name(task), &task.text);
    if let Some(root) = task.because.last() {
        block.entry("because", root);
    }
    let missing = task.outputs.required.iter().chain(&task.outputs.forbidden);
    if matches!(
        task.decision,
        Some(TaskState::Due | TaskState::Failed | TaskState::Limit | TaskState::Paused)
    ) && let Some(finding) = missing.clone().find(|finding| is_problem(finding))
    {
        let base = Path::new(&task.outputs.directory);
        block.entry("outputs", &finding_text(finding, base));
    }
    // The remedy for a cause is shown with the task that it is in.
    if task.because.is_empty()
        && !matches!(
            task.decision,
            Some(
                TaskState::Complete
                    | TaskState::NotApplicable
                    | TaskState::Due
                    | TaskState::Running
            )
        )
    {
        block.entry("to do", &task.todo);
    }
}

fn name(task: &Explanation) -> String {
    let key = &task.key;
    let words = [&*key.procedure, &*key.subject, &*key.session];
    words.join(" ").trim_end().to_owned()
}

fn dependencies(block: &mut Block, task: &Explanation) {
    let (ready, waiting): (Vec<_>, Vec<_>) = task.dependencies.iter().partition(|d| d.ready);
    let mut label = "needs";
    for needed in &waiting {
        let name = format!("{} {}", needed.procedure, needed.session);
        let any = match needed.any_session {
            true => " (one session is enough)",
            false => "",
        };
        block.entry(label, &format!("{}: {}{any}", name.trim_end(), needed.text));
        label = "";
        if let Some(root) = needed.because.last() {
            block.entry("", &format!("  because {root}"));
        }
    }
    if ready.len() <= READY_SHOWN {
        for needed in &ready {
            let name = format!("{} {}", needed.procedure, needed.session);
            block.entry(label, &format!("{}: {}", name.trim_end(), needed.decision));
            label = "";
        }
    } else {
        block.entry(label, &format!("{} tasks are complete", ready.len()));
    }
}

fn outputs(block: &mut Block, outputs: &Findings, is_in_flight: bool) {
    // The directory of a removed procedure is unknown.
    if outputs.directory.is_empty() {
        return;
    }
    let verdict = match outputs.verdict {
        Verdict::Complete => "complete",
        Verdict::Incomplete => "incomplete",
        Verdict::NotApplicable => "not needed",
        Verdict::Unreadable => "unreadable",
    };
    let caveat = if is_in_flight && outputs.verdict == Verdict::Complete {
        ", not trusted until the job finishes"
    } else {
        ""
    };
    block.entry(
        "outputs",
        &format!("{verdict}{caveat}; directory: {}", outputs.directory),
    );
    let base = Path::new(&outputs.directory);
    let findings = outputs.required.iter().chain(&outputs.forbidden);
    block.entries("", findings.map(|finding| finding_text(finding, base)));
}

/// Reasons why a task's outputs are incomplete.
pub(crate) fn output_problems(outputs: &Findings) -> Vec<String> {
    let base = Path::new(&outputs.directory);
    let all = outputs.required.iter().chain(&outputs.forbidden);
    all.filter(|finding| is_problem(finding))
        .map(|finding| finding_text(finding, base))
        .collect()
}

fn is_problem(finding: &Finding) -> bool {
    matches!(
        finding.state,
        FindingState::Missing | FindingState::Forbidden | FindingState::Unreadable
    )
}

/// For example `missing: dwi/*_dwi.bvec: dwi contains 3 entries (a, b, c), but none that matches *_dwi.bvec`.
fn finding_text(finding: &Finding, base: &Path) -> String {
    let word = match finding.state {
        FindingState::Found => "found",
        FindingState::Missing => "missing",
        FindingState::NotNeeded => "not needed",
        FindingState::Forbidden => "forbidden",
        FindingState::Absent => "absent",
        FindingState::Unreadable => "unreadable",
    };
    let rule = match (finding.state, finding.rule.as_str()) {
        (_, ANYTHING) => "any file".to_owned(),
        (FindingState::Absent, rule) => format!("{rule} (must not exist)"),
        (_, rule) => rule.to_owned(),
    };
    let mut facts: Vec<String> = Vec::new();
    if let Some(first) = finding.matches.first() {
        let count = finding.count.max(finding.matches.len());
        facts.push(match_text(first, base) + &and_more(count, 1));
    }
    facts.extend(finding.note.clone());
    if finding.note.is_none()
        && let Some(nearest) = &finding.nearest
    {
        facts.push(nearest_text(nearest, base));
    }
    if facts.is_empty() {
        format!("{word}: {rule}")
    } else {
        format!("{word}: {rule}: {}", facts.join("; "))
    }
}

fn match_text(found: &Match, base: &Path) -> String {
    let path = below(&found.path, base);
    if let Some(problem) = &found.problem {
        return format!("{path} {problem}");
    }
    let size = found.size.map_or_else(|| "directory".to_owned(), size);
    match found.modified {
        Some(at) => format!("{path} ({size}, {})", time(at)),
        None => format!("{path} ({size})"),
    }
}

fn nearest_text(nearest: &Nearest, base: &Path) -> String {
    let dir = match below(&nearest.directory, base) {
        dir if dir.is_empty() => "the directory".to_owned(),
        dir => dir,
    };
    if nearest.entries == 0 {
        return format!("{dir} is empty");
    }
    let wanted = Some(&nearest.fails_at).filter(|wanted| !wanted.is_empty());
    let is_pattern = nearest.fails_at.contains(['*', '?', '[']);
    let none = if is_pattern {
        ", but none that matches "
    } else {
        ", but no "
    };
    let more = if nearest.entries > nearest.names.len() {
        ", ..."
    } else {
        ""
    };
    let names = nearest.names.join(", ");
    let holds = plural_of(nearest.entries, "entry", "entries");
    format!(
        "{dir} contains {holds} ({names}{more}){}",
        maybe(none, wanted, "")
    )
}

fn below(path: &str, base: &Path) -> String {
    match Path::new(path).strip_prefix(base) {
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    }
}

fn on_record(block: &mut Block, task: &Explanation, is_queue_known: bool) {
    let Some(row) = &task.row else {
        let text = if task.attempts.is_empty() {
            "none: it was never submitted"
        } else {
            "none: the earlier one was cleared"
        };
        block.entry("record", text);
        return;
    };
    let (attempt, log) = (row.attempt, row.log_path.as_deref());
    let used = row.used.as_deref();
    let row = &row.row;
    let is_running = row.status == TaskStatus::Running;
    let started = row.facts.started_at.filter(|_| is_running);
    let since = row.facts.ended_at.or(started);
    let since = since.or(row.submitted_at).or(row.updated_at);
    let since = maybe(", since ", since.map(time), "");
    let reason = row.reason.filter(|reason| *reason != Reason::Running);
    let reason = maybe(" (", reason, ")");
    let job = maybe(", job ", row.job_id.as_ref(), "");
    block.entry(
        "record",
        &format!("{}{reason}, attempt {attempt}{job}{since}", row.status),
    );
    if let Some(used) = used {
        block.entry("", used);
    }
    if let Some(log) = log {
        block.verbatim("log", log);
    }
    if let Some(silence) = &task.silence {
        block.entry("", silence);
    }
    if !row.is_in_flight() && task.job.is_none() {
        return;
    }
    let text = match (&task.job, &row.job_id) {
        (Some(job), _) => {
            let reason = maybe(" (", job.pending_reason.as_deref(), ")");
            let node = job.node_list.as_deref().filter(|node| !node.is_empty());
            let node = maybe(" on ", node, "");
            let cluster = maybe(" of cluster ", job.cluster.as_deref(), "");
            format!("job {}{cluster} is {}{reason}{node}", job.job_id, job.state)
        }
        (None, Some(id)) if is_queue_known => format!("job {id} is not in the queue"),
        (None, None) if is_queue_known => "no job with its tag is in the queue".to_owned(),
        (None, _) => "not responding".to_owned(),
    };
    block.entry("queue", &text);
}

fn attempt_text(attempt: &Attempt) -> String {
    let job = maybe(" job ", attempt.row.job_id.as_ref(), ",");
    let at = maybe(" submitted ", attempt.row.submitted_at.map(time), ",");
    let used = maybe("; ", attempt.used.as_deref(), "");
    format!("#{}:{job}{at} {}{used}", attempt.attempt, attempt.text)
}

fn upcoming(block: &mut Block, next: &Next) {
    let mut text = format!("its next submission is attempt {}", next.attempt);
    if !next.asks.is_empty() {
        text.push_str(&format!(" with {}", next.asks.join(" ")));
    }
    if let Some(count) = next.array_tasks {
        text.push_str(&format!(", in one job array of {count}"));
    }
    block.entry("next", &text);
    block.entries("", next.changes.iter().chain(&next.reduced));
    if let Some(problem) = &next.script_problem {
        block.entry("", &format!("cannot be submitted: {problem}"));
    }
    block.verbatim("command", &next.command);
}

/// A time without line breaks.
fn time(at: DateTime<Utc>) -> String {
    sys::local_time(at).replace(' ', &NO_BREAK.to_string())
}
