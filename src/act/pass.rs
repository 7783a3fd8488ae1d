//! One pass, independent of terminal and arguments: look, decide, submit.
//!
//! `run`, `monitor`, the dry run and the model test all use [`Pass`]: a monitor looks and saves, a
//! dry run looks and decides, a run does all three steps. Each step returns what there is to
//! report, and the caller prints it before the next step, so that nothing is lost if a later step
//! fails. Only [`Pass::save`], [`Pass::stop`] and [`Pass::carry_out`] write.

mod adopt;
pub mod decide;
mod look;

use chrono::{DateTime, Duration, Utc};
use itertools::Itertools as _;

pub use adopt::{AttemptNumbers, adopt, newest_submission};
use adopt::{listings, logged_tasks};
use decide::{Basis, Queue};
pub use decide::{MissingScripts, Pauses};
pub use look::{Disk, Looked, queue_question};

use crate::act::submit::{Submitted, Submitter};
use crate::base::regular::FileError;
use crate::decide::manifest::{Manifest, Policy};
use crate::decide::reconcile::strays;
use crate::decide::reconcile::strays::{Records, Strays};
use crate::decide::request::{Batch, Prepared};
use crate::decide::safety;
use crate::decide::safety::{Counts, SafetyStop, Trust};
use crate::executor::{Answer, Executor, JobReport};
use crate::gather::completion::Completions;
use crate::model::bids::Session;
use crate::model::config::Config;
use crate::model::job::JobRef;
use crate::model::state::State;
use crate::store::audit_log::{AuditLog, Event, EventKind};
use crate::store::control::Control;
use crate::store::state_file::{LockedStore, StateError, Store};

/// Everything that a pass needs.
pub struct Pass<'a> {
    pub config: &'a Config,
    /// Part of each job's comment; distinguishes this study's jobs from other studies'.
    pub project: &'a str,
    /// Part of every event; keeps submission ids of different invocations apart.
    pub run_id: &'a str,
    pub executor: &'a mut dyn Executor,
    pub completions: &'a dyn Completions,
    pub clock: &'a dyn Fn() -> DateTime<Utc>,
    /// Sleeps between tries after a transient refusal.
    pub pause: &'a dyn Fn(std::time::Duration),
}

/// The options of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    pub policy: Policy,
    pub max_jobs: Option<usize>,
    /// The control file, read under the same lock as the state.
    pub control: Control,
    /// For a dry run: also lists tasks whose script is missing.
    pub is_preview: bool,
}

/// What a run would do now, with the findings on the way.
#[derive(Debug)]
pub struct Decided {
    pub strays: Strays,
    pub manifest: Manifest,
    /// The numbers of the manifest before limits, for the safety stop.
    pub counts: Counts,
    /// Which rows were trusted without reading the disk.
    pub trust: Trust,
    /// The due tasks whose scripts exist (for a preview: all), in order, some grouped into arrays.
    pub batches: Vec<Batch>,
    pub missing_scripts: MissingScripts,
    pub pauses: Pauses,
    /// Saved before anything is submitted.
    events: Vec<Event>,
}

/// Why a pass ended early. Nothing was submitted then, unless the state shows it.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// Without the queue it is unknown which jobs are running, so nothing may be submitted.
    #[error("the queue does not answer: {0}")]
    QueueUnknown(String),
    /// Without a state file, each running job of the user may belong to the study.
    #[error("job {} may be one of this study: accounting does not show its submission", .0.id)]
    Unnamed(JobRef),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    LogDir(FileError),
    #[error(transparent)]
    Write(#[from] FileError),
}

impl Decided {
    /// The tasks to submit.
    pub fn tasks(&self) -> impl Iterator<Item = &Prepared> {
        self.batches.iter().flat_map(|batch| &batch.tasks)
    }

    /// Records that a person continued in spite of the safety stop.
    pub fn note_accepted(&mut self, stops: &[SafetyStop], at: DateTime<Utc>) {
        let words = format!("accepted by --accept-drop: {}", safety::message(stops));
        self.events.push(stop_event(at, words));
    }
}

impl Pass<'_> {
    /// Adopts running jobs without a row, in memory, and decides about every task. `tick` is
    /// called after each subject.
    pub fn decide(
        &mut self,
        store: &Store,
        state: &mut State,
        sessions: &[Session],
        looked: &Looked,
        options: &RunOptions,
        tick: &(dyn Fn() + Sync),
    ) -> Result<Decided, PassError> {
        let config = self.config;
        if adopt::may_lack_rows(config, state) {
            adopt::restore(config, store, state);
        }
        let strays = self.strays(store, state, sessions, queue(looked)?, !state.is_stored());
        if !state.is_stored()
            && let unnamed = &looked.observation.unnamed
            && let Some(job) = strays.unnamed.iter().find(|job| unnamed.contains(&job.id))
        {
            return Err(PassError::Unnamed(job.clone()));
        }
        let mut events = looked.events.clone();
        if !strays.adopt.is_empty() {
            let history = AttemptNumbers::new(&store.read_attempts()?, state);
            events.extend(adopt(state, &strays.adopt, &history, (self.clock)()));
        }
        let waiting = &strays.waiting;
        // Of any program, on all queried clusters; array tasks count one by one.
        let jobs = looked.observation.queue.got().into_iter().flatten();
        let live_jobs = jobs.filter(|job| job.phase.is_live());
        let basis = Basis {
            config,
            store,
            state,
            sessions,
            completions: self.completions,
            policy: &options.policy,
            control: &options.control,
            queue: Some(Queue {
                jobs_without_row: waiting,
                live_jobs: live_jobs.count(),
                max_jobs: options.max_jobs,
            }),
            now: (self.clock)(),
        };
        let now = basis.now;
        let found = basis.decide(tick)?;
        events.extend(found.pauses.events(now));
        let history = match found.manifest.due().next() {
            Some(_) => AttemptNumbers::new(&found.attempts, state),
            None => AttemptNumbers::default(),
        };
        let is_preview = options.is_preview;
        let (tasks, missing_scripts) = self.prepare(&found.manifest, &history, state, is_preview);
        Ok(Decided {
            strays,
            manifest: found.manifest,
            counts: found.counts,
            trust: found.trust,
            batches: self.group(tasks, &store.paths.arrays),
            missing_scripts,
            pauses: found.pauses,
            events,
        })
    }

    /// Compares the queue with the rows. `is_new` if the study has no state file yet.
    pub fn strays(
        &self,
        store: &Store,
        state: &State,
        sessions: &[Session],
        queue: &[JobReport],
        is_new: bool,
    ) -> Strays {
        let dag = &self.config.procedures;
        let records = Records {
            task_of: &logged_tasks(&self.config.log_file, self.project),
            listing: &listings(&store.paths.arrays),
        };
        strays::compare(queue, state, dag, sessions, self.project, is_new, &records)
    }

    /// Saves the findings, then submits the tasks. The deadline counts from `started`, the beginning
    /// of the pass; `tick` is called after each task.
    pub fn carry_out(
        &mut self,
        locked: &LockedStore,
        state: &mut State,
        decided: &Decided,
        started: DateTime<Utc>,
        tick: &dyn Fn(),
    ) -> Result<Submitted, PassError> {
        // The first run of a study leaves a file, whatever is due.
        if !state.is_stored() {
            state.mark_changed();
        }
        self.save(locked, state, &decided.events)?;
        if !decided.pauses.tripped.is_empty() {
            locked.save_control(&mut decided.pauses.control.clone())?;
        }
        if decided.batches.is_empty() {
            return Ok(Submitted::default());
        }
        make_log_dirs(decided.tasks())?;
        let deadline = started + chrono_duration(self.config.deadline);
        let left = deadline - (self.clock)();
        self.executor
            .set_deadline(left.to_std().unwrap_or_default());
        // The last part of a pass, in which no submission starts, so that the rows can be saved in time.
        let reserve = (self.config.deadline / 10).min(std::time::Duration::from_secs(30));
        let mut audit = self.open_audit()?;
        let submitter = Submitter {
            store: locked,
            state,
            executor: self.executor,
            audit: &mut audit,
            clock: self.clock,
            pause: self.pause,
            tick,
            deadline: deadline - chrono_duration(reserve),
        };
        Ok(submitter.submit(&decided.batches))
    }

    /// Saves the findings (the ends of jobs must not be lost), and why nothing is submitted, if that
    /// is new.
    pub fn stop(
        &self,
        locked: &LockedStore,
        state: &mut State,
        looked: &Looked,
        decided: Option<&Decided>,
        stops: &[SafetyStop],
    ) -> Result<(), PassError> {
        let events = decided.map_or(&looked.events, |decided| &decided.events);
        let mut events = events.clone();
        if safety::note_stops(state, stops) {
            events.push(stop_event((self.clock)(), safety::message(stops)));
        }
        self.save(locked, state, &events)
    }

    /// Writes the events, then the rows: a crash in between repeats an event, but loses none.
    pub fn save(
        &self,
        locked: &LockedStore,
        state: &mut State,
        events: &[Event],
    ) -> Result<(), PassError> {
        if !events.is_empty() {
            self.open_audit()?.append(events)?;
        }
        locked.save(state)?;
        Ok(())
    }

    fn open_audit(&self) -> Result<AuditLog, FileError> {
        AuditLog::open(&self.config.log_file, self.run_id)
    }
}

fn stop_event(at: DateTime<Utc>, words: String) -> Event {
    Event {
        detail: Some(words),
        ..Event::new(at, EventKind::SafetyStop)
    }
}

fn queue(looked: &Looked) -> Result<&[JobReport], PassError> {
    match &looked.observation.queue {
        Answer::Got(jobs) => Ok(jobs),
        Answer::Failed(message) => Err(PassError::QueueUnknown(message.clone())),
        Answer::Off => Err(PassError::QueueUnknown("this executor has none".to_owned())),
    }
}

/// Slurm does not create log directories: a job whose output cannot be opened fails without a trace.
fn make_log_dirs<'a>(tasks: impl Iterator<Item = &'a Prepared>) -> Result<(), PassError> {
    let dirs = tasks.filter_map(|task| task.request.log_dir.as_deref());
    for dir in dirs.unique() {
        std::fs::create_dir_all(dir)
            .and_then(|()| {
                rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).map_err(Into::into)
            })
            .map_err(FileError::of("write logs to", dir))
            .map_err(PassError::LogDir)?;
    }
    Ok(())
}

fn chrono_duration(duration: std::time::Duration) -> Duration {
    Duration::from_std(duration).unwrap_or(Duration::MAX)
}
