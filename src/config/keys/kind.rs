//! The values that a key accepts, and its default.

use super::Section;

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

pub(super) const COUNT: Kind = whole(1, u32::MAX as u64);
pub(super) const COUNT_OR_0: Kind = whole(0, u32::MAX as u64);

pub(super) const fn whole(least: u64, most: u64) -> Kind {
    Kind::Whole { least, most }
}

impl Kind {
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
                let mut words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                let last = words.pop().unwrap_or_default();
                return match words.is_empty() {
                    true => last,
                    false => format!("{} or {last}", words.join(", ")),
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
