//! The queries to squeue and sacct in one pass, and when their answers count.
//!
//! One squeue per cluster, one sacct per thousand jobs. A query does not count if it failed, or if it lacks the job
//! that it must have.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::Arc;

use chrono::{DateTime, Days, Local, Utc};

use super::home::setting;
use crate::base::run::End;
use crate::base::sys;
use crate::executor::slurm::client::SlurmExecutor;
use crate::executor::slurm::command::one_line;
use crate::executor::slurm::job_state::is_revoked;
use crate::executor::slurm::parse::Parsed;
use crate::executor::slurm::{identity, parse};
use crate::executor::{Answer, JobReport, Question};
use crate::model::job::{JobId, JobRef, array};

/// A thousand, and a job that accounting must have. Limits the rows per database query, and an argument has at most
/// 128 KiB.
pub(crate) const IDS_PER_CALL: usize = 1001;

/// By default, sacct shows the jobs of all users only to root.
pub(crate) const EVERYBODY: &str = "--allusers";

impl SlurmExecutor {
    /// Runs a query; the error is a text for people.
    pub(crate) fn ask(
        &mut self,
        program: &str,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<String, String> {
        let limit = self.time.for_query(program)?;
        let ended = self
            .commands
            .query(program, arguments, limit)
            .map_err(|error| error.to_string())?;
        if let End::TimedOut { .. } = ended.end {
            self.time.note_silence(program);
        }
        let message = one_line(&ended.stderr);
        let what = match ended.end {
            // squeue ends with 0 even if it cannot query a user whose name is unknown at the moment.
            End::Exit(0) if is_incomplete(&ended.stdout, &ended.stderr) => {
                format!("{program} ended with exit code 0")
            }
            End::Exit(0) => return Ok(ended.stdout),
            End::Exit(code) => format!("{program} ended with exit code {code}"),
            End::Signal(signal) => format!("{program} was killed by signal {signal}"),
            End::TimedOut { seconds } => {
                format!("{program} did not answer within {seconds} s and was killed")
            }
            End::TooLong { bytes } => {
                format!(
                    "{program} printed more than {} MiB and was killed",
                    bytes >> 20
                )
            }
            End::Unseen => format!(
                "the exit status of {program} is unknown (does the calling program ignore SIGCHLD?)"
            ),
        };
        Err(if message.is_empty() {
            what
        } else {
            format!("{what}: {message}")
        })
    }

    /// The option for the users whose jobs are queried: the owner and the caller.
    pub(crate) fn users(&self, option: &str) -> String {
        match self.settings.owner == self.settings.caller {
            true => format!("{option}={}", self.settings.owner),
            false => format!("{option}={},{}", self.settings.owner, self.settings.caller),
        }
    }

    /// Fails if Slurm hides the owner's jobs from the caller, since their absence would mean nothing.
    fn check_view(&mut self) -> Result<(), String> {
        if self.settings.owner == self.settings.caller || self.settings.caller == 0 {
            return Ok(());
        }
        let hidden = setting(self.site_config()?, "PrivateData").unwrap_or_default();
        match hidden.split(',').any(|what| what.trim() == "jobs") {
            false => Ok(()),
            true => Err(format!(
                "Slurm hides the jobs of {} from {} (PrivateData=jobs)",
                sys::user(self.settings.owner),
                sys::user(self.settings.caller)
            )),
        }
    }

    /// `filter` is an option that selects jobs.
    pub(crate) fn ask_queue(
        &mut self,
        filter: Option<String>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        // A separator also at the end: text between two records does not come from Slurm.
        let format = parse::QUEUE_FORMAT.map(|field| format!("{field}{}", self.settings.separator));
        let mut arguments = cluster_option(cluster);
        arguments.extend(["--all", "-h", "-r", "--states=all"].map(str::to_owned));
        arguments.extend(filter);
        arguments.push(format!("--format={}", format.concat()));
        let text = self.ask("squeue", &arguments)?;
        Ok(parse::queue(&text, &self.settings.separator, cluster))
    }

    /// Asks accounting for these jobs of `users`, in as many calls as needed.
    pub(crate) fn records(
        &mut self,
        users: &str,
        ids: &[&str],
        since: Option<DateTime<Utc>>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        let mut all = Parsed::default();
        for jobs in jobs_options(ids) {
            let parsed = self.ask_accounting(users, Some(jobs), since, cluster)?;
            all.jobs.extend(parsed.jobs);
            add_new(&mut all.warnings, parsed.warnings);
            all.broken = all.broken.or(parsed.broken);
        }
        Ok(all)
    }

    /// Asks accounting for jobs of `users` (all without `jobs`), with their submit lines, which have our tag.
    fn ask_accounting(
        &mut self,
        users: &str,
        jobs: Option<String>,
        since: Option<DateTime<Utc>>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        let with_submit_line = match self.has_submit_line {
            Some(known) => known,
            None => self
                .ask("sacct", &["--helpformat"])?
                .split_ascii_whitespace()
                .any(|field| field.eq_ignore_ascii_case(parse::SUBMIT_LINE)),
        };
        self.has_submit_line = Some(with_submit_line);
        let mut fields: Vec<&str> = parse::ACCOUNTING_FIELDS.to_vec();
        if with_submit_line {
            fields.insert(fields.len() - 1, parse::SUBMIT_LINE);
        }
        let mut arguments = cluster_option(cluster);
        // -D: all jobs that ever had an id. Ids are recycled, and sacct shows only the newest by default.
        arguments.extend(["-X", "-D", "-n", "-p"].map(str::to_owned));
        arguments.push(format!("--delimiter={}", self.settings.separator));
        arguments.push(users.to_owned());
        arguments.extend(jobs);
        arguments.extend(since_option(since));
        arguments.push(format!("--format={}", fields.join(",")));
        let text = self.ask("sacct", &arguments)?;
        Ok(parse::accounting(
            &text,
            &self.settings.separator,
            with_submit_line,
            cluster,
        ))
    }

    pub(crate) fn observe_queue(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Answer<Vec<JobReport>> {
        let mut jobs = Vec::new();
        if let Err(text) = self.check_view() {
            return Answer::Failed(text);
        }
        for cluster in clusters {
            let own = self.users("--user");
            match self.ask_queue(Some(own), cluster.as_ref()) {
                Ok(parsed) => {
                    if let Some(text) = parsed.broken {
                        return Answer::Failed(text);
                    }
                    jobs.extend(parsed.jobs);
                    add_new(warnings, parsed.warnings);
                }
                Err(text) => return Answer::Failed(text),
            }
        }
        match self.check_home(question, &jobs) {
            Ok(()) => Answer::Got(jobs),
            Err(text) => Answer::Failed(text),
        }
    }

    pub(crate) fn observe_accounting(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Answer<Vec<JobReport>> {
        if !self.settings.accounting {
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
        let ended = || question.ended.iter().map(|(job, _)| job);
        let has_no_jobs = question.jobs.is_empty() && question.ended.is_empty();
        if has_no_jobs && question.search_from.is_none() {
            return Ok(found);
        }
        let own = self.users("--uid");
        // A job that is missing from a cut answer may exist.
        let mut cut: Option<String> = None;
        let mut note = |parsed: Parsed, found: &mut Vec<JobReport>| {
            found.extend(parsed.jobs);
            add_new(warnings, parsed.warnings);
            cut = cut.take().or(parsed.broken);
        };
        for cluster in clusters {
            let canary = question
                .canary
                .as_ref()
                .filter(|canary| canary.cluster == *cluster && parse::is_askable(&canary.id));
            // The id of an array also returns the records of its tasks.
            let mut ids: Vec<&str> = question
                .jobs
                .iter()
                .chain(ended())
                .filter(|job| job.cluster == *cluster && parse::is_askable(&job.id))
                .map(|job| array::split_job_id(&job.id).map_or(job.id.as_str(), |(id, _)| id))
                .chain(canary.map(|canary| canary.id.as_str()))
                .collect();
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(*id));
            let parsed = self.records(&own, &ids, question.since, cluster.as_ref())?;
            // Any job in the answer proves that accounting works. The canary may be missing then, since
            // sites purge old records.
            if let Some(canary) = canary
                && parsed.jobs.is_empty()
            {
                // It may have ended before the start time of the query.
                // A wrapper around sbatch may have submitted it as another user.
                let ids = [canary.id.as_str()];
                let alone = self.records(EVERYBODY, &ids, None, cluster.as_ref())?;
                if !alone.jobs.iter().any(|job| job.id == canary.id) {
                    return Err(format!(
                        "sacct no longer lists job {}, which it listed before: the accounting database may be incomplete",
                        canary.id
                    ));
                }
                note(alone, &mut found);
            }
            note(parsed, &mut found);
            if question.search_from.is_some() {
                let from = question.search_from;
                let all = self.ask_accounting(&own, None, from, cluster.as_ref())?;
                note(all, &mut found);
            }
        }
        match cut {
            Some(text)
                if question.search_from.is_some()
                    || !missing(&question.jobs, found.iter()).is_empty() =>
            {
                Err(text)
            }
            _ => Ok(each_once(found)),
        }
    }

    /// Asks for the submit lines of live jobs that are not in the question: a plugin may have replaced their
    /// comments, and scripts change names. These records do not prove that accounting works.
    pub(crate) fn submit_lines_of_others(
        &mut self,
        question: &Question,
        queue: &[JobReport],
        warnings: &mut Vec<String>,
    ) -> Vec<JobReport> {
        let others = identity::others(question, queue);
        let mut found = Vec::new();
        for (cluster, ids) in &others {
            if self.has_submit_line == Some(false) {
                return found;
            }
            match self.records(EVERYBODY, ids, None, cluster.as_ref()) {
                Ok(parsed) => found.extend(parsed.jobs),
                Err(text) => {
                    warnings.push(format!(
                        "cannot look up this user's jobs without a row in accounting: {text}"
                    ));
                    return found;
                }
            }
        }
        found
    }
}

/// The option that selects the jobs, once per call.
pub(crate) fn jobs_options(ids: &[&str]) -> impl Iterator<Item = String> {
    let chunks = ids.chunks(IDS_PER_CALL);
    chunks.map(|ids| format!("--jobs={}", ids.join(",")))
}

/// The number and the cluster of each job without a report. A report of an array covers all its tasks.
pub(crate) fn missing<'a>(
    jobs: &'a [JobRef],
    reports: impl Iterator<Item = &'a JobReport>,
) -> Vec<(&'a str, Option<&'a str>)> {
    let place = |id: &'a JobId, cluster: &'a Option<Arc<str>>| {
        let number = array::split_job_id(id).map_or(id.leader(), |(array, _)| array);
        (number, cluster.as_deref())
    };
    let mut known: HashSet<_> = reports
        .map(|job| place(&job.id, &job.facts.cluster))
        .collect();
    let jobs = jobs.iter().filter(|job| parse::is_askable(&job.id));
    jobs.map(|job| place(&job.id, &job.cluster))
        .filter(|job| known.insert(*job))
        .collect()
}

/// Keeps one report per record. An id has a record per submission: it was requeued, or recycled for another job.
pub(crate) fn each_once(mut jobs: Vec<JobReport>) -> Vec<JobReport> {
    let mut seen = HashSet::new();
    jobs.retain(|job| {
        let cluster = job.facts.cluster.clone();
        let times = (job.submitted_at, job.facts.started_at);
        seen.insert((job.id.clone(), cluster, times, is_revoked(job)))
    });
    jobs
}

/// The clusters of a question: the default one, its own, and its jobs'.
pub(crate) fn clusters(question: &Question) -> Vec<Option<Arc<str>>> {
    let mut clusters: Vec<Option<Arc<str>>> = vec![None];
    let ended = question.ended.iter().map(|(job, _)| job);
    let of_jobs = question.jobs.iter().chain(&question.canary).chain(ended);
    let named = of_jobs
        .map(|job| job.cluster.clone())
        .chain(question.clusters.iter().cloned().map(Some));
    for cluster in named {
        if !clusters.contains(&cluster) {
            clusters.push(cluster);
        }
    }
    clusters
}

pub(crate) fn cluster_option(cluster: Option<&Arc<str>>) -> Vec<String> {
    cluster
        .map(|cluster| format!("--clusters={cluster}"))
        .into_iter()
        .collect()
}

/// Limits the search in time: earlier records belong to other jobs.
pub(crate) fn since_option(since: Option<DateTime<Utc>>) -> Option<String> {
    // Slurm refuses a future time, which a wrong clock may have written into the state.
    since.map(|since| format!("--starttime={}", a_day_before(since.min(sys::now()))))
}

/// True if a program exited with 0 but reports that it did not answer all of the query.
fn is_incomplete(answer: &str, stderr: &str) -> bool {
    let stderr = stderr.to_lowercase();
    stderr.contains("invalid user") || answer.trim().is_empty() && stderr.contains("error:")
}

/// The local time a day earlier: clocks differ, and the end of summer time repeats an hour.
fn a_day_before(time: DateTime<Utc>) -> String {
    let earlier = time.checked_sub_days(Days::new(1)).unwrap_or(time);
    earlier
        .with_timezone(&Local)
        .format("%Y-%m-%dT%H:%M:%S")
        .to_string()
}

fn add_new(warnings: &mut Vec<String>, more: Vec<String>) {
    for warning in more {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}
