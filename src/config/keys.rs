//! The list of all configuration keys, with their descriptions.
//!
//! The reader takes bounds, choices and defaults from it. The schema for editors, the tables of the documentation and
//! the manual page are generated from it, the first two by the tests.
//! `site`, `steps` and `rules` interpret the values.

mod table;

pub use table::KEYS;

use itertools::Itertools as _;

use crate::base::words::words;
use crate::model::bids::suggest;

words! {
    /// The mapping that a key belongs to. Its word identifies its table in the documentation.
    pub enum Section {
        /// The top of the file.
        Site = "site",
        Audit = "audit",
        /// An entry of `audit`'s `log_patterns`.
        LogPattern = "log-pattern",
        /// An entry of `procedures`.
        Procedure = "procedure",
        /// An entry of a procedure's `depends_on`.
        Dependency = "dependency",
        /// An entry of a procedure's `completion_marker`.
        Marker = "marker",
        Retry = "retry",
        /// A reason in `retry`'s `on`.
        RetryRule = "retry-rule",
        Safety = "safety",
        Notify = "notify",
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub section: Section,
    pub name: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// Shown in the documentation, without a full stop.
    pub doc: &'static str,
}

impl Section {
    /// Completes the sentence "a key of ...".
    pub fn place(self) -> &'static str {
        match self {
            Self::Site => "the top level",
            Self::Audit => "'audit'",
            Self::LogPattern => "an entry of 'log_patterns'",
            Self::Procedure => "a procedure",
            Self::Dependency => "an entry of 'depends_on'",
            Self::Marker => "an entry of 'completion_marker'",
            Self::Retry => "'retry'",
            Self::RetryRule => "a reason in 'on'",
            Self::Safety => "'safety'",
            Self::Notify => "'notify'",
        }
    }

    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(move |key| key.section == self)
    }

    pub fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// A hint about an unknown key.
    pub fn suggest(self, name: &str) -> Option<String> {
        let names = || self.keys().map(|key| key.name);
        if let Some(near) = suggest::nearest(name, names()) {
            return Some(format!("did you mean '{near}'?"));
        }
        let folded = suggest::fold(name);
        let mut others = KEYS.iter().filter(|key| key.section != self);
        if let Some(key) = others.find(|key| suggest::fold(key.name) == folded) {
            let place = key.section.place();
            return Some(format!("'{}' is a key of {place}", key.name));
        }
        let similar = names().find(|key| suggest::candidates(name, [*key]).next().is_some())?;
        Some(format!("did you mean '{similar}'?"))
    }
}

/// The form of a value. The reader, the schema and the documentation follow from it.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Whole {
        least: u64,
        most: u64,
    },
    /// A number from 1.
    Factor,
    Percent,
    /// A number of hours.
    Hours,
    Duration,
    /// Bytes.
    Size,
    /// In the format of sbatch.
    Memory,
    /// In the format of sbatch.
    Time,
    Flag,
    Choice(&'static [&'static str]),
    /// One line.
    Text,
    /// Text without spaces.
    Word,
    /// Anything that is neither a list nor a mapping.
    Scalar,
    Address,
    /// The name of a procedure.
    Name,
    Project,
    /// The name of an environment variable.
    Variable,
    Regex,
    Path,
    PromFile,
    OutputDir,
    Script,
    Pattern,
    /// One or more.
    List(&'static Kind),
    Mapping(Section),
    /// Variables with their values.
    Environment,
    Procedures,
    Dependencies,
    Markers,
    LogPatterns,
    SbatchArgs,
    /// Subjects and sessions, or the path of a file that lists them.
    Entries {
        least: u64,
    },
    /// Reasons of failures, with their rules.
    Reasons,
    /// Retry rules, or `off`.
    Retries,
}

/// The value of a key that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    Nothing,
    Required,
    /// This value, parsed like one from the file.
    Is(&'static str),
    /// The value of this top-level key.
    Of(&'static str),
    /// A description of the value that the program determines.
    Words(&'static str),
}

const COUNT: Kind = whole(1, u32::MAX as u64);
const COUNT_OR_0: Kind = whole(0, u32::MAX as u64);

const fn whole(least: u64, most: u64) -> Kind {
    Kind::Whole { least, most }
}

impl Kind {
    /// The kind of one value, or of the entries of a list.
    pub fn item(self) -> Self {
        match self {
            Self::List(item) => *item,
            kind => kind,
        }
    }

    /// A description in Markdown.
    pub fn words(self) -> String {
        let words = match self {
            Self::Whole { least, most } => {
                return match bound(most) {
                    Some(most) => format!("number from {least} to {most}"),
                    None => format!("number from {least}"),
                };
            }
            Self::Choice(words) => {
                let words = words.iter().map(|word| format!("`{word}`")).join(", ");
                return match words.rsplit_once(", ") {
                    None => words,
                    Some((words, last)) => format!("{words} or {last}"),
                };
            }
            Self::List(item) => match item {
                Self::Address => "list of addresses",
                Self::Pattern => "list of patterns",
                Self::Choice(_) => "list of words, see below",
                _ => "list of numbers",
            },
            Self::Factor => "number from 1",
            Self::Percent => "percentage",
            Self::Hours => "number",
            Self::Duration => "duration",
            Self::Size => "bytes, or a size such as `64M`",
            Self::Memory => "memory size",
            Self::Time => "Slurm time limit",
            Self::Flag => "yes or no",
            Self::Text | Self::Scalar | Self::Name => "text",
            Self::Word => "text without spaces",
            Self::Address => "address",
            Self::Project => "1 to 32 letters, digits, `_`, `.`, `-`",
            Self::Variable => "environment variable",
            Self::Regex => "regular expression",
            Self::Path => "path",
            Self::PromFile => "path ending in `.prom`",
            Self::OutputDir => "relative path",
            Self::Script => "path or file name",
            Self::Pattern => "pattern",
            Self::Mapping(_) | Self::Environment => "mapping",
            Self::Procedures => "list of procedures",
            Self::Dependencies => "list of names",
            Self::Markers => "pattern, or list of patterns",
            Self::LogPatterns => "list of patterns, see below",
            Self::SbatchArgs => "list of options",
            Self::Entries { .. } => "list, or path to a file",
            Self::Reasons => "mapping of reasons, or list",
            Self::Retries => "mapping, see below, or `off`",
        };
        words.to_owned()
    }
}

/// The upper bound to show to users, `None` if it is only that of the number's type.
pub fn bound(most: u64) -> Option<u64> {
    (most < u32::MAX.into()).then_some(most)
}

impl Fallback {
    /// A description of the default in Markdown, `None` if there is none.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Required => Some("(required)".to_owned()),
            Self::Is(value) => Some(format!("`{value}`")),
            Self::Of(key) if key.starts_with("slurm_") => Some(format!("`{key}`")),
            Self::Of(_) => Some("the site-wide value".to_owned()),
            Self::Words(words) => Some(words.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Section::{Marker, Procedure, Site};
    use super::*;

    #[test]
    fn every_key_is_unique_and_described() {
        for section in Section::ALL {
            let mut names: Vec<&str> = section.keys().map(|key| key.name).collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(before, names.len(), "{section:?}");
        }
        for key in KEYS {
            assert!(!key.doc.is_empty(), "{}", key.name);
            assert!(!key.doc.ends_with('.'), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_gets_a_suggestion() {
        for (section, name, expected) in [
            (Site, "slurm_partiton", "did you mean 'slurm_partition'?"),
            (Site, "slurm-partition", "did you mean 'slurm_partition'?"),
            (Site, "Bids_Root", "did you mean 'bids_root'?"),
            (Site, "qos", "'qos' is a key of a procedure"),
            (Site, "mem", "'mem' is a key of a procedure"),
            (Site, "slurm_memory", "did you mean 'slurm_mem'?"),
            (Site, "retri", "did you mean 'retry'?"),
            (Procedure, "depends", "did you mean 'depends_on'?"),
            (Procedure, "scop", "did you mean 'scope'?"),
            (Procedure, "cpus", "did you mean 'cpus_per_task'?"),
            (
                Procedure,
                "bids_root",
                "'bids_root' is a key of the top level",
            ),
        ] {
            assert_eq!(section.suggest(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(Marker.suggest("path"), None);
    }
}
