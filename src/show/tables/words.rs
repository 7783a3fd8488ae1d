//! Decisions in words: stable words for scripts, sentences for people. All matches are exhaustive.

use std::borrow::Cow;

use itertools::Itertools as _;

use super::TaskState;
use crate::base::sys::local_time;
use crate::base::text::{few, maybe, plural};
use crate::decide::manifest::{
    Blocked, Decision, Due, Limit, Manifest, Outlook, Planned, RemovedProcedure, Skip, Waiting,
};
use crate::model::bids::SessionLabel;
use crate::model::job::JobId;
use crate::model::state::{Reason, TaskStatus};
use crate::store::control::{Pause, PauseCause};

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

/// The cell of the session table: the decision word, with the reason of a failed task, `stale` or
/// `awaiting output` in brackets.
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

/// A short sentence for people, without a full stop.
pub fn decision_text(decision: &Decision) -> String {
    match decision {
        Decision::Submit(due) => due_text(*due),
        Decision::Skip(skip) => skip_text(skip),
    }
}

fn skip_text(skip: &Skip) -> String {
    match skip {
        Skip::Complete => "complete".to_owned(),
        Skip::Stale(sessions) => {
            let names: Vec<&str> = sessions.iter().map(SessionLabel::as_str).collect();
            let new = few(&names, 3);
            format!("complete, but stale: {new} arrived after it ran")
        }
        Skip::LateInput => "complete, but stale: input files changed after it ran".to_owned(),
        Skip::NotApplicable => "not applicable: the session lacks the input".to_owned(),
        Skip::InFlight {
            job_id,
            status,
            reason,
        } => {
            let progress: Cow<'_, str> = match reason {
                None | Some(Reason::Running) => status.as_str().into(),
                Some(Reason::Submitting) => "submission in doubt".into(),
                Some(reason) => format!("{status}: {reason}").into(),
            };
            let job = maybe("job ", job_id.as_ref(), ", ");
            format!("in flight ({job}{progress})")
        }
        Skip::Failed {
            reason,
            attempt,
            outlook,
        } => format!(
            "failed ({}, attempt {attempt}); {}",
            // Rows of the Python program have no reason.
            reason.map_or("reason unknown", Reason::as_str),
            outlook_text(*outlook)
        ),
        Skip::JobWithoutRow(id) => {
            format!("job {id} may belong to this task but has no row; waiting until it ends")
        }
        Skip::Renamed(removed_procedure) => renamed_text(removed_procedure),
        Skip::NoDicom => "no DICOM files".to_owned(),
        Skip::Settling { until } => {
            format!(
                "files are still arriving; waiting until {}",
                local_time(*until)
            )
        }
        Skip::TooFewFiles { files, needed } => {
            format!("{files} DICOM files, but at least {needed} are required")
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

/// The row's reason in a decision to skip.
pub fn reason_of(decision: &Decision) -> Option<Reason> {
    match decision {
        Decision::Skip(Skip::Failed { reason, .. } | Skip::InFlight { reason, .. }) => *reason,
        _ => None,
    }
}

/// The job that the task waits for.
pub fn job_of(decision: &Decision) -> Option<&JobId> {
    match decision {
        Decision::Skip(Skip::InFlight { job_id, .. }) => job_id.as_ref(),
        Decision::Skip(Skip::JobWithoutRow(id)) => Some(id),
        Decision::Skip(Skip::Renamed(removed_procedure)) => removed_procedure.job_id.as_ref(),
        _ => None,
    }
}

/// Counts of skipped tasks by reason, in the order of [`TaskState`]. Complete, due and unselected tasks are
/// not included.
pub fn reason_summary(manifest: &Manifest) -> Vec<(String, usize)> {
    let skipped = manifest.tasks.iter().filter(|task| match &task.decision {
        Decision::Submit(_) => false,
        skip => !matches!(
            TaskState::of(skip),
            TaskState::Complete | TaskState::NotSelected
        ),
    });
    let group = |task: &Planned| (TaskState::of(&task.decision), group(&task.decision));
    let groups = skipped.counts_by(group).into_iter().sorted();
    groups.map(|((_, text), count)| (text, count)).collect()
}

/// What several tasks share: the cell of the session table, or the procedure or limit that they wait for.
fn group(decision: &Decision) -> String {
    match decision {
        Decision::Skip(Skip::WaitingFor(waiting)) => match waiting.blocked {
            None => format!("waiting for {}", waiting.procedure),
            Some(_) => format!("blocked by {}", waiting.procedure),
        },
        Decision::Skip(Skip::Renamed(removed)) => format!("waiting for {}", removed.procedure),
        Decision::Skip(Skip::OverLimit(limit)) => limit_text(limit),
        _ => decision_cell(decision).into_owned(),
    }
}

fn due_text(due: Due) -> String {
    let replaced = |complete| match complete {
        true => "; its outputs will be replaced",
        false => "",
    };
    match due {
        Due::New => "due".to_owned(),
        Due::OutputsGone | Due::NeverVerified => {
            "due: recorded as complete, but its outputs are missing".to_owned()
        }
        Due::FailedBefore { complete } => format!("due: failed before{}", replaced(complete)),
        Due::Retry { reason, complete } => {
            format!("due: retry after {reason}{}", replaced(complete))
        }
        Due::Stale => "due: complete, but new sessions arrived after it ran".to_owned(),
        Due::LateInput => "due: complete, but input files changed after it ran".to_owned(),
        Due::Forced { complete } => format!("due: forced{}", replaced(complete)),
    }
}

fn waiting_text(waiting: &Waiting) -> String {
    let session = waiting.session.as_ref().filter(|s| !s.is_none());
    let why = match &waiting.blocked {
        None => String::new(),
        Some(Blocked::Failed(reason)) => format!(" (failed{})", maybe(": ", *reason, "")),
        Some(Blocked::Unreadable(path)) => format!(" (unreadable: {})", path.display()),
        Some(Blocked::NotApplicable) => {
            " (not applicable to any session, so it will never be complete)".to_owned()
        }
    };
    let more = waiting.sessions_missing.saturating_sub(1);
    let more = (more > 0).then(|| plural(more, "more session"));
    let more = maybe(" and ", more, "");
    let session = maybe(" ", session, "");
    let verb = match waiting.blocked {
        Some(_) => "blocked by",
        None => "waiting for",
    };
    format!("{verb} {}{session}{why}{more}", waiting.procedure)
}

/// The job of a removed procedure that a task waits for, because the procedure may have been renamed.
fn renamed_text(removed: &RemovedProcedure) -> String {
    let procedure = &removed.procedure;
    let what = match &removed.job_id {
        Some(id) => format!("until job {id} of {procedure} ends"),
        None => format!("until a submission of {procedure} is no longer in doubt"),
    };
    let why = match removed.is_old_scope {
        true => "it was submitted before the scope was changed".to_owned(),
        false => format!(
            "{procedure} is no longer in the configuration and may have been renamed to this procedure"
        ),
    };
    format!("waiting {what}: {why}")
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
            let failed = Some(failed).filter(|failed| **failed > 0);
            return format!(
                "warm-up: waiting for the first {} to succeed, {succeeded} so far{}",
                plural(*needed, "job"),
                maybe("; ", failed, " failed (use `retry` or --force)")
            );
        }
    };
    format!("limit reached ({option} {n})")
}

pub fn pause_text(pause: &Pause) -> String {
    let since = local_time(pause.since);
    match &pause.cause {
        PauseCause::Person { by, note } => {
            let note = maybe(": ", note.as_ref(), "");
            format!("paused by {by} since {since}{note}")
        }
        PauseCause::Failures { count } => {
            format!(
                "paused since {since}: {count} consecutive jobs failed; run `resume` to continue"
            )
        }
    }
}

/// What happens next with a failed task.
pub fn outlook_text(outlook: Outlook) -> String {
    match outlook {
        Outlook::None => "stays failed until you run `retry`".to_owned(),
        Outlook::Now => "will be retried".to_owned(),
        Outlook::At(at) => format!("will be retried after {}", local_time(at)),
        Outlook::Spent(budget) => {
            let what = match budget.infrastructure {
                true => "retries after infrastructure failures",
                false => "attempts",
            };
            let allowed = budget.allowed;
            format!("no {what} left ({allowed} allowed); run `retry` to start over")
        }
    }
}
