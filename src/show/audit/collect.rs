//! Collects a report from configuration, state, attempts, sessions, decisions, outputs, logs, scripts and
//! the audit log. Reads only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use itertools::Itertools as _;

use super::attention::Orphans;
use super::details::{JobDetail, MarkerResult, TaskDetail, marker_results};
use super::summary::{self, Selected, reason};
use super::{FORMAT, Part, Report, Study, UnreadableItem, attention, inputs, logs};
use crate::base::parallel;
use crate::base::regular::error_text;
use crate::decide::manifest::{Decision, Manifest, Planned, Selection, Skip};
use crate::executor::{ExecutorError, JobReport};
use crate::gather::completion::explain::FindingState;
use crate::gather::completion::probe::Probe;
use crate::gather::sessions::discover::Discovery;
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, name_of_study};
use crate::model::state::{State, TaskRow};
use crate::show::efficiency::efficiency;
use crate::show::failures::patterns::Patterns;
use crate::show::graph::Graph;
use crate::show::progress::{Progress, progress};
use crate::show::tables::{TaskState, decision_text, failure_text};
use crate::store::audit_log;

/// The sources of a report.
pub struct Input<'a> {
    pub config: &'a Config,
    pub project: &'a str,
    pub now: DateTime<Utc>,
    pub parts: &'static [Part],
    pub selection: &'a Selection,
    /// The selection as typed. `None` for the whole study.
    pub selection_text: Option<String>,
    /// True to include the markers of all tasks, even complete ones.
    pub all_markers: bool,
    /// True to read the logs of running and complete tasks, too.
    pub all_logs: bool,
    pub state: &'a State,
    /// Earlier attempts.
    pub attempts: &'a [TaskRow],
    pub found: &'a Discovery,
    /// Empty if the tasks were not requested.
    pub manifest: &'a Manifest,
    /// `None` if the tasks were not requested.
    pub probe: Option<&'a Probe>,
    /// `None` if the queue was not asked or did not answer.
    pub queue: Option<&'a [JobReport]>,
    /// Sources that could not be read so far.
    pub unreadable: Vec<UnreadableItem>,
    /// Called after each session, task or log.
    pub tick: &'a (dyn Fn() + Sync),
}

pub fn collect(
    input: Input<'_>,
    find_script: &dyn Fn(&str) -> Result<PathBuf, ExecutorError>,
) -> Report {
    let config = input.config;
    let dag = &config.procedures;
    let has = |part| input.parts.contains(&part);
    let selected = Selected::new(
        dag,
        input.selection,
        &input.found.sessions,
        &input.manifest.tasks,
        input.state.rows(),
    );
    let mut unreadable = unreadable(&input, &selected);
    let read_logs = has(Part::Logs).then(|| {
        let (all, patterns) = (input.all_logs, &Patterns::for_config(config));
        let (log_dir, threads) = (input.log_dir(), config.scan_threads);
        logs::read(&selected.rows, all, log_dir, patterns, threads, input.tick)
    });
    let details = input.probe.map(|probe| input.details(probe, &selected));
    let mut tasks = details.unwrap_or_default();
    let logs = read_logs.map(|mut read| {
        tasks.iter_mut().for_each(|task| read.add_to(task));
        unreadable.append(&mut read.unreadable);
        read.logs
    });
    let matrix = summary::matrix(&selected, &tasks, input.state);
    let dicom = has(Part::Dicom).then(|| {
        let (least, threads) = (config.audit.dicom_min_files, config.scan_threads);
        inputs::dicom(&selected.sessions, least, threads, input.tick)
    });
    let progress = has(Part::Tasks).then(|| progress_of(&input, &selected, &mut unreadable));
    unreadable.sort();
    unreadable.dedup();
    // The selected rows and their earlier attempts.
    let rows = |part| selected.rows.iter().copied().filter(move |_| has(part));
    let attempts = |part| {
        let earlier = input.attempts.iter().filter(move |_| has(part));
        rows(part).chain(earlier.filter(|row| selected.has(&row.key)))
    };
    let chosen = dag.iter().map(|(_, procedure)| procedure);
    let chosen = chosen.filter(|p| has(Part::Tasks) && input.selection.contains_procedure(&p.name));
    let has_directives = config.executor == ExecutorKind::Slurm;
    let stale_after = config.audit.stale_job_threshold;
    Report {
        format: FORMAT,
        study: study(&input),
        totals: summary::totals(&selected),
        procedures: summary::procedures(&selected),
        health: summary::health(matrix.sessions.iter().map(|row| row.health)),
        matrix,
        dicom,
        logs,
        stale: attention::stale(rows(Part::Tasks), stale_after, input.now),
        orphans: Orphans {
            rows: attention::orphan_rows(rows(Part::Tasks), dag, input.found),
            jobs: input
                .queue
                .map(|queue| attention::orphan_jobs(queue, input.state.rows(), input.project)),
        },
        scripts: inputs::scripts(chosen, find_script, has_directives),
        failures: attention::failures(&tasks, rows(Part::Tasks), attempts(Part::Tasks), dag),
        pipeline: Graph::new(selected.tasks.iter().copied(), dag),
        tasks,
        efficiency: efficiency(attempts(Part::Efficiency), dag),
        progress: progress.flatten(),
        trend: None,
        unreadable,
    }
}

/// Sources that could not be read, including those of decisions and sessions.
fn unreadable(input: &Input<'_>, selected: &Selected<'_>) -> Vec<UnreadableItem> {
    let outputs = selected
        .tasks
        .iter()
        .filter_map(|task| match &task.decision {
            Decision::Skip(Skip::Unreadable(what)) => Some(("outputs", &**what)),
            _ => None,
        });
    let sessions = input.found.unreadable.iter();
    let all = outputs.chain(sessions.map(|what| ("sessions", what)));
    let all = all.map(|(part, what)| UnreadableItem::new(part, &what.path, &what.error));
    input.unreadable.iter().cloned().chain(all).collect()
}

impl Input<'_> {
    /// The details in the order of the tasks.
    fn details(&self, probe: &Probe, selected: &Selected<'_>) -> Vec<TaskDetail> {
        let tasks = selected.tasks.iter().enumerate();
        let shown = tasks.filter(|(_, task)| self.is_shown(task).is_some());
        let by_subject = shown.map(|(number, task)| (&task.subject, number));
        let subjects = by_subject
            .into_group_map()
            .into_iter()
            .sorted()
            .collect_vec();
        let found = parallel::map(&subjects, self.config.scan_threads, |(subject, numbers)| {
            let outputs = probe.brief_explainer(subject);
            let details = numbers.iter().filter_map(|number| {
                let task = selected.tasks.get(*number)?;
                let results = marker_results(outputs.findings(task.procedure, &task.session));
                let has_outputs = results.iter().any(|result| {
                    matches!(result.state, FindingState::Found | FindingState::Forbidden)
                });
                (self.is_shown(task) == Some(true) || has_outputs)
                    .then(|| (*number, self.detail(task, results)))
            });
            let details: Vec<(usize, TaskDetail)> = details.collect();
            (self.tick)();
            details
        });
        let found: BTreeMap<usize, TaskDetail> = found.into_iter().flatten().collect();
        found.into_values().collect()
    }

    /// `Some(true)` if the task has details, `Some(false)` if it has them only with outputs.
    fn is_shown(&self, task: &Planned) -> Option<bool> {
        let is_known = self.state.get(&task.key).is_some();
        match &task.decision {
            _ if self.all_markers => Some(true),
            Decision::Skip(
                Skip::Complete
                | Skip::Stale(_)
                | Skip::LateInput
                | Skip::NotApplicable
                | Skip::NotSelected
                | Skip::Excluded,
            ) => None,
            Decision::Skip(Skip::InFlight { .. } | Skip::Unreadable(_)) => Some(true),
            Decision::Submit(_) | Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_)) => {
                Some(is_known)
            }
            Decision::Skip(_) => is_known.then_some(true),
        }
    }

    fn detail(&self, task: &Planned, markers: Vec<MarkerResult>) -> TaskDetail {
        let procedure = self.config.procedures.get(task.procedure);
        let output = self.config.output_roots().output(
            procedure,
            task.subject.as_str(),
            task.session.as_str(),
        );
        TaskDetail {
            key: task.key.clone(),
            decision: TaskState::of(&task.decision),
            reason: reason(&task.decision),
            text: decision_text(&task.decision),
            output_dir: output.to_string_lossy().into_owned(),
            markers,
            job: self.state.get(&task.key).map(|row| {
                let (output, error) = logs::log_files(row, self.log_dir()).unzip();
                JobDetail {
                    row: row.clone(),
                    failure: failure_text(row),
                    output,
                    error,
                }
            }),
            log_line: None,
            log_tail: Vec::new(),
        }
    }

    fn log_dir(&self) -> Option<&Path> {
        self.config.slurm.log_dir.as_deref()
    }
}

fn study(input: &Input<'_>) -> Study {
    let config = input.config;
    Study {
        project: name_of_study(input.project).to_owned(),
        created_at: input.now,
        version: env!("CARGO_PKG_VERSION"),
        parts: input.parts,
        config: config.file.as_deref().map(lossy),
        dicom_root: lossy(&config.dicom_root),
        bids_root: lossy(&config.bids_root),
        derivatives_root: lossy(&config.derivatives_root),
        state_file: lossy(&config.state_file),
        log_file: lossy(&config.log_file),
        log_dir: config.slurm.log_dir.as_deref().map(lossy),
        executor: config.executor,
        selection: input.selection_text.clone(),
    }
}

fn progress_of(
    input: &Input<'_>,
    selected: &Selected<'_>,
    unreadable: &mut Vec<UnreadableItem>,
) -> Option<Progress> {
    let log = &input.config.log_file;
    let contents = audit_log::read(log).unwrap_or_else(|error| {
        unreadable.push(UnreadableItem::new("audit_log", log, error_text(&error)));
        None
    });
    let mut contents = contents?;
    contents.remove_other_studies(input.project);
    let dag = &input.config.procedures;
    let tasks = selected.tasks.iter();
    let tasks = tasks.filter(|task| is_backlog(&task.decision));
    let backlog = tasks.counts_by(|task| Arc::clone(&task.key.procedure));
    let events = contents.records.iter();
    let events = events.filter(|event| selected.has(&event.key));
    let bad = contents.bad_lines.len();
    Some(progress(events, &backlog, dag, bad, input.now))
}

/// True if the task should become complete without a user.
fn is_backlog(decision: &Decision) -> bool {
    match decision {
        Decision::Submit(_)
        | Decision::Skip(
            Skip::InFlight { .. } | Skip::OverLimit(_) | Skip::Settling { .. } | Skip::Renamed(_),
        ) => true,
        Decision::Skip(Skip::WaitingFor(waiting)) => waiting.blocked.is_none(),
        Decision::Skip(_) => false,
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
