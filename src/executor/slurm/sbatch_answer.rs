//! Interprets sbatch's answer: accepted, certainly refused, or in doubt.
//!
//! Pure. If sbatch cannot read its options, it refuses before it sends a request, with its own message. An error in
//! the controller's reply is a refusal too: no job was made. A submission is in doubt only if the reply was lost or
//! unreadable, or if sbatch prints nothing. `fixtures/slurm/sbatch-failures.tsv` lists the texts of all releases.

use std::sync::Arc;

use super::command::one_line;
use crate::base::run::End;
use crate::executor::Refusal::{self, Transient};
use crate::executor::Submission;
use crate::model::job::JobId;

/// Prefixes of the error that ended a request: of a submission, and of `--test-only`.
const OUTCOMES: [&str; 2] = ["batch job submission failed: ", "allocation failure: "];

/// Parts of messages about a lost or unreliable reply: the controller may have made the job.
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

/// Names of the functions that send a request and receive the reply. sbatch prints them before the error.
const TRANSPORT: &[&str] = &[
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

/// Messages of sbatch after which it continues.
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

/// Refusals that do not mean that this procedure's jobs are impossible.
const SPECIAL: &[(&str, Refusal)] = &[
    ("could not establish a configuration source", Transient),
    ("unable to process configuration file", Transient),
    ("in standby", Transient),
    ("rate limit exceeded", Transient),
    ("unable to create job record", Transient),
    ("error writing script/environment", Transient),
    ("requested nodes are busy", Transient),
    ("required ports are in use", Transient),
    ("system submissions disabled", Transient),
    ("unable to connect to database", Transient),
    ("maxjobcount limit reached", Refusal::Limit),
    ("invalid job array specification", Refusal::ArraySize),
];

/// Interprets the exit status and the two outputs of sbatch.
pub fn judge(end: End, stdout: &str, stderr: &str) -> Submission {
    let message = one_line(stderr);
    // Slurm adds this to the message of a site's plugin.
    let message = message
        .strip_suffix("; Unspecified error")
        .unwrap_or(&message);
    let job = job_id(stdout);
    let refusal = match (end, &job) {
        // With an id on stdout a job exists, whatever the message is.
        (End::Exit(code), None) if code != 0 => refusal(code, stderr),
        _ => None,
    };
    match (end, job, refusal) {
        (End::Exit(0), Some((job_id, cluster)), _) => Submission::Accepted { job_id, cluster },
        (End::Exit(0), None, _) => in_doubt("sbatch succeeded but printed no job id", message),
        (_, _, Some(kind)) => Submission::refused(kind, message),
        _ => in_doubt(&end.text("sbatch"), message),
    }
}

fn in_doubt(what: &str, message: &str) -> Submission {
    Submission::InDoubt {
        message: match message {
            "" => what.to_owned(),
            message => format!("{what}: {message}"),
        },
    }
}

fn refusal(code: i32, stderr: &str) -> Option<Refusal> {
    // sbatch ends with 255 if it cannot read its options; other high codes come from `timeout`, a shell or a wrapper.
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

/// Interprets the error that ended a request. The text before it is a site's message, or earlier tries of sbatch that
/// were refused too.
fn reply(outcome: &str, text: &str) -> Option<Refusal> {
    let contains = |needle: &&str| text.contains(needle);
    // The controller was not reached, or there was no credential to send.
    let is_unsigned = outcome == "protocol authentication error"
        && ["munge encode failed", "auth_g_create:"]
            .iter()
            .any(contains);
    if is_unsigned || outcome.contains("(connect failure)") {
        return Some(Refusal::Transient);
    }
    // MaxJobCount: sbatch itself has waited two minutes before this message.
    if outcome == "resource temporarily unavailable"
        && text.contains("temporarily unable to accept job")
    {
        return Some(Refusal::Limit);
    }
    // Up to 22.05, an unreadable reply ends as `Unspecified error`, like a reply of a site's plugin.
    if is_about_transport(text) || is_lost(outcome) {
        return None;
    }
    Some(kind(outcome, text))
}

/// Interprets the message of an sbatch that ended before its request, if it shows that.
fn own(text: &str) -> Option<Refusal> {
    let error = |line: &'_ str| {
        let (program, message) = line.trim().split_once(": ")?;
        // getopt(3) prints the path by which the program was started.
        let name = program.rsplit('/').next().unwrap_or(program);
        let starts = [
            "error: ",
            "fatal: ",
            "unrecognized option",
            "invalid option",
            "option ",
        ];
        let is_error = name.starts_with("sbatch")
            && starts.iter().any(|start| message.starts_with(start))
            && !NOT_THE_END.iter().any(|part| message.contains(part));
        is_error.then(|| is_lost(message))
    };
    // The last error ended it.
    let is_lost = text.lines().rev().find_map(error)?;
    (!is_lost && !is_about_transport(text)).then(|| kind(text, text))
}

fn is_lost(message: &str) -> bool {
    LOST.iter().any(|part| message.contains(part))
}

fn is_about_transport(text: &str) -> bool {
    TRANSPORT.iter().any(|name| text.contains(name))
}

/// The kind of a refusal, from its last message and the complete text.
fn kind(last: &str, text: &str) -> Refusal {
    // `AssocMaxSubmitJobLimit`, `QOSGrpSubmitJobsLimit`: a quota. Without such a word, the same policy
    // message is about the size or time of this job.
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if words.any(|word| word.contains("submitjob") && word.contains("limit")) {
        return Refusal::Limit;
    }
    let special = SPECIAL.iter().find(|(part, _)| last.contains(part));
    special.map_or(Refusal::Permanent, |(_, kind)| *kind)
}

/// The job on stdout: `123`, `123;cluster` (requested by `--parsable`), or the sentence that sbatch prints without it.
/// Sites print banners around it, even lines of digits: the first match counts, and the tag on the job corrects it.
fn job_id(stdout: &str) -> Option<(JobId, Option<Arc<str>>)> {
    stdout.lines().find_map(|line| {
        let line = line.trim_end_matches('\r');
        let (text, separator) = match line.strip_prefix("Submitted batch job ") {
            Some(rest) => (rest, " on cluster "),
            None => (line, ";"),
        };
        let mut parts = text.splitn(2, separator);
        let (id, cluster) = (parts.next().unwrap_or_default(), parts.next());
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

#[cfg(test)]
mod tests;
