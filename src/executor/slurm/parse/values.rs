//! Parses single values of squeue and sacct: times, durations, sizes, our tag. Pure.

use chrono::{DateTime, Local, MappedLocalTime, NaiveDateTime, TimeZone, Utc};

use crate::model::job::JobTag;
use crate::model::procedure::TimeLimit;

/// `None` for Slurm's words for a missing value.
pub(crate) fn known(text: &str) -> Option<&str> {
    let text = text.trim();
    let nothing = [
        "",
        "None",
        "NONE",
        "N/A",
        "(null)",
        "Unknown",
        "None assigned",
    ];
    (!nothing.contains(&text)).then_some(text)
}

/// Which of two equal local times at the end of summer time is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Twice {
    Earliest,
    Latest,
}

/// Reads a time: epoch seconds as requested (`SLURM_TIME_FORMAT=%s`), or the local time if a wrapper drops that
/// variable. The outer `None` means an invalid time.
pub(crate) fn time(text: &str, twice: Twice) -> Option<Option<DateTime<Utc>>> {
    let Some(text) = known(text) else {
        return Some(None);
    };
    if let Ok(seconds) = text.parse::<i64>() {
        // 0 means never set.
        return DateTime::from_timestamp(seconds, 0).map(|time| Some(time).filter(|_| seconds > 0));
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?;
    let local = match (Local.from_local_datetime(&naive), twice) {
        (MappedLocalTime::Single(time), _) => time,
        // chrono does not always order the two by time.
        (MappedLocalTime::Ambiguous(a, b), Twice::Earliest) => a.min(b),
        (MappedLocalTime::Ambiguous(a, b), Twice::Latest) => a.max(b),
        (MappedLocalTime::None, _) => return None,
    };
    Some(Some(local.with_timezone(&Utc)))
}

/// Reads squeue's time limit (`1:00`, `4:00:00`, `3-00:00:00`) in seconds; `None` if unlimited or unknown.
pub(crate) fn clock(text: &str) -> Option<i64> {
    let limit = TimeLimit::parse(text.trim()).ok()?;
    i64::try_from(limit.seconds()?).ok()
}

/// Reads `[days-][[hours:]minutes:]seconds`.
fn seconds(text: &str) -> Option<i64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: i64 = 0;
    for part in rest.split(':') {
        let part: u32 = part.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(i64::from(part))?;
    }
    let days: i64 = days.parse().ok()?;
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// Reads ReqMem in megabytes for the complete job. Newer releases print the total (`4000M`), those before
/// 21.08 a value per node (`4Gn`) or per CPU (`50Mc`). `None` if unknown, or 0 (all memory of the node).
pub(crate) fn requested_memory(text: &str, nodes: &str, cpus: &str) -> Option<i64> {
    let text = text.trim();
    let (text, times) = match text.strip_suffix(['n', 'c']) {
        Some(rest) if text.ends_with('n') => (rest, nodes.parse::<f64>().ok()?),
        Some(rest) => (rest, cpus.parse::<f64>().ok()?),
        None => (text, 1.0),
    };
    let total = (megabytes(text, 'M')? * times).ceil();
    // Larger than the memory of any machine.
    (1.0..1e15).contains(&total).then_some(total as i64)
}

/// Reads used memory in megabytes, rounded up: `3244K`, `12.50M`, `1.2G`; a number alone is bytes. `None` if
/// not measured.
pub(crate) fn used_memory(text: &str) -> Option<i64> {
    let total = megabytes(text.trim(), 'B')?.ceil();
    (1.0..1e15).contains(&total).then_some(total as i64)
}

/// `bare` is the unit of a number without one.
fn megabytes(text: &str, bare: char) -> Option<f64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (place, unit) if unit.is_ascii_alphabetic() => (text.get(..place)?, unit),
        _ => (text, bare),
    };
    let factor = match unit.to_ascii_uppercase() {
        'B' => 1.0 / 1024.0 / 1024.0,
        'K' => 1.0 / 1024.0,
        'M' => 1.0,
        'G' => 1024.0,
        'T' => 1024.0 * 1024.0,
        'P' => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Reads CPU time in milliseconds: `00:00.108`, `01:02:03`, `1-02:03:04`.
pub(crate) fn cpu_time_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    if whole.split(':').count() > 3 || whole.starts_with('-') {
        return None;
    }
    let thousandths = i64::from(digits.parse::<u16>().ok()?);
    seconds(whole)?.checked_mul(1000)?.checked_add(thousandths)
}

/// Finds our tag in a submit line. A wrapper may have added its own comment before it.
pub(crate) fn tag_of_submit_line(line: &str) -> Option<JobTag> {
    values_of(line, "--comment=").find_map(JobTag::parse)
}

/// The job name in a submit line, if the job's `name` has changed since. Ours comes first.
pub(crate) fn old_name_in_submit_line<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    // Finds the end of a name with spaces.
    let is_unchanged = line.split("--job-name=").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(['\'', '"']).strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_end_of_value))
    });
    match is_unchanged {
        true => None,
        false => values_of(line, "--job-name=").find(|name| !name.is_empty()),
    }
}

fn is_end_of_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"')
}

fn values_of<'a>(line: &'a str, option: &str) -> impl Iterator<Item = &'a str> {
    line.split(option).skip(1).map(move |rest| {
        let rest = rest.trim_start_matches(['\'', '"']);
        rest.split(is_end_of_value).next().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_valid_missing_or_invalid() {
        let moment = DateTime::from_timestamp(1_795_827_101, 0).unwrap();
        for (text, expected) in [
            ("1795827101", Some(Some(moment))),
            ("1", Some(DateTime::from_timestamp(1, 0))),
            ("0", Some(None)),
            ("-1", Some(None)),
            ("", Some(None)),
            ("Unknown", Some(None)),
            ("N/A", Some(None)),
            ("yesterday", None),
            ("99999999999999999", None),
        ] {
            assert_eq!(time(text, Twice::Latest), expected, "{text}");
        }
    }

    #[test]
    fn time_limits_are_read_in_all_forms() {
        for (text, seconds) in [
            ("1:00", Some(60)),
            ("4:00:00", Some(14_400)),
            ("3-00:00:00", Some(259_200)),
            ("1-02:03:04", Some(93_784)),
            ("30", Some(1800)),
            (" 30 ", Some(1800)),
            ("UNLIMITED", None),
            ("", None),
            ("1::2", None),
            ("9223372036854775807-0", None),
        ] {
            assert_eq!(clock(text), seconds, "{text}");
        }
    }

    #[test]
    fn used_memory_is_read_in_each_unit() {
        for (text, megabytes) in [
            ("5242880", 5),
            ("5242881", 6),
            ("5242880B", 5),
            ("2048K", 2),
            ("3M", 3),
            ("3G", 3 << 10),
            ("3T", 3 << 20),
            ("3P", 3 << 30),
        ] {
            assert_eq!(used_memory(text), Some(megabytes), "{text}");
        }
    }

    /// Slurm before 21.08: per node or per CPU.
    #[test]
    fn requested_memory_is_for_the_whole_job() {
        for (text, nodes, cpus, megabytes) in [
            ("4000M", "2", "8", Some(4000)),
            ("4G", "2", "8", Some(4096)),
            ("4Gn", "2", "8", Some(8192)),
            ("50Mc", "2", "8", Some(400)),
            ("1K", "1", "1", Some(1)),
            ("0", "1", "1", None),
            ("0n", "1", "1", None),
            ("4Gn", "?", "8", None),
            ("4Gc", "2", "?", None),
            ("4X", "1", "1", None),
            ("", "1", "1", None),
        ] {
            let got = requested_memory(text, nodes, cpus);
            assert_eq!(got, megabytes, "{text} {nodes} {cpus}");
        }
    }
}
