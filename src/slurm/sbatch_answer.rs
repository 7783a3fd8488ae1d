//! What sbatch's answer means: accepted, certainly refused, or in doubt.
//!
//! Pure. A failed sbatch may have created the job, or may create it after it has failed, so only
//! texts that are known to be said before a job exists count as a refusal; all else is in doubt and
//! must be looked for before anything is submitted again.

use std::sync::Arc;

use super::command::{End, one_line};
use crate::executor::{Refusal, Submission};
use crate::job::JobId;

/// Text that says that the request may have reached the controller. Looked for first: a warning from an
/// earlier try of sbatch's own may stand beside it.
const MAY_HAVE_BEEN_SENT: &[&str] = &[
    "socket timed out",
    "receive failure",
    "send failure",
    "zero bytes were transmitted",
    "unexpected message",
    "communication connection failure",
    "connection reset",
];

/// Texts that the controller (or sbatch, before it asks) gives without creating a job.
const NOT_CREATED: &[(&str, Refusal)] = &[
    // The controller was not reached.
    ("(connect failure)", Refusal::Transient),
    ("munge encode failed", Refusal::Transient),
    (
        "could not establish a configuration source",
        Refusal::Transient,
    ),
    ("backup controller in standby", Refusal::Transient),
    // The controller is busy or cannot write.
    ("job queue full", Refusal::Transient),
    ("rate limit exceeded", Refusal::Transient),
    ("error writing script/environment", Refusal::Transient),
    ("job creation temporarily disabled", Refusal::Transient),
    // MaxJobCount: sbatch has waited two minutes by itself before it says so.
    ("temporarily unable to accept job", Refusal::Limit),
    ("resource temporarily unavailable", Refusal::Limit),
    // What was asked for cannot be had.
    ("invalid partition", Refusal::Permanent),
    ("invalid account or account/partition", Refusal::Permanent),
    ("invalid qos", Refusal::Permanent),
    ("node configuration is not available", Refusal::Permanent),
    (
        "memory specification can not be satisfied",
        Refusal::Permanent,
    ),
    ("node count specification invalid", Refusal::Permanent),
    ("more processors requested than", Refusal::Permanent),
    ("invalid job array specification", Refusal::ArraySize),
    ("or other parameter too long", Refusal::Permanent),
    ("job dependency problem", Refusal::Permanent),
    ("invalid generic resource", Refusal::Permanent),
    ("invalid trackable resource", Refusal::Permanent),
    ("invalid feature specification", Refusal::Permanent),
    ("invalid wckey", Refusal::Permanent),
    ("invalid license", Refusal::Permanent),
    ("requested reservation", Refusal::Permanent),
    ("requested time limit is invalid", Refusal::Permanent),
    (
        "requested partition configuration not available",
        Refusal::Permanent,
    ),
    ("required partition not available", Refusal::Permanent),
    (
        "group not permitted to use this partition",
        Refusal::Permanent,
    ),
    ("access/permission denied", Refusal::Permanent),
    ("known by database", Refusal::Permanent),
    ("violates accounting/qos policy", Refusal::Permanent),
    // sbatch itself reads options and script before it asks anybody.
    ("does not look like a batch script", Refusal::Permanent),
    ("dos line breaks", Refusal::Permanent),
    ("batch script is empty", Refusal::Permanent),
    ("unable to open file", Refusal::Permanent),
    ("unrecognized option", Refusal::Permanent),
    ("invalid option", Refusal::Permanent),
    ("requires an argument", Refusal::Permanent),
    ("invalid numeric value", Refusal::Permanent),
    ("error: invalid --", Refusal::Permanent),
];

/// Judges how a started sbatch ended by its status and its two outputs.
pub fn judge(end: End, stdout: &str, stderr: &str) -> Submission {
    let said = one_line(stderr);
    match end {
        End::Exit(0) => match job_id(stdout) {
            Some((job_id, cluster)) => Submission::Accepted { job_id, cluster },
            None => in_doubt("sbatch ended well but gave no job id", &said),
        },
        End::Exit(code) => {
            // With an id on stdout a job exists, whatever else was said.
            let refusal = match job_id(stdout) {
                Some(_) => None,
                None => refusal(code, stderr),
            };
            match refusal {
                Some(kind) => Submission::Refused {
                    kind,
                    message: said,
                },
                None => in_doubt(&format!("sbatch ended with exit code {code}"), &said),
            }
        }
        End::Signal(signal) => in_doubt(&format!("sbatch was ended by signal {signal}"), &said),
        End::Unseen => in_doubt("the exit status of sbatch could not be had", &said),
        End::TooLong { bytes } => in_doubt(
            &format!("sbatch printed more than {bytes} bytes and was ended"),
            &said,
        ),
        End::TimedOut { seconds } => in_doubt(
            &format!("sbatch did not answer within {seconds} s and was ended"),
            &said,
        ),
    }
}

fn in_doubt(what: &str, said: &str) -> Submission {
    let message = if said.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {said}")
    };
    Submission::InDoubt { message }
}

fn refusal(code: i32, stderr: &str) -> Option<Refusal> {
    let text = stderr.to_lowercase();
    let any = |needles: &[&str]| needles.iter().any(|needle| text.contains(needle));
    if any(MAY_HAVE_BEEN_SENT) {
        return None;
    }
    // 255 is sbatch's own for options that it cannot read; other high codes are a wrapper's or a shell's.
    if code >= 128 && code != 255 {
        return None;
    }
    // `AssocMaxSubmitJobLimit`, `QOSGrpSubmitJobsLimit`: a quota. The same policy line without such a
    // word means the size or time of this very job.
    let words = || text.split(|c: char| !c.is_ascii_alphanumeric());
    if words().any(|word| word.contains("submitjob") && word.contains("limit")) {
        return Some(Refusal::Limit);
    }
    // sbatch tries some refusals again by itself and says so; then its last word decides.
    let last_word = text
        .lines()
        .rev()
        .find(|line| line.contains("submission failed:"));
    if let Some(kind) = last_word.and_then(known) {
        return Some(kind);
    }
    known(&text)
}

fn known(text: &str) -> Option<Refusal> {
    NOT_CREATED
        .iter()
        .find(|(needle, _)| text.contains(needle))
        .map(|(_, kind)| *kind)
}

/// Returns the id of the last line that is nothing but an id (`123`, `123;cluster`). Sites print
/// banners with numbers in them.
fn job_id(stdout: &str) -> Option<(JobId, Option<Arc<str>>)> {
    stdout.lines().rev().find_map(|line| {
        let (id, cluster) = match line.trim_end_matches('\r').split_once(';') {
            Some((id, cluster)) => (id, Some(cluster)),
            None => (line.trim_end_matches('\r'), None),
        };
        let id_fits = !id.is_empty() && id.len() <= 20 && id.bytes().all(|b| b.is_ascii_digit());
        let cluster_fits = cluster.is_none_or(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        });
        (id_fits && cluster_fits).then(|| (JobId::new(id), cluster.map(Arc::from)))
    })
}

#[cfg(test)]
mod tests;
