//! Single values of squeue and sacct: times, durations, sizes, our tag. Pure.

use chrono::{DateTime, Local, MappedLocalTime, NaiveDateTime, TimeZone, Utc};

use crate::model::job::JobTag;

/// Returns none for the words with which Slurm says that there is nothing.
pub(super) fn known(text: &str) -> Option<&str> {
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

/// Says which one is meant of the local times that a night has twice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Twice {
    Earliest,
    Latest,
}

/// Reads a time: epoch seconds as asked for (`SLURM_TIME_FORMAT=%s`), or the local time that a wrapper
/// which drops that variable lets through. The outer none: neither.
pub(super) fn time(text: &str, twice: Twice) -> Option<Option<DateTime<Utc>>> {
    let Some(text) = known(text) else {
        return Some(None);
    };
    if let Ok(seconds) = text.parse::<i64>() {
        // 0: never set.
        return DateTime::from_timestamp(seconds, 0).map(|time| Some(time).filter(|_| seconds > 0));
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?;
    let local = match (Local.from_local_datetime(&naive), twice) {
        (MappedLocalTime::Single(time), _) => time,
        // Compared: chrono's order of the two is not always theirs.
        (MappedLocalTime::Ambiguous(a, b), Twice::Earliest) => a.min(b),
        (MappedLocalTime::Ambiguous(a, b), Twice::Latest) => a.max(b),
        (MappedLocalTime::None, _) => return None,
    };
    Some(Some(local.with_timezone(&Utc)))
}

/// Reads squeue's time limit (`1:00`, `4:00:00`, `3-00:00:00`) in seconds; none: no limit, or not known.
pub(super) fn clock(text: &str) -> Option<i64> {
    // A lone number is minutes.
    seconds(text.trim(), 60)
}

/// Reads `[days-][[hours:]minutes:]seconds`. `lone`: how many seconds a number without a colon counts.
fn seconds(text: &str, lone: i64) -> Option<i64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: i64 = 0;
    for part in rest.split(':') {
        let part: u32 = part.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(i64::from(part))?;
    }
    if !rest.contains(':') {
        seconds = seconds.checked_mul(lone)?;
    }
    let days: i64 = days.parse().ok()?;
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// Reads ReqMem in megabytes for the whole job. Newer releases print the total (`4000M`), those before
/// 21.08 a value per node (`4Gn`) or per CPU (`50Mc`). None: not known, or 0 (all of the node's).
pub(super) fn requested_memory(text: &str, nodes: &str, cpus: &str) -> Option<i64> {
    let text = text.trim();
    let (text, times) = match text.strip_suffix(['n', 'c']) {
        Some(rest) if text.ends_with('n') => (rest, nodes.parse::<f64>().ok()?),
        Some(rest) => (rest, cpus.parse::<f64>().ok()?),
        None => (text, 1.0),
    };
    let total = (megabytes(text, 'M')? * times).ceil();
    // Larger than any machine: noise.
    (1.0..1e15).contains(&total).then_some(total as i64)
}

/// Reads memory used, in megabytes rounded up: `3244K`, `12.50M`, `1.2G`; a number alone is bytes. None:
/// not measured.
pub(super) fn used_memory(text: &str) -> Option<i64> {
    let total = megabytes(text.trim(), 'B')?.ceil();
    (1.0..1e15).contains(&total).then_some(total as i64)
}

/// `bare`: the unit of a number without one.
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
pub(super) fn cpu_time_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    if whole.split(':').count() > 3 || whole.starts_with('-') {
        return None;
    }
    let thousandths = i64::from(digits.parse::<u16>().ok()?);
    seconds(whole, 1)?
        .checked_mul(1000)?
        .checked_add(thousandths)
}

/// Finds our tag in the command line of a submission. A wrapper may have put a comment of its own before it.
pub(super) fn tag_of_submit_line(line: &str) -> Option<JobTag> {
    values_of(line, "--comment=").find_map(JobTag::parse)
}

/// The job name in the command line of a submission, if it is not the job's `name` any more. Our own comes first.
pub(super) fn old_name_in_submit_line<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    // Of a name with blanks, only this shows where it ends.
    let is_still_its = line.split("--job-name=").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(['\'', '"']).strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_end_of_value))
    });
    match is_still_its {
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
    fn a_time_is_a_moment_or_none_or_nonsense() {
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
    fn a_limit_is_read_in_all_its_forms() {
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
    fn what_was_used_is_read_in_each_unit() {
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
    fn what_was_asked_for_is_that_of_the_whole_job() {
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
