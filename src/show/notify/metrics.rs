//! Figures in the text format of Prometheus. Pure.
//!
//! Gauges show the current state files. Figures that only a run knows come from the last run.
//! Times are timestamps, not ages, because the file is read long after it was written.

mod text;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Memory;
use crate::decide::safety;
use crate::model::job::name_of_study;
use crate::model::procedure::ProcedureDag;
use crate::model::state::{Reason, State, TaskStatus};
use crate::show::tables::TaskState;
use crate::store::control::Control;
use text::Text;

/// The sources of the figures.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub project: &'a str,
    pub dag: &'a ProcedureDag,
    /// `None` if it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    /// `None` if no run was recorded, so that its totals are unknown.
    pub memory: Option<&'a Memory>,
}

/// Text that every metrics file contains.
pub const MARK: &str = "snbb_scheduler_build_info";

/// The content of the file.
pub fn render(sources: &Sources<'_>) -> String {
    let mut text = Text::new(name_of_study(sources.project));
    let version = [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)];
    text.family(
        "build_info",
        "Version of the program that wrote these metrics; the value is always 1",
        version,
    );
    let is_readable = sources.state.is_some() && sources.control.is_some();
    let help = "1 if the state files could be read";
    text.one("state_readable", help, flag(is_readable));
    if let Some(state) = sources.state {
        of_rows(&mut text, sources.dag, state);
    }
    if let Some(control) = sources.control {
        of_pauses(&mut text, sources.dag, control);
    }
    if let Some(memory) = sources.memory {
        of_runs(&mut text, memory);
        of_survey(&mut text, memory);
    }
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
    let (mut held, mut doubted) = (0_usize, 0_usize);
    for row in state.rows() {
        let name = &*row.key.procedure;
        *counts.entry((name, row.status)).or_default() += 1;
        if row.status == TaskStatus::Failed {
            *reasons.entry((name, row.reason_word())).or_default() += 1;
        }
        if row.status == TaskStatus::Pending
            && let Some(at) = row.submitted_at
        {
            let first = oldest.entry(name).or_insert(at);
            *first = at.min(*first);
        }
        held += usize::from(row.is_in_flight() && row.reason == Some(Reason::Held));
        doubted += usize::from(row.is_in_doubt());
    }
    let counts = counts.into_iter().map(|((procedure, status), count)| {
        let labels = vec![("procedure", procedure), ("status", status.as_str())];
        (labels, count as f64)
    });
    text.family("tasks", "Tasks on record, by procedure and status", counts);
    let reasons = reasons.into_iter().map(|((procedure, reason), count)| {
        let labels = vec![("procedure", procedure), ("reason", reason)];
        (labels, count as f64)
    });
    let help = "Failed tasks on record, by procedure and reason";
    text.family("tasks_failed", help, reasons);
    let help = "Tasks whose jobs are held and will not start automatically";
    text.one("tasks_held", help, held as f64);
    let help = "Tasks of which it is not known whether Slurm accepted the job";
    text.one("tasks_in_doubt", help, doubted as f64);
    let oldest = oldest.into_iter();
    let oldest = oldest.map(|(name, at)| (vec![("procedure", name)], seconds(at)));
    let help = "Submission time of the oldest pending task, by procedure";
    text.family("oldest_pending_timestamp_seconds", help, oldest);
    let is_stopped = !safety::stopped_by(&state.meta.baselines).is_empty();
    let help = "1 if a safety stop kept the last run from submitting";
    text.one("safety_stop", help, flag(is_stopped));
}

fn of_pauses(text: &mut Text, dag: &ProcedureDag, control: &Control) {
    let procedures = dag.iter().map(|(_, procedure)| (&*procedure.name, false));
    let mut paused: BTreeMap<&str, bool> = procedures.collect();
    for (name, _) in control.pauses() {
        if let Some(name) = name {
            paused.insert(name, true);
        }
    }
    let is_paused = flag(control.study.paused.is_some());
    text.one("study_paused", "1 if the whole study is paused", is_paused);
    let paused = paused.into_iter();
    let paused = paused.map(|(name, is_paused)| (vec![("procedure", name)], flag(is_paused)));
    let help = "1 if a procedure is paused, by a user or by the circuit breaker";
    text.family("procedure_paused", help, paused);
}

fn of_runs(text: &mut Text, memory: &Memory) {
    if let Some(run) = &memory.last_run {
        let help = "End of the last run, successful or not";
        text.one("last_run_timestamp_seconds", help, seconds(run.ended_at));
        let help = "Duration of the last run";
        text.one("last_run_duration_seconds", help, run.seconds);
        text.one(
            "last_run_exit_code",
            "Exit code of the last run",
            f64::from(run.exit),
        );
    }
    if let Some(at) = memory.last_good_run {
        let help = "End of the last run with exit code 0";
        text.one("last_good_run_timestamp_seconds", help, seconds(at));
    }
    let sums = &memory.sums;
    let runs = sums
        .runs
        .iter()
        .map(|(code, n)| (code.to_string(), *n as f64));
    let runs: Vec<(String, f64)> = runs.collect();
    let runs = runs
        .iter()
        .map(|(code, n)| (vec![("exit_code", code.as_str())], *n));
    text.family("runs_total", "Runs, by exit code", runs);
    let help = "Jobs that runs have submitted";
    text.one("submissions_total", help, sums.submitted as f64);
    let help =
        "Tasks whose submission was refused or whose script was missing, counted in each run";
    text.one("submissions_refused_total", help, sums.refused as f64);
    let help = "Submissions of which it was not known whether Slurm accepted the job";
    text.one("submissions_in_doubt_total", help, sums.in_doubt as f64);
    let help = "Notifications (digests) that could not be delivered";
    text.one("digests_undelivered_total", help, sums.undelivered as f64);
    let help = "Consecutive invocations without an answer from Slurm";
    let count = f64::from(memory.unreachable_in_a_row);
    text.one("slurm_unreachable_calls", help, count);
}

/// Figures of the last run of the whole study.
fn of_survey(text: &mut Text, memory: &Memory) {
    let Some(survey) = &memory.survey else {
        return;
    };
    let help = "Sessions that the last run of the whole study found";
    text.one("sessions", help, survey.figures.sessions as f64);
    let help = "End of the last run of the whole study";
    text.one("survey_timestamp_seconds", help, seconds(survey.at));
    let decisions = survey.figures.decisions.iter();
    let decisions = decisions.flat_map(|(procedure, counts)| {
        TaskState::ALL.into_iter().filter_map(move |state| {
            let word = state.as_str();
            let labels = vec![("procedure", procedure.as_str()), ("decision", word)];
            Some((labels, *counts.get(word)? as f64))
        })
    });
    text.family(
        "decisions",
        "Tasks by decision of the last run of the whole study",
        decisions,
    );
}

fn seconds(at: DateTime<Utc>) -> f64 {
    // Exact to the millisecond for thousands of years.
    at.timestamp_millis() as f64 / 1000.0
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}
#[cfg(test)]
mod tests;
