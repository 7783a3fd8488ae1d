//! What would keep jobs from ever starting although Slurm takes them: closed partitions, limits of time. Pure.

use super::Wanted;
use super::site::{self, Partition, Wall};
use crate::executor::slurm::inspect::Report;
use crate::setup::check::Finding;

pub(super) fn partitions(wanted: &[Wanted], report: &Report) -> Vec<Finding> {
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
pub(super) fn walls(wanted: &[Wanted], report: &Report) -> Vec<Finding> {
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
