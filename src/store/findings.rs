//! Findings about the files of a state, with remedies. Pure.

use super::schema::FORMAT_VERSION;
use super::sources::{Found, Sources};
use crate::base::text::{few, plural, plural_of};
use crate::base::words::words;

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
const REPAIR_OR_OWN_LOG: &str = "snbb-scheduler state repair; if this study is new and the log belongs to another one: \
                                 set another log_file";

#[derive(Default)]
pub(super) struct Findings {
    pub list: Vec<Finding>,
}

impl Findings {
    /// Checks each file that contains rows. `tasks` is the number of tasks in all of them.
    pub(super) fn of_files(sources: &Sources, tasks: usize) -> Self {
        let mut out = Self::default();
        state_file(sources, tasks, &mut out);
        let missing = "none: no task has an earlier attempt";
        let attempts = out.read((Level::Error, "attempts file"), &sources.attempts, missing);
        if let Some(contents) = attempts {
            let earlier = plural(contents.rows.len(), "earlier attempt");
            out.ok("attempts file", earlier);
        }
        backup(sources, &mut out);
        journal(sources, &mut out);
        audit_log(sources, tasks, &mut out);
        out
    }

    /// Without a remedy, `todo` is empty.
    pub(super) fn add(
        &mut self,
        level: Level,
        part: &'static str,
        text: impl Into<String>,
        todo: &str,
    ) {
        self.list.push(Finding {
            level,
            part,
            text: text.into(),
            todo: Some(todo.to_owned()).filter(|todo| !todo.is_empty()),
        });
    }

    pub(super) fn ok(&mut self, part: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, part, text, "");
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
            Found::Damaged { error, .. } => self.add(level, part, error.to_string(), REPAIR),
            Found::Unusable(error) => {
                let hint = error.hint().unwrap_or_default();
                self.add(level, part, error.to_string(), &hint);
            }
        }
        None
    }

    /// Adds one finding for everything that breaks a rule, or `fine` if nothing does.
    pub(super) fn rule(
        &mut self,
        (level, part): (Level, &'static str),
        fine: &str,
        what: &str,
        todo: &str,
        broken: &[String],
    ) {
        if broken.is_empty() {
            return self.ok(part, fine);
        }
        self.add(level, part, format!("{what}: {}", few(broken, 3)), todo);
    }
}

/// `line 3`, `lines 3, 5, 7 and 2 more`.
fn lines(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", few(&numbers, 3))
}

fn state_file(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "state file";
    let path = sources.paths.state.display();
    let has_copies = !sources.backup.is_missing() || !sources.attempts.is_missing();
    if sources.state.is_missing() && (tasks > 0 || has_copies) {
        let tasks = plural(tasks, "task");
        let text = format!("{path} is missing, but the other files or the audit log have {tasks}");
        return out.add(Level::Error, part, text, REPAIR_OR_OWN_LOG);
    }
    let missing = format!("{path} does not exist yet; the first run creates it");
    let Some(contents) = out.read((Level::Error, part), &sources.state, &missing) else {
        return;
    };
    let rows = plural(contents.rows.len(), "row");
    let meta = &contents.meta;
    match meta.format_version {
        0 => out.ok(
            part,
            format!("{rows}; written by another program; the next save converts it"),
        ),
        version if version > FORMAT_VERSION => out.add(
            Level::Warning,
            part,
            format!("{rows}; in format version {version}, but this program writes version {FORMAT_VERSION}"),
            "use the newer snbb-scheduler that wrote the file",
        ),
        _ => out.ok(
            part,
            format!("{rows}, save {}, with a correct hash", meta.generation),
        ),
    }
    if meta.begun_anew.is_some() {
        let text = "it was started anew after the file was lost: earlier failures and attempts are missing";
        out.add(Level::Warning, part, text, REPAIR);
    }
    for warning in &contents.warnings {
        out.add(Level::Warning, part, warning, "");
    }
}

fn backup(sources: &Sources, out: &mut Findings) {
    let part = "backup";
    if let Found::Damaged { error, .. } = &sources.backup {
        let todo = "nothing if the state file is intact: the next save replaces the backup";
        return out.add(Level::Warning, part, error.to_string(), todo);
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
            REPAIR,
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
            REPAIR,
        ),
    }
}

fn audit_log(sources: &Sources, tasks: usize, out: &mut Findings) {
    let part = "audit log";
    let path = sources.audit_path.display();
    if let Some(other_studies) = &sources.other_studies {
        let names: Vec<&str> = other_studies.projects.iter().map(String::as_str).collect();
        let (events, names) = (plural(other_studies.events, "event"), names.join(", "));
        let text = format!(
            "{path} also has {events} of other studies (project {names}), which are ignored"
        );
        let todo = "set a different log_file for each study";
        out.add(Level::Warning, part, text, todo);
    }
    if sources.audit.is_missing() && tasks > 0 {
        let text = format!("{path} does not exist: without it, less can be rebuilt");
        let todo = "check log_file in the configuration";
        return out.add(Level::Warning, part, text, todo);
    }
    let Some(contents) = out.read((Level::Warning, part), &sources.audit, "none yet") else {
        return;
    };
    for (path, error) in &contents.bad_archives {
        let text = format!("the archive {} cannot be read: {error}", path.display());
        let todo =
            "restore it from your own backup, or move it away: the other files have its rows";
        out.add(Level::Warning, part, text, todo);
    }
    if !contents.bad_lines.is_empty() {
        let lines = lines(contents.bad_lines.iter().copied());
        let todo = "nothing: a command that was killed while writing leaves such a line, and readers skip it";
        let text = format!("{lines} of the audit log {path} cannot be read");
        out.add(Level::Warning, part, text, todo);
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

pub(super) fn temporary_files(sources: &Sources, out: &mut Findings) {
    let names = sources.temporary.iter().filter_map(|path| path.file_name());
    let names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    out.rule(
        (Level::Warning, "temporary files"),
        "none",
        "files of commands that are writing now or were killed",
        "nothing: a save removes them after a day",
        &names,
    );
}
