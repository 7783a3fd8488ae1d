//! Slurm: are its commands there, does it answer, would it take the jobs, and would they ever start. Pure.

pub mod site;

use chrono::TimeDelta;

use super::{Finding, few};
use crate::config::Config;
use crate::executor::Refusal;
use crate::slurm::inspect::{Report, Tried};
use site::{Partition, Site, Wall};

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
    wanted: &[Wanted],
    canary: Option<&str>,
    report: &Report,
) -> Vec<Finding> {
    let mut findings = programs(config, report);
    findings.extend(version(report));
    findings.extend(queue(report));
    let site = match &report.config {
        Some(Ok(text)) => site::config(text),
        _ => Site::default(),
    };
    findings.extend(accounting(config, canary, report, &site));
    findings.extend(settings(config, wanted, report, &site));
    findings.extend(partitions(wanted, report));
    findings.extend(walls(wanted, report));
    findings.extend(submissions(report));
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
        Ok(text) => Finding::ok(
            topic,
            "",
            format!(
                "squeue answers; jobs of this user: {}",
                text.lines().count()
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
    // As the executor takes it where nothing is configured.
    let settle = config.settle_time.map_or(5 * 60, |time| time.as_secs());
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

fn partitions(wanted: &[Wanted], report: &Report) -> Vec<Finding> {
    let topic = "partition";
    let text = match &report.partitions {
        Some(Ok(text)) => text,
        _ => return Vec::new(),
    };
    let all = site::partitions(text);
    let mut findings = Vec::new();
    let mut used: Vec<&Partition> = Vec::new();
    for wanted in wanted {
        let names: Vec<&str> = wanted
            .partition
            .iter()
            .flat_map(|list| list.split(','))
            .collect();
        let chosen: Vec<&Partition> = all
            .iter()
            .filter(|partition| match names.as_slice() {
                [] => partition.is_default,
                names => names.contains(&partition.name.as_str()),
            })
            .collect();
        for partition in &chosen {
            if !used.contains(partition) {
                used.push(partition);
            }
        }
        // Where there are several, one that has room is enough.
        let longest = chosen
            .iter()
            .map(|partition| partition.max_time)
            .reduce(longer)
            .flatten();
        if let (Some(time), Some(longest)) = (wanted.time, longest)
            && time > longest
        {
            let names: Vec<&str> = chosen
                .iter()
                .map(|partition| partition.name.as_str())
                .collect();
            findings.push(Finding::error(
                topic,
                wanted.procedure.clone(),
                format!(
                    "asks for {} min, and partition {} allows {} min: the jobs would wait for ever",
                    time / 60,
                    names.join(","),
                    longest / 60
                ),
                "lower the procedure's time, or choose another partition",
            ));
        }
    }
    for partition in used {
        findings.push(match partition.state.as_str() {
            "UP" | "" => Finding::ok(topic, partition.name.clone(), "is up"),
            state => Finding::warning(
                topic,
                partition.name.clone(),
                format!("is {state}: jobs wait until the administrator opens it"),
                "wait, or choose another partition",
            ),
        });
    }
    findings
}

/// None is unlimited.
fn longer(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.max(other?))
}

/// Limits of the user's associations and of qualities of service.
fn walls(wanted: &[Wanted], report: &Report) -> Vec<Finding> {
    let read = |said: &Option<Result<String, String>>, parse: fn(&str) -> Vec<Wall>| match said {
        Some(Ok(text)) => parse(text),
        _ => Vec::new(),
    };
    let associations = read(&report.associations, site::associations);
    let qualities = read(&report.qos, site::qos);
    let mut findings = Vec::new();
    for wanted in wanted {
        let Some(time) = wanted.time else { continue };
        let mut judge = |what: &str, matching: Vec<&Wall>| {
            let longest = matching
                .iter()
                .map(|wall| wall.max)
                .reduce(longer)
                .flatten();
            let Some(longest) = longest.filter(|longest| time > *longest) else {
                return;
            };
            let name = matching.first().map_or("", |wall| wall.name.as_str());
            findings.push(Finding::error(
                "partition",
                wanted.procedure.clone(),
                format!(
                    "asks for {} min, and {what} {name} allows {} min (MaxWall): the jobs would wait for ever",
                    time / 60,
                    longest / 60
                ),
                format!("lower the procedure's time, or choose another {what}"),
            ));
        };
        let partitions: Vec<&str> = wanted
            .partition
            .iter()
            .flat_map(|list| list.split(','))
            .collect();
        let of_account = associations.iter().filter(|wall| {
            wanted
                .account
                .as_ref()
                .is_none_or(|account| wall.name == *account)
                && (wall.partition.is_empty() || partitions.contains(&wall.partition.as_str()))
        });
        judge("account", of_account.collect());
        if let Some(name) = &wanted.qos {
            judge(
                "qos",
                qualities.iter().filter(|wall| wall.name == *name).collect(),
            );
        }
    }
    findings
}

fn submissions(report: &Report) -> Vec<Finding> {
    let topic = "submission";
    report
        .tried
        .iter()
        .filter_map(|(procedure, tried)| {
            let about = procedure.as_str();
            Some(match tried {
                Tried::Fine(_) => Finding::ok(topic, about, "Slurm would take a job of it (sbatch --test-only)"),
                Tried::Refused {
                    kind: Refusal::Limit,
                    message,
                } => Finding::warning(
                    topic,
                    about,
                    format!("Slurm would take no job of it now: {message}"),
                    "nothing if it is a limit on jobs that are in the queue; else ask the administrator",
                ),
                Tried::Refused {
                    kind: Refusal::Transient,
                    message,
                } => Finding::warning(
                    topic,
                    about,
                    format!("Slurm could not say whether it would take a job: {message}"),
                    "try again later; if it stays so, ask the administrator",
                ),
                Tried::Refused { message, .. } => Finding::error(
                    topic,
                    about,
                    format!("Slurm would refuse a job of it: {message}"),
                    way_out(message),
                ),
                Tried::Unclear(message) => Finding::warning(
                    topic,
                    about,
                    format!("Slurm could not say whether it would take a job: {message}"),
                    "see whether slurmctld answers (scontrol ping), then check again",
                ),
                Tried::Submitted(job) => Finding::error(
                    topic,
                    about,
                    format!("the sbatch of this site does not know --test-only and has submitted job {job}"),
                    format!("scancel {job}, and set slurm_bin_dir to the directory of Slurm's own sbatch"),
                ),
                Tried::NoScript => return None,
            })
        })
        .collect()
}

/// Names the key that a refusal is about.
fn way_out(message: &str) -> &'static str {
    let text = message.to_lowercase();
    let table = [
        (
            "invalid account",
            "correct slurm_account (or the procedure's account), or leave it empty; `sacctmgr show assoc user=$USER` lists yours",
        ),
        (
            "partition",
            "correct slurm_partition (or the procedure's partition), or leave it empty for the default; `sinfo -s` lists them",
        ),
        (
            "qos",
            "correct the procedure's qos; `sacctmgr show assoc user=$USER format=account,qos` lists yours",
        ),
        (
            "feature",
            "correct --constraint in sbatch_args or in the script; `sinfo -o %f` lists what there is",
        ),
        (
            "gres",
            "correct the procedure's gres; `sinfo -o %G` lists what there is",
        ),
        (
            "generic resource",
            "correct the procedure's gres; `sinfo -o %G` lists what there is",
        ),
        (
            "node configuration",
            "ask for less memory, fewer CPUs or another constraint: no node of the partition has that much",
        ),
        (
            "memory",
            "ask for less memory: no node of the partition has that much",
        ),
        (
            "batch script",
            "begin the script with a line such as #!/bin/bash",
        ),
    ];
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map_or(
        "correct the procedure's options; nothing of it is submitted until then",
        |(_, advice)| advice,
    )
}

#[cfg(test)]
mod tests;
