//! Texts of sbatch, of all its versions, and what they mean.

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
    let warning = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
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
        (
            255,
            "sbatch: error: Invalid --time specification\n".to_owned(),
            Permanent,
        ),
        (
            1,
            "sbatch: error: AssocMaxSubmitJobLimit\n".to_owned()
                + &failed(
                    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
                ),
            Limit,
        ),
        (
            1,
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\n".to_owned()
                + &failed(
                    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
                ),
            Limit,
        ),
        (
            1,
            "sbatch: error: QOSMaxCpuPerJobLimit\n".to_owned()
                + &failed(
                    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
                ),
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
