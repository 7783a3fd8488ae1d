//! Translates Slurm's words for a job's state to ours; no other module does.
//!
//! Pure. A new word of Slurm is one line in [`WORDS`]; until then it counts as live
//! ([`Phase::Unknown`]) with a warning, never as failed.

use crate::executor::{JobReport, Phase};
use crate::model::state::Reason;

/// The source of a word: the two use the same word for different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// squeue
    #[default]
    Queue,
    /// sacct
    Accounting,
}

/// A job's state in the words of its source.
#[derive(Debug, Clone, Copy)]
pub struct StateWords<'a> {
    pub source: Source,
    /// `RUNNING`, `R`, `CANCELLED by 1000`, `OUT_OF_ME+`.
    pub state: &'a str,
    /// `code:signal`, only from accounting.
    pub exit_code: Option<&'a str>,
    pub reason: Option<&'a str>,
    /// True if a start time and nodes are known. A start time alone is not enough: a job cancelled due to
    /// its dependency can have one.
    pub has_run: bool,
}

/// The meaning of a word, before exit code and reason are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Pending,
    Cancelled,
    FailedByCode,
    Silent,
    Is(Phase),
}

use Meaning::{Cancelled, FailedByCode, Is, Pending, Silent};
use Phase::{Completed, Held, Queued, Running, Suspended};

const fn failed(reason: Reason) -> Meaning {
    Is(Phase::Failed(reason))
}

const NO_LAUNCH: Meaning = failed(Reason::LaunchFailed);

/// Every word of Slurm 20.11 to 26.05: long, short, meaning. The last rows appear only in JSON and
/// in the complete form of newer releases.
const WORDS: &[(&str, &str, Meaning)] = &[
    ("PENDING", "PD", Pending),
    ("RUNNING", "R", Is(Running)),
    ("SUSPENDED", "S", Is(Suspended)),
    ("COMPLETED", "CD", Is(Completed)),
    ("CANCELLED", "CA", Cancelled),
    ("FAILED", "F", FailedByCode),
    ("TIMEOUT", "TO", failed(Reason::Timeout)),
    ("OUT_OF_MEMORY", "OOM", failed(Reason::OutOfMemory)),
    ("DEADLINE", "DL", failed(Reason::Deadline)),
    ("NODE_FAIL", "NF", failed(Reason::NodeFail)),
    ("BOOT_FAIL", "BF", failed(Reason::BootFail)),
    ("PREEMPTED", "PR", failed(Reason::Preempted)),
    // Flags that hide the state below them.
    ("COMPLETING", "CG", Is(Running)),
    ("CONFIGURING", "CF", Is(Queued)),
    ("RESIZING", "RS", Is(Running)),
    ("REQUEUED", "RQ", Is(Queued)),
    ("REQUEUE_FED", "RF", Is(Queued)),
    ("REQUEUE_HOLD", "RH", Is(Held)),
    ("SPECIAL_EXIT", "SE", Is(Held)),
    ("RESV_DEL_HOLD", "RD", Is(Held)),
    ("SIGNALING", "SI", Is(Running)),
    ("STAGE_OUT", "SO", Is(Running)),
    ("STOPPED", "ST", Is(Running)),
    ("REQUEUED_CRON", "RC", Is(Queued)),
    ("EXPEDITING", "EXPEDITING", Is(Running)),
    // A sibling in a federation, without information on the running job.
    ("REVOKED", "RV", Silent),
    ("LAUNCH_FAILED", "LAUNCH_FAILED", NO_LAUNCH),
    ("RECONFIG_FAIL", "RECONFIG_FAIL", failed(Reason::BootFail)),
    ("GETENV_FAILED", "GETENV_FAILED", NO_LAUNCH),
    ("POWER_UP_NODE", "POWER_UP_NODE", Is(Queued)),
    ("UPDATE_DB", "UPDATE_DB", Silent),
];

/// Reasons with which a pending job will not start until a person acts. Only letters and digits,
/// because releases differ in spaces, underscores and case.
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

/// The phase of a job, with a warning for an unknown or ambiguous word.
pub fn phase(words: StateWords<'_>) -> (Phase, Option<String>) {
    let Some((meaning, cancelled_by)) = meaning(words.state) else {
        let warning = format!(
            "unknown job state '{}' in Slurm; such jobs are treated as running",
            words.state
        );
        return (Phase::Unknown, Some(warning));
    };
    let phase = match meaning {
        Is(phase) => phase,
        Pending if words.reason.is_some_and(is_hopeless) => Phase::Held,
        Pending => Phase::Queued,
        Cancelled => Phase::Failed(why_cancelled(words, cancelled_by)),
        FailedByCode if words.exit_code == Some(NOT_LAUNCHED) => {
            Phase::Failed(Reason::LaunchFailed)
        }
        // The queue's reason `JobLaunchFailure` proves nothing: a script ended by a signal has it too.
        FailedByCode => Phase::Failed(Reason::ExitCode),
        Silent => {
            let warning = format!(
                "job state '{}' in Slurm does not show whether the job runs; such jobs are treated as running",
                words.state
            );
            return (Phase::Unknown, Some(warning));
        }
    };
    (phase, None)
}

/// True for a job that another cluster of the federation runs.
pub fn is_revoked(job: &JobReport) -> bool {
    let word = job.facts.slurm_state.as_deref().unwrap_or_default();
    ["REVOKED", "RV"].contains(&word.to_ascii_uppercase().as_str())
}

fn why_cancelled(words: StateWords<'_>, cancelled_by: bool) -> Reason {
    if words
        .reason
        .is_some_and(|reason| squeeze(reason).starts_with("dependency"))
        && !cancelled_by
    {
        return Reason::Dependency;
    }
    // Accounting records who cancelled a job. If it names no one although the job had begun, the
    // controller lost the job in a restart, unless the job ended by a signal: in a restart, accounting
    // forgets who cancelled the jobs that the controller has not lost. The queue never names anyone;
    // a cut word (`CANCELLED+`) may hide the name.
    if words.source == Source::Accounting
        && !cancelled_by
        && words.has_run
        && words.exit_code.is_none_or(|code| code == "0:0")
        && !words.state.ends_with('+')
    {
        return Reason::NodeFail;
    }
    Reason::Cancelled
}

/// The meaning of a word in any form, and whether it names who cancelled the job.
fn meaning(state: &str) -> Option<(Meaning, bool)> {
    let mut parts = state.split_ascii_whitespace();
    let word = parts.next()?.to_ascii_uppercase();
    // Any integer: 20.11 prints large uids as negative numbers.
    let by = parts.next() == Some("by");
    // Columns of fixed width cut words: `OUT_OF_ME+`.
    let start = word.trim_end_matches('+');
    let is_cut = start.len() < word.len() && !start.is_empty();
    let mut words = WORDS.iter();
    let exact = words.find(|(long, short, _)| *long == start || *short == word);
    let mut cut = (WORDS.iter()).filter(|(long, ..)| is_cut && long.starts_with(start));
    match (exact, cut.next(), cut.next()) {
        (Some((.., meaning)), ..) | (None, Some((.., meaning)), None) => Some((*meaning, by)),
        _ => None,
    }
}

fn is_hopeless(reason: &str) -> bool {
    let reason = squeeze(reason);
    // A limit on one job (`QOSMaxWallDurationPerJobLimit`, `AssocMaxCpuPerJobLimit`) does not go away
    // when other jobs end.
    HOPELESS.contains(&reason.as_str()) || (reason.contains("perjob") && reason.contains("max"))
}

fn squeeze(text: &str) -> String {
    text.to_ascii_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "")
}

#[cfg(test)]
mod tests;
