//! What is wrong with the files that a state is rebuilt from, in words. Pure.

use std::path::PathBuf;

use super::{Rebuilt, lines};
use crate::store::sources::{Found, Sources};

/// Says which files are damaged or gone, one sentence each.
pub(super) fn damage(sources: &Sources, out: &Rebuilt) -> Vec<String> {
    let mut list = Vec::new();
    match &sources.state {
        Found::Damaged { error, .. } => list.push(error.to_string()),
        Found::Missing
            if !out.state.is_empty()
                || out.past > 0
                || !sources.backup.is_missing()
                || !sources.attempts.is_missing() =>
        {
            list.push(format!("{} is missing", sources.paths.state.display()));
        }
        _ => {}
    }
    if let Found::Damaged { error, .. } = &sources.attempts {
        list.push(error.to_string());
    }
    if let Some(salvaged) = sources.journal.read()
        && !salvaged.damaged.is_empty()
    {
        list.push(format!(
            "the journal {} is damaged at {}",
            sources.paths.journal.display(),
            lines(salvaged.damaged.iter().map(|(line, _)| *line)),
        ));
    }
    list
}

/// Lists the damaged files, to be kept under another name.
pub(super) fn damaged(sources: &Sources) -> Vec<PathBuf> {
    let paths = &sources.paths;
    let journal_is_damaged = sources
        .journal
        .read()
        .is_some_and(|salvaged| !salvaged.damaged.is_empty());
    [
        (sources.state.is_damaged(), &paths.state),
        (sources.backup.is_damaged(), &paths.backup),
        (sources.attempts.is_damaged(), &paths.attempts),
        (journal_is_damaged, &paths.journal),
    ]
    .into_iter()
    .filter(|(is_damaged, _)| *is_damaged)
    .map(|(_, path)| path.clone())
    .collect()
}

/// Says which sources could not be used, or not in full.
pub(super) fn notes(sources: &Sources) -> Vec<String> {
    let mut notes = Vec::new();
    match &sources.backup {
        Found::Damaged { error, .. } | Found::Unusable(error) => {
            notes.push(format!("the copy before cannot be used: {error}"));
        }
        _ => {}
    }
    for (path, error) in sources
        .audit
        .read()
        .map_or(&[][..], |read| &read.bad_archives)
    {
        notes.push(format!(
            "the archive {} of the audit log cannot be read and was left out: {error}",
            path.display()
        ));
    }
    match &sources.audit {
        Found::Missing => notes.push(format!(
            "there is no audit log {}: what only it knew is lost",
            sources.audit_path.display()
        )),
        Found::Read(contents) if !contents.bad_lines.is_empty() => notes.push(format!(
            "{} of the audit log {} cannot be read and was left out",
            lines(contents.bad_lines.iter().copied()),
            sources.audit_path.display()
        )),
        _ => {}
    }
    notes
}
