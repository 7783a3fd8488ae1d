//! Parses values by type and reports invalid ones.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use super::{Context, Fields, Value, below};
use crate::base::text::number;
use crate::config::keys::{Kind, Section, bound};
use crate::config::problem::{Position, Problem, did_you_mean, quote};
use crate::config::tree::{Entry, Node, NodeValue};
use crate::config::{duration, paths};
use crate::model::procedure::{MemSize, TimeLimit};

impl<'a> Value<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        node: &'a Node,
        key_at: Position,
        key: String,
        kind: Kind,
    ) -> Self {
        // The parser gives an empty value the position of the next token, which may be on another line.
        let at = if node.is_null() { key_at } else { node.at };
        Self {
            context,
            node,
            at,
            key,
            kind,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.node.is_null()
    }

    pub(crate) fn is_empty_text(&self) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { text, .. } if text.is_empty())
    }

    pub(crate) fn is_scalar(&self) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { .. }) && !self.is_null()
    }

    pub(crate) fn is_mapping(&self) -> bool {
        matches!(&self.node.value, NodeValue::Mapping(_))
    }

    pub(crate) fn problem(&self, message: impl Into<String>) {
        self.context.problem(self.remark(message));
    }

    /// Reports a problem instead of a value.
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Option<T> {
        self.problem(message);
        None
    }

    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.context.warning(self.remark(message));
    }

    fn remark(&self, message: impl Into<String>) -> Problem {
        Problem {
            key: self.key.clone(),
            ..Problem::at(self.at, message)
        }
    }

    /// Opens a mapping; reports unknown keys.
    pub(crate) fn fields(&self, section: Section) -> Option<Fields<'a>> {
        let entries = self.entries("a mapping of keys and values")?;
        for entry in entries {
            if section.key(&entry.key).is_none() {
                let name = match entry.key.as_str() {
                    "" => "''",
                    name => name,
                };
                let hint = section.suggest(name);
                let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
                self.context.problem(Problem {
                    key: below(&self.key, name),
                    ..Problem::at(entry.at, format!("unknown key{hint}"))
                });
            }
        }
        Some(Fields {
            context: self.context,
            section,
            at: self.at,
            key: self.key.clone(),
            entries,
        })
    }

    /// The pairs of a mapping with arbitrary keys.
    pub(crate) fn pairs(&self) -> Option<Vec<(&'a str, Value<'a>)>> {
        let entries = self.entries("a mapping of names and values")?;
        let pair = |entry: &'a Entry| {
            let key = below(&self.key, &entry.key);
            let value = Value::new(self.context, &entry.node, entry.at, key, Kind::Scalar);
            (entry.key.as_str(), value)
        };
        Some(entries.iter().map(pair).collect())
    }

    fn entries(&self, wanted: &str) -> Option<&'a [Entry]> {
        let found = self.node.kind();
        match &self.node.value {
            NodeValue::Mapping(entries) => Some(entries),
            _ if self.key.is_empty() => {
                self.fail(format!("the file must be {wanted}, not {found}"))
            }
            _ => self.fail(format!("must be {wanted}, not {found}")),
        }
    }

    /// The entries of a list; an empty value is an empty list.
    pub(crate) fn items(&self) -> Option<Vec<Value<'a>>> {
        match &self.node.value {
            NodeValue::Sequence(items) => {
                let item = |(index, node): (usize, &'a Rc<Node>)| {
                    let key = format!("{}[{index}]", self.key);
                    Value::new(self.context, node, node.at, key, self.kind)
                };
                Some(items.iter().enumerate().map(item).collect())
            }
            _ if self.is_null() => Some(Vec::new()),
            _ => self.fail(format!("must be a list, not {}", self.node.kind())),
        }
    }

    /// Like [`Self::items`], but a single value counts as a list of one entry.
    pub(crate) fn one_or_more(&self) -> Vec<Value<'a>> {
        match &self.node.value {
            NodeValue::Sequence(_) => self.items().unwrap_or_default(),
            _ if self.is_null() => Vec::new(),
            _ => vec![self.clone()],
        }
    }

    /// The text of a single value, unchanged.
    pub(crate) fn raw(&self, wanted: &str) -> Option<&'a str> {
        match &self.node.value {
            NodeValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => self.fail(format!("must be {wanted}, not {}", self.node.kind())),
        }
    }

    /// Parses a single value. The error of `parse` is the problem's message.
    pub(crate) fn parse<T, E: Display>(
        &self,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let parsed = parse(self.raw(wanted)?);
        parsed.map_or_else(|error| self.fail(error.to_string()), Some)
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
            return self.fail(format!("{} contains a space", quote(&text)));
        }
        Some(text)
    }

    /// Reads one of the words that the key accepts.
    pub(crate) fn choice<T: FromStr>(&self) -> Option<T> {
        let words = match self.kind.item() {
            Kind::Choice(words) => words,
            _ => &[],
        };
        let names: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let wanted = format!("one of {}", names.join(", "));
        let text = self.raw(&wanted)?;
        if !words.contains(&text) {
            let message = format!("{} is not {wanted}", quote(text));
            return self.fail(message + &did_you_mean(text, words.iter().copied()));
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
        let (least, most) = match self.kind.item() {
            Kind::Whole { least, most } => (least, most),
            _ => (0, u64::MAX),
        };
        self.parse("a number", |text| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let number = number(digits).filter(|_| digits == "0" || !digits.starts_with('0'));
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
        self.number("", 1.0..=100.0, "a number from 1 to 100")
    }

    pub(crate) fn percent(&self) -> Option<f64> {
        self.number("%", 0.0..=100.0, "a percentage from 0% to 100%")
    }

    fn number(&self, unit: &str, range: RangeInclusive<f64>, wanted: &str) -> Option<f64> {
        self.parse(wanted, |text| {
            let number = text.strip_suffix(unit).unwrap_or(text).trim_end().parse();
            let number = number.ok().filter(|number| range.contains(number));
            number.ok_or_else(|| format!("{} is not {wanted}", quote(text)))
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
        self.parse("a size such as 64M", duration::size)
    }

    pub(crate) fn memory(&self) -> Option<MemSize> {
        // In other keys, 0 means all memory of a node.
        let is_zero =
            matches!(&self.node.value, NodeValue::Scalar { text, plain: true } if text == "0");
        if self.key == "slurm_mem" && is_zero {
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
                self.fail(format!("{} expands to nothing", quote(&text)))
            }
            Ok(path) => Some(path),
            Err(error) => self.fail(format!("{}: {error}", quote(&text))),
        }
    }
}
