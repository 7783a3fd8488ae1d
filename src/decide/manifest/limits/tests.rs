//! Limits by example, and what must hold of any study.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::config::{Overrides, load::interpret};
use crate::decide::manifest::{Due, Planned};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::Scope;
use crate::model::procedure::testing::procedure;
use crate::model::state::testing::row;
use crate::model::state::{Reason, TaskKey, TaskRow};

/// `--max-jobs`, and the limits of the configuration.
#[derive(Debug, Clone, Default)]
struct Limits {
    max_jobs: Option<usize>,
    max_submit_per_run: Option<usize>,
    max_in_flight: Option<usize>,
    max_queued_user_jobs: Option<usize>,
    fair: Fairness,
}

fn apply(
    manifest: &mut Manifest,
    limits: &Limits,
    dag: &ProcedureDag,
    rows: &State,
    queued: usize,
) {
    static BASE: LazyLock<Config> = LazyLock::new(|| {
        let (none, cwd) = (Overrides::default(), Path::new("/"));
        interpret(b"{}", None, false, &|_| None, &none, cwd).unwrap()
    });
    let config = Config {
        procedures: dag.clone(),
        max_submit_per_run: limits.max_submit_per_run,
        max_in_flight: limits.max_in_flight,
        max_queued_user_jobs: limits.max_queued_user_jobs,
        fair: limits.fair,
        ..BASE.clone()
    };
    super::apply(manifest, &config, limits.max_jobs, rows, queued);
}

/// What a task is: due (with or without a failed row), or on record otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Due,
    /// Failed, and due again by `retry` rules or `--force`.
    DueAgain,
    InFlight,
    Complete,
    Failed,
}

fn dag(rules: &[(usize, Option<usize>)]) -> ProcedureDag {
    let declared = rules.iter().enumerate().map(|(at, (warmup, max))| {
        let mut one = procedure(&format!("p{at}"), Scope::Session, &[]);
        one.rules.warmup = *warmup;
        one.rules.max_in_flight = *max;
        one
    });
    ProcedureDag::new(declared.collect()).unwrap()
}

/// A study: per procedure and subject the tasks of its sessions.
fn study(dag: &ProcedureDag, tasks: &[Vec<Vec<Task>>]) -> (Manifest, State) {
    let mut manifest = Manifest::default();
    let mut rows: Vec<TaskRow> = Vec::new();
    for ((id, declared), subjects) in dag.iter().zip(tasks) {
        for (subject, sessions) in subjects.iter().enumerate() {
            for (session, task) in sessions.iter().enumerate() {
                let subject = SubjectLabel::new(&format!("sub-{subject:02}")).unwrap();
                let session = SessionLabel::new(&format!("ses-{session:02}")).unwrap();
                let status = match task {
                    Task::Due => None,
                    Task::DueAgain | Task::Failed => Some((TaskStatus::Failed, Reason::Timeout)),
                    Task::InFlight => Some((TaskStatus::Pending, Reason::Queued)),
                    Task::Complete => Some((TaskStatus::Complete, Reason::Verified)),
                };
                if let Some((status, reason)) = status {
                    let mut one = row(&declared.name, status, reason);
                    one.key = TaskKey::new(subject.as_str(), session.as_str(), &declared.name);
                    rows.push(one);
                }
                let decision = match task {
                    Task::Due => Decision::Submit(Due::New),
                    Task::DueAgain => Decision::Submit(Due::Forced { complete: false }),
                    _ => Decision::Skip(Skip::Complete),
                };
                let labels = (subject, session);
                manifest.tasks.push(Planned::new(dag, id, labels, decision));
            }
        }
    }
    (manifest, State::from_rows(rows, None, Default::default()))
}

/// Counts the tasks of each procedure that are left to submit.
fn submitted(manifest: &Manifest) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for task in manifest.due() {
        *counts.entry(task.procedure.index()).or_default() += 1;
    }
    counts
}

fn limits_of(manifest: &Manifest) -> Vec<Limit> {
    let mut found: Vec<Limit> = manifest
        .tasks
        .iter()
        .filter_map(|task| match &task.decision {
            Decision::Skip(Skip::OverLimit(limit)) => Some(limit.clone()),
            _ => None,
        })
        .collect();
    found.dedup();
    found
}

#[test]
fn each_limit_holds_back_the_remaining_tasks() {
    let ten = || vec![vec![Task::Due; 10]];
    let mut busy = ten();
    busy.push(vec![Task::InFlight; 3]);
    let some = Some;
    let table: Vec<(Limits, Option<usize>, usize, usize, Limit)> = vec![
        (
            Limits {
                max_jobs: some(4),
                ..Limits::default()
            },
            None,
            0,
            4,
            Limit::MaxJobs(4),
        ),
        (
            Limits {
                max_submit_per_run: some(4),
                ..Limits::default()
            },
            None,
            0,
            4,
            Limit::MaxSubmitPerRun(4),
        ),
        (
            Limits {
                max_in_flight: some(4),
                ..Limits::default()
            },
            None,
            0,
            1,
            Limit::MaxInFlight(4),
        ),
        (
            Limits::default(),
            some(5),
            0,
            2,
            Limit::ProcedureMaxInFlight(5),
        ),
        (
            Limits {
                max_queued_user_jobs: some(9),
                ..Limits::default()
            },
            None,
            7,
            2,
            Limit::QueuedUserJobs(9),
        ),
        (
            Limits {
                max_queued_user_jobs: some(9),
                ..Limits::default()
            },
            None,
            50,
            0,
            Limit::QueuedUserJobs(9),
        ),
    ];
    for (limits, own, queued, expected, limit) in table {
        let dag = dag(&[(0, own)]);
        let (mut manifest, rows) = study(&dag, std::slice::from_ref(&busy));
        apply(&mut manifest, &limits, &dag, &rows, queued);
        assert_eq!(manifest.due().count(), expected, "{limit:?}");
        assert_eq!(limits_of(&manifest), [limit]);
    }
}

#[test]
fn a_warm_up_submits_the_first_jobs_and_waits_for_them() {
    use Task::*;
    let dag = dag(&[(3, None)]);
    let table: &[(&[Task], usize, usize)] = &[
        // What is on record beside five due tasks; how many go; how many failed.
        (&[], 3, 0),
        (&[InFlight, InFlight], 1, 0),
        (&[InFlight; 3], 0, 0),
        (&[Complete, Complete], 1, 0),
        (&[Complete, Complete, Complete], 5, 0),
        (&[Complete, Complete, Complete, Failed], 5, 0),
        (&[Complete, Failed], 1, 1),
        (&[Failed; 7], 0, 7),
        // A failed one that is due again takes its own place.
        (&[Complete, DueAgain], 2, 1),
        (&[DueAgain, DueAgain, DueAgain, DueAgain], 3, 4),
    ];
    for (on_record, expected, failed) in table {
        let mut tasks = vec![Due; 5];
        tasks.extend_from_slice(on_record);
        let (mut manifest, rows) = study(&dag, &[vec![tasks]]);
        apply(&mut manifest, &Limits::default(), &dag, &rows, 0);
        assert_eq!(manifest.due().count(), *expected, "{on_record:?}");
        for limit in limits_of(&manifest) {
            let succeeded = on_record.iter().filter(|task| **task == Complete).count();
            assert_eq!(
                limit,
                Limit::Warmup {
                    needed: 3,
                    succeeded,
                    failed: *failed
                }
            );
        }
    }
}

#[test]
fn subjects_take_turns_and_those_with_jobs_wait() {
    use Task::*;
    let dag = dag(&[(0, None), (0, None)]);
    let first = vec![vec![InFlight, Due, Due, Due], vec![Due; 4], vec![Due; 2]];
    let second = vec![vec![Due; 3], vec![Due; 3], vec![]];
    let (mut manifest, rows) = study(&dag, &[first, second]);
    let limits = Limits {
        max_jobs: Some(6),
        fair: Fairness::Subjects,
        ..Limits::default()
    };
    apply(&mut manifest, &limits, &dag, &rows, 0);
    let chosen: Vec<String> = manifest
        .due()
        .map(|task| format!("{} {}", task.subject, task.session))
        .collect();
    assert_eq!(
        chosen,
        [
            "sub-00 ses-01",
            "sub-00 ses-02",
            "sub-01 ses-00",
            "sub-01 ses-01",
            "sub-02 ses-00",
            "sub-02 ses-01",
        ],
        "in the manifest's order, all of the first procedure"
    );
}

#[test]
fn a_hundred_thousand_tasks_take_turns_in_one_sort() {
    let dag = dag(&[(3, Some(60_000))]);
    let subjects = vec![vec![Task::Due; 50]; 99];
    let mut tasks = subjects.clone();
    for _ in 0..20 {
        tasks.extend(subjects.clone());
    }
    tasks.push(vec![Task::Complete; 3]);
    // Labels of two digits repeat beyond a hundred: that only makes subjects longer.
    let (mut manifest, rows) = study(&dag, &[tasks]);
    let limits = Limits {
        fair: Fairness::Subjects,
        ..Limits::default()
    };
    apply(&mut manifest, &limits, &dag, &rows, 0);
    assert_eq!(manifest.due().count(), 60_000);
}

fn task() -> impl Strategy<Value = Task> {
    prop_oneof![
        4 => Just(Task::Due),
        1 => Just(Task::DueAgain),
        1 => Just(Task::InFlight),
        1 => Just(Task::Complete),
        1 => Just(Task::Failed),
    ]
}

prop_compose! {
    fn any_study()(
        tasks in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(task(), 0..8), 1..6), 2..4),
        rules in proptest::collection::vec(
            (prop_oneof![Just(0usize), 1usize..6], proptest::option::of(0usize..12)), 3),
        numbers in proptest::collection::vec(proptest::option::of(0usize..25), 4),
        queued in 0usize..30,
        fair in any::<bool>(),
    ) -> (Vec<(usize, Option<usize>)>, Vec<Vec<Vec<Task>>>, Limits, usize) {
        let limits = Limits {
            max_jobs: numbers[0],
            max_submit_per_run: numbers[1],
            max_in_flight: numbers[2],
            max_queued_user_jobs: numbers[3],
            fair: if fair { Fairness::Subjects } else { Fairness::Order },
        };
        (rules[..tasks.len()].to_vec(), tasks, limits, queued)
    }
}

proptest! {
    #[test]
    fn limits_are_never_exceeded_and_always_used(
        (rules, tasks, limits, queued) in any_study()
    ) {
        let dag = dag(&rules);
        let (before, rows) = study(&dag, &tasks);
        let mut manifest = before.clone();
        apply(&mut manifest, &limits, &dag, &rows, queued);
        let count = |subjects: &[Vec<Task>], kind: Task| {
            subjects.iter().flatten().filter(|task| **task == kind).count()
        };
        let in_flight: usize = tasks.iter().map(|one| count(one, Task::InFlight)).sum();
        let total = manifest.due().count();
        let at_most = |limit: Option<usize>, before: usize| {
            limit.is_none_or(|limit| total == 0 || before + total <= limit)
        };
        prop_assert!(at_most(limits.max_jobs, 0));
        prop_assert!(at_most(limits.max_submit_per_run, 0));
        prop_assert!(at_most(limits.max_in_flight, in_flight));
        prop_assert!(at_most(limits.max_queued_user_jobs, queued));
        let by_procedure = submitted(&manifest);
        for (at, ((warmup, max), subjects)) in rules.iter().zip(&tasks).enumerate() {
            let own = by_procedure.get(&at).copied().unwrap_or(0);
            let flying = count(subjects, Task::InFlight);
            let complete = count(subjects, Task::Complete);
            prop_assert!(max.is_none_or(|max| own == 0 || flying + own <= max));
            // Of a warm-up: at most this many succeeded, are in flight, or failed and were not resubmitted.
            if complete < *warmup {
                let again = manifest.due().filter(|task| {
                    task.procedure.index() == at
                        && task.decision == Decision::Submit(Due::Forced { complete: false })
                }).count();
                let failed = count(subjects, Task::Failed) + count(subjects, Task::DueAgain);
                prop_assert!(own == 0 || complete + flying + own <= *warmup);
                prop_assert!(
                    own == again || complete + flying + own + failed - again <= *warmup
                );
            }
        }
        // What is held back runs into a limit that is full; nothing else changes, nor any order.
        let held: Vec<Limit> = limits_of(&manifest);
        if held.is_empty() {
            prop_assert_eq!(&manifest.tasks, &before.tasks);
        }
        for limit in held {
            let is_full = match limit {
                Limit::MaxJobs(n) | Limit::MaxSubmitPerRun(n) => total >= n,
                Limit::MaxInFlight(n) => in_flight + total >= n,
                Limit::QueuedUserJobs(n) => queued + total >= n,
                Limit::ProcedureMaxInFlight(n) => in_flight + total >= n,
                Limit::Warmup { needed, succeeded, .. } => succeeded < needed,
            };
            prop_assert!(is_full, "{:?}", limit);
        }
        for (old, new) in before.tasks.iter().zip(&manifest.tasks) {
            prop_assert_eq!((&old.subject, &old.session), (&new.subject, &new.session));
        }
    }

    #[test]
    fn subjects_get_equal_shares(
        tasks in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![3 => Just(Task::Due), 1 => Just(Task::InFlight)], 0..9), 1..8),
        max in 0usize..40,
    ) {
        let dag = dag(&[(0, None)]);
        let (mut manifest, rows) = study(&dag, std::slice::from_ref(&tasks));
        let limits = Limits {
            max_submit_per_run: Some(max),
            fair: Fairness::Subjects,
            ..Limits::default()
        };
        apply(&mut manifest, &limits, &dag, &rows, 0);
        // Per subject: in flight afterwards, chosen, left over.
        let mut subjects: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
        for (at, sessions) in tasks.iter().enumerate() {
            let flying = sessions.iter().filter(|task| **task == Task::InFlight).count();
            subjects.insert(format!("sub-{at:02}"), (flying, 0, 0));
        }
        for task in &manifest.tasks {
            let counts = subjects.get_mut(task.subject.as_str()).unwrap();
            match task.decision {
                Decision::Submit(_) => { counts.0 += 1; counts.1 += 1; }
                Decision::Skip(Skip::OverLimit(_)) => counts.2 += 1,
                Decision::Skip(_) => {}
            }
        }
        for rich in subjects.values().filter(|counts| counts.1 > 0) {
            for poor in subjects.values().filter(|counts| counts.2 > 0) {
                prop_assert!(rich.0 <= poor.0 + 1, "{subjects:?}");
            }
        }
        let chosen: usize = subjects.values().map(|counts| counts.1).sum();
        let due = tasks.iter().flatten().filter(|task| **task == Task::Due).count();
        prop_assert_eq!(chosen, due.min(max));
    }
}
