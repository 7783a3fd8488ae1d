//! Decisions in words: short and stable for scripts, in plain sentences for people.
//!
//! This is the only place that does it; a new decision cannot be forgotten here, nor in [`TaskState`].

mod outlook;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::TaskState;
use crate::base::sys::local_time;
use crate::base::text::{few, maybe, plural};
use crate::decide::manifest::{
    Blocked, Decision, Due, Limit, Manifest, Outlook, RemovedProcedure, Skip, Waiting,
};
use crate::model::bids::SessionLabel;
use crate::model::job::JobId;
use crate::model::state::{Reason, TaskStatus};
use crate::store::control::{Pause, PauseCause};
pub use outlook::outlook_text;

impl TaskState {
    pub fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Submit(_) => Self::Due,
            Decision::Skip(skip) => match skip {
                Skip::Complete | Skip::Stale(_) | Skip::LateInput => Self::Complete,
                Skip::NotApplicable => Self::NotApplicable,
                Skip::InFlight { status, .. } => Self::of_status(*status),
                Skip::Failed { .. } => Self::Failed,
                Skip::JobWithoutRow(_) => Self::ForeignJob,
                Skip::NoDicom => Self::NoDicom,
                Skip::Settling { .. } => Self::Settling,
                Skip::TooFewFiles { .. } => Self::FewDicom,
                Skip::WaitingFor(waiting) if waiting.blocked.is_some() => Self::Blocked,
                Skip::WaitingFor(_) | Skip::TooFewSessions { .. } | Skip::Renamed(_) => {
                    Self::Waiting
                }
                Skip::Unreadable(_) => Self::Unreadable,
                Skip::OverLimit(_) => Self::Limit,
                Skip::Paused(_) => Self::Paused,
                Skip::NotSelected => Self::NotSelected,
                Skip::Excluded => Self::Excluded,
            },
        }
    }
}

/// The cell of the session table: the standing, and in brackets the reason of a failed task, if it is known, `stale`
/// for a complete one that sessions or input files came after, and `awaiting output` for one whose job has ended.
pub fn decision_cell(decision: &Decision) -> Cow<'static, str> {
    match decision {
        Decision::Skip(Skip::Stale(_) | Skip::LateInput) => "complete (stale)".into(),
        Decision::Skip(Skip::InFlight {
            status: TaskStatus::Running,
            reason: Some(Reason::AwaitingOutput),
            ..
        }) => "running (awaiting output)".into(),
        Decision::Skip(Skip::Failed {
            reason: Some(reason),
            ..
        }) => format!("failed ({reason})").into(),
        _ => TaskState::of(decision).as_str().into(),
    }
}

/// Returns a short sentence for people, without a full stop.
pub fn decision_text(decision: &Decision) -> String {
    match decision {
        Decision::Submit(due) => due_text(*due),
        Decision::Skip(skip) => skip_text(skip),
    }
}

fn skip_text(skip: &Skip) -> String {
    match skip {
        Skip::Complete => "complete".to_owned(),
        Skip::Stale(sessions) => stale_text(sessions),
        Skip::LateInput => "complete, but stale: input files changed after it ran".to_owned(),
        Skip::NotApplicable => "not applicable: the session lacks the input".to_owned(),
        Skip::InFlight {
            job_id,
            status,
            reason,
        } => {
            let progress = progress(*status, *reason);
            format!(
                "in flight ({}{progress})",
                maybe("job ", job_id.as_ref(), ", ")
            )
        }
        Skip::Failed {
            reason,
            attempt,
            outlook,
        } => format!(
            "failed ({}, attempt {attempt}); {}",
            reason_word(*reason),
            outlook_text(*outlook, *attempt)
        ),
        Skip::JobWithoutRow(id) => {
            format!("job {id} may be this task's and has no row; waits until it ends")
        }
        Skip::Renamed(removed_procedure) => renamed_text(removed_procedure),
        Skip::NoDicom => "no DICOM files".to_owned(),
        Skip::Settling { until } => {
            format!("files still arrive; settled at {}", local_time(*until))
        }
        Skip::TooFewFiles { files, needed } => {
            format!("{files} DICOM files, at least {needed} are needed")
        }
        Skip::WaitingFor(waiting) => waiting_text(waiting),
        Skip::TooFewSessions { needed, ready } => {
            format!("waiting for {needed} sessions, {ready} so far")
        }
        Skip::Unreadable(what) => {
            format!("unreadable: {}: {}", what.path.display(), what.error)
        }
        Skip::OverLimit(limit) => limit_text(limit),
        Skip::Paused(pause) => pause_text(pause),
        Skip::NotSelected => "not selected".to_owned(),
        Skip::Excluded => "excluded by the configuration".to_owned(),
    }
}

/// The reason of a skipped task's row.
pub fn reason_of(decision: &Decision) -> Option<Reason> {
    match decision {
        Decision::Skip(Skip::Failed { reason, .. } | Skip::InFlight { reason, .. }) => *reason,
        _ => None,
    }
}

/// The job that a skipped task waits for.
pub fn job_of(decision: &Decision) -> Option<&JobId> {
    match decision {
        Decision::Skip(Skip::InFlight { job_id, .. }) => job_id.as_ref(),
        Decision::Skip(Skip::JobWithoutRow(id)) => Some(id),
        Decision::Skip(Skip::Renamed(removed_procedure)) => removed_procedure.job_id.as_ref(),
        _ => None,
    }
}

/// Counts the tasks that are held back, by reason, in the order of [`TaskState`]. With the tasks that
/// are complete and those to be submitted the counts add up to all selected tasks.
pub fn reason_summary(manifest: &Manifest) -> Vec<(String, usize)> {
    let mut groups: BTreeMap<(TaskState, String), usize> = BTreeMap::new();
    for task in &manifest.tasks {
        let standing = TaskState::of(&task.decision);
        let is_shown = !matches!(standing, TaskState::Complete | TaskState::NotSelected);
        if let Decision::Skip(skip) = &task.decision
            && is_shown
        {
            *groups.entry((standing, group(skip))).or_default() += 1;
        }
    }
    let groups = groups.into_iter();
    groups.map(|((_, text), count)| (text, count)).collect()
}

/// Returns what several tasks have in common: no job ids, no sessions, no paths.
fn group(skip: &Skip) -> String {
    match skip {
        Skip::InFlight { status, reason, .. } => {
            format!("in flight ({})", progress(*status, *reason))
        }
        Skip::Failed {
            reason, outlook, ..
        } => {
            let reason = reason_word(*reason);
            match outlook {
                Outlook::None => format!("failed ({reason})"),
                Outlook::Now | Outlook::At(_) => format!("failed ({reason}), tried again later"),
                Outlook::Spent(_) => format!("failed ({reason}), no attempts left"),
            }
        }
        Skip::JobWithoutRow(_) => "a job without a row may be this task's".to_owned(),
        Skip::Renamed(removed_procedure) if removed_procedure.is_old_scope => format!(
            "waiting for jobs of {} from before its scope was changed",
            removed_procedure.procedure
        ),
        Skip::Renamed(removed_procedure) => format!(
            "waiting for jobs of {}, which is no longer in the configuration",
            removed_procedure.procedure
        ),
        Skip::Settling { .. } => "files still arrive".to_owned(),
        Skip::TooFewFiles { .. } => "too few DICOM files".to_owned(),
        Skip::WaitingFor(waiting) => {
            let procedure = &waiting.procedure;
            match &waiting.blocked {
                None => format!("waiting for {procedure}"),
                Some(Blocked::Failed(_)) => format!("blocked: {procedure} failed"),
                Some(Blocked::Unreadable(_)) => format!("blocked: {procedure} cannot be read"),
                Some(Blocked::NotApplicable) => {
                    format!("blocked: {procedure} applies to no session")
                }
            }
        }
        Skip::TooFewSessions { needed, .. } => format!("waiting for {needed} sessions"),
        Skip::Unreadable(_) => "unreadable".to_owned(),
        Skip::Paused(_) => "paused".to_owned(),
        other => skip_text(other),
    }
}

fn due_text(due: Due) -> String {
    let replaced = |complete| match complete {
        true => ", its outputs will be replaced",
        false => "",
    };
    match due {
        Due::New => "due".to_owned(),
        Due::OutputsGone => "due: was complete, outputs gone".to_owned(),
        Due::NeverVerified => {
            "due: recorded as complete by an earlier program, outputs missing".to_owned()
        }
        Due::FailedBefore { complete } => format!("due: failed before{}", replaced(complete)),
        Due::Retry { reason, complete } => {
            format!("due: tried again after {reason}{}", replaced(complete))
        }
        Due::Stale => "due: complete, but a session has come since".to_owned(),
        Due::LateInput => "due: complete, but input files changed after it ran".to_owned(),
        Due::Forced { complete: true } => "due: forced, outputs are complete".to_owned(),
        Due::Forced { complete: false } => "due: forced".to_owned(),
    }
}

/// How far a job has come: `running`, `pending: held`.
fn progress(status: TaskStatus, reason: Option<Reason>) -> Cow<'static, str> {
    match reason {
        None | Some(Reason::Running) => status.as_str().into(),
        Some(Reason::Submitting) => "submission in doubt".into(),
        Some(reason) => format!("{status}: {reason}").into(),
    }
}

fn reason_word(reason: Option<Reason>) -> &'static str {
    // Rows of the Python program have none.
    reason.map_or("reason unknown", Reason::as_str)
}

fn waiting_text(waiting: &Waiting) -> String {
    let session = waiting.session.as_ref().filter(|s| !s.is_none());
    let why = match &waiting.blocked {
        None => String::new(),
        Some(Blocked::Failed(reason)) => format!(" (failed{})", maybe(": ", *reason, "")),
        Some(Blocked::Unreadable(path)) => format!(" (unreadable: {})", path.display()),
        Some(Blocked::NotApplicable) => {
            " (not applicable to any session, so it never becomes complete)".to_owned()
        }
    };
    let more = match waiting.sessions_missing.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {}", plural(more, "more session")),
    };
    let session = maybe(" ", session, "");
    format!("waiting for {}{session}{why}{more}", waiting.procedure)
}

/// Says which job a procedure waits for that may be the job's own under a new name.
fn renamed_text(removed_procedure: &RemovedProcedure) -> String {
    let procedure = &removed_procedure.procedure;
    let what = match &removed_procedure.job_id {
        Some(id) => format!("until job {id} of {procedure} ends"),
        None => format!("until a submission of {procedure} is no longer in doubt"),
    };
    if removed_procedure.is_old_scope {
        return format!("waiting {what}: it was submitted before the scope was changed");
    }
    format!(
        "waiting {what}: {procedure} is no longer in the configuration, and this may be its new name"
    )
}

fn limit_text(limit: &Limit) -> String {
    let (option, n) = match limit {
        Limit::MaxJobs(n) => ("--max-jobs", n),
        Limit::MaxSubmitPerRun(n) => ("max_submit_per_run", n),
        Limit::MaxInFlight(n) => ("max_in_flight", n),
        Limit::ProcedureMaxInFlight(n) => ("the procedure's max_in_flight", n),
        Limit::QueuedUserJobs(n) => ("max_queued_user_jobs", n),
        Limit::Warmup {
            needed,
            succeeded,
            failed,
        } => {
            let text = format!("warm-up: {succeeded} of the first {needed} jobs succeeded");
            let failed = Some(failed).filter(|failed| **failed > 0);
            return text + &maybe(", ", failed, " failed ('retry' or --force tries again)");
        }
    };
    format!("over a limit ({option} {n})")
}

/// Names the sessions that a complete task of a subject did not work on.
fn stale_text(sessions: &[SessionLabel]) -> String {
    let names: Vec<&str> = sessions.iter().map(SessionLabel::as_str).collect();
    format!("complete, but stale: {} came later", few(&names, 3))
}

fn pause_text(pause: &Pause) -> String {
    let since = local_time(pause.since);
    match &pause.cause {
        PauseCause::Person { by, note } => {
            format!(
                "paused by {by} since {since}{}",
                maybe(": ", note.as_ref(), "")
            )
        }
        PauseCause::Failures { count } => {
            format!("paused since {since}: {count} jobs in a row failed; 'resume' goes on")
        }
    }
}
