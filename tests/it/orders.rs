//! Random orders of what squeue and sacct say, over several looks: rows that are lost, late, doubled, about
//! another job, half there or unknown, and queries that fail. Whatever comes, no verdict without its evidence;
//! and once the answers are honest and whole, each row says what its job did.
//!
//! The answers are texts and go through the real parsers.

mod answers;
mod course;

use std::collections::HashSet;

use chrono::{DateTime, Duration, Utc};
use proptest::prelude::*;
use snbb_scheduler::act::pass::{Looked, Pass};
use snbb_scheduler::config::{Overrides, load};
use snbb_scheduler::executor::{Answer, JobReport, Phase};
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

use crate::harness::rows;
use answers::{Hand, Noise, noise};
use course::{Disk, Job, OUTCOMES, REQUEUES};

/// Tasks of a story, each with a job. Noise has a bit for each.
const TASKS: usize = 4;

const START: i64 = 1_800_000_000;
const LOST_GRACE_S: i64 = 3600;
const OUTPUT_GRACE_S: i64 = 600;

fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::seconds(seconds)
}

fn key(task: usize) -> TaskKey {
    TaskKey::new(&format!("sub-{task:02}"), "ses-01", "a")
}

/// What happens to a job between two looks.
#[derive(Debug, Clone)]
enum Event {
    Start(usize),
    /// It ends for good; the marker may be there.
    End(usize, usize, bool),
    /// It ends and comes back.
    Requeue(usize, usize),
}

#[derive(Debug, Clone)]
struct Step {
    events: Vec<Event>,
    wait: i64,
    noise: Noise,
}

fn step() -> impl Strategy<Value = Step> {
    let task = || 0..TASKS;
    let event = prop_oneof![
        4 => task().prop_map(Event::Start),
        3 => (task(), 0..OUTCOMES.len(), prop::bool::weighted(0.7))
            .prop_map(|(task, outcome, marker)| Event::End(task, outcome, marker)),
        3 => (task(), 0..REQUEUES.len()).prop_map(|(task, word)| Event::Requeue(task, word)),
    ];
    let wait = prop_oneof![3 => 1..90i64, 3 => 90..700i64, 2 => 700..9000i64];
    (prop::collection::vec(event, 0..5), wait, noise()).prop_map(|(events, wait, noise)| Step {
        events,
        wait,
        noise,
    })
}

/// Is a study between its looks.
struct Rig {
    config: Config,
    state: State,
    jobs: Vec<Job>,
    now: i64,
    /// Tasks of which nobody told that the job had come back: an earlier run's end may have been believed.
    excused: HashSet<usize>,
}

impl Rig {
    fn new() -> Self {
        let text = format!(
            "project: p\nscan_threads: 1\nlost_grace: {LOST_GRACE_S}s\noutput_grace: {OUTPUT_GRACE_S}s\n\
             procedures:\n- {{name: a, output_dir: a, script: a.sh}}\n"
        );
        let config = load::interpret(
            text.as_bytes(),
            None,
            false,
            &|_| None,
            &Overrides::default(),
            std::path::Path::new("/nowhere"),
        )
        .unwrap();
        let mut state = State::default();
        for task in 0..TASKS {
            state.put(TaskRow {
                submission_id: Some(format!("s{}", Job::id(task)).as_str().into()),
                ..rows::attempt(
                    key(task),
                    TaskStatus::Pending,
                    Reason::Queued,
                    &Job::id(task),
                    time(START),
                )
            });
        }
        // A job that accounting has known before.
        state.put(TaskRow {
            facts: JobFacts {
                exit_code: Some("0:0".into()),
                ended_at: Some(time(START - 1000)),
                ..JobFacts::default()
            },
            ..rows::attempt(
                TaskKey::new("sub-99", "ses-01", "a"),
                TaskStatus::Complete,
                Reason::Verified,
                answers::CANARY,
                time(START - 2000),
            )
        });
        Self {
            config,
            state,
            jobs: (0..TASKS).map(|_| Job::new(START)).collect(),
            now: START + 5,
            excused: HashSet::new(),
        }
    }

    fn happen(&mut self, event: &Event) {
        let now = self.now;
        match *event {
            Event::Start(task) => self.jobs[task].start(now),
            Event::End(task, outcome, marker) => {
                self.jobs[task].end(now, OUTCOMES[outcome], marker)
            }
            Event::Requeue(task, word) => self.jobs[task].requeue(now, REQUEUES[word]),
        }
    }

    fn look(&mut self, noise: &Noise) {
        let before: Vec<TaskRow> = self.state.rows().to_vec();
        for (task, job) in self.jobs.iter().enumerate() {
            let shown = noise.shows_in_queue(task, job, self.now);
            // Also when accounting is further behind than the queue's memory is long.
            if job.runs.len() > 1 && !shown && (job.is_live() || noise.hides_newest_run(task)) {
                self.excused.insert(task);
            }
        }
        let mut hand = Hand::new(&self.jobs, noise, self.now);
        let disk = Disk(&self.jobs);
        let now = self.now;
        let mut pass = Pass {
            config: &self.config,
            project: "",
            run_id: "",
            executor: &mut hand,
            completions: &disk,
            clock: &|| time(now),
            pause: &|_| {},
        };
        let looked = pass.look(&mut self.state);
        self.judge(&before, &looked);
    }

    fn judge(&self, before: &[TaskRow], looked: &Looked) {
        let rows = self.state.rows();
        // One row per task, and none vanishes.
        assert_eq!(rows.len(), TASKS + 1);
        let keys: HashSet<&TaskKey> = rows.iter().map(|row| &row.key).collect();
        assert_eq!(keys.len(), rows.len());
        assert!(looked.released.is_empty());
        if looked.queue_failed.is_some() {
            assert_eq!(before, rows, "a failed query changed something");
            return;
        }
        for old in before {
            let new = self.state.get(&old.key).unwrap();
            let (was, is) = ((old.status, old.reason), (new.status, new.reason));
            assert!(
                new.reason.is_some_and(|reason| reason.fits(new.status)),
                "{new:?}"
            );
            assert_eq!(
                (&old.job_id, &old.submission_id),
                (&new.job_id, &new.submission_id)
            );
            if was == is {
                continue;
            }
            self.judge_change(old, new, looked);
        }
    }

    fn judge_change(&self, old: &TaskRow, new: &TaskRow, looked: &Looked) {
        let queue = of(&looked.observation.queue, new);
        let accounting = of(&looked.observation.accounting, new);
        let said = |phase: Phase| {
            queue
                .iter()
                .chain(&accounting)
                .any(|report| report.phase == phase)
        };
        if old.is_in_flight() && new.is_in_flight() {
            return;
        }
        if new.is_in_flight() {
            // Only by the same job, seen alive in the queue: in truth it was put back, or never lost.
            assert!(
                queue.iter().any(|report| report.phase.is_live()),
                "{old:?} -> {new:?}"
            );
            assert!(
                self.job(new).runs.len() > 1 || old.reason == Some(Reason::Lost),
                "{old:?} -> {new:?}"
            );
            return;
        }
        if !old.is_in_flight() {
            let corrected = old.facts.ended_at.is_none() && new.facts.ended_at.is_some();
            // It had come back after the end that was believed, and this is the end of its later run.
            let ran_again = new.facts.started_at >= old.facts.ended_at
                && new.facts.ended_at > old.facts.ended_at
                && self.job(new).runs.len() > 1;
            assert!(
                corrected
                    || ran_again
                    || matches!(old.reason, Some(Reason::NoOutput | Reason::Lost))
                        && new.status == TaskStatus::Complete
                        && self.job(new).marker,
                "a verdict changed: {old:?} -> {new:?}"
            );
            return;
        }
        assert!(
            !queue.iter().any(|report| report.phase.is_live()),
            "a verdict on a live job: {new:?}"
        );
        match new.reason.unwrap() {
            Reason::Verified => assert!(self.job(new).marker, "{new:?}"),
            Reason::NoOutput => {
                let has_ended =
                    said(Phase::Completed) || old.reason == Some(Reason::AwaitingOutput);
                assert!(has_ended && !self.job(new).marker, "{new:?}");
            }
            // An absence alone takes its time, and accounting must have shown that it answers.
            Reason::Lost => {
                let since = old.missing_since.expect("an absence is first noted");
                assert!(
                    time(self.now) - since >= Duration::seconds(LOST_GRACE_S),
                    "{old:?}"
                );
                assert!(
                    matches!(&looked.observation.accounting, Answer::Got(records) if !records.is_empty()),
                    "lost without an answer: {new:?}"
                );
            }
            reason => assert!(
                said(Phase::Failed(reason)),
                "{new:?} without a record of it"
            ),
        }
    }

    fn job(&self, row: &TaskRow) -> &Job {
        let task = (0..TASKS).find(|task| key(*task) == row.key).unwrap();
        &self.jobs[task]
    }

    /// From now on all answers are honest and whole: what is said in the end is the truth.
    fn calm_down(&mut self) {
        for task in 0..TASKS {
            if self.jobs[task].is_live() {
                self.happen(&Event::Start(task));
                self.happen(&Event::End(task, 0, true));
            }
        }
        for pass in 0..8 {
            self.now += if pass < 4 { 400 } else { 4000 };
            self.look(&Noise::default());
        }
        for task in 0..TASKS {
            let row = self.state.get(&key(task)).unwrap();
            let job = &self.jobs[task];
            let told = (row.status, row.reason.unwrap());
            let truth = job.truth();
            let earlier_run = self.excused.contains(&task)
                && job.runs.iter().any(|run| run.ended_as() == Some(told));
            assert!(
                told == truth || earlier_run,
                "job {job:#?} was {truth:?}, and the row says {row:?}"
            );
        }
    }
}

fn of<'a>(answer: &'a Answer<Vec<JobReport>>, row: &TaskRow) -> Vec<&'a JobReport> {
    let id: Option<&JobId> = row.job_id.as_ref();
    answer
        .got()
        .into_iter()
        .flatten()
        .filter(|report| Some(&report.id) == id && row.job_name.as_deref() == Some(&report.name))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if snbb_scheduler::base::sys::env("SNBB_TEST_LONG").is_some() { 40_000 } else { 1500 },
        max_shrink_iters: 5000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_truth_wins_whatever_order_it_is_told_in(steps in prop::collection::vec(step(), 1..14)) {
        let mut rig = Rig::new();
        for step in &steps {
            for event in &step.events {
                rig.happen(event);
            }
            rig.now += step.wait;
            rig.look(&step.noise);
        }
        rig.calm_down();
    }
}
