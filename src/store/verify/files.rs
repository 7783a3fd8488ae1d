//! Whether each file can be read, and fits those beside it.

use super::{Findings, Level, REPAIR, REPAIR_OR_OTHERS, Rule};
use crate::store::repair;
use crate::store::repair::{Rebuilt, lines};
use crate::store::schema::FORMAT_VERSION;
use crate::store::sources::{Found, Sources};

pub(super) fn state_file(sources: &Sources, rebuilt: &Rebuilt, out: &mut Findings) {
    let part = "state file";
    let path = sources.paths.state.display();
    match &sources.state {
        Found::Missing if rebuilt.damage.is_empty() => {
            out.ok(
                part,
                format!("{path} is not there yet; the first run makes it"),
            );
        }
        Found::Missing => out.add(
            Level::Error,
            part,
            format!(
                "{path} is missing, and its other files or the audit log know {} task(s)",
                rebuilt.state.len()
            ),
            Some(match is_only_log(sources) {
                true => REPAIR_OR_OTHERS,
                false => REPAIR,
            }),
        ),
        Found::Damaged { error, .. } => {
            out.add(Level::Error, part, error.to_string(), Some(REPAIR));
        }
        Found::Unusable(error) => out.unusable(Level::Error, part, error),
        Found::Read(contents) => {
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
                let text = "it was begun anew after its file was lost: earlier failures and attempts are missing";
                out.add(Level::Warning, part, text.to_owned(), Some(REPAIR));
            }
            for warning in &contents.warnings {
                out.add(Level::Warning, part, warning.clone(), None);
            }
        }
    }
}

/// True if nothing but the audit log is left of a study, or it is another study's.
fn is_only_log(sources: &Sources) -> bool {
    sources.backup.is_missing() && sources.attempts.is_missing() && sources.journal.is_missing()
}

pub(super) fn attempts_file(sources: &Sources, out: &mut Findings) {
    let part = "attempts file";
    match &sources.attempts {
        Found::Missing => out.ok(part, "none: no task had an earlier attempt"),
        Found::Damaged { error, .. } => {
            out.add(Level::Error, part, error.to_string(), Some(REPAIR));
        }
        Found::Unusable(error) => out.unusable(Level::Error, part, error),
        Found::Read(contents) => {
            out.ok(part, format!("earlier attempts: {}", contents.rows.len()));
        }
    }
}

pub(super) fn backup(sources: &Sources, out: &mut Findings) {
    let part = "copy before";
    match (&sources.backup, &sources.state) {
        (Found::Missing, _) => out.ok(part, "none yet"),
        (Found::Damaged { error, .. }, _) => out.add(
            Level::Warning,
            part,
            error.to_string(),
            Some("nothing as long as the state file is sound: the next save replaces it"),
        ),
        (Found::Unusable(error), _) => out.unusable(Level::Warning, part, error),
        (Found::Read(backup), Found::Read(state)) if repair::is_rolled_back(state, backup) => out
            .add(
                Level::Warning,
                part,
                format!(
                    "it was saved after the state file (save {} and save {}): an older file was put back, or the file was deleted",
                    backup.meta.generation, state.meta.generation
                ),
                Some(REPAIR),
            ),
        (Found::Read(backup), _) => out.ok(part, format!("rows: {}", backup.rows.len())),
    }
}

pub(super) fn journal(sources: &Sources, out: &mut Findings) {
    let part = "journal";
    match &sources.journal {
        Found::Missing => out.ok(part, "none: no run is at work or was broken off"),
        Found::Damaged { error, .. } | Found::Unusable(error) => {
            out.unusable(Level::Error, part, error);
        }
        Found::Read(salvaged) => match salvaged.damaged.first() {
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
        },
    }
}

pub(super) fn audit_log(sources: &Sources, out: &mut Findings) {
    let part = "audit log";
    let path = sources.audit_path.display();
    if let Some(strangers) = &sources.strangers {
        let names: Vec<&str> = strangers.projects.iter().map(String::as_str).collect();
        out.add(
            Level::Warning,
            part,
            format!(
                "{path} also holds {} event(s) of other studies (project {}), which are passed over",
                strangers.events,
                names.join(", ")
            ),
            Some("give each study a log_file of its own"),
        );
    }
    match &sources.audit {
        Found::Missing if sources.state.read().is_some_and(|c| !c.rows.is_empty()) => out.add(
            Level::Warning,
            part,
            format!("{path} is not there: without it, less can be rebuilt"),
            Some("see that log_file in the configuration is right"),
        ),
        Found::Missing => out.ok(part, "none yet"),
        Found::Damaged { error, .. } | Found::Unusable(error) => {
            out.unusable(Level::Warning, part, error);
        }
        Found::Read(contents) if !contents.bad_archives.is_empty() => {
            for (path, error) in &contents.bad_archives {
                out.add(
                    Level::Warning,
                    part,
                    format!("the archive {} cannot be read: {error}", path.display()),
                    Some("put it back from a copy of your own, or move it away: the other files know its rows"),
                );
            }
        }
        Found::Read(contents) if contents.bad_lines.is_empty() => {
            out.ok(part, format!("events of tasks: {}", contents.records.len()));
        }
        Found::Read(contents) => out.add(
            Level::Warning,
            part,
            format!(
                "{} of {path} cannot be read",
                lines(contents.bad_lines.iter().copied())
            ),
            Some("nothing: a call that died while writing leaves such a line, and readers pass over it"),
        ),
    }
}

pub(super) fn control_file(sources: &Sources, out: &mut Findings) {
    let part = "control file";
    match &sources.control {
        Found::Missing => out.ok(part, "none: nothing is paused"),
        Found::Read(control) => out.ok(part, format!("pauses: {}", control.pauses().count())),
        Found::Damaged { error, .. } | Found::Unusable(error) => {
            out.unusable(Level::Error, part, error);
        }
    }
}

pub(super) fn leftovers(sources: &Sources, out: &mut Findings) {
    let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths
            .iter()
            .map(|path| {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    };
    out.rule(
        Rule {
            level: Level::Warning,
            part: "temporary files",
            fine: "none",
            broken: "files of calls that write now or died while they did",
            todo: "nothing: a save removes them when they are a day old",
        },
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
