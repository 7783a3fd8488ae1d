//! Files for monitoring: the heartbeat, and figures in the text format of Prometheus (version 0.0.4). Pure.
//!
//! Gauges show the current state files. Figures that only a run knows come from the last run.
//! Times are timestamps, not ages, because the file is read long after it was written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::{Invocation, Memory, Study};
use crate::decide::safety;
use crate::model::job::name_of_study;
use crate::model::procedure::ProcedureDag;
use crate::model::state::{Reason, State, TaskStatus};
use crate::show::tables::utc_time;
use crate::store::control::Control;

/// The version of the heartbeat's format (`docs/output.md`). Raised when a key changes its meaning or is removed.
const HEARTBEAT_FORMAT: u32 = 1;

/// Text that every heartbeat contains.
pub const HEARTBEAT_MARK: &str = "\"last_good_run\"";

/// Text that every metrics file contains.
pub const MARK: &str = "snbb_scheduler_build_info";

/// The heartbeat: a small JSON file from which a watchdog sees that runs take place.
pub fn heartbeat(study: &Study<'_>, call: &Invocation) -> Vec<u8> {
    let figures = call.figures.as_ref();
    let tasks = study.state.map(|state| {
        let counts = TaskStatus::ALL.map(|status| (status.as_str(), state.count(status)));
        BTreeMap::from(counts)
    });
    let heartbeat = json!({
        "format": HEARTBEAT_FORMAT,
        "time": utc_time(call.ended_at),
        // The same time for shell scripts.
        "time_s": call.ended_at.timestamp(),
        "command": call.command,
        "exit_code": call.exit.code(),
        "error": call.error,
        "started_at": utc_time(call.started_at),
        "duration_s": call.seconds(),
        "last_good_run": study.memory.last_good_run.map(utc_time),
        "host": call.host,
        "version": env!("CARGO_PKG_VERSION"),
        "sessions": figures.map(|figures| figures.sessions),
        "submitted": figures.map(|figures| figures.submitted),
        "refused": figures.map(|figures| figures.refused()),
        "in_doubt": figures.map(|figures| figures.in_doubt),
        "tasks": tasks,
    });
    format!("{heartbeat:#}\n").into_bytes()
}

/// The metrics. `has_runs` is false if runs are not recorded, so that their totals are unknown.
pub fn render(study: &Study<'_>, has_runs: bool) -> String {
    let (out, project) = (String::new(), escaped(name_of_study(study.project)));
    let mut text = Text { out, project };
    let help = "Version of the program that wrote these metrics; the value is always 1";
    let version = [([env!("CARGO_PKG_VERSION")], 1.0)];
    text.family("build_info", help, ["version"], version);
    let is_readable = study.state.is_some() && study.control.is_some();
    let help = "1 if the state files could be read";
    text.one("state_readable", help, f64::from(is_readable));
    let dag = &study.config.procedures;
    if let Some(state) = study.state {
        of_rows(&mut text, dag, state);
    }
    if let Some(control) = study.control {
        of_pauses(&mut text, dag, control);
    }
    if has_runs {
        of_runs(&mut text, study.memory);
    }
    text.out
}

fn of_rows(text: &mut Text, dag: &ProcedureDag, state: &State) {
    let none = dag.iter().flat_map(|(_, procedure)| {
        TaskStatus::ALL.map(|status| ([&*procedure.name, status.as_str()], 0.0))
    });
    let mut counts: BTreeMap<[&str; 2], f64> = none.collect();
    let mut reasons: BTreeMap<[&str; 2], f64> = BTreeMap::new();
    let mut oldest: BTreeMap<[&str; 1], f64> = BTreeMap::new();
    let (mut held, mut doubted) = (0.0, 0.0);
    for row in state.rows() {
        let name = &*row.key.procedure;
        *counts.entry([name, row.status.as_str()]).or_default() += 1.0;
        if row.status == TaskStatus::Failed {
            *reasons.entry([name, row.reason_word()]).or_default() += 1.0;
        }
        if row.status == TaskStatus::Pending
            && let Some(at) = row.submitted_at.map(seconds)
        {
            let first = oldest.entry([name]).or_insert(at);
            *first = at.min(*first);
        }
        held += f64::from(row.is_in_flight() && row.reason == Some(Reason::Held));
        doubted += f64::from(row.is_in_doubt());
    }
    let help = "Tasks on record, by procedure and status";
    text.family("tasks", help, ["procedure", "status"], counts);
    let help = "Failed tasks on record, by procedure and reason";
    text.family("tasks_failed", help, ["procedure", "reason"], reasons);
    let help = "Tasks whose jobs are held and will not start automatically";
    text.one("tasks_held", help, held);
    let help = "Tasks of which it is not known whether Slurm accepted the job";
    text.one("tasks_in_doubt", help, doubted);
    let name = "oldest_pending_timestamp_seconds";
    let help = "Submission time of the oldest pending task, by procedure";
    text.family(name, help, ["procedure"], oldest);
    let is_stopped = !safety::stopped_by(&state.meta.baselines).is_empty();
    let help = "1 if a safety stop kept the last run from submitting";
    text.one("safety_stop", help, f64::from(is_stopped));
}

fn of_pauses(text: &mut Text, dag: &ProcedureDag, control: &Control) {
    let procedures = dag.iter().map(|(_, procedure)| ([&*procedure.name], 0.0));
    let mut paused: BTreeMap<[&str; 1], f64> = procedures.collect();
    paused.extend(
        control
            .pauses()
            .filter_map(|(name, _)| Some(([&**name?], 1.0))),
    );
    let is_paused = f64::from(control.study.paused.is_some());
    text.one("study_paused", "1 if the whole study is paused", is_paused);
    let help = "1 if a procedure is paused, by a user or by the circuit breaker";
    text.family("procedure_paused", help, ["procedure"], paused);
}

fn of_runs(text: &mut Text, memory: &Memory) {
    if let Some(run) = &memory.last_run {
        let help = "End of the last run, successful or not";
        text.one("last_run_timestamp_seconds", help, seconds(run.ended_at));
        let help = "Duration of the last run";
        text.one("last_run_duration_seconds", help, run.seconds);
        let help = "Exit code of the last run";
        text.one("last_run_exit_code", help, run.exit.into());
    }
    if let Some(at) = memory.last_good_run {
        let help = "End of the last run with exit code 0";
        text.one("last_good_run_timestamp_seconds", help, seconds(at));
    }
    let sums = &memory.sums;
    let runs = sums.runs.iter().map(|(code, n)| ([code], *n as f64));
    text.family("runs_total", "Runs, by exit code", ["exit_code"], runs);
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
    let count = memory.unreachable_in_a_row.into();
    text.one("slurm_unreachable_calls", help, count);
    let Some(survey) = &memory.survey else {
        return;
    };
    let help = "Sessions that the last run of the whole study found";
    text.one("sessions", help, survey.figures.sessions as f64);
    let help = "End of the last run of the whole study";
    text.one("survey_timestamp_seconds", help, seconds(survey.at));
    let decisions = survey.figures.decisions.iter();
    let decisions = decisions.flat_map(|(procedure, counts)| {
        let counts = counts.iter();
        counts.map(move |(word, count)| ([procedure, word], *count as f64))
    });
    let help = "Tasks by decision of the last run of the whole study";
    text.family("decisions", help, ["procedure", "decision"], decisions);
}

fn seconds(at: DateTime<Utc>) -> f64 {
    // Exact to the millisecond for thousands of years.
    at.timestamp_millis() as f64 / 1000.0
}

const PREFIX: &str = "snbb_scheduler_";

/// A metrics file in the making: families of samples with labels. Each family's name is written once.
#[derive(Debug)]
struct Text {
    out: String,
    /// A label of each sample, because files of several studies may be read together.
    project: String,
}

impl Text {
    /// Adds a family, unless it has no samples. Writing to a `String` cannot fail.
    fn family<const N: usize, T: ToString>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; N],
        samples: impl IntoIterator<Item = ([T; N], f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match name.ends_with("_total") {
            true => "counter",
            false => "gauge",
        };
        let _ = writeln!(self.out, "# HELP {PREFIX}{name} {help}");
        let _ = writeln!(self.out, "# TYPE {PREFIX}{name} {kind}");
        for (values, sample) in samples {
            let _ = write!(self.out, "{PREFIX}{name}{{project=\"{}\"", self.project);
            for (label, value) in labels.iter().zip(values) {
                let _ = write!(self.out, ",{label}=\"{}\"", escaped(&value.to_string()));
            }
            let _ = writeln!(self.out, "}} {sample}");
        }
    }

    /// Adds a family with one sample and no further labels.
    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.family::<0, &str>(name, help, [], [([], value)]);
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
