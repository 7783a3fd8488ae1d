//! Compares the clocks of the file server and of Slurm with this host's.

use chrono::{DateTime, TimeDelta, Utc};

use super::Findings;

const TOPIC: &str = "clock";
/// File systems store times in steps of up to two seconds, and Slurm reports whole seconds.
const SKEW: TimeDelta = TimeDelta::seconds(5);
const GREAT_SKEW: TimeDelta = TimeDelta::minutes(10);

/// A time of this host, then of another clock, then again of this host.
pub(super) type Reading = [DateTime<Utc>; 3];

/// Judges a clock. `why` is the reason why it matters.
pub(super) fn compare(
    about: impl ToString,
    whose: &str,
    reading: Reading,
    why: &str,
    findings: &mut Findings,
) {
    findings.about(TOPIC, about);
    let [before, other, after] = reading;
    let (early, late) = (other - after, before - other);
    let skew = early.max(late);
    if skew >= SKEW {
        let way = if late > early { "behind" } else { "ahead of" };
        let text = format!(
            "{whose} clock is {} s {way} this host's",
            skew.num_seconds()
        );
        let remedy = format!("synchronize both with the same time server (chrony, ntp): {why}");
        match skew < GREAT_SKEW {
            true => findings.warning(text, remedy),
            false => findings.error(text, remedy),
        }
    }
    findings.or_ok(format!("{whose} clock and this host's agree"));
}

#[cfg(test)]
mod tests {
    use super::super::{Level, testing};
    use super::*;

    #[test]
    fn clocks_that_differ_are_reported() {
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
            let reading = [at(0), at(other), at(2)];
            let findings = testing::judged(|out| compare("/d", "its", reading, "why", out));
            let finding = &findings[0];
            assert_eq!(finding.level, level, "{other}");
            assert!(finding.text.contains(part), "{other}: {}", finding.text);
        }
    }
}
