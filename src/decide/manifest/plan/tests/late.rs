//! Complete tasks whose input is newer than their attempt.

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::model::procedure::marker::{CompletionRule, Marker, Pattern, Required};
use crate::model::state::CLOCK_SLACK;

/// A procedure that writes below `bids_root`.
fn in_place(name: &str, deps: &[(&str, SessionsRule)]) -> crate::model::procedure::Procedure {
    let mut declared = procedure(name, Scope::Session, deps);
    declared.output_dir = "".into();
    declared
}

/// `convert` from DICOM and `fix` in place, `prep` of what they make, and `old`, which has no dependency but reads
/// what its `when` looks into.
fn pipeline(is_rerun: bool) -> ProcedureDag {
    let mut old = procedure("old", Scope::Session, &[]);
    let pattern = || Pattern::parse("anat/*.nii.gz").unwrap();
    old.completion = CompletionRule {
        required: Required::Markers(vec![Marker {
            when: vec![pattern()],
            ..Marker::new(pattern())
        }]),
        ..CompletionRule::default()
    };
    let mut all = vec![
        in_place("convert", &[]),
        in_place("fix", &[("convert", SessionsRule::ByScope)]),
        procedure("prep", Scope::Session, &[("fix", SessionsRule::ByScope)]),
        old,
    ];
    for one in &mut all {
        one.rules.rerun_when_stale = is_rerun;
    }
    ProcedureDag::new(all).unwrap()
}

/// A complete attempt, from one minute to another.
fn done(name: &str, (start, end): (i64, i64)) -> TaskRow {
    let mut row = row(name, TaskStatus::Complete, Reason::Verified);
    row.key.session = "ses-01".into();
    row.submitted_at = Some(at(start - 1));
    row.facts.started_at = Some(at(start));
    row.facts.ended_at = Some(at(end));
    row
}

/// The names of late tasks, if the newest files of the input are of these times.
fn late(rows: Vec<TaskRow>, dicom: DateTime<Utc>, bids: DateTime<Utc>) -> Vec<String> {
    let dag = pipeline(false);
    let sessions = [session("sub-01", "ses-01", true)];
    let mut disk = Disk::default();
    for procedure in 0..4 {
        disk.set("sub-01", "ses-01", procedure, Completion::Complete);
    }
    let mut state = State::default();
    rows.into_iter().for_each(|row| state.put(row));
    let policy = Policy {
        reports_late_input: true,
        ..Policy::default()
    };
    let newest = |_: &Session, input: Input, since: DateTime<Utc>| match input {
        Input::Dicom => dicom > since,
        Input::Bids => bids > since,
    };
    let got = decide_with(&dag, &sessions, &state, &[], &disk, &policy, &newest);
    let is_late = |(_, decision): &(String, Decision)| match decision {
        Decision::Skip(Skip::LateInput) => true,
        Decision::Skip(Skip::Complete) => false,
        other => panic!("{other:?}"),
    };
    let late = got.into_iter().filter(is_late);
    late.map(|(name, _)| name.split('/').next().unwrap().to_owned())
        .collect()
}

fn rows() -> Vec<TaskRow> {
    vec![
        done("convert", (10, 20)),
        done("fix", (21, 30)),
        done("prep", (31, 90)),
        done("old", (31, 90)),
    ]
}

#[test]
fn late_input_is_found_in_the_input_of_each_task() {
    let none: [&str; 0] = [];
    assert_eq!(late(rows(), at(10), at(31)), none);
    assert_eq!(late(rows(), at(11), at(31)), ["convert"]);
    let long = at(200);
    assert_eq!(
        late(rows(), at(0), long),
        ["old", "prep"],
        "not by what it writes itself"
    );
    assert_eq!(late(Vec::new(), long, long), none, "found on disk");
    let mut unknown = done("prep", (31, 90));
    unknown.facts.started_at = None;
    assert_eq!(
        late(vec![unknown.clone()], at(0), at(31)),
        ["prep"],
        "since its submission"
    );
    unknown.submitted_at = None;
    assert_eq!(
        late(vec![unknown], long, long),
        none,
        "an attempt at an unknown time"
    );
}

#[test]
fn a_fast_clock_of_the_file_server_does_not_make_input_late() {
    let written = at(30) + CLOCK_SLACK;
    let none: [&str; 0] = [];
    assert_eq!(
        late(
            vec![done("fix", (21, 30)), done("prep", (31, 90))],
            at(0),
            written
        ),
        none
    );
    let after = written + TimeDelta::seconds(1);
    assert_eq!(late(rows(), at(0), after), ["old", "prep"]);
}

#[test]
fn a_task_in_place_is_late_after_a_rerun_of_its_dependency() {
    let mut rows = rows();
    rows.push(done("convert", (100, 110)));
    assert_eq!(late(rows.clone(), at(0), at(109)), ["fix", "old", "prep"]);
    // They run again, in order, and then rest.
    rows.push(done("fix", (111, 120)));
    assert_eq!(late(rows.clone(), at(0), at(120)), ["old", "prep"]);
    rows.push(done("prep", (121, 180)));
    rows.push(done("old", (121, 180)));
    assert_eq!(late(rows, at(0), at(120)), Vec::<String>::new());
}

#[test]
fn late_input_is_rerun_only_with_rerun_when_stale() {
    let sessions = [session("sub-01", "ses-01", true)];
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let mut state = State::default();
    state.put(done("convert", (10, 20)));
    let decide = |is_rerun| {
        let (dag, policy) = (pipeline(is_rerun), Policy::default());
        let late: Late<'_> = &|_, _, _| true;
        decide_with(&dag, &sessions, &state, &[], &disk, &policy, late)["convert/sub-01/ses-01"]
            .clone()
    };
    assert_eq!(decide(true), Decision::Submit(Due::LateInput));
    // Nothing is read for a run that would do nothing about it.
    assert_eq!(decide(false), Decision::Skip(Skip::Complete));
}
