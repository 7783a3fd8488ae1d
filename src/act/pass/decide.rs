//! The decisions of a pass, in order, for commands that act and for commands that only report.
//!
//! All of them decide here, so a dry run, `explain` and `manifest` report exactly what `run` does. Reads the files
//! beside the state, changes nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use super::lost::may_lack_rows;
use super::{Pauses, lost};
use crate::decide::manifest::{
    Input, Limits, Manifest, NewestAttempts, Policy, RemovedProcedures, World, limits, plan,
};
use crate::decide::safety::{Counts, Trust, drop};
use crate::gather::completion::Completions;
use crate::gather::sessions::dicom;
use crate::model::bids::{Dicom, Session};
use crate::model::config::Config;
use crate::model::job::JobId;
use crate::model::state::{State, TaskKey, TaskRow};
use crate::store::control::Control;
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
    pub limits: &'a Limits,
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
        let (gate, reader) = (config.gate(), self.completions.reader());
        let none = HashMap::new();
        let read = OnceLock::new();
        let earlier = || match read.get_or_init(|| self.store.read_attempts()) {
            Ok(attempts) => attempts.as_slice(),
            // The error is returned at the end.
            Err(_) => &[],
        };
        let removed = RemovedProcedures::in_flight(state, &config.procedures, earlier);
        let found = OnceLock::new();
        let newest = || {
            let newest = found.get_or_init(|| {
                let lost = match state.meta.begun_anew.is_some() || may_lack_rows(config, state) {
                    true => lost::rows(config, self.store, state),
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
                gate: &|session| {
                    dicom::hold_session(&gate, &reader, session, &config.bids_root, now)
                },
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
                queue.limits,
                procedures,
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
