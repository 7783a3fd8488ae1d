//! What would have to happen for a task to go on, and what a person can do, in one sentence.
//!
//! All matches are exhaustive, so that a new decision cannot be forgotten here.

use super::{Explanation, View, awaiting, remedy};
use crate::base::sys::local_time;
use crate::decide::manifest::{Blocked, Decision, Limit, Outlook, Planned, Skip};
use crate::decide::safety::hints;
use crate::executor::OtherExecutor;
use crate::gather::completion::explain::Verdict;
use crate::model::state::{Reason, TaskKey, TaskRow};

/// What can be said of a job while the queue does not answer.
pub(super) const UNKNOWN: &str = "what its job does is not known while Slurm does not answer; the first `run` that Slurm answers finds out";

/// What can be said of a submission in doubt: there is no job yet that `cancel` could end.
const IN_DOUBT: &str = "nothing, the next passes find out whether Slurm has taken the job; \
     if it stays so, submit any other job (sbatch --wrap=true): sacct must list some job to prove that it answers";

/// Says what would have to happen.
pub(super) fn todo(
    view: &View<'_>,
    planned: &Planned,
    chain: &[&Planned],
    about: &Explanation,
) -> String {
    let Decision::Skip(Skip::WaitingFor(_)) = planned.decision else {
        let is_complete = about.outputs.verdict == Verdict::Complete;
        let problem = about
            .next
            .as_ref()
            .and_then(|n| n.script_problem.as_deref());
        let reason = about
            .job
            .as_ref()
            .and_then(|job| job.pending_reason.as_deref());
        return of_task(view, planned, is_complete, problem, reason);
    };
    let Some(root) = chain.last() else {
        return "what it waits for has to be complete first".to_owned();
    };
    let key = &root.key;
    let outputs = view.outputs.findings(root.procedure, &root.session);
    let is_complete = outputs.verdict == Verdict::Complete;
    let advice = of_task(view, root, is_complete, None, None);
    match advice.strip_prefix("nothing, ") {
        Some(why) => format!("nothing, {key} has to be complete first: {why}"),
        None => format!("{key} has to be complete first: {advice}"),
    }
}

fn of_task(
    view: &View<'_>,
    planned: &Planned,
    is_complete: bool,
    script_problem: Option<&str>,
    pending_reason: Option<&str>,
) -> String {
    let key = &planned.key;
    let row = view.state.get(key);
    let skip = match &planned.decision {
        Decision::Submit(_) => {
            return match script_problem {
                _ if !view.stops.is_empty() => {
                    format!("the safety stop has to end: {}", hints(view.stops))
                }
                Some(problem) => format!("{problem}; until then `run` cannot submit it"),
                None => "the next `snbb-scheduler run` submits it".to_owned(),
            };
        }
        Decision::Skip(skip) => skip,
    };
    match skip {
        Skip::Complete if !is_complete && row.is_some_and(|row| view.trust.check_times(row).is_some()) => {
            "nothing, the next look finds that its outputs are not complete any more; `snbb-scheduler run --recheck` \
             looks now"
                .to_owned()
        }
        Skip::Complete => "nothing, its outputs are complete".to_owned(),
        Skip::Stale(_) | Skip::LateInput => format!(
            "a person has to decide: snbb-scheduler run --force{} makes it anew, and `rerun_when_stale` of the \
             procedure would do so by itself",
            options(key)
        ),
        Skip::TooFewSessions { needed, .. } => {
            format!("more sessions have to get ready: {needed} at least (min_sessions)")
        }
        Skip::Excluded => {
            "nothing, unless `include` or `exclude` in the configuration are changed".to_owned()
        }
        Skip::NotApplicable => "nothing, the session lacks what this procedure works on".to_owned(),
        Skip::InFlight { .. } => match row.and_then(|row| awaiting(view.config, row)) {
            Some(text) => format!("nothing yet, {text}"),
            None if let Some(other) = row.and_then(|row| of_other(view, row)) => other.remedy(),
            None if view.queue.is_none() && !is_over(row) => UNKNOWN.to_owned(),
            None => in_flight(row, pending_reason),
        },
        Skip::Failed { outlook, .. } => failed(view, key, row, *outlook, is_complete),
        Skip::JobWithoutRow(id) => {
            format!("job {id} has to end; if it is not wanted: scancel {id}")
        }
        Skip::Renamed(removed_procedure) if removed_procedure.job_id.is_none() => IN_DOUBT.to_owned(),
        Skip::Renamed(removed_procedure) => {
            let old = TaskKey::new(&key.subject, &removed_procedure.session, &removed_procedure.procedure);
            if removed_procedure.is_old_scope {
                return format!(
                    "nothing, that job has to end first, also with --force; if it is not wanted: snbb-scheduler cancel{}",
                    options(&old)
                );
            }
            format!(
                "if {} is the new name of {}, nothing: that job has to end first, also with --force. If it is not, wait \
                 for the job, or end it: snbb-scheduler cancel{}",
                key.procedure,
                removed_procedure.procedure,
                options(&old)
            )
        }
        Skip::NoDicom => match (view.dicom(planned), view.sessions_file()) {
            (Some(place), _) => format!("its DICOM files have to come to {}", place.path),
            (None, Some(file)) => format!(
                "the session's dicom_path has to be filled in in {}",
                file.display()
            ),
            (None, None) => "DICOM files of a session have to come".to_owned(),
        },
        Skip::Settling { until } => format!(
            "nothing, if no more files come: the first `run` after {} goes on",
            local_time(*until)
        ),
        Skip::TooFewFiles { .. } => match view.dicom(planned) {
            Some(place) => format!(
                "more DICOM files have to come to {}, or dicom_min_files (audit) has to be lowered",
                place.path
            ),
            None => "more DICOM files have to come".to_owned(),
        },
        Skip::WaitingFor(waiting) if waiting.blocked == Some(Blocked::NotApplicable) => format!(
            "nothing, unless a session with input for {} arrives; a `when` in the markers of {} makes it not applicable too",
            waiting.procedure, key.procedure
        ),
        Skip::WaitingFor(waiting) => format!("{} has to be complete first", waiting.procedure),
        Skip::Unreadable(what) => format!(
            "{} has to become readable for the user who runs this; nothing is submitted until then",
            what.path.display()
        ),
        Skip::OverLimit(limit) => over_limit(limit, key),
        Skip::Paused(_) => match &view.control.study.paused {
            Some(_) => "`snbb-scheduler resume` ends the pause of the study".to_owned(),
            None => format!(
                "`snbb-scheduler resume --procedure {}` ends the pause",
                key.procedure
            ),
        },
        Skip::NotSelected => "select it".to_owned(),
    }
}

/// Says what would have to happen to a row in flight that is no task of the study any more.
pub(super) fn of_gone(view: &View<'_>, row: &TaskRow) -> String {
    if let Some(text) = awaiting(view.config, row) {
        return format!("nothing yet, {text}");
    }
    match row.reason {
        _ if let Some(other) = of_other(view, row) => format!("{other}; {}", other.remedy()),
        _ if view.queue.is_none() && !is_over(Some(row)) => UNKNOWN.to_owned(),
        Some(Reason::Submitting | Reason::Unaccounted) => in_flight(Some(row), None),
        _ => format!(
            "nothing, `run` follows its job to the end; if it is not wanted: snbb-scheduler cancel{}",
            options(&row.key)
        ),
    }
}

pub(super) fn of_other<'a>(view: &View<'_>, row: &'a TaskRow) -> Option<OtherExecutor<'a>> {
    OtherExecutor::of(row, view.config.executor)
}

/// True if its job has ended, or was never seen: the queue would not tell more.
fn is_over(row: Option<&TaskRow>) -> bool {
    let reason = row.and_then(|row| row.reason);
    matches!(reason, Some(Reason::AwaitingOutput | Reason::Submitting))
}

fn in_flight(row: Option<&TaskRow>, pending_reason: Option<&str>) -> String {
    let job = row
        .and_then(|row| row.job_id.as_ref())
        .map_or_else(|| "JOB".to_owned(), ToString::to_string);
    match row.and_then(|row| row.reason) {
        Some(Reason::Submitting) => IN_DOUBT.to_owned(),
        Some(Reason::Held) => match pending_reason {
            Some("JobHeldAdmin") => format!(
                "an administrator has to let the job go (scontrol release {job})"
            ),
            Some("DependencyNeverSatisfied" | "BadConstraints" | "PartitionTimeLimit") => format!(
                "the job can never start as it is: end it with `scancel {job}`, and mend what it asks for"
            ),
            _ => format!("somebody has to let the job go: scontrol release {job}"),
        },
        Some(Reason::Suspended) => "nothing, Slurm has stopped its job for a while".to_owned(),
        Some(Reason::AwaitingOutput) => {
            "nothing yet, its job has ended well and its outputs are waited for (output_grace)".to_owned()
        }
        Some(Reason::Unaccounted) => {
            "nothing yet, Slurm shows no end of its job at the moment; after lost_grace its outputs decide".to_owned()
        }
        Some(Reason::Running) => "nothing, its job runs".to_owned(),
        _ => match pending_reason {
            Some(reason) => format!("nothing, its job waits{} ({reason})", pending(reason)),
            None => "nothing, its job is in the queue".to_owned(),
        },
    }
}

/// Explains Slurm's word for why a job waits. Source: squeue(1), "Job reason codes".
fn pending(reason: &str) -> &'static str {
    match reason {
        "Resources" => " until nodes are free",
        "Priority" => ", others come first",
        "Dependency" => " for another job to end",
        "BeginTime" => " for its time to begin",
        "Licenses" => " for a licence",
        "NodeDown" => ", its nodes are down or reserved",
        "Reservation" => " for its reservation",
        _ if reason.starts_with("ReqNodeNotAvail") => ", its nodes are down or reserved",
        _ if reason.starts_with("QOS") || reason.starts_with("Assoc") => {
            " for a limit of the account or QOS"
        }
        _ if reason.starts_with("Partition") => ", its partition does not take it as it is",
        _ => " in the queue",
    }
}

fn failed(
    view: &View<'_>,
    key: &TaskKey,
    row: Option<&TaskRow>,
    outlook: Outlook,
    is_complete: bool,
) -> String {
    if let Outlook::At(at) = outlook {
        return format!(
            "nothing, the first `run` after {} tries again",
            local_time(at)
        );
    }
    if outlook == Outlook::Now {
        return "nothing, the next `run` tries again".to_owned();
    }
    let words = key.words();
    let remedy = row.and_then(|row| remedy(view.config, row));
    let mut text = match (row.and_then(|row| row.reason), remedy) {
        (_, Some(remedy)) => remedy,
        (Some(Reason::NoOutput), _) if !is_complete => {
            "compare its outputs with what the script writes".to_owned()
        }
        _ => format!("look at its logs (`snbb-scheduler logs {words}`)"),
    };
    let retry = format!("snbb-scheduler retry{}", options(key));
    text.push_str(&format!("; once the cause is mended: {retry}"));
    if is_complete {
        text.push_str(
            "; its outputs look complete, and with --accept-outputs they are taken as they are",
        );
    }
    if view.config.resubmit_failed {
        text.push_str("; with resubmit_failed the next `run` does so by itself");
    }
    text
}

fn over_limit(limit: &Limit, key: &TaskKey) -> String {
    match limit {
        Limit::Warmup { failed: 1.., .. } => format!(
            "the first jobs of {0} have to succeed: see `snbb-scheduler status --failed --procedure {0}`",
            key.procedure
        ),
        Limit::Warmup { .. } => {
            format!("the first jobs of {} have to succeed", key.procedure)
        }
        Limit::MaxJobs(_) | Limit::MaxSubmitPerRun(_) => {
            "a later `run` submits it, in the order of the configuration".to_owned()
        }
        Limit::MaxInFlight(_) | Limit::ProcedureMaxInFlight(_) | Limit::QueuedUserJobs(_) => {
            "jobs that are in flight have to end; a later `run` submits it".to_owned()
        }
    }
}

/// Returns the options that select a task, each after a blank.
pub(super) fn options(key: &TaskKey) -> String {
    let mut options = String::new();
    for (option, value) in [
        ("--subject", &key.subject),
        ("--session", &key.session),
        ("--procedure", &key.procedure),
    ] {
        if !value.is_empty() {
            options.push_str(&format!(" {option} {value}"));
        }
    }
    options
}
