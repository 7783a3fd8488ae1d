//! What is asked of squeue and sacct in one pass, and when their answer counts.
//!
//! One squeue per cluster, one sacct per thousand jobs. A query that failed, or that does not know the
//! job that it must know, is no answer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Days, Local, Utc};

use super::client::SlurmExecutor;
use super::command::{End, one_line};
use super::parse::{self, Parsed};
use crate::executor::{Answer, Doubt, JobReport, Question};
use crate::job::{JobId, JobRef, array};

/// One argument holds 128 KiB at most, and the database is asked for so many rows at a time.
pub(super) const IDS_PER_CALL: usize = 1000;

/// Names can be longer than ids.
const NAMES_PER_CALL: usize = 300;

impl SlurmExecutor {
    /// Runs a query; the error is a text for people.
    pub(super) fn ask(&mut self, program: &str, arguments: &[String]) -> Result<String, String> {
        let limit = self.time.for_query(program)?;
        let ended = self
            .commands
            .query(program, arguments, limit)
            .map_err(|error| error.to_string())?;
        if let End::TimedOut { .. } = ended.end {
            self.time.note_silence(program);
        }
        let said = one_line(&ended.stderr);
        let what = match ended.end {
            End::Exit(0) => return Ok(ended.stdout),
            End::Exit(code) => format!("{program} ended with exit code {code}"),
            End::Signal(signal) => format!("{program} was ended by signal {signal}"),
            End::TimedOut { seconds } => {
                format!("{program} did not answer within {seconds} s and was ended")
            }
            End::TooLong { bytes } => {
                format!(
                    "{program} printed more than {} MiB and was ended",
                    bytes >> 20
                )
            }
            End::Unseen => format!(
                "the exit status of {program} could not be had (does the calling program ignore SIGCHLD?)"
            ),
        };
        Err(if said.is_empty() {
            what
        } else {
            format!("{what}: {said}")
        })
    }

    /// Whose jobs are asked for: the owner's, and those that another caller submits.
    pub(super) fn users(&self) -> String {
        match self.owner == self.caller {
            true => self.owner.to_string(),
            false => format!("{},{}", self.owner, self.caller),
        }
    }

    /// Fails where Slurm hides the owner's jobs from the caller: their absence would mean nothing.
    fn check_view(&mut self) -> Result<(), String> {
        if self.owner == self.caller || self.caller == 0 {
            return Ok(());
        }
        let config = self.ask("scontrol", &["show", "config"].map(str::to_owned))?;
        let is_hidden =
            config
                .lines()
                .filter_map(|line| line.split_once('='))
                .any(|(key, value)| {
                    key.trim() == "PrivateData"
                        && value.split(',').any(|what| what.trim() == "jobs")
                });
        match is_hidden {
            false => Ok(()),
            true => Err(format!(
                "Slurm hides the jobs of user {} from user {} (PrivateData=jobs)",
                self.owner, self.caller
            )),
        }
    }

    fn ask_queue(&mut self, cluster: Option<&Arc<str>>) -> Result<Parsed, String> {
        // One more at the end: what comes between two records is text of something else than Slurm.
        let format = parse::QUEUE_FORMAT.map(|field| format!("{field}{}", self.separator));
        let mut arguments = cluster_option(cluster);
        arguments.extend(["--all", "-h", "-r", "--states=all"].map(str::to_owned));
        arguments.push(format!("--user={}", self.users()));
        arguments.push(format!("--format={}", format.concat()));
        let text = self.ask("squeue", &arguments)?;
        Ok(parse::queue(&text, &self.separator, cluster))
    }

    /// Asks accounting for the jobs that fit some conditions (`--jobs=1,2`).
    fn ask_accounting(
        &mut self,
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
        // All jobs that ever had an id: ids are recycled, and sacct alone would show the newest only.
        arguments.extend(["-X", "-D", "-n", "-p"].map(str::to_owned));
        arguments.push(format!("--delimiter={}", self.separator));
        arguments.extend_from_slice(conditions);
        arguments.extend(since_option(since));
        arguments.push(format!("--format={}", fields.join(",")));
        let text = self.ask("sacct", &arguments)?;
        Ok(parse::accounting(
            &text,
            &self.separator,
            with_submit_line,
            cluster,
        ))
    }

    pub(super) fn observe_queue(
        &mut self,
        clusters: &[Option<Arc<str>>],
        warnings: &mut Vec<String>,
    ) -> Answer<Vec<JobReport>> {
        let mut jobs = Vec::new();
        if let Err(text) = self.check_view() {
            return Answer::Failed(text);
        }
        for cluster in clusters {
            match self.ask_queue(cluster.as_ref()) {
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
        Answer::Got(jobs)
    }

    pub(super) fn observe_accounting(
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
        // What is missing from an answer that was cut is not absent.
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
            // One id stands for all tasks of an array; their records come with it.
            let mut ids: Vec<&str> = question
                .jobs
                .iter()
                .filter(|job| job.cluster == *cluster && parse::is_askable(&job.id))
                .map(|job| array::split_job_id(&job.id).map_or(job.id.as_str(), |(id, _)| id))
                .collect();
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(*id));
            let mut chunks: Vec<&[&str]> = ids.chunks(IDS_PER_CALL).collect();
            if chunks.is_empty() && canary.is_some() {
                chunks.push(&[]);
            }
            for chunk in chunks {
                let mut asked: Vec<&str> = chunk.to_vec();
                asked.extend(canary.map(|canary| canary.id.as_str()));
                let condition = [format!("--jobs={}", asked.join(","))];
                let parsed =
                    self.ask_accounting(&condition, question.since, false, cluster.as_ref())?;
                // Any job that is known proves that it answers. The canary alone does not have to be there
                // for ever: sites purge old records.
                if let Some(canary) = canary
                    && parsed.jobs.is_empty()
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
        for cluster in clusters {
            self.look_for(&question.in_doubt, cluster.as_ref(), &mut found, &mut note)?;
        }
        match cut {
            Some(text) if !knows_all(&found, question) => Err(text),
            _ => Ok(each_once(found)),
        }
    }

    /// Asks for jobs by the names of submissions in doubt.
    fn look_for(
        &mut self,
        doubts: &[Doubt],
        cluster: Option<&Arc<str>>,
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
        let mut all: Vec<&str> = doubts.iter().map(|doubt| &*doubt.job_name).collect();
        // The tasks of an array share its name.
        all.sort_unstable();
        all.dedup();
        for names in all.chunks(NAMES_PER_CALL) {
            let conditions = [
                format!("--name={}", names.join(",")),
                // Root is shown everybody's jobs otherwise.
                format!("--uid={}", self.users()),
            ];
            let mut parsed =
                self.ask_accounting(&conditions, Some(since), has_submit_line, cluster)?;
            // Slurm compares names without case.
            parsed.jobs.retain(|job| names.contains(&job.name.as_str()));
            note(parsed, found);
        }
        Ok(())
    }
}

/// True if accounting has told something of each job and of each submission in doubt.
fn knows_all(found: &[JobReport], question: &Question) -> bool {
    let ids: HashSet<&str> = found.iter().map(|job| job.id.as_str()).collect();
    let arrays: HashSet<&str> = found
        .iter()
        .filter_map(|job| Some(array::split_job_id(&job.id)?.0))
        .collect();
    let marks: HashSet<&str> = found
        .iter()
        .filter_map(|job| Some(job.tag.as_ref()?.submission_id.as_str()))
        .collect();
    let is_known = |job: &JobRef| {
        ids.contains(job.id.as_str())
            || array::split_job_id(&job.id)
                .is_some_and(|(id, _)| ids.contains(id) || arrays.contains(id))
    };
    question.jobs.iter().all(is_known)
        && question
            .in_doubt
            .iter()
            .all(|doubt| marks.contains(&*doubt.submission_id))
}

/// Leaves one report per record; of two, the first, with the tag that only the answer by name has.
/// Of one id there is a record per submission: it was requeued, or recycled for another job.
fn each_once(jobs: Vec<JobReport>) -> Vec<JobReport> {
    type Record = (JobId, Option<Arc<str>>, Option<DateTime<Utc>>);
    let mut places: HashMap<Record, usize> = HashMap::new();
    let mut once: Vec<JobReport> = Vec::new();
    for job in jobs {
        let record = (job.id.clone(), job.facts.cluster.clone(), job.submitted_at);
        match places.entry(record) {
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

/// Returns the clusters that a question is about: the default one, and those of its jobs and its own.
pub(super) fn clusters(question: &Question) -> Vec<Option<Arc<str>>> {
    let mut clusters: Vec<Option<Arc<str>>> = vec![None];
    let of_jobs = question.jobs.iter().chain(&question.canary);
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

pub(super) fn cluster_option(cluster: Option<&Arc<str>>) -> Vec<String> {
    cluster
        .map(|cluster| format!("--clusters={cluster}"))
        .into_iter()
        .collect()
}

/// Bounds the search in time: records that ended before are another job's.
pub(super) fn since_option(since: Option<DateTime<Utc>>) -> Option<String> {
    since.map(|since| format!("--starttime={}", a_day_before(since)))
}

/// Returns the local time, a day earlier: clocks differ, and summer time has an hour twice.
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
