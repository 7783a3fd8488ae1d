//! The rules of completion as plain values: patterns, markers, rules. Pure.

use globset::{GlobBuilder, GlobMatcher};

/// Says when a task's output directory holds a complete result.
#[derive(Debug, Clone, Default)]
pub struct CompletionRule {
    pub required: Required,
    /// None of these may match anything (crash files).
    pub forbid: Vec<Pattern>,
}

/// Says what must be there.
#[derive(Debug, Clone, Default)]
pub enum Required {
    /// The output directory exists and has at least one entry.
    #[default]
    NonEmptyDirectory,
    /// Every marker is satisfied or excused. Never empty.
    Markers(Vec<Marker>),
}

/// Describes one required file or group of files.
#[derive(Debug, Clone)]
pub struct Marker {
    pub pattern: Pattern,
    /// A match counts only from this size on, in bytes. 0: the size is not looked at.
    pub min_size: u64,
    /// A match counts only if its text holds this.
    pub contains: Option<String>,
    /// A match counts only if its text does not hold this.
    pub not_contains: Option<String>,
    /// Below the session's `bids_root` directory: if nothing matches this, the marker is excused.
    pub when: Option<Pattern>,
}

/// Holds a relative path, of which each component may be a glob. Never absolute, never with `..`.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    components: Vec<Component>,
}

/// Is one level of a [`Pattern`].
#[derive(Debug, Clone)]
pub enum Component {
    /// A name without wildcards: matches itself.
    Literal(String),
    /// `*`, `?`, `[ab]`, `[!a]`. Matches one name; a leading dot only if the pattern has it too.
    Glob(GlobMatcher),
    /// `**`: any number of directories, also none. Does not go through symbolic links.
    AnyDepth,
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
    #[error("'{text}' is not a glob: {error}")]
    Glob { text: String, error: String },
}

impl Pattern {
    /// Reads a relative path with `*`, `?`, `[...]` and `**`. Braces and backslashes are ordinary
    /// letters, as in Python's pathlib.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.starts_with('/') {
            return Err(PatternError::Absolute(text.to_owned()));
        }
        let mut components = Vec::new();
        for part in text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            components.push(match part {
                ".." => return Err(PatternError::Parent(text.to_owned())),
                "**" => Component::AnyDepth,
                _ if part.contains("**") => {
                    return Err(PatternError::GluedDoubleStar(text.to_owned()));
                }
                _ if is_glob(part) => {
                    Component::Glob(matcher(part).map_err(|error| PatternError::Glob {
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
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn components(&self) -> &[Component] {
        &self.components
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

fn matcher(part: &str) -> Result<GlobMatcher, globset::Error> {
    let escaped: String = part
        .chars()
        .flat_map(|c| match c {
            '{' | '}' => vec!['[', c, ']'],
            _ => vec![c],
        })
        .collect();
    Ok(GlobBuilder::new(&escaped)
        .literal_separator(true)
        .backslash_escape(false)
        .build()?
        .compile_matcher())
}
