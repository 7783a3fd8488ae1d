//! Whether each file can be read, and fits those beside it.

use std::path::PathBuf;

use super::{Findings, Level, REPAIR, lines};
use crate::store::schema::FORMAT_VERSION;
use crate::store::sources::{Found, Sources};

const REPAIR_OR_OTHERS: &str = "snbb-scheduler state repair; if the log is another study's, and this one is new: \
                                give it a log_file of its own";

pub(super) fn state_file(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "state file";
    let path = sources.paths.state.display();
    let is_only_log = sources.backup.is_missing() && sources.attempts.is_missing();
    if sources.state.is_missing() && (tasks > 0 || !is_only_log) {
        let todo = match is_only_log && sources.journal.is_missing() {
            true => REPAIR_OR_OTHERS,
            false => REPAIR,
        };
        let text =
            format!("{path} is missing, and its other files or the audit log know {tasks} task(s)");
        out.add(Level::Error, part, text, Some(todo));
        return;
    }
    let missing = format!("{path} is not there yet; the first run makes it");
    let Some(contents) = out.read((Level::Error, part), &sources.state, &missing) else {
        return;
    };
    let rows = contents.rows.len();
    match contents.meta.format_version {
        0 => out.ok(
            part,
            format!("rows: {rows}; written by another program, the next save makes it ours"),
        ),
        version if version > FORMAT_VERSION => out.add(
            Level::Warning,
            part,
            format!("rows: {rows}; format version {version}: this program reads it, and writes {FORMAT_VERSION}"),
            Some("use the newer snbb-scheduler that wrote it"),
        ),
        _ => out.ok(
            part,
            format!(
                "rows: {rows}; saves: {}; the hash of the rows is right",
                contents.meta.generation
            ),
        ),
    }
    if contents.meta.begun_anew.is_some() {
        let text =
            "it was begun anew after its file was lost: earlier failures and attempts are missing";
        out.add(Level::Warning, part, text.to_owned(), Some(REPAIR));
    }
    for warning in &contents.warnings {
        out.add(Level::Warning, part, warning.clone(), None);
    }
}

pub(super) fn attempts_file(sources: &Sources, out: &mut Findings) {
    let part = "attempts file";
    let missing = "none: no task had an earlier attempt";
    if let Some(contents) = out.read((Level::Error, part), &sources.attempts, missing) {
        out.ok(part, format!("earlier attempts: {}", contents.rows.len()));
    }
}

pub(super) fn backup(sources: &Sources, out: &mut Findings) {
    let part = "copy before";
    if let Found::Damaged { error, .. } = &sources.backup {
        let todo = "nothing as long as the state file is sound: the next save replaces it";
        out.add(Level::Warning, part, error.to_string(), Some(todo));
        return;
    }
    let Some(backup) = out.read((Level::Warning, part), &sources.backup, "none yet") else {
        return;
    };
    match sources.rolled_back() {
        Some((state, backup)) => out.add(
            Level::Warning,
            part,
            format!(
                "it was saved after the state file (save {} and save {}): an older file was put back, or the file was deleted",
                backup.meta.generation, state.meta.generation
            ),
            Some(REPAIR),
        ),
        None => out.ok(part, format!("rows: {}", backup.rows.len())),
    }
}

pub(super) fn journal(sources: &Sources, out: &mut Findings) {
    let part = "journal";
    let missing = "none: no run is at work or was broken off";
    let Some(salvaged) = out.read((Level::Error, part), &sources.journal, missing) else {
        return;
    };
    match salvaged.damaged.first() {
        None => out.ok(
            part,
            format!(
                "entries: {}; a run is at work, or the next call folds them into the state",
                salvaged.entries.len()
            ),
        ),
        Some((_, problem)) => out.add(
            Level::Error,
            part,
            format!(
                "{} is damaged at {}: {problem}",
                sources.paths.journal.display(),
                lines(salvaged.damaged.iter().map(|(line, _)| *line)),
            ),
            Some(REPAIR),
        ),
    }
}

pub(super) fn audit_log(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "audit log";
    let path = sources.audit_path.display();
    if let Some(other_studies) = &sources.other_studies {
        let names: Vec<&str> = other_studies.projects.iter().map(String::as_str).collect();
        out.add(
            Level::Warning,
            part,
            format!(
                "{path} also holds {} event(s) of other studies (project {}), which are passed over",
                other_studies.events,
                names.join(", ")
            ),
            Some("give each study a log_file of its own"),
        );
    }
    if sources.audit.is_missing() && tasks > 0 {
        let text = format!("{path} is not there: without it, less can be rebuilt");
        let todo = "see that log_file in the configuration is right";
        out.add(Level::Warning, part, text, Some(todo));
        return;
    }
    let Some(contents) = out.read((Level::Warning, part), &sources.audit, "none yet") else {
        return;
    };
    for (path, error) in &contents.bad_archives {
        out.add(
            Level::Warning,
            part,
            format!("the archive {} cannot be read: {error}", path.display()),
            Some("put it back from a copy of your own, or move it away: the other files know its rows"),
        );
    }
    if !contents.bad_lines.is_empty() {
        out.add(
            Level::Warning,
            part,
            format!(
                "{} of the audit log {path} cannot be read",
                lines(contents.bad_lines.iter().copied())
            ),
            Some("nothing: a call that died while writing leaves such a line, and readers pass over it"),
        );
    } else if contents.bad_archives.is_empty() {
        out.ok(part, format!("events of tasks: {}", contents.records.len()));
    }
}

pub fn control_file(sources: &Sources, out: &mut Findings) {
    let part = "control file";
    let missing = "none: nothing is paused";
    if let Some(control) = out.read((Level::Error, part), &sources.control, missing) {
        out.ok(part, format!("pauses: {}", control.pauses().count()));
    }
}

pub fn leftovers(sources: &Sources, out: &mut Findings) {
    let names = |paths: &[PathBuf]| -> Vec<String> {
        let names = paths.iter().filter_map(|path| path.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    out.rule(
        (Level::Warning, "temporary files"),
        "none",
        "files of calls that write now or died while they did",
        "nothing: a save removes them when they are a day old",
        &names(&sources.temporary),
    );
    if !sources.kept.is_empty() {
        out.ok(
            "kept files",
            format!(
                "{} damaged file(s) that a repair has kept: {}",
                sources.kept.len(),
                names(&sources.kept).join(", ")
            ),
        );
    }
}
