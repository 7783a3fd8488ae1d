//! The executor for one machine without Slurm: job scripts as detached child processes.
//!
//! A job is a record in a directory beside the state file ([`record`]); it runs below a process of its own
//! that outlives the caller and writes down how it ended ([`supervise`]). Nothing here waits for a job:
//! each pass looks at the records, and starts queued jobs while there are free slots.
//! Memory and time limits are not enforced, and `#SBATCH` lines are not read.
#![expect(clippy::disallowed_methods, reason = "starts the supervisors of jobs")]

pub mod process;
pub mod record;
mod report;
mod supervise;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chrono::TimeDelta;
use rustix::process::Signal;

use crate::config::Config;
use crate::executor::{
    Answer, Executor, ExecutorError, JobId, JobRef, JobReport, JobRequest, Observation, Question,
    Refusal, Submission,
};
use crate::script::{Script, find_script};
use crate::sys;
use process::{Host, Place, ProcessId};
use record::{Cancel, Claim, End, Ending, Job, JobRecord, Payload, Records, Written};
pub use supervise::supervise;

/// How many ended jobs keep their own files before they go to the list.
const COMPACT_FROM: usize = 100;
/// How long a job gets to end by itself after SIGTERM, before the next call sends SIGKILL.
const KILL_AFTER: TimeDelta = TimeDelta::seconds(10);
/// How long [`Executor::cancel`] waits for jobs to end.
const CANCEL_WAIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

/// Says how jobs are run.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// The directory of records: `StatePaths::local`.
    pub records: PathBuf,
    /// How many jobs run at a time on this host.
    pub local_jobs: usize,
    /// Where scripts are looked for before `search_path`.
    pub script_dirs: Vec<PathBuf>,
    pub search_path: Option<OsString>,
    /// What jobs inherit, as sbatch's `--export=ALL` does: at submission, not at the start.
    pub environment: Vec<(OsString, OsString)>,
    /// The command that calls [`supervise`] with the directory and the number that are appended.
    pub supervisor: Vec<OsString>,
    /// True: look only. Nothing is written, started or signalled (`run --dry-run`, `explain`).
    pub read_only: bool,
}

/// Runs jobs on this machine.
#[derive(Debug)]
pub struct LocalExecutor {
    settings: LocalSettings,
    records: Records,
    host: Host,
    loaded: bool,
    /// Supervisors started by this process, kept only so that they do not stay zombies.
    children: Vec<Child>,
    warnings: Vec<String>,
}

/// Says where a job stands, seen from this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Queued,
    /// `here`: on this host, so that its processes can be seen.
    Running {
        here: bool,
    },
    /// No process is left and no result was written.
    Vanished,
    Over,
}

impl LocalSettings {
    /// Takes what the configuration says; the supervisor is this program itself.
    pub fn from_config(config: &Config, records: &Path) -> Self {
        Self {
            records: records.to_owned(),
            local_jobs: config.local_jobs,
            script_dirs: config
                .script_dir
                .iter()
                .cloned()
                .chain(config.base_dir().map(Path::to_owned))
                .collect(),
            search_path: sys::env("PATH"),
            environment: std::env::vars_os().collect(),
            // Not its path: that may lead to a newer build, or nowhere, by now.
            supervisor: vec!["/proc/self/exe".into(), "local-supervise".into()],
            read_only: false,
        }
    }
}

impl LocalExecutor {
    pub fn new(settings: LocalSettings) -> Result<Self, ExecutorError> {
        Ok(Self {
            records: Records::at(&settings.records),
            settings,
            host: Host::current().map_err(|source| ExecutorError::Io {
                action: "read",
                path: PathBuf::from("/proc"),
                source,
            })?,
            loaded: false,
            children: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Starts queued jobs, the oldest first, while fewer than `local_jobs` run on this host.
    /// [`Executor::submit`] and [`Executor::observe`] call it.
    pub fn fill_slots(&mut self) -> Result<(), ExecutorError> {
        if self.settings.read_only {
            return Ok(());
        }
        self.load()?;
        let started: Vec<u64> = self.numbers(|job| !job.is_over() && job.claim.is_some());
        let mut running = 0;
        for number in started {
            self.records.reload(number)?;
            if self.standing_of(number)? == (Standing::Running { here: true }) {
                running += 1;
            }
        }
        for number in self.numbers(|job| !job.is_over() && job.claim.is_none()) {
            if running >= self.settings.local_jobs.max(1) {
                break;
            }
            if let Err(message) = self.launch(number) {
                self.warnings
                    .push(format!("local-{number} stays queued: {message}"));
                break;
            }
            self.records.reload(number)?;
            if self.standing_of(number)? == (Standing::Running { here: true }) {
                running += 1;
            }
        }
        Ok(())
    }

    /// Starts the supervisor of a job and waits until it has taken the job, or has found it taken.
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
        let said = child.stdout.take().and_then(|stdout| {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .find_map(|line| line.strip_prefix(supervise::SAYS).map(str::to_owned))
        });
        self.children.push(child);
        match said.as_deref() {
            Some(supervise::STARTED | supervise::TAKEN) => Ok(()),
            Some(error) => Err(error.to_owned()),
            None => Err("its supervisor ended at once".to_owned()),
        }
    }

    fn load(&mut self) -> Result<(), ExecutorError> {
        if !self.loaded {
            self.records.refresh()?;
            self.loaded = true;
        }
        Ok(())
    }

    fn numbers(&self, which: impl Fn(&Job) -> bool) -> Vec<u64> {
        self.records
            .live()
            .filter(|job| which(job))
            .map(|job| job.record.number)
            .collect()
    }

    fn standing_of(&mut self, number: u64) -> Result<Standing, ExecutorError> {
        let job = self.records.get(number);
        let first = job.map_or(Ok(Standing::Over), |job| self.standing(job))?;
        if first != Standing::Vanished {
            return Ok(first);
        }
        // The end may have been written between the two looks.
        self.records.reload(number)?;
        let job = self.records.get(number);
        Ok(match job {
            Some(job) if !job.is_over() => Standing::Vanished,
            _ => Standing::Over,
        })
    }

    fn standing(&self, job: &Job) -> Result<Standing, ExecutorError> {
        if job.is_over() {
            return Ok(Standing::Over);
        }
        let Some(Claim::Supervisor { process, host, .. }) = &job.claim else {
            return Ok(Standing::Queued);
        };
        Ok(match self.host.place(host) {
            Place::Elsewhere => Standing::Running { here: false },
            Place::BeforeReboot => Standing::Vanished,
            Place::Here => {
                // A script whose supervisor was killed is still a running job.
                let alive = is_alive(*process)? || !followers(*process)?.is_empty();
                if alive {
                    Standing::Running { here: true }
                } else {
                    Standing::Vanished
                }
            }
        })
    }

    /// Writes down ends that nobody else will write, and ends what did not obey a cancel.
    fn settle(&mut self) -> Result<(), ExecutorError> {
        let now = sys::now();
        for number in self.numbers(|job| !job.is_over() && job.claim.is_some()) {
            match self.standing_of(number)? {
                Standing::Vanished => {
                    let end = End {
                        at: now,
                        how: Ending::Vanished,
                    };
                    self.records.end(number, &end)?;
                    self.records.reload(number)?;
                }
                Standing::Running { here: true } => {
                    let overdue = self
                        .records
                        .get(number)
                        .and_then(|job| job.cancel.as_ref())
                        .is_some_and(|cancel| now - cancel.at >= KILL_AFTER);
                    if overdue {
                        self.signal(number, Signal::KILL)?;
                    }
                }
                Standing::Running { here: false } | Standing::Queued | Standing::Over => {}
            }
        }
        Ok(())
    }

    /// Sends a signal to all processes of a job but its supervisor.
    fn signal(&self, number: u64, signal: Signal) -> Result<(), ExecutorError> {
        if let Some(Job {
            claim: Some(Claim::Supervisor { process, .. }),
            ..
        }) = self.records.get(number)
        {
            for process in followers(*process)? {
                process
                    .signal(signal)
                    .map_err(|source| ExecutorError::Failed {
                        command: format!("signal to local-{number}"),
                        message: source.to_string(),
                    })?;
            }
        }
        Ok(())
    }

    /// Returns whether something was asked to end that has not ended yet.
    fn cancel_one(&mut self, id: &JobId) -> Result<bool, ExecutorError> {
        let failed = |message: String| ExecutorError::Failed {
            command: format!("cancel {id}"),
            message,
        };
        let number = record::number_of(id)
            .filter(|number| self.records.get(*number).is_some())
            .ok_or_else(|| failed("no such job is on record".to_owned()))?;
        let (at, uid) = (sys::now(), sys::effective_uid());
        if self.standing_of(number)? == Standing::Queued {
            self.records.claim(number, &Claim::Cancelled { at, uid })?;
            // If it was started meanwhile, it is a running one now.
            self.records.reload(number)?;
        }
        match self.standing_of(number)? {
            Standing::Running { here: true } => {
                if self.records.ask_cancel(number, &Cancel { at, uid })? {
                    self.signal(number, Signal::TERM)?;
                }
                self.records.reload(number)?;
                Ok(true)
            }
            Standing::Running { here: false } => {
                let job = self.records.get(number);
                let host = job.and_then(report::host_of).unwrap_or("another host");
                Err(failed(format!("it runs on {host}: cancel it there")))
            }
            Standing::Queued | Standing::Vanished | Standing::Over => Ok(false),
        }
    }

    fn accept(&mut self, request: &JobRequest) -> Result<Submission, ExecutorError> {
        if self.settings.read_only {
            return Ok(refused("this executor only looks"));
        }
        self.records.create()?;
        self.load()?;
        if let Some(job) = self.records.all().find(|job| {
            job.record.submission_id == request.submission_id
                && job.record.project == request.project
        }) {
            return Ok(accepted(job.record.number));
        }
        let path = match self.find_script(&request.script) {
            Ok(path) => path,
            Err(error) => return Ok(refused(&error.to_string())),
        };
        let script = match Script::read(&path) {
            Ok(script) => script,
            Err(error) => return Ok(refused(&error.to_string())),
        };
        let log_dir = request
            .log_dir
            .clone()
            .unwrap_or_else(|| self.records.log_dir());
        if let Err(error) = std::fs::create_dir_all(&log_dir) {
            let dir = log_dir.display();
            return Ok(refused(&format!(
                "cannot make log directory {dir}: {error}"
            )));
        }
        let now = sys::now();
        let (umask, directory) = (umask(), std::env::current_dir().unwrap_or_default());
        let make = |number: u64| {
            let log =
                |end: &str| log_dir.join(format!("{}_local-{number}.{end}", request.job_name));
            JobRecord {
                number,
                job_name: request.job_name.clone(),
                submission_id: request.submission_id.clone(),
                project: request.project.clone(),
                subject: request.key.subject.as_ref().to_owned(),
                session: request.key.session.as_ref().to_owned(),
                procedure: request.key.procedure.as_ref().to_owned(),
                attempt: request.attempt,
                submitted_at: now,
                script: path.clone(),
                interpreter: script.interpreter.clone(),
                arguments: request.arguments.clone(),
                env: request.env.clone(),
                directory: directory.clone(),
                umask: umask.clone(),
                output: log("out"),
                error: log("err"),
            }
        };
        let payload = Payload {
            environment: self.environment(request),
            script: script.text,
        };
        let (number, written) = self.records.add(&payload, make)?;
        if let Written::Unsynced(error) = written {
            return Ok(Submission::InDoubt {
                message: format!(
                    "the record of local-{number} may not survive a power cut: {error}"
                ),
            });
        }
        if let Err(error) = self.fill_slots() {
            self.warnings.push(error.to_string());
        }
        Ok(accepted(number))
    }

    /// Joins the caller's environment and the request's; the latter wins.
    fn environment(&self, request: &JobRequest) -> Vec<(OsString, OsString)> {
        let mut environment: BTreeMap<OsString, OsString> =
            self.settings.environment.iter().cloned().collect();
        if let Some(cpus) = request.resources.cpus_per_task {
            // Job scripts read the number of their threads from Slurm's variable.
            environment.insert("SLURM_CPUS_PER_TASK".into(), cpus.to_string().into());
        }
        for (name, value) in &request.env {
            environment.insert(name.into(), value.into());
        }
        environment.into_iter().collect()
    }

    /// Looks at all records, moves things on, and reports every job.
    fn look(&mut self) -> Result<Vec<JobReport>, ExecutorError> {
        self.records.refresh()?;
        self.loaded = true;
        self.children
            .retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if !self.settings.read_only {
            // What cannot be moved on (a full disk) can still be reported.
            let steps = [Self::settle, Self::fill_slots, |this: &mut Self| {
                this.records.compact(COMPACT_FROM)
            }];
            for step in steps {
                if let Err(error) = step(self) {
                    self.warnings.push(error.to_string());
                }
            }
        }
        let mut standings = BTreeMap::new();
        for number in self.numbers(|job| !job.is_over()) {
            standings.insert(number, self.standing_of(number)?);
        }
        let now = sys::now();
        let standing = |job: &Job| {
            let known = standings.get(&job.record.number).copied();
            known.unwrap_or(Standing::Over)
        };
        let elsewhere = |job: &&Job| standing(job) == (Standing::Running { here: false });
        self.warnings.extend(
            self.records
                .live()
                .filter(elsewhere)
                .filter_map(|job| report::elsewhere(job, &self.host)),
        );
        Ok(self
            .records
            .all()
            .map(|job| report::report(job, standing(job), now))
            .collect())
    }
}

impl Executor for LocalExecutor {
    /// Returns the script and its arguments; the interpreter is that of its `#!` line.
    fn command_line(&self, request: &JobRequest) -> Vec<String> {
        let script = self.find_script(&request.script).map_or_else(
            |_| request.script.clone(),
            |path| path.display().to_string(),
        );
        std::iter::once(script)
            .chain(request.arguments.iter().cloned())
            .collect()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        find_script(
            script,
            &self.settings.script_dirs,
            self.settings.search_path.as_deref(),
        )
    }

    fn submit(&mut self, request: &JobRequest) -> Submission {
        self.accept(request)
            .unwrap_or_else(|error| Submission::Refused {
                kind: Refusal::Transient,
                message: error.to_string(),
            })
    }

    /// Reports every job on record, ended ones included, as the queue's answer and as accounting's.
    fn observe(&mut self, _question: &Question) -> Observation {
        let reports = self.look();
        let (queue, accounting) = match reports {
            Ok(reports) => (Answer::Got(reports.clone()), Answer::Got(reports)),
            Err(error) => {
                let text = error.to_string();
                (Answer::Failed(text.clone()), Answer::Failed(text))
            }
        };
        Observation {
            queue,
            accounting,
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// A queued job never starts; a running one gets SIGTERM with all its processes, and SIGKILL
    /// at a later call if it still runs 10 s after.
    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        self.records.refresh()?;
        self.loaded = true;
        self.settle()?;
        let mut ending = Vec::new();
        let mut errors = Vec::new();
        for job in jobs {
            match self.cancel_one(&job.id) {
                Ok(true) => ending.extend(record::number_of(&job.id)),
                Ok(false) => {}
                Err(error) => errors.push(error),
            }
        }
        let mut waited = Duration::ZERO;
        while waited < CANCEL_WAIT && !ending.is_empty() {
            std::thread::sleep(POLL);
            waited += POLL;
            for number in &ending {
                self.records.reload(*number)?;
            }
            ending.retain(|number| self.records.get(*number).is_some_and(|job| !job.is_over()));
        }
        match errors.len() {
            0 | 1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(ExecutorError::Failed {
                command: "cancel".to_owned(),
                message: errors
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("; "),
            }),
        }
    }
}

fn accepted(number: u64) -> Submission {
    Submission::Accepted {
        job_id: JobId::new(&format!("local-{number}")),
        cluster: None,
    }
}

fn refused(message: &str) -> Submission {
    Submission::Refused {
        kind: Refusal::Permanent,
        message: message.to_owned(),
    }
}

fn is_alive(process: ProcessId) -> Result<bool, ExecutorError> {
    process.is_alive().map_err(proc_error)
}

fn followers(process: ProcessId) -> Result<Vec<ProcessId>, ExecutorError> {
    process.followers().map_err(proc_error)
}

fn proc_error(source: std::io::Error) -> ExecutorError {
    ExecutorError::Io {
        action: "read",
        path: PathBuf::from("/proc"),
        source,
    }
}

/// Reads this process's umask; asking the system call for it would change it for a moment.
fn umask() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    Some(mask.trim().to_owned())
}
