//! Is the state sound: every file readable, every row by the rules, nothing missing. Pure.
//!
//! Says what it finds and what to do about it; changes nothing.

mod rows;

use super::repair::{self, Origin, Rebuilt};
use super::schema::FORMAT_VERSION;
use super::sources::{Found, Sources};
use super::store::StateError;

/// Is one thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// Which file or rule: `state file`, `job ids`.
    pub part: &'static str,
    pub text: String,
    /// What a person can do.
    pub todo: Option<String>,
}

/// Says how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    Warning,
    /// A job may be lost or doubled, or a file cannot be used.
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How many examples a finding names.
const EXAMPLES: usize = 3;
const REPAIR: &str = "snbb-scheduler state repair";
const REPAIR_OR_OTHERS: &str = "snbb-scheduler state repair; if the log is another study's, and this one is new: \
                                give it a log_file of its own";

/// Judges everything. The files come first, then the rows.
pub fn verify(sources: &Sources) -> Vec<Finding> {
    let rebuilt = repair::rebuild(sources);
    let mut out = Findings::default();
    state_file(sources, &rebuilt, &mut out);
    attempts_file(sources, &mut out);
    backup(sources, &mut out);
    journal(sources, &mut out);
    audit_log(sources, &mut out);
    control_file(sources, &mut out);
    if let Some(contents) = sources.state.read() {
        let attempts = sources
            .attempts
            .read()
            .map_or(&[][..], |contents| &contents.rows);
        rows::rows(contents, attempts, &mut out);
        rows::attempts_of_tasks(&contents.rows, attempts, &mut out);
        missing_rows(&rebuilt, &mut out);
    }
    leftovers(sources, &mut out);
    out.list
}

/// Names line numbers: `line 3`, `lines 3 and 5`, `12 lines (the first is 3)`.
pub fn lines(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    match &numbers[..] {
        [] => "no line".to_owned(),
        [one] => format!("line {one}"),
        [before @ .., last] if numbers.len() <= EXAMPLES => {
            format!("lines {} and {last}", before.join(", "))
        }
        [first, ..] => format!("{} lines (the first is {first})", numbers.len()),
    }
}

#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, level: Level, part: &'static str, text: String, todo: Option<&str>) {
        self.list.push(Finding {
            level,
            part,
            text,
            todo: todo.map(str::to_owned),
        });
    }

    fn ok(&mut self, part: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, part, text.into(), None);
    }

    fn unusable(&mut self, level: Level, part: &'static str, error: &StateError) {
        self.add(level, part, error.to_string(), error.hint().as_deref());
    }

    /// One finding for all rows that break a rule, or `fine`.
    fn rule(&mut self, rule: Rule, broken: &[String]) {
        let Some(first) = broken.get(..broken.len().min(EXAMPLES)) else {
            return;
        };
        if broken.is_empty() {
            self.ok(rule.part, rule.fine);
            return;
        }
        let more = broken.len() - first.len();
        let mut text = format!("{}: {}", rule.broken, first.join("; "));
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        self.add(rule.level, rule.part, text, Some(rule.todo));
    }
}

struct Rule {
    level: Level,
    part: &'static str,
    fine: &'static str,
    broken: &'static str,
    todo: &'static str,
}

fn state_file(sources: &Sources, rebuilt: &Rebuilt, out: &mut Findings) {
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

fn attempts_file(sources: &Sources, out: &mut Findings) {
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

fn backup(sources: &Sources, out: &mut Findings) {
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

fn journal(sources: &Sources, out: &mut Findings) {
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

fn audit_log(sources: &Sources, out: &mut Findings) {
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

fn control_file(sources: &Sources, out: &mut Findings) {
    let part = "control file";
    match &sources.control {
        Found::Missing => out.ok(part, "none: nothing is paused"),
        Found::Read(control) => out.ok(part, format!("pauses: {}", control.pauses().count())),
        Found::Damaged { error, .. } | Found::Unusable(error) => {
            out.unusable(Level::Error, part, error);
        }
    }
}

/// What the other files know and the state file does not.
fn missing_rows(rebuilt: &Rebuilt, out: &mut Findings) {
    let (mut live, mut ended) = (Vec::new(), Vec::new());
    for (key, origin) in &rebuilt.origins {
        if !matches!(origin, Origin::AuditLog | Origin::Backup) {
            continue;
        }
        let Some(row) = rebuilt.state.get(key) else {
            continue;
        };
        let job = row
            .job_id
            .as_ref()
            .map_or_else(String::new, |id| format!(", job {id}"));
        let text = format!("{key} ({origin}{job})");
        if row.is_in_flight() {
            live.push(text);
        } else {
            ended.push(text);
        }
    }
    out.rule(
        Rule {
            level: Level::Error,
            part: "submissions",
            fine: "each one of the audit log that may live stands in a row",
            broken: "submissions that may live and stand in no row",
            todo: REPAIR,
        },
        &live,
    );
    if !ended.is_empty() {
        out.rule(
            Rule {
                level: Level::Warning,
                part: "submissions",
                fine: "",
                broken: "ended attempts that stand in no row",
                todo: "snbb-scheduler state repair, unless the rows were removed on purpose",
            },
            &ended,
        );
    }
    if rebuilt.past > 0 {
        out.add(
            Level::Warning,
            "submissions",
            format!(
                "{} earlier attempt(s) of the audit log stand in no file",
                rebuilt.past
            ),
            Some("snbb-scheduler state repair, unless the attempts file was removed on purpose"),
        );
    }
}

fn leftovers(sources: &Sources, out: &mut Findings) {
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
