//! Figures in the text format of Prometheus. Pure.
//!
//! Gauges are what is so now, by the files of the state; what only a run knows is that of the last
//! one. Times are points in time, not ages: the file is read long after it was written.

mod text;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Memory;
use crate::decide::safety;
use crate::model::job::name_of_study;
use crate::model::procedure::ProcedureDag;
use crate::model::state::{State, TaskRow, TaskStatus};
use crate::show::tables::Standing;
use crate::store::control::Control;
use text::{Kind, Text};

/// Holds what the figures are made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub project: &'a str,
    pub dag: &'a ProcedureDag,
    /// None: it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    pub memory: &'a Memory,
}

/// What each metrics file holds.
pub const MARK: &str = "snbb_scheduler_build_info";

/// Returns the whole file.
pub fn render(sources: &Sources<'_>) -> String {
    let mut text = Text::new(name_of_study(sources.project));
    text.family(
        "build_info",
        Kind::Gauge,
        "The program that wrote this, always 1",
        [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)],
    );
    let is_readable = f64::from(u8::from(
        sources.state.is_some() && sources.control.is_some(),
    ));
    text.one(
        "state_readable",
        Kind::Gauge,
        "1 if the files of the state could be read",
        is_readable,
    );
    if let Some(state) = sources.state {
        of_rows(&mut text, sources.dag, state);
    }
    if let Some(control) = sources.control {
        of_pauses(&mut text, sources.dag, control);
    }
    of_runs(&mut text, sources.memory);
    of_survey(&mut text, sources.memory);
    text.finish()
}

fn of_rows(text: &mut Text, dag: &ProcedureDag, state: &State) {
    let mut counts: BTreeMap<(&str, TaskStatus), usize> = BTreeMap::new();
    for (_, procedure) in dag.iter() {
        for status in TaskStatus::ALL {
            counts.insert((&procedure.name, status), 0);
        }
    }
    let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut oldest: BTreeMap<&str, DateTime<Utc>> = BTreeMap::new();
    let is_held = |row: &TaskRow| row.reason == Some(crate::model::state::Reason::Held);
    let (mut held, mut doubted) = (0_usize, 0_usize);
    for row in state.rows() {
        let name = &*row.key.procedure;
        *counts.entry((name, row.status)).or_default() += 1;
        if row.status == TaskStatus::Failed {
            let reason = row
                .reason
                .map_or("unknown", crate::model::state::Reason::as_str);
            *reasons.entry((name, reason)).or_default() += 1;
        }
        if row.status == TaskStatus::Pending
            && let Some(at) = row.submitted_at
        {
            let first = oldest.entry(name).or_insert(at);
            *first = at.min(*first);
        }
        held += usize::from(row.is_in_flight() && is_held(row));
        doubted += usize::from(row.is_in_doubt());
    }
    text.family(
        "tasks",
        Kind::Gauge,
        "Tasks on record, by procedure and status",
        counts.into_iter().map(|((procedure, status), count)| {
            let labels = vec![("procedure", procedure), ("status", status.as_str())];
            (labels, number(count))
        }),
    );
    text.family(
        "tasks_failed",
        Kind::Gauge,
        "Failed tasks on record, by procedure and reason",
        reasons.into_iter().map(|((procedure, reason), count)| {
            let labels = vec![("procedure", procedure), ("reason", reason)];
            (labels, number(count))
        }),
    );
    text.one(
        "tasks_held",
        Kind::Gauge,
        "Tasks whose jobs will not start by themselves",
        number(held),
    );
    text.one(
        "tasks_in_doubt",
        Kind::Gauge,
        "Tasks of which nobody knows whether their job was accepted",
        number(doubted),
    );
    text.family(
        "oldest_pending_timestamp_seconds",
        Kind::Gauge,
        "When the oldest pending task was submitted, by procedure",
        oldest
            .into_iter()
            .map(|(procedure, at)| (vec![("procedure", procedure)], seconds(at))),
    );
    let stops = safety::stopped_by(&state.meta.baselines);
    text.one(
        "safety_stop",
        Kind::Gauge,
        "1 if the last run submitted nothing because the data looks wrong",
        f64::from(u8::from(!stops.is_empty())),
    );
}

fn of_pauses(text: &mut Text, dag: &ProcedureDag, control: &Control) {
    let mut paused: BTreeMap<&str, u8> = dag
        .iter()
        .map(|(_, procedure)| (&*procedure.name, 0))
        .collect();
    for (name, _) in control.pauses() {
        if let Some(name) = name {
            paused.insert(name, 1);
        }
    }
    text.one(
        "study_paused",
        Kind::Gauge,
        "1 if the whole study is paused",
        f64::from(u8::from(control.study.paused.is_some())),
    );
    text.family(
        "procedure_paused",
        Kind::Gauge,
        "1 if a procedure is paused, by a person or because its jobs failed",
        paused
            .into_iter()
            .map(|(procedure, value)| (vec![("procedure", procedure)], f64::from(value))),
    );
}

fn of_runs(text: &mut Text, memory: &Memory) {
    if let Some(run) = &memory.last_run {
        text.one(
            "last_run_timestamp_seconds",
            Kind::Gauge,
            "When the last run ended, however it did",
            seconds(run.ended_at),
        );
        text.one(
            "last_run_duration_seconds",
            Kind::Gauge,
            "How long the last run took",
            run.seconds,
        );
        text.one(
            "last_run_exit_code",
            Kind::Gauge,
            "The last run's exit code",
            f64::from(run.exit),
        );
    }
    if let Some(at) = memory.last_good_run {
        text.one(
            "last_good_run_timestamp_seconds",
            Kind::Gauge,
            "When the last run ended that had exit code 0",
            seconds(at),
        );
    }
    let codes: Vec<(String, u64)> = memory
        .sums
        .runs
        .iter()
        .map(|(code, count)| (code.to_string(), *count))
        .collect();
    text.family(
        "runs_total",
        Kind::Counter,
        "Runs, by exit code",
        codes
            .iter()
            .map(|(code, count)| (vec![("exit_code", code.as_str())], *count as f64)),
    );
    for (name, help, count) in [
        (
            "submissions_total",
            "Tasks that were submitted and accepted",
            memory.sums.submitted,
        ),
        (
            "submissions_refused_total",
            "Tasks that were refused or had no script, once for each run",
            memory.sums.refused,
        ),
        (
            "submissions_in_doubt_total",
            "Submissions that ended without a clear answer",
            memory.sums.in_doubt,
        ),
        (
            "digests_undelivered_total",
            "Digests that could not be handed over",
            memory.sums.undelivered,
        ),
    ] {
        text.one(name, Kind::Counter, help, count as f64);
    }
    text.one(
        "slurm_unreachable_calls",
        Kind::Gauge,
        "Calls in a row that Slurm did not answer",
        f64::from(memory.unreachable_in_a_row),
    );
}

/// What the last run of the whole study found.
fn of_survey(text: &mut Text, memory: &Memory) {
    let Some(survey) = &memory.survey else {
        return;
    };
    text.one(
        "sessions",
        Kind::Gauge,
        "Sessions that the last run of the whole study found",
        number(survey.figures.sessions),
    );
    text.one(
        "survey_timestamp_seconds",
        Kind::Gauge,
        "When that run ended",
        seconds(survey.at),
    );
    let decisions = survey.figures.decisions.iter();
    text.family(
        "decisions",
        Kind::Gauge,
        "Tasks by what that run decided about them",
        decisions.flat_map(|(procedure, counts)| {
            Standing::ALL.into_iter().filter_map(move |standing| {
                let word = standing.as_str();
                let count = *counts.get(word)?;
                let labels = vec![("procedure", procedure.as_str()), ("decision", word)];
                Some((labels, number(count)))
            })
        }),
    );
}

fn seconds(at: DateTime<Utc>) -> f64 {
    // Exact to the millisecond for thousands of years.
    at.timestamp_millis() as f64 / 1000.0
}

/// Counts are far below 2^53.
fn number(count: usize) -> f64 {
    count as f64
}
#[cfg(test)]
mod tests;
