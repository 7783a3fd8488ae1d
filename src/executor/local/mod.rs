//! The executor for one machine without Slurm: job scripts as detached child processes.
//!
//! A job is a record in a directory beside the state file ([`record`]). Its own supervisor process starts it,
//! outlives this program, and records its end ([`supervise`]). Nothing here waits for a job: each pass reads the
//! records, and starts queued jobs while there are free slots.
//! Memory and time limits are not enforced, and `#SBATCH` lines are not read.
#![expect(clippy::disallowed_methods, reason = "starts the supervisors of jobs")]

mod job;
pub mod record;
mod requests;
mod supervise;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use chrono::TimeDelta;

use crate::base::process::{Host, Place};
use crate::base::regular::FileError;
use crate::base::sys;
use crate::executor::script::find_on_path;
use crate::executor::{
    Answer, ArrayJob, Executor, ExecutorError, JobReport, JobRequest, Observation, Question,
    Refusal, Submission,
};
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, JobId, JobRef, is_same_study};
use crate::model::state::table::Metadata;
use job::{End, Ending, Job, JobStatus};
use record::Records;
pub use supervise::supervise;

/// The records of ended jobs are removed after this time, unless a row still waits for them.
const KEPT_FOR: TimeDelta = TimeDelta::days(14);

/// The settings of the local executor.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// The directory of records: `StatePaths::local`.
    pub records: PathBuf,
    /// The maximum number of running jobs on this host.
    pub local_jobs: usize,
    /// Directories of scripts, searched before `PATH`.
    pub script_dirs: Vec<PathBuf>,
    /// The environment that jobs inherit at submission, as with sbatch's `--export=ALL`.
    pub environment: Vec<(OsString, OsString)>,
    /// The command that calls [`supervise`]; directory and number are appended.
    pub supervisor: Vec<OsString>,
    /// Only jobs of this project are started, since the directory may be a copy; `None` starts all.
    pub project: Option<String>,
    /// True to write, start and signal nothing (`run --dry-run`, `explain`).
    pub read_only: bool,
}

/// Runs jobs on this machine.
#[derive(Debug)]
pub struct LocalExecutor {
    settings: LocalSettings,
    records: Records,
    host: Host,
    /// Supervisors that this process started, kept only to reap them.
    children: Vec<Child>,
    warnings: Vec<String>,
}

impl LocalSettings {
    /// The configured settings; this program itself is the supervisor.
    pub fn from_config(config: &Config, records: &Path, state: &Metadata) -> Self {
        Self {
            records: records.to_owned(),
            local_jobs: config.local_jobs,
            script_dirs: config.script_dirs(),
            environment: std::env::vars_os().collect(),
            // Not its path, which may lead to a newer build or nowhere by now.
            supervisor: vec!["/proc/self/exe".into(), "local-supervise".into()],
            project: state.project.clone(),
            read_only: false,
        }
    }
}

impl LocalExecutor {
    pub fn new(settings: LocalSettings) -> Result<Self, ExecutorError> {
        Ok(Self {
            records: Records::at(&settings.records),
            settings,
            host: Host::current().map_err(proc_error)?,
            children: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Starts queued jobs, oldest first, while fewer than `local_jobs` run on this host.
    /// [`Executor::submit`] and [`Executor::observe`] call it.
    pub fn fill_slots(&mut self) -> Result<(), ExecutorError> {
        if self.settings.read_only {
            return Ok(());
        }
        self.records.load()?;
        let started: Vec<u64> = self.numbers(|job| !job.is_over() && job.claim.is_some());
        let mut running = 0;
        for number in started {
            running += usize::from(self.is_running(number)?);
        }
        let is_ours = |job: &Job| match &self.settings.project {
            Some(own) => is_same_study(&job.record.project, own),
            None => true,
        };
        for number in self.numbers(|job| !job.is_over() && job.claim.is_none() && is_ours(job)) {
            if running >= self.settings.local_jobs.max(1) {
                break;
            }
            if let Err(message) = self.launch(number) {
                self.warnings
                    .push(format!("local-{number} stays queued: {message}"));
                break;
            }
            running += usize::from(self.is_running(number)?);
        }
        Ok(())
    }

    /// Reads the job's records again.
    fn is_running(&mut self, number: u64) -> Result<bool, ExecutorError> {
        self.records.reload(number)?;
        Ok(self.status_of(number)? == JobStatus::Running)
    }

    /// Starts the supervisor of a job and waits until it has claimed the job, or found it claimed.
    fn launch(&mut self, number: u64) -> Result<(), String> {
        let mut words = self.settings.supervisor.iter();
        let program = words.next().ok_or("no supervisor is configured")?;
        let mut child = Command::new(program)
            .arg0("snbb-scheduler")
            .args(words)
            .arg(&self.settings.records)
            .arg(number.to_string())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start its supervisor: {error}"))?;
        let answer = child.stdout.take().and_then(|stdout| {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .find_map(|line| line.strip_prefix(supervise::PREFIX).map(str::to_owned))
        });
        self.children.push(child);
        match answer.as_deref() {
            Some("") => Ok(()),
            Some(error) => Err(error.to_owned()),
            None => Err("its supervisor ended at once".to_owned()),
        }
    }

    fn numbers(&self, which: impl Fn(&Job) -> bool) -> Vec<u64> {
        let jobs = self.records.all().filter(|job| which(job));
        jobs.map(|job| job.record.number).collect()
    }

    /// The current status of a job. Records the end of a job that is lost.
    fn status_of(&mut self, number: u64) -> Result<JobStatus, ExecutorError> {
        if self.status(number)? == JobStatus::Lost {
            // The end may have been written between reading the record and the process list.
            self.records.reload(number)?;
        }
        let status = self.status(number)?;
        if status != JobStatus::Lost || self.settings.read_only {
            return Ok(status);
        }
        let end = End {
            at: sys::now(),
            how: Ending::Lost,
        };
        if let Err(error) = self.records.write(number, "end", &end) {
            self.warnings.push(error.to_string());
            return Ok(JobStatus::Lost);
        }
        self.records.reload(number)?;
        Ok(JobStatus::Over)
    }

    fn status(&self, number: u64) -> Result<JobStatus, ExecutorError> {
        let job = self.records.get(number).filter(|job| !job.is_over());
        let Some(job) = job else {
            return Ok(JobStatus::Over);
        };
        let Some((process, host, _)) = job.supervisor() else {
            return Ok(JobStatus::Queued);
        };
        Ok(match self.host.place(host) {
            Place::Elsewhere => JobStatus::Elsewhere,
            Place::BeforeReboot => JobStatus::Lost,
            // The job is running as long as its script is, even if its supervisor was killed.
            Place::Here => match process.has_any_left().map_err(proc_error)? {
                true => JobStatus::Running,
                false => JobStatus::Lost,
            },
        })
    }

    /// Reads all records, kills overdue jobs, starts queued ones, and reports every job.
    fn look(&mut self, question: &Question) -> Result<Vec<JobReport>, ExecutorError> {
        self.records.refresh()?;
        self.children
            .retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if !self.settings.read_only {
            // Even if one of them fails (a full disk), the jobs can be reported.
            for step in [Self::kill_overdue, Self::fill_slots] {
                if let Err(error) = step(self) {
                    self.warnings.push(error.to_string());
                }
            }
        }
        let mut statuses = BTreeMap::new();
        for number in self.numbers(|job| !job.is_over()) {
            let status = self.status_of(number)?;
            statuses.insert(number, status);
            let job = self.records.get(number).and_then(Job::supervisor);
            let is_of_host = job.is_some_and(|(_, host, _)| host.name == self.host.name);
            if is_of_host && status == JobStatus::Elsewhere {
                self.warnings.push(format!(
                    "local-{number} was started in another container of this host, so whether it runs is unknown here; if \
                     it has certainly ended, move its files {number}.* away"
                ));
            }
        }
        let now = sys::now();
        let report = |job: &Job| {
            let status = statuses.get(&job.record.number).copied();
            job.report(status.unwrap_or(JobStatus::Over), now)
        };
        let reports = self.records.all().map(report).collect();
        // Only a question about rows shows which jobs they need, and a row in doubt cannot name its job.
        if question.since.is_some() && question.search_from.is_none() && !self.settings.read_only {
            let needed: HashSet<&JobId> = question.jobs.iter().map(|job| &job.id).collect();
            let is_needed = |job: &Job| needed.contains(&job.id());
            self.records.remove_old(now - KEPT_FOR, is_needed);
        }
        Ok(reports)
    }
}

impl Executor for LocalExecutor {
    /// The script and its arguments; the `#!` line has the interpreter.
    fn command_line(&self, tasks: &[&JobRequest], _: Option<&ArrayJob>) -> Vec<String> {
        let Some(task) = tasks.first() else {
            return Vec::new();
        };
        let path = self.find_script(&task.script);
        let script = path.map_or_else(|_| task.script.clone(), |path| path.display().to_string());
        [vec![script], task.arguments.clone()].concat()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        find_on_path(script, &self.settings.script_dirs)
    }

    fn submit(&mut self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Submission {
        let ([request], None) = (tasks, array) else {
            return Submission::refused(Refusal::ArraySize, "this executor has no job arrays");
        };
        self.accept(request)
            .unwrap_or_else(|error| Submission::refused(Refusal::Transient, error.to_string()))
    }

    /// Reports every recorded job, including ended ones, as answer of both queue and accounting.
    fn observe(&mut self, question: &Question) -> Observation {
        let reports = self.look(question).map_err(|error| error.to_string());
        let answer: Answer<Vec<JobReport>> = reports.into();
        Observation {
            queue: answer.clone(),
            accounting: answer,
            of_other_executor: question.of_other_executor(ExecutorKind::Local),
            warnings: std::mem::take(&mut self.warnings),
            ..Observation::default()
        }
    }

    /// A queued job never starts. All processes of a running job get SIGTERM, and SIGKILL from a later
    /// invocation if the job still runs after 10 s.
    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        self.cancel_all(jobs)
    }
}

fn proc_error(source: std::io::Error) -> ExecutorError {
    FileError::of("read", Path::new("/proc"))(source).into()
}
