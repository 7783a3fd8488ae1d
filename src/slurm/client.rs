//! Asks Slurm: sbatch, squeue, sacct, scancel.
//!
//! Says what it heard and no more: what absence or a state means for a task is decided elsewhere. Reads no
//! environment, clock or configuration; [`SlurmSettings`] holds all that it needs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Days, Local, Utc};

use super::command::{Commands, Ended};
use super::parse::{self, Parsed, SEPARATOR};
use super::submit_error::{self, End};
use crate::executor::{
    Answer, Doubt, Executor, ExecutorError, JobId, JobRef, JobReport, JobRequest, JobTag,
    Observation, Question, Refusal, Submission,
};

/// Holds what the executor needs to know of the site and of the calling process.
#[derive(Debug, Clone)]
pub struct SlurmSettings {
    /// Where sbatch and its kin are; none: `PATH` of `env`.
    pub bin_dir: Option<PathBuf>,
    pub script_dir: Option<PathBuf>,
    /// The configuration file's directory: scripts may lie beside it.
    pub config_dir: Option<PathBuf>,
    /// The environment of the calling process; what steers Slurm's commands is taken out here.
    pub env: Vec<(OsString, OsString)>,
    /// False: sacct is never asked.
    pub accounting: bool,
    /// Whose jobs are looked at.
    pub uid: u32,
    /// sbatch tries again by itself for two minutes when the controller is busy.
    pub submit_timeout: Duration,
    pub query_timeout: Duration,
}

impl SlurmSettings {
    pub const SUBMIT_TIMEOUT: Duration = Duration::from_secs(180);
    pub const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
}

/// Runs jobs on Slurm.
#[derive(Debug)]
pub struct SlurmExecutor {
    commands: Commands,
    script_dir: Option<PathBuf>,
    config_dir: Option<PathBuf>,
    accounting: bool,
    uid: u32,
    submit_timeout: Duration,
    query_timeout: Duration,
    /// None: not asked yet.
    has_submit_line: Option<bool>,
}

/// One argument holds 128 KiB at most, and the database is asked for so many rows at a time.
const IDS_PER_CALL: usize = 1000;

/// Names can be longer than ids.
const NAMES_PER_CALL: usize = 300;

/// The four programs without which nothing works.
const PROGRAMS: [&str; 4] = ["sbatch", "squeue", "sacct", "scancel"];

impl SlurmExecutor {
    pub fn new(settings: SlurmSettings) -> Self {
        Self {
            commands: Commands::new(settings.bin_dir, settings.env),
            script_dir: settings.script_dir,
            config_dir: settings.config_dir,
            accounting: settings.accounting,
            uid: settings.uid,
            submit_timeout: settings.submit_timeout,
            query_timeout: settings.query_timeout,
            has_submit_line: None,
        }
    }

    /// Returns an error for the first of Slurm's commands that cannot be found. Starts nothing.
    pub fn check_programs(&self) -> Result<(), ExecutorError> {
        PROGRAMS
            .iter()
            .filter(|program| **program != "sacct" || self.accounting)
            .try_for_each(|program| self.commands.find(program).map(drop))
    }

    fn argv(&self, request: &JobRequest, sbatch: PathBuf, script: PathBuf) -> Vec<OsString> {
        let tag = JobTag {
            project: request.project.clone(),
            submission_id: request.submission_id.clone(),
        };
        let resources = &request.resources;
        let mut argv: Vec<OsString> = vec![sbatch.into(), "--parsable".into()];
        push(&mut argv, "comment", Some(&tag));
        push(&mut argv, "export", Some("ALL"));
        push(&mut argv, "partition", resources.partition.as_ref());
        push(&mut argv, "account", resources.account.as_ref());
        push(&mut argv, "job-name", Some(&request.job_name));
        push(&mut argv, "mem", resources.mem.as_ref());
        push(&mut argv, "cpus-per-task", resources.cpus_per_task.as_ref());
        if let Some(dir) = &request.log_dir {
            for (name, ending) in [("output", "out"), ("error", "err")] {
                let mut option = OsString::from(format!("--{name}="));
                option.push(log_pattern(dir, &request.job_name, ending));
                argv.push(option);
            }
        }
        push(&mut argv, "time", resources.time.as_ref());
        push(&mut argv, "qos", resources.qos.as_ref());
        push(&mut argv, "gres", resources.gres.as_ref());
        argv.extend(resources.sbatch_args.iter().map(OsString::from));
        argv.push(script.into());
        argv.extend(request.arguments.iter().map(OsString::from));
        argv
    }

    fn try_submit(&self, request: &JobRequest) -> Result<Submission, String> {
        let told = |error: ExecutorError| match error.hint() {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        };
        let sbatch = self.commands.find("sbatch").map_err(told)?;
        let script = self.find_script(&request.script).map_err(told)?;
        if let Some(dir) = &request.log_dir {
            // In a file name pattern of Slurm's, a backslash anywhere switches `%j` off.
            if dir.as_os_str().as_bytes().contains(&b'\\') {
                return Err(format!(
                    "the log directory {} has a backslash in its name, which Slurm takes for an escape",
                    dir.display()
                ));
            }
            // A job whose log directory is missing fails before its script begins.
            std::fs::create_dir_all(dir).map_err(|error| {
                format!("cannot create the log directory {}: {error}", dir.display())
            })?;
        }
        let argv = self.argv(request, sbatch, script);
        let ended = self
            .commands
            .submit(&argv, &request.env, self.submit_timeout);
        match ended {
            Ok(Ended {
                end,
                stdout,
                stderr,
            }) => Ok(submit_error::judge(end, &stdout, &stderr)),
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

    /// Runs a query; the error is a text for people.
    fn ask(&self, program: &str, arguments: &[String]) -> Result<String, String> {
        let ended = self
            .commands
            .query(program, arguments, self.query_timeout)
            .map_err(|error| error.to_string())?;
        let said = submit_error::one_line(&ended.stderr);
        let what = match ended.end {
            End::Exit(0) => return Ok(ended.stdout),
            End::Exit(code) => format!("{program} ended with exit code {code}"),
            End::Signal(signal) => format!("{program} was ended by signal {signal}"),
            End::TimedOut { seconds } => {
                format!("{program} did not answer within {seconds} s and was ended")
            }
            End::Unseen => format!("the exit status of {program} could not be had"),
        };
        Err(if said.is_empty() {
            what
        } else {
            format!("{what}: {said}")
        })
    }

    fn ask_queue(&self, cluster: Option<&Arc<str>>) -> Result<Parsed, String> {
        let format = parse::QUEUE_FORMAT.join(&SEPARATOR.to_string());
        let mut arguments = cluster_option(cluster);
        arguments.extend(["--all", "-h", "-r", "--states=all"].map(str::to_owned));
        arguments.push(format!("--user={}", self.uid));
        arguments.push(format!("--format={format}"));
        Ok(parse::queue(&self.ask("squeue", &arguments)?, cluster))
    }

    /// Asks accounting for the jobs that fit some conditions (`--jobs=1,2`).
    fn ask_accounting(
        &self,
        conditions: &[String],
        since: Option<DateTime<Utc>>,
        with_submit_line: bool,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        let mut fields: Vec<&str> = parse::ACCOUNTING_FIELDS.to_vec();
        if with_submit_line {
            fields.insert(fields.len() - 1, parse::SUBMIT_LINE);
        }
        let mut arguments = cluster_option(cluster);
        arguments.extend(["-X", "-n", "-P"].map(str::to_owned));
        arguments.push(format!("--delimiter={SEPARATOR}"));
        arguments.extend_from_slice(conditions);
        arguments.extend(since.map(|since| format!("--starttime={}", a_day_before(since))));
        arguments.push(format!("--format={}", fields.join(",")));
        let text = self.ask("sacct", &arguments)?;
        Ok(parse::accounting(&text, with_submit_line, cluster))
    }

    fn observe_queue(
        &self,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Answer<Vec<JobReport>> {
        let mut jobs = Vec::new();
        for cluster in clusters {
            match self.ask_queue(cluster.as_ref()) {
                Ok(parsed) => {
                    jobs.extend(parsed.jobs);
                    add_new(warnings, parsed.warnings);
                }
                Err(text) => return Answer::Failed(text),
            }
        }
        Answer::Got(jobs)
    }

    fn observe_accounting(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Answer<Vec<JobReport>> {
        if !self.accounting {
            return Answer::Off;
        }
        match self.accounting_of(question, clusters, warnings) {
            Ok(jobs) => Answer::Got(jobs),
            Err(text) if text.contains("accounting storage is disabled") => Answer::Off,
            Err(text) => Answer::Failed(text),
        }
    }

    fn accounting_of(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Result<Vec<JobReport>, String> {
        let mut found: Vec<JobReport> = Vec::new();
        if question.jobs.is_empty() && question.in_doubt.is_empty() {
            return Ok(found);
        }
        let mut note = |parsed: Parsed, found: &mut Vec<JobReport>| {
            found.extend(parsed.jobs);
            add_new(warnings, parsed.warnings);
        };
        for cluster in clusters {
            let canary = question
                .canary
                .as_ref()
                .filter(|canary| canary.cluster == *cluster && parse::is_askable(&canary.id));
            let ids: Vec<&JobId> = question
                .jobs
                .iter()
                .filter(|job| job.cluster == *cluster && parse::is_askable(&job.id))
                .map(|job| &job.id)
                .collect();
            let mut chunks: Vec<&[&JobId]> = ids.chunks(IDS_PER_CALL).collect();
            if chunks.is_empty() && canary.is_some() {
                chunks.push(&[]);
            }
            for chunk in chunks {
                let mut asked: Vec<&str> = chunk.iter().map(|id| id.as_str()).collect();
                asked.extend(canary.map(|canary| canary.id.as_str()));
                let condition = [format!("--jobs={}", asked.join(","))];
                let parsed =
                    self.ask_accounting(&condition, question.since, false, cluster.as_ref())?;
                if let Some(canary) = canary
                    && !parsed.jobs.iter().any(|job| job.id == canary.id)
                {
                    // It may have ended before the time that the others are asked from.
                    let condition = [format!("--jobs={}", canary.id)];
                    let alone = self.ask_accounting(&condition, None, false, cluster.as_ref())?;
                    if !alone.jobs.iter().any(|job| job.id == canary.id) {
                        return Err(format!(
                            "sacct answers, but does not know job {} that it has known: its database is not whole",
                            canary.id
                        ));
                    }
                    note(alone, &mut found);
                }
                note(parsed, &mut found);
            }
        }
        self.look_for(&question.in_doubt, &mut found, &mut note)?;
        Ok(each_once(found))
    }

    /// Asks for jobs by the names of submissions in doubt.
    fn look_for(
        &mut self,
        doubts: &[Doubt],
        found: &mut Vec<JobReport>,
        note: &mut impl FnMut(Parsed, &mut Vec<JobReport>),
    ) -> Result<(), String> {
        let Some(since) = doubts.iter().map(|doubt| doubt.intent_at).min() else {
            return Ok(());
        };
        let has_submit_line = match self.has_submit_line {
            Some(known) => known,
            None => self
                .ask("sacct", &["--helpformat".to_owned()])?
                .split_ascii_whitespace()
                .any(|field| field.eq_ignore_ascii_case(parse::SUBMIT_LINE)),
        };
        self.has_submit_line = Some(has_submit_line);
        for chunk in doubts.chunks(NAMES_PER_CALL) {
            let names: Vec<&str> = chunk.iter().map(|doubt| &*doubt.job_name).collect();
            let conditions = [
                format!("--name={}", names.join(",")),
                // Root is shown everybody's jobs otherwise.
                format!("--uid={}", self.uid),
            ];
            let mut parsed =
                self.ask_accounting(&conditions, Some(since), has_submit_line, None)?;
            // Slurm compares names without case.
            parsed.jobs.retain(|job| names.contains(&job.name.as_str()));
            note(parsed, found);
        }
        Ok(())
    }
}

impl Executor for SlurmExecutor {
    fn command_line(&self, request: &JobRequest) -> Vec<String> {
        let sbatch = self
            .commands
            .find("sbatch")
            .unwrap_or_else(|_| PathBuf::from("sbatch"));
        let script = self
            .find_script(&request.script)
            .unwrap_or_else(|_| PathBuf::from(&request.script));
        self.argv(request, sbatch, script)
            .into_iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        if Path::new(script).is_absolute() {
            return if is_script(Path::new(script)) {
                Ok(PathBuf::from(script))
            } else {
                Err(ExecutorError::ScriptMissing {
                    script: script.to_owned(),
                    searched: vec![script.to_owned()],
                })
            };
        }
        let own = [&self.script_dir, &self.config_dir];
        let dirs = own.into_iter().flatten().chain(self.commands.search_path());
        let mut searched = Vec::new();
        // An empty name would find the directory itself.
        for dir in dirs.filter(|_| !script.is_empty()) {
            let path = dir.join(script);
            if is_script(&path) {
                return Ok(path);
            }
            searched.push(dir.display().to_string());
        }
        Err(ExecutorError::ScriptMissing {
            script: script.to_owned(),
            searched,
        })
    }

    fn submit(&mut self, request: &JobRequest) -> Submission {
        self.try_submit(request)
            .unwrap_or_else(|message| Submission::Refused {
                kind: Refusal::Permanent,
                message,
            })
    }

    fn observe(&mut self, question: &Question) -> Observation {
        let mut clusters: Vec<Option<Arc<str>>> = vec![None];
        for job in question.jobs.iter().chain(&question.canary) {
            if !clusters.contains(&job.cluster) {
                clusters.push(job.cluster.clone());
            }
        }
        let mut warnings = Vec::new();
        let strange: Vec<&str> = question
            .jobs
            .iter()
            .filter(|job| !parse::is_askable(&job.id))
            .map(|job| job.id.as_str())
            .collect();
        if !strange.is_empty() {
            warnings.push(format!(
                "no job ids of Slurm's, so sacct was not asked about them: {}",
                strange.join(", ")
            ));
        }
        // The queue first: what ends between the two questions is then still found in the second.
        let queue = self.observe_queue(&clusters, &mut warnings);
        let accounting = self.observe_accounting(question, &clusters, &mut warnings);
        Observation {
            queue,
            accounting,
            warnings,
        }
    }

    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        let failed = |message: String| ExecutorError::Failed {
            command: "scancel".to_owned(),
            message,
        };
        let mut result = Ok(());
        let mut clusters: Vec<&Option<Arc<str>>> = jobs.iter().map(|job| &job.cluster).collect();
        clusters.sort();
        clusters.dedup();
        for cluster in clusters {
            let ids: Vec<&str> = jobs
                .iter()
                .filter(|job| job.cluster == *cluster && parse::is_askable(&job.id))
                .map(|job| job.id.as_str())
                .collect();
            for chunk in ids.chunks(IDS_PER_CALL) {
                let mut arguments = cluster_option(cluster.as_ref());
                arguments.extend(chunk.iter().map(|id| (*id).to_owned()));
                match self.ask("scancel", &arguments) {
                    Ok(_) => {}
                    // A job that has ended in the meantime is what was asked for.
                    Err(text) if is_gone_already(&text) => {}
                    Err(text) => result = Err(failed(text)),
                }
            }
        }
        if let Some(job) = jobs.iter().find(|job| !parse::is_askable(&job.id)) {
            result = Err(failed(format!("'{}' is no job id of Slurm's", job.id)));
        }
        result
    }
}

/// Leaves one report per job; of two, the first, with the mark that only the answer by name has.
fn each_once(jobs: Vec<JobReport>) -> Vec<JobReport> {
    let mut places: HashMap<(JobId, Option<Arc<str>>), usize> = HashMap::new();
    let mut once: Vec<JobReport> = Vec::new();
    for job in jobs {
        match places.entry((job.id.clone(), job.facts.cluster.clone())) {
            Entry::Occupied(place) => {
                if let Some(known) = once.get_mut(*place.get()) {
                    known.tag = known.tag.take().or(job.tag);
                }
            }
            Entry::Vacant(place) => {
                place.insert(once.len());
                once.push(job);
            }
        }
    }
    once
}

/// Adds an option that has a value; an empty text in the configuration means none.
fn push(argv: &mut Vec<OsString>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value
        .map(|value| value.to_string())
        .filter(|text| !text.is_empty())
    {
        argv.push(format!("--{name}={value}").into());
    }
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

fn cluster_option(cluster: Option<&Arc<str>>) -> Vec<String> {
    cluster
        .map(|cluster| format!("--clusters={cluster}"))
        .into_iter()
        .collect()
}

/// Returns the local time, a day earlier: clocks differ, and summer time has an hour twice.
fn a_day_before(time: DateTime<Utc>) -> String {
    let earlier = time.checked_sub_days(Days::new(1)).unwrap_or(time);
    earlier
        .with_timezone(&Local)
        .format("%Y-%m-%dT%H:%M:%S")
        .to_string()
}

/// Returns sbatch's file name pattern for a job's log: `%` starts a replacement symbol, so ours are doubled.
fn log_pattern(dir: &Path, job_name: &str, ending: &str) -> OsString {
    use std::os::unix::ffi::OsStringExt;

    let mut bytes = Vec::new();
    for byte in dir.join(job_name).as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(b'%');
        }
    }
    bytes.extend_from_slice(b"_%j.");
    bytes.extend_from_slice(ending.as_bytes());
    OsString::from_vec(bytes)
}

/// Returns true for a file that can be read: sbatch reads it, nobody executes it in place.
fn is_script(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && std::fs::File::open(path).is_ok()
}

fn add_new(warnings: &mut Vec<String>, more: Vec<String>) {
    for warning in more {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

#[cfg(test)]
mod tests;
