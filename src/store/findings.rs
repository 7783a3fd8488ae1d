//! What is found wrong with the files of a state, and what to do about it. Pure.

pub(super) mod files;

use super::sources::{Found, Sources};
use crate::base::text::and_more;
use crate::base::words::words;
use crate::store::state_file::StateError;

/// One thing that was looked at.
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
        /// Works, and will surprise somebody.
        Warning = "warning",
        /// A job may be lost or doubled, a file cannot be used, or `run` would do nothing, or the wrong thing.
        Error = "error",
    }
}

pub(super) const REPAIR: &str = "snbb-scheduler state repair";

#[derive(Default)]
pub(super) struct Findings {
    pub list: Vec<Finding>,
}

impl Findings {
    /// Judges the files that rows are in, each by itself. `tasks`: how many all of them together know.
    pub fn of_files(sources: &Sources, tasks: usize) -> Self {
        let mut out = Self::default();
        files::state_file(sources, tasks, &mut out);
        files::attempts_file(sources, &mut out);
        files::backup(sources, &mut out);
        files::journal(sources, &mut out);
        files::audit_log(sources, tasks, &mut out);
        out
    }

    pub fn add(&mut self, level: Level, part: &'static str, text: String, todo: Option<&str>) {
        self.list.push(Finding {
            level,
            part,
            text,
            todo: todo.map(str::to_owned),
        });
    }

    pub fn ok(&mut self, part: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, part, text.into(), None);
    }

    /// Returns what a file holds, or says why nobody knows that. `missing`: what it means that there is none.
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

    /// One finding for all that breaks a rule. Returns whether there is any.
    pub fn broken(
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

    /// The same, or `fine`.
    pub fn rule(
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

/// Names line numbers: `line 3`, `lines 3 and 5`, `12 lines (the first is 3)`.
fn lines(numbers: impl Iterator<Item = usize>) -> String {
    const SHOWN: usize = 3;
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    match &numbers[..] {
        [] => "no line".to_owned(),
        [one] => format!("line {one}"),
        [before @ .., last] if numbers.len() <= SHOWN => {
            format!("lines {} and {last}", before.join(", "))
        }
        [first, ..] => format!("{} lines (the first is {first})", numbers.len()),
    }
}
