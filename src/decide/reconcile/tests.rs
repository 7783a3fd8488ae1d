//! The verdict as a table of all combinations of answers from queue, accounting and disk.

mod arrays;
mod doubt;
mod verdict;

use crate::executor::{Answer, JobReport, Phase};
use proptest::prelude::*;

use super::*;
use crate::model::job::{JobId, JobTag};
use crate::model::state::testing::{at, row};
use crate::model::state::transition;
use crate::model::state::transition::Outcome;
use doubt::tagged;

mod absence;
mod ends;
mod identity;
mod places;
mod proof;
mod question;
mod tags;

struct Disk(Outputs);

impl OutputSource for Disk {
    fn outputs(&self, _: &TaskKey, _: bool) -> Outputs {
        self.0
    }

    fn output_grace(&self, _: &TaskKey) -> Duration {
        Duration::minutes(10)
    }
}

/// A disk that must not be read.
struct Untouchable;

impl OutputSource for Untouchable {
    fn outputs(&self, key: &TaskKey, _: bool) -> Outputs {
        panic!("the markers of {key} were read while its job may be writing")
    }

    fn output_grace(&self, _: &TaskKey) -> Duration {
        Duration::minutes(10)
    }
}

const HERE: Outputs = Outputs::Complete { newest: None };

fn patience() -> Patience {
    Patience {
        lost_grace: Duration::hours(1),
        absence_grace: Duration::minutes(5),
        settle_time: Duration::minutes(2),
    }
}

fn report(phase: Phase) -> JobReport {
    let ended = !phase.is_live();
    JobReport {
        id: JobId::new("100"),
        name: "a_sub-01_ses-01".into(),
        phase,
        pending_reason: None,
        submitted_at: Some(at(0)),
        facts: JobFacts {
            slurm_state: Some("WORD".into()),
            started_at: Some(at(1)),
            ended_at: ended.then(|| at(5)),
            ..JobFacts::default()
        },
        tag: None,
        has_submit_line: false,
    }
}

/// What each source says, as seen by one row in flight.
struct Case {
    queue: Answer<Vec<JobReport>>,
    accounting: Answer<Vec<JobReport>>,
    disk: Outputs,
    row: TaskRow,
    /// Accounting shows some other job: it answers.
    canary: bool,
    /// Minutes after submission.
    now: i64,
}

impl Case {
    fn new() -> Self {
        Self {
            queue: Answer::Got(vec![]),
            accounting: Answer::Got(vec![]),
            disk: Outputs::Missing,
            row: row("a", TaskStatus::Running, Reason::Running),
            canary: true,
            now: 6,
        }
    }

    fn queue(mut self, phase: Phase) -> Self {
        self.queue = Answer::Got(vec![report(phase)]);
        self
    }

    fn accounting(mut self, phase: Phase) -> Self {
        self.accounting = Answer::Got(vec![report(phase)]);
        self
    }

    fn disk(mut self, outputs: Outputs) -> Self {
        self.disk = outputs;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The answers of queue and accounting about the row's own job.
    fn evidence_of_row(self) -> (Option<Phase>, Option<Phase>) {
        let observation = Observation {
            queue: self.queue,
            accounting: self.accounting,
            ..Observation::default()
        };
        let evidence = Evidence::new(&observation);
        let queued = evidence.queued(&self.row).unwrap();
        let recorded = match evidence.recorded(&self.row, &queued) {
            Recorded::Ended(record) | Recorded::Open(Some(record)) => Some(record.phase),
            _ => None,
        };
        let queued = match queued {
            Queued::Live(job) | Queued::Ended(job) => Some(job.phase),
            Queued::Absent => None,
        };
        (queued, recorded)
    }

    /// Runs one pass and says what the row is then: `running unaccounted`.
    fn verdict(self) -> String {
        let (state, _) = self.pass();
        let row = &state.rows()[0];
        format!("{} {}", row.status, row.reason.unwrap())
    }

    fn pass(self) -> (State, Reconciled) {
        let mut state = State::default();
        state.put(self.row);
        let mut accounting = self.accounting;
        if let (true, Answer::Got(records)) = (self.canary, &mut accounting) {
            let mut canary = report(Phase::Completed);
            canary.id = JobId::new("1");
            canary.name = "another".to_owned();
            records.push(canary);
        }
        let observation = Observation {
            queue: self.queue,
            accounting,
            ..Observation::default()
        };
        let row = &state.rows()[0];
        let live = match Evidence::new(&observation).queued(row) {
            None | Some(Queued::Live(_)) => !row.is_in_doubt(),
            Some(_) => false,
        };
        let disk: &dyn OutputSource = if live { &Untouchable } else { &Disk(self.disk) };
        let out = reconcile(&state, &observation, disk, &patience(), at(self.now));
        for change in &out.changes {
            let outcome = transition::apply(&mut state, change.clone(), at(self.now));
            assert_ne!(
                outcome,
                Outcome::Void,
                "a verdict that is not allowed: {change:?}"
            );
        }
        (state, out)
    }
}

fn failed() -> Answer<Vec<JobReport>> {
    Answer::Failed("slurmctld: connection refused".into())
}

/// A node fails, the job comes back, runs and ends, and accounting knows of the first run only.
#[test]
fn the_end_of_an_earlier_run_is_not_the_jobs_end() {
    let first_run = |case: Case| case.accounting(Phase::Failed(Reason::NodeFail));
    let again = |phase| JobReport {
        submitted_at: Some(at(6)),
        ..report(phase)
    };
    let queued = first_run(Case::new()).with(|case| {
        case.queue = Answer::Got(vec![again(Phase::Failed(Reason::Timeout))]);
        case.now = 60;
    });
    assert_eq!(queued.verdict(), "failed timeout");
    // The queue has forgotten it, but has shown its start.
    let gone = first_run(Case::new()).with(|case| {
        case.row.facts.started_at = Some(at(8));
        case.now = 60;
    });
    assert_eq!(gone.verdict(), "running unaccounted");
    // The queue has forgotten it, but has shown it pending after the first run began.
    let waited = first_run(Case::new()).with(|case| {
        (case.row.status, case.row.reason) = (TaskStatus::Pending, Some(Reason::Queued));
        case.row.facts.started_at = Some(at(1));
        case.now = 60;
    });
    assert_eq!(waited.verdict(), "pending unaccounted");
    assert_eq!(first_run(Case::new()).verdict(), "failed node_fail");
}

#[test]
fn a_live_job_decides_without_reading_the_disk() {
    for (phase, expected) in [
        (Phase::Queued, "pending queued"),
        (Phase::Held, "pending held"),
        (Phase::Running, "running running"),
        (Phase::Suspended, "running suspended"),
        (Phase::Unknown, "running running"),
    ] {
        for accounting in [
            Answer::Got(vec![]),
            Answer::Got(vec![report(Phase::Failed(Reason::NodeFail))]),
            Answer::Got(vec![report(Phase::Completed)]),
            failed(),
            Answer::Off,
        ] {
            let verdict = Case::new()
                .queue(phase)
                .with(|case| case.accounting = accounting.clone())
                .verdict();
            assert_eq!(verdict, expected, "{phase:?} {accounting:?}");
        }
    }
}

#[test]
fn a_failed_query_changes_nothing() {
    for accounting in [
        Answer::Got(vec![]),
        Answer::Got(vec![report(Phase::Completed)]),
        Answer::Got(vec![report(Phase::Failed(Reason::Timeout))]),
        failed(),
        Answer::Off,
    ] {
        let (_, out) = Case::new()
            .with(|c| {
                c.queue = failed();
                c.accounting = accounting;
                c.now = 10_000;
            })
            .pass();
        assert_eq!(out, Reconciled::default());
    }
    let (_, out) = Case::new()
        .with(|c| {
            c.accounting = failed();
            c.now = 10_000;
        })
        .pass();
    assert_eq!(
        out,
        Reconciled::default(),
        "missing from the queue alone is not evidence"
    );
}

#[test]
fn a_missing_job_is_lost_only_after_its_grace_with_working_accounting() {
    let unknown = |since: Option<i64>, canary: bool| {
        Case::new().with(|c| {
            c.row.missing_since = since.map(at);
            c.now = 100;
            c.canary = canary;
        })
    };
    assert_eq!(unknown(None, true).verdict(), "running unaccounted");
    assert_eq!(unknown(Some(41), true).verdict(), "running unaccounted");
    assert_eq!(unknown(Some(40), true).verdict(), "failed lost");
    assert_eq!(unknown(Some(0), false).verdict(), "running unaccounted");
    for (since, proven, expected) in [
        (Some(40), true, "complete verified"),
        (Some(41), true, "running unaccounted"),
        (None, true, "running unaccounted"),
        (Some(0), false, "running unaccounted"),
    ] {
        let verdict = unknown(since, proven).disk(HERE).verdict();
        assert_eq!(verdict, expected, "{since:?} {proven}");
    }
    assert_eq!(
        unknown(Some(0), true).disk(Outputs::Unreadable).verdict(),
        "running running"
    );
    // sacct keeps saying RUNNING of a job that a clean squeue does not have
    assert_eq!(
        unknown(None, true).accounting(Phase::Running).verdict(),
        "running unaccounted"
    );
    assert_eq!(
        unknown(Some(0), true).accounting(Phase::Running).verdict(),
        "failed lost"
    );
    // sacct fails: nothing changes, however long the job has been missing
    for outputs in [Outputs::Missing, HERE] {
        let failing = unknown(Some(0), true).with(|c| c.accounting = failed());
        assert_eq!(failing.disk(outputs).verdict(), "running running");
    }
    // no accounting at all: the queue's memory and the markers decide
    let off = |since| unknown(since, false).with(|c| c.accounting = Answer::Off);
    assert_eq!(off(None).verdict(), "running unaccounted");
    assert_eq!(off(Some(0)).verdict(), "failed lost");
    assert_eq!(off(Some(95)).verdict(), "running unaccounted");
}

#[test]
fn a_requeued_job_comes_back_and_a_late_output_completes() {
    let case = |reason| {
        Case::new().with(|c| {
            c.row.status = TaskStatus::Failed;
            c.row.reason = Some(reason);
            c.row.missing_since = Some(at(4));
        })
    };
    assert_eq!(
        case(Reason::NodeFail).queue(Phase::Queued).verdict(),
        "pending queued"
    );
    assert_eq!(
        case(Reason::NodeFail).disk(HERE).verdict(),
        "failed node_fail"
    );
    let (state, _) = case(Reason::NoOutput).disk(HERE).pass();
    assert_eq!(state.rows()[0].status, TaskStatus::Failed);
    assert_eq!(state.rows()[0].missing_since, None);
    let second = case(Reason::NoOutput)
        .with(|c| c.row = state.rows()[0].clone())
        .disk(HERE);
    assert_eq!(second.verdict(), "complete verified");
    let gone_again = case(Reason::Lost).with(|c| c.row.missing_since = None);
    assert_eq!(gone_again.pass().0.rows()[0].missing_since, Some(at(6)));
}

fn phases() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Queued),
        Just(Phase::Held),
        Just(Phase::Running),
        Just(Phase::Suspended),
        Just(Phase::Completed),
        Just(Phase::Failed(Reason::NodeFail)),
        Just(Phase::Failed(Reason::Timeout)),
        Just(Phase::Failed(Reason::Cancelled)),
        Just(Phase::Unknown),
    ]
}

proptest! {
    /// Over any series of answers: no verdict is refused by the transition table, a final status
    /// flips only by a live job in the queue, a late output, or markers that were unknown before, and
    /// silence alone ends nothing before its grace.
    #[test]
    fn statuses_never_flip_back(steps in prop::collection::vec(
        (prop::option::of(prop::option::of(phases())), prop::option::of(prop::option::of(phases())), 0u8..4, 1i64..30), 1..20,
    )) {
        let mut row = row("a", TaskStatus::Pending, Reason::Queued);
        let mut now = 0;
        for (queue, accounting, disk, minutes) in steps {
            now += minutes;
            let answer = |answered: Option<Option<Phase>>| match answered {
                None => failed(),
                Some(phase) => Answer::Got(phase.map(report).into_iter().collect()),
            };
            let before = row.clone();
            let disk = match disk { 0 => HERE, 1 => Outputs::Unreadable, 2 => Outputs::NoRule, _ => Outputs::Missing };
            let (state, _) = Case::new().with(|c| {
                c.queue = answer(queue);
                c.accounting = answer(accounting);
                c.row = row.clone();
                c.now = now;
            }).disk(disk).pass();
            row = state.rows()[0].clone();
            if !before.is_in_flight() && before.status != row.status {
                let alive = matches!(queue, Some(Some(phase)) if phase.is_live());
                let late = before.status == TaskStatus::Failed && row.status == TaskStatus::Complete
                    && matches!(before.reason, Some(Reason::NoOutput | Reason::Lost)) && disk == HERE;
                let corrected = before.facts.ended_at.is_none() && row.facts.ended_at.is_some();
                let unverified = before.reason == Some(Reason::Unverified)
                    && row.reason == Some(Reason::NoOutput) && matches!(disk, Outputs::Missing);
                prop_assert!(alive || late || corrected || unverified, "{:?} -> {:?}", before, row);
            }
            if row.reason == Some(Reason::Lost) && before.reason != Some(Reason::Lost) {
                prop_assert!(at(now) - before.missing_since.unwrap() >= Duration::hours(1));
            }
            if queue.is_none() {
                prop_assert_eq!(&before, &row);
            }
            prop_assert!(row.reason.unwrap().fits(row.status));
        }
    }
}
