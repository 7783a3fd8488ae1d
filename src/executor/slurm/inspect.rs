//! Asks Slurm about a site, for `check`. Submits nothing: `sbatch --test-only` shows the outcome of a submission.
//!
//! Collects the answers; `setup::check::slurm` interprets them.

use std::ffi::OsString;
use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::client::SlurmExecutor;
use super::command::one_line;
use super::sbatch_answer;
use super::sbatch_line::Line;
use crate::base::run::End;
use crate::base::sys;
use crate::executor::script::header_of;
use crate::executor::slurm::client::home::Home;
use crate::executor::{
    Executor as _, ExecutorError, JobReport, JobRequest, Question, Refusal, Submission,
};
use crate::model::job::JobId;

/// The questions of a check.
#[derive(Debug, Clone, Default)]
pub struct Questions {
    /// One per procedure.
    pub requests: Vec<JobRequest>,
    /// A job that accounting must have.
    pub canary: Option<JobId>,
    /// The user whose associations are queried.
    pub user: String,
    pub home: Home,
}

/// The answers of Slurm; `None` if an earlier failure made the question pointless.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of [`PROGRAMS`].
    pub programs: Vec<(&'static str, Place)>,
    pub version: Option<Result<String, String>>,
    /// The user's jobs in the queue.
    pub queue: Option<Result<Vec<JobReport>, String>>,
    pub accounting: Option<Result<String, String>>,
    pub config: Option<Result<String, String>>,
    /// This host's time before and after the query for the controller's time.
    pub asked_at: Option<(DateTime<Utc>, DateTime<Utc>)>,
    pub partitions: Option<Result<String, String>>,
    pub associations: Option<Result<String, String>>,
    pub qos: Option<Result<String, String>>,
    /// By procedure.
    pub tried: Vec<(String, Tried)>,
}

/// The path of a command, or an error message and a remedy.
pub type Place = Result<PathBuf, (String, String)>;

/// The outcome of a test submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// With sbatch's message.
    Fine(String),
    Refused {
        kind: Refusal,
        message: String,
    },
    /// Slurm gave no clear answer.
    Unclear(String),
    /// The site's sbatch does not support `--test-only`, and has submitted a job.
    Submitted(JobId),
    /// The script is missing or unfit, which another check reports.
    NoScript,
}

/// The programs to find. The first four are required.
pub const PROGRAMS: [&str; 6] = [
    "sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr",
];

impl SlurmExecutor {
    /// Asks all questions in order; stops if the queue does not answer.
    pub fn inspect(&mut self, questions: &Questions) -> Report {
        let mut report = Report {
            programs: PROGRAMS.map(|name| (name, self.place_of(name))).to_vec(),
            ..Report::default()
        };
        if self.commands.find("sbatch").is_ok() {
            report.version = Some(self.ask("sbatch", &["--version"]));
        }
        if self.commands.find("squeue").is_ok() {
            report.queue = Some(self.queue_of(&Question::default(), &[None]));
        }
        if self.commands.find("sacct").is_ok() {
            let job = questions.canary.as_ref().map_or("1", JobId::as_str);
            let job = format!("--jobs={job}");
            let arguments = ["-X", "-n", "-P", "--format=JobID", &job];
            report.accounting = Some(self.ask("sacct", &arguments));
        }
        let answers = matches!(report.queue, Some(Ok(_)));
        if !answers {
            return report;
        }
        if self.commands.find("scontrol").is_ok() {
            let before = sys::now();
            report.config = Some(self.ask("scontrol", &["show", "config"]));
            report.asked_at = Some((before, sys::now()));
            report.partitions =
                Some(self.ask("scontrol", &["--all", "--oneliner", "show", "partition"]));
        }
        if self.commands.find("sacctmgr").is_ok() && self.settings.accounting {
            let user = format!("user={}", questions.user);
            let format = "format=account,partition,maxwall";
            let arguments = ["-n", "-P", "show", "assoc", "where", &user, format];
            report.associations = Some(self.ask("sacctmgr", &arguments));
            let arguments = ["-n", "-P", "show", "qos", "format=name,maxwall"];
            report.qos = Some(self.ask("sacctmgr", &arguments));
        }
        if self.commands.find("sbatch").is_ok() {
            for request in &questions.requests {
                let tried = self.try_only(request);
                // Does not wait again for a controller that does not answer.
                let is_over = matches!(tried, Tried::Unclear(_));
                report
                    .tried
                    .push((request.key.procedure.to_string(), tried));
                if is_over {
                    break;
                }
            }
        }
        report
    }

    fn place_of(&self, program: &str) -> Place {
        self.commands
            .find(program)
            .map_err(|error| (error.to_string(), error.hint().unwrap_or_default()))
    }

    /// Tests a submission with exactly the options of a real one.
    fn try_only(&self, request: &JobRequest) -> Tried {
        let places = self.commands.find("sbatch").and_then(|sbatch| {
            let script = self.find_script(&request.script)?;
            Ok((sbatch, script))
        });
        let (sbatch, script) = match places {
            Ok(places) => places,
            Err(ExecutorError::ScriptMissing { .. } | ExecutorError::ScriptUnfit { .. }) => {
                return Tried::NoScript;
            }
            Err(error) => return Tried::Unclear(error.to_string()),
        };
        let header = header_of(&script);
        let mut argv = Line::of(request).argv(request, sbatch, script, &header);
        argv.insert(1, OsString::from("--test-only"));
        let Some(limit) = self.time.for_submission() else {
            return Tried::Unclear("no time left to ask".to_owned());
        };
        match self.commands.submit(&argv, &request.env, limit) {
            Err(error) => Tried::Unclear(format!("cannot start sbatch: {error}")),
            Ok(ended) => match sbatch_answer::judge(ended.end, &ended.stdout, &ended.stderr) {
                Submission::Accepted { job_id, .. } => Tried::Submitted(job_id),
                Submission::Refused { kind, message } => Tried::Refused { kind, message },
                Submission::InDoubt { .. } if ended.end == End::Exit(0) => {
                    Tried::Fine(one_line(&ended.stderr))
                }
                Submission::InDoubt { message } => Tried::Unclear(message),
            },
        }
    }
}
