//! Parses the settings of Slurm that scontrol and sacctmgr show, and reports conditions under which accepted jobs never
//! start: closed partitions and time limits.

use chrono::{DateTime, Utc};

use super::Wanted;
use crate::executor::slurm::inspect::{Report, text_of};
use crate::model::procedure::TimeLimit;
use crate::setup::check::Findings;

const TOPIC: &str = "partition";

pub(super) fn check(wanted: &[Wanted], report: &Report, findings: &mut Findings) {
    let partitions = partitions(text_of(report.partitions.as_ref()));
    let associations = walls(text_of(report.associations.as_ref()));
    let qualities = walls(text_of(report.qos.as_ref()));
    let mut used: Vec<&Limit> = Vec::new();
    for wanted in wanted {
        let names = wanted.partition.iter().flat_map(|list| list.split(','));
        let names: Vec<&str> = names.collect();
        let mut chosen: Vec<&Limit> = partitions.iter().collect();
        chosen.retain(|partition| match names.as_slice() {
            [] => partition.is_default,
            names => names.contains(&partition.name.as_str()),
        });
        let mut of_account: Vec<&Limit> = associations.iter().collect();
        of_account.retain(|limit| {
            let account = wanted.account.as_ref();
            account.is_none_or(|account| limit.name == *account)
                && (limit.partition.is_empty() || names.contains(&limit.partition.as_str()))
        });
        let mut of_qos: Vec<&Limit> = qualities.iter().collect();
        of_qos.retain(|limit| wanted.qos.as_ref() == Some(&limit.name));
        too_long(wanted, "partition", &chosen, "", findings);
        too_long(wanted, "account", &of_account, " (MaxWall)", findings);
        too_long(wanted, "qos", &of_qos, " (MaxWall)", findings);
        chosen.retain(|partition| !used.contains(partition));
        used.extend(chosen);
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

/// The time limit of a partition, of an account of the user, or of a QOS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Limit {
    pub name: String,
    /// The partition that an account's limit applies to; empty for all.
    pub partition: String,
    pub is_default: bool,
    /// Of a partition: `UP`, `DOWN`, `DRAIN`, `INACTIVE`.
    pub state: String,
    /// In seconds; `None` if unlimited.
    pub max: Option<u64>,
}

/// Parses `scontrol show config`: the controller's clock, in whole seconds (with `SLURM_TIME_FORMAT=%s`), and how many
/// seconds the queue lists an ended job.
pub(super) fn config(text: &str) -> (Option<DateTime<Utc>>, Option<u64>) {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let clock = value("Configuration data as of ").and_then(|clock| clock.trim().parse().ok());
    let age = value("MinJobAge ").map(|age| age.trim_start_matches([' ', '=']).split(' '));
    let age = age.and_then(|mut age| age.next()?.parse().ok());
    (
        clock.and_then(|clock| DateTime::from_timestamp(clock, 0)),
        age,
    )
}

/// Parses `scontrol --oneliner show partition`.
pub(super) fn partitions(text: &str) -> Vec<Limit> {
    let partition = |line: &str| {
        let value = |key: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        Some(Limit {
            name: value("PartitionName")?.to_owned(),
            is_default: value("Default") == Some("YES"),
            state: value("State").unwrap_or_default().to_owned(),
            max: value("MaxTime").and_then(seconds),
            ..Limit::default()
        })
    };
    text.lines().filter_map(partition).collect()
}

/// Parses `sacctmgr -n -P` with `show assoc format=account,partition,maxwall` or `show qos format=name,maxwall`.
pub(super) fn walls(text: &str) -> Vec<Limit> {
    let wall = |line: &str| {
        let (head, max) = line.rsplit_once('|')?;
        let (name, partition) = head.split_once('|').unwrap_or((head, ""));
        Some(Limit {
            name: name.to_owned(),
            partition: partition.to_owned(),
            max: seconds(max),
            ..Limit::default()
        })
    };
    let walls = text.lines().filter_map(wall);
    walls.filter(|wall| !wall.name.is_empty()).collect()
}

fn seconds(text: &str) -> Option<u64> {
    TimeLimit::parse(text).ok()?.bound()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_of_slurm_is_parsed() {
        let site = config(
            "Configuration data as of 1795839982\nMaxArraySize            = 10001\n\
             MessageTimeout          = 5 sec\nMinJobAge               = 300 sec\n",
        );
        assert_eq!(
            site,
            (DateTime::from_timestamp(1_795_839_982, 0), Some(300))
        );
        // A Slurm that ignores SLURM_TIME_FORMAT here.
        assert_eq!(
            config("Configuration data as of 2026-11-28T04:26:22\n").0,
            None
        );
        let found = partitions(
            "PartitionName=debug AllowGroups=ALL Default=YES DefaultTime=NONE MaxTime=UNLIMITED State=UP TotalCPUs=64\n\
             PartitionName=short Default=NO MaxTime=1-00:00:00 State=DOWN\n\n",
        );
        let partition = |name: &str, is_default, state: &str, max| Limit {
            name: name.to_owned(),
            is_default,
            state: state.to_owned(),
            max,
            ..Limit::default()
        };
        assert_eq!(
            found,
            [
                partition("debug", true, "UP", None),
                partition("short", false, "DOWN", Some(86_400))
            ]
        );
        let found: Vec<_> = walls("snbb||00:10:00\nroot||\nother|gpu|2-00:00:00\n|x|\n")
            .into_iter()
            .map(|limit| (limit.name, limit.partition, limit.max))
            .collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            found,
            [
                (text("snbb"), text(""), Some(600)),
                (text("root"), text(""), None),
                (text("other"), text("gpu"), Some(172_800)),
            ]
        );
        assert_eq!(walls("normal|\nshort|01:00:00\n")[1].max, Some(3600));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,200}") {
            config(&text);
            partitions(&text);
            walls(&text);
        }
    }
}
