//! What has to happen before a task can proceed, and what a user can do, in one sentence.
//! All matches are exhaustive, so that no new decision is forgotten here.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Explanation, View, remedy};
use crate::base::sys::local_time;
use crate::base::text::maybe;
use crate::config::duration;
use crate::decide::manifest::{Blocked, Decision, Limit, Outlook, Planned, Skip};
use crate::decide::safety::hints;
use crate::executor::OtherExecutor;
use crate::gather::completion::explain::Verdict;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskKey, TaskRow};
use crate::show::tables::words::outlook_text;

const UNKNOWN: &str = "Slurm is not responding, so the job's state is unknown; \
     the next successful `run` will check it";

/// There is no known job yet that `cancel` could end.
const IN_DOUBT: &str = "nothing; the next runs will find out whether Slurm accepted the job. \
     If the doubt remains, submit any other job (sbatch --wrap=true): \
     sacct must list a job to prove that it works";

pub(super) fn todo(
    view: &View<'_>,
    planned: &Planned,
    chain: &[&Planned],
    about: &Explanation,
) -> String {
    let Some(root) = chain.last() else {
        let is_complete = about.outputs.verdict == Verdict::Complete;
        return of_task(view, planned, is_complete, Some(about));
    };
    let key = &root.key;
    let outputs = view.outputs.findings(root.procedure, &root.session);
    let is_complete = outputs.verdict == Verdict::Complete;
    let advice = of_task(view, root, is_complete, None);
    match advice.strip_prefix("nothing; ") {
        Some(why) => format!("nothing; {key} must be complete first: {why}"),
        None => format!("{key} must be complete first: {advice}"),
    }
}

fn of_task(
    view: &View<'_>,
    planned: &Planned,
    is_complete: bool,
    about: Option<&Explanation>,
) -> String {
    let script_problem = about.and_then(|about| about.next.as_ref()?.script_problem.as_deref());
    let pending_reason = about.and_then(|about| about.job.as_ref()?.pending_reason.as_deref());
    let key = &planned.key;
    let row = view.state.get(key);
    let skip = match &planned.decision {
        Decision::Submit(_) => {
            return match script_problem {
                _ if !view.stops.is_empty() => {
                    format!("resolve the safety stop: {}", hints(view.stops))
                }
                Some(problem) => format!("{problem}; until then `run` cannot submit it"),
                None => "the next `snbb-scheduler run` will submit it".to_owned(),
            };
        }
        Decision::Skip(skip) => skip,
    };
    match skip {
        Skip::Complete if !is_complete => {
            "nothing; its outputs are not complete on this host now, and the next check will decide. \
             To check now: snbb-scheduler run --recheck"
                .to_owned()
        }
        Skip::Complete => "nothing; its outputs are complete".to_owned(),
        Skip::Stale(_) | Skip::LateInput => format!(
            "to rerun it: snbb-scheduler run --force{}; to rerun stale tasks automatically, set \
             `rerun_when_stale` for the procedure",
            options(key)
        ),
        Skip::TooFewSessions { needed, .. } => {
            format!("at least {needed} sessions must be ready (min_sessions)")
        }
        Skip::Excluded => {
            "nothing; to include it, change `include` or `exclude` in the configuration".to_owned()
        }
        Skip::NotApplicable => "nothing; the session lacks the input of this procedure".to_owned(),
        Skip::InFlight { .. } => match row.and_then(|row| of_other(view, row)) {
            Some(other) => other.remedy(),
            None => in_flight(view, row, pending_reason),
        },
        Skip::Failed { outlook, .. } => failed(view, key, row, *outlook, is_complete),
        Skip::JobWithoutRow(id) => {
            format!("job {id} must end first; to cancel it: scancel {id}")
        }
        Skip::Renamed(removed) if removed.job_id.is_none() => IN_DOUBT.to_owned(),
        Skip::Renamed(removed) => {
            let old = TaskKey::new(&key.subject, &removed.session, &removed.procedure);
            let (new, options) = (&key.procedure, options(&old));
            let text = "that job must end first, even with --force.";
            match removed.is_old_scope {
                true => format!("nothing; {text} To cancel it: snbb-scheduler cancel{options}"),
                false => format!(
                    "nothing if {new} is the new name of {}: {text} \
                     Otherwise wait for the job, or cancel it: snbb-scheduler cancel{options}",
                    removed.procedure
                ),
            }
        }
        Skip::NoDicom => match (view.dicom(planned), view.sessions_file()) {
            (Some(place), _) => format!("copy its DICOM files to {}", place.path),
            (None, Some(file)) => {
                format!("fill in the session's dicom_path in {}", file.display())
            }
            (None, None) => "the subject needs a session with DICOM files".to_owned(),
        },
        Skip::Settling { until } => format!(
            "nothing; if no more files arrive, the first `run` after {} will submit it",
            local_time(*until)
        ),
        Skip::TooFewFiles { .. } => format!(
            "copy the missing DICOM files{}, or lower dicom_min_files (audit)",
            maybe(" to ", view.dicom(planned).map(|place| place.path), "")
        ),
        Skip::WaitingFor(waiting) if waiting.blocked == Some(Blocked::NotApplicable) => format!(
            "nothing, unless a session with input for {} arrives; to make {} not applicable too, add \
             `when` to its markers",
            waiting.procedure, key.procedure
        ),
        Skip::WaitingFor(waiting) => format!("{} must be complete first", waiting.procedure),
        Skip::Unreadable(what) => format!(
            "make {} readable for the user who runs this; nothing is submitted until then",
            what.path.display()
        ),
        Skip::OverLimit(limit) => over_limit(limit, key),
        Skip::Paused(_) => {
            let own = Some(&key.procedure).filter(|_| view.control.study.paused.is_none());
            let own = maybe(" --procedure ", own, "");
            format!("to end the pause: snbb-scheduler resume{own}")
        }
        Skip::NotSelected => "add it to the selection".to_owned(),
    }
}

/// The same for a row in flight whose task no longer exists.
pub(super) fn of_removed_task(view: &View<'_>, row: &TaskRow) -> String {
    if let Some(other) = of_other(view, row) {
        return format!("{other}; {}", other.remedy());
    }
    let text = in_flight(view, Some(row), None);
    match text.starts_with("nothing; its job") {
        true => format!(
            "nothing; `run` will track its job until it ends. To cancel it: snbb-scheduler cancel{}",
            options(&row.key)
        ),
        false => text,
    }
}

pub(super) fn of_other<'a>(view: &View<'_>, row: &'a TaskRow) -> Option<OtherExecutor<'a>> {
    OtherExecutor::of(row, view.config.executor)
}

fn in_flight(view: &View<'_>, row: Option<&TaskRow>, pending_reason: Option<&str>) -> String {
    if let Some(text) = awaiting(view.config, row) {
        return format!("nothing yet; {text}");
    }
    let job = row.and_then(|row| row.job_id.as_ref());
    let job = job.map_or("JOB", |id| id.as_str());
    match row.and_then(|row| row.reason) {
        Some(Reason::Submitting) => IN_DOUBT.to_owned(),
        _ if view.queue.is_none() => UNKNOWN.to_owned(),
        Some(Reason::Held) => match pending_reason {
            Some("JobHeldAdmin") => format!(
                "an administrator must release the job: scontrol release {job}"
            ),
            Some("DependencyNeverSatisfied" | "BadConstraints" | "PartitionTimeLimit") => format!(
                "the job can never start: cancel it with `scancel {job}`, and correct its resource request"
            ),
            _ => format!("release the job: scontrol release {job}"),
        },
        Some(Reason::Suspended) => "nothing; Slurm has suspended its job".to_owned(),
        Some(Reason::Unaccounted) => {
            "nothing yet; Slurm has not reported how its job ended. After lost_grace, its outputs decide".to_owned()
        }
        Some(Reason::Running) => "nothing; its job is running".to_owned(),
        _ => match pending_reason {
            Some(reason) => format!("nothing; its job is waiting{} ({reason})", pending(reason)),
            None => "nothing; its job is in the queue".to_owned(),
        },
    }
}

/// Slurm's reason for a pending job in words. Source: squeue(1), "Job reason codes".
fn pending(reason: &str) -> &'static str {
    match reason {
        "Resources" => " until resources are free",
        "Priority" => " behind jobs with higher priority",
        "Dependency" => " for another job to end",
        "BeginTime" => " for its begin time",
        "Licenses" => " for a license",
        "NodeDown" => " because its nodes are down or reserved",
        "Reservation" => " for its reservation",
        _ if reason.starts_with("ReqNodeNotAvail") => " because its nodes are down or reserved",
        _ if reason.starts_with("QOS") || reason.starts_with("Assoc") => {
            " because of a limit of the account or QOS"
        }
        _ if reason.starts_with("Partition") => {
            " because its partition does not accept its request"
        }
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
    if outlook.is_retry() {
        return format!("nothing; it {}", outlook_text(outlook));
    }
    let words = key.words();
    let remedy = row.and_then(|row| remedy(view.config, row));
    let mut text = match (row.and_then(|row| row.reason), remedy) {
        (_, Some(remedy)) => remedy,
        (Some(Reason::NoOutput), _) if !is_complete => {
            "compare the expected outputs with those the script writes".to_owned()
        }
        _ => format!("read its logs (snbb-scheduler logs {words})"),
    };
    let retry = format!("snbb-scheduler retry{}", options(key));
    text.push_str(&format!("; once the cause is fixed: {retry}"));
    if is_complete {
        text.push_str("; its outputs look complete: add --accept-outputs to accept them");
    }
    if view.config.resubmit_failed {
        text.push_str("; because of resubmit_failed, the next `run` will retry it automatically");
    }
    text
}

fn over_limit(limit: &Limit, key: &TaskKey) -> String {
    match limit {
        Limit::Warmup { failed: 1.., .. } => format!(
            "the first jobs of {0} must succeed; see its failures: snbb-scheduler status --failed --procedure {0}",
            key.procedure
        ),
        Limit::Warmup { .. } => {
            format!("the first jobs of {} must succeed", key.procedure)
        }
        Limit::MaxJobs(_) | Limit::MaxSubmitPerRun(_) => {
            "nothing; a later `run` will submit it, in the order of the configuration".to_owned()
        }
        Limit::MaxInFlight(_) | Limit::ProcedureMaxInFlight(_) | Limit::QueuedUserJobs(_) => {
            "nothing; a later `run` will submit it, when jobs in flight have ended".to_owned()
        }
    }
}

/// A sentence about the wait for the outputs of these rows. `None` if none is waiting.
pub fn awaiting<'a>(
    config: &Config,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Option<String> {
    let mut waiting: Vec<&TaskRow> = rows.into_iter().collect();
    waiting.retain(|row| row.reason == Some(Reason::AwaitingOutput));
    let jobs = match &waiting[..] {
        [] => return None,
        [one] => format!("the job of {}", one.key),
        all => format!("{} jobs", all.len()),
    };
    let last = waiting.iter().filter_map(|row| until(config, row)).max();
    let text = match last {
        Some((at, grace)) => format!(
            "waiting for outputs until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        None => "the outputs could not be checked yet".to_owned(),
    };
    Some(format!("{jobs} finished; {text}"))
}

/// End and length of the wait. `None` if the outputs could not be read yet.
fn until(config: &Config, row: &TaskRow) -> Option<(DateTime<Utc>, Duration)> {
    let since = row.missing_since?;
    let since = row.facts.ended_at.unwrap_or(since);
    let procedures = &config.procedures;
    let own = procedures.find(&row.key.procedure);
    let own = own.and_then(|id| procedures.get(id).output_grace);
    let grace = own.unwrap_or(config.output_grace);
    let at = since.checked_add_signed(chrono::Duration::from_std(grace).ok()?)?;
    Some((at, grace))
}

/// The options that select a task, each after a space.
pub fn options(key: &TaskKey) -> String {
    let options = [
        (" --subject ", &key.subject),
        (" --session ", &key.session),
        (" --procedure ", &key.procedure),
    ];
    let given = options.map(|(option, value)| (option, Some(value).filter(|v| !v.is_empty())));
    given
        .map(|(option, value)| maybe(option, value, ""))
        .concat()
}
