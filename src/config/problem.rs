//! Errors in a configuration, with their position and remedy.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::text::printable;
use crate::model::bids::suggest;

/// All errors of a configuration, so that one attempt reveals everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// In the order of the file. Never empty.
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
    /// The remedy if the file itself is missing or unreadable.
    pub hint: Option<String>,
}

/// One error or warning. Always shown as a single line, even if it quotes control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<Arc<Path>>,
    /// From 1; 0 means the entire file.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The path to the value, such as `procedures[2].scope`. Empty for the entire file.
    pub key: String,
    /// Ends with the remedy in parentheses, if there is one.
    pub message: String,
}

/// A position in a file; both numbers start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Problem {
    /// A message about a position, without file and key.
    pub(super) fn at(at: Position, message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: at.line,
            column: at.column,
            key: String::new(),
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.problems.as_slice() {
            return only.fmt(f);
        }
        let mut problems = self.problems.iter();
        let file = problems.clone().find_map(|problem| problem.file.as_ref());
        let file = file.map_or("the configuration".into(), |file| file.to_string_lossy());
        write!(f, "{} problems in {file}", self.problems.len())?;
        problems.try_for_each(|problem| write!(f, "\n  {problem}"))
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
        f.write_str(&printable(&self.message))
    }
}

/// Quotes a value from the file, shortened if it is long.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("'{}...'", text.get(..end).unwrap_or_default()),
        None => format!("'{text}'"),
    }
}

/// ` (did you mean '...'?)` for a misspelled name, or nothing.
pub(super) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = suggest::nearest(name, known);
    near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_even_if_it_quotes_control_characters() {
        let problem = Problem {
            file: Some(Arc::from(Path::new("/c/x.yaml"))),
            line: 3,
            column: 9,
            key: "audit.smtp_host".to_owned(),
            message: format!("{} is bad (write\tsomething else)", quote("a\nb\u{1b}[31m")),
        };
        assert_eq!(
            problem.to_string(),
            "/c/x.yaml:3:9: audit.smtp_host: 'a\\nb\\u{1b}[31m' is bad (write\\tsomething else)"
        );
        assert_eq!(quote(&"x".repeat(500)).len(), 85);
    }
}
