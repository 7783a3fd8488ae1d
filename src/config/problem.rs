//! What is wrong with a configuration: where, what, and what to do. No reading, no checking.

use crate::base::printable::printable;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Holds everything that is wrong with a configuration; nothing is left for a second try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// None: the built-in defaults (with what the command line says).
    pub file: Option<PathBuf>,
    /// In the order of the file. Never empty.
    pub problems: Vec<Problem>,
    /// What would have been warned about if the file were sound.
    pub warnings: Vec<String>,
    /// The way out where the file itself is the trouble (missing, unreadable).
    pub hint: Option<String>,
}

/// Describes one thing that is wrong. Shown as one line, whatever the file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<Arc<Path>>,
    /// From 1; 0: the file as a whole.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The path to the value: `procedures[2].scope`. Empty: the file as a whole.
    pub key: String,
    /// What is wrong, with the value and what is allowed.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// Is a place in a file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// A file with more problems than this is the wrong file.
const LONGEST_LIST: usize = 100;

impl Problem {
    /// A message about a place. No file, no key.
    pub(super) fn at(at: Position, message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: at.line,
            column: at.column,
            key: String::new(),
            message: message.into(),
            hint: None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [only] => only.fmt(f),
            several => {
                match &self.file {
                    Some(file) => write!(f, "{} problems in {}", several.len(), file.display())?,
                    None => write!(f, "{} problems in the configuration", several.len())?,
                }
                let (shown, rest) = several.split_at(several.len().min(LONGEST_LIST));
                shown
                    .iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))?;
                match rest.len() {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", printable(&file.to_string_lossy()))?;
            if self.line > 0 {
                write!(f, "{}:{}:", self.line, self.column)?;
            }
            f.write_str(" ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", printable(&self.key))?;
        }
        f.write_str(&printable(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, " ({})", printable(hint)),
            None => Ok(()),
        }
    }
}

/// Puts a value from the file into quotes, cut to a length that a line can bear.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() > LONGEST {
        let start: String = text.chars().take(LONGEST).collect();
        format!("'{start}...'")
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_it_quotes() {
        let problem = Problem {
            file: Some(Arc::from(Path::new("/c/x.yaml"))),
            line: 3,
            column: 9,
            key: "audit.smtp_host".to_owned(),
            message: format!("{} is bad", quote("a\nb\u{1b}[31m")),
            hint: Some("write\tsomething else".to_owned()),
        };
        assert_eq!(
            problem.to_string(),
            "/c/x.yaml:3:9: audit.smtp_host: 'a\\nb\\u{1b}[31m' is bad (write\\tsomething else)"
        );
        assert_eq!(quote(&"x".repeat(500)).len(), 85);
    }
}
