//! Gathers a report: from configuration, state, attempts, sessions, decisions, outputs, logs, scripts and
//! the audit log. Reads only.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::details::Details;
use super::report::{FORMAT, Logs, Orphans, Report, Study, TaskDetail, UnreadableItem};
use super::summary::{self, Selected};
use super::{Part, attention, health, inputs, logs};
use crate::base::regular::error_text;
use crate::decide::manifest::{Decision, Manifest, Planned, Selection, Skip};
use crate::executor::{ExecutorError, JobReport};
use crate::gather::completion::probe::Probe;
use crate::gather::disk::Unreadable;
use crate::gather::sessions::discover::Discovery;
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, name_of_study};
use crate::model::state::{State, TaskRow};
use crate::show::efficiency::efficiency;
use crate::show::failures::patterns::Patterns;
use crate::show::graph::Graph;
use crate::show::progress::{Progress, progress};
use crate::store::audit_log;

/// Holds what a report is made of.
pub struct Input<'a> {
    pub config: &'a Config,
    pub project: &'a str,
    pub now: DateTime<Utc>,
    pub parts: &'static [Part],
    pub selection: &'a Selection,
    /// The selection as it was typed; none: everything.
    pub selection_text: Option<String>,
    /// Tell of every task's markers, also of complete ones.
    pub all_markers: bool,
    /// Read the logs of running and complete tasks, too.
    pub all_logs: bool,
    pub state: &'a State,
    /// Earlier attempts.
    pub attempts: &'a [TaskRow],
    pub found: &'a Discovery,
    /// Empty if the tasks were not asked for.
    pub manifest: &'a Manifest,
    /// None if the tasks were not asked for.
    pub probe: Option<&'a Probe>,
    /// Living jobs; none: not asked, or no answer.
    pub queue: Option<&'a [JobReport]>,
    pub patterns: &'a Patterns,
    pub find_script: &'a dyn Fn(&str) -> Result<PathBuf, ExecutorError>,
    /// What could not be read on the way here.
    pub unreadable: Vec<UnreadableItem>,
    /// Called after each session, task or log that was looked at.
    pub tick: &'a (dyn Fn() + Sync),
}

/// Makes the report.
pub fn collect(input: Input<'_>) -> Report {
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
        let log_dir = config.slurm.log_dir.as_deref();
        let (all, patterns) = (input.all_logs, input.patterns);
        let threads = config.scan_threads;
        logs::read(&selected.rows, all, log_dir, patterns, threads, input.tick)
    });
    let (mut tasks, numbers) = details(&input, &selected);
    let logs = read_logs.map(|read| hand_out(read, &mut tasks, &mut unreadable));
    let job = |task: &Planned| input.state.get(&task.key)?.job_id.clone();
    let matrix = summary::matrix(&selected, &|number| numbers.get(&number).copied(), &job);
    let dicom = has(Part::Dicom).then(|| {
        let (least, threads) = (config.audit.dicom_min_files, config.scan_threads);
        inputs::dicom(&selected.sessions, least, threads, input.tick)
    });
    let progress = has(Part::Tasks).then(|| progress_of(&input, &selected, &mut unreadable));
    unreadable.sort();
    unreadable.dedup();
    // The selected rows, and what was tried before them.
    let rows = |part| selected.rows.iter().copied().filter(move |_| has(part));
    let attempts = |part| {
        let earlier = input.attempts.iter().filter(move |_| has(part));
        rows(part).chain(earlier.filter(|row| selected.has(row)))
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
        health: health::summary(matrix.sessions.iter().map(|row| row.health)),
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
        scripts: inputs::scripts(chosen, input.find_script, has_directives),
        failures: attention::failures(&tasks, rows(Part::Tasks), attempts(Part::Tasks), dag),
        pipeline: Graph::new(selected.tasks.iter().copied(), dag),
        tasks,
        efficiency: efficiency(attempts(Part::Efficiency), dag),
        progress: progress.flatten(),
        trend: None,
        unreadable,
    }
}

/// Lists what was left out on the way here, by the decisions and by the search for sessions.
fn unreadable(input: &Input<'_>, selected: &Selected<'_>) -> Vec<UnreadableItem> {
    let item = |part, what: &Unreadable| UnreadableItem::new(part, &what.path, &what.error);
    let mut unreadable = input.unreadable.clone();
    let tasks = selected.tasks.iter();
    unreadable.extend(tasks.filter_map(|task| match &task.decision {
        Decision::Skip(Skip::Unreadable(what)) => Some(item("outputs", what)),
        _ => None,
    }));
    let sessions = input.found.unreadable.iter();
    unreadable.extend(sessions.map(|what| item("sessions", what)));
    unreadable
}

/// Tells of the tasks that deserve a look; the place of each in the list, by its number in the manifest.
fn details(input: &Input<'_>, selected: &Selected<'_>) -> (Vec<TaskDetail>, HashMap<usize, usize>) {
    let Some(probe) = input.probe else {
        return Default::default();
    };
    let details = Details {
        config: input.config,
        state: input.state,
        probe,
        of_all: input.all_markers,
        log_dir: input.config.slurm.log_dir.as_deref(),
    };
    details.collect(selected, input.tick)
}

/// Gives each task the end of its log, and keeps the rest of what logs say.
fn hand_out(
    mut read: logs::Read,
    tasks: &mut [TaskDetail],
    unreadable: &mut Vec<UnreadableItem>,
) -> Logs {
    for task in tasks {
        let key = &task.key;
        if let Some(job) = task.job.as_mut().filter(|_| read.silent.contains(key)) {
            (job.output, job.error) = (None, None);
        }
        task.log_tail = read.tails.remove(key).unwrap_or_default();
        task.log_line = read.excerpts.remove(key);
    }
    unreadable.append(&mut read.unreadable);
    read.logs
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
        selection: input.selection_text.clone(),
    }
}

fn progress_of(
    input: &Input<'_>,
    selected: &Selected<'_>,
    unreadable: &mut Vec<UnreadableItem>,
) -> Option<Progress> {
    let log = &input.config.log_file;
    let contents = match audit_log::read(log) {
        Ok(contents) => {
            let mut contents = contents?;
            contents.leave_to_others(input.project);
            contents
        }
        Err(error) => {
            unreadable.push(UnreadableItem::new("audit_log", log, error_text(&error)));
            return None;
        }
    };
    let dag = &input.config.procedures;
    let mut backlog: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for task in selected.tasks.iter().filter(|task| goes_on(&task.decision)) {
        let name = &dag.get(task.procedure).name;
        *backlog.entry(Arc::clone(name)).or_default() += 1;
    }
    let events = contents.records.iter().filter(|event| {
        let key = &event.key;
        selected.has_task(&key.subject, &key.session, &key.procedure)
    });
    let bad = contents.bad_lines.len();
    Some(progress(events, &backlog, dag, bad, input.now))
}

/// True if a task becomes complete by itself, if all goes well.
fn goes_on(decision: &Decision) -> bool {
    match decision {
        Decision::Submit(_) => true,
        Decision::Skip(skip) => match skip {
            Skip::InFlight { .. }
            | Skip::OverLimit(_)
            | Skip::Settling { .. }
            | Skip::Renamed(_) => true,
            Skip::WaitingFor(waiting) => waiting.blocked.is_none(),
            _ => false,
        },
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
