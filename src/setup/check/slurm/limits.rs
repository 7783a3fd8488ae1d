//! Reports conditions under which accepted jobs never start: closed partitions and time limits.

use super::Wanted;
use super::site::{self, Limit};
use crate::executor::slurm::inspect::Report;
use crate::setup::check::Findings;

const TOPIC: &str = "partition";

pub(super) fn check(wanted: &[Wanted], report: &Report, findings: &mut Findings) {
    let read = |said: &Option<Result<String, String>>, parse: fn(&str) -> Vec<Limit>| match said {
        Some(Ok(text)) => parse(text),
        _ => Vec::new(),
    };
    let partitions = read(&report.partitions, site::partitions);
    let associations = read(&report.associations, site::walls);
    let qualities = read(&report.qos, site::walls);
    let mut used: Vec<&Limit> = Vec::new();
    for wanted in wanted {
        let names = wanted.partition.iter().flat_map(|list| list.split(','));
        let names: Vec<&str> = names.collect();
        let chosen = partitions
            .iter()
            .filter(|partition| match names.as_slice() {
                [] => partition.is_default,
                names => names.contains(&partition.name.as_str()),
            });
        let chosen: Vec<&Limit> = chosen.collect();
        let of_account = associations.iter().filter(|limit| {
            let is_it = |account: &String| limit.name == *account;
            wanted.account.as_ref().is_none_or(is_it)
                && (limit.partition.is_empty() || names.contains(&limit.partition.as_str()))
        });
        let of_account: Vec<&Limit> = of_account.collect();
        let is_it = |limit: &&Limit| wanted.qos.as_ref() == Some(&limit.name);
        let of_qos: Vec<&Limit> = qualities.iter().filter(is_it).collect();
        too_long(wanted, "partition", &chosen, "", findings);
        too_long(wanted, "account", &of_account, " (MaxWall)", findings);
        too_long(wanted, "qos", &of_qos, " (MaxWall)", findings);
        let others = chosen.iter().filter(|partition| !used.contains(*partition));
        let others: Vec<&Limit> = others.copied().collect();
        used.extend(others);
    }
    for partition in used {
        findings.about(TOPIC, &partition.name);
        let state = &partition.state;
        if !["UP", ""].contains(&state.as_str()) {
            findings.warning(
                format!("is {state}: jobs wait until the administrator reopens it"),
                "wait, or set another partition",
            );
        }
        findings.or_ok("is up");
    }
}

/// Reports a procedure whose time request exceeds all of several limits; one that is long enough suffices.
fn too_long(wanted: &Wanted, what: &str, limits: &[&Limit], note: &str, findings: &mut Findings) {
    // One without a limit suffices, too.
    let longest = limits.iter().map(|limit| limit.max);
    let longest = longest.reduce(|one, other| Some(one?.max(other?)));
    let (Some(time), Some(longest)) = (wanted.time, longest.flatten()) else {
        return;
    };
    if time > longest {
        let mut names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        names.dedup();
        let (names, asked, allowed) = (names.join(","), time / 60, longest / 60);
        findings.about(TOPIC, &wanted.procedure).error(
            format!("requests {asked} min, but {what} {names} allows {allowed} min{note}: the jobs would never start"),
            format!("lower the procedure's time, or set another {what}"),
        );
    }
}
