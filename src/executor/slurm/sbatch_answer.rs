//! What sbatch's answer means: accepted, certainly refused, or in doubt.
//!
//! Pure. sbatch refuses what it cannot read before it sends a request, in lines of its own. A reply of the controller's
//! that carries an error is a refusal as well: no job was made. Only a reply that was lost, or that could not
//! be read, leaves a submission in doubt, and so does an sbatch that says nothing. `fixtures/slurm/sbatch-failures.tsv`
//! lists the texts of all releases.

use std::sync::Arc;

use super::command::one_line;
use crate::base::run::End;
use crate::executor::{Refusal, Submission};
use crate::model::job::JobId;

/// What stands before the text of an error that ended a request: of a submission, and of one that is only tried.
const OUTCOMES: [&str; 2] = ["batch job submission failed: ", "allocation failure: "];

/// Parts of texts about a reply that was lost or cannot be believed: the controller may have made the job.
const LOST: &[&str] = &[
    "timed out",
    "socket error",
    "connection",
    "network is",
    "network dropped",
    "message received",
    "message length",
    "length message",
    "entire message",
    "send failure",
    "receive failure",
    "shutdown failure",
    "zero bytes",
    "header lengths",
    "protocol error",
    "authentication",
    "credential",
    "client and server",
    "stream version",
    "file descriptor",
    "would block",
    "broken pipe",
    "endpoint",
    "no route to host",
    "host is down",
    "system call",
    "input/output error",
    "operation now",
    "operation already",
    "temporarily unavailable",
    "cannot allocate memory",
    "memory management",
    "buffer space",
    "bad argument to plugin",
    "no error",
    "success",
];

/// Names of the functions that carry a request and its reply. sbatch writes them before what went wrong.
const CARRIERS: &[&str] = &[
    "slurm_unpack_received_msg:",
    "slurm_receive_msg",
    "slurm_msg_",
    "slurm_bufs_sendto",
    "slurm_send_",
    "slurm_recv_",
    "_send_and_recv_msg:",
    "auth_g_verify:",
    "unpack_header:",
];

/// Lines of sbatch's own after which it goes on.
const NOT_THE_END: &[&str] = &[
    "retrying",
    "in environment",
    "env variable",
    "ignoring ",
    "getrlimit",
    "getpriority",
    "getcwd failed",
    "gethostname_short failed",
    "register atexit handler",
    "compression",
    "slurm_exit_error",
    "thread value",
];

/// Refusals that say something else than that this procedure's jobs cannot be had.
const SPECIAL: &[(&str, Refusal)] = &[
    (
        "could not establish a configuration source",
        Refusal::Transient,
    ),
    ("unable to process configuration file", Refusal::Transient),
    ("in standby", Refusal::Transient),
    ("rate limit exceeded", Refusal::Transient),
    ("unable to create job record", Refusal::Transient),
    ("error writing script/environment", Refusal::Transient),
    ("requested nodes are busy", Refusal::Transient),
    ("required ports are in use", Refusal::Transient),
    ("system submissions disabled", Refusal::Transient),
    ("unable to connect to database", Refusal::Transient),
    ("maxjobcount limit reached", Refusal::Limit),
    ("invalid job array specification", Refusal::ArraySize),
];

/// Judges how a started sbatch ended by its status and its two outputs.
pub fn judge(end: End, stdout: &str, stderr: &str) -> Submission {
    let said = one_line(stderr);
    // What Slurm adds to the sentence of a site's plugin.
    let said = said.strip_suffix("; Unspecified error").unwrap_or(&said);
    match end {
        End::Exit(0) => match job_id(stdout) {
            Some((job_id, cluster)) => Submission::Accepted { job_id, cluster },
            None => in_doubt("sbatch ended well but gave no job id", said),
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
                    message: said.to_owned(),
                },
                None => in_doubt(&format!("sbatch ended with exit code {code}"), said),
            }
        }
        End::Signal(signal) => in_doubt(&format!("sbatch was ended by signal {signal}"), said),
        End::Unseen => in_doubt("the exit status of sbatch could not be had", said),
        End::TooLong { bytes } => in_doubt(
            &format!("sbatch printed more than {bytes} bytes and was ended"),
            said,
        ),
        End::TimedOut { seconds } => in_doubt(
            &format!("sbatch did not answer within {seconds} s and was ended"),
            said,
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
    // 255 is sbatch's own for options that it cannot read; other high codes are those of `timeout`, a shell or a wrapper.
    if code >= 124 && code != 255 {
        return None;
    }
    let text = stderr.to_lowercase();
    let outcome = text.lines().rev().find_map(|line| {
        let mut starts = OUTCOMES.iter();
        starts.find_map(|start| line.split_once(start).map(|(_, outcome)| outcome.trim()))
    });
    match outcome {
        Some(outcome) => reply(outcome, &text),
        None => own(&text),
    }
}

/// Judges the error that ended a request. What stands before it in the text are a site's words, or tries of sbatch's own
/// that were refused too.
fn reply(outcome: &str, text: &str) -> Option<Refusal> {
    let contains = |needle: &&str| text.contains(needle);
    // The controller was not reached, or there was no credential to send along.
    let is_unsigned = outcome == "protocol authentication error"
        && ["munge encode failed", "auth_g_create:"]
            .iter()
            .any(contains);
    if is_unsigned || outcome.contains("(connect failure)") {
        return Some(Refusal::Transient);
    }
    // MaxJobCount: sbatch has waited two minutes by itself before it says so.
    if outcome == "resource temporarily unavailable"
        && text.contains("temporarily unable to accept job")
    {
        return Some(Refusal::Limit);
    }
    // Up to 22.05, a reply that cannot be read ends as `Unspecified error`, like one of a site's plugin.
    if is_under_way(text) || is_lost(outcome) {
        return None;
    }
    Some(kind(outcome, text))
}

/// Judges the words of an sbatch that ended before its request, if they say so.
fn own(text: &str) -> Option<Refusal> {
    let error = |line: &'_ str| {
        let (program, said) = line.trim().split_once(": ")?;
        // getopt(3) writes the path that the program was started by.
        let name = program.rsplit('/').next().unwrap_or(program);
        let starts = [
            "error: ",
            "fatal: ",
            "unrecognized option",
            "invalid option",
            "option ",
        ];
        let is_error = name.starts_with("sbatch")
            && starts.iter().any(|start| said.starts_with(start))
            && !NOT_THE_END.iter().any(|part| said.contains(part));
        is_error.then(|| is_lost(said))
    };
    // The last one ended it.
    let is_lost = text.lines().rev().find_map(error)?;
    (!is_lost && !is_under_way(text)).then(|| kind(text, text))
}

fn is_lost(words: &str) -> bool {
    LOST.iter().any(|part| words.contains(part))
}

fn is_under_way(text: &str) -> bool {
    CARRIERS.iter().any(|name| text.contains(name))
}

/// Returns what a refusal means, by its last words and the whole text.
fn kind(last: &str, text: &str) -> Refusal {
    // `AssocMaxSubmitJobLimit`, `QOSGrpSubmitJobsLimit`: a quota. The same policy line without such a
    // word means the size or time of this very job.
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if words.any(|word| word.contains("submitjob") && word.contains("limit")) {
        return Refusal::Limit;
    }
    let special = SPECIAL.iter().find(|(part, _)| last.contains(part));
    special.map_or(Refusal::Permanent, |(_, kind)| *kind)
}

/// Returns the job that stdout names: `123`, `123;cluster` (which `--parsable` asks for), or the sentence that sbatch
/// prints without it. Sites print banners around it, even lines of digits: the first of several counts, and
/// the mark on the job corrects it.
fn job_id(stdout: &str) -> Option<(JobId, Option<Arc<str>>)> {
    stdout.lines().find_map(|line| {
        let line = line.trim_end_matches('\r');
        let (id, cluster) = match line.strip_prefix("Submitted batch job ") {
            Some(rest) => split(rest, " on cluster "),
            None => split(line, ";"),
        };
        // Slurm counts jobs from 1, in 32 bits.
        let is_number = id.bytes().all(|b| b.is_ascii_digit());
        let id_fits = is_number && id.parse::<u32>().is_ok_and(|id| id > 0);
        let cluster_fits = cluster.is_none_or(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        });
        (id_fits && cluster_fits).then(|| (JobId::new(id), cluster.map(Arc::from)))
    })
}

fn split<'a>(line: &'a str, separator: &str) -> (&'a str, Option<&'a str>) {
    match line.split_once(separator) {
        Some((id, cluster)) => (id, Some(cluster)),
        None => (line, None),
    }
}

#[cfg(test)]
mod tests;
