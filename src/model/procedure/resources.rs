//! The resources that a job requests, in Slurm's formats and units.

use std::fmt;

use super::options::Arguments;
use crate::base::text::number;

/// The options of one job that become sbatch options of the same name. `None` if not passed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    pub time: Option<TimeLimit>,
    pub mem: Option<MemSize>,
    pub cpus_per_task: Option<u32>,
    pub gres: Option<String>,
    /// Prevents Slurm from restarting the job, because the retry rules do.
    pub no_requeue: bool,
    /// Further sbatch options, passed unchanged, before the script.
    pub sbatch_args: Arguments,
}

/// A memory size in the format of sbatch: an integer and `K`, `M`, `G` or `T` (default: megabytes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemSize {
    text: String,
    megabytes: u64,
}

/// A time limit in the format of sbatch (`90`, `90:00`, `4:00:00`, `3-0`, `3-00:00:00`, `UNLIMITED`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeLimit {
    text: String,
    /// `None` if unlimited.
    seconds: Option<u64>,
}

impl Resources {
    /// The options with their own keys, by long name. An empty text means none.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, String)> {
        let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let options = [
            ("partition", text(&self.partition)),
            ("account", text(&self.account)),
            ("mem", self.mem.as_ref().map(ToString::to_string)),
            (
                "cpus-per-task",
                self.cpus_per_task.map(|cpus| cpus.to_string()),
            ),
            ("time", self.time.as_ref().map(ToString::to_string)),
            ("qos", text(&self.qos)),
            ("gres", text(&self.gres)),
        ];
        options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

impl MemSize {
    pub fn parse(text: &str) -> Result<Self, String> {
        let megabytes = megabytes(text).ok_or_else(|| {
            format!(
                "'{text}' is not a valid memory size: write an integer and K, M, G or T, such as 32G"
            )
        })?;
        let text = text.to_owned();
        Ok(Self { text, megabytes })
    }

    /// A size in its shortest form: `48G`, `1500M`.
    pub fn of_megabytes(megabytes: u64) -> Self {
        let text = match megabytes {
            0 => "0".to_owned(),
            _ if megabytes.is_multiple_of(1 << 20) => format!("{}T", megabytes >> 20),
            _ if megabytes.is_multiple_of(1 << 10) => format!("{}G", megabytes >> 10),
            _ => format!("{megabytes}M"),
        };
        Self { text, megabytes }
    }

    pub fn megabytes(&self) -> u64 {
        self.megabytes
    }

    /// The size in megabytes; `None` for 0, which means all memory of a node (sbatch(1)).
    pub fn bound(&self) -> Option<u64> {
        (self.megabytes > 0).then_some(self.megabytes)
    }
}

impl TimeLimit {
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_unlimited = ["UNLIMITED", "INFINITE"].contains(&text.to_ascii_uppercase().as_str());
        let seconds = seconds(text);
        if seconds.is_none() && !is_unlimited {
            return Err(format!(
                "'{text}' is not a valid time limit: write minutes, h:m:s, d-h or d-h:m:s, such as 12:00:00 or 3-0"
            ));
        }
        let text = text.to_owned();
        Ok(Self { text, seconds })
    }

    /// A limit in Slurm's output format: `4:00:00`, `1-12:00:00`.
    pub fn of_seconds(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (hours, minutes, left) = (rest / 3600, rest / 60 % 60, rest % 60);
        let text = match days {
            0 => format!("{hours}:{minutes:02}:{left:02}"),
            _ => format!("{days}-{hours:02}:{minutes:02}:{left:02}"),
        };
        Self {
            text,
            seconds: Some(seconds),
        }
    }

    /// The limit in seconds; `None` if unlimited.
    pub fn seconds(&self) -> Option<u64> {
        self.seconds
    }

    /// The limit in seconds; `None` if unlimited or 0, which means no limit (sbatch(1)).
    pub fn bound(&self) -> Option<u64> {
        self.seconds.filter(|seconds| *seconds > 0)
    }
}

impl fmt::Display for MemSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The size in megabytes, rounded up.
fn megabytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..)?.to_ascii_uppercase();
    let shift = match unit.as_str() {
        "K" | "KB" => 0,
        "" | "M" | "MB" => 10,
        "G" | "GB" => 20,
        "T" | "TB" => 30,
        _ => return None,
    };
    let kilobytes = number(digits)?.checked_mul(1 << shift)?;
    Some(kilobytes.div_ceil(1 << 10))
}

fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Option<_>>()?;
    // sbatch(1), --time: after days, the first part is hours; otherwise it is minutes,
    // unless there are three parts.
    let units: &[u64] = match (days, parts.len()) {
        (None, 1 | 2) => &[60, 1],
        (None, 3) | (Some(_), 1..=3) => &[3600, 60, 1],
        _ => return None,
    };
    let days = days.unwrap_or(0).checked_mul(86_400)?;
    let mut parts = parts.iter().zip(units);
    parts.try_fold(days, |sum, (value, unit)| {
        sum.checked_add(value.checked_mul(*unit)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_are_parsed_like_in_sbatch() {
        for (text, megabytes) in [
            ("32G", 32768),
            ("4000", 4000),
            ("512K", 1),
            ("1t", 1 << 20),
            ("0", 0),
        ] {
            assert_eq!(
                MemSize::parse(text).unwrap().megabytes(),
                megabytes,
                "{text}"
            );
        }
        for bad in [
            "",
            "G",
            "1.5G",
            "-1",
            "32 G",
            "32X",
            "99999999999999999999",
            "18446744073709551615T",
        ] {
            assert!(MemSize::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formatted_values_parse_to_the_same_value() {
        for (megabytes, text) in [
            (0, "0"),
            (1, "1M"),
            (1500, "1500M"),
            (49_152, "48G"),
            (1 << 21, "2T"),
        ] {
            let size = MemSize::of_megabytes(megabytes);
            assert_eq!(size.to_string(), text);
            assert_eq!(MemSize::parse(text).unwrap(), size);
        }
        for (seconds, text) in [
            (90, "0:01:30"),
            (14_400, "4:00:00"),
            (86_399, "23:59:59"),
            (129_600, "1-12:00:00"),
        ] {
            let limit = TimeLimit::of_seconds(seconds);
            assert_eq!(limit.to_string(), text);
            assert_eq!(TimeLimit::parse(text).unwrap(), limit);
        }
        assert_eq!(TimeLimit::parse("0").unwrap().bound(), None);
        assert_eq!(TimeLimit::parse("UNLIMITED").unwrap().bound(), None);
        assert_eq!(MemSize::parse("0G").unwrap().bound(), None);
    }

    #[test]
    fn time_limits_are_parsed_like_in_sbatch() {
        for (text, seconds) in [
            ("90", 5400),
            ("1:30", 90),
            ("4:00:00", 14400),
            ("3-0", 259_200),
            ("1-2:30", 95_400),
            ("1-02:30:05", 95_405),
        ] {
            assert_eq!(
                TimeLimit::parse(text).unwrap().seconds(),
                Some(seconds),
                "{text}"
            );
        }
        assert_eq!(TimeLimit::parse("UNLIMITED").unwrap().seconds(), None);
        for bad in [
            "",
            "4h",
            "1:2:3:4",
            "1-",
            "-1",
            "1-2:3:4:5",
            "99999999999999999999",
        ] {
            assert!(TimeLimit::parse(bad).is_err(), "{bad}");
        }
    }
}
