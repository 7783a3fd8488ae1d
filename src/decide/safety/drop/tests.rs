//! Drops as tables: the stops, and the baselines afterwards.

mod days;

use std::path::Path;

use super::*;
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::decide::manifest::Planned;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;
use crate::model::state::testing::{at, row};
use crate::model::state::{Reason, TaskStatus};

fn config(rest: &str) -> Config {
    let text = format!(
        "procedures:\n  - {{name: a, output_dir: a, script: a.sh, completion_marker: x}}\n  \
         - {{name: b, output_dir: b, script: b.sh}}\n{rest}\n"
    );
    let file = Some(Path::new("/site/c.yaml"));
    let config = interpret(
        text.as_bytes(),
        file,
        false,
        &|_| None,
        &Overrides::default(),
        Path::new("/"),
    );
    config.unwrap()
}

fn figures(tasks: u64, complete: u64, incomplete: u64, gone: u64) -> Figures {
    Figures {
        tasks,
        complete,
        incomplete,
        gone,
        ..Figures::default()
    }
}

fn counts(sessions: u64, a: Figures, b: Figures) -> Counts {
    Counts {
        sessions: Some(sessions),
        procedures: vec![a, b],
    }
}

fn messages(config: &Config, counts: &Counts, baselines: &Baselines) -> Vec<String> {
    let stops = safety_stops(config, counts, baselines);
    assert!(
        stops
            .iter()
            .all(|stop| stop.can_be_accepted && stop.hint.contains("--accept-drop"))
    );
    stops.into_iter().map(|stop| stop.message).collect()
}

/// The baselines after runs that went on.
fn after(config: &Config, runs: &[Counts]) -> Baselines {
    let mut baselines = Baselines::new();
    for counts in runs {
        settle(config, counts, &mut baselines, false);
    }
    baselines
}

#[test]
fn five_lost_sessions_above_the_limit_cause_a_stop() {
    let none = Figures::default();
    for (limit, before, now, is_alarm) in [
        ("", 0, 0, false),
        ("", 100, 90, false),
        ("", 100, 89, true),
        ("", 100, 0, true),
        ("", 100, 200, false),
        ("", 20, 16, false),
        ("", 20, 15, true),
        ("", 4, 0, false),
        ("", 5, 0, true),
        ("safety: {max_drop: 50%}", 100, 50, false),
        ("safety: {max_drop: 50%}", 100, 49, true),
        ("safety: {max_drop: 0%}", 100, 95, true),
        ("safety: {max_drop: 0%}", 100, 96, false),
        ("safety: {max_drop: 100%}", 100, 0, false),
        ("safety: {max_drop: 12.5}", 1000, 875, false),
        ("safety: {max_drop: 12.5}", 1000, 874, true),
    ] {
        let config = config(limit);
        let baselines = after(&config, &[counts(before, none.clone(), none.clone())]);
        let now_counts = counts(now, none.clone(), none.clone());
        let got = messages(&config, &now_counts, &baselines);
        assert_eq!(
            !got.is_empty(),
            is_alarm,
            "{limit} {before} -> {now}: {got:?}"
        );
        let unread = Counts {
            sessions: None,
            ..now_counts
        };
        assert!(messages(&config, &unread, &baselines).is_empty(), "unknown");
    }
}

#[test]
fn only_tasks_found_incomplete_are_lost() {
    let config = config("");
    let full = || figures(100, 100, 0, 0);
    // What was, what is now, how many of `a` are lost.
    for (before, now, lost) in [
        (full(), full(), None),
        (full(), figures(100, 90, 10, 0), None),
        (full(), figures(100, 89, 11, 0), Some(11)),
        (full(), figures(100, 89, 11, 11), Some(11)),
        // All are waiting, so no outputs were checked.
        (full(), figures(100, 0, 0, 0), None),
        // New sessions arrive, and are due.
        (full(), figures(200, 100, 100, 0), None),
        // New sessions were completed while others were lost: rows show it.
        (full(), figures(150, 100, 50, 20), Some(20)),
        // Without rows, only the sum shows it.
        (full(), figures(150, 100, 50, 0), None),
        (full(), figures(110, 60, 50, 0), Some(40)),
        // Lost sessions are not lost outputs.
        (full(), figures(50, 50, 0, 0), None),
        // Nothing was known.
        (figures(100, 0, 100, 0), figures(100, 0, 100, 0), None),
        (Figures::default(), figures(100, 0, 100, 0), None),
    ] {
        let baselines = after(&config, &[counts(100, before.clone(), full())]);
        let got = messages(&config, &counts(100, now.clone(), full()), &baselines);
        let expected = lost.map(|n| {
            format!(
                "{n} of 100 complete tasks of a have lost their outputs (more than max_drop, 10%)"
            )
        });
        assert_eq!(got, Vec::from_iter(expected), "{before:?} -> {now:?}");
    }
    // Rows of the Python program, without a baseline yet.
    let known = Figures {
        known: 40,
        ..figures(40, 20, 20, 20)
    };
    let got = messages(&config, &counts(40, known, full()), &Baselines::new());
    assert_eq!(
        got,
        ["20 of 40 complete tasks of a have lost their outputs (more than max_drop, 10%)"]
    );
}

#[test]
fn small_losses_of_many_procedures_add_up() {
    let config = config("");
    let was = || figures(10, 10, 0, 0);
    let baselines = after(&config, &[counts(10, was(), was())]);
    let now = || figures(10, 7, 3, 3);
    assert_eq!(
        messages(&config, &counts(10, now(), now()), &baselines),
        ["6 of 20 complete tasks have lost their outputs (more than max_drop, 10%)"]
    );
}

#[test]
fn tasks_that_the_program_reruns_are_not_losses() {
    let config = config("");
    let full = || figures(100, 100, 0, 0);
    // 60 are forced, run, fail, and are cleared by `retry`.
    let forced = Figures {
        ours: 60,
        ..figures(100, 40, 0, 0)
    };
    let baselines = after(
        &config,
        &[counts(100, full(), full()), counts(100, forced, full())],
    );
    assert_eq!(baselines["complete/a"], 40);
    assert!(
        messages(
            &config,
            &counts(100, figures(100, 40, 60, 0), full()),
            &baselines
        )
        .is_empty()
    );
    // And they rise again.
    let baselines = after(
        &config,
        &[
            counts(100, figures(100, 40, 0, 0), full()),
            counts(120, full(), full()),
        ],
    );
    assert_eq!((baselines["complete/a"], baselines["sessions"]), (100, 120));
}

#[test]
fn an_accepted_loss_stays_accepted_until_its_tasks_run() {
    let config = config("");
    let full = || figures(100, 100, 0, 0);
    let mut baselines = after(&config, &[counts(100, full(), full())]);
    let lost = |n| Figures {
        known: 100,
        ..figures(70, 70 - n, n, n)
    };
    assert_eq!(
        safety_stops(&config, &counts(70, lost(50), full()), &baselines).len(),
        2
    );
    settle(&config, &counts(70, lost(50), full()), &mut baselines, true);
    assert_eq!(
        (
            baselines["sessions"],
            baselines["complete/a"],
            baselines["accepted/a"]
        ),
        (70, 20, 50)
    );
    // Limits let 20 go: 30 are left, and no alarm.
    for left in [50, 30, 0] {
        let now = Figures {
            ours: 50 - left,
            ..lost(left)
        };
        assert!(messages(&config, &counts(70, now.clone(), full()), &baselines).is_empty());
        settle(&config, &counts(70, now, full()), &mut baselines, false);
    }
    assert!(!baselines.contains_key("accepted/a"));
    // Another loss is one.
    assert_eq!(
        messages(&config, &counts(70, lost(50), full()), &baselines).len(),
        1
    );
}

#[test]
fn a_changed_root_is_mentioned() {
    let full = || figures(100, 100, 0, 0);
    let before = config("");
    let baselines = after(&before, &[counts(100, full(), full())]);
    let other_root = config("derivatives_root: /elsewhere");
    let lost = || counts(100, figures(100, 0, 100, 100), full());
    assert_eq!(
        messages(&other_root, &lost(), &baselines),
        ["100 of 100 complete tasks of a have lost their outputs \
          (more than max_drop, 10%; a root in the configuration has changed since then)"]
    );
    // A procedure that left is forgotten.
    let text = "procedures:\n  - {name: a, output_dir: a, script: a.sh, completion_marker: x}\n";
    let without = interpret(
        text.as_bytes(),
        None,
        false,
        &|_| None,
        &Overrides::default(),
        Path::new("/"),
    )
    .unwrap();
    let mut left = baselines.clone();
    let counts = Counts {
        sessions: Some(100),
        procedures: vec![full()],
    };
    assert!(messages(&without, &counts, &left).is_empty());
    settle(&without, &counts, &mut left, false);
    assert!(
        left.contains_key("complete/a")
            && !left.contains_key("complete/b")
            && !left.contains_key("rule/b")
    );
}

#[test]
fn a_changed_marker_stops_even_for_one_complete_task() {
    let full = || figures(100, 100, 0, 0);
    let before = config("");
    let other_marker = |marker: &str| {
        let text = format!(
            "procedures:\n  - {{name: a, output_dir: a, script: a.sh, completion_marker: {marker}}}\n  \
             - {{name: b, output_dir: b, script: b.sh}}\n"
        );
        let none = &Overrides::default();
        interpret(
            text.as_bytes(),
            None,
            false,
            &|_| None,
            none,
            Path::new("/"),
        )
        .unwrap()
    };
    let mut baselines = after(&before, &[counts(100, full(), full())]);
    for (incomplete, gone) in [(1, 1), (1, 0), (100, 100)] {
        let now = counts(
            100,
            figures(100, 100 - incomplete, incomplete, gone),
            full(),
        );
        assert!(
            incomplete > 1 || messages(&other_marker("x"), &now, &baselines).is_empty(),
            "below the limit"
        );
        let expected = format!(
            "the completion rule of a was changed in the configuration, and {incomplete} of 100 complete tasks do \
             not satisfy the new rule"
        );
        assert_eq!(messages(&other_marker("y"), &now, &baselines), [expected]);
    }
    assert!(messages(&other_marker("y"), &counts(100, full(), full()), &baselines).is_empty());
    // Accepted once, it is the rule that counts.
    let now = counts(100, figures(100, 98, 2, 2), full());
    settle(&other_marker("y"), &now, &mut baselines, true);
    assert!(messages(&other_marker("y"), &now, &baselines).is_empty());
}

#[test]
fn losing_all_of_two_or_more_results_causes_a_stop() {
    let (lenient, config) = (config("safety: {max_drop: 100%}"), config(""));
    for (tasks, gone, is_alarm) in [
        (1, 1, false),
        (2, 1, false),
        (2, 2, true),
        (4, 4, true),
        (4, 3, false),
    ] {
        for has_rows in [true, false] {
            let was = figures(tasks, tasks, 0, 0);
            let baselines = after(&config, &[counts(9, was, Figures::default())]);
            let known = if has_rows { gone } else { 0 };
            let now = counts(
                9,
                figures(tasks, tasks - gone, gone, known),
                Figures::default(),
            );
            let got = messages(&config, &now, &baselines);
            assert_eq!(!got.is_empty(), is_alarm, "{gone} of {tasks}: {got:?}");
            assert!(messages(&lenient, &now, &baselines).is_empty());
        }
    }
}

fn planned(dag: &ProcedureDag, id: ProcedureId, subject: &str, decision: Decision) -> Planned {
    let session = SessionLabel::new("ses-01").unwrap();
    Planned::new(
        dag,
        id,
        (SubjectLabel::new(subject).unwrap(), session),
        decision,
    )
}

#[test]
fn tasks_are_counted_by_their_decisions() {
    let config = config("");
    let dag = &config.procedures;
    let id = dag.find("a").unwrap();
    let task = |decision| planned(dag, id, "sub-1", decision);
    let failed = Skip::Failed {
        reason: Some(Reason::Timeout),
        attempt: 1,
        outlook: crate::decide::manifest::Outlook::None,
    };
    let manifest = Manifest {
        tasks: [
            Decision::Skip(Skip::Complete),
            Decision::Skip(Skip::Stale(Vec::new())),
            Decision::Submit(Due::Stale),
            Decision::Submit(Due::Forced { complete: true }),
            Decision::Submit(Due::New),
            Decision::Submit(Due::OutputsGone),
            Decision::Submit(Due::FailedBefore { complete: false }),
            Decision::Skip(failed),
            Decision::Skip(Skip::NoDicom),
            Decision::Skip(Skip::Excluded),
            Decision::Skip(Skip::NotSelected),
        ]
        .map(task)
        .into(),
    };
    let mut state = State::default();
    state.put(row("a", TaskStatus::Complete, Reason::Verified));
    let got = Counts::of(dag, &manifest, &state, &[], at(0));
    let expected = Figures {
        ours: 4,
        known: 1,
        ..figures(11, 2, 2, 1)
    };
    assert_eq!(got.procedures, [expected, Figures::default()]);
}
