//! Notifications: digests by e-mail or command, a heartbeat, and metrics.
//!
//! Their sources are the [`Study`] with the [`Memory`] of earlier invocations, and this [`Invocation`]. [`events`]
//! and [`metrics`] are pure. Nothing here may prevent a submission or its record: it runs after the work,
//! without the lock, and every failure is a warning.

pub mod events;
pub mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::base::durable::ReplaceError;
use crate::base::exit::Exit;
use crate::base::regular::FileError;
use crate::base::words::words;
use crate::base::{durable, sys};
use crate::decide::manifest::{Decision, Manifest, Planned, Skip};
use crate::model::config::Config;
use crate::model::procedure::ProcedureDag;
use crate::model::state::State;
use crate::show::tables::{TaskState, count_states, reason_summary};
use crate::store::control::Control;

words! {
    /// The commands that notify.
    pub enum Command {
        Run = "run",
        Monitor = "monitor",
        Retry = "retry",
    }
}

/// What is known about a study.
#[derive(Debug, Clone, Copy)]
pub struct Study<'a> {
    pub config: &'a Config,
    pub project: &'a str,
    /// `None` if it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    /// Already includes this invocation.
    pub memory: &'a Memory,
}

/// One invocation that notifies, with its result.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub command: Command,
    pub host: String,
    pub started_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    pub exit: Exit,
    /// The error that ended it early, as a sentence.
    pub error: Option<String>,
    pub hint: Option<String>,
    /// Only for a run that reached its decisions.
    pub figures: Option<Figures>,
}

/// Figures of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// False if the run had a selection, so that the figures cover only a part of the study.
    pub whole: bool,
    pub sessions: usize,
    /// By procedure and decision word.
    pub decisions: BTreeMap<String, BTreeMap<String, usize>>,
    /// In a dry run, the number that would be.
    pub submitted: usize,
    /// Submissions that were certainly not accepted, by cause.
    pub refused: Vec<(String, usize)>,
    /// Submissions that may have been accepted; the next pass looks for them.
    pub in_doubt: usize,
    /// Tasks that a later pass may find changed without anyone's action. For `run --watch` only.
    #[serde(skip)]
    pub moving: usize,
    /// Complete tasks with newer sessions or input files.
    #[serde(skip)]
    pub stale: usize,
    /// Tasks neither complete nor submitted, by reason.
    #[serde(skip)]
    pub held_back: Vec<(String, usize)>,
}

impl Invocation {
    pub fn begin(command: Command, at: DateTime<Utc>) -> Self {
        Self {
            command,
            host: sys::host_name(),
            started_at: at,
            ended_at: at,
            exit: Exit::Done,
            error: None,
            hint: None,
            figures: None,
        }
    }

    /// Duration, never negative even if the clock was set back.
    pub fn seconds(&self) -> f64 {
        let milliseconds = (self.ended_at - self.started_at).num_milliseconds().max(0);
        // Exact: invocations are far shorter than 2^53 ms.
        milliseconds as f64 / 1000.0
    }
}

impl Figures {
    /// Counts the decisions of a run. The results of its submissions are added later.
    pub fn from_manifest(
        whole: bool,
        sessions: usize,
        manifest: &Manifest,
        dag: &ProcedureDag,
    ) -> Self {
        let is_stale = |task: &&Planned| {
            matches!(
                task.decision,
                Decision::Skip(Skip::Stale(_) | Skip::LateInput)
            )
        };
        let states = manifest.tasks.iter();
        let states = states.map(|task| (task.procedure, TaskState::of(&task.decision)));
        let states = states.filter(|(_, state)| *state != TaskState::NotSelected);
        let tallies = count_states(states, dag).into_iter();
        let decisions = tallies.filter(|tally| tally.all() > 0).map(|tally| {
            let counts = tally.counts.into_iter();
            let counts = counts.map(|(state, count)| (state.to_string(), count));
            (tally.procedure.to_string(), counts.collect())
        });
        Self {
            whole,
            sessions,
            decisions: decisions.collect(),
            stale: manifest.tasks.iter().filter(is_stale).count(),
            held_back: reason_summary(manifest),
            ..Self::default()
        }
    }

    /// Tasks of all procedures in this state.
    pub fn count(&self, state: TaskState) -> usize {
        let counts = self.decisions.values();
        counts.filter_map(|words| words.get(state.as_str())).sum()
    }

    pub fn refused(&self) -> usize {
        self.refused.iter().map(|(_, count)| count).sum()
    }

    /// Adds tasks held back for a reason.
    pub fn hold_back(&mut self, why: &str, count: usize) {
        match self.held_back.iter_mut().find(|(known, _)| known == why) {
            Some((_, known)) => *known += count,
            None if count > 0 => self.held_back.push((why.to_owned(), count)),
            None => {}
        }
    }
}

/// What an invocation leaves for later ones: the last run, counters, and the events already reported. If the file is
/// lost, one digest is sent twice and the counters restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The newest run, excluding dry runs.
    pub last_run: Option<LastRun>,
    /// The newest run that ended with exit code 0.
    pub last_good_run: Option<DateTime<Utc>>,
    /// Decisions of the newest run without a selection.
    pub survey: Option<Survey>,
    pub sums: Sums,
    /// Consecutive invocations without an answer from Slurm.
    pub unreachable_in_a_row: u32,
    /// Consecutive runs that found the lock held by another invocation.
    pub locked_in_a_row: u32,
    /// By channel: the names of events that were reported and still hold.
    #[serde(rename = "told")] // the key of earlier versions
    pub reported: BTreeMap<String, BTreeSet<String>>,
    /// By command: warnings of the last quiet invocation, with the time when each was last printed.
    pub warned: BTreeMap<String, BTreeMap<String, DateTime<Utc>>>,
    /// The bytes that this was read from. `None` if there was no file.
    #[serde(skip)]
    origin: Option<Vec<u8>>,
}

/// How the last run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    pub ended_at: DateTime<Utc>,
    pub seconds: f64,
    pub exit: u8,
}

/// Results of the last run of the whole study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    pub at: DateTime<Utc>,
    pub figures: Figures,
}

/// Counters since the file was created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Runs by exit code.
    pub runs: BTreeMap<u8, u64>,
    pub submitted: u64,
    pub refused: u64,
    pub in_doubt: u64,
    /// Digests that could not be delivered.
    pub undelivered: u64,
}

/// Text that every such file contains.
const MARK: &[u8] = b"\"sums\"";

impl Memory {
    /// Reads the file. If it is unreadable or damaged, returns an empty memory and a warning.
    pub fn read(path: &Path) -> (Self, Option<String>) {
        let bytes = match durable::read(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Default::default(),
            Err(error) => return (Self::default(), Some(error.to_string())),
        };
        let path = path.display();
        let memory = serde_json::from_slice::<Self>(&bytes);
        let damage = memory.as_ref().err();
        let warning = damage.map(|error| format!("{path} is damaged; starting a new one: {error}"));
        let mut memory = memory.unwrap_or_default();
        // A foreign file gets no origin, so it is never replaced.
        if bytes.is_empty() || durable::contains(&bytes, MARK) {
            memory.origin = Some(bytes);
        }
        (memory, warning)
    }

    /// Writes the file if its content changed.
    ///
    /// # Errors
    /// Another invocation has written to it, so that it must be read again, or it cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<(), ReplaceError> {
        let written = serde_json::to_vec(self).map_err(io::Error::from);
        let mut bytes = written.map_err(FileError::of("write", path))?;
        bytes.push(b'\n');
        if self.origin.as_ref() == Some(&bytes) {
            return Ok(());
        }
        durable::make_directory_of(path).map_err(FileError::of("make the directory of", path))?;
        durable::replace(path, &bytes, self.origin.as_ref())?;
        self.origin = Some(bytes);
        Ok(())
    }

    /// Adds the results of an invocation.
    pub fn add(&mut self, call: &Invocation) {
        if call.command == Command::Retry {
            return;
        }
        self.unreachable_in_a_row = match call.exit {
            Exit::Unreachable => self.unreachable_in_a_row.saturating_add(1),
            // Slurm was not asked.
            Exit::Locked => self.unreachable_in_a_row,
            _ => 0,
        };
        if call.command != Command::Run {
            return;
        }
        self.locked_in_a_row = match call.exit {
            Exit::Locked => self.locked_in_a_row.saturating_add(1),
            _ => 0,
        };
        self.last_run = Some(LastRun {
            ended_at: call.ended_at,
            seconds: call.seconds(),
            exit: call.exit.code(),
        });
        if call.exit == Exit::Done {
            self.last_good_run = Some(call.ended_at);
        }
        *self.sums.runs.entry(call.exit.code()).or_default() += 1;
        if let Some(figures) = &call.figures {
            self.sums.submitted += figures.submitted as u64;
            self.sums.refused += figures.refused() as u64;
            self.sums.in_doubt += figures.in_doubt as u64;
            if figures.whole {
                self.survey = Some(Survey {
                    at: call.ended_at,
                    figures: figures.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
