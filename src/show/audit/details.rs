//! Details of single tasks: the newest attempt and each marker. Reads outputs.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::report::{JobDetail, MarkerResult, MarkerState, TaskDetail, marker_results};
use super::summary::{Selected, reason};
use crate::base::parallel;
use crate::decide::manifest::{Decision, Due, Planned, Skip};
use crate::gather::completion::probe::Probe;
use crate::gather::logs::log_path;
use crate::model::bids::SubjectLabel;
use crate::model::config::Config;
use crate::model::state::{State, TaskRow};
use crate::show::tables::{TaskState, decision_text, failure_text};

/// The sources of the details.
pub struct Details<'a> {
    pub config: &'a Config,
    pub state: &'a State,
    pub probe: &'a Probe,
    /// True to include every task, even complete ones.
    pub of_all: bool,
    /// `None` if there are no log files.
    pub log_dir: Option<&'a Path>,
}

impl Details<'_> {
    /// The details in the order of the tasks, and their indices by task number.
    pub fn collect(
        &self,
        selected: &Selected<'_>,
        tick: &(dyn Fn() + Sync),
    ) -> (Vec<TaskDetail>, HashMap<usize, usize>) {
        let mut by_subject: BTreeMap<&SubjectLabel, Vec<usize>> = BTreeMap::new();
        for (number, task) in selected.tasks.iter().enumerate() {
            if self.is_shown(task).is_some() {
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
                    let has_outputs = results.iter().any(|result| {
                        matches!(result.state, MarkerState::Found | MarkerState::Forbidden)
                    });
                    (self.is_shown(task) == Some(true) || has_outputs)
                        .then(|| (*number, self.detail(task, results)))
                })
                .collect();
            tick();
            details
        });
        let found: BTreeMap<usize, TaskDetail> = found.into_iter().flatten().collect();
        let numbers = found.keys().enumerate();
        let numbers = numbers.map(|(place, number)| (*number, place)).collect();
        (found.into_values().collect(), numbers)
    }

    fn row(&self, task: &Planned) -> Option<&TaskRow> {
        self.state.get(&task.key)
    }

    /// `Some(true)` if the task has details, `Some(false)` if it has them only with outputs.
    fn is_shown(&self, task: &Planned) -> Option<bool> {
        let has_row = || self.row(task).is_some();
        match &task.decision {
            _ if self.of_all => Some(true),
            Decision::Skip(
                Skip::Complete
                | Skip::Stale(_)
                | Skip::LateInput
                | Skip::NotApplicable
                | Skip::NotSelected
                | Skip::Excluded,
            ) => None,
            Decision::Skip(Skip::Failed { .. } | Skip::InFlight { .. } | Skip::Unreadable(_))
            | Decision::Submit(Due::OutputsGone | Due::NeverVerified) => Some(true),
            Decision::Submit(_) | Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_)) => {
                Some(has_row())
            }
            Decision::Skip(_) => has_row().then_some(true),
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
            job: self.row(task).map(|row| job_detail(row, self.log_dir)),
            log_line: None,
            log_tail: Vec::new(),
        }
    }
}

fn job_detail(row: &TaskRow, log_dir: Option<&Path>) -> JobDetail {
    let (output, error) = log_files(row, log_dir).unzip();
    JobDetail {
        row: row.clone(),
        failure: failure_text(row),
        output,
        error,
    }
}

/// The output and error file of a job.
pub fn log_files(row: &TaskRow, log_dir: Option<&Path>) -> Option<(String, String)> {
    let output = log_path(row, &log_dir?.to_string_lossy())?;
    let error = format!("{}.err", output.strip_suffix(".out")?);
    Some((output, error))
}
