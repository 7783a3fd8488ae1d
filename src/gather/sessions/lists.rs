//! The lists `include` and `exclude`, read once per invocation.

use std::path::{Path, PathBuf};

use crate::base::regular::{error_text, read_regular};
use crate::model::bids::cohort::{Cohort, CohortSource, ENTRY_HINT, Entry, ListSource};

/// Why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CohortError {
    #[error("cannot read the list '{key}', {}: {error}", .file.display())]
    Unreadable {
        key: &'static str,
        file: PathBuf,
        error: String,
    },
    #[error("{}:{line}: {error}", .file.display())]
    Entry {
        file: PathBuf,
        line: u32,
        error: String,
    },
    #[error("the list '{key}', {}, is empty", .file.display())]
    Empty { key: &'static str, file: PathBuf },
    #[error("the patterns in 'include' and 'exclude' cannot be used: {0}")]
    Patterns(String),
}

impl CohortError {
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { key, .. } => format!(
                "create a text file with one entry per line, or correct '{key}' in the configuration \
                 (a single entry begins with 'sub-')"
            ),
            Self::Entry { .. } => ENTRY_HINT.to_owned(),
            Self::Patterns(_) => "write fewer entries with wildcards".to_owned(),
            Self::Empty { key, .. } => {
                let content = match *key {
                    "exclude" => "a comment line if no session is excluded",
                    _ => "sessions",
                };
                format!(
                    "write {content} into it, or remove '{key}' from the configuration; to change a list, write a new \
                     file and move it into place"
                )
            }
        }
    }
}

/// # Errors
/// A file that cannot be read, or its first line that is not a valid entry.
pub fn load(source: &CohortSource) -> Result<Cohort, CohortError> {
    let list =
        |key, source: &Option<ListSource>| source.as_ref().map(|list| read(key, list)).transpose();
    let include = list("include", &source.include)?;
    let exclude = list("exclude", &source.exclude)?;
    Cohort::new(include, exclude.unwrap_or_default()).map_err(CohortError::Patterns)
}

fn read(key: &'static str, list: &ListSource) -> Result<Vec<Entry>, CohortError> {
    match list {
        // The configuration has already checked these.
        ListSource::Entries(entries) => Ok(entries
            .iter()
            .filter_map(|(text, line)| {
                let place = format!("line {line} of the configuration");
                Entry::parse(key, text, place).ok()
            })
            .collect()),
        ListSource::File(file) => read_file(key, file),
    }
}

fn read_file(key: &'static str, file: &Path) -> Result<Vec<Entry>, CohortError> {
    let unreadable = |error: String| CohortError::Unreadable {
        key,
        file: file.to_owned(),
        error,
    };
    let bytes = read_regular(file).map_err(|error| unreadable(error_text(&error)))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    let mut entries = Vec::new();
    // Editors on Windows write a byte order mark and end lines with `\r\n`.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (at, line) in text.lines().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let place = format!("{}:{number}", file.display());
        let parsed = Entry::parse(key, entry, place).map_err(|error| CohortError::Entry {
            file: file.to_owned(),
            line: number,
            error,
        })?;
        entries.push(parsed);
    }
    // An empty file may be incomplete; with a comment, it excludes no session on purpose.
    if entries.is_empty() && (key == "include" || text.trim().is_empty()) {
        let file = file.to_owned();
        return Err(CohortError::Empty { key, file });
    }
    Ok(entries)
}
