//! Parses single values by type and reports invalid ones.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::super::keys::Kind;
use super::super::keys::kind::bound;
use super::super::problem::quote;
use super::super::{duration, paths};
use super::Value;
use crate::config::tree::NodeValue;
use crate::model::bids::suggest;
use crate::model::procedure::{MemSize, TimeLimit};

impl<'a> Value<'a> {
    /// The text of a single value, unchanged.
    pub(crate) fn raw(&self, wanted: &str) -> Option<&'a str> {
        match &self.node.value {
            NodeValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => {
                self.problem(format!("must be {wanted}, not {}", self.node.kind()));
                None
            }
        }
    }

    /// Parses a single value. The error of `parse` is the problem's message.
    pub(crate) fn parse<T, E: Display>(
        &self,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match parse(self.raw(wanted)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(error.to_string());
                None
            }
        }
    }

    /// Reads a non-empty text of one line.
    pub(crate) fn text(&self) -> Option<String> {
        self.line("a text")
    }

    fn line(&self, wanted: &str) -> Option<String> {
        self.parse(wanted, |text| {
            if text.trim().is_empty() {
                Err("is empty".to_owned())
            } else if text.contains(char::is_control) {
                Err(format!(
                    "{} contains a line break or another control character",
                    quote(text)
                ))
            } else {
                Ok(text.to_owned())
            }
        })
    }

    pub(crate) fn scalar(&self) -> Option<String> {
        self.raw("a text").map(str::to_owned)
    }

    /// Reads a text without spaces, such as a name in Slurm.
    pub(crate) fn word(&self) -> Option<String> {
        let text = self.text()?;
        if text.contains(char::is_whitespace) {
            self.problem(format!("{} contains a space", quote(&text)));
            return None;
        }
        Some(text)
    }

    /// The kind of one value, or of the entries of a list.
    fn item_kind(&self) -> Kind {
        match self.kind {
            Kind::List(item) => *item,
            kind => kind,
        }
    }

    /// Reads one of the words that the key accepts.
    pub(crate) fn choice<T: FromStr>(&self) -> Option<T> {
        let words = match self.item_kind() {
            Kind::Choice(words) => words,
            _ => &[],
        };
        let names: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let wanted = format!("one of {}", names.join(", "));
        let text = self.raw(&wanted)?;
        if !words.contains(&text) {
            let message = format!("{} is not {wanted}", quote(text));
            match suggest::nearest(text, words.iter().copied()) {
                Some(name) => self.problem_with(message, format!("did you mean '{name}'?")),
                None => self.problem(message),
            }
            return None;
        }
        text.parse().ok()
    }

    /// Reads a YAML 1.1 boolean, with or without quotes.
    pub(crate) fn flag(&self) -> Option<bool> {
        self.parse("yes or no", |text| {
            match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" | "1" => Ok(true),
                "no" | "off" | "false" | "0" => Ok(false),
                _ => Err(format!("{} is neither yes nor no", quote(text))),
            }
        })
    }

    /// Reads a whole number within the bounds of its key. Leading zeros are refused, because they mean octal in YAML 1.1.
    pub(crate) fn whole<T: TryFrom<u64>>(&self) -> Option<T> {
        let (least, most) = match self.item_kind() {
            Kind::Whole { least, most } => (least, most),
            _ => (0, u64::MAX),
        };
        self.parse("a number", |text| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let well_formed = !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            let number: Option<u64> = well_formed.then(|| digits.parse().ok()).flatten();
            let number = number.filter(|n| (least..=most).contains(n));
            number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
                let quoted = quote(text);
                match bound(most) {
                    None => format!("{quoted} is not a whole number of at least {least}"),
                    Some(most) => format!("{quoted} is not a whole number from {least} to {most}"),
                }
            })
        })
    }

    pub(crate) fn factor(&self) -> Option<f64> {
        // A larger factor is a typing error.
        self.parse("a number such as 1.5", |text| {
            let number = text.parse().ok();
            number
                .filter(|factor| (1.0..=100.0).contains(factor))
                .ok_or_else(|| format!("{} is not a number from 1 to 100", quote(text)))
        })
    }

    pub(crate) fn percent(&self) -> Option<f64> {
        self.parse("a percentage such as 10%", |text| {
            let number = text
                .strip_suffix('%')
                .unwrap_or(text)
                .trim_end()
                .parse()
                .ok();
            number
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or_else(|| format!("{} is not a percentage from 0% to 100%", quote(text)))
        })
    }

    pub(crate) fn hours(&self) -> Option<Duration> {
        self.parse("a number of hours", |text| {
            let hours = duration::parse(&format!("{text}h"));
            hours.map_err(|_| format!("{} is not a number of hours", quote(text)))
        })
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.parse("a duration such as 10m", duration::parse)
    }

    pub(crate) fn size(&self) -> Option<u64> {
        self.parse("a size such as 64M", size)
    }

    pub(crate) fn memory(&self) -> Option<MemSize> {
        // In other keys, 0 means all memory of a node.
        if self.key == "slurm_mem" && self.is_plain("0") {
            self.warn(
                "0 means \"none\", as in the Python program; write \"0\" to request all memory of a node",
            );
            return None;
        }
        self.parse("a memory size such as 32G", MemSize::parse)
    }

    pub(crate) fn time(&self) -> Option<TimeLimit> {
        self.parse("a time limit such as 12:00:00", TimeLimit::parse)
    }

    /// Reads a path, expands it and makes it absolute.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        Some(paths::absolute(&self.context.base, &self.expanded()?))
    }

    /// Reads a path and expands it. A relative path stays relative.
    pub(crate) fn expanded(&self) -> Option<OsString> {
        let text = self.line("a path")?;
        match paths::expand(&text, self.context.env) {
            Ok(path) if path.is_empty() => {
                self.problem(format!("{} expands to nothing", quote(&text)));
                None
            }
            Ok(path) => Some(path),
            Err(error) => {
                let remark = self.remark(format!("{}: {error}", quote(&text)), None);
                self.context.problem(remark);
                None
            }
        }
    }
}

/// Parses bytes, or a number with `K`, `M`, `G` or `T` (powers of 1024).
fn size(text: &str) -> Result<u64, String> {
    let error = || {
        let quoted = quote(text);
        format!("{quoted} is not a size: write a whole number of bytes, or one with K, M, G or T")
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
