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
use crate::executor::slurm::command::{self, is_without_accounting};
use crate::executor::slurm::job_state::is_revoked;
use crate::executor::slurm::parse::Parsed;
use crate::executor::slurm::{identity, parse};
use crate::executor::{Answer, JobReport, Question};
use crate::model::job::JobRef;

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
        command::answer(program, ended)
    }

    /// Adds warnings for the pass.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
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
            all.add(parsed);
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

    pub(crate) fn queue_of(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
    ) -> Result<Vec<JobReport>, String> {
        self.check_view()?;
        let own = self.users("--user");
        let mut found = Parsed::default();
        for cluster in clusters {
            let parsed = self.ask_queue(Some(own.clone()), cluster.as_ref())?;
            found.add(parsed.whole()?);
        }
        self.warn(found.warnings);
        self.check_home(question, &found.jobs)?;
        Ok(found.jobs)
    }

    pub(crate) fn observe_accounting(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
    ) -> Answer<Vec<JobReport>> {
        if !self.settings.accounting {
            return Answer::Off;
        }
        match self.accounting_of(question, clusters) {
            Err(text) if is_without_accounting(&text) => Answer::Off,
            answer => answer.into(),
        }
    }

    fn accounting_of(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
    ) -> Result<Vec<JobReport>, String> {
        let mut found = Parsed::default();
        let ended = || question.ended.iter().map(|(job, _)| job);
        let has_no_jobs = question.jobs.is_empty() && question.ended.is_empty();
        if has_no_jobs && question.search_from.is_none() {
            return Ok(Vec::new());
        }
        let own = self.users("--uid");
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
                .map(|job| job.id.number())
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
                found.add(alone);
            }
            found.add(parsed);
            if question.search_from.is_some() {
                let from = question.search_from;
                let all = self.ask_accounting(&own, None, from, cluster.as_ref())?;
                found.add(all);
            }
        }
        self.warn(found.warnings);
        match found.broken {
            // A job that is missing from a cut answer may exist.
            Some(text)
                if question.search_from.is_some()
                    || !missing(&question.jobs, found.jobs.iter()).is_empty() =>
            {
                Err(text)
            }
            _ => Ok(each_once(found.jobs)),
        }
    }

    /// Asks for the submit lines of live jobs that are not in the question: a plugin may have replaced their
    /// comments, and scripts change names. These records do not prove that accounting works.
    pub(crate) fn submit_lines_of_others(
        &mut self,
        question: &Question,
        queue: &[JobReport],
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
                    self.warnings.push(format!(
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
    let mut known: HashSet<_> = reports
        .map(|job| (job.id.number(), job.facts.cluster.as_deref()))
        .collect();
    let jobs = jobs.iter().filter(|job| parse::is_askable(&job.id));
    jobs.map(|job| (job.id.number(), job.cluster.as_deref()))
        .filter(|job| known.insert(*job))
        .collect()
}

/// Keeps one report per record. An id has a record per submission: it was requeued, or recycled for another job.
pub(crate) fn each_once(mut jobs: Vec<JobReport>) -> Vec<JobReport> {
    let mut seen = HashSet::new();
    jobs.retain(|job| {
        let times = (job.submitted_at, job.facts.started_at);
        seen.insert((job.job(), times, is_revoked(job)))
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
    Vec::from_iter(cluster.map(|cluster| format!("--clusters={cluster}")))
}

/// Limits the search in time: earlier records belong to other jobs. A day is added, because clocks differ, and the end
/// of summer time repeats an hour.
pub(crate) fn since_option(since: Option<DateTime<Utc>>) -> Option<String> {
    // Slurm refuses a future time, which a wrong clock may have written into the state.
    let since = since?.min(sys::now());
    let since = since.checked_sub_days(Days::new(1)).unwrap_or(since);
    let local = since.with_timezone(&Local).format("%Y-%m-%dT%H:%M:%S");
    Some(format!("--starttime={local}"))
}
