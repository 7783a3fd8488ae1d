//! Completion rules as plain values: patterns and markers.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};

use super::template;
use crate::base::words::words;

/// When the outputs of a task are complete.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompletionRule {
    pub required: Required,
    /// Patterns that must not match any file (crash files).
    pub forbid: Vec<Pattern>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum Required {
    /// The output directory exists and has at least one entry.
    #[default]
    NonEmptyDirectory,
    /// Every marker is satisfied or excused. Never empty.
    Markers(Vec<Marker>),
}

/// One required file or group of files.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    pub pattern: Pattern,
    /// Minimum size in bytes of a match that counts; 0 disables the check.
    pub min_size: u64,
    /// A match counts only if it contains this text.
    pub contains: Option<String>,
    /// A match counts only if it does not contain this text.
    pub not_contains: Option<String>,
    /// Patterns in the session's `bids_root` directory: if nothing matches any of them, the marker is excused. If empty,
    /// it never is.
    pub when: Vec<Pattern>,
    pub base: Base,
    /// Minimum number of matches that count, at least 1.
    pub min_count: usize,
    /// A further condition on the number of matches.
    pub count: Option<Count>,
}

words! {
    /// What determines the required number of matches.
    pub enum Count {
        /// The number of input files that match `when`.
        Input = "input",
    }
}

words! {
    /// The directory that a marker's pattern is relative to.
    #[derive(Default)]
    pub enum Base {
        /// The task's own output directory.
        #[default]
        Task = "task",
        /// The directory with the outputs of all subjects.
        Procedure = "procedure",
        /// `derivatives_root`.
        Derivatives = "derivatives",
        /// `bids_root`.
        Bids = "bids",
    }
}

/// A relative path whose components may be globs. Never contains `..`.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    pub components: Vec<Component>,
    pub directories_only: bool,
    /// Index of the first component with a label of the task. The directories before it are shared by all subjects.
    first_own: Option<usize>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// One level of a [`Pattern`].
#[derive(Debug, Clone)]
pub enum Component {
    /// A name without wildcards.
    Literal(String),
    /// `*`, `?`, `[ab]`, `[!a]`. Matches one name; a leading dot only if the pattern has it too.
    Glob(NameGlob),
    /// `**`: any number of directories, including none. Does not follow symbolic links or enter
    /// hidden directories. At the end of a pattern, it means `**/*`.
    AnyDepth,
}

/// A glob for single names. `?` and `[...]` match single bytes of letters outside ASCII.
#[derive(Debug, Clone)]
pub struct NameGlob {
    /// `None` if the glob is prefix, one `*` and suffix, which needs no matcher.
    matcher: Option<GlobMatcher>,
    /// The text before the first wildcard; with `suffix`, a cheap test that most names fail.
    prefix: String,
    suffix: String,
}

impl Marker {
    /// A marker with the default size rule: files found by a glob must not be empty,
    /// but a literally named file may be.
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

    /// Further conditions on a match, in words.
    pub fn conditions(&self) -> Vec<String> {
        let size = match self.min_size {
            0 => None,
            1 => Some("not empty".to_owned()),
            size => Some(format!("at least {size} bytes")),
        };
        let text = |word: &str, text: &Option<String>| {
            let text = text.as_deref()?;
            Some(format!("{word} '{text}'"))
        };
        [
            size,
            text("contains", &self.contains),
            text("does not contain", &self.not_contains),
            (self.min_count > 1).then(|| format!("at least {} matches", self.min_count)),
            self.count
                .map(|Count::Input| "as many files as match `when`".to_owned()),
            (self.base != Base::Task).then(|| format!("in the {} directory", self.base)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// All values that distinguish this marker from others.
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
            // A single pattern keeps its earlier form, so that hashes stay the same.
            match texts.as_slice() {
                several @ [_, _, ..] => format!("{several:?}"),
                one => format!("{:?}", one.first()),
            },
        ];
        // Likewise markers without these keys.
        if (*base, *min_count, *count) != (Base::Task, 1, None) {
            parts.push(format!("{base} {min_count} {count:?}"));
        }
        parts
    }
}

impl Pattern {
    /// Parses a relative path with `*`, `?`, `[...]`, `**`, `{subject}` and `{session}`. Backslashes are ordinary
    /// characters, as in Python's pathlib. With a final `/`, only directories match.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| Err(format!("'{text}' {why}"));
        if text.starts_with('/') {
            return bad("is absolute, but patterns must be relative to the output directory");
        }
        if template::stray_brace(text).is_some() {
            return bad("contains braces other than {subject} and {session}");
        }
        if let Some(placeholder) = template::open_end(text) {
            return bad(&format!(
                "would also match files of longer labels: write {placeholder}_* or {placeholder}[._]*"
            ));
        }
        Self::split(text)
    }

    /// [`Self::parse`] without the checks of placeholders.
    fn split(text: &str) -> Result<Self, String> {
        let bad = |why: &str| Err(format!("'{text}' {why}"));
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
                ".." => return bad("leaves its directory with '..'"),
                "**" if matches!(components.last(), Some(Component::AnyDepth)) => continue,
                "**" => Component::AnyDepth,
                _ if !part.contains(['*', '?', '[']) => Component::Literal(part.to_owned()),
                _ if part.contains("**") => {
                    return bad("combines '**', which matches entire directories, with other text");
                }
                _ if part.contains("[^") => {
                    return bad("contains '[^': write '[!' to exclude characters");
                }
                _ => Component::Glob(NameGlob::new(part).map_err(|error| {
                    format!("'{text}' is not a valid pattern: {}", error.kind())
                })?),
            });
        }
        if components.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            components,
            directories_only: text.ends_with('/'),
            first_own,
        })
    }

    /// The pattern with a task's labels instead of the placeholders.
    pub fn filled(&self, subject: &str, session: &str) -> Cow<'_, Self> {
        if self.first_own.is_none() {
            return Cow::Borrowed(self);
        }
        // Labels contain no special characters of patterns.
        match Self::split(&template::fill(&self.text, subject, session)) {
            Ok(filled) => Cow::Owned(Self {
                first_own: self.first_own,
                ..filled
            }),
            Err(_) => Cow::Borrowed(self),
        }
    }

    /// Number of components from the first one with a label of the task on.
    pub fn own_components(&self) -> usize {
        self.components
            .len()
            .saturating_sub(self.first_own.unwrap_or(0))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if no component is a wildcard.
    pub fn is_literal(&self) -> bool {
        self.components
            .iter()
            .all(|component| matches!(component, Component::Literal(_)))
    }
}

impl NameGlob {
    fn new(part: &str) -> Result<Self, globset::Error> {
        const WILD: [char; 4] = ['*', '?', '[', ']'];
        let prefix = part.split(WILD).next().unwrap_or_default();
        let suffix = part.rsplit(WILD).next().unwrap_or_default();
        // A single star needs no matcher, which would be expensive to build for each task.
        let matcher = match part == format!("{prefix}*{suffix}") {
            true => None,
            false => Some(
                GlobBuilder::new(part)
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

    /// The start of all matching names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A leading dot matches only a dot.
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

#[cfg(test)]
mod tests;
