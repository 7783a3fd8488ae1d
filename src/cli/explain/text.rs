//! An explanation as text.

use std::borrow::Cow;
use std::path::Path;

use chrono::{DateTime, Utc};
use itertools::Itertools as _;
use serde::Serialize;

use crate::base::text::{and_more, plural_of, size};
use crate::cli::blocks::{Block, NO_BREAK};
use crate::cli::{Reason, TaskState, TaskStatus, few, maybe, sys};
use crate::gather::completion::Completion;
use crate::gather::completion::explain::{
    ANYTHING, Finding, FindingState, Findings, Match, Nearest,
};
use crate::show::explain::{Attempt, Explanation, Needed};

/// Ready dependencies named individually.
const READY_SHOWN: usize = 3;

/// Adds every detail of a task.
pub(super) fn detailed(block: &mut Block, task: &Explanation, is_queue_known: bool) {
    block.title(&task.key.to_string(), &task.headline);
    if task.text != task.headline {
        block.entry("why", &task.text);
    }
    block.entries(
        "",
        task.because.iter().map(|link| format!("because {link}")),
    );
    block.entry("to do", &task.todo);
    block.entries("held by", &task.held_by);
    dependencies(block, task);
    block.entries(
        "dicom",
        task.dicom.as_ref().map(|dicom| match dicom.exists {
            true => dicom.path.clone(),
            false => format!("{} (missing)", dicom.path),
        }),
    );
    outputs(block, task);
    on_record(block, task, is_queue_known);
    // The newest attempt is the row.
    if task.attempts.len() > usize::from(task.row.is_some()) {
        block.entries("attempts", task.attempts.iter().map(attempt_text));
    }
    if let Some(retry) = &task.retry {
        let budget = retry.attempts_allowed.zip(retry.infrastructure_allowed);
        let budget = budget.map(|(attempts, infrastructure)| {
            format!(
                "attempt {} of {attempts}; {} of {infrastructure} retries after infrastructure failures",
                retry.attempts_used, retry.infrastructure_used
            )
        });
        let budget = budget.unwrap_or_else(|| "the procedure has no retry rules".to_owned());
        block.entry("retry", &format!("{} ({budget})", retry.text));
    }
    if let Some(next) = &task.next {
        let asks = Some(next.asks.join(" ")).filter(|asks| !asks.is_empty());
        let asks = maybe(" with ", asks, "");
        let array = maybe(", in one job array of ", next.array_tasks, "");
        let text = format!(
            "its next submission is attempt {}{asks}{array}",
            next.attempt
        );
        block.entry("next", &text);
        let problem = next.script_problem.as_ref();
        let problem = problem.map(|problem| format!("cannot be submitted: {problem}"));
        block.entries("", next.changes.iter().chain(&next.reduced).chain(&problem));
        block.verbatim("command", &next.command);
    }
}

/// Adds the status of a task, its cause and its remedy.
pub(super) fn brief(block: &mut Block, task: &Explanation) {
    block.title(&task.key.to_string(), &task.text);
    block.entries("because", task.because.last());
    use TaskState::{Complete, Due, Failed, Limit, NotApplicable, Paused, Running};
    if matches!(task.decision, Some(Due | Failed | Limit | Paused)) {
        let problems = output_problems(&task.outputs);
        block.entries("outputs", problems.first());
    }
    // The remedy for a cause is shown with the task that it is in.
    let is_fine = matches!(
        task.decision,
        Some(Complete | NotApplicable | Due | Running)
    );
    if task.because.is_empty() && !is_fine {
        block.entry("to do", &task.todo);
    }
}

fn dependencies(block: &mut Block, task: &Explanation) {
    let name = |needed: &Needed| {
        let name = format!("{} {}", needed.procedure, needed.session);
        name.trim_end().to_owned()
    };
    let (ready, waiting): (Vec<_>, Vec<_>) = task.dependencies.iter().partition(|d| d.ready);
    let mut lines = Vec::new();
    for needed in waiting {
        let any = match needed.any_session {
            true => " (one session is enough)",
            false => "",
        };
        lines.push(format!("{}: {}{any}", name(needed), needed.text));
        let root = needed.because.last();
        lines.extend(root.map(|root| format!("  because {root}")));
    }
    let ready = ready
        .iter()
        .map(|needed| format!("{}: {}", name(needed), needed.decision));
    let ready = ready.collect_vec();
    if !ready.is_empty() {
        lines.push(few(&ready, READY_SHOWN));
    }
    block.entries("needs", lines);
}

fn outputs(block: &mut Block, task: &Explanation) {
    let outputs = &task.outputs;
    // The directory of a removed procedure is unknown.
    if outputs.directory.is_empty() {
        return;
    }
    let mut verdict = word(&outputs.verdict);
    let is_in_flight = task.decision.is_some_and(TaskState::is_in_flight);
    if is_in_flight && outputs.verdict == Completion::Complete {
        verdict.push_str(", not trusted until the job finishes");
    }
    let directory = &outputs.directory;
    block.entry("outputs", &format!("{verdict}; directory: {directory}"));
    let base = Path::new(&outputs.directory);
    let findings = outputs.required.iter().chain(&outputs.forbidden);
    block.entries("", findings.map(|finding| finding_text(finding, base)));
}

/// A verdict as in JSON, with spaces.
fn word(verdict: impl Serialize) -> String {
    let word = serde_json::to_value(verdict).unwrap_or_default();
    word.as_str().unwrap_or_default().replace('_', " ")
}

/// Reasons why a task's outputs are incomplete.
pub(crate) fn output_problems(outputs: &Findings) -> Vec<String> {
    use FindingState::{Forbidden, Missing, Unreadable};
    let base = Path::new(&outputs.directory);
    let all = outputs.required.iter().chain(&outputs.forbidden);
    all.filter(|finding| matches!(finding.state, Missing | Forbidden | Unreadable))
        .map(|finding| finding_text(finding, base))
        .collect()
}

/// For example `missing: dwi/*_dwi.bvec: dwi contains 3 entries (a, b, c), but none that matches *_dwi.bvec`.
fn finding_text(finding: &Finding, base: &Path) -> String {
    let rule = match (finding.state, finding.rule.as_str()) {
        (_, ANYTHING) => "any file".to_owned(),
        (FindingState::Absent, rule) => format!("{rule} (must not exist)"),
        (_, rule) => rule.to_owned(),
    };
    let mut facts = Vec::new();
    if let Some(first) = finding.matches.first() {
        let count = finding.count.max(finding.matches.len());
        facts.push(match_text(first, base) + &and_more(count, 1));
    }
    match (&finding.note, &finding.nearest) {
        (Some(note), _) => facts.push(note.clone()),
        (None, Some(nearest)) => facts.push(nearest_text(nearest, base)),
        _ => {}
    }
    let facts = Some(facts.join("; ")).filter(|facts| !facts.is_empty());
    format!("{}: {rule}{}", word(finding.state), maybe(": ", facts, ""))
}

fn match_text(found: &Match, base: &Path) -> String {
    let path = below(&found.path, base);
    if let Some(problem) = &found.problem {
        return format!("{path} {problem}");
    }
    let size = found.size.map_or_else(|| "directory".to_owned(), size);
    let at = maybe(", ", found.modified.map(time), "");
    format!("{path} ({size}{at})")
}

fn nearest_text(nearest: &Nearest, base: &Path) -> String {
    let dir = below(&nearest.directory, base);
    let dir = Some(&*dir).filter(|dir| !dir.is_empty());
    let dir = dir.unwrap_or("the directory");
    let wanted = Some(&nearest.fails_at).filter(|wanted| !wanted.is_empty());
    let more = if nearest.entries > nearest.names.len() {
        ", ..."
    } else {
        ""
    };
    match nearest.entries {
        0 => format!("{dir} is empty"),
        entries => format!(
            "{dir} contains {} ({}{more}){}",
            plural_of(entries, "entry", "entries"),
            nearest.names.join(", "),
            maybe(", but nothing that matches ", wanted, "")
        ),
    }
}

fn below<'a>(path: &'a str, base: &Path) -> Cow<'a, str> {
    let path = Path::new(path);
    path.strip_prefix(base).unwrap_or(path).to_string_lossy()
}

fn on_record(block: &mut Block, task: &Explanation, is_queue_known: bool) {
    let Some(Attempt {
        attempt,
        used,
        log_path,
        row,
        ..
    }) = &task.row
    else {
        let never = task.attempts.is_empty();
        let why = if never {
            "it was never submitted"
        } else {
            "the earlier one was cleared"
        };
        block.entry("record", &format!("none: {why}"));
        return;
    };
    let started = (row.facts.started_at).filter(|_| row.status == TaskStatus::Running);
    let since = row.facts.ended_at.or(started);
    let since = since.or(row.submitted_at).or(row.updated_at);
    let since = maybe(", since ", since.map(time), "");
    let reason = row.reason.filter(|reason| *reason != Reason::Running);
    let reason = maybe(" (", reason, ")");
    let job = maybe(", job ", row.job_id.as_ref(), "");
    let status = row.status;
    block.entry(
        "record",
        &format!("{status}{reason}, attempt {attempt}{job}{since}"),
    );
    block.entries("", used);
    if let Some(log) = log_path {
        block.verbatim("log", log);
    }
    block.entries("", &task.silence);
    let text = match &task.job {
        Some(job) => {
            let reason = maybe(" (", job.pending_reason.as_deref(), ")");
            let node = job.node_list.as_deref().filter(|node| !node.is_empty());
            let node = maybe(" on ", node, "");
            let cluster = maybe(" of cluster ", job.cluster.as_deref(), "");
            format!("job {}{cluster} is {}{reason}{node}", job.job_id, job.state)
        }
        None if !row.is_in_flight() => return,
        None if is_queue_known => "its job is not in the queue".to_owned(),
        None => "not responding".to_owned(),
    };
    block.entry("queue", &text);
}

fn attempt_text(attempt: &Attempt) -> String {
    let job = maybe(" job ", attempt.row.job_id.as_ref(), ",");
    let at = maybe(" submitted ", attempt.row.submitted_at.map(time), ",");
    let used = maybe("; ", attempt.used.as_deref(), "");
    format!("#{}:{job}{at} {}{used}", attempt.attempt, attempt.text)
}

/// A time without line breaks.
fn time(at: DateTime<Utc>) -> String {
    sys::local_time(at).replace(' ', &NO_BREAK.to_string())
}
