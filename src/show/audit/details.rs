//! What is told of single tasks: the newest attempt and each marker. Looks at outputs.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::report::{JobDetail, MarkerResult, MarkerState, TaskDetail, marker_results};
use super::summary::{Selected, reason};
use crate::base::parallel;
use crate::decide::manifest::{Decision, Due, Planned, Skip};
use crate::decide::request;
use crate::gather::completion::probe::Probe;
use crate::gather::logs::log_path;
use crate::model::bids::SubjectLabel;
use crate::model::config::Config;
use crate::model::state::{State, TaskRow};
use crate::show::tables::{decision_text, decision_word, failure_text};

/// Says what is needed to tell of tasks.
pub struct Details<'a> {
    pub config: &'a Config,
    pub state: &'a State,
    pub probe: &'a Probe,
    /// Tell of every task, complete ones too.
    pub of_all: bool,
    /// Where log files lie; none: there are none.
    pub log_dir: Option<&'a Path>,
}

/// Says whether a task is worth telling of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    No,
    /// If outputs are there although nothing was submitted yet.
    IfBegun,
    Yes,
}

impl Details<'_> {
    /// Returns the details in the order of the tasks, and for each task with details its number.
    pub fn collect(
        &self,
        selected: &Selected<'_>,
        tick: &(dyn Fn() + Sync),
    ) -> (Vec<TaskDetail>, HashMap<usize, usize>) {
        let mut by_subject: BTreeMap<&SubjectLabel, Vec<usize>> = BTreeMap::new();
        for (number, task) in selected.tasks.iter().enumerate() {
            if self.worth(task) != Worth::No {
                by_subject.entry(&task.subject).or_default().push(number);
            }
        }
        let subjects: Vec<(&SubjectLabel, Vec<usize>)> = by_subject.into_iter().collect();
        let found = parallel::map(&subjects, self.config.scan_threads, |(subject, numbers)| {
            let outputs = self.probe.brief_explainer(subject);
            let details: Vec<(usize, TaskDetail)> = numbers
                .iter()
                .filter_map(|number| {
                    let task = selected.tasks.get(*number)?;
                    let results = marker_results(outputs.findings(task.procedure, &task.session));
                    let begun = results.iter().any(|result| {
                        matches!(result.state, MarkerState::Found | MarkerState::Forbidden)
                    });
                    (self.worth(task) == Worth::Yes || begun)
                        .then(|| (*number, self.detail(task, results)))
                })
                .collect();
            tick();
            details
        });
        let mut found: Vec<(usize, TaskDetail)> = found.into_iter().flatten().collect();
        found.sort_by_key(|(number, _)| *number);
        let numbers = found.iter().enumerate();
        let numbers = numbers.map(|(place, (number, _))| (*number, place));
        let numbers = numbers.collect();
        let details = found.into_iter().map(|(_, detail)| detail).collect();
        (details, numbers)
    }

    fn row(&self, task: &Planned) -> Option<&TaskRow> {
        self.state.get(&request::key(self.config, task))
    }

    fn worth(&self, task: &Planned) -> Worth {
        if self.of_all {
            return Worth::Yes;
        }
        match &task.decision {
            Decision::Skip(
                Skip::Complete | Skip::NotApplicable | Skip::NotSelected | Skip::Excluded,
            ) => Worth::No,
            Decision::Skip(Skip::Failed { .. } | Skip::InFlight { .. } | Skip::Unreadable(_)) => {
                Worth::Yes
            }
            Decision::Submit(Due::OutputsGone | Due::NeverVerified) => Worth::Yes,
            Decision::Submit(_) | Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_)) => {
                match self.row(task) {
                    Some(_) => Worth::Yes,
                    None => Worth::IfBegun,
                }
            }
            Decision::Skip(_) => match self.row(task) {
                Some(_) => Worth::Yes,
                None => Worth::No,
            },
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
            procedure: procedure.name.clone(),
            subject: task.subject.shared(),
            session: task.session.shared(),
            decision: decision_word(&task.decision),
            reason: reason(&task.decision),
            text: decision_text(&task.decision),
            output_dir: output.to_string_lossy().into_owned(),
            markers,
            job: self.row(task).map(|row| job_detail(row, self.log_dir)),
            log_tail: Vec::new(),
        }
    }
}

/// Tells of an attempt.
pub fn job_detail(row: &TaskRow, log_dir: Option<&Path>) -> JobDetail {
    let facts = &row.facts;
    let logs = log_files(row, log_dir);
    JobDetail {
        job_id: row.job_id.as_ref().map(|id| id.as_str().into()),
        status: row.status.as_str(),
        attempt: row.attempt,
        slurm_state: facts.slurm_state.clone(),
        exit_code: facts.exit_code.clone(),
        submitted_at: row.submitted_at,
        started_at: facts.started_at,
        ended_at: facts.ended_at,
        elapsed_s: facts.elapsed_s,
        time_limit_s: facts.time_limit_s,
        max_rss_mb: facts.max_rss_mb,
        req_mem_mb: facts.req_mem_mb,
        node_list: facts.node_list.clone(),
        failure: failure_text(row),
        output: logs.as_ref().map(|(output, _)| output.clone()),
        error: logs.map(|(_, error)| error),
    }
}

/// Names the output and the error file of a job.
pub fn log_files(row: &TaskRow, log_dir: Option<&Path>) -> Option<(String, String)> {
    let output = log_path(row, &log_dir?.to_string_lossy())?;
    let error = format!("{}.err", output.strip_suffix(".out")?);
    Some((output, error))
}
