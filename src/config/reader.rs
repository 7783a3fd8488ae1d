//! Typed access to the tree: single values, mappings with known keys, and their defaults. Every function reports problems
//! and continues, so that one pass over the file finds them all. Does not know the meaning of keys.

mod values;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Overrides;
use super::keys::{Fallback, KEYS, Key, Kind, Section};
use super::problem::{Position, Problem};
use super::tree::{Entry, Node, NodeValue, Tree};

/// The pipeline of a configuration without `procedures`.
const BUILTIN: &[u8] = include_bytes!("builtin.yaml");

/// The input shared by all parts of the file, and the problems so far.
pub(super) struct Context<'a> {
    pub(super) file: Option<Arc<Path>>,
    /// Relative paths are relative to this directory.
    pub(super) base: PathBuf,
    pub(super) env: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) overrides: &'a Overrides,
    /// `None` if the file has no content.
    root: Option<&'a Node>,
    /// The defaults of keys, in the form of values from the file.
    defaults: HashMap<(Section, &'static str), Node>,
    is_lenient: Cell<bool>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

/// A value with its position and key.
#[derive(Clone)]
pub(super) struct Value<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) node: &'a Node,
    pub(super) at: Position,
    pub(super) key: String,
    kind: Kind,
}

/// A mapping whose keys are all known ones.
pub(super) struct Fields<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) section: Section,
    at: Position,
    /// Empty at the top level.
    key: String,
    entries: &'a [Entry],
}

/// The value of a key that counts, and its origin.
#[derive(Default)]
pub(super) struct Effective<'a> {
    /// `None` without a value and a default.
    pub(super) value: Option<Value<'a>>,
    /// Line of the key; `None` if the file does not set it.
    pub(super) line: Option<u32>,
    /// The top-level key that the value is inherited from.
    pub(super) from: Option<&'static str>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        file: Option<Arc<Path>>,
        base: PathBuf,
        env: &'a dyn Fn(&str) -> Option<OsString>,
        overrides: &'a Overrides,
        root: Option<&'a Node>,
    ) -> Self {
        let default = |key: &Key| {
            let node = match (key.kind, key.default) {
                (Kind::Procedures, _) => Node::clone(Tree::parse(BUILTIN).ok()?.root.as_deref()?),
                (_, Fallback::Is(text)) => Node::plain(text),
                _ => return None,
            };
            Some(((key.section, key.name), node))
        };
        Self {
            file,
            base,
            env,
            overrides,
            root: root.filter(|node| !node.is_null()),
            defaults: KEYS.iter().filter_map(default).collect(),
            is_lenient: Cell::new(false),
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Reads something whose errors must not stop everything else: problems become warnings.
    pub(super) fn leniently<T>(&self, read: impl FnOnce() -> T) -> T {
        self.is_lenient.set(true);
        let result = read();
        self.is_lenient.set(false);
        result
    }

    pub(super) fn problem(&self, problem: Problem) {
        match self.is_lenient.get() {
            true => self.warning(problem),
            false => self.problems.borrow_mut().push(problem),
        }
    }

    pub(super) fn warning(&self, warning: Problem) {
        self.warnings.borrow_mut().push(warning);
    }

    /// Problems and warnings in the order of the file.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<String>) {
        let sorted = |list: RefCell<Vec<Problem>>| {
            let mut list = list.into_inner();
            for problem in &mut list {
                problem.file.clone_from(&self.file);
            }
            list.sort_by_key(|problem| (problem.line, problem.column));
            list.dedup();
            list
        };
        let warnings = sorted(self.warnings);
        let warnings = warnings.iter().map(Problem::to_string).collect();
        (sorted(self.problems), warnings)
    }
}

/// The path of a key below another one.
pub(super) fn below(key: &str, name: &str) -> String {
    match key {
        "" => name.to_owned(),
        _ => format!("{key}.{name}"),
    }
}

impl<'a> Fields<'a> {
    /// The top level of the file. Reports unknown keys.
    pub(super) fn top(context: &'a Context<'a>) -> Self {
        if let Some(node) = context.root {
            let kind = Kind::Mapping(Section::Site);
            Value::new(context, node, node.at, String::new(), kind).fields(Section::Site);
        }
        Self::site(context)
    }

    fn empty(context: &'a Context<'a>, section: Section) -> Self {
        Self {
            context,
            section,
            at: Position { line: 1, column: 1 },
            key: String::new(),
            entries: &[],
        }
    }

    /// The mapping that is the value of a key; empty if the key has no value.
    pub(super) fn below(&self, name: &str) -> Self {
        let section = match self.section.key(name).map(|key| key.kind) {
            Some(Kind::Mapping(section)) => section,
            _ => self.section,
        };
        let written = self.get(name).filter(|value| !value.is_null());
        written
            .and_then(|value| value.fields(section))
            .unwrap_or_else(|| Self::empty(self.context, section))
    }

    /// The value of a key in the file, which may be null.
    pub(super) fn get(&self, name: &str) -> Option<Value<'a>> {
        let entry = self.entry(name)?;
        let key = below(&self.key, name);
        let kind = self.section.key(name).map_or(Kind::Scalar, |key| key.kind);
        Some(Value::new(self.context, &entry.node, entry.at, key, kind))
    }

    fn entry(&self, name: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// The value of a key in the file, otherwise its default. An empty value means the default, unless the key accepts
    /// "none". In a procedure, null means the site's value, and an empty text means none.
    pub(super) fn effective(&self, name: &str) -> Effective<'a> {
        let Some(key) = self.section.key(name) else {
            return Effective::default();
        };
        let written = self.get(name).filter(|value| match key.default {
            Fallback::Of(_) if value.is_null() => false,
            _ => may_be_none(key) || !value.is_null() && !value.is_empty_text(),
        });
        match (written, key.default) {
            (Some(value), _) => Effective {
                value: Some(value),
                line: self.entry(name).map(|entry| entry.at.line),
                from: None,
            },
            (None, Fallback::Of(site)) => Effective {
                from: Some(site),
                ..Self::site(self.context).effective(site)
            },
            (None, _) => Effective {
                value: self.default(key),
                ..Effective::default()
            },
        }
    }

    /// Reads a key that has a default.
    pub(super) fn or<T: Default>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> T {
        let written = self.maybe(name, &read);
        written
            .or_else(|| read(&self.default(self.section.key(name)?)?))
            .unwrap_or_default()
    }

    /// Reads an optional key. An empty value means none.
    pub(super) fn maybe<T>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> Option<T> {
        let value = self.effective(name).value?;
        match value.is_null() || value.is_empty_text() {
            true => None,
            false => read(&value),
        }
    }

    /// Reads the entries of a list, or a single value as a list of one.
    pub(super) fn list<T>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> Vec<T> {
        let entries = self.get(name).map(|value| value.one_or_more());
        let entries = entries.unwrap_or_default();
        entries.iter().filter_map(read).collect()
    }

    /// Reads a required key.
    pub(super) fn required<T>(
        &self,
        name: &str,
        hint: &str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(value) if !value.is_null() => return read(&value),
            Some(value) => value.problem(format!("has no value ({hint})")),
            None => {
                let message = format!("the key '{name}' is missing ({hint})");
                self.context.problem(Problem {
                    key: self.key.clone(),
                    ..Problem::at(self.at, message)
                });
            }
        }
        None
    }

    fn default(&self, key: &Key) -> Option<Value<'a>> {
        let node = self.context.defaults.get(&(key.section, key.name))?;
        let name = key.name.to_owned();
        Some(Value::new(self.context, node, node.at, name, key.kind))
    }

    /// The top level of the file, without reporting unknown keys again.
    fn site(context: &'a Context<'a>) -> Self {
        Self {
            entries: match context.root.map(|node| &node.value) {
                Some(NodeValue::Mapping(entries)) => entries,
                _ => &[],
            },
            ..Self::empty(context, Section::Site)
        }
    }

    /// Reports a problem with a key of the top level that may have its default value.
    pub(super) fn problem(&self, name: &str, message: impl Into<String>) {
        self.context.problem(self.remark(name, message));
    }

    /// Likewise, for a warning.
    pub(super) fn warn(&self, name: &str, message: impl Into<String>) {
        self.context.warning(self.remark(name, message));
    }

    fn remark(&self, name: &str, message: impl Into<String>) -> Problem {
        let at = self.get(name).map(|value| value.at).unwrap_or_default();
        Problem {
            key: name.to_owned(),
            ..Problem::at(at, message)
        }
    }
}

/// True if an empty value means "none" instead of the default.
fn may_be_none(key: &Key) -> bool {
    match key.default {
        Fallback::Is(_) => matches!((key.section, key.kind), (Section::Site, Kind::Word)),
        Fallback::Of(site) => Section::Site.key(site).is_some_and(may_be_none),
        Fallback::Nothing | Fallback::Required | Fallback::Words(_) => true,
    }
}
