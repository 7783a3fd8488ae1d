//! Slurm: are its commands there, does it answer, would it take the jobs, and would they ever start. Pure.

mod limits;
pub mod site;
mod submission;

use chrono::TimeDelta;

use super::{Finding, few};
use crate::executor::JobReport;
use crate::executor::slurm::inspect::Report;
use crate::model::config::Config;
use crate::model::job::{is_same_study, name_of_study};
use site::Site;

pub use submission::way_out;

/// Versions that were looked at: year and month.
const KNOWN: std::ops::RangeInclusive<(u32, u32)> = (20, 11)..=(26, 5);
/// The controller says its time in whole seconds.
const SKEW: TimeDelta = TimeDelta::seconds(5);
/// Without accounting, a job must be seen in the queue after its end; cron seldom calls more often than this.
const USUAL_INTERVAL: u64 = 15 * 60;

/// Holds what one procedure asks for, wherever it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub procedure: String,
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    /// In seconds.
    pub time: Option<u64>,
    /// Its tasks are submitted as arrays.
    pub array: bool,
}

/// Judges what Slurm said.
pub fn judge(
    config: &Config,
    study: &str,
    wanted: &[Wanted],
    canary: Option<&str>,
    report: &Report,
) -> Vec<Finding> {
    let mut findings = programs(config, report);
    findings.extend(version(report));
    findings.extend(queue(report));
    findings.extend(namesake(study, report));
    let site = match &report.config {
        Some(Ok(text)) => site::config(text),
        _ => Site::default(),
    };
    findings.extend(accounting(config, canary, report, &site));
    findings.extend(settings(config, wanted, report, &site));
    findings.extend(limits::partitions(wanted, report));
    findings.extend(limits::walls(wanted, report));
    findings.extend(submission::judge(report));
    findings
}

/// Names the programs that cannot do without.
fn is_needed(config: &Config, program: &str) -> bool {
    match program {
        "sbatch" | "squeue" | "scancel" => true,
        "sacct" => config.slurm.accounting,
        _ => false,
    }
}

fn programs(config: &Config, report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = Vec::new();
    for (program, place) in &report.programs {
        match place {
            Ok(path) => found.push(path.display().to_string()),
            Err((message, hint)) if is_needed(config, program) => {
                findings.push(Finding::error("slurm", *program, message, hint));
            }
            Err((message, _)) if *program == "scontrol" => findings.push(Finding::warning(
                "slurm",
                *program,
                format!("{message}; limits of partitions and arrays cannot be read"),
                "have it installed beside sbatch",
            )),
            Err(_) => {}
        }
    }
    if findings.is_empty()
        && let Some(first) = found.first()
    {
        findings.push(Finding::ok(
            "slurm",
            "",
            format!("its commands are there: {first} and others"),
        ));
    }
    findings
}

fn version(report: &Report) -> Option<Finding> {
    let topic = "slurm";
    let said = match report.version.as_ref()? {
        Ok(said) => said.trim(),
        Err(error) => {
            return Some(Finding::warning(
                topic,
                "version",
                error,
                "call `sbatch --version` in a shell",
            ));
        }
    };
    Some(match site::version(said) {
        Some(version) if KNOWN.contains(&version) => Finding::ok(topic, "version", said),
        Some(version) if version < *KNOWN.start() => Finding::warning(
            topic,
            "version",
            format!("{said} is older than 20.11, the oldest that this program knows"),
            "try a run with few tasks (--max-jobs 1) and look at `status`",
        ),
        Some(_) => Finding::warning(
            topic,
            "version",
            format!("{said} is newer than 26.05, the newest that this program knows"),
            "look for a newer snbb-scheduler; words that this one does not know count as alive",
        ),
        None => Finding::warning(
            topic,
            "version",
            format!(
                "`sbatch --version` says nothing that is a version: '{}'",
                shortened(said)
            ),
            "see whether sbatch is a wrapper of the site's, and set slurm_bin_dir to the directory of Slurm's own",
        ),
    })
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

fn queue(report: &Report) -> Option<Finding> {
    let topic = "queue";
    Some(match report.queue.as_ref()? {
        Ok(jobs) => Finding::ok(
            topic,
            "",
            format!(
                "squeue answers; jobs of this user: {}",
                living(jobs).count()
            ),
        ),
        Err(error) => Finding::error(
            topic,
            "",
            format!("the queue does not answer: {error}"),
            "see whether slurmctld and munge run (scontrol ping); while it is so, nothing is submitted and nothing changes",
        ),
    })
}

fn living(jobs: &[JobReport]) -> impl Iterator<Item = &JobReport> {
    jobs.iter().filter(|job| job.phase.is_live())
}

/// Warns about another study of this user with the same name.
fn namesake(study: &str, report: &Report) -> Option<Finding> {
    let jobs = report.queue.as_ref()?.as_ref().ok()?;
    let name = name_of_study(study);
    let job = living(jobs).find(|job| {
        job.tag.as_ref().is_some_and(|tag| {
            !is_same_study(&tag.project, study) && name_of_study(&tag.project) == name
        })
    })?;
    Some(Finding::warning(
        "queue",
        "project",
        format!(
            "another study of this user also has `project: {name}` (job {})",
            job.id
        ),
        "set another `project` in one of the two: only a mark in their jobs' comments tells them apart",
    ))
}

/// True if Slurm says that there is no accounting.
fn is_disabled(error: &str) -> bool {
    error.contains("accounting storage is disabled")
}

fn accounting(config: &Config, canary: Option<&str>, report: &Report, site: &Site) -> Vec<Finding> {
    let topic = "accounting";
    let mut findings = Vec::new();
    let is_on = config.slurm.accounting;
    match (&report.accounting, is_on) {
        (Some(Ok(said)), true) => {
            let knows = |job: &&str| said.lines().any(|line| line.trim() == *job);
            findings.push(match canary {
                Some(job) if !knows(&job) => Finding::warning(
                    topic,
                    "",
                    format!("sacct answers and does not know job {job}, which ended lately"),
                    "ask the administrator whether slurmdbd is well; until then nothing is concluded from its silence",
                ),
                _ => Finding::ok(topic, "", "sacct answers"),
            });
        }
        (Some(Err(error)), true) if is_disabled(error) => findings.push(Finding::warning(
            topic,
            "",
            "this Slurm has no accounting",
            "set accounting: off, so that it is not asked for each time",
        )),
        (Some(Err(error)), true) => findings.push(Finding::error(
            topic,
            "",
            format!("accounting does not answer: {error}"),
            "see whether slurmdbd and its database run; jobs are submitted meanwhile, but nobody learns how they ended. \
             Without accounting at this site: accounting: off",
        )),
        (Some(Ok(_)), false) => findings.push(Finding::warning(
            topic,
            "",
            "accounting is off in the configuration although sacct answers",
            "take `accounting: off` out: without it, how a job ended is known only while the queue remembers it",
        )),
        (_, false) => findings.push(Finding::ok(topic, "", "is off: the queue and the markers decide")),
        (None, true) => {}
    }
    let is_there = is_on && !matches!(&report.accounting, Some(Err(error)) if is_disabled(error));
    if let Some(age) = site.min_job_age
        && !is_there
        && age < USUAL_INTERVAL
    {
        findings.push(Finding::warning(
            topic,
            "MinJobAge",
            format!("without accounting, how a job ended is known for {age} s only (MinJobAge)"),
            format!("call run or monitor more often than every {age} s, or have MinJobAge raised"),
        ));
    }
    findings
}

/// The controller's settings against ours, and its clock against the host's.
fn settings(config: &Config, wanted: &[Wanted], report: &Report, site: &Site) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(Err(error)) = &report.config {
        findings.push(Finding::warning(
            "slurm",
            "scontrol",
            format!("its settings cannot be read: {error}"),
            "call `scontrol show config` in a shell",
        ));
    }
    let settle = config.settle_time.as_secs();
    if let Some(timeout) = site.message_timeout
        && settle < timeout.saturating_mul(3)
    {
        findings.push(Finding::warning(
            "slurm",
            "settle_time",
            format!("a submission in doubt is given up after {settle} s, and Slurm's MessageTimeout is {timeout} s"),
            format!("set settle_time to {} s or more: a slow controller may take a job later", timeout * 3),
        ));
    }
    let arrays: Vec<&str> = wanted
        .iter()
        .filter(|wanted| wanted.array)
        .map(|wanted| wanted.procedure.as_str())
        .collect();
    if site.max_array_size.is_some_and(|size| size < 2) && !arrays.is_empty() {
        findings.push(Finding::warning(
            "slurm",
            "array",
            format!(
                "this Slurm takes no job arrays (MaxArraySize), which are configured for {}",
                few(&arrays)
            ),
            "set array: never; until then each task is a job of its own",
        ));
    }
    if let (Some(clock), Some((before, after))) = (site.clock, report.asked_at) {
        // Its time is cut to whole seconds.
        let late = before - clock - TimeDelta::seconds(1);
        let early = clock - after;
        let skew = late.max(early);
        findings.push(if skew < SKEW {
            Finding::ok("clock", "slurmctld", "Slurm's clock and this host's agree")
        } else {
            let way = if late > early { "behind" } else { "ahead of" };
            Finding::warning(
                "clock",
                "slurmctld",
                format!("Slurm's clock is {} s {way} this host's", skew.num_seconds()),
                "have both follow the same time server (chrony, ntp): a job's record is known by its time of submission",
            )
        });
    }
    findings
}

#[cfg(test)]
mod tests;
