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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepted(id: &str, cluster: Option<&str>) -> Submission {
        Submission::Accepted {
            job_id: JobId::new(id),
            cluster: cluster.map(Arc::from),
        }
    }

    #[test]
    fn an_id_is_the_last_line_that_is_nothing_else() {
        for (stdout, expected) in [
            ("123\n", Some(("123", None))),
            ("123", Some(("123", None))),
            ("123\r\n", Some(("123", None))),
            ("123;dev\n", Some(("123", Some("dev")))),
            ("Welcome to Stampede3\n7\n", Some(("7", None))),
            ("7\nno project balance for 3\n", Some(("7", None))),
            ("5\n6\n", Some(("6", None))),
            ("Submitted batch job 12\n", None),
            ("Stampede3\n", None),
            ("123;\n", None),
            ("123;a b\n", None),
            (" 123\n", None),
            ("-1\n", None),
            ("", None),
        ] {
            match expected {
                Some((id, cluster)) => {
                    assert_eq!(judge(End::Exit(0), stdout, ""), accepted(id, cluster));
                }
                None => assert!(
                    matches!(judge(End::Exit(0), stdout, ""), Submission::InDoubt { .. }),
                    "{stdout:?}"
                ),
            }
        }
    }

    #[test]
    fn warnings_beside_an_id_change_nothing() {
        let warning =
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
        assert_eq!(judge(End::Exit(0), "9\n", warning), accepted("9", None));
    }

    #[test]
    fn refusals_are_known_by_their_text() {
        use Refusal::{Limit, Permanent, Transient};
        let failed = |text: &str| format!("sbatch: error: Batch job submission failed: {text}\n");
        for (code, stderr, kind) in [
            (1, failed("Invalid partition name specified"), Permanent),
            (
                1,
                failed("Invalid account or account/partition combination specified"),
                Permanent,
            ),
            (1, failed("Invalid qos specification"), Permanent),
            (
                1,
                "sbatch: error: Memory specification can not be satisfied\n".to_owned()
                    + &failed("Requested node configuration is not available"),
                Permanent,
            ),
            (
                1,
                failed("Invalid job array specification"),
                Refusal::ArraySize,
            ),
            (
                1,
                failed("Pathname of a file, directory or other parameter too long"),
                Permanent,
            ),
            (1, failed("Job dependency problem"), Permanent),
            (
                1,
                "sbatch: error: Invalid generic resource (gres) specification\n".to_owned(),
                Permanent,
            ),
            (
                1,
                "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n".to_owned(),
                Permanent,
            ),
            (
                1,
                "sbatch: error: This does not look like a batch script.  The first\n".to_owned(),
                Permanent,
            ),
            (
                255,
                "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n"
                    .to_owned(),
                Permanent,
            ),
            (255, "sbatch: error: Invalid --time specification\n".to_owned(), Permanent),
            (
                1,
                "sbatch: error: AssocMaxSubmitJobLimit\n".to_owned()
                    + &failed("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"),
                Limit,
            ),
            (
                1,
                "sbatch: error: QOSMaxSubmitJobPerUserLimit\n".to_owned()
                    + &failed("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"),
                Limit,
            ),
            (
                1,
                "sbatch: error: QOSMaxCpuPerJobLimit\n".to_owned()
                    + &failed("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"),
                Permanent,
            ),
            (
                1,
                failed("Unable to contact slurm controller (connect failure)"),
                Transient,
            ),
            (
                1,
                "sbatch: error: Slurm job queue full, sleeping and retrying\n".to_owned()
                    + &failed("Unable to create job record, try again"),
                Transient,
            ),
            (
                1,
                "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
                    .to_owned()
                    + &failed("Resource temporarily unavailable"),
                Limit,
            ),
            (
                1,
                "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
                    .to_owned()
                    + &failed("Invalid partition name specified"),
                Permanent,
            ),
            (1, failed("Rate limit exceeded, please retry"), Transient),
            (
                1,
                failed("I/O error writing script/environment to file"),
                Transient,
            ),
        ] {
            match judge(End::Exit(code), "", &stderr) {
                Submission::Refused { kind: found, .. } => assert_eq!(found, kind, "{stderr}"),
                other => panic!("{stderr}: {other:?}"),
            }
        }
    }

    #[test]
    fn whatever_may_have_reached_the_controller_is_in_doubt() {
        for (end, stdout, stderr) in [
            (End::Exit(0), "", ""),
            (End::Signal(9), "", ""),
            (End::Signal(9), "12\n", ""),
            (End::TimedOut { seconds: 180 }, "", ""),
            (End::Exit(137), "", "Invalid partition name specified"),
            (End::Exit(255), "", "ssh: connection closed"),
            (End::Exit(1), "", ""),
            (End::Exit(1), "", "a text of tomorrow"),
            (
                End::Exit(1),
                "12\n",
                "sbatch: error: Batch job submission failed: Invalid partition name specified",
            ),
            (
                End::Exit(1),
                "",
                "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            ),
            (
                End::Exit(1),
                "",
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller (receive failure)",
            ),
            (
                End::Exit(1),
                "",
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller (send failure)",
            ),
            (
                End::Exit(1),
                "",
                "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
            ),
            (
                End::Exit(1),
                "",
                "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\nsbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            ),
        ] {
            assert!(
                matches!(judge(end, stdout, stderr), Submission::InDoubt { .. }),
                "{end:?} {stdout:?} {stderr:?}"
            );
        }
    }

    #[test]
    fn messages_are_one_line_without_the_program_before_it() {
        let stderr = "sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job submission failed: Invalid partition name specified\n";
        let Submission::Refused { message, .. } = judge(End::Exit(1), "", stderr) else {
            panic!("not refused");
        };
        assert_eq!(
            message,
            "invalid partition specified: nosuch; Invalid partition name specified"
        );
        assert!(one_line(&"x\u{1b}[31m".repeat(1000)).len() < 600);
    }

    proptest! {
        #[test]
        fn any_answer_is_accepted(code in -1000i32..1000, out in ".*", err in ".*") {
            let _ = judge(End::Exit(code), &out, &err);
            let _ = judge(End::Signal(code), &out, &err);
        }

        #[test]
        fn an_unknown_text_is_never_a_refusal(code in 1i32..300, err in "[a-e ]{0,40}") {
            let in_doubt = matches!(judge(End::Exit(code), "", &err), Submission::InDoubt { .. });
            prop_assert!(in_doubt);
        }
    }
}
