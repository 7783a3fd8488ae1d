//! What can happen in a story.

use proptest::prelude::*;
use snbb_scheduler::executor::Phase;
use snbb_scheduler::model::state::Reason;

use super::invariants;
use super::rig::{Aftermath, Call, Rig};
use super::world::{Accounting, SubmissionState, World};

/// Is one step. Numbers that pick something are taken modulo what there is.
#[derive(Debug, Clone)]
pub enum Step {
    /// A call of the program; what sbatch does, in order.
    Call(Call, Vec<SubmissionState>),
    /// Two calls at once, with a lock that lies.
    TwoCalls(Vec<bool>, bool),
    Wait(i64),
    Start(usize),
    Hold(usize),
    /// A running job ends well; its marker is seen so much later, or never.
    EndWell(usize, Option<i64>),
    /// Some job ends badly; the marker may be there all the same.
    EndBadly(usize, Reason, Option<i64>),
    /// A person cancels a job.
    Cancel(usize),
    /// A person, or the controller after a node failure, puts a job back.
    Requeue(usize),
    NodeFailsAndRequeues(usize),
    EndsBetween,
    MarkerAppears(usize),
    MarkerVanishes(usize),
    LoseRecord(usize),
    Lag(usize, i64),
    Accounting(Accounting),
    Queue(bool),
    QueueBlinks,
    /// The scheduler's clock is wrong by so much.
    HostClock(i64),
    /// All clocks are set back.
    SetBack(i64),
    RecycleIds,
    /// The user submits something else.
    Stranger,
    /// The user submits a task's script by hand.
    ByHand(usize),
    Retry(usize),
    /// The files of the state are those of an earlier time; which of them.
    RollBack {
        to: usize,
        attempts: bool,
        journal: bool,
    },
    Delete {
        journal: bool,
        attempts: bool,
    },
}

pub fn accounting() -> impl Strategy<Value = Accounting> {
    prop_oneof![6 => Just(Accounting::Up), 1 => Just(Accounting::Off)]
}

pub fn step() -> impl Strategy<Value = Step> {
    let pick = || 0..8usize;
    let marker =
        || prop_oneof![3 => Just(Some(0)), 2 => (1..1500i64).prop_map(Some), 1 => Just(None)];
    let reason = prop_oneof![
        Just(Reason::ExitCode),
        Just(Reason::Timeout),
        Just(Reason::OutOfMemory),
        Just(Reason::NodeFail),
        Just(Reason::Preempted),
    ];
    let wait = prop_oneof![4 => 1..320i64, 3 => 320..1500i64, 2 => 1500..20_000i64];
    let accounting = prop_oneof![
        3 => Just(Accounting::Up),
        2 => Just(Accounting::Down),
        1 => Just(Accounting::Empty),
    ];
    let skew = prop_oneof![
        Just(0),
        Just(-30),
        Just(30),
        Just(-290),
        Just(290),
        Just(3600),
        Just(-3600)
    ];
    prop_oneof![
        12 => (call(), prop::collection::vec(fate(), 0..4)).prop_map(|(call, fates)| Step::Call(call, fates)),
        8 => wait.prop_map(Step::Wait),
        6 => pick().prop_map(Step::Start),
        1 => pick().prop_map(Step::Hold),
        5 => (pick(), marker()).prop_map(|(job, marker)| Step::EndWell(job, marker)),
        3 => (pick(), reason, prop_oneof![4 => Just(None), 1 => marker()])
            .prop_map(|(job, reason, marker)| Step::EndBadly(job, reason, marker)),
        1 => pick().prop_map(Step::Cancel),
        2 => pick().prop_map(Step::Requeue),
        1 => pick().prop_map(Step::NodeFailsAndRequeues),
        1 => Just(Step::EndsBetween),
        1 => pick().prop_map(Step::MarkerAppears),
        1 => pick().prop_map(Step::MarkerVanishes),
        1 => pick().prop_map(Step::LoseRecord),
        2 => (pick(), 1..200i64).prop_map(|(job, lag)| Step::Lag(job, lag)),
        2 => accounting.prop_map(Step::Accounting),
        2 => any::<bool>().prop_map(Step::Queue),
        1 => Just(Step::QueueBlinks),
        1 => skew.prop_map(Step::HostClock),
        1 => (1..3600i64).prop_map(Step::SetBack),
        1 => Just(Step::RecycleIds),
        1 => Just(Step::Stranger),
        1 => pick().prop_map(Step::ByHand),
        2 => pick().prop_map(Step::Retry),
        2 => (0..40usize, any::<bool>(), any::<bool>())
            .prop_map(|(to, attempts, journal)| Step::RollBack { to, attempts, journal }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(journal, attempts)| Step::Delete { journal, attempts }),
    ]
}

pub fn two_calls() -> impl Strategy<Value = Step> {
    (prop::collection::vec(any::<bool>(), 0..6), any::<bool>())
        .prop_map(|(turns, nested)| Step::TwoCalls(turns, nested))
}

fn call() -> impl Strategy<Value = Call> {
    let aftermath = prop_oneof![
        8 => Just(Aftermath::Survives),
        1 => Just(Aftermath::KeepsOldState),
        1 => Just(Aftermath::KeepsJournal),
    ];
    (
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.05),
        prop::option::weighted(0.15, 1..20u8),
        aftermath,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(only_look, force, dies_at, aftermath, rival)| Call {
            only_look,
            force,
            dies_at,
            aftermath,
            rival,
        })
}

fn fate() -> impl Strategy<Value = SubmissionState> {
    // Less than the settle time of 300 s: what is on its way longer nobody can wait for.
    let delay = || 1..290i64;
    prop_oneof![
        4 => Just(SubmissionState::Accepted),
        1 => Just(SubmissionState::DoubtWithJob),
        1 => Just(SubmissionState::DoubtWithoutJob),
        1 => delay().prop_map(SubmissionState::DoubtLate),
        1 => Just(SubmissionState::Permanent),
        1 => Just(SubmissionState::NoArray),
        1 => Just(SubmissionState::Limit),
        1 => Just(SubmissionState::Transient),
        1 => Just(SubmissionState::DiesBefore),
        1 => Just(SubmissionState::DiesAfter),
        1 => delay().prop_map(SubmissionState::DiesLate),
    ]
}

impl Step {
    pub fn happen(&self, rig: &mut Rig) {
        match self {
            Self::Call(call, fates) => {
                rig.world.get().fates.clone_from(fates);
                rig.call(*call);
                rig.world.get().fates.clear();
            }
            Self::TwoCalls(turns, nested) => rig.two_calls(turns, *nested),
            Self::Retry(task) => {
                let tasks = Rig::tasks();
                rig.retry(&tasks[task % tasks.len()]);
            }
            Self::RollBack {
                to,
                attempts,
                journal,
            } => {
                if rig.kept.is_empty() {
                    return;
                }
                let [state, copy, old_attempts, old_journal] =
                    rig.kept[to % rig.kept.len()].clone();
                let [_, _, attempts_now, journal_now] = rig.files();
                rig.put_files(&[
                    state,
                    copy,
                    if *attempts {
                        old_attempts
                    } else {
                        attempts_now
                    },
                    if *journal { old_journal } else { journal_now },
                ]);
                forget(&mut rig.world.get());
            }
            Self::Delete { journal, attempts } => {
                let [_, _, attempts_now, journal_now] = rig.files();
                rig.put_files(&[
                    None,
                    None,
                    attempts_now.filter(|_| !attempts),
                    journal_now.filter(|_| !journal),
                ]);
                forget(&mut rig.world.get());
            }
            other => other.change(&mut rig.world.get()),
        }
        invariants::always(rig);
    }

    /// What happens without the program.
    fn change(&self, world: &mut World) {
        match self {
            Self::Wait(seconds) => world.wait(*seconds),
            Self::Start(pick) => {
                if let Some(at) = find(world, *pick, |phase| {
                    matches!(phase, Phase::Queued | Phase::Held)
                }) {
                    world.jobs[at].course.started = Some(world.now);
                    world.jobs[at].course.phase = Phase::Running;
                }
            }
            Self::Hold(pick) => {
                if let Some(at) = find(world, *pick, |phase| phase == Phase::Queued) {
                    world.jobs[at].course.phase = Phase::Held;
                }
            }
            Self::EndWell(pick, marker) => {
                if let Some(at) = find(world, *pick, |phase| phase == Phase::Running) {
                    world.end(at, Phase::Completed, *marker);
                }
            }
            Self::EndBadly(pick, reason, marker) => {
                if let Some(at) = find(world, *pick, |phase| phase == Phase::Running) {
                    world.end(at, Phase::Failed(*reason), *marker);
                }
            }
            Self::Cancel(pick) => {
                if let Some(at) = find(world, *pick, Phase::is_live) {
                    if world.jobs[at].is_forgotten() {
                        world.jobs[at].record_lost = true;
                        world.jobs[at].must_be_known = false;
                    }
                    world.end(at, Phase::Failed(Reason::Cancelled), None);
                }
            }
            Self::Requeue(pick) => requeue(world, *pick),
            Self::NodeFailsAndRequeues(pick) => {
                if let Some(at) = find(world, *pick, |phase| phase == Phase::Running) {
                    world.end(at, Phase::Failed(Reason::NodeFail), None);
                    world.requeue(at);
                }
            }
            Self::EndsBetween => world.ends_between = true,
            Self::MarkerAppears(task) => {
                let (now, tasks) = (world.now, Rig::tasks());
                world
                    .disk
                    .insert(tasks[task % tasks.len()].clone(), (now, now));
            }
            Self::MarkerVanishes(task) => {
                let tasks = Rig::tasks();
                world.disk.remove(&tasks[task % tasks.len()]);
            }
            Self::LoseRecord(pick) => {
                if let Some(at) = find(world, *pick, |_| true) {
                    world.jobs[at].record_lost = true;
                    world.jobs[at].must_be_known = false;
                }
            }
            Self::Lag(pick, lag) => {
                if let Some(at) = find(world, *pick, |_| true) {
                    world.jobs[at].lag = *lag;
                }
            }
            Self::Accounting(accounting) => {
                if world.accounting != Accounting::Off {
                    world.accounting = *accounting;
                }
            }
            Self::Queue(up) => world.queue_up = *up,
            Self::QueueBlinks => world.queue_blinks = true,
            Self::HostClock(skew) => {
                world.settle();
                world.skew = *skew;
            }
            Self::SetBack(seconds) => {
                world.settle();
                world.set_back(*seconds);
            }
            // Records without submit lines do not tell the job of a recycled id.
            Self::RecycleIds if world.submit_line => world.next_id = 1,
            Self::RecycleIds => {}
            Self::Stranger => {
                let mut job = world.make_job(None, "jupyter", None);
                job.id = world.new_id();
                world.jobs.push(job);
            }
            Self::ByHand(task) => {
                let tasks = Rig::tasks();
                let key = tasks[task % tasks.len()].clone();
                let mut job = world.make_job(Some(key.clone()), &key.job_name(), None);
                job.id = world.new_id();
                world.jobs.push(job);
            }
            Self::Call(..)
            | Self::TwoCalls(..)
            | Self::Retry(_)
            | Self::RollBack { .. }
            | Self::Delete { .. } => unreachable!("handled before"),
        }
        hide(world);
    }
}

/// Picks one of the jobs in such a phase, from the newest.
fn find(world: &World, pick: usize, fits: impl Fn(Phase) -> bool) -> Option<usize> {
    let found: Vec<usize> = (0..world.jobs.len())
        .rev()
        .filter(|at| fits(world.jobs[*at].course.phase))
        .collect();
    found.get(pick % found.len().max(1)).copied()
}

/// Only what the controller still remembers can be put back. A person who puts a job back while another
/// one of the task lives makes two of them himself.
fn requeue(world: &mut World, pick: usize) {
    let Some(at) = find(world, pick, |phase| !phase.is_live()) else {
        return;
    };
    let job = &world.jobs[at];
    if !world.is_remembered(job) || job.course.submitted > world.now {
        return;
    }
    if let Some(key) = job.key.clone() {
        let on_its_way = world
            .late
            .iter()
            .any(|(_, late)| late.iter().any(|late| late.key.as_ref() == Some(&key)));
        if on_its_way || !world.live(&key).is_empty() {
            world.excused.push(key);
        }
    }
    world.requeue(at);
}

/// The files were taken back: what they no longer say must be found in the queue, or not at all.
fn forget(world: &mut World) {
    world.settle();
    for job in &mut world.jobs {
        job.must_be_known = false;
    }
}

/// An empty accounting hides jobs that nobody else knows of.
fn hide(world: &mut World) {
    if matches!(world.accounting, Accounting::Empty | Accounting::Off) {
        for job in &mut world.jobs {
            job.must_be_known = false;
        }
    }
}
