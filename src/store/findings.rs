//! Findings about the files of a state, with remedies. Pure.

use std::path::PathBuf;

use super::schema::FORMAT_VERSION;
use super::sources::{Found, Sources};
use crate::base::text::{and_more, few, plural, plural_of};
use crate::base::words::words;
use crate::store::state_file::StateError;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The file or rule: `state file`, `job ids`.
    pub part: &'static str,
    pub text: String,
    /// The remedy.
    pub todo: Option<String>,
}

words! {
    /// How bad a finding is.
    pub enum Level {
        Ok = "ok",
        /// Works, but may surprise.
        Warning = "warning",
        /// A job may be lost or submitted twice, a file is unusable, or `run` would do nothing or the wrong thing.
        Error = "error",
    }
}

pub(super) const REPAIR: &str = "snbb-scheduler state repair";

#[derive(Default)]
pub(super) struct Findings {
    pub list: Vec<Finding>,
}

impl Findings {
    /// Checks each file that contains rows. `tasks` is the number of tasks in all of them.
    pub(super) fn of_files(sources: &Sources, tasks: usize) -> Self {
        let mut out = Self::default();
        state_file(sources, tasks, &mut out);
        attempts_file(sources, &mut out);
        backup(sources, &mut out);
        journal(sources, &mut out);
        audit_log(sources, tasks, &mut out);
        out
    }

    pub(super) fn add(
        &mut self,
        level: Level,
        part: &'static str,
        text: String,
        todo: Option<&str>,
    ) {
        self.list.push(Finding {
            level,
            part,
            text,
            todo: todo.map(str::to_owned),
        });
    }

    pub(super) fn ok(&mut self, part: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, part, text.into(), None);
    }

    /// The contents of a file, or a finding why there are none. `missing` explains a missing file.
    fn read<'a, T>(
        &mut self,
        (level, part): (Level, &'static str),
        found: &'a Found<T>,
        missing: &str,
    ) -> Option<&'a T> {
        match found {
            Found::Read(contents) => return Some(contents),
            Found::Missing => self.ok(part, missing),
            Found::Damaged { error, .. } => self.add(level, part, error.to_string(), Some(REPAIR)),
            Found::Unusable(error) => self.unusable(level, part, error),
        }
        None
    }

    fn unusable(&mut self, level: Level, part: &'static str, error: &StateError) {
        self.add(level, part, error.to_string(), error.hint().as_deref());
    }

    /// Adds one finding for everything that breaks a rule; false if nothing does.
    pub(super) fn broken(
        &mut self,
        level: Level,
        part: &'static str,
        what: &str,
        todo: &str,
        broken: &[String],
    ) -> bool {
        let shown = broken.get(..3).unwrap_or(broken);
        let more = and_more(broken.len(), 3);
        let text = format!("{what}: {}{more}", shown.join("; "));
        if !broken.is_empty() {
            self.add(level, part, text, Some(todo));
        }
        !broken.is_empty()
    }

    /// Like [`Self::broken`], but adds `fine` if nothing breaks the rule.
    pub(super) fn rule(
        &mut self,
        (level, part): (Level, &'static str),
        fine: &str,
        what: &str,
        todo: &str,
        broken: &[String],
    ) {
        if !self.broken(level, part, what, todo, broken) {
            self.ok(part, fine);
        }
    }
}

/// `line 3`, `lines 3, 5, 7 and 2 more`.
fn lines(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", few(&numbers, 3))
}

const REPAIR_OR_OWN_LOG: &str = "snbb-scheduler state repair; if this study is new and the log belongs to another one: \
                                 set another log_file";

fn state_file(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "state file";
    let path = sources.paths.state.display();
    let is_only_log = sources.backup.is_missing() && sources.attempts.is_missing();
    if sources.state.is_missing() && (tasks > 0 || !is_only_log) {
        let todo = match is_only_log && sources.journal.is_missing() {
            true => REPAIR_OR_OWN_LOG,
            false => REPAIR,
        };
        let tasks = plural(tasks, "task");
        let text = format!("{path} is missing, but the other files or the audit log have {tasks}");
        out.add(Level::Error, part, text, Some(todo));
        return;
    }
    let missing = format!("{path} does not exist yet; the first run creates it");
    let Some(contents) = out.read((Level::Error, part), &sources.state, &missing) else {
        return;
    };
    let rows = plural(contents.rows.len(), "row");
    match contents.meta.format_version {
        0 => out.ok(
            part,
            format!("{rows}; written by another program; the next save converts it"),
        ),
        version if version > FORMAT_VERSION => out.add(
            Level::Warning,
            part,
            format!("{rows}; in format version {version}, but this program writes version {FORMAT_VERSION}"),
            Some("use the newer snbb-scheduler that wrote the file"),
        ),
        _ => out.ok(
            part,
            format!(
                "{rows}, saved {}, with a correct hash",
                plural(usize::try_from(contents.meta.generation).unwrap_or(usize::MAX), "time")
            ),
        ),
    }
    if contents.meta.begun_anew.is_some() {
        let text = "it was started anew after the file was lost: earlier failures and attempts are missing";
        out.add(Level::Warning, part, text.to_owned(), Some(REPAIR));
    }
    for warning in &contents.warnings {
        out.add(Level::Warning, part, warning.clone(), None);
    }
}

fn attempts_file(sources: &Sources, out: &mut Findings) {
    let part = "attempts file";
    let missing = "none: no task has an earlier attempt";
    if let Some(contents) = out.read((Level::Error, part), &sources.attempts, missing) {
        out.ok(part, plural(contents.rows.len(), "earlier attempt"));
    }
}

fn backup(sources: &Sources, out: &mut Findings) {
    let part = "backup";
    if let Found::Damaged { error, .. } = &sources.backup {
        let todo = "nothing if the state file is intact: the next save replaces the backup";
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
                "it is newer than the state file (save {} and save {}): the state file was deleted or replaced by an older one",
                backup.meta.generation, state.meta.generation
            ),
            Some(REPAIR),
        ),
        None => out.ok(part, plural(backup.rows.len(), "row")),
    }
}

fn journal(sources: &Sources, out: &mut Findings) {
    let part = "journal";
    let missing = "none: no run is active or was interrupted";
    let Some(salvaged) = out.read((Level::Error, part), &sources.journal, missing) else {
        return;
    };
    match salvaged.damaged.first() {
        None => out.ok(
            part,
            format!(
                "{}; a run is active, or the next command that writes moves them to the state file",
                plural_of(salvaged.entries.len(), "entry", "entries")
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

fn audit_log(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "audit log";
    let path = sources.audit_path.display();
    if let Some(other_studies) = &sources.other_studies {
        let names: Vec<&str> = other_studies.projects.iter().map(String::as_str).collect();
        out.add(
            Level::Warning,
            part,
            format!(
                "{path} also has {} of other studies (project {}), which are ignored",
                plural(other_studies.events, "event"),
                names.join(", ")
            ),
            Some("set a different log_file for each study"),
        );
    }
    if sources.audit.is_missing() && tasks > 0 {
        let text = format!("{path} does not exist: without it, less can be rebuilt");
        let todo = "check log_file in the configuration";
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
            Some("restore it from your own backup, or move it away: the other files have its rows"),
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
            Some("nothing: a command that was killed while writing leaves such a line, and readers skip it"),
        );
    } else if contents.bad_archives.is_empty() {
        out.ok(part, plural(contents.records.len(), "task event"));
    }
}

pub(super) fn control_file(sources: &Sources, out: &mut Findings) {
    let part = "control file";
    let missing = "none: nothing is paused";
    if let Some(control) = out.read((Level::Error, part), &sources.control, missing) {
        out.ok(part, plural(control.pauses().count(), "pause"));
    }
}

pub(super) fn leftovers(sources: &Sources, out: &mut Findings) {
    let names = |paths: &[PathBuf]| -> Vec<String> {
        let names = paths.iter().filter_map(|path| path.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    out.rule(
        (Level::Warning, "temporary files"),
        "none",
        "files of commands that are writing now or were killed",
        "nothing: a save removes them after a day",
        &names(&sources.temporary),
    );
    if !sources.kept.is_empty() {
        out.ok(
            "kept files",
            format!(
                "{} that a repair set aside: {}",
                plural(sources.kept.len(), "damaged file"),
                names(&sources.kept).join(", ")
            ),
        );
    }
}
