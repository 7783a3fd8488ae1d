//! Asks Slurm what a check of a site wants to know. Submits nothing: `sbatch --test-only` says what would come of a
//! submission.
//!
//! Holds what was said, and judges none of it: that is `check::slurm`.

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
    Answer, Executor as _, ExecutorError, JobReport, JobRequest, Question, Refusal, Submission,
};
use crate::model::job::JobId;

/// Says what a check wants to know.
#[derive(Debug, Clone, Default)]
pub struct Questions {
    /// One per procedure.
    pub requests: Vec<JobRequest>,
    /// A job that accounting must know.
    pub canary: Option<JobId>,
    /// Whose associations are looked at.
    pub user: String,
    pub home: Home,
}

/// Holds what Slurm said. None: it was not asked, since something before it failed.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of [`PROGRAMS`].
    pub programs: Vec<(&'static str, Place)>,
    pub version: Option<Result<String, String>>,
    /// The user's jobs in the queue.
    pub queue: Option<Result<Vec<JobReport>, String>>,
    pub accounting: Option<Result<String, String>>,
    pub config: Option<Result<String, String>>,
    /// This host's time before and after the controller was asked for its own.
    pub asked_at: Option<(DateTime<Utc>, DateTime<Utc>)>,
    pub partitions: Option<Result<String, String>>,
    pub associations: Option<Result<String, String>>,
    pub qos: Option<Result<String, String>>,
    /// By procedure.
    pub tried: Vec<(String, Tried)>,
}

/// Says where a command is, or the message and the way out.
pub type Place = Result<PathBuf, (String, String)>;

/// Says what came of a submission that was only tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// What sbatch said.
    Fine(String),
    Refused {
        kind: Refusal,
        message: String,
    },
    /// Slurm gave no answer that counts.
    Unclear(String),
    /// The sbatch of this site does not know `--test-only`, and has submitted a job.
    Submitted(JobId),
    /// The script is missing or unfit; that is told elsewhere.
    NoScript,
}

/// What is looked for. Without the first four nothing works; the others tell more.
pub const PROGRAMS: [&str; 6] = [
    "sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr",
];

impl SlurmExecutor {
    /// Asks all of it, one after the other; what comes after a queue that does not answer is left out.
    pub fn inspect(&mut self, questions: &Questions) -> Report {
        let mut report = Report {
            programs: PROGRAMS.map(|name| (name, self.place_of(name))).to_vec(),
            ..Report::default()
        };
        let has = |report: &Report, wanted: &str| {
            let mut programs = report.programs.iter();
            programs.any(|(name, place)| *name == wanted && place.is_ok())
        };
        if has(&report, "sbatch") {
            report.version = Some(self.ask("sbatch", &["--version"]));
        }
        if has(&report, "squeue") {
            report.queue = Some(
                match self.observe_queue(&Question::default(), &[None], &mut Vec::new()) {
                    Answer::Got(jobs) => Ok(jobs),
                    Answer::Failed(error) => Err(error),
                    Answer::Off => Ok(Vec::new()),
                },
            );
        }
        if has(&report, "sacct") {
            let job = questions.canary.as_ref().map_or("1", JobId::as_str);
            let job = format!("--jobs={job}");
            let arguments = ["-X", "-n", "-P", "--format=JobID", &job];
            report.accounting = Some(self.ask("sacct", &arguments));
        }
        let answers = matches!(report.queue, Some(Ok(_)));
        if !answers {
            return report;
        }
        if has(&report, "scontrol") {
            let before = sys::now();
            report.config = Some(self.ask("scontrol", &["show", "config"]));
            report.asked_at = Some((before, sys::now()));
            report.partitions =
                Some(self.ask("scontrol", &["--all", "--oneliner", "show", "partition"]));
        }
        if has(&report, "sacctmgr") && self.accounting {
            let user = format!("user={}", questions.user);
            let format = "format=account,partition,maxwall";
            let arguments = ["-n", "-P", "show", "assoc", "where", &user, format];
            report.associations = Some(self.ask("sacctmgr", &arguments));
            let arguments = ["-n", "-P", "show", "qos", "format=name,maxwall"];
            report.qos = Some(self.ask("sacctmgr", &arguments));
        }
        if has(&report, "sbatch") {
            for request in &questions.requests {
                let tried = self.try_only(request);
                // A controller that has gone is not waited for again.
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

    /// Asks what would come of a submission, with exactly the options of a real one.
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
            return Tried::Unclear("there was no time left to ask".to_owned());
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
