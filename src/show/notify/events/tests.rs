use std::sync::Arc;

use super::super::Command;
use super::*;
use crate::config::{Overrides, load};
use crate::model::job::JobId;
use crate::model::state::State;
use crate::model::state::table::Metadata;
use crate::model::state::testing::{at, row};
use crate::show::notify::{Figures, Memory};

fn config(text: &str) -> Config {
    let procedures = "procedures: [{name: a, output_dir: a, script: a}]\n";
    let text = format!("{procedures}{text}");
    let (cwd, overrides) = (std::path::Path::new("/"), Overrides::default());
    load::interpret(text.as_bytes(), None, false, &|_| None, &overrides, cwd).unwrap()
}

fn numbered(number: u32, status: TaskStatus, reason: Reason) -> TaskRow {
    let mut row = row("a", status, reason);
    row.key.subject = Arc::from(format!("sub-{number}"));
    row.submission_id = Some(Arc::from(format!("s{number}")));
    row
}

fn state(rows: Vec<TaskRow>) -> State {
    let meta = Metadata {
        owner_uid: Some(1000),
        ..Metadata::default()
    };
    State::from_rows(rows, None, meta)
}

/// Lists occasions and names at minute 100.
fn found(
    config: &Config,
    state: Option<&State>,
    call: Invocation,
    memory: &Memory,
) -> Vec<(Occasion, String)> {
    let call = Invocation {
        ended_at: at(100),
        ..call
    };
    let study = Study {
        config,
        project: "p",
        state,
        control: None,
        memory,
    };
    events(&study, &call)
        .into_iter()
        .map(|event| (event.occasion, event.name))
        .collect()
}

fn run(exit: Exit, error: Option<&str>) -> Invocation {
    Invocation {
        exit,
        error: error.map(str::to_owned),
        ..Invocation::begin(Command::Run, at(99))
    }
}

#[test]
fn each_problem_row_is_one_event_and_good_rows_are_none() {
    let mut cancelled = numbered(1, TaskStatus::Failed, Reason::Cancelled);
    cancelled.facts.slurm_state = Some("CANCELLED by 1000".into());
    let mut by_another = numbered(2, TaskStatus::Failed, Reason::Cancelled);
    by_another.facts.slurm_state = Some("CANCELLED by 0".into());
    let doubt = |number, minute| {
        let mut row = numbered(number, TaskStatus::Pending, Reason::Submitting);
        row.job_id = None;
        row.submitted_at = Some(at(minute));
        row
    };
    let rows = vec![
        cancelled,
        by_another,
        numbered(3, TaskStatus::Failed, Reason::Lost),
        numbered(4, TaskStatus::Pending, Reason::Held),
        doubt(5, 90),
        doubt(6, 30),
        numbered(7, TaskStatus::Complete, Reason::Verified),
        numbered(8, TaskStatus::Running, Reason::Running),
    ];
    let state = state(rows);
    let occasions: Vec<Occasion> = found(
        &config(""),
        Some(&state),
        run(Exit::Done, None),
        &Memory::default(),
    )
    .into_iter()
    .map(|(occasion, _)| occasion)
    .collect();
    assert_eq!(
        occasions,
        [
            Occasion::Failed,
            Occasion::Lost,
            Occasion::Held,
            Occasion::InDoubt
        ]
    );
}

#[test]
fn an_event_name_includes_the_attempt_unless_each_run_makes_a_new_one() {
    let name = |more: &str, submission: &str| {
        let mut row = numbered(1, TaskStatus::Failed, Reason::ExitCode);
        row.submission_id = Some(submission.into());
        row.job_id = Some(JobId::new(submission));
        let state = state(vec![row]);
        let list = found(
            &config(more),
            Some(&state),
            run(Exit::Done, None),
            &Memory::default(),
        );
        assert_eq!(list.len(), 1);
        list[0].1.clone()
    };
    assert_eq!(name("", "x"), name("", "x"));
    assert_ne!(name("", "x"), name("", "y"));
    let again = "resubmit_failed: yes\n";
    assert_eq!(name(again, "x"), name(again, "y"));
}

#[test]
fn each_exit_code_has_its_own_event() {
    let config = config("");
    let names = |call: Invocation, memory: &Memory| found(&config, None, call, memory);
    let calm = Memory::default();
    assert_eq!(names(run(Exit::Done, None), &calm), []);
    let disk = |free: u32| {
        names(
            run(Exit::Error, Some(&format!("{free} bytes are free"))),
            &calm,
        )
    };
    assert_eq!(disk(3), disk(4), "numbers make no new event");
    assert_eq!(disk(3)[0].0, Occasion::Error);
    assert_ne!(disk(3), names(run(Exit::Error, Some("another")), &calm));
    assert_eq!(
        names(run(Exit::Unreadable, None), &calm)[0].0,
        Occasion::Error
    );
    assert_eq!(
        names(run(Exit::Safety, Some("gone")), &calm)[0].0,
        Occasion::SafetyStop
    );
    for (count, expected) in [(2, 0), (3, 1), (9, 1)] {
        let memory = Memory {
            unreachable_in_a_row: count,
            ..Memory::default()
        };
        assert_eq!(names(run(Exit::Unreachable, None), &memory).len(), expected);
    }
    for (count, expected) in [(3, 0), (4, 1)] {
        let memory = Memory {
            locked_in_a_row: count,
            ..Memory::default()
        };
        assert_eq!(names(run(Exit::Locked, None), &memory).len(), expected);
    }
    let mut refused = run(Exit::Refused, None);
    refused.figures = Some(Figures {
        refused: vec![("a: bad account".to_owned(), 7)],
        ..Figures::default()
    });
    assert_eq!(names(refused, &calm)[0].0, Occasion::Refused);
}

/// An event stays reported if it could not be checked. It ends if a check does not find it.
#[test]
fn only_checked_events_end() {
    let config = config("");
    let reported: BTreeSet<String> = [
        "error:run:1",
        "error:monitor:1",
        "failed:1",
        "paused:a:1",
        "refused:1",
        "safety_stop:1",
        "unreachable:slurm",
        "held:1",
        "in_doubt:1",
        "lost:1",
    ]
    .map(str::to_owned)
    .into();
    let memory = Memory::default();
    let left = |state: Option<&State>, call: Invocation| {
        let study = Study {
            config: &config,
            project: "p",
            state,
            control: None,
            memory: &memory,
        };
        ongoing(&study, &call, [], &reported)
    };
    let empty = state(Vec::new());
    let words = |words: &[&str]| -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    };
    assert_eq!(
        left(Some(&empty), run(Exit::Locked, None)),
        reported,
        "it checked nothing"
    );
    let mut monitor = run(Exit::Done, None);
    monitor.command = Command::Monitor;
    assert_eq!(
        left(Some(&empty), monitor),
        words(&["error:run:1", "paused:a:1", "refused:1"])
    );
    assert_eq!(
        left(None, run(Exit::Error, None)),
        words(&[
            "error:monitor:1",
            "failed:1",
            "held:1",
            "in_doubt:1",
            "lost:1",
            "paused:a:1",
            "refused:1",
            "safety_stop:1"
        ])
    );
}
