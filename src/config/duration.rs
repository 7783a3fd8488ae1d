//! Durations and sizes in the configuration: `90s`, `10m`, `2h`, `1d`; `64M`.

use std::time::Duration;

use super::problem::quote;
use crate::base::text::number;

const UNITS: [(&str, u32); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Parses a number and its unit, rounded to seconds. A number without a unit is an error, except 0.
pub fn parse(text: &str) -> Result<Duration, String> {
    let (number, seconds) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?.trim_end(), *seconds)))
        .unwrap_or(if text == "0" { (text, 1) } else { ("", 1) });
    let is_digit = |c: char| c.is_ascii_digit();
    let is_number = number.chars().all(|c| is_digit(c) || c == '.')
        && number.starts_with(is_digit)
        && number.ends_with(is_digit);
    let number: Option<f64> = number.parse().ok().filter(|_| is_number);
    let total = number.map(|number| (number * f64::from(seconds)).round());
    // A hundred years. More could overflow when added to the current time.
    let total = total.filter(|total| *total <= 36_525.0 * 86_400.0);
    total.map(Duration::from_secs_f64).ok_or_else(|| {
        format!("'{text}' is not a duration: write a number and s, m, h or d, such as 90s or 1.5h")
    })
}

/// Formats a duration in the largest unit that gives a whole number: `10m`, `90s`.
pub fn format(duration: Duration) -> String {
    let total = duration.as_secs();
    let is_whole = |seconds: u32| total > 0 && total.is_multiple_of(u64::from(seconds));
    let mut units = UNITS.into_iter();
    let (unit, seconds) = units
        .find(|(_, seconds)| is_whole(*seconds))
        .unwrap_or(("s", 1));
    format!("{}{unit}", total / u64::from(seconds))
}

/// Parses bytes, or a number with `K`, `M`, `G` or `T` (powers of 1024).
pub(super) fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let bare = upper
        .strip_suffix("IB")
        .or_else(|| upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((bare.strip_suffix(*unit)?, *shift)))
        .unwrap_or((&upper, 0));
    let bytes = number(digits).and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| {
        let quoted = quote(text);
        format!("{quoted} is not a size: write a whole number of bytes, or one with K, M, G or T")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("10", 10),
            ("10K", 10 << 10),
            ("1m", 1 << 20),
            ("2GB", 2 << 30),
            ("1MiB", 1 << 20),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "K",
            "-1",
            "1.5M",
            "10 K",
            "1X",
            "1B",
            "99999999T",
            "KB",
            "1_0",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [
            ("90s", 90),
            ("10m", 600),
            ("2h", 7200),
            ("1d", 86_400),
            ("0", 0),
            ("0s", 0),
            ("5 m", 300),
            ("1.5h", 5400),
            ("0.25m", 15),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "s",
            "10",
            "00",
            "-1s",
            "1.h",
            ".5h",
            "1.5.5h",
            "1h30m",
            "10min",
            "10 ",
            "99999999999999999999s",
            "36526d",
            "٣s",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formatted_durations_parse_to_the_same_value() {
        for (seconds, text) in [(0, "0s"), (90, "90s"), (600, "10m"), (172_800, "2d")] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(format(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
