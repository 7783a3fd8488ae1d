//! From a due task to the job that is asked for: name, arguments, environment, resources. Pure.

pub mod batch;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use sha2::{Digest, Sha256};

use crate::base::hex::hex_of_first;
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

use resources::Failed;

/// Pairs what is journalled before a submission with what is handed to the executor.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub intent: Intent,
    pub request: JobRequest,
    pub notes: Notes,
}

/// Says how a request differs from what is configured, for people and the audit log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Notes {
    /// Why the task is due. None: it was not planned.
    pub due: Option<Due>,
    /// The failure after which the rules try again.
    pub retry_of: Option<Reason>,
    /// How a retry differs from the attempt before: `--mem 32G -> 48G`.
    pub changes: Vec<String>,
    /// What was above the site's ceiling.
    pub reduced: Vec<Reduced>,
    /// True if a retry asks for other resources than a first attempt would.
    pub has_own_resources: bool,
}

/// Holds what the request needs to know of the task's past and of this run.
#[derive(Debug, Clone)]
pub struct RequestContext<'a> {
    pub project: &'a str,
    /// Of this attempt, from 1.
    pub attempt: i32,
    /// Why the attempt before failed, if it did.
    pub last_reason: Option<Reason>,
    /// The task's row, if it has one.
    pub row: Option<&'a TaskRow>,
    /// The words of the script's `#SBATCH` lines; needed for retries only.
    pub script: &'a Arguments,
    pub now: DateTime<Utc>,
    /// Makes submission ids of different processes different.
    pub run_id: &'a str,
}

/// Builds the request and its intent.
pub fn prepare(config: &Config, planned: &Planned, about: &RequestContext<'_>) -> Prepared {
    let procedure = config.procedures.get(planned.procedure);
    let key = &planned.key;
    let submission_id = config.executor.submission_id(&digits(key, about));
    let job_name = key.job_name();
    let retried = retried(procedure, planned, about.row);
    let asked = resources::ask(
        procedure,
        &config.ceiling,
        retried.as_ref().map(|(row, _, state)| Failed {
            row,
            state,
            script: about.script,
        }),
    );
    let notes = Notes {
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
        attempt: about.attempt,
        submitted_at: about.now,
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
        project: about.project.to_owned(),
        attempt: about.attempt,
        script: procedure.script.clone(),
        arguments: arguments(procedure, planned),
        env: environment(config, procedure, planned, about),
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

/// Returns what a task that is tried again by the rules brings along.
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

impl Notes {
    /// Says why and how a retry is made, without the task: `attempt 2 after out_of_memory: --mem 32G
    /// -> 48G`. None: it is no retry.
    pub fn retry_text(&self, attempt: i32) -> Option<String> {
        let mut text = format!("attempt {attempt} after {}", self.retry_of?);
        if !self.changes.is_empty() {
            text.push_str(": ");
            text.push_str(&self.changes.join(", "));
        }
        Some(text)
    }
}

/// Returns what a row remembers of the sessions that its attempt works on: labels between blanks.
fn input_sessions(sessions: &[SessionLabel]) -> Arc<str> {
    let labels: Vec<&str> = sessions.iter().map(SessionLabel::as_str).collect();
    labels.join(" ").into()
}

/// Returns where the logs of a procedure's jobs go, if the site has a log directory.
pub fn log_dir(config: &Config, procedure: &Procedure) -> Option<PathBuf> {
    let dir = config.slurm.log_dir.as_ref()?;
    Some(dir.join(&*procedure.name))
}

/// Subject scope: the subject. Session scope: subject, session (empty in a dataset without
/// sessions) and, where there is one, the DICOM path.
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

/// Returns the variables that a job sees: ours and the procedure's own ones, which win where they may be set.
fn environment(
    config: &Config,
    procedure: &Procedure,
    planned: &Planned,
    about: &RequestContext<'_>,
) -> BTreeMap<String, String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    // A procedure may see the data under other names, as in a container.
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
            Variable::Attempt => about.attempt.to_string(),
            Variable::LastReason => about.last_reason.map_or("", Reason::as_str).to_owned(),
            Variable::DicomPath => planned.dicom_path.as_deref().map(path).unwrap_or_default(),
            Variable::BidsRoot => path(&bids),
            Variable::DerivativesRoot => path(&derivatives),
            Variable::OutputDir => {
                let (subject, session) = (planned.subject.as_str(), planned.session.as_str());
                // An empty root leaves both to the script.
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

/// Makes an id that no other submission has: 16 hex digits.
fn digits(key: &TaskKey, about: &RequestContext<'_>) -> String {
    let mut hash = Sha256::new();
    for part in [
        about.project,
        &key.procedure,
        &key.subject,
        &key.session,
        about.run_id,
        &about.attempt.to_string(),
        &about.now.to_rfc3339_opts(SecondsFormat::Micros, true),
    ] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hex_of_first(8, &hash.finalize())
}

/// The word that tells a study's jobs from those of all others: `name@mark`, or the mark alone if it has no name. A
/// mark is 8 hex digits of a hash of the path that the state file had at the study's first run.
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
