//! What scontrol and sacctmgr say of a site, as plain values. Pure.

use chrono::{DateTime, Utc};

use crate::model::procedure::TimeLimit;

/// Holds what of `scontrol show config` matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// The controller's clock, in whole seconds.
    pub clock: Option<DateTime<Utc>>,
    /// One more than the greatest index of an array; 0: there are no arrays.
    pub max_array_size: Option<u64>,
    /// How long the queue remembers an ended job, in seconds.
    pub min_job_age: Option<u64>,
    /// In seconds.
    pub message_timeout: Option<u64>,
}

/// Holds one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub is_default: bool,
    /// `UP`, `DOWN`, `DRAIN`, `INACTIVE`.
    pub state: String,
    /// In seconds; none: unlimited.
    pub max_time: Option<u64>,
}

/// Holds a limit of an association of the user's, or of a quality of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// The account, or the quality of service.
    pub name: String,
    /// Empty: in all.
    pub partition: String,
    /// In seconds; none: unlimited.
    pub max: Option<u64>,
}

/// Reads `scontrol show config`. With `SLURM_TIME_FORMAT=%s` its first line has the controller's clock.
pub fn config(text: &str) -> Site {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim())
        })
    };
    let number = |key: &str| {
        let digits = value(key)?.split_ascii_whitespace().next()?;
        digits.parse::<u64>().ok()
    };
    let clock = text.lines().find_map(|line| {
        let seconds = line.strip_prefix("Configuration data as of ")?;
        DateTime::from_timestamp(seconds.trim().parse().ok()?, 0)
    });
    Site {
        clock,
        max_array_size: number("MaxArraySize"),
        min_job_age: number("MinJobAge"),
        message_timeout: number("MessageTimeout"),
    }
}

/// Reads `scontrol --oneliner show partition`.
pub fn partitions(text: &str) -> Vec<Partition> {
    text.lines()
        .filter_map(|line| {
            let value = |key: &str| {
                line.split_ascii_whitespace()
                    .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            };
            Some(Partition {
                name: value("PartitionName")?.to_owned(),
                is_default: value("Default") == Some("YES"),
                state: value("State").unwrap_or_default().to_owned(),
                max_time: value("MaxTime").and_then(seconds),
            })
        })
        .collect()
}

/// Reads `sacctmgr -n -P show assoc format=account,partition,maxwall`.
pub fn associations(text: &str) -> Vec<Wall> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split('|');
            Some(Wall {
                name: fields.next().filter(|name| !name.is_empty())?.to_owned(),
                partition: fields.next()?.to_owned(),
                max: seconds(fields.next()?),
            })
        })
        .collect()
}

/// Reads `sacctmgr -n -P show qos format=name,maxwall`.
pub fn qos(text: &str) -> Vec<Wall> {
    text.lines()
        .filter_map(|line| {
            let (name, max) = line.split_once('|')?;
            Some(Wall {
                name: name.to_owned(),
                partition: String::new(),
                max: seconds(max),
            })
        })
        .collect()
}

/// Reads `slurm 22.05.8`, `slurm-wlm 22.05.8`: year and month.
pub fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_ascii_whitespace().last()?;
    let mut parts = number.split('.');
    let year = parts.next()?.parse().ok()?;
    let month = parts.next()?.parse().ok()?;
    Some((year, month))
}

fn seconds(text: &str) -> Option<u64> {
    TimeLimit::parse(text).ok()?.bound()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_of_slurm_are_read() {
        let site = config(
            "Configuration data as of 1795839982\nMaxArraySize            = 10001\n\
             MessageTimeout          = 5 sec\nMinJobAge               = 300 sec\n",
        );
        assert_eq!(
            site,
            Site {
                clock: DateTime::from_timestamp(1_795_839_982, 0),
                max_array_size: Some(10001),
                min_job_age: Some(300),
                message_timeout: Some(5),
            }
        );
        // A Slurm that does not follow SLURM_TIME_FORMAT there.
        assert_eq!(
            config("Configuration data as of 2026-11-28T04:26:22\n").clock,
            None
        );
        let found = partitions(
            "PartitionName=debug AllowGroups=ALL Default=YES DefaultTime=NONE MaxTime=UNLIMITED State=UP TotalCPUs=64\n\
             PartitionName=short Default=NO MaxTime=1-00:00:00 State=DOWN\n\n",
        );
        let partition = |name: &str, is_default, state: &str, max_time| Partition {
            name: name.to_owned(),
            is_default,
            state: state.to_owned(),
            max_time,
        };
        assert_eq!(
            found,
            [
                partition("debug", true, "UP", None),
                partition("short", false, "DOWN", Some(86_400))
            ]
        );
        let walls: Vec<_> = associations("snbb||00:10:00\nroot||\nother|gpu|2-00:00:00\n|x|\n")
            .into_iter()
            .map(|wall| (wall.name, wall.partition, wall.max))
            .collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            walls,
            [
                (text("snbb"), text(""), Some(600)),
                (text("root"), text(""), None),
                (text("other"), text("gpu"), Some(172_800)),
            ]
        );
        assert_eq!(qos("normal|\nshort|01:00:00\n")[1].max, Some(3600));
        for (text, expected) in [
            ("slurm 22.05.8\n", Some((22, 5))),
            ("slurm-wlm 23.11.4", Some((23, 11))),
            ("slurm 25.11.0-0rc1", Some((25, 11))),
            ("a site's wrapper", None),
            ("", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            config(&text);
            partitions(&text);
            associations(&text);
            qos(&text);
            version(&text);
        }
    }
}
