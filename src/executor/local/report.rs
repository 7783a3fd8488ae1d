//! Converts a job's record to the neutral report, with Slurm's words where readers know them. Pure.

use chrono::{DateTime, Utc};

use super::JobStatus;
use super::job::{Claim, Ending, Job};
use super::process::Host;
use crate::executor::{JobReport, Phase};
use crate::model::job::JobTag;
use crate::model::state::{JobFacts, Reason};

/// Slurm's exit code for a job whose environment could not be set up on its node.
const LAUNCH_FAILED: &str = "0:53";

pub(super) fn report(job: &Job, status: JobStatus, now: DateTime<Utc>) -> JobReport {
    let (phase, word, exit_code) = outcome(job, status);
    let started_at = started_at(job);
    let ended_at = ended_at(job).or((status == JobStatus::Lost).then_some(now));
    JobReport {
        id: job.id(),
        name: job.record.job_name.clone(),
        phase,
        pending_reason: (phase == Phase::Queued).then(|| "Resources".to_owned()),
        submitted_at: Some(job.record.submitted_at),
        facts: JobFacts {
            slurm_state: Some(word.into()),
            started_at,
            ended_at,
            node_list: host_of(job).map(Into::into),
            elapsed_s: started_at
                .map(|start| (ended_at.unwrap_or(now) - start).num_seconds().max(0)),
            ..JobFacts::default()
        }
        .with_exit_code(exit_code.as_deref()),
        tag: Some(JobTag {
            project: job.record.project.clone(),
            submission_id: job.record.submission_id.clone(),
        }),
        has_submit_line: false,
    }
}

/// The host on which a job was started.
pub(super) fn host_of(job: &Job) -> Option<&str> {
    match &job.claim {
        Some(Claim::Supervisor { host, .. }) => Some(&host.name),
        Some(Claim::Cancelled { .. }) | None => None,
    }
}

/// A warning about a job in another container of this host, because its state may stay unknown.
pub(super) fn elsewhere(job: &Job, here: &Host) -> Option<String> {
    (host_of(job)? == here.name).then(|| {
        let number = job.record.number;
        format!(
            "local-{number} was started in another container of this host, so its state is unknown; if it has \
             certainly ended, move its files {number}.* away"
        )
    })
}

fn started_at(job: &Job) -> Option<DateTime<Utc>> {
    match &job.claim {
        Some(Claim::Supervisor { at, .. }) => Some(*at),
        Some(Claim::Cancelled { .. }) | None => None,
    }
}

fn ended_at(job: &Job) -> Option<DateTime<Utc>> {
    match (&job.end, &job.claim) {
        (Some(end), _) => Some(end.at),
        (None, Some(Claim::Cancelled { at, .. })) => Some(*at),
        (None, _) => None,
    }
}

fn outcome(job: &Job, status: JobStatus) -> (Phase, String, Option<String>) {
    let cancelled = |uid: u32, code: Option<String>| {
        // Slurm's word for a job that a person cancelled; without `by` it means a failed controller.
        let word = format!("CANCELLED by {uid}");
        (Phase::Failed(Reason::Cancelled), word, code)
    };
    let failed = |reason, word: &str, code| (Phase::Failed(reason), word.to_owned(), code);

    if let Some(Claim::Cancelled { uid, .. }) = &job.claim {
        return cancelled(*uid, Some("0:0".to_owned()));
    }
    match status {
        JobStatus::Queued => return (Phase::Queued, "PENDING".to_owned(), None),
        JobStatus::Running { .. } => return (Phase::Running, "RUNNING".to_owned(), None),
        JobStatus::Lost | JobStatus::Over => {}
    }
    let how = job.end.as_ref().map_or(&Ending::Lost, |end| &end.how);
    let code = match how {
        Ending::Exited { code } => Some(format!("{code}:0")),
        Ending::Signalled { signal } => Some(format!("0:{signal}")),
        Ending::NotStarted { .. } => Some(LAUNCH_FAILED.to_owned()),
        Ending::Lost => None,
    };
    let asked = job.cancel.as_ref().filter(|cancel| {
        // A request after the end had no effect.
        ended_at(job).is_none_or(|end| cancel.at <= end)
    });
    match (how, asked) {
        (_, Some(cancel)) => cancelled(cancel.uid, code),
        (Ending::Exited { code: 0 }, None) => (Phase::Completed, "COMPLETED".to_owned(), code),
        (Ending::Exited { .. } | Ending::Signalled { .. }, None) => {
            failed(Reason::ExitCode, "FAILED", code)
        }
        (Ending::NotStarted { .. }, None) => failed(Reason::LaunchFailed, "FAILED", code),
        (Ending::Lost, None) => failed(Reason::NodeFail, "NODE_FAIL", code),
    }
}
