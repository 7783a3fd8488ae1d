//! What jobs do in truth.

use chrono::{DateTime, Utc};
use snbb_scheduler::gather::completion::{Completion, Completions, SubjectCompletions};
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::procedure::ProcedureId;
use snbb_scheduler::model::state::{Reason, TaskStatus};

use super::{TASKS, key, time};

/// Words of ends for good, as accounting prints them, with their exit codes.
pub const OUTCOMES: [(&str, &str); 9] = [
    ("COMPLETED", "0:0"),
    ("FAILED", "1:0"),
    ("TIMEOUT", "0:0"),
    ("OUT_OF_MEMORY", "0:125"),
    ("CANCELLED by 1000", "0:15"),
    ("NODE_FAIL", "0:0"),
    ("PREEMPTED", "0:0"),
    ("DEADLINE", "0:0"),
    ("BOOT_FAIL", "0:0"),
];

/// Words of runs after which the job comes back.
pub const REQUEUES: [(&str, &str); 3] = [
    ("REQUEUED", "0:0"),
    ("NODE_FAIL", "0:0"),
    ("PREEMPTED", "0:0"),
];

/// Is a job with all its runs, oldest first.
#[derive(Debug)]
pub struct Job {
    pub runs: Vec<Run>,
    /// Its outputs stand.
    pub marker: bool,
}

#[derive(Debug, Clone)]
pub struct Run {
    pub submitted: i64,
    pub started: Option<i64>,
    pub ended: Option<(i64, &'static str, &'static str)>,
}

impl Job {
    pub fn new(now: i64) -> Self {
        Self {
            runs: vec![Run::new(now)],
            marker: false,
        }
    }

    pub fn id(task: usize) -> String {
        (100 + task).to_string()
    }

    pub fn last(&self) -> &Run {
        self.runs.last().unwrap()
    }

    pub fn is_live(&self) -> bool {
        self.last().ended.is_none()
    }

    fn live(&mut self) -> Option<&mut Run> {
        self.runs.last_mut().filter(|run| run.ended.is_none())
    }

    pub fn start(&mut self, now: i64) {
        if let Some(run) = self.live() {
            run.started.get_or_insert(now);
        }
    }

    pub fn end(&mut self, now: i64, (word, code): (&'static str, &'static str), marker: bool) {
        if let Some(run) = self.live() {
            run.started.get_or_insert(now);
            run.ended = Some((now, word, code));
            self.marker = marker && word == "COMPLETED";
        }
    }

    /// A job that has not begun is not put back.
    pub fn requeue(&mut self, now: i64, (word, code): (&'static str, &'static str)) {
        let Some(run) = self.live().filter(|run| run.started.is_some()) else {
            return;
        };
        run.ended = Some((now, word, code));
        self.runs.push(Run::new(now + 1));
    }

    /// Returns what the row must say in the end.
    pub fn truth(&self) -> (TaskStatus, Reason) {
        match self.last().ended_as().unwrap() {
            (TaskStatus::Complete, _) if !self.marker => (TaskStatus::Failed, Reason::NoOutput),
            told => told,
        }
    }
}

impl Run {
    fn new(submitted: i64) -> Self {
        Self {
            submitted,
            started: None,
            ended: None,
        }
    }

    pub fn ended_as(&self) -> Option<(TaskStatus, Reason)> {
        let (_, word, _) = self.ended?;
        let reason = match word {
            "COMPLETED" => return Some((TaskStatus::Complete, Reason::Verified)),
            "FAILED" => Reason::ExitCode,
            "TIMEOUT" => Reason::Timeout,
            "OUT_OF_MEMORY" => Reason::OutOfMemory,
            "CANCELLED by 1000" => Reason::Cancelled,
            "NODE_FAIL" => Reason::NodeFail,
            "PREEMPTED" => Reason::Preempted,
            "DEADLINE" => Reason::Deadline,
            "BOOT_FAIL" => Reason::BootFail,
            _ => return None,
        };
        Some((TaskStatus::Failed, reason))
    }
}

/// Shows the jobs' outputs.
pub struct Disk<'a>(pub &'a [Job]);

struct OfSubject<'a>(&'a [Job], &'a SubjectLabel);

impl Completions for Disk<'_> {
    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(OfSubject(self.0, subject))
    }
}

impl SubjectCompletions for OfSubject<'_> {
    fn completion(&self, _: ProcedureId, _: &SessionLabel) -> Completion {
        let task = (0..TASKS).find(|task| &*key(*task).subject == self.1.as_str());
        let job = task.map(|task| &self.0[task]);
        if job.is_none_or(|job| job.marker) {
            Completion::Complete
        } else {
            // Markers are looked at only when nothing can still be written.
            Completion::Incomplete
        }
    }

    fn newest_output(&self, _: ProcedureId, _: &SessionLabel) -> Option<DateTime<Utc>> {
        Some(time(super::START))
    }
}
