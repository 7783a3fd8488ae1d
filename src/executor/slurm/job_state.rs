//! Slurm's words for a job's state, and what each means for us: the one place where the two
//! vocabularies meet.
//!
//! Pure. A new word of Slurm's is one line in [`WORDS`]; until then it is alive for all we know
//! ([`Phase::Unknown`]) and warned about, never failed.

use crate::executor::{JobReport, Phase};
use crate::model::state::Reason;

/// Says who spoke: the two sources mean different things by the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// squeue
    Queue,
    /// sacct
    Accounting,
}

/// Holds what a source says of a job's state, in its own words.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    pub source: Source,
    /// `RUNNING`, `R`, `CANCELLED by 1000`, `OUT_OF_ME+`.
    pub state: &'a str,
    /// `code:signal`; only accounting prints it.
    pub exit_code: Option<&'a str>,
    pub reason: Option<&'a str>,
    /// True if a start time and nodes are known. A start time alone is not enough: a job cancelled for
    /// its dependency can have one.
    pub has_run: bool,
}

/// What a word of the list below means, before exit code and reason are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Pending,
    Queued,
    Held,
    Running,
    Suspended,
    Completed,
    Cancelled,
    FailedByCode,
    Failed(Reason),
    Silent,
}

use Meaning::{
    Cancelled, Completed, Failed, FailedByCode, Held, Pending, Queued, Running, Silent, Suspended,
};

/// Every word of Slurm 20.11 to 26.05: long, short, meaning. The last rows stand only in JSON and
/// in the complete form of newer releases.
const WORDS: &[(&str, &str, Meaning)] = &[
    ("PENDING", "PD", Pending),
    ("RUNNING", "R", Running),
    ("SUSPENDED", "S", Suspended),
    ("COMPLETED", "CD", Completed),
    ("CANCELLED", "CA", Cancelled),
    ("FAILED", "F", FailedByCode),
    ("TIMEOUT", "TO", Failed(Reason::Timeout)),
    ("OUT_OF_MEMORY", "OOM", Failed(Reason::OutOfMemory)),
    ("DEADLINE", "DL", Failed(Reason::Deadline)),
    ("NODE_FAIL", "NF", Failed(Reason::NodeFail)),
    ("BOOT_FAIL", "BF", Failed(Reason::BootFail)),
    ("PREEMPTED", "PR", Failed(Reason::Preempted)),
    // Flags that hide the state below them.
    ("COMPLETING", "CG", Running),
    ("CONFIGURING", "CF", Queued),
    ("RESIZING", "RS", Running),
    ("REQUEUED", "RQ", Queued),
    ("REQUEUE_FED", "RF", Queued),
    ("REQUEUE_HOLD", "RH", Held),
    ("SPECIAL_EXIT", "SE", Held),
    ("RESV_DEL_HOLD", "RD", Held),
    ("SIGNALING", "SI", Running),
    ("STAGE_OUT", "SO", Running),
    ("STOPPED", "ST", Running),
    ("REQUEUED_CRON", "RC", Queued),
    ("EXPEDITING", "EXPEDITING", Running),
    // A sibling in a federation: says nothing of the job that runs.
    ("REVOKED", "RV", Silent),
    (
        "LAUNCH_FAILED",
        "LAUNCH_FAILED",
        Failed(Reason::LaunchFailed),
    ),
    ("RECONFIG_FAIL", "RECONFIG_FAIL", Failed(Reason::BootFail)),
    (
        "GETENV_FAILED",
        "GETENV_FAILED",
        Failed(Reason::LaunchFailed),
    ),
    ("POWER_UP_NODE", "POWER_UP_NODE", Queued),
    ("UPDATE_DB", "UPDATE_DB", Silent),
];

/// Reasons with which a pending job will not start unless a person acts; as letters and digits only,
/// because releases differ in blanks, underscores and case.
const HOPELESS: &[&str] = &[
    "accountingpolicy",
    "badconstraints",
    "dependencyneversatisfied",
    "invalidaccount",
    "invalidqos",
    "jobheldadmin",
    "jobhelduser",
    "jobrequeuedinheldstate",
    "launchfailedrequeuedheld",
    "partitionconfig",
    "partitionnodelimit",
    "partitiontimelimit",
    "reservationdeleted",
];

/// slurmd could not set up the job's output files or environment (slurm.h, `ESLURMD_...`): the
/// script never began.
const NOT_LAUNCHED: &str = "0:53";

/// Returns where a job stands. A warning is returned for a word that says nothing.
pub fn phase(said: Said<'_>) -> (Phase, Option<String>) {
    let Some((meaning, cancelled_by)) = meaning(said.state) else {
        let warning = format!(
            "Slurm says '{}', a job state that this program does not know; such jobs are left alone",
            said.state
        );
        return (Phase::Unknown, Some(warning));
    };
    let phase = match meaning {
        Pending if said.reason.is_some_and(is_hopeless) => Phase::Held,
        Pending | Queued => Phase::Queued,
        Held => Phase::Held,
        Running => Phase::Running,
        Suspended => Phase::Suspended,
        Completed => Phase::Completed,
        Cancelled => Phase::Failed(why_cancelled(said, cancelled_by)),
        FailedByCode if said.exit_code == Some(NOT_LAUNCHED) => Phase::Failed(Reason::LaunchFailed),
        // The queue's reason `JobLaunchFailure` proves nothing: a script ended by a signal has it too.
        FailedByCode => Phase::Failed(Reason::ExitCode),
        Failed(reason) => Phase::Failed(reason),
        Silent => {
            let warning = format!(
                "Slurm says '{}', which tells nothing of the job itself; such jobs are left alone",
                said.state
            );
            return (Phase::Unknown, Some(warning));
        }
    };
    (phase, None)
}

/// True for the record of a job that another cluster of the federation took.
pub fn is_revoked(job: &JobReport) -> bool {
    let word = job.facts.slurm_state.as_deref().unwrap_or_default();
    ["REVOKED", "RV"].contains(&word.to_ascii_uppercase().as_str())
}

fn why_cancelled(said: Said<'_>, cancelled_by: bool) -> Reason {
    if said
        .reason
        .is_some_and(|reason| squeeze(reason).starts_with("dependency"))
        && !cancelled_by
    {
        return Reason::Dependency;
    }
    // Accounting notes who asked for the end of a job. Nobody did, and it had begun: the controller
    // lost it in a restart. The queue never notes it; a cut word (`CANCELLED+`) may hide it.
    if said.source == Source::Accounting
        && !cancelled_by
        && said.has_run
        && !said.state.ends_with('+')
    {
        return Reason::NodeFail;
    }
    Reason::Cancelled
}

/// Finds a word in any of its forms, and says whether it names who cancelled the job.
fn meaning(state: &str) -> Option<(Meaning, bool)> {
    let mut parts = state.split_ascii_whitespace();
    let word = parts.next()?.to_ascii_uppercase();
    // Any integer: 20.11 prints large uids as negative numbers.
    let by = parts.next() == Some("by");
    if let Some((_, _, meaning)) = WORDS
        .iter()
        .find(|(long, short, _)| *long == word || *short == word)
    {
        return Some((*meaning, by));
    }
    // Columns of a fixed width cut words: `OUT_OF_ME+`.
    let start = word.strip_suffix('+').filter(|start| !start.is_empty())?;
    let mut found = WORDS.iter().filter(|(long, _, _)| long.starts_with(start));
    match (found.next(), found.next()) {
        (Some((_, _, meaning)), None) => Some((*meaning, by)),
        (Some(_), Some(_)) => WORDS
            .iter()
            .find(|(long, _, _)| *long == start)
            .map(|(_, _, meaning)| (*meaning, by)),
        (None, _) => None,
    }
}

fn is_hopeless(reason: &str) -> bool {
    let reason = squeeze(reason);
    // A limit on one job (`QOSMaxWallDurationPerJobLimit`, `AssocMaxCpuPerJobLimit`) does not go away
    // when other jobs end.
    HOPELESS.contains(&reason.as_str()) || (reason.contains("perjob") && reason.contains("max"))
}

fn squeeze(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests;
