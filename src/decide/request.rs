//! The job of a due task: name, arguments, environment, resources.

pub mod batch;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use sha2::{Digest, Sha256};

use crate::base::hex::{hash_of, hex_of_first};
use crate::decide::manifest::{Decision, Due, Planned, retry};
use crate::executor::JobRequest;
use crate::model::bids::SessionLabel;
use crate::model::config::Config;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{OutputRoots, Procedure, Scope, Variable, options};
use crate::model::state::{Reason, RetryState, TaskKey, TaskRow};
use crate::store::journal::Intent;

pub use batch::Batch;
pub use resources::Reduced;

use resources::RetryBase;

/// The journal's record of a submission, and the executor's request.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub intent: Intent,
    pub request: JobRequest,
    pub notes: RequestNotes,
}

/// How a request differs from the configuration, for people and the audit log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestNotes {
    /// Why the task is due; `None` if it was not planned.
    pub due: Option<Due>,
    /// The failure that is retried.
    pub retry_of: Option<Reason>,
    /// How a retry differs from the previous attempt: `--mem 32G -> 48G`.
    pub changes: Vec<String>,
    /// Values above the site's ceiling.
    pub reduced: Vec<Reduced>,
    /// True if a retry requests other resources than a first attempt.
    pub has_own_resources: bool,
}

/// The task's history and this run.
#[derive(Debug, Clone)]
pub struct RequestContext<'a> {
    pub project: &'a str,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// Why the previous attempt failed, if it did.
    pub last_reason: Option<Reason>,
    /// The task's row, if it has one.
    pub row: Option<&'a TaskRow>,
    /// The words of the script's `#SBATCH` lines; only needed for retries.
    pub script: &'a Arguments,
    pub now: DateTime<Utc>,
    /// Ensures that different processes create different submission ids.
    pub run_id: &'a str,
}

pub fn prepare(config: &Config, planned: &Planned, context: &RequestContext<'_>) -> Prepared {
    let procedure = config.procedures.get(planned.procedure);
    let key = &planned.key;
    let submission_id = config.executor.submission_id(&digits(key, context));
    let job_name = key.job_name();
    let retried = retried(procedure, planned, context.row);
    let asked = resources::ask(
        procedure,
        &config.ceiling,
        retried.as_ref().map(|(row, _, state)| RetryBase {
            row,
            state,
            script: context.script,
        }),
    );
    let notes = RequestNotes {
        due: match planned.decision {
            Decision::Submit(due) => Some(due),
            Decision::Skip(_) => None,
        },
        retry_of: retried.as_ref().map(|(_, reason, _)| *reason),
        has_own_resources: retried.is_some()
            && asked.resources != resources::ask(procedure, &config.ceiling, None).resources,
        changes: asked.changes,
        reduced: asked.reduced,
    };
    let resources = asked.resources;
    let intent = Intent {
        submission_id: submission_id.as_str().into(),
        job_name: job_name.as_str().into(),
        attempt: context.attempt,
        submitted_at: context.now,
        replaces_outputs: matches!(
            planned.decision,
            Decision::Submit(
                Due::Forced { complete: true }
                    | Due::Retry { complete: true, .. }
                    | Due::FailedBefore { complete: true }
                    | Due::Stale
                    | Due::LateInput
            )
        ),
        req_mem_mb: options::mem(&resources).and_then(|mem| i64::try_from(mem.bound()?).ok()),
        time_limit_s: options::time(&resources).and_then(|time| i64::try_from(time.bound()?).ok()),
        retry: retried.map(|(_, _, state)| state).unwrap_or_default(),
        input_sessions: planned.input_sessions.as_deref().map(input_sessions),
        key: key.clone(),
        project: None,
        state_file: None,
    };
    let request = JobRequest {
        job_name,
        submission_id,
        project: context.project.to_owned(),
        attempt: context.attempt,
        script: procedure.script.clone(),
        arguments: arguments(procedure, planned),
        env: environment(config, procedure, planned, context),
        resources,
        log_dir: log_dir(config, procedure),
        key: key.clone(),
    };
    Prepared {
        intent,
        request,
        notes,
    }
}

/// The row, reason and retry state of a retried task.
fn retried<'a>(
    procedure: &Procedure,
    planned: &Planned,
    row: Option<&'a TaskRow>,
) -> Option<(&'a TaskRow, Reason, RetryState)> {
    let Decision::Submit(Due::Retry { reason, .. }) = planned.decision else {
        return None;
    };
    let (row, rules) = row.zip(procedure.rules.retry.as_ref())?;
    Some((row, reason, retry::next(rules, row, &procedure.resources)))
}

impl RequestNotes {
    /// `attempt 2 after out_of_memory: --mem 32G -> 48G`; `None` unless it is a retry.
    pub fn retry_text(&self, attempt: i32) -> Option<String> {
        let mut text = format!("attempt {attempt} after {}", self.retry_of?);
        if !self.changes.is_empty() {
            text.push_str(": ");
            text.push_str(&self.changes.join(", "));
        }
        Some(text)
    }
}

/// The labels of the sessions that an attempt processes, separated by spaces.
fn input_sessions(sessions: &[SessionLabel]) -> Arc<str> {
    let labels: Vec<&str> = sessions.iter().map(SessionLabel::as_str).collect();
    labels.join(" ").into()
}

/// The directory of a procedure's logs, if the site has a log directory.
pub fn log_dir(config: &Config, procedure: &Procedure) -> Option<PathBuf> {
    let dir = config.slurm.log_dir.as_ref()?;
    Some(dir.join(&*procedure.name))
}

/// For subject scope, the subject; for session scope, subject, session (empty in a dataset without sessions) and the
/// DICOM path if there is one.
fn arguments(procedure: &Procedure, planned: &Planned) -> Vec<String> {
    let mut arguments = vec![planned.subject.to_string()];
    if procedure.scope == Scope::Session {
        arguments.push(planned.session.to_string());
        if let Some(path) = &planned.dicom_path {
            arguments.push(path.to_string_lossy().into_owned());
        }
    }
    arguments
}

/// A job's environment variables; the procedure's override ours where allowed.
fn environment(
    config: &Config,
    procedure: &Procedure,
    planned: &Planned,
    context: &RequestContext<'_>,
) -> BTreeMap<String, String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    // A procedure may use other paths for the data, as in a container.
    let seen = |variable: Variable, root: &Path| match procedure.env.get(variable.as_str()) {
        Some(own) => PathBuf::from(own),
        None => root.to_owned(),
    };
    let bids = seen(Variable::BidsRoot, &config.bids_root);
    let derivatives = seen(Variable::DerivativesRoot, &config.derivatives_root);
    let roots = OutputRoots {
        bids: &bids,
        derivatives: &derivatives,
    };
    let mut env = procedure.env.clone();
    for variable in Variable::ALL {
        let value = match variable {
            Variable::Subject => planned.subject.to_string(),
            Variable::Session => planned.session.to_string(),
            Variable::Procedure => procedure.name.to_string(),
            Variable::Attempt => context.attempt.to_string(),
            Variable::LastReason => context.last_reason.map_or("", Reason::as_str).to_owned(),
            Variable::DicomPath => planned.dicom_path.as_deref().map(path).unwrap_or_default(),
            Variable::BidsRoot => path(&bids),
            Variable::DerivativesRoot => path(&derivatives),
            Variable::OutputDir => {
                let (subject, session) = (planned.subject.as_str(), planned.session.as_str());
                // With an empty root, the script chooses the directory.
                match roots.root(procedure).as_os_str().is_empty() {
                    true => String::new(),
                    false => path(&roots.output(procedure, subject, session)),
                }
            }
        };
        env.insert(variable.as_str().to_owned(), value);
    }
    env
}

/// A unique id of a submission: 16 hex digits.
fn digits(key: &TaskKey, context: &RequestContext<'_>) -> String {
    let hash = hash_of([
        context.project,
        &key.procedure,
        &key.subject,
        &key.session,
        context.run_id,
        &context.attempt.to_string(),
        &context.now.to_rfc3339_opts(SecondsFormat::Micros, true),
    ]);
    hex_of_first(8, &hash)
}

/// The word that identifies a study's jobs: `name@mark`, or the mark alone if the study has no name. The mark is 8 hex
/// digits of a hash of the state file's path at the study's first run.
pub fn study_word(known: Option<String>, state_file: &std::path::Path) -> String {
    let mark = hex_of_first(
        4,
        &Sha256::digest(state_file.as_os_str().as_encoded_bytes()),
    );
    match known {
        Some(word) if word.contains('@') || word == mark => word,
        Some(name) => format!("{name}@{mark}"),
        None => mark,
    }
}
