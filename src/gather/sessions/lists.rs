//! The lists `include` and `exclude`, read once per invocation.

use std::path::Path;

use crate::base::regular::{error_text, read_regular};
use crate::model::bids::cohort::{Cohort, CohortSource, ENTRY_HINT, Entry, ListSource};

/// Why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct CohortError {
    problem: String,
    pub hint: String,
}

/// # Errors
/// A file that cannot be read, or its first line that is not a valid entry.
pub fn load(source: &CohortSource) -> Result<Cohort, CohortError> {
    let list =
        |key, source: &Option<ListSource>| source.as_ref().map(|list| read(key, list)).transpose();
    let include = list("include", &source.include)?;
    let exclude = list("exclude", &source.exclude)?;
    Cohort::new(include, exclude.unwrap_or_default()).map_err(|error| CohortError {
        problem: format!("the patterns in 'include' and 'exclude' cannot be used: {error}"),
        hint: "write fewer entries with wildcards".to_owned(),
    })
}

fn read(key: &'static str, list: &ListSource) -> Result<Vec<Entry>, CohortError> {
    match list {
        ListSource::Entries(entries) => Ok(entries.clone()),
        ListSource::File(file) => read_file(key, file),
    }
}

fn read_file(key: &'static str, file: &Path) -> Result<Vec<Entry>, CohortError> {
    let failed = |problem: String, hint: String| Err(CohortError { problem, hint });
    let name = file.display();
    let text = read_regular(file).map_err(|error| error_text(&error));
    let text =
        text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            return failed(
                format!("cannot read the list '{key}', {name}: {error}"),
                format!(
                    "create a text file with one entry per line, or correct '{key}' in the configuration (a single \
                     entry begins with 'sub-')"
                ),
            );
        }
    };
    let mut entries = Vec::new();
    // Editors on Windows write a byte order mark and end lines with `\r\n`.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (at, line) in text.lines().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let place = format!("{name}:{number}");
        match Entry::parse(key, entry, place) {
            Ok(parsed) => entries.push(parsed),
            Err(error) => {
                return failed(format!("{name}:{number}: {error}"), ENTRY_HINT.to_owned());
            }
        }
    }
    // An empty file may be incomplete; with a comment, it excludes no session on purpose.
    if entries.is_empty() && (key == "include" || text.trim().is_empty()) {
        let content = match key {
            "exclude" => "a comment line if no session is excluded",
            _ => "sessions",
        };
        return failed(
            format!("the list '{key}', {name}, is empty"),
            format!(
                "write {content} into it, or remove '{key}' from the configuration; to change a list, write a new file \
                 and move it into place"
            ),
        );
    }
    Ok(entries)
}
