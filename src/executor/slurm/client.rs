//! Asks Slurm: sbatch, squeue, sacct, scancel.
//!
//! Says what it heard and no more: what absence or a state means for a task is decided elsewhere. All that it
//! needs of configuration and environment stands in [`SlurmSettings`], which is made once.

pub mod home;
pub mod others;
pub mod query;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::command::Commands;
use super::sbatch_line::Line;
use super::time_left::TimeLeft;
use super::{identity, parse, sbatch_answer};
use crate::base::run::Ended;
use crate::base::sys;
use crate::executor::script::{check_header, find_script, header_of};
use crate::executor::slurm::client::home::Home;
use crate::executor::slurm::client::query::{IDS_PER_CALL, cluster_option, clusters};
use crate::executor::{
    Answer, ArrayJob, Executor, ExecutorError, JobRequest, Observation, Question, Refusal,
    Submission,
};
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, JobRef};
use crate::model::state::table::Metadata;

/// Holds what the executor needs to know of the site and of the calling process.
#[derive(Debug, Clone)]
pub struct SlurmSettings {
    /// Where sbatch and its kin are; none: `PATH` of `env`.
    pub bin_dir: Option<PathBuf>,
    /// Where scripts are looked for before `PATH`.
    pub script_dirs: Vec<PathBuf>,
    /// The environment of the calling process; what steers Slurm's commands is taken out here.
    pub env: Vec<(OsString, OsString)>,
    /// False: sacct is never asked.
    pub accounting: bool,
    /// Whose jobs are looked at: the owner of the study's state, else the calling user.
    pub owner: u32,
    /// Who asks, and owns what is submitted.
    pub caller: u32,
    /// The study's word in the tags of its jobs.
    pub project: Option<String>,
    pub home: Home,
    /// What Slurm is to print between two fields.
    pub separator: String,
    /// sbatch tries again by itself for two minutes when the controller is busy.
    pub submit_timeout: Duration,
    pub query_timeout: Duration,
}

impl SlurmSettings {
    pub const SUBMIT_TIMEOUT: Duration = Duration::from_secs(180);
    pub const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

    /// Takes what the configuration, the state and the calling process say.
    pub fn from_config(config: &Config, state: &Metadata) -> Self {
        let caller = sys::effective_uid();
        let owner = state.owner_uid.unwrap_or(caller);
        Self {
            bin_dir: config.slurm.bin_dir.clone(),
            script_dirs: config.script_dirs(),
            env: std::env::vars_os().collect(),
            accounting: config.slurm.accounting,
            owner,
            caller,
            project: state.project.clone(),
            home: Home::of(config, state),
            separator: parse::separator(&(owner, &config.state_file)),
            submit_timeout: Self::SUBMIT_TIMEOUT,
            query_timeout: Self::QUERY_TIMEOUT,
        }
    }
}

/// Runs jobs on Slurm.
#[derive(Debug)]
pub struct SlurmExecutor {
    pub(super) commands: Commands,
    script_dirs: Vec<PathBuf>,
    /// `PATH` of the calling process.
    path: Option<OsString>,
    pub(super) accounting: bool,
    pub(super) owner: u32,
    pub(super) caller: u32,
    pub(super) project: Option<String>,
    pub(super) home: Home,
    /// What `scontrol show config` printed. None: not asked yet.
    pub(super) site_config: Option<String>,
    pub(super) separator: String,
    pub(super) time: TimeLeft,
    /// None: not asked yet.
    pub(super) has_submit_line: Option<bool>,
}

/// The four programs without which nothing works.
const PROGRAMS: [&str; 4] = ["sbatch", "squeue", "sacct", "scancel"];

impl SlurmExecutor {
    pub fn new(settings: SlurmSettings) -> Self {
        Self {
            path: settings
                .env
                .iter()
                .find(|(name, _)| name == "PATH")
                .map(|(_, value)| value.clone()),
            commands: Commands::new(settings.bin_dir, settings.env),
            script_dirs: settings.script_dirs,
            accounting: settings.accounting,
            owner: settings.owner,
            caller: settings.caller,
            project: settings.project,
            home: settings.home,
            site_config: None,
            separator: settings.separator,
            time: TimeLeft::new(settings.submit_timeout, settings.query_timeout),
            has_submit_line: None,
        }
    }

    /// Takes what the configuration, the state and the calling process say.
    pub fn from_config(config: &Config, state: &Metadata) -> Self {
        Self::new(SlurmSettings::from_config(config, state))
    }

    /// Returns an error for the first of Slurm's commands that cannot be found. Starts nothing.
    pub fn check_programs(&self) -> Result<(), ExecutorError> {
        PROGRAMS
            .iter()
            .filter(|program| **program != "sacct" || self.accounting)
            .try_for_each(|program| self.commands.find(program).map(drop))
    }

    /// For showing: also if there is none.
    pub(super) fn find_sbatch(&self) -> PathBuf {
        self.commands
            .find("sbatch")
            .unwrap_or_else(|_| PathBuf::from("sbatch"))
    }

    pub(super) fn look_for_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        let path = find_script(script, &self.script_dirs, self.path.as_deref())?;
        check_header(&path)?;
        Ok(path)
    }

    fn try_submit(&self, request: &JobRequest) -> Result<Submission, String> {
        let told = |error: ExecutorError| error.with_hint();
        let sbatch = self.commands.find("sbatch").map_err(told)?;
        let script = self.find_script(&request.script).map_err(told)?;
        make_log_dir(request)?;
        let header = header_of(&script);
        let argv = Line::of(request).argv(request, sbatch, script, &header);
        self.send(&argv, &request.env)
    }

    /// Starts sbatch and judges its answer. An error means that nothing was sent.
    pub(super) fn send(
        &self,
        argv: &[OsString],
        env: &BTreeMap<String, String>,
    ) -> Result<Submission, String> {
        let Some(limit) = self.time.for_submission() else {
            return Ok(Submission::Refused {
                kind: Refusal::Transient,
                message: "sbatch was not started: the time of this pass is over".to_owned(),
            });
        };
        let ended = self.commands.submit(argv, env, limit);
        match ended {
            Ok(Ended {
                end,
                stdout,
                stderr,
            }) => Ok(sbatch_answer::judge(end, &stdout, &stderr)),
            // No process, no memory: the next one may fare better. Nothing was sent.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory
                ) =>
            {
                Ok(Submission::Refused {
                    kind: Refusal::Transient,
                    message: format!("cannot start sbatch: {error}"),
                })
            }
            Err(error) => Err(format!("cannot start sbatch: {error}")),
        }
    }
}

impl Executor for SlurmExecutor {
    fn preflight(&self) -> Result<(), ExecutorError> {
        self.check_programs()
    }

    fn command_line(&self, request: &JobRequest) -> Vec<String> {
        let script = self
            .find_script(&request.script)
            .unwrap_or_else(|_| PathBuf::from(&request.script));
        let header = header_of(&script);
        texts(Line::of(request).argv(request, self.find_sbatch(), script, &header))
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        self.look_for_script(script)
    }

    fn set_deadline(&mut self, left: Duration) {
        self.time.set(left);
    }

    fn submit(&mut self, request: &JobRequest) -> Submission {
        self.try_submit(request)
            .unwrap_or_else(|message| Submission::Refused {
                kind: Refusal::Permanent,
                message,
            })
    }

    fn takes_arrays(&self) -> bool {
        true
    }

    fn array_limit(&mut self) -> usize {
        self.ask_array_limit()
    }

    fn array_command_line(&self, array: &ArrayJob, tasks: &[&JobRequest]) -> Vec<String> {
        texts(self.array_argv(array, tasks))
    }

    fn submit_array(&mut self, array: &ArrayJob, tasks: &[&JobRequest]) -> Submission {
        self.try_submit_array(array, tasks)
            .unwrap_or_else(|message| Submission::Refused {
                kind: Refusal::Permanent,
                message,
            })
    }

    fn observe(&mut self, question: &Question) -> Observation {
        let clusters = clusters(question);
        let mut warnings = Vec::new();
        let strange: Vec<&str> = question
            .jobs
            .iter()
            .filter(|job| !parse::is_askable(&job.id) && job.id.executor() == ExecutorKind::Slurm)
            .map(|job| job.id.as_str())
            .collect();
        if !strange.is_empty() {
            warnings.push(format!(
                "no job ids of Slurm's, so sacct was not asked about them: {}",
                strange.join(", ")
            ));
        }
        // The queue first: what ends between the two questions is then still found in the second.
        let mut queue = self.observe_queue(question, &clusters, &mut warnings);
        // Without the queue nothing can change, and a Slurm that is away is waited for only once.
        let mut accounting = match queue {
            Answer::Failed(_) => {
                Answer::Failed("not asked, since the queue did not answer".to_owned())
            }
            _ => self.observe_accounting(question, &clusters, &mut warnings),
        };
        self.add_others(question, &clusters, &mut queue, &mut accounting);
        let mut unnamed = Vec::new();
        if let Answer::Got(queue) = &mut queue {
            let (mut none, mut lines) = (Vec::new(), Vec::new());
            if let Answer::Got(_) = accounting {
                lines = self.submit_lines_of_others(question, queue, &mut warnings);
            }
            let records = match &mut accounting {
                Answer::Got(records) => records,
                Answer::Failed(_) | Answer::Off => &mut none,
            };
            identity::settle(queue, records, &lines);
            if !matches!(accounting, Answer::Off) && self.has_submit_line != Some(false) {
                unnamed = identity::unnamed(queue, sys::now());
            }
            if let Answer::Got(records) = &mut accounting {
                self.add_usage(question, queue, records, &mut warnings);
            }
        }
        Observation {
            queue,
            accounting,
            of_other_executor: question.of_other_executor(ExecutorKind::Slurm),
            unnamed,
            cluster: self.home.cluster.clone(),
            warnings,
        }
    }

    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        let failed = |message: String| ExecutorError::Failed {
            command: "scancel".to_owned(),
            message,
        };
        let mut result = Ok(());
        for (cluster, ids) in identity::by_cluster(jobs) {
            for chunk in ids.chunks(IDS_PER_CALL) {
                let mut arguments = cluster_option(cluster.as_ref());
                arguments.extend(chunk.iter().map(|id| (*id).to_owned()));
                match self.ask("scancel", &arguments) {
                    Ok(_) => {}
                    // A job that has ended in the meantime is what was asked for.
                    Err(text) if is_gone_already(&text) => {}
                    // The others are asked for all the same; a scancel that hangs is not started again.
                    Err(text) => result = result.and(Err(failed(text))),
                }
            }
        }
        if let Some(job) = jobs.iter().find(|job| !parse::is_askable(&job.id)) {
            result = Err(failed(format!("'{}' is no job id of Slurm's", job.id)));
        }
        result
    }
}

/// A job whose log directory is missing fails before its script begins.
pub(super) fn make_log_dir(request: &JobRequest) -> Result<(), String> {
    let Some(dir) = &request.log_dir else {
        return Ok(());
    };
    // In a file name pattern of Slurm's, a backslash anywhere switches `%j` off.
    if dir.as_os_str().as_bytes().contains(&b'\\') {
        return Err(format!(
            "the log directory {} has a backslash in its name, which Slurm takes for an escape",
            dir.display()
        ));
    }
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot create the log directory {}: {error}", dir.display()))
}

fn texts(argv: Vec<OsString>) -> Vec<String> {
    argv.into_iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect()
}

/// Returns true if every part of scancel's complaint is about a job that has ended.
fn is_gone_already(text: &str) -> bool {
    text.split_once(": ").is_some_and(|(_, said)| {
        said.split("; ").all(|part| {
            part.contains("Invalid job id specified")
                || part.contains("already completing or completed")
        })
    })
}

#[cfg(test)]
mod tests;
