//! The attempts of a task: those on record, the automatic retry of a failed one, and the next submission with its exact
//! command line; and rows whose task no longer exists, about which there is no decision.

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::{Explanation, View, advice};
use crate::act::clean::{Labels, OrphanCause};
use crate::act::pass::AttemptNumbers;
use crate::base::shell;
use crate::decide::manifest::{Decision, Due, Outlook, Planned, Skip, retry};
use crate::decide::request::Prepared;
use crate::executor::JobRequest;
use crate::executor::script::header_of;
use crate::gather::completion::Completion;
use crate::gather::completion::explain::Findings;
use crate::gather::logs;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{ProcedureId, Resources};
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::failures::patterns::Patterns;
use crate::show::failures::{excerpt, silence};
use crate::show::tables::words::{outlook_text, pause_text};
use crate::show::tables::{TaskState, decision_text, row_json, row_text, used_text};

/// One attempt of the task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub text: String,
    /// Used and requested resources.
    pub used: Option<String>,
    pub log_path: Option<String>,
    #[serde(flatten, serialize_with = "columns")]
    pub row: TaskRow,
}

fn columns<S: Serializer>(row: &TaskRow, serializer: S) -> Result<S::Ok, S::Error> {
    let names = "status reason job_id cluster submitted_at started_at ended_at \
        updated_at node_list exit_code slurm_state req_mem_mb max_rss_mb time_limit_s elapsed_s";
    row_json(row, names).serialize(serializer)
}

/// The automatic retry of a failed task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    pub text: String,
    /// True if it will be retried automatically.
    pub automatic: bool,
    /// Not before this time.
    pub at: Option<DateTime<Utc>>,
    pub attempts_used: u32,
    /// `None` if the procedure has no `retry` rules.
    pub attempts_allowed: Option<u32>,
    pub infrastructure_used: u32,
    pub infrastructure_allowed: Option<u32>,
}

/// Replaces the decision word of a task.
const GONE: &str = "gone";

impl View<'_> {
    /// All attempts on record, the row's last.
    pub(super) fn attempts_of(&self, key: &TaskKey) -> Vec<Attempt> {
        let mut rows: Vec<&TaskRow> = Vec::new();
        let all = self.attempts.iter().chain(self.state.superseded());
        for row in all.chain(self.state.get(key)).filter(|row| row.key == *key) {
            // An interrupted save leaves an attempt in both files.
            rows.retain(|known| {
                known.submission_id.is_none() || known.submission_id != row.submission_id
            });
            rows.push(row);
        }
        rows.sort_by_key(|row| (row.attempt.unwrap_or(1), row.submitted_at));
        rows.into_iter().map(|row| self.attempt(row)).collect()
    }

    /// The log of a failed attempt is the file with the log excerpt.
    pub(super) fn attempt(&self, row: &TaskRow) -> Attempt {
        let files = logs::files_of(self.config, self.store, row);
        let log = files.as_ref().map(|files| match row.status {
            TaskStatus::Failed => excerpt(files, &Patterns::for_config(self.config))
                .map_or(&*files.error, |(path, _)| path),
            _ => &*files.output,
        });
        Attempt {
            attempt: row.attempt.unwrap_or(1),
            text: row_text(row),
            used: used_text(row),
            log_path: log.map(|path| path.to_string_lossy().into_owned()),
            row: row.clone(),
        }
    }

    pub(super) fn outlook(&self, procedure: ProcedureId, row: &TaskRow) -> Outlook {
        let rules = self.config.procedures.get(procedure).rules.retry.as_ref();
        retry::outlook(rules, row, self.state.meta.owner_uid, self.now)
    }

    pub(super) fn retry(&self, procedure: ProcedureId, row: &TaskRow) -> Option<Retry> {
        if row.status != TaskStatus::Failed {
            return None;
        }
        let rules = self.config.procedures.get(procedure).rules.retry.as_ref();
        let outlook = self.outlook(procedure, row);
        Some(Retry {
            text: outlook_text(outlook),
            automatic: outlook.is_retry(),
            at: match outlook {
                Outlook::At(at) => Some(at),
                _ => None,
            },
            attempts_used: row.retry.attempts(),
            attempts_allowed: rules.map(|rules| rules.max_attempts),
            infrastructure_used: row.retry.infrastructure,
            infrastructure_allowed: rules.map(|rules| rules.max_infrastructure),
        })
    }

    /// The subject's rows whose task no longer exists.
    pub fn rows_without_task(&self) -> Vec<&TaskRow> {
        let has_task = |row: &TaskRow| self.tasks.iter().any(|task| task.key == row.key);
        let rows = self.state.rows().iter();
        let own = rows.filter(|row| *row.key.subject == *self.subject.as_str());
        own.filter(|row| !has_task(row)).collect()
    }

    pub fn explain_row(&self, row: &TaskRow) -> Explanation {
        let key = &row.key;
        let (text, advice) = self.missing_text(key);
        let todo = match row.is_in_flight() {
            true => advice::of_removed_task(self, row),
            false => advice,
        };
        let job = row.job_id.as_ref().filter(|_| row.is_in_flight());
        // The location of the outputs of a removed procedure is unknown.
        let task = self
            .config
            .procedures
            .find(&key.procedure)
            .zip(key.labels());
        let outputs = task.map(|(id, (_, session))| self.outputs.findings(id, &session));
        Explanation {
            key: key.clone(),
            headline: GONE.into(),
            text,
            todo,
            outputs: outputs.unwrap_or_default(),
            row: Some(self.attempt(row)),
            silence: logs::files_of(self.config, self.store, row)
                .and_then(|files| silence(row, &files)),
            job: job.and_then(|id| self.job(id, Some(row))),
            attempts: self.attempts_of(key),
            ..Explanation::default()
        }
    }

    /// The safety stops, the pause and the exhausted limits, whether the task is due or not.
    pub(super) fn held_by(&self, planned: &Planned) -> Vec<String> {
        if is_over(&planned.decision) {
            return Vec::new();
        }
        let stops = self.stops.iter();
        let mut held: Vec<String> = stops
            .map(|stop| format!("safety stop: {}", stop.message))
            .collect();
        let procedure = self.config.procedures.get(planned.procedure);
        let control = &self.decided.pauses.control;
        if let Some(pause) = control.pause_of(&procedure.name) {
            let what = match &control.study.paused {
                Some(_) => "study",
                None => "procedure",
            };
            held.push(format!("the {what} is {}", pause_text(pause)));
        }
        if let Decision::Skip(Skip::OverLimit(_)) = &planned.decision {
            held.push(decision_text(&planned.decision));
        }
        let flying = |of: Option<&str>| {
            let rows = self.state.rows().iter().filter(|row| row.is_in_flight());
            rows.filter(|row| of.is_none_or(|name| *row.key.procedure == *name))
                .count()
        };
        let own = procedure.rules.max_in_flight;
        for (limit, of, name) in [
            (self.config.max_in_flight, None, "max_in_flight"),
            (own, Some(&*procedure.name), "the procedure's max_in_flight"),
        ] {
            if let Some(limit) = limit
                && flying(of) >= limit
            {
                held.push(format!("{name}: {} of {limit} are in flight", flying(of)));
            }
        }
        held
    }

    /// What is missing, and the remedy.
    fn missing_text(&self, key: &TaskKey) -> (String, String) {
        let archive = "otherwise archive old rows: snbb-scheduler clean --rows --older-than 90d";
        let here = match self.is_all_read {
            true => "is missing from the data (renamed or moved?)",
            false => "was not found in the data, parts of which cannot be read",
        };
        let cause = Labels::of(self.sessions).cause(key, &self.config.procedures);
        let (what, todo) = match cause {
            Some(OrphanCause::Procedure) => (
                format!("{} is not in the configuration", key.procedure),
                format!("add the procedure to the configuration again if you need it; {archive}"),
            ),
            Some(OrphanCause::Session) => (
                format!("{} {here}", key.labels_text()),
                format!("restore the directory's name if it was renamed; {archive}"),
            ),
            Some(OrphanCause::Scope) | None => (
                format!(
                    "{} no longer has such a task (was its scope changed?)",
                    key.procedure
                ),
                "nothing; the row is only a record".to_owned(),
            ),
        };
        (format!("{what}, but the state has a row for it"), todo)
    }
}

pub(super) fn decision<S: Serializer>(
    decision: &Option<TaskState>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(decision.map_or(GONE, TaskState::as_str))
}

/// The submission that `run` would make next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    pub attempt: i32,
    /// The resource request as options of sbatch.
    pub asks: Vec<String>,
    /// Differences from the previous attempt.
    pub changes: Vec<String>,
    /// Values that were reduced to the site's maximum.
    pub reduced: Vec<String>,
    /// Size of the job array it is part of.
    pub array_tasks: Option<usize>,
    /// Quoted for a shell. The id in `--comment` differs in each submission.
    pub command: String,
    /// Why the script cannot be submitted.
    pub script_problem: Option<String>,
}

/// The submission of this task if it were due now. `None` if it is complete, in flight or without input.
pub(super) fn next_submission(
    view: &View<'_>,
    planned: &Planned,
    row: Option<&TaskRow>,
    outputs: &Findings,
) -> Option<Next> {
    let planned = Planned {
        decision: Decision::Submit(due(view, planned, row, outputs)?),
        ..planned.clone()
    };
    let procedure = view.config.procedures.get(planned.procedure);
    let script = view.pass.executor.find_script(&procedure.script);
    let is_retry = matches!(planned.decision, Decision::Submit(Due::Retry { .. }));
    let header = match &script {
        Ok(path) if is_retry => header_of(path),
        _ => Arguments::default(),
    };
    let history = AttemptNumbers::new(view.attempts, view.state);
    let prepared = (view.pass).request(&planned, &history, view.state, &header, view.now);
    let is_own = |task: &Prepared| task.request.key == prepared.request.key;
    let mut batches = view.decided.batches.iter();
    let own = batches.find(|batch| batch.tasks.iter().any(is_own));
    let array = own.and_then(|own| Some((own.array.as_ref()?, &own.tasks)));
    let requests: Vec<&JobRequest> = match array {
        Some((_, tasks)) => tasks.iter().map(|task| &task.request).collect(),
        None => vec![&prepared.request],
    };
    let line = view
        .pass
        .executor
        .command_line(&requests, array.map(|(array, _)| array));
    Some(Next {
        attempt: prepared.intent.attempt,
        array_tasks: array.map(|(_, tasks)| tasks.len()),
        asks: match view.config.executor.has_cluster() {
            true => asks(&prepared.request.resources),
            false => Vec::new(),
        },
        changes: prepared.notes.changes,
        reduced: prepared.notes.reduced,
        command: shell::join(&line),
        script_problem: script.err().map(|error| error.with_hint()),
    })
}

fn due(
    view: &View<'_>,
    planned: &Planned,
    row: Option<&TaskRow>,
    outputs: &Findings,
) -> Option<Due> {
    match &planned.decision {
        Decision::Submit(due) => return Some(*due),
        Decision::Skip(Skip::NoDicom | Skip::NotSelected) => return None,
        other if is_over(other) => return None,
        _ => {}
    }
    let row = row.filter(|row| view.outlook(planned.procedure, row).is_retry());
    Some(match row.and_then(|row| row.reason) {
        Some(reason) => Due::Retry {
            reason,
            complete: outputs.verdict == Completion::Complete,
        },
        None => Due::New,
    })
}

/// True if no submission follows from this decision: the task has a job, is complete or is left out.
fn is_over(decision: &Decision) -> bool {
    use TaskState::{Complete, Excluded, NotApplicable, Pending, Running};
    let state = TaskState::of(decision);
    matches!(
        state,
        Running | Pending | Complete | Excluded | NotApplicable
    )
}

/// A resource request as options of sbatch.
pub fn asks(resources: &Resources) -> Vec<String> {
    let named = resources
        .named()
        .map(|(name, value)| format!("--{name}={value}"));
    let requeue = resources.no_requeue.then(|| "--no-requeue".to_owned());
    let further = resources.sbatch_args.words().cloned();
    named.chain(requeue).chain(further).collect()
}
