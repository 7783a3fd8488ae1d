//! What is told of single tasks: the newest attempt and each marker. Looks at outputs.

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

impl Details<'_> {
    /// Returns the details in the order of the tasks, and for each task with details its number.
    pub fn collect(
        &self,
        selected: &Selected<'_>,
        tick: &(dyn Fn() + Sync),
    ) -> (Vec<TaskDetail>, HashMap<usize, usize>) {
        let mut by_subject: BTreeMap<&SubjectLabel, Vec<usize>> = BTreeMap::new();
        for (number, task) in selected.tasks.iter().enumerate() {
            if self.worth(task).is_some() {
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
                    (self.worth(task) == Some(true) || begun)
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

    /// True if the task is worth telling of; false if it is once outputs are there.
    fn worth(&self, task: &Planned) -> Option<bool> {
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

/// Names the output and the error file of a job.
pub fn log_files(row: &TaskRow, log_dir: Option<&Path>) -> Option<(String, String)> {
    let output = log_path(row, &log_dir?.to_string_lossy())?;
    let error = format!("{}.err", output.strip_suffix(".out")?);
    Some((output, error))
}
