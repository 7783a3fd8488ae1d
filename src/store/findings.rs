//! Findings about the files of a state, with remedies. Pure.

pub(super) mod files;

use super::sources::{Found, Sources};
use crate::base::text::and_more;
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

    /// Like [`Self::broken`], but adds `fine` if nothing breaks the rule.
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

/// `line 3`, `lines 3 and 5` or `12 lines (the first is 3)`.
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
