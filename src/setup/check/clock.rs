//! The clocks of the file server and of Slurm against this host's.

use chrono::{DateTime, TimeDelta, Utc};

use super::Findings;

const TOPIC: &str = "clock";
/// File systems keep times in steps of up to two seconds, and Slurm tells whole ones.
const SKEW: TimeDelta = TimeDelta::seconds(5);
const GREAT_SKEW: TimeDelta = TimeDelta::minutes(10);

/// Another clock, read between two looks at the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub before: DateTime<Utc>,
    pub after: DateTime<Utc>,
    pub other: DateTime<Utc>,
}

/// Judges a clock. `why`: what goes wrong if it differs.
pub fn judge(
    about: impl ToString,
    whose: &str,
    reading: Reading,
    why: &str,
    findings: &mut Findings,
) {
    findings.about(TOPIC, about);
    let early = reading.other - reading.after;
    let late = reading.before - reading.other;
    let skew = early.max(late);
    if skew >= SKEW {
        let way = if late > early { "behind" } else { "ahead of" };
        let text = format!(
            "{whose} clock is {} s {way} this host's",
            skew.num_seconds()
        );
        let advice = format!("have both follow the same time server (chrony, ntp): {why}");
        match skew < GREAT_SKEW {
            true => findings.warning(text, advice),
            false => findings.error(text, advice),
        }
    }
    findings.or_ok(format!("{whose} clock and this host's agree"));
}

#[cfg(test)]
mod tests {
    use super::super::{Level, testing};
    use super::*;

    #[test]
    fn clocks_that_differ_are_told() {
        let at = |seconds: i64| DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
        for (other, level, part) in [
            (0, Level::Ok, "agree"),
            (1, Level::Ok, "agree"),
            (-4, Level::Ok, "agree"),
            (6, Level::Ok, "agree"),
            (7, Level::Warning, "5 s ahead of"),
            (-90, Level::Warning, "90 s behind"),
            (3600, Level::Error, "3598 s ahead of"),
            (-3600, Level::Error, "3600 s behind"),
        ] {
            let (before, after, other) = (at(0), at(2), at(other));
            let reading = Reading {
                before,
                after,
                other,
            };
            let findings = testing::judged(|out| judge("/d", "its", reading, "why", out));
            let finding = &findings[0];
            assert_eq!(finding.level, level, "{other}");
            assert!(finding.text.contains(part), "{other}: {}", finding.text);
        }
    }
}
