//! Why a task is where it is, and what would have to happen: all that is known of it, put together.
//!
//! Decides nothing: the decision is [`crate::manifest`]'s, the outputs are [`crate::completion::explain`]'s,
//! the next submission is [`crate::request`]'s. Asks the executor for scripts only. The form is that of
//! `docs/schema/explain.schema.json`.

mod advice;
mod next;

use std::borrow::Cow;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::array::Batch;
use crate::bids::{Dicom, Session, SessionLabel};
use crate::completion::explain::{Explainer, Findings, Verdict};
use crate::config::{Config, SessionSource};
use crate::executor::{Executor, JobReport};
use crate::logs;
use crate::manifest::{Decision, Limit, Outlook, Planned, Skip, retry};
use crate::pass::History;
use crate::procedure::{ProcedureId, Scope, SessionsRule};
use crate::request;
use crate::safety::Stop;
use crate::state::control::Control;
use crate::state::store::Store;
use crate::state::{State, TaskKey, TaskRow, TaskStatus};
use crate::tables::words::outlook_text;
use crate::tables::{
    decision_cell, decision_text, decision_word, failure_text, row_text, used_text,
};

pub use next::Next;

/// Holds what was found out about one subject, after a look at the queue.
pub struct View<'a> {
    pub config: &'a Config,
    pub store: &'a Store,
    /// The subject's.
    pub sessions: &'a [Session],
    /// All tasks of the subject.
    pub tasks: &'a [&'a Planned],
    pub state: &'a State,
    /// Of the attempts file.
    pub attempts: &'a [TaskRow],
    /// None: the queue did not answer.
    pub queue: Option<&'a [JobReport]>,
    pub control: &'a Control,
    /// Reasons for which `run` would submit nothing at all.
    pub stops: &'a [Stop],
    /// What `run` would submit now.
    pub batches: &'a [Batch],
    pub executor: &'a dyn Executor,
    pub outputs: &'a Explainer<'a>,
    pub project: &'a str,
    pub run_id: &'a str,
    pub now: DateTime<Utc>,
}

/// Explains one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub subject: String,
    /// Empty for tasks of subject scope.
    pub session: String,
    pub procedure: String,
    /// One of the words of `session-status`.
    pub decision: &'static str,
    /// The same with its reason in brackets.
    #[serde(skip)]
    pub headline: Cow<'static, str>,
    /// The decision in a sentence.
    pub text: String,
    /// What that comes from, down to the root: one sentence per task.
    pub because: Vec<String>,
    /// What would have to happen, or what a person can do.
    pub todo: String,
    pub dicom: Option<DicomPlace>,
    pub dependencies: Vec<Needed>,
    pub outputs: Findings,
    /// The newest attempt, as the row on record tells after a look at Slurm.
    pub row: Option<Attempt>,
    pub job: Option<LiveJob>,
    /// All attempts on record, the newest last.
    pub attempts: Vec<Attempt>,
    pub retry: Option<Retry>,
    /// The next submission. None: there is none to be expected.
    pub next: Option<Next>,
    /// What keeps a due task back now, or will.
    pub held_by: Vec<String>,
}

/// Says where a session's DICOM files are expected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DicomPlace {
    pub path: String,
    pub exists: bool,
}

/// Describes a task that must be complete first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Needed {
    pub procedure: String,
    pub session: String,
    pub ready: bool,
    pub decision: &'static str,
    pub text: String,
    /// Down to the root.
    pub because: Vec<String>,
    /// One session that is ready is enough.
    pub any_session: bool,
}

/// Describes one attempt. Sizes in MB (2^20 bytes).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub status: &'static str,
    pub reason: Option<&'static str>,
    /// Status and reason, and what a failure means.
    pub text: String,
    /// What it used of what it asked for.
    pub used: Option<String>,
    pub job_id: Option<String>,
    pub cluster: Option<String>,
    pub submitted_at: Option<DateTime<Utc>>,
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub updated_at: Option<DateTime<Utc>>,
    pub node_list: Option<String>,
    pub exit_code: Option<String>,
    pub slurm_state: Option<String>,
    pub req_mem_mb: Option<i64>,
    pub max_rss_mb: Option<i64>,
    pub time_limit_s: Option<i64>,
    pub elapsed_s: Option<i64>,
    pub log_path: Option<String>,
}

/// Holds what the queue says now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveJob {
    pub job_id: String,
    pub cluster: Option<String>,
    pub name: String,
    /// Slurm's word.
    pub state: String,
    pub pending_reason: Option<String>,
    pub node_list: Option<String>,
}

/// Says what becomes of a failed task by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    pub text: String,
    /// True if it is tried again without a person.
    pub automatic: bool,
    /// Not before this time.
    pub at: Option<DateTime<Utc>>,
    pub attempts_used: u32,
    /// None: the procedure has no `retry` rules.
    pub attempts_allowed: Option<u32>,
    pub infrastructure_used: u32,
    pub infrastructure_allowed: Option<u32>,
}

impl View<'_> {
    /// Puts together what is known of one task.
    pub fn explain(&self, planned: &Planned) -> Explanation {
        let procedure = self.config.procedures.get(planned.procedure);
        let key = request::key(self.config, planned);
        let row = self.state.get(&key);
        let outputs = self.outputs.findings(planned.procedure, &planned.session);
        let chain = self.chain(planned);
        let next = next::of(self, planned, row, &outputs);
        let job = self.live_job(planned, row);
        let mut explanation = Explanation {
            subject: key.subject.to_string(),
            session: key.session.to_string(),
            procedure: key.procedure.to_string(),
            decision: decision_word(&planned.decision),
            headline: decision_cell(&planned.decision),
            text: self.why(planned),
            because: chain.iter().map(|link| self.link(link)).collect(),
            todo: String::new(),
            dicom: self.dicom(planned),
            dependencies: self.dependencies(planned),
            row: row.map(|row| self.attempt(row)),
            attempts: self.attempts_of(&key),
            retry: row.and_then(|row| self.retry(planned.procedure, row)),
            held_by: self.held_by(&procedure.name, planned),
            outputs,
            job,
            next,
        };
        explanation.todo = advice::todo(self, planned, &chain, &explanation);
        explanation
    }

    /// Says where a task stands, and why it failed.
    fn why(&self, planned: &Planned) -> String {
        let row = self.state.get(&request::key(self.config, planned));
        match (&planned.decision, row.and_then(failure_text)) {
            (
                Decision::Skip(Skip::Failed {
                    reason,
                    attempt,
                    outlook,
                }),
                Some(failure),
            ) => {
                let reason = reason.map_or("reason unknown", |reason| reason.as_str());
                let outlook = outlook_text(*outlook);
                format!("failed ({reason}, attempt {attempt}): {failure}; {outlook}")
            }
            _ => decision_text(&planned.decision),
        }
    }

    fn link(&self, planned: &Planned) -> String {
        let key = request::key(self.config, planned);
        format!("{key}: {}", self.why(planned))
    }

    /// Follows what a task waits for, down to the root.
    fn chain(&self, planned: &Planned) -> Vec<&Planned> {
        let mut chain: Vec<&Planned> = Vec::new();
        let mut at = planned;
        // No longer than there are procedures: they cannot wait for each other in a circle.
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

    /// Finds a task of this subject; a procedure of subject scope has one.
    fn task(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<&Planned> {
        let per_subject = self.config.procedures.get(procedure).scope == Scope::Subject;
        self.tasks
            .iter()
            .find(|task| task.procedure == procedure && (per_subject || task.session == *session))
            .copied()
    }

    fn dicom(&self, planned: &Planned) -> Option<DicomPlace> {
        let session = self
            .sessions
            .iter()
            .find(|session| session.session == planned.session)?;
        let (path, exists) = match &session.dicom {
            Dicom::At(path) => (path.to_path_buf(), path.symlink_metadata().is_ok()),
            // The list of sessions does not say where they would be.
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
            let tasks: Vec<&Planned> = if is_of_sessions {
                // Sessions without DICOM files do not count.
                let counting = self.sessions.iter().filter(|s| s.dicom != Dicom::Missing);
                counting
                    .filter_map(|session| self.task(id, &session.session))
                    .collect()
            } else {
                self.task(id, &planned.session).into_iter().collect()
            };
            let any_session = is_of_sessions && rule == SessionsRule::Any;
            all.extend(tasks.into_iter().map(|task| self.needed(task, any_session)));
        }
        all
    }

    fn needed(&self, task: &Planned, any_session: bool) -> Needed {
        let key = request::key(self.config, task);
        Needed {
            procedure: key.procedure.to_string(),
            session: key.session.to_string(),
            ready: self.is_ready(task),
            decision: decision_word(&task.decision),
            text: self.why(task),
            because: self
                .chain(task)
                .iter()
                .map(|link| self.link(link))
                .collect(),
            any_session,
        }
    }

    /// True if what depends on a task may begin. Its own inputs may be gone by then.
    fn is_ready(&self, task: &Planned) -> bool {
        match decision_word(&task.decision) {
            "complete" | "not-applicable" => true,
            "waiting" | "blocked" | "no-dicom" => {
                let row = self.state.get(&request::key(self.config, task));
                let is_failed = |row: &TaskRow| {
                    row.status == TaskStatus::Failed
                        && row.reason.is_some()
                        && !self.config.resubmit_failed
                };
                let found = self.outputs.findings(task.procedure, &task.session);
                found.verdict == Verdict::Complete && !row.is_some_and(is_failed)
            }
            _ => false,
        }
    }

    fn live_job(&self, planned: &Planned, row: Option<&TaskRow>) -> Option<LiveJob> {
        let (id, cluster) = match &planned.decision {
            Decision::Skip(Skip::InFlight { job_id, .. }) => (
                job_id.as_ref()?,
                row.and_then(|row| row.facts.cluster.as_deref()),
            ),
            Decision::Skip(Skip::ForeignJob(id)) => (id, None),
            _ => return None,
        };
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

    /// Lists all attempts on record, the row's last.
    fn attempts_of(&self, key: &TaskKey) -> Vec<Attempt> {
        let mut rows: Vec<&TaskRow> = Vec::new();
        let all = self.attempts.iter().chain(self.state.superseded());
        for row in all.chain(self.state.get(key)).filter(|row| row.key == *key) {
            // A save that was cut off leaves an attempt in both files.
            rows.retain(|known| {
                known.submission_id.is_none() || known.submission_id != row.submission_id
            });
            rows.push(row);
        }
        rows.sort_by_key(|row| (row.attempt.unwrap_or(1), row.submitted_at));
        rows.into_iter().map(|row| self.attempt(row)).collect()
    }

    fn attempt(&self, row: &TaskRow) -> Attempt {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        let facts = &row.facts;
        Attempt {
            attempt: row.attempt.unwrap_or(1),
            status: row.status.as_str(),
            reason: row.reason.map(|reason| reason.as_str()),
            text: row_text(row),
            used: used_text(row),
            job_id: row.job_id.as_ref().map(ToString::to_string),
            cluster: text(&facts.cluster),
            submitted_at: row.submitted_at,
            started_at: facts.started_at,
            ended_at: facts.ended_at,
            updated_at: row.updated_at,
            node_list: text(&facts.node_list),
            exit_code: text(&facts.exit_code),
            slurm_state: text(&facts.slurm_state),
            req_mem_mb: facts.req_mem_mb,
            max_rss_mb: facts.max_rss_mb,
            time_limit_s: facts.time_limit_s,
            elapsed_s: facts.elapsed_s,
            log_path: logs::of(self.config, self.store, row)
                .map(|files| files.output.to_string_lossy().into_owned()),
        }
    }

    fn outlook(&self, procedure: ProcedureId, row: &TaskRow) -> Outlook {
        let rules = self.config.procedures.get(procedure).rules.retry.as_ref();
        retry::outlook(rules, row, self.state.meta.owner_uid, self.now)
    }

    fn retry(&self, procedure: ProcedureId, row: &TaskRow) -> Option<Retry> {
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
                Outlook::None | Outlook::Now | Outlook::Spent(_) => None,
            },
            attempts_used: row.retry.attempts(),
            attempts_allowed: rules.map(|rules| rules.max_attempts),
            infrastructure_used: row.retry.infrastructure,
            infrastructure_allowed: rules.map(|rules| rules.max_infrastructure),
        })
    }

    /// Names the safety stops, the pause, and the limits that are used up, whether the task is due or not.
    fn held_by(&self, procedure: &str, planned: &Planned) -> Vec<String> {
        let is_over = matches!(
            planned.decision,
            Decision::Skip(
                Skip::Complete
                    | Skip::Stale(_)
                    | Skip::Excluded
                    | Skip::NotApplicable
                    | Skip::InFlight { .. }
            )
        );
        if is_over {
            return Vec::new();
        }
        let stops = self.stops.iter();
        let mut held: Vec<String> = stops
            .map(|stop| format!("a safety stop: {}", stop.message))
            .collect();
        if let Some(pause) = self.control.pause_of(procedure) {
            let what = match &self.control.study.paused {
                Some(_) => "the study is ",
                None => "the procedure is ",
            };
            let paused = Decision::Skip(Skip::Paused(Box::new(pause.clone())));
            held.push(format!("{what}{}", decision_text(&paused)));
        }
        // Those of jobs in flight are told with their figures.
        if let Decision::Skip(Skip::OverLimit(limit)) = &planned.decision
            && !matches!(
                limit,
                Limit::MaxInFlight(_) | Limit::ProcedureMaxInFlight(_)
            )
        {
            held.push(decision_text(&planned.decision));
        }
        let flying = |of: Option<&str>| {
            let rows = self.state.rows().iter().filter(|row| row.is_in_flight());
            rows.filter(|row| of.is_none_or(|name| *row.key.procedure == *name))
                .count()
        };
        let rules = self.config.procedures.find(procedure);
        let own = rules.and_then(|id| self.config.procedures.get(id).rules.max_in_flight);
        for (limit, of, name) in [
            (self.config.max_in_flight, None, "max_in_flight"),
            (own, Some(procedure), "the procedure's max_in_flight"),
        ] {
            if let Some(limit) = limit
                && flying(of) >= limit
            {
                held.push(format!("{name}: {} of {limit} are in flight", flying(of)));
            }
        }
        held
    }

    fn history(&self) -> History {
        History::new(self.attempts, self.state)
    }
}
