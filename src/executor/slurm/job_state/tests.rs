//! Every word of Slurm and its meaning.

use proptest::prelude::*;

use super::*;
use crate::model::state::JobFacts;

fn accounting(state: &str) -> StateWords<'_> {
    StateWords {
        source: Source::Accounting,
        state,
        exit_code: Some("0:0"),
        reason: None,
        has_run: true,
    }
}

#[test]
fn every_word_of_slurm_has_its_phase() {
    let fails = Phase::Failed;
    for (long, short, expected) in [
        ("PENDING", "PD", Phase::Queued),
        ("RUNNING", "R", Phase::Running),
        ("SUSPENDED", "S", Phase::Suspended),
        ("COMPLETED", "CD", Phase::Completed),
        ("CANCELLED by 1000", "CANCELLED+", fails(Reason::Cancelled)),
        ("FAILED", "F", fails(Reason::ExitCode)),
        ("TIMEOUT", "TO", fails(Reason::Timeout)),
        ("OUT_OF_MEMORY", "OOM", fails(Reason::OutOfMemory)),
        ("DEADLINE", "DL", fails(Reason::Deadline)),
        ("NODE_FAIL", "NF", fails(Reason::NodeFail)),
        ("BOOT_FAIL", "BF", fails(Reason::BootFail)),
        ("PREEMPTED", "PR", fails(Reason::Preempted)),
        ("COMPLETING", "CG", Phase::Running),
        ("CONFIGURING", "CF", Phase::Queued),
        ("RESIZING", "RS", Phase::Running),
        ("REQUEUED", "RQ", Phase::Queued),
        ("REQUEUE_FED", "RF", Phase::Queued),
        ("REQUEUE_HOLD", "RH", Phase::Held),
        ("SPECIAL_EXIT", "SE", Phase::Held),
        ("RESV_DEL_HOLD", "RD", Phase::Held),
        ("SIGNALING", "SI", Phase::Running),
        ("STAGE_OUT", "SO", Phase::Running),
        ("STOPPED", "ST", Phase::Running),
        ("REQUEUED_CRON", "RC", Phase::Queued),
        ("EXPEDITING", "EXPEDITING", Phase::Running),
        (
            "LAUNCH_FAILED",
            "LAUNCH_FAILED",
            fails(Reason::LaunchFailed),
        ),
        ("RECONFIG_FAIL", "RECONFIG_FAIL", fails(Reason::BootFail)),
        ("POWER_UP_NODE", "POWER_UP_NODE", Phase::Queued),
    ] {
        for word in [long, short] {
            assert_eq!(phase(accounting(word)), (expected, None), "{word}");
        }
    }
}

#[test]
fn words_are_listed_once() {
    let mut words: Vec<&str> = WORDS
        .iter()
        .flat_map(|(long, short, _)| {
            if long == short {
                vec![*long]
            } else {
                vec![*long, *short]
            }
        })
        .collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count);
}

#[test]
fn ambiguous_words_count_as_live_with_a_warning() {
    for word in ["REVOKED", "RV", "UPDATE_DB", "?", "", "FINE", "REQUEUE+"] {
        let (phase, warning) = phase(accounting(word));
        assert_eq!(phase, Phase::Unknown, "{word}");
        assert!(phase.is_live());
        assert!(warning.unwrap().contains(word), "{word}");
    }
}

#[test]
fn cut_words_are_recognised_if_only_one_fits() {
    for (word, reason) in [
        ("OUT_OF_ME+", Reason::OutOfMemory),
        ("CANCELLED+", Reason::Cancelled),
        ("NODE_F+", Reason::NodeFail),
    ] {
        assert_eq!(phase(accounting(word)).0, Phase::Failed(reason), "{word}");
    }
    assert_eq!(phase(accounting("REQUEUED+")).0, Phase::Queued);
}

#[test]
fn a_cancelled_job_has_one_of_three_reasons() {
    let queue = Source::Queue;
    let acct = Source::Accounting;
    for (source, state, reason, has_run, expected) in [
        (acct, "CANCELLED by 1000", None, true, Reason::Cancelled),
        (acct, "CANCELLED by 0", None, false, Reason::Cancelled),
        (acct, "CANCELLED by -2", None, true, Reason::Cancelled),
        (
            acct,
            "CANCELLED",
            Some("Dependency"),
            false,
            Reason::Dependency,
        ),
        (acct, "CANCELLED", None, true, Reason::NodeFail),
        (acct, "CANCELLED", None, false, Reason::Cancelled),
        (
            acct,
            "CANCELLED by 1000",
            Some("Dependency"),
            false,
            Reason::Cancelled,
        ),
        (queue, "CANCELLED", Some("None"), true, Reason::Cancelled),
        (
            queue,
            "CANCELLED",
            Some("JobHeldUser"),
            true,
            Reason::Cancelled,
        ),
        (
            queue,
            "CANCELLED",
            Some("DependencyNeverSatisfied"),
            false,
            Reason::Dependency,
        ),
    ] {
        let said = StateWords {
            source,
            state,
            exit_code: None,
            reason,
            has_run,
        };
        assert_eq!(phase(said).0, Phase::Failed(expected), "{said:?}");
    }
}

/// A restarted controller reports its ended jobs once more, without who cancelled them.
#[test]
fn a_cancelled_job_that_ended_by_a_signal_was_not_lost() {
    for (exit_code, expected) in [
        ("0:0", Reason::NodeFail),
        ("0:15", Reason::Cancelled),
        ("0:9", Reason::Cancelled),
        ("1:0", Reason::Cancelled),
    ] {
        let words = StateWords {
            exit_code: Some(exit_code),
            has_run: true,
            ..accounting("CANCELLED")
        };
        assert_eq!(phase(words).0, Phase::Failed(expected), "{exit_code}");
    }
}

#[test]
fn the_word_names_who_cancelled_a_job() {
    for (word, uid) in [
        ("CANCELLED by 1000", Some(1000)),
        ("CANCELLED by 0", Some(0)),
        ("CANCELLED by -2", Some(4_294_967_294)),
        ("CANCELLED by 4294967294", Some(4_294_967_294)),
        ("CANCELLED by root", None),
        ("CANCELLED by", None),
        ("CANCELLED", None),
        ("CANCELLED+", None),
        ("COMPLETED by 5", None),
        ("", None),
    ] {
        let facts = JobFacts {
            slurm_state: Some(word.into()),
            ..JobFacts::default()
        };
        assert_eq!(facts.cancelled_by(), uid, "{word}");
    }
}

#[test]
fn only_the_exit_code_shows_a_failed_launch() {
    let mut said = accounting("FAILED");
    for (code, reason, expected) in [
        (Some("0:53"), None, Reason::LaunchFailed),
        (Some("1:0"), None, Reason::ExitCode),
        (Some("0:9"), Some("JobLaunchFailure"), Reason::ExitCode),
        (None, Some("JobLaunchFailure"), Reason::ExitCode),
        (Some("53:0"), None, Reason::ExitCode),
    ] {
        (said.exit_code, said.reason) = (code, reason);
        assert_eq!(phase(said).0, Phase::Failed(expected), "{said:?}");
    }
}

#[test]
fn a_pending_job_that_cannot_start_is_held() {
    for (reason, expected) in [
        ("JobHeldUser", Phase::Held),
        ("JobHeldAdmin", Phase::Held),
        ("launch failed requeued held", Phase::Held),
        ("launch_failed_requeued_held", Phase::Held),
        ("job requeued in held state", Phase::Held),
        ("DependencyNeverSatisfied", Phase::Held),
        ("BadConstraints", Phase::Held),
        ("InvalidAccount", Phase::Held),
        ("InvalidQOS", Phase::Held),
        ("PartitionConfig", Phase::Held),
        ("PartitionNodeLimit", Phase::Held),
        ("PartitionTimeLimit", Phase::Held),
        ("AccountingPolicy", Phase::Held),
        ("QOSMaxWallDurationPerJobLimit", Phase::Held),
        ("AssocMaxCpuPerJobLimit", Phase::Held),
        ("Priority", Phase::Queued),
        ("Resources", Phase::Queued),
        ("Dependency", Phase::Queued),
        ("BeginTime", Phase::Queued),
        ("JobArrayTaskLimit", Phase::Queued),
        ("QOSMaxJobsPerUserLimit", Phase::Queued),
        ("ReqNodeNotAvail, UnavailableNodes:n1", Phase::Queued),
        ("None", Phase::Queued),
    ] {
        for source in [Source::Queue, Source::Accounting] {
            let said = StateWords {
                source,
                state: "PENDING",
                exit_code: None,
                reason: Some(reason),
                has_run: false,
            };
            assert_eq!(phase(said).0, expected, "{reason}");
        }
    }
}

proptest! {
    #[test]
    fn any_words_are_accepted(state in ".*", reason in ".*", code in ".*", has_run: bool, queue: bool) {
        let said = StateWords {
            source: if queue { Source::Queue } else { Source::Accounting },
            state: &state,
            exit_code: Some(&code),
            reason: Some(&reason),
            has_run,
        };
        let (phase, warning) = phase(said);
        prop_assert_eq!(phase == Phase::Unknown, warning.is_some());
    }
}
