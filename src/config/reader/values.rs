//! Single values by type: what may be written, and the sentence about what may not.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use super::super::paths;
use super::super::problem::quote;
use super::Value;
use crate::config::tree::NodeValue;
use crate::model::bids::near;

impl<'a> Value<'a> {
    /// Returns the text of a single value, as it is written.
    pub(crate) fn raw(&self, wanted: &str) -> Option<&'a str> {
        match &self.node.value {
            NodeValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => {
                self.problem(format!("must be {wanted}, not {}", self.node.kind()));
                None
            }
        }
    }

    /// Reads a single value by a function whose error is a sentence about it.
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

    /// Reads a text of one line that is not empty.
    pub(crate) fn text(&self) -> Option<String> {
        self.line("a text")
    }

    fn line(&self, wanted: &str) -> Option<String> {
        self.parse(wanted, |text| {
            if text.trim().is_empty() {
                Err("is empty".to_owned())
            } else if text.contains(char::is_control) {
                Err(format!(
                    "{} holds a line break or another control character",
                    quote(text)
                ))
            } else {
                Ok(text.to_owned())
            }
        })
    }

    /// Reads a text without blanks, as Slurm's names are.
    pub(crate) fn word(&self) -> Option<String> {
        let text = self.text()?;
        if text.contains(char::is_whitespace) {
            self.problem(format!("{} holds a blank", quote(&text)));
            return None;
        }
        Some(text)
    }

    /// Reads one of some words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<String> = choices.iter().map(|(name, _)| quote(name)).collect();
        let wanted = format!("one of {}", names.join(", "));
        let text = self.raw(&wanted)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let message = format!("{} is not {wanted}", quote(text));
            match near::nearest(text, choices.iter().map(|(name, _)| *name)) {
                Some(name) => self.problem_with(message, format!("did you mean '{name}'?")),
                None => self.problem(message),
            }
        }
        found.map(|(_, value)| *value)
    }

    /// Reads yes or no in the words of YAML 1.1, with or without quotes.
    pub(crate) fn flag(&self) -> Option<bool> {
        self.parse("yes or no", |text| {
            match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" | "1" => Ok(true),
                "no" | "off" | "false" | "0" => Ok(false),
                _ => Err(format!("{} is neither yes nor no", quote(text))),
            }
        })
    }

    /// Reads a whole number. One with a leading zero is refused: YAML 1.1 takes it as octal.
    pub(crate) fn whole<T: TryFrom<u64>>(&self, least: u64, most: u64) -> Option<T> {
        self.parse("a number", |text| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let well_formed = !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            let number: Option<u64> = well_formed.then(|| digits.parse().ok()).flatten();
            let number = number.filter(|n| (least..=most).contains(n));
            number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
                let quoted = quote(text);
                if most >= u64::from(u32::MAX) {
                    format!("{quoted} is not a whole number of at least {least}")
                } else {
                    format!("{quoted} is not a whole number from {least} to {most}")
                }
            })
        })
    }

    /// Reads a path, expands and completes it.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        Some(paths::absolute(&self.context.base, &self.expanded()?))
    }

    /// Reads a path and expands it, but leaves it relative if it is.
    pub(crate) fn expanded(&self) -> Option<OsString> {
        let text = self.line("a path")?;
        match paths::expand(&text, self.context.env) {
            Ok(path) if path.is_empty() => {
                self.problem(format!("{} expands to nothing", quote(&text)));
                None
            }
            Ok(path) => Some(path),
            Err(error) => {
                let remark = self.remark(format!("{}: {error}", quote(&text)), error.hint());
                self.context.problem(remark);
                None
            }
        }
    }
}
