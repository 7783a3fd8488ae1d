//! Runs sbatch, squeue, sacct and scancel.
//!
//! Reports only the answers: other modules decide what an absence or a state means for a task. [`SlurmSettings`] has
//! everything that it needs of configuration and environment.

pub mod observe;
pub mod query;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{Commands, TimeLeft};
use super::sbatch_line::argv;
use super::{identity, parse, sbatch_answer};
use crate::base::sys;
use crate::executor::array::{self, wrapper};
use crate::executor::script::{Script, check_header, find_script, header_of};
use crate::executor::slurm::client::query::{Home, IDS_PER_CALL, cluster_option, setting};
use crate::executor::{
    ArrayJob, Executor, ExecutorError, JobRequest, Observation, Question, Refusal, Submission,
};
use crate::model::config::Config;
use crate::model::job::JobRef;
use crate::model::state::table::Metadata;

/// The site and the calling process.
#[derive(Debug, Clone)]
pub struct SlurmSettings {
    /// The directory of Slurm's commands; `None` for `PATH` of `env`.
    pub bin_dir: Option<PathBuf>,
    /// Directories of scripts, searched before `PATH`.
    pub script_dirs: Vec<PathBuf>,
    /// The environment of the calling process. Variables that change Slurm's commands are removed later.
    pub env: Vec<(OsString, OsString)>,
    /// False if sacct is never asked.
    pub accounting: bool,
    /// The user whose jobs are observed: the owner of the study's state, otherwise the caller.
    pub owner: u32,
    /// The calling user, who owns the submitted jobs.
    pub caller: u32,
    /// The study in the tags of its jobs.
    pub project: Option<String>,
    pub home: Home,
    /// Printed by Slurm between two fields.
    pub separator: String,
    /// sbatch itself tries again for two minutes if the controller is busy.
    pub submit_timeout: Duration,
    pub query_timeout: Duration,
}

impl SlurmSettings {
    pub const SUBMIT_TIMEOUT: Duration = Duration::from_secs(180);
    pub const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

    /// The settings from the configuration, the state and the calling process.
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
    pub(super) settings: SlurmSettings,
    pub(super) commands: Commands,
    pub(super) time: TimeLeft,
    /// The output of `scontrol show config`, once asked for.
    pub(super) site_config: Option<String>,
    /// Whether sacct has the field, once asked for.
    pub(super) has_submit_line: Option<bool>,
    /// Of the current pass.
    pub(super) warnings: Vec<String>,
}

/// Slurm's default: indexes 0 to 1000.
const DEFAULT_LIMIT: usize = 1001;

impl SlurmExecutor {
    pub fn new(settings: SlurmSettings) -> Self {
        Self {
            commands: Commands::new(settings.bin_dir.clone(), settings.env.clone()),
            time: TimeLeft::new(settings.submit_timeout, settings.query_timeout),
            settings,
            site_config: None,
            has_submit_line: None,
            warnings: Vec::new(),
        }
    }

    fn try_submit(
        &self,
        tasks: &[&JobRequest],
        array: Option<&ArrayJob>,
    ) -> Result<Submission, String> {
        let first = tasks.first().ok_or("a submission without tasks")?;
        let explain = |error: ExecutorError| error.with_hint();
        let sbatch = self.commands.find("sbatch").map_err(explain)?;
        let path = self.find_script(&first.script).map_err(explain)?;
        make_log_dir(first)?;
        let header = header_of(&path);
        let count = array.map(|array| (array, tasks.len()));
        let argv = argv(first, count, sbatch, path.clone(), &header);
        let Some(array) = array else {
            return self.send(&argv, &first.env);
        };
        let script = Script::read(&path).map_err(|error| error.to_string())?;
        // The variables that have the same value in all tasks.
        let mut common = first.env.clone();
        common.retain(|name, value| tasks.iter().all(|task| task.env.get(name) == Some(value)));
        let is_common = |name: &str| common.contains_key(name);
        let files = wrapper::files(array, tasks, &script, &is_common)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        array::write(&array.dir, &files).map_err(|error| error.to_string())?;
        let sent = self.send(&argv, &common);
        if matches!(sent, Ok(Submission::Refused { .. }) | Err(_)) {
            array::remove(&array.dir);
        }
        sent
    }

    /// Starts sbatch and interprets its answer. An error means that nothing was sent.
    fn send(
        &self,
        argv: &[OsString],
        env: &BTreeMap<String, String>,
    ) -> Result<Submission, String> {
        let Some(limit) = self.time.for_submission() else {
            let message = "sbatch was not started: no time left in this pass";
            return Ok(Submission::refused(Refusal::Transient, message));
        };
        let ended = self.commands.submit(argv, env, limit);
        match ended {
            Ok(ended) => Ok(sbatch_answer::judge(
                ended.end,
                &ended.stdout,
                &ended.stderr,
            )),
            // No free process or memory, which may be temporary. Nothing was sent.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory
                ) =>
            {
                let message = format!("cannot start sbatch: {error}");
                Ok(Submission::refused(Refusal::Transient, message))
            }
            Err(error) => Err(format!("cannot start sbatch: {error}")),
        }
    }
}

impl Executor for SlurmExecutor {
    fn preflight(&self) -> Result<(), ExecutorError> {
        let required = ["sbatch", "squeue", "sacct", "scancel"].into_iter();
        required
            .filter(|program| *program != "sacct" || self.settings.accounting)
            .try_for_each(|program| self.commands.find(program).map(drop))
    }

    fn command_line(&self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Vec<String> {
        let Some(first) = tasks.first() else {
            return Vec::new();
        };
        // For display, even if one of them is missing.
        let sbatch = self.commands.find("sbatch");
        let script = self.find_script(&first.script);
        let sbatch = sbatch.unwrap_or_else(|_| PathBuf::from("sbatch"));
        let script = script.unwrap_or_else(|_| PathBuf::from(&first.script));
        let header = header_of(&script);
        let count = array.map(|array| (array, tasks.len()));
        let texts = argv(first, count, sbatch, script, &header).into_iter();
        texts
            .map(|part| part.to_string_lossy().into_owned())
            .collect()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        let search_path = &self.commands.search_path;
        let path = find_script(script, &self.settings.script_dirs, search_path)?;
        check_header(&path)?;
        Ok(path)
    }

    fn set_deadline(&mut self, left: Duration) {
        self.time.set(left);
    }

    fn submit(&mut self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Submission {
        self.try_submit(tasks, array)
            .unwrap_or_else(|message| Submission::refused(Refusal::Permanent, message))
    }

    fn array_limit(&mut self) -> usize {
        match self.site_config() {
            Ok(text) => array_limit(text),
            Err(error) => {
                tracing::debug!("{error}; assuming at most {DEFAULT_LIMIT} tasks per array");
                DEFAULT_LIMIT
            }
        }
    }

    fn observe(&mut self, question: &Question) -> Observation {
        self.ask_everything(question)
    }

    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        let failed = |message: String| ExecutorError::failed("scancel", message);
        let mut result = Ok(());
        for (cluster, ids) in identity::by_cluster(jobs) {
            for chunk in ids.chunks(IDS_PER_CALL) {
                let mut arguments = cluster_option(cluster.as_ref());
                arguments.extend(chunk.iter().map(|id| (*id).to_owned()));
                match self.ask("scancel", &arguments) {
                    Ok(_) => {}
                    // The job has ended meanwhile.
                    Err(text) if has_ended_already(&text) => {}
                    // Continues with the other jobs; a scancel that hung is not started again.
                    Err(text) => result = result.and(Err(failed(text))),
                }
            }
        }
        if let Some(job) = jobs.iter().find(|job| !parse::is_askable(&job.id)) {
            result = Err(failed(format!("'{}' is not a Slurm job id", job.id)));
        }
        result
    }
}

/// A job whose log directory is missing fails before its script begins.
fn make_log_dir(request: &JobRequest) -> Result<(), String> {
    let Some(dir) = &request.log_dir else {
        return Ok(());
    };
    // A backslash anywhere in Slurm's file name pattern disables `%j`.
    if dir.as_os_str().as_bytes().contains(&b'\\') {
        return Err(format!(
            "the log directory {} has a backslash in its name, which Slurm treats as an escape",
            dir.display()
        ));
    }
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot create the log directory {}: {error}", dir.display()))
}

/// Reads `scontrol show config`. `MaxArraySize` is one more than the greatest index, 0 without arrays;
/// `max_array_tasks` of `SchedulerParameters` is a number of tasks.
fn array_limit(config: &str) -> usize {
    let size = setting(config, "MaxArraySize").and_then(|text| text.parse().ok());
    let tasks = setting(config, "SchedulerParameters").and_then(|text| {
        text.split(',')
            .find_map(|part| part.trim().strip_prefix("max_array_tasks=")?.parse().ok())
    });
    size.unwrap_or(DEFAULT_LIMIT)
        .min(tasks.unwrap_or(usize::MAX))
}

/// True if every part of scancel's message is about a job that has ended.
fn has_ended_already(text: &str) -> bool {
    text.split_once(": ").is_some_and(|(_, message)| {
        message.split("; ").all(|part| {
            part.contains("Invalid job id specified")
                || part.contains("already completing or completed")
        })
    })
}

#[cfg(test)]
mod tests;
