//! Messages of all versions of sbatch, and their meaning.

use proptest::prelude::*;

use super::*;

fn accepted(id: &str, cluster: Option<&str>) -> Submission {
    Submission::Accepted {
        job_id: JobId::new(id),
        cluster: cluster.map(Arc::from),
    }
}

#[test]
fn attack_a6_the_id_is_the_first_line_with_only_an_id_or_slurms_sentence() {
    for (stdout, expected) in [
        ("123\n", Some(("123", None))),
        ("123", Some(("123", None))),
        ("123\r\n", Some(("123", None))),
        ("123;dev\n", Some(("123", Some("dev")))),
        ("Welcome to Stampede3\n7\n", Some(("7", None))),
        ("7\nno project balance for 3\n", Some(("7", None))),
        ("53\n4711\n", Some(("53", None))),
        ("Submitted batch job 12\n", Some(("12", None))),
        (
            "Hello\nSubmitted batch job 53 on cluster dev\n4711\n",
            Some(("53", Some("dev"))),
        ),
        ("Submitted batch job x\n", None),
        ("Submitted batch job 12 on cluster \n", None),
        ("Stampede3\n", None),
        ("123;\n", None),
        ("123;a b\n", None),
        (" 123\n", None),
        ("-1\n", None),
        ("", None),
        // Slurm counts jobs from 1, in 32 bits.
        ("0\n", None),
        ("Submitted batch job 0\n", None),
        ("4294967295\n", Some(("4294967295", None))),
        ("4294967296\n", None),
        ("0\n12\n", Some(("12", None))),
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

/// The refusal of a failed sbatch; `None` if in doubt.
fn refused(code: i32, stderr: &str) -> Option<Refusal> {
    match judge(End::Exit(code), "", stderr) {
        Submission::Refused { kind, .. } => Some(kind),
        Submission::InDoubt { .. } => None,
        other => panic!("{stderr}: {other:?}"),
    }
}

fn failed(text: &str) -> String {
    format!("sbatch: error: Batch job submission failed: {text}\n")
}

#[test]
fn a1_every_text_of_every_release_has_its_meaning() {
    let table = include_str!("../../../../fixtures/slurm/sbatch-failures.tsv");
    let mut replies = 0;
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [_, _, place, meaning, text] = fields[..] else {
            panic!("{row}");
        };
        let stderr = match place {
            "reply" => failed(text),
            "getopt" => {
                format!("/usr/bin/sbatch: {text}\nTry \"sbatch --help\" for more information\n")
            }
            place => format!("sbatch: {place}: {text}\n"),
        };
        let expected = match meaning {
            "refused" => Some(Refusal::Permanent),
            "temporary" => Some(Refusal::Transient),
            "limit" => Some(Refusal::Limit),
            "array" => Some(Refusal::ArraySize),
            "in-doubt" => None,
            other => panic!("{other}: {row}"),
        };
        assert_eq!(refused(1, &stderr), expected, "{row}");
        if place == "reply" {
            replies += 1;
            // The message of a site's plugin before it changes nothing.
            let sentence = "sbatch: error: Use --account, or the socket timed out.\n";
            assert_eq!(
                refused(1, &(sentence.to_owned() + &stderr)),
                expected,
                "{row}"
            );
            // `--test-only` has the same texts.
            let tried = format!("allocation failure: {text}\n");
            assert_eq!(refused(1, &tried), expected, "{row}");
        }
    }
    assert!(replies > 200, "{replies}");
}

#[test]
fn a1_the_last_message_counts_and_earlier_ones_explain_it() {
    for (stderr, kind) in [
        // An sbatch that was killed while it tried again.
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n".to_owned(), None),
        // No credential could be made, so nothing was sent.
        (
            "sbatch: error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\"\n\
             sbatch: error: auth_g_create: REQUEST_SUBMIT_BATCH_JOB has authentication error\n"
                .to_owned()
                + &failed("Protocol authentication error"),
            Some(Refusal::Transient),
        ),
        // The reply was unreadable: 22.05 ends as it does for a site's plugin.
        (
            "sbatch: error: slurm_unpack_received_msg: [host] auth_g_verify: RESPONSE_SUBMIT_BATCH_JOB has \
             authentication error: Rewound credential\n"
                .to_owned()
                + &failed("Unspecified error"),
            None,
        ),
        (
            "sbatch: error: lua: no jobs named a\nsbatch: error: cli_filter plugin terminated with error\n"
                .to_owned(),
            Some(Refusal::Permanent),
        ),
        (
            "sbatch: error: No cluster 'x' known by database.\nsbatch: error: 'x' can't be reached now, or it is \
             an invalid entry for --cluster.\n"
                .to_owned(),
            Some(Refusal::Permanent),
        ),
    ] {
        assert_eq!(refused(1, &stderr), kind, "{stderr}");
    }
    assert_eq!(
        refused(255, "sbatch: error: Invalid --time specification\n"),
        Some(Refusal::Permanent)
    );
    // `timeout` ended it.
    assert_eq!(
        refused(124, "sbatch: error: Invalid --time specification\n"),
        None
    );
}

#[test]
fn requests_that_may_have_reached_the_controller_are_in_doubt() {
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
    let stderr = "sbatch: error: Name a project, see https://hpc.example.org\n".to_owned()
        + &failed("Unspecified error");
    let Submission::Refused { message, .. } = judge(End::Exit(1), "", &stderr) else {
        panic!("not refused");
    };
    assert_eq!(message, "Name a project, see https://hpc.example.org");
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
