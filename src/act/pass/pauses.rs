//! The pauses of procedures: from the control file, and new ones of the circuit breaker.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::decide::manifest::breaker;
use crate::decide::manifest::breaker::Streak;
use crate::model::config::Config;
use crate::model::state::{State, TaskKey, TaskRow};
use crate::store::audit_log::{Event, EventKind};
use crate::store::control::{Control, Pause, PauseCause};
use crate::store::state_file::{StateError, Store};

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
        let all = state
            .rows()
            .iter()
            .chain(state.superseded())
            .chain(attempts);
        let streaks = breaker::streaks(all, control, now);
        let mut control = control.clone();
        control.forget_before(breaker::horizon(now));
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
