//! Reads the lists of `include` and `exclude`, once per invocation.

use std::path::{Path, PathBuf};

use crate::base::regular::{read_regular, words};
use crate::model::bids::cohort::{Cohort, CohortSource, Entry, EntryError, ListSource};

/// Says why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CohortError {
    #[error("cannot read the list of '{key}', {}: {error}", .file.display())]
    Unreadable {
        key: &'static str,
        file: PathBuf,
        error: String,
    },
    #[error("{}:{line}: {error}", .file.display())]
    Entry {
        file: PathBuf,
        line: u32,
        error: EntryError,
    },
    #[error("the list of '{key}', {}, is empty", .file.display())]
    Empty { key: &'static str, file: PathBuf },
}

impl CohortError {
    /// Says what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { key, .. } => format!(
                "make a readable text file of one entry per line, or correct '{key}' in the configuration; \
                 a single entry there begins with 'sub-'"
            ),
            Self::Entry { error, .. } => error.hint().to_owned(),
            Self::Empty { key, .. } => {
                let nobody = match *key {
                    "exclude" => "write a comment line if nobody is excluded",
                    _ => "name sessions in it",
                };
                format!(
                    "{nobody}, or leave '{key}' out; rewrite a list elsewhere and move it into place"
                )
            }
        }
    }
}

/// Reads the lists.
///
/// # Errors
/// A file that cannot be read, or the first line in it that is no entry.
pub fn load(source: &CohortSource) -> Result<Cohort, CohortError> {
    let list =
        |key, source: &Option<ListSource>| source.as_ref().map(|list| read(key, list)).transpose();
    let include = list("include", &source.include)?;
    let exclude = list("exclude", &source.exclude)?;
    Ok(Cohort::new(include, exclude.unwrap_or_default()))
}

fn read(key: &'static str, list: &ListSource) -> Result<Vec<Entry>, CohortError> {
    match list {
        // The configuration has looked at these already; what it let through can be parsed.
        ListSource::Entries(entries) => Ok(entries
            .iter()
            .filter_map(|(text, line)| {
                let entry = Entry::parse(key, text).ok()?;
                Some(entry.at(None, *line))
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
    let bytes = read_regular(file).map_err(|error| unreadable(words(&error)))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    let mut entries = Vec::new();
    // Windows' editors begin a file with a mark and end lines with `\r\n`.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (at, line) in text.lines().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let parsed = Entry::parse(key, entry).map_err(|error| CohortError::Entry {
            file: file.to_owned(),
            line: number,
            error,
        })?;
        entries.push(parsed.at(Some(file), number));
    }
    // An empty file may be one that is being rewritten; a comment says that nobody is excluded on purpose.
    if entries.is_empty() && (key == "include" || text.trim().is_empty()) {
        let file = file.to_owned();
        return Err(CohortError::Empty { key, file });
    }
    Ok(entries)
}
