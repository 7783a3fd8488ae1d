//! `completion_marker` and `forbid`: from what is written to a rule.

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::procedure::marker::{CompletionRule, Marker, Pattern, Required};

/// Reads the rule of a procedure.
pub(super) fn rule(procedure: &Fields<'_>) -> CompletionRule {
    let forbid = procedure.get("forbid").map(|value| {
        let patterns = value.one_or_more();
        patterns.iter().filter_map(pattern).collect()
    });
    CompletionRule {
        required: procedure
            .get("completion_marker")
            .map(|value| required(&value))
            .unwrap_or_default(),
        forbid: forbid.unwrap_or_default(),
    }
}

fn required(value: &Value<'_>) -> Required {
    if value.is_null() {
        return Required::NonEmptyDirectory;
    }
    let entries = value.one_or_more();
    if entries.is_empty() || value.is_empty_text() {
        value.warn(
            "is empty: taken as \"the output directory is not empty\" (the Python program was \
             content with a directory); write null to say so",
        );
        return Required::NonEmptyDirectory;
    }
    Required::Markers(entries.iter().filter_map(marker).collect())
}

fn marker(value: &Value<'_>) -> Option<Marker> {
    if !value.is_mapping() {
        let pattern = pattern(value)?;
        return Some(Marker {
            min_size: least_size(&pattern),
            pattern,
            contains: None,
            not_contains: None,
            when: None,
        });
    }
    let fields = value.fields(Section::Marker)?;
    let pattern = fields.required(
        "glob",
        "it names the files, such as 'anat/*_T1w.nii.gz'",
        pattern,
    );
    let min_size = fields.maybe("min_size", |value| value.parse("a size", size));
    let contains = fields.maybe("contains", content);
    let not_contains = fields.maybe("not_contains", content);
    let when = fields.maybe("when", self::pattern);
    let pattern = pattern?;
    Some(Marker {
        min_size: min_size.unwrap_or_else(|| least_size(&pattern)),
        pattern,
        contains,
        not_contains,
        when,
    })
}

/// A zero-byte file that a glob finds is no output; a file that is named may be one that was touched.
fn least_size(pattern: &Pattern) -> u64 {
    u64::from(!pattern.is_literal())
}

fn pattern(value: &Value<'_>) -> Option<Pattern> {
    // No path of a file system is longer; a matcher for more would not be small.
    const LONGEST: usize = 1000;
    let text = value.raw("a pattern such as 'anat/*_T1w.nii.gz'")?;
    if text.contains(char::is_control) {
        value.problem(format!("{} holds a control character", quote(text)));
        return None;
    }
    if text.len() > LONGEST {
        value.problem(format!("{} is longer than {LONGEST} bytes", quote(text)));
        return None;
    }
    value.parse("a pattern", Pattern::parse)
}

fn content(value: &Value<'_>) -> Option<String> {
    value.raw("a text").map(str::to_owned)
}

/// Reads bytes, or a number with `K`, `M`, `G`, `T` in powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let error = || {
        let quoted = quote(text);
        format!("{quoted} is not a size: a whole number of bytes, or one with K, M, G or T")
    };
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
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error());
    }
    let number: u64 = digits.parse().map_err(|_| error())?;
    number.checked_mul(1 << shift).ok_or_else(error)
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
}
