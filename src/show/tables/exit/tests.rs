//! Every row of the explanations.

use super::*;
use crate::model::state::testing::row;

fn failed(reason: Reason, facts: JobFacts) -> String {
    let mut row = row("a", TaskStatus::Failed, reason);
    row.facts = facts;
    failure_text(&row).unwrap()
}

fn code(text: &str) -> JobFacts {
    JobFacts {
        exit_code: Some(text.into()),
        ..JobFacts::default()
    }
}

fn used(facts: JobFacts, used: i64) -> JobFacts {
    JobFacts {
        max_rss_mb: Some(used),
        req_mem_mb: Some(32_768),
        ..facts
    }
}

fn state(text: &str) -> JobFacts {
    JobFacts {
        slurm_state: Some(text.into()),
        ..JobFacts::default()
    }
}

fn ran(elapsed: Option<i64>, limit: Option<i64>) -> JobFacts {
    JobFacts {
        elapsed_s: elapsed,
        time_limit_s: limit,
        ..JobFacts::default()
    }
}

fn on(nodes: &str) -> JobFacts {
    JobFacts {
        node_list: Some(nodes.into()),
        ..JobFacts::default()
    }
}

#[test]
fn d5_every_failure_has_words() {
    let none = JobFacts::default;
    for (reason, facts, text) in [
        (Reason::ExitCode, code("1:0"), "exit code 1"),
        (Reason::ExitCode, code("75:0"), "exit code 75"),
        (Reason::ExitCode, code("128:0"), "exit code 128"),
        (Reason::ExitCode, code("255:0"), "exit code 255"),
        (Reason::ExitCode, code("soon"), "exit code soon"),
        (Reason::ExitCode, none(), "ended with an unknown exit code"),
        (
            Reason::ExitCode,
            code("0:0"),
            "failed with exit code 0 (Slurm before 25.11 also prints exit code 128 as 0)",
        ),
        (
            Reason::ExitCode,
            code("126:0"),
            "exit code 126: the script, or a command in it, is not executable, or exit code 254 (Slurm before 25.11 prints 254 as 126)",
        ),
        (
            Reason::ExitCode,
            code("127:0"),
            "exit code 127: a command was not found (a missing module or container, a wrong PATH), or exit code 255 (Slurm before 25.11 prints 255 as 127)",
        ),
        (
            Reason::ExitCode,
            code("143:0"),
            "exit code 143: a command in the script was killed by signal 15 (SIGTERM)",
        ),
        (
            Reason::ExitCode,
            code("162:0"),
            "exit code 162: a command in the script was killed by signal 34",
        ),
        (
            Reason::ExitCode,
            code("137:0"),
            "exit code 137: a command in the script was killed by signal 9 (SIGKILL): \
             possibly out of memory, but not confirmed",
        ),
        (
            Reason::ExitCode,
            used(code("137:0"), 32_100),
            "exit code 137: a command in the script was killed by signal 9 (SIGKILL): \
             out of memory (31.3G of 32G used)",
        ),
        (
            Reason::ExitCode,
            used(code("137:0"), 900),
            "exit code 137: a command in the script was killed by signal 9 (SIGKILL): \
             possibly out of memory, but not confirmed (900M of 32G used)",
        ),
        (
            Reason::ExitCode,
            JobFacts {
                slurm_state: Some("OUT_OF_ME+".into()),
                ..code("0:9")
            },
            "killed by signal 9 (SIGKILL): out of memory",
        ),
        (
            Reason::ExitCode,
            used(code("0:9"), 30_000),
            "killed by signal 9 (SIGKILL): out of memory (29.3G of 32G used)",
        ),
        (
            Reason::ExitCode,
            code("0:11"),
            "killed by signal 11 (SIGSEGV)",
        ),
        (
            Reason::ExitCode,
            code("9:0"),
            "exit code 9, or a command killed by signal 9 (SIGKILL) \
             (Slurm before 25.11 prints 137 as 9)",
        ),
        (
            Reason::ExitCode,
            used(code("9:0"), 32_000),
            "exit code 9, or a command killed by signal 9 (SIGKILL) \
             (Slurm before 25.11 prints 137 as 9): probably out of memory (31.2G of 32G used)",
        ),
        (
            Reason::ExitCode,
            code("11:0"),
            "exit code 11, or a command killed by signal 11 (SIGSEGV) \
             (Slurm before 25.11 prints 139 as 11)",
        ),
        (
            Reason::ExitCode,
            code("0:53"),
            "did not start: the node could not open its log files (exit code 0:53)",
        ),
        (
            Reason::ExitCode,
            code("0:125"),
            "out of memory (exit code 0:125)",
        ),
        (
            Reason::OutOfMemory,
            none(),
            "needed more memory than requested",
        ),
        (
            Reason::OutOfMemory,
            used(code("0:125"), 32_768),
            "needed more memory than requested (32.0G of 32G used)",
        ),
        (Reason::Timeout, none(), "reached its time limit"),
        (
            Reason::Timeout,
            ran(Some(14_410), Some(14_400)),
            "reached its time limit (ran 4:00:10 of 4:00:00)",
        ),
        (
            Reason::Timeout,
            ran(None, Some(172_800)),
            "reached its time limit of 2-00:00:00",
        ),
        (
            Reason::Timeout,
            ran(Some(60), None),
            "reached its time limit (ran 0:01:00)",
        ),
        (Reason::Cancelled, state("CANCELLED"), "cancelled"),
        (
            Reason::Cancelled,
            state("CANCELLED by 4000000007"),
            "cancelled by uid 4000000007",
        ),
        (
            Reason::Cancelled,
            state("CANCELLED by 0"),
            "cancelled by root (an administrator)",
        ),
        (
            Reason::NodeFail,
            on("n[1-2]"),
            "its node failed, or Slurm lost the job during a restart (on n[1-2])",
        ),
        (
            Reason::BootFail,
            on("None assigned"),
            "its node did not start",
        ),
        (
            Reason::Preempted,
            none(),
            "preempted by a job with higher priority",
        ),
        (
            Reason::LaunchFailed,
            on("n1"),
            "did not start: the node could not set up its environment or open its log files, \
             often because a log directory or a mount is missing (on n1)",
        ),
        (
            Reason::Deadline,
            none(),
            "could not have finished before its deadline (--deadline)",
        ),
        (
            Reason::Dependency,
            none(),
            "a job that it depended on failed (--dependency)",
        ),
        (
            Reason::NoOutput,
            none(),
            "exited without an error, but the expected outputs did not appear in time",
        ),
        (
            Reason::Lost,
            none(),
            "no trace of the job in Slurm or on disk for a long time",
        ),
    ] {
        assert_eq!(failed(reason, facts.clone()), text, "{reason} {facts:?}");
    }
}

#[test]
fn only_failures_have_words_and_each_reason_of_one_does() {
    for reason in Reason::ALL {
        for status in TaskStatus::ALL {
            let has = failure_text(&row("a", status, reason)).is_some();
            let is_failure = status == TaskStatus::Failed && reason.fits(status);
            assert_eq!(has, is_failure, "{status} {reason}");
        }
    }
    let mut python = row("a", TaskStatus::Failed, Reason::ExitCode);
    python.reason = None;
    assert_eq!(failure_text(&python), None);
    python.facts = code("127:0");
    let text = failure_text(&python);
    python.reason = Some(Reason::ExitCode);
    assert_eq!(text, failure_text(&python));
}

proptest::proptest! {
    #[test]
    fn any_facts_are_accepted(code in ".*", state in ".*", nodes in ".*", used: Option<i64>,
                              asked: Option<i64>, elapsed: Option<i64>, limit: Option<i64>, which in 0usize..21) {
        let reason = Reason::ALL[which % Reason::ALL.len()];
        let mut row = row("a", TaskStatus::Failed, reason);
        row.facts = JobFacts {
            exit_code: Some(code.as_str().into()),
            slurm_state: Some(state.as_str().into()),
            node_list: Some(nodes.as_str().into()),
            max_rss_mb: used,
            req_mem_mb: asked,
            elapsed_s: elapsed,
            time_limit_s: limit,
            ..JobFacts::default()
        };
        let _ = failure_text(&row);
    }
}

#[test]
fn a_job_without_a_time_limit_has_none() {
    let mut row = row("a", TaskStatus::Complete, Reason::Verified);
    row.facts.elapsed_s = Some(0);
    row.facts.time_limit_s = Some(365 * 86_400);
    assert_eq!(used_text(&row).unwrap(), "ran 0:00:00");
}

#[test]
fn an_attempt_is_described_in_one_line() {
    let mut row = row("a", TaskStatus::Failed, Reason::Timeout);
    row.facts = JobFacts {
        elapsed_s: Some(86_410),
        time_limit_s: Some(86_400),
        req_mem_mb: Some(32_768),
        max_rss_mb: Some(16_384),
        node_list: Some("n1".into()),
        ..JobFacts::default()
    };
    assert_eq!(
        row_text(&row),
        "failed (timeout): reached its time limit (ran 1-00:00:10 of 1-00:00:00)"
    );
    assert_eq!(
        used_text(&row).unwrap(),
        "ran 1-00:00:10 of 1-00:00:00, memory 16.0G of 32G used, on n1"
    );
    row.status = TaskStatus::Running;
    row.reason = Some(Reason::Running);
    assert_eq!(row_text(&row), "running");
    row.facts = JobFacts {
        node_list: Some("None assigned".into()),
        ..JobFacts::default()
    };
    assert_eq!(used_text(&row), None);
}
