//! Is the state sound: every file readable, every row by the rules, nothing missing. Pure.
//!
//! Says what it finds and what to do about it; changes nothing.

mod files;
mod rows;

use super::repair;
use super::sources::Sources;
use crate::base::words::words;
use crate::store::state_file::StateError;

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

words! {
    /// How bad a finding is.
    pub enum Level {
        Ok = "ok",
        Warning = "warning",
        /// A job may be lost or doubled, or a file cannot be used.
        Error = "error",
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
    files::state_file(sources, &rebuilt, &mut out);
    files::attempts_file(sources, &mut out);
    files::backup(sources, &mut out);
    files::journal(sources, &mut out);
    files::audit_log(sources, &mut out);
    files::control_file(sources, &mut out);
    if let Some(contents) = sources.state.read() {
        let attempts = sources
            .attempts
            .read()
            .map_or(&[][..], |contents| &contents.rows);
        rows::rows(contents, attempts, &mut out);
        rows::attempts_of_tasks(&contents.rows, attempts, &mut out);
        rows::missing_rows(&rebuilt, &mut out);
    }
    files::leftovers(sources, &mut out);
    out.list
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
