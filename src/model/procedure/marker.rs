//! The rules of completion as plain values: patterns, markers, rules. Pure.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};

use super::template;
use crate::base::words::words;

/// Says when a task's output directory holds a complete result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompletionRule {
    pub required: Required,
    /// None of these may match anything (crash files).
    pub forbid: Vec<Pattern>,
}

/// Says what must be there.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Required {
    /// The output directory exists and has at least one entry.
    #[default]
    NonEmptyDirectory,
    /// Every marker is satisfied or excused. Never empty.
    Markers(Vec<Marker>),
}

/// Describes one required file or group of files.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    pub pattern: Pattern,
    /// A match counts only from this size on, in bytes. 0: the size is not looked at.
    pub min_size: u64,
    /// A match counts only if its text holds this.
    pub contains: Option<String>,
    /// A match counts only if its text does not hold this.
    pub not_contains: Option<String>,
    /// Below the session's `bids_root` directory: if nothing matches one of these, the marker is excused. Empty: it
    /// never is.
    pub when: Vec<Pattern>,
    /// What the pattern is relative to.
    pub base: Base,
    /// So many matches must count, at least 1.
    pub min_count: usize,
    /// What else says how many.
    pub count: Option<Count>,
}

words! {
    /// What the matches of a marker are counted against.
    pub enum Count {
        /// The files of the input: what `when` matches.
        Input = "input",
    }
}

words! {
    /// The directory that a marker's pattern begins at.
    #[derive(Default)]
    pub enum Base {
        /// The task's own output directory.
        #[default]
        Task = "task",
        /// The directory that holds the outputs of all subjects.
        Procedure = "procedure",
        /// `derivatives_root`.
        Derivatives = "derivatives",
        /// `bids_root`.
        Bids = "bids",
    }
}

/// Holds a relative path, of which each component may be a glob. Never absolute, never with `..`.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    components: Vec<Component>,
    directories_only: bool,
    /// Place of the first component that holds a label of the task. Directories up to there hold all subjects.
    first_own: Option<usize>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Is one level of a [`Pattern`].
#[derive(Debug, Clone)]
pub enum Component {
    /// A name without wildcards: matches itself.
    Literal(String),
    /// `*`, `?`, `[ab]`, `[!a]`. Matches one name; a leading dot only if the pattern has it too.
    Glob(NameGlob),
    /// `**`: any number of directories, also none. Goes neither through symbolic links nor into
    /// hidden directories. At the end of a pattern it stands for anything below, as `**/*`.
    AnyDepth,
}

/// Matches single names. Letters outside ASCII count byte by byte for `?` and `[...]`.
#[derive(Debug, Clone)]
pub struct NameGlob {
    /// None: the glob is these two with one `*` between: nothing else needs a look.
    matcher: Option<GlobMatcher>,
    /// What stands before the first and after the last wildcard: most names fail there cheaply.
    prefix: String,
    suffix: String,
}

/// Says why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("'{0}' is absolute: patterns are relative to the output directory")]
    Absolute(String),
    #[error("'{0}' leaves its directory by '..'")]
    Parent(String),
    #[error("the pattern is empty")]
    Empty,
    #[error("'{0}': '**' stands for whole directories and cannot be glued to other text")]
    GluedDoubleStar(String),
    #[error("'{0}' holds braces that are neither {{subject}} nor {{session}}")]
    Brace(String),
    #[error(
        "'{text}' would also match files of other labels, since {placeholder} may go on there: write \
         {placeholder}_* or {placeholder}[._]*"
    )]
    OpenEnd {
        text: String,
        placeholder: &'static str,
    },
    #[error("'{text}' is not a glob: {error}")]
    Glob { text: String, error: String },
}

impl Marker {
    /// Makes a marker with the usual size rule: a file that a glob finds needs at least one byte,
    /// a file that is named may be empty.
    pub fn new(pattern: Pattern) -> Self {
        Self {
            min_size: u64::from(!pattern.is_literal()),
            pattern,
            contains: None,
            not_contains: None,
            when: Vec::new(),
            base: Base::Task,
            min_count: 1,
            count: None,
        }
    }

    /// What a match must be beside its name, in words. A `min_size` of 1 is what a glob asks for by itself.
    pub fn conditions(&self) -> Vec<String> {
        let size = match self.min_size {
            0 => None,
            1 => Some("not empty".to_owned()),
            size => Some(format!("{size} bytes at least")),
        };
        let text = |word: &str, text: &Option<String>| {
            let text = text.as_deref()?;
            Some(format!("{word} '{text}'"))
        };
        [
            size,
            text("holds", &self.contains),
            text("does not hold", &self.not_contains),
            (self.min_count > 1).then(|| format!("{} of them at least", self.min_count)),
            self.count
                .map(|Count::Input| "as many as `when` matches".to_owned()),
            (self.base != Base::Task).then(|| format!("below the {} directory", self.base)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What tells this marker from another one.
    pub fn parts(&self) -> Vec<String> {
        let Self {
            pattern,
            min_size,
            contains,
            not_contains,
            when,
            base,
            min_count,
            count,
        } = self;
        let texts: Vec<&str> = when.iter().map(Pattern::as_str).collect();
        let mut parts = vec![
            pattern.as_str().to_owned(),
            min_size.to_string(),
            format!("{contains:?} {not_contains:?}"),
            // One alone has the mark that it had before there could be several.
            match texts.as_slice() {
                several @ [_, _, ..] => format!("{several:?}"),
                one => format!("{:?}", one.first()),
            },
        ];
        // Rules of before these keys have the marks that they had.
        if (*base, *min_count, *count) != (Base::Task, 1, None) {
            parts.push(format!("{base} {min_count} {count:?}"));
        }
        parts
    }

    /// True if a size beyond the usual rule is asked for, which only a file can have.
    pub fn asks_for_size(&self) -> bool {
        self.min_size > u64::from(!self.pattern.is_literal())
    }
}

impl Pattern {
    /// Reads a relative path with `*`, `?`, `[...]`, `**`, `{subject}` and `{session}`. Backslashes are ordinary
    /// letters, as in Python's pathlib. A `/` at the end: only directories match.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.starts_with('/') {
            return Err(PatternError::Absolute(text.to_owned()));
        }
        if template::stray_brace(text).is_some() {
            return Err(PatternError::Brace(text.to_owned()));
        }
        if let Some(placeholder) = template::open_end(text) {
            return Err(PatternError::OpenEnd {
                text: text.to_owned(),
                placeholder,
            });
        }
        let mut components = Vec::new();
        let mut first_own = None;
        for part in text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            if template::has_any(part) {
                first_own.get_or_insert(components.len());
            }
            components.push(match part {
                ".." => return Err(PatternError::Parent(text.to_owned())),
                "**" if matches!(components.last(), Some(Component::AnyDepth)) => continue,
                "**" => Component::AnyDepth,
                _ if part.contains("**") => {
                    return Err(PatternError::GluedDoubleStar(text.to_owned()));
                }
                _ if is_glob(part) => {
                    Component::Glob(NameGlob::new(part).map_err(|error| PatternError::Glob {
                        text: text.to_owned(),
                        error: error.kind().to_string(),
                    })?)
                }
                _ => Component::Literal(part.to_owned()),
            });
        }
        if components.is_empty() {
            return Err(PatternError::Empty);
        }
        Ok(Self {
            text: text.to_owned(),
            components,
            directories_only: text.ends_with('/'),
            first_own,
        })
    }

    /// The pattern of one task, with its labels in place of the placeholders.
    pub fn filled(&self, subject: &str, session: &str) -> Cow<'_, Self> {
        if self.first_own.is_none() {
            return Cow::Borrowed(self);
        }
        // Labels hold no letter that means anything in a pattern.
        match Self::parse(&template::fill(&self.text, subject, session)) {
            Ok(filled) => Cow::Owned(Self {
                first_own: self.first_own,
                ..filled
            }),
            Err(_) => Cow::Borrowed(self),
        }
    }

    /// How many of the first components are the same for all tasks.
    pub fn shared_components(&self) -> usize {
        self.first_own.unwrap_or(0)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// True if the pattern ends in `/`.
    pub fn directories_only(&self) -> bool {
        self.directories_only
    }

    /// True if no component is a wildcard: the pattern names one file.
    pub fn is_literal(&self) -> bool {
        self.components
            .iter()
            .all(|component| matches!(component, Component::Literal(_)))
    }
}

fn is_glob(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

impl NameGlob {
    fn new(part: &str) -> Result<Self, globset::Error> {
        const WILD: [char; 4] = ['*', '?', '[', ']'];
        let prefix = part.split(WILD).next().unwrap_or_default();
        let suffix = part.rsplit(WILD).next().unwrap_or_default();
        // One star between two texts needs no matcher, which is dear to make for each task.
        let matcher = match part == format!("{prefix}*{suffix}") {
            true => None,
            false => Some(
                GlobBuilder::new(&in_globset_words(part))
                    .literal_separator(true)
                    .backslash_escape(false)
                    .build()?
                    .compile_matcher(),
            ),
        };
        Ok(Self {
            matcher,
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
        })
    }

    /// What each name that matches begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// True if the name matches. A leading dot is matched by a dot only.
    pub fn matches(&self, name: &OsStr) -> bool {
        let bytes = name.as_bytes();
        bytes.starts_with(self.prefix.as_bytes())
            && bytes.ends_with(self.suffix.as_bytes())
            && (self.prefix.starts_with('.') || !bytes.starts_with(b"."))
            && match &self.matcher {
                None => bytes.len() >= self.prefix.len() + self.suffix.len(),
                Some(matcher) => matcher.is_match(name),
            }
    }
}

/// Rewrites a glob of Python's `fnmatch` for `globset`, where braces, `[^` and a bracket without
/// its end mean something else.
fn in_globset_words(part: &str) -> String {
    let mut out = String::with_capacity(part.len() + 4);
    let mut rest = part;
    while let Some(c) = rest.chars().next() {
        if c == '['
            && let Some(end) = class_end(rest)
        {
            let class = &rest[1..end];
            match class.strip_prefix('^') {
                Some("") => out.push('^'),
                Some(others) => {
                    out.push('[');
                    out.push_str(others);
                    out.push_str("^]");
                }
                None => out.push_str(&rest[..=end]),
            }
            rest = &rest[end + 1..];
            continue;
        }
        match c {
            '[' => out.push_str("[[]"),
            _ => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Finds the `]` that ends the class at the start of `text`; a `]` right after `[` or `[!` is a
/// member.
fn class_end(text: &str) -> Option<usize> {
    let first = if text[1..].starts_with('!') { 2 } else { 1 };
    let skip = first + usize::from(text[first..].starts_with(']'));
    text[skip..].find(']').map(|at| skip + at)
}

#[cfg(test)]
mod tests;
