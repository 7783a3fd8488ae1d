//! The decisions of a pass, in order, for commands that act and for commands that only report: the plan, the pauses,
//! the limits, and the requests of due tasks.
//!
//! All of them decide here, so a dry run, `explain` and `manifest` report exactly what `run` does. Reads the files
//! beside the state, changes nothing.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use super::{AttemptNumbers, Pass, adopt};
use crate::decide::manifest::breaker::{self, Streak};
use crate::decide::manifest::{
    Decision, Due, Input, Manifest, NewestAttempts, Planned, Policy, RemovedProcedures, World,
    limits, plan,
};
use crate::decide::request::{self, Batch, Prepared, RequestContext, batch};
use crate::decide::safety::{Counts, Trust, drop};
use crate::executor::ExecutorError;
use crate::executor::script::header_of;
use crate::gather::completion::Completions;
use crate::gather::sessions::dicom;
use crate::model::bids::{Dicom, Session};
use crate::model::config::Config;
use crate::model::job::JobId;
use crate::model::procedure::options::Arguments;
use crate::model::state::{State, TaskKey, TaskRow};
use crate::store::audit_log::{Event, EventKind};
use crate::store::control::{Control, Pause, PauseCause};
use crate::store::state_file::{StateError, Store};

/// The input of the decisions.
pub struct Basis<'a> {
    pub config: &'a Config,
    pub store: &'a Store,
    pub state: &'a State,
    pub sessions: &'a [Session],
    pub completions: &'a dyn Completions,
    pub policy: &'a Policy,
    /// The pauses, as last read.
    pub control: &'a Control,
    /// `None` if the queue was not read; then no limit is applied.
    pub queue: Option<Queue<'a>>,
    pub now: DateTime<Utc>,
}

/// What the queue shows, and how much may be added to it.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    /// Tasks that wait for a job without a row.
    pub jobs_without_row: &'a HashMap<TaskKey, JobId>,
    /// The number of the user's pending and running jobs, of any program.
    pub live_jobs: usize,
    /// `--max-jobs`
    pub max_jobs: Option<usize>,
}

/// The decisions of a pass.
#[derive(Debug)]
pub struct Decisions {
    pub manifest: Manifest,
    /// The numbers of the manifest before pauses and limits, for the safety stop.
    pub counts: Counts,
    pub trust: Trust,
    pub pauses: Pauses,
    /// Earlier attempts, if they were needed.
    pub attempts: Vec<TaskRow>,
}

impl Basis<'_> {
    /// Decides about every task. `tick` is called after each subject.
    pub fn decide(&self, tick: &(dyn Fn() + Sync)) -> Result<Decisions, StateError> {
        let (config, state, now) = (self.config, self.state, self.now);
        let reader = self.completions.reader();
        let none = HashMap::new();
        let read = OnceLock::new();
        let earlier = || match read.get_or_init(|| self.store.read_attempts()) {
            Ok(attempts) => attempts.as_slice(),
            // The error is returned at the end.
            Err(_) => &[],
        };
        let removed =
            RemovedProcedures::among(state.in_flight(), state, &config.procedures, earlier);
        let found = OnceLock::new();
        let newest = || {
            let newest = found.get_or_init(|| {
                let lost =
                    match state.meta.begun_anew.is_some() || adopt::may_lack_rows(config, state) {
                        true => adopt::rows(config, self.store, state),
                        false => Vec::new(),
                    };
                let all = [earlier(), &lost].concat();
                Arc::new(NewestAttempts::of(state, &all, &config.procedures))
            });
            Arc::clone(newest)
        };
        let procedures = &config.procedures;
        let threads = config.scan_threads;
        let is_first = Cell::new(true);
        let mut trust = Trust::observe(config, self.policy, (self.sessions, state), &reader, now);
        let mut manifest = trust.decide(|trusts| {
            let tick = if is_first.replace(false) {
                tick
            } else {
                &|| ()
            };
            let world = World {
                sessions: self.sessions,
                rows: state,
                completions: self.completions,
                jobs_without_row: self.queue.map_or(&none, |queue| queue.jobs_without_row),
                removed: &removed,
                newest: &newest,
                gate: &|session| dicom::hold_session(config, &reader, session, now),
                late: &|session, input, since| {
                    let directory = match (input, &session.dicom) {
                        (Input::Dicom, Dicom::At(path)) => path.to_path_buf(),
                        _ => config
                            .bids_root
                            .join(&session.subject)
                            .join(&session.session),
                    };
                    dicom::has_newer(&reader, &directory, since, now)
                },
                trusts,
                now,
            };
            plan(procedures, &world, self.policy, threads, tick)
        });
        if self.policy.selection.is_everything() {
            trust.record(&manifest, state);
        }
        let is_due = manifest.due().next().is_some();
        let attempts = match Pauses::needs_attempts(state, self.control, is_due, now)
            || drop::needs_attempts(&state.meta.baselines)
        {
            true => earlier(),
            false => &[],
        };
        let mut counts = Counts::of(procedures, &manifest, state, attempts, now);
        counts.sessions = Some(self.sessions.len() as u64);
        let pauses = Pauses::evaluate(config, self.control, attempts, state, now);
        limits::apply_pauses(&mut manifest, &pauses.control, procedures);
        if let Some(queue) = self.queue {
            limits::apply(
                &mut manifest,
                config,
                queue.max_jobs,
                state,
                queue.live_jobs,
            );
        }
        Ok(Decisions {
            manifest,
            counts,
            trust,
            pauses,
            attempts: read.into_inner().transpose()?.unwrap_or_default(),
        })
    }
}

/// All pauses, including those that begin now.
#[derive(Debug, Clone, Default)]
pub struct Pauses {
    /// Includes the pauses of [`Self::tripped`].
    pub control: Control,
    /// Consecutive failures by procedure, if they were counted.
    pub streaks: BTreeMap<Arc<str>, Streak>,
    /// Procedures that the circuit breaker pauses now.
    pub tripped: Vec<Arc<str>>,
}

impl Pauses {
    /// Evaluates all attempts: the attempts file, attempts that were just superseded, and the rows.
    pub fn evaluate(
        config: &Config,
        control: &Control,
        attempts: &[TaskRow],
        state: &State,
        now: DateTime<Utc>,
    ) -> Self {
        let all = state.rows().iter().chain(state.superseded());
        let streaks = breaker::streaks(all.chain(attempts), control, now);
        let mut control = control.clone();
        control.forget_before(now - breaker::MEMORY);
        let tripped = breaker::trip(&streaks, &config.procedures, &control, now);
        for (name, pause) in &tripped {
            control.switch_mut(Some(name)).paused = Some(pause.clone());
        }
        Self {
            control,
            streaks,
            tripped: tripped.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// Reads the files, for commands that do not decide.
    pub fn read(
        config: &Config,
        store: &Store,
        state: &State,
        now: DateTime<Utc>,
    ) -> Result<Self, StateError> {
        let control = store.read_control()?;
        let attempts = match Self::needs_attempts(state, &control, false, now) {
            true => store.read_attempts()?,
            false => Vec::new(),
        };
        Ok(Self::evaluate(config, &control, &attempts, state, now))
    }

    /// True if the earlier attempts are needed. Most passes find nothing due and need not read the growing file;
    /// then they are needed only if the rows show a failure after the last success of a procedure.
    pub(super) fn needs_attempts(
        state: &State,
        control: &Control,
        is_due: bool,
        now: DateTime<Utc>,
    ) -> bool {
        is_due || !breaker::streaks(state.rows().iter(), control, now).is_empty()
    }

    /// The events of the pauses that begin now.
    pub fn events(&self, now: DateTime<Utc>) -> impl Iterator<Item = Event> {
        self.tripped.iter().filter_map(move |name| {
            let pause = self.control.procedures.get(name)?.paused.as_ref()?;
            Some(event(now, EventKind::Paused, Some(name), Some(pause)))
        })
    }
}

/// The event of a pause or of its end; without a procedure, for the whole study.
pub fn event(
    now: DateTime<Utc>,
    kind: EventKind,
    procedure: Option<&Arc<str>>,
    pause: Option<&Pause>,
) -> Event {
    let (detail, extra) = match pause.map(|pause| &pause.cause) {
        None => (None, Vec::new()),
        Some(PauseCause::Person { by, note }) => (
            note.clone(),
            vec![("cause", "person".into()), ("by", by.as_str().into())],
        ),
        Some(PauseCause::Failures { count }) => (
            Some(format!("{count} jobs in a row failed")),
            vec![("cause", "failures".into()), ("count", (*count).into())],
        ),
    };
    Event {
        key: procedure.map(|name| TaskKey::new("", "", name)),
        detail,
        extra,
        ..Event::new(now, kind)
    }
}

/// Per procedure: the error about its script, and the number of tasks it holds back.
pub type MissingScripts = BTreeMap<Arc<str>, (ExecutorError, usize)>;

impl Pass<'_> {
    /// Builds the requests of all due tasks whose scripts exist; the others are counted by procedure,
    /// and left out unless this is a preview.
    pub(super) fn prepare(
        &self,
        manifest: &Manifest,
        history: &AttemptNumbers,
        state: &State,
        is_preview: bool,
    ) -> (Vec<Prepared>, MissingScripts) {
        // Also for procedures without due tasks: a typing error should show at once.
        let mut missing = MissingScripts::new();
        for (_, procedure) in self.config.procedures.iter() {
            if let Err(error) = self.executor.find_script(&procedure.script) {
                missing.insert(Arc::clone(&procedure.name), (error, 0));
            }
        }
        let mut tasks = Vec::new();
        let unread = Arguments::default();
        let mut headers: BTreeMap<&str, Arguments> = BTreeMap::new();
        let now = (self.clock)();
        for planned in manifest.due() {
            let procedure = self.config.procedures.get(planned.procedure);
            if let Some((_, count)) = missing.get_mut(&procedure.name) {
                *count += 1;
                if !is_preview {
                    continue;
                }
            }
            let is_retry = matches!(planned.decision, Decision::Submit(Due::Retry { .. }));
            let script = if is_retry {
                headers.entry(&procedure.script).or_insert_with(|| {
                    let path = self.executor.find_script(&procedure.script);
                    path.map(|path| header_of(&path)).unwrap_or_default()
                })
            } else {
                &unread
            };
            tasks.push(self.request(planned, history, state, script, now));
        }
        (tasks, missing)
    }

    /// The request of a due task. `script`: the words of its `#SBATCH` lines, which only retries need.
    pub fn request(
        &self,
        planned: &Planned,
        history: &AttemptNumbers,
        state: &State,
        script: &Arguments,
        now: DateTime<Utc>,
    ) -> Prepared {
        let (attempt, last_reason) = history.next(&planned.key);
        let context = RequestContext {
            project: self.project,
            attempt,
            last_reason,
            row: state.get(&planned.key),
            script,
            now,
            run_id: self.run_id,
        };
        request::prepare(self.config, planned, &context)
    }

    /// Groups tasks that can be submitted together into arrays, if configured.
    pub(super) fn group(&mut self, tasks: Vec<Prepared>, dir: &Path) -> Vec<Batch> {
        let dag = &self.config.procedures;
        batch::group(tasks, dag, &mut || self.executor.array_limit(), dir)
    }
}
