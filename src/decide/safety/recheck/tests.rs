//! Trust, compared with a study that every pass checks completely.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;
use crate::decide::manifest::testing::Disk;
use crate::decide::manifest::{Input, Planned, RemovedProcedures, Selection, World, plan};
use crate::gather::completion::Completion;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::procedure::testing::procedure;
use crate::model::procedure::{ProcedureDag, Scope, SessionsRule};
use crate::model::state::testing::{at, row};

const DAY: i64 = 24 * 60;
const PERIOD: Duration = Duration::from_secs(DAY as u64 * 60);

/// A study with its state, and when new input came to each session.
struct Study {
    dag: ProcedureDag,
    sessions: Vec<Session>,
    rows: State,
    disk: Disk,
    late: BTreeMap<(String, String), DateTime<Utc>>,
}

impl Study {
    fn new(procedures: Vec<crate::model::procedure::Procedure>, subjects: usize) -> Self {
        let sessions = (0..subjects * 2).map(|number| Session {
            subject: SubjectLabel::new(&format!("sub-{:03}", number / 2)).unwrap(),
            session: SessionLabel::new(&format!("ses-{}", number % 2)).unwrap(),
            dicom: Dicom::At(std::path::Path::new("/dicom").into()),
        });
        Self {
            dag: ProcedureDag::new(procedures).unwrap(),
            sessions: sessions.collect(),
            rows: State::default(),
            disk: Disk::default(),
            late: BTreeMap::new(),
        }
    }

    /// One procedure, complete in all sessions.
    fn complete(subjects: usize) -> Self {
        let mut study = Self::new(vec![procedure("p", Scope::Session, &[])], subjects);
        for key in study.keys() {
            study.finish(&key, 0);
        }
        study
    }

    fn keys(&self) -> Vec<TaskKey> {
        let mut keys = Vec::new();
        for (_, declared) in self.dag.iter() {
            for session in &self.sessions {
                let label = match declared.scope {
                    Scope::Session => session.session.as_str(),
                    Scope::Subject => "",
                };
                let key = TaskKey::new(session.subject.as_str(), label, &declared.name);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Completes a task, by a row and on disk.
    fn finish(&mut self, key: &TaskKey, minute: i64) {
        let mut done = row(&key.procedure, TaskStatus::Complete, Reason::Verified);
        done.key = key.clone();
        done.submitted_at = Some(at(minute));
        done.facts.started_at = Some(at(minute));
        done.updated_at = Some(at(minute));
        self.rows.put(done);
        self.disk.set_task(&self.dag, key, Completion::Complete);
    }

    fn plan(&self, policy: &Policy, now: DateTime<Utc>, trusts: Trusts<'_>) -> Manifest {
        let late = |session: &Session, _: Input, since: DateTime<Utc>| {
            let key = (session.subject.to_string(), session.session.to_string());
            self.late.get(&key).is_some_and(|at| *at > since)
        };
        let world = World {
            sessions: &self.sessions,
            rows: &self.rows,
            completions: &self.disk,
            jobs_without_row: &std::collections::HashMap::new(),
            removed: &RemovedProcedures::default(),
            newest: &Arc::default,
            gate: &|_| None,
            late: &late,
            trusts,
            now,
        };
        plan(&self.dag, &world, policy, 1, &|| ())
    }

    /// Decides like a pass, and also returns the trust.
    fn pass(&mut self, policy: &Policy, minute: i64, is_dry: bool) -> (Manifest, Trust) {
        let mut trust = Trust {
            present: self
                .dag
                .iter()
                .map(|(_, one)| Arc::clone(&one.name))
                .collect(),
            ..Trust::of(PERIOD, 7, &self.rows.meta.baselines, at(minute))
        };
        let manifest = trust.decide(|trusts| self.plan(policy, at(minute), trusts));
        if policy.selection.is_everything() {
            trust.record(&manifest, &self.rows);
        }
        if !is_dry {
            trust.settle(&mut self.rows.meta.baselines);
        }
        (manifest, trust)
    }

    /// The number of outputs that a pass reads.
    fn reads(&mut self, minute: i64) -> usize {
        self.disk.reads.store(0, Ordering::Relaxed);
        self.pass(&Policy::default(), minute, false);
        self.disk.reads.load(Ordering::Relaxed)
    }
}

#[test]
fn tasks_are_distributed_evenly() {
    let mut counts = [0; PARTS];
    for number in 0..24_000 {
        let subject = format!("sub-{:04}", number / 4);
        counts[part(&TaskKey::new(
            &subject,
            &format!("ses-{}", number % 2),
            "qsiprep",
        ))] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn hourly_passes_check_each_complete_task_once_a_day() {
    let mut study = Study::complete(120);
    assert_eq!(study.reads(30), 240, "nothing is known yet");
    let reads: Vec<usize> = (1..=24).map(|hour| study.reads(30 + hour * 60)).collect();
    assert_eq!(reads.iter().sum::<usize>(), 240);
    assert!(
        reads.iter().all(|reads| (1..30).contains(reads)),
        "{reads:?}"
    );
    assert_eq!(study.reads(30 + 24 * 60 + 1), 0, "no part's turn");
    assert_eq!(study.reads(30 + 48 * 60), 240, "a day without passes");
}

#[test]
fn an_invalid_time_leads_to_a_check() {
    for (checked, rules, period, is_trusted) in [
        (1_000_000, 7, 86_400, true),
        (0, 7, 86_400, false),
        (1_000_001, 7, 86_400, false),
        (1_000_000 - 86_400, 7, 86_400, false),
        (1_000_000, 8, 86_400, false),
        (1_000_000, 7, 0, false),
        (u64::MAX, 7, 86_400, false),
    ] {
        let baselines = (0..PARTS).map(|part| (name(part), checked));
        let baselines: Baselines = baselines.chain([(RULES.to_owned(), rules)]).collect();
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let trust = Trust::of(Duration::from_secs(period), 7, &baselines, now);
        assert_eq!(trust.is_any(), is_trusted, "{checked} {rules} {period}");
    }
}

#[test]
fn only_verified_rows_with_an_existing_directory_are_trusted() {
    let mut study = Study::complete(1);
    let (_, trust) = study.pass(&Policy::default(), 0, false);
    assert_eq!(
        trust.check_times(&study.rows.rows()[0]),
        None,
        "the first pass"
    );
    let (_, mut trust) = study.pass(&Policy::default(), 0, false);
    let fine = study.rows.rows()[0].clone();
    let (last, next) = trust.check_times(&fine).unwrap();
    assert_eq!(last, at(0));
    assert!(next > at(0) && next <= at(DAY), "{next}");
    let changed = |change: fn(&mut TaskRow)| {
        let mut row = fine.clone();
        change(&mut row);
        trust.covers(&row)
    };
    assert!(changed(|_| ()));
    assert!(!changed(|row| row.reason = None));
    assert!(!changed(|row| row.reason = Some(Reason::Unverified)));
    assert!(!changed(|row| row.status = TaskStatus::Failed));
    assert!(!changed(|row| row.updated_at = None));
    assert!(!changed(|row| row.updated_at = Some(at(1))));
    trust.present.clear();
    assert!(!trust.covers(&fine));
}

#[test]
fn one_lost_output_leads_to_a_check_of_everything() {
    let mut study = Study::complete(120);
    study.reads(30);
    let lost = study.keys();
    for key in &lost[..200] {
        study.disk.set_task(&study.dag, key, Completion::Incomplete);
    }
    let (manifest, _) = study.pass(&Policy::default(), 31, false);
    assert_eq!(manifest.due().count(), 0, "no part's turn");
    for minute in [90, 91] {
        let (manifest, _) = study.pass(&Policy::default(), minute, false);
        assert_eq!(
            manifest.due().count(),
            200,
            "and again while they are not submitted"
        );
    }
}

#[test]
fn times_are_kept_only_by_full_passes_and_removed_without_the_key() {
    let mut study = Study::complete(2);
    let one = Policy {
        selection: Selection::new(&["sub-000".to_owned()], &[], &[], &[]).unwrap(),
        ..Policy::default()
    };
    study.pass(&one, 0, false);
    study.pass(&Policy::default(), 0, true);
    assert!(study.rows.meta.baselines.is_empty());
    study.pass(&Policy::default(), 0, false);
    assert_eq!(study.rows.meta.baselines.len(), PARTS + 1);
    let before = study.rows.meta.baselines.clone();
    study.pass(&one, DAY, false);
    assert_eq!(study.rows.meta.baselines, before);
    let mut off = Trust::default();
    off.record(&Manifest::default(), &study.rows);
    study.rows.meta.baselines.insert("sessions".to_owned(), 4);
    off.settle(&mut study.rows.meta.baselines);
    assert_eq!(
        study.rows.meta.baselines,
        [("sessions".to_owned(), 4)].into()
    );
}

/// What happens between two passes.
#[derive(Debug, Clone)]
enum Event {
    Nothing,
    /// What the disk shows of a task.
    Disk(usize, Completion),
    Late(usize),
    /// The jobs of the last pass end well.
    Finish,
}

/// Minutes since the last pass, what happened at their beginning, and the kind of the pass.
type Step = (i64, Event, Kind);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    Dry,
    Selected,
    Forced,
}

fn step() -> impl Strategy<Value = Step> {
    let completion = prop_oneof![
        4 => Just(Completion::Incomplete),
        3 => Just(Completion::Complete),
        1 => Just(Completion::NotApplicable),
        1 => Just(Completion::Unreadable(Box::new(crate::gather::disk::Unreadable {
            path: "/x".into(),
            error: "no".to_owned(),
        }))),
    ];
    let event = prop_oneof![
        5 => Just(Event::Nothing),
        4 => (0..1000usize, completion).prop_map(|(task, found)| Event::Disk(task, found)),
        2 => (0..1000usize).prop_map(Event::Late),
        2 => Just(Event::Finish),
    ];
    let minutes = prop_oneof![5 => 1..90i64, 3 => 90..DAY, 1 => DAY..2 * DAY];
    let kind = prop_oneof![
        6 => Just(Kind::Whole),
        1 => Just(Kind::Dry),
        1 => Just(Kind::Selected),
        1 => Just(Kind::Forced),
    ];
    (minutes, event, kind)
}

fn random_study() -> impl Strategy<Value = Study> {
    let procedures = prop::collection::vec(
        (
            any::<bool>(),
            any::<bool>(),
            prop::collection::vec(any::<bool>(), 4),
        ),
        1..4,
    );
    (procedures, prop::collection::vec(0..8u8, 40)).prop_map(|(procedures, rows)| {
        let names = ["p0", "p1", "p2", "p3"];
        let declared = procedures
            .iter()
            .enumerate()
            .map(|(own, (subject, rerun, needs))| {
                let needs = (0..own).filter(|other| needs[*other]);
                let needs: Vec<_> = needs
                    .map(|other| (names[other], SessionsRule::ByScope))
                    .collect();
                let scope = if *subject {
                    Scope::Subject
                } else {
                    Scope::Session
                };
                let mut one = procedure(names[own], scope, &needs);
                one.rules.rerun_when_stale = *rerun;
                one
            });
        let mut study = Study::new(declared.collect(), 3);
        for (key, code) in study.keys().into_iter().zip(rows.into_iter().cycle()) {
            match code {
                0 => {}
                1 => study.rows.put(TaskRow {
                    key: key.clone(),
                    ..row(&key.procedure, TaskStatus::Failed, Reason::Timeout)
                }),
                2 => study.disk.set_task(&study.dag, &key, Completion::Complete),
                3 if key.session.is_empty() => {
                    study.finish(&key, 0);
                    let mut row = study.rows.get(&key).unwrap().clone();
                    row.input_sessions = Some("ses-0".into());
                    study.rows.put(row);
                }
                _ => study.finish(&key, 0),
            }
        }
        study
    })
}

impl std::fmt::Debug for Study {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} {:?} {:?}",
            self.dag,
            self.rows.rows(),
            self.disk.answers
        )
    }
}

impl Study {
    /// True if a task or one of its dependencies is trusted.
    fn depends_on_trust(&self, task: &Planned, trust: &Trust) -> bool {
        let all = self
            .rows
            .rows()
            .iter()
            .filter(|row| row.key.subject == task.key.subject);
        let mut seen = vec![task.procedure];
        let mut next = 0;
        while let Some(one) = seen.get(next).copied() {
            next += 1;
            seen.extend(self.dag.dependencies(one).iter().map(|(other, _)| *other));
            let name = &self.dag.get(one).name;
            if all
                .clone()
                .any(|row| row.key.procedure == *name && trust.covers(row))
            {
                return true;
            }
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn after_the_period_decisions_equal_those_of_a_full_check(
        mut study in random_study(),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let keys = study.keys();
        let mut now = 1;
        let mut changed = 0;
        let mut submitted: Vec<TaskKey> = Vec::new();
        for (minutes, event, kind) in steps {
            match event {
                Event::Nothing => {}
                Event::Disk(task, found) => {
                    changed = now;
                    study.disk.set_task(&study.dag, &keys[task % keys.len()], found);
                }
                Event::Late(session) => {
                    changed = now;
                    let session = &study.sessions[session % study.sessions.len()];
                    let key = (session.subject.to_string(), session.session.to_string());
                    study.late.insert(key, at(now));
                }
                Event::Finish => {
                    for key in submitted.drain(..) {
                        study.finish(&key, now + minutes);
                    }
                }
            }
            now += minutes;
            let subjects = match kind {
                Kind::Whole | Kind::Dry => vec![],
                Kind::Selected | Kind::Forced => vec!["sub-001".to_owned()],
            };
            let policy = Policy {
                selection: Selection::new(&subjects, &[], &[], &[]).unwrap(),
                force: kind == Kind::Forced,
                reports_late_input: kind == Kind::Dry,
                ..Policy::default()
            };
            let whole = study.plan(&policy, at(now), &|_| false);
            let (manifest, trust) = study.pass(&policy, now, kind == Kind::Dry);
            for (got, wanted) in manifest.tasks.iter().zip(&whole.tasks) {
                if got == wanted {
                    continue;
                }
                prop_assert!(now < changed + DAY, "{} after {}: {:?} {:?}", now, changed, got, wanted);
                prop_assert!(!matches!(got.decision, Decision::Submit(_)), "{:?} {:?}", got, wanted);
                prop_assert!(study.depends_on_trust(got, &trust), "{:?} {:?}", got, wanted);
            }
            if kind != Kind::Dry {
                submitted.extend(manifest.due().map(|task| task.key.clone()));
            }
        }
    }
}
