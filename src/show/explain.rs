//! `explain`: everything known about a task, why it has its decision, and what has to happen next.
//!
//! Decides nothing: [`crate::decide::manifest`] decides, [`crate::gather::completion::explain`] checks outputs,
//! and [`crate::decide::request`] prepares the submission. The executor only finds scripts. The JSON form is
//! documented in `docs/schema/explain.schema.json`.

mod advice;
mod attempts;

use std::borrow::Cow;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::act::pass::{Decided, Pass};
use crate::base::sys::local_time;
use crate::decide::manifest::{Decision, Planned, Skip};
use crate::decide::safety::SafetyStop;
use crate::executor::JobReport;
use crate::gather::completion::explain::{Explainer, Findings};
use crate::gather::logs;
use crate::model::bids::{Dicom, Session, SessionLabel, SessionSource, SubjectLabel};
use crate::model::config::Config;
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureId, Scope, SessionsRule};
use crate::model::state::{Reason, State, TaskKey, TaskRow};
use crate::show::failures::silence;
use crate::show::tables::words::outlook_text;
use crate::show::tables::{TaskState, decision_cell, decision_text, failure_text, job_of};
use crate::store::state_file::Store;

pub use advice::{awaiting, options, remedy};
pub use attempts::{Attempt, Next, Retry, asks};

/// One subject's data, rows, jobs and decisions.
pub struct View<'a> {
    pub config: &'a Config,
    pub store: &'a Store,
    pub subject: &'a SubjectLabel,
    /// Empty if the subject exists only on record.
    pub sessions: &'a [Session],
    /// False if unreadable parts of the data may contain more sessions.
    pub is_all_read: bool,
    /// All tasks of the subject.
    pub tasks: &'a [&'a Planned],
    pub state: &'a State,
    /// From the attempts file.
    pub attempts: &'a [TaskRow],
    /// `None` if the queue did not answer.
    pub queue: Option<&'a [JobReport]>,
    /// What `run` would do now, and how.
    pub pass: &'a Pass<'a>,
    pub decided: &'a Decided,
    pub stops: &'a [SafetyStop],
    pub outputs: &'a Explainer<'a>,
    pub now: DateTime<Utc>,
}

/// The explanation of one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub key: TaskKey,
    /// `None` if the task no longer exists.
    #[serde(serialize_with = "attempts::decision")]
    pub decision: Option<TaskState>,
    /// The decision word with its reason in brackets.
    #[serde(skip)]
    pub headline: Cow<'static, str>,
    /// The decision in a sentence.
    pub text: String,
    /// The causes, down to the root, one sentence per task.
    pub because: Vec<String>,
    /// What has to happen, or what a user can do.
    pub todo: String,
    pub dicom: Option<DicomPlace>,
    pub dependencies: Vec<Needed>,
    pub outputs: Findings,
    /// The newest attempt, updated from Slurm.
    pub row: Option<Attempt>,
    /// What missing or empty logs of a failed job may mean.
    #[serde(skip)]
    pub silence: Option<String>,
    pub job: Option<LiveJob>,
    /// All attempts on record, the newest last.
    pub attempts: Vec<Attempt>,
    pub retry: Option<Retry>,
    /// `None` if no submission is expected.
    pub next: Option<Next>,
    /// Safety stops, pauses and limits that hold the task back, now or later.
    pub held_by: Vec<String>,
}

/// The expected location of a session's DICOM files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DicomPlace {
    pub path: String,
    pub exists: bool,
}

/// A task that must be complete first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Needed {
    pub procedure: String,
    pub session: String,
    pub complete: bool,
    /// The old name of `complete`.
    pub ready: bool,
    pub decision: TaskState,
    pub text: String,
    /// Down to the root.
    pub because: Vec<String>,
    /// True if one complete session is enough.
    pub any_session: bool,
}

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveJob {
    pub job_id: String,
    pub cluster: Option<String>,
    pub name: String,
    /// Slurm's state word.
    pub state: String,
    pub pending_reason: Option<String>,
    pub node_list: Option<String>,
}

impl View<'_> {
    pub fn explain(&self, planned: &Planned) -> Explanation {
        let key = &planned.key;
        let row = self.state.get(key);
        let outputs = self.outputs.findings(planned.procedure, &planned.session);
        let chain = self.chain(planned);
        let next = attempts::next_submission(self, planned, row, &outputs);
        let job = job_of(&planned.decision).and_then(|id| self.job(id, row));
        let mut explanation = Explanation {
            decision: Some(TaskState::of(&planned.decision)),
            headline: decision_cell(&planned.decision),
            text: self.why(planned),
            because: self.because(&chain),
            dicom: self.dicom(planned),
            dependencies: self.dependencies(planned),
            row: row.map(|row| self.attempt(row)),
            silence: row
                .and_then(|row| silence(row, &logs::files_of(self.config, self.store, row)?)),
            attempts: self.attempts_of(key),
            retry: row.and_then(|row| self.retry(planned.procedure, row)),
            held_by: self.held_by(planned),
            outputs,
            job,
            next,
            key: key.clone(),
            ..Explanation::default()
        };
        explanation.todo = advice::todo(self, planned, &chain, &explanation);
        explanation
    }

    /// The decision in a sentence, with details that only `explain` knows.
    fn why(&self, planned: &Planned) -> String {
        let row = self.state.get(&planned.key);
        let text = decision_text(&planned.decision);
        match &planned.decision {
            Decision::Skip(Skip::Failed {
                reason,
                attempt,
                outlook,
            }) if let Some(failure) = row.and_then(failure_text) => {
                let reason = reason.map_or("reason unknown", Reason::as_str);
                let next = outlook_text(*outlook);
                format!("failed ({reason}, attempt {attempt}): {failure}; {next}")
            }
            Decision::Skip(Skip::InFlight { .. }) => {
                if let Some(text) = awaiting(self.config, row) {
                    return text;
                }
                match row.and_then(|row| advice::of_other(self, row)) {
                    Some(other) => format!("{text}, when last seen: {other}"),
                    None if self.queue.is_none() => {
                        format!("{text}, when last seen; Slurm is not responding")
                    }
                    None => text,
                }
            }
            Decision::Skip(Skip::Complete)
                if let Some((last, next)) =
                    row.and_then(|row| self.decided.trust.check_times(row)) =>
            {
                let (last, next) = (local_time(last), local_time(next));
                format!("{text}; outputs last checked at {last}, next check after {next}")
            }
            _ => text,
        }
    }

    fn because(&self, chain: &[&Planned]) -> Vec<String> {
        let links = chain.iter();
        links
            .map(|link| format!("{}: {}", link.key, self.why(link)))
            .collect()
    }

    /// The tasks that this one waits for, down to the root.
    fn chain(&self, planned: &Planned) -> Vec<&Planned> {
        let mut chain: Vec<&Planned> = Vec::new();
        let mut at = planned;
        // Bounded by the number of procedures, because dependencies have no cycles.
        while chain.len() < self.config.procedures.len()
            && let Decision::Skip(Skip::WaitingFor(waiting)) = &at.decision
            && let Some(id) = self.config.procedures.find(&waiting.procedure)
            && let Some(next) = self.task(id, waiting.session.as_ref().unwrap_or(&at.session))
        {
            chain.push(next);
            at = next;
        }
        chain
    }

    /// A task of this subject. A procedure of subject scope has only one.
    fn task(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<&Planned> {
        let per_subject = self.config.procedures.get(procedure).scope == Scope::Subject;
        self.tasks
            .iter()
            .find(|task| task.procedure == procedure && (per_subject || task.session == *session))
            .copied()
    }

    fn dicom(&self, planned: &Planned) -> Option<DicomPlace> {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| session.session == planned.session)?;
        let (path, exists) = match &session.dicom {
            Dicom::At(path) => (path.to_path_buf(), path.symlink_metadata().is_ok()),
            // The list of sessions does not give the expected path.
            Dicom::Missing if self.sessions_file().is_some() => return None,
            Dicom::Missing => {
                let subject = self.config.dicom_root.join(&session.subject);
                (subject.join(&session.session), false)
            }
            Dicom::NotNeeded => return None,
        };
        Some(DicomPlace {
            path: path.to_string_lossy().into_owned(),
            exists,
        })
    }

    fn sessions_file(&self) -> Option<&Path> {
        match &self.config.sessions {
            SessionSource::Csv { file, .. } => Some(file),
            SessionSource::Dicom | SessionSource::Bids => None,
        }
    }

    fn dependencies(&self, planned: &Planned) -> Vec<Needed> {
        let dag = &self.config.procedures;
        let scope = dag.get(planned.procedure).scope;
        let mut all = Vec::new();
        for &(id, rule) in dag.dependencies(planned.procedure) {
            let is_of_sessions = (dag.get(id).scope, scope) == (Scope::Session, Scope::Subject);
            let of_session = |session: &Session| {
                let task = self.task(id, &session.session)?;
                // A session without DICOM files counts only if the dependency is complete there.
                (session.dicom != Dicom::Missing || self.is_ready(task)).then_some(task)
            };
            let tasks: Vec<&Planned> = match is_of_sessions {
                true => self.sessions.iter().filter_map(of_session).collect(),
                false => self.task(id, &planned.session).into_iter().collect(),
            };
            let any_session = is_of_sessions && rule == SessionsRule::Any;
            all.extend(tasks.into_iter().map(|task| self.needed(task, any_session)));
        }
        all
    }

    fn needed(&self, task: &Planned, any_session: bool) -> Needed {
        let key = &task.key;
        let is_complete = self.is_ready(task);
        Needed {
            procedure: key.procedure.to_string(),
            session: key.session.to_string(),
            complete: is_complete,
            ready: is_complete,
            decision: TaskState::of(&task.decision),
            text: self.why(task),
            because: self.because(&self.chain(task)),
            any_session,
        }
    }

    /// True if dependent tasks may start.
    fn is_ready(&self, task: &Planned) -> bool {
        let state = TaskState::of(&task.decision);
        matches!(state, TaskState::Complete | TaskState::NotApplicable)
    }

    /// A job in the queue. `row`: the task's, whose cluster counts if it has this job.
    fn job(&self, id: &JobId, row: Option<&TaskRow>) -> Option<LiveJob> {
        let own = row.filter(|row| row.job_id.as_ref() == Some(id));
        let cluster = own.and_then(|row| row.facts.cluster.as_deref());
        let mut jobs = self.queue?.iter();
        let job = jobs.find(|job| {
            job.id == *id && (cluster.is_none() || job.facts.cluster.as_deref() == cluster)
        })?;
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        Some(LiveJob {
            job_id: job.id.to_string(),
            cluster: text(&job.facts.cluster),
            name: job.name.clone(),
            state: text(&job.facts.slurm_state).unwrap_or_else(|| format!("{:?}", job.phase)),
            pending_reason: job.pending_reason.clone().filter(|reason| reason != "None"),
            node_list: text(&job.facts.node_list),
        })
    }
}
