//! Typed access to the tree: every helper reports what is wrong and goes on, so that one look at
//! a file finds all its problems. Must not know what a key means. Single values: [`values`].

mod values;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keys::Section;
use super::problem::{Position, Problem};
use super::tree::{Entry, Node, NodeValue, Remark};

/// Holds what the whole file is read with, and what was found to be wrong.
pub(super) struct Context<'a> {
    pub(super) file: Option<Arc<Path>>,
    /// What relative paths are relative to.
    pub(super) base: PathBuf,
    pub(super) env: &'a dyn Fn(&str) -> Option<OsString>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

/// Is a value with its place and its name.
#[derive(Clone)]
pub(super) struct Value<'a> {
    context: &'a Context<'a>,
    node: &'a Node,
    pub(super) at: Position,
    pub(super) key: String,
    is_lenient: bool,
}

/// Is a mapping whose keys are all known ones.
pub(super) struct Fields<'a> {
    context: &'a Context<'a>,
    /// Where it begins.
    pub(super) at: Position,
    /// Empty: the top of the file.
    pub(super) key: String,
    entries: &'a [Entry],
    /// What is wrong with its values is only warned about.
    is_lenient: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        file: Option<Arc<Path>>,
        base: PathBuf,
        env: &'a dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        Self {
            file,
            base,
            env,
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn problem(&self, remark: Remark) {
        let problem = self.located(remark);
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn warning(&self, remark: Remark) {
        let warning = self.located(remark);
        self.warnings.borrow_mut().push(warning);
    }

    /// Returns problems and warnings in the order of the file.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<String>) {
        let sorted = |list: RefCell<Vec<Problem>>| {
            let mut list = list.into_inner();
            list.sort_by_key(|problem| (problem.line, problem.column));
            list.dedup();
            list
        };
        let warnings = sorted(self.warnings)
            .iter()
            .map(Problem::to_string)
            .collect();
        (sorted(self.problems), warnings)
    }

    fn located(&self, remark: Remark) -> Problem {
        Problem {
            file: self.file.clone(),
            line: remark.at.line,
            column: remark.at.column,
            key: remark.key,
            message: remark.message,
            hint: remark.hint,
        }
    }
}

impl<'a> Fields<'a> {
    /// Opens the top of the file; reports unknown keys.
    pub(super) fn top(context: &'a Context<'a>, root: Option<&'a Node>) -> Self {
        let at = Position { line: 1, column: 1 };
        let empty = Self {
            context,
            at,
            key: String::new(),
            entries: &[],
            is_lenient: false,
        };
        match root.filter(|node| !node.is_null()) {
            None => empty,
            Some(node) => {
                let value = Value {
                    context,
                    node,
                    at: node.at,
                    key: String::new(),
                    is_lenient: false,
                };
                value.fields(Section::Site).unwrap_or(empty)
            }
        }
    }

    /// Returns the value of a key that is written, be it null.
    pub(super) fn get(&self, name: &str) -> Option<Value<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let key = if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        };
        let value = Value::new(self.context, &entry.node, entry.at, key);
        Some(Value {
            is_lenient: self.is_lenient,
            ..value
        })
    }

    /// The same fields, for settings that must not stop anything else.
    pub(super) fn leniently(&self) -> Self {
        Self {
            is_lenient: true,
            key: self.key.clone(),
            ..*self
        }
    }

    /// Reads a key that has a default, which an empty value means too.
    pub(super) fn or<T>(
        &self,
        name: &str,
        default: T,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> T {
        match self.get(name) {
            Some(value) if !value.is_null() && !value.is_empty_text() => {
                read(&value).unwrap_or(default)
            }
            _ => default,
        }
    }

    /// Reads a key whose value may be none. The outer none: not written (or wrong).
    pub(super) fn setting<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        let value = self.get(name)?;
        if value.is_null() || value.is_empty_text() {
            return Some(None);
        }
        read(&value).map(Some)
    }

    /// Reads a key without default, for which null and empty are the same as not written.
    pub(super) fn maybe<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        self.setting(name, read).flatten()
    }

    /// Reads a key that must be there.
    pub(super) fn required<T>(
        &self,
        name: &str,
        hint: &str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(value) if !value.is_null() => read(&value),
            Some(value) => {
                value.problem_with("has no value", hint);
                None
            }
            None => {
                self.context.problem(Remark {
                    at: self.at,
                    key: self.key.clone(),
                    message: format!("the key '{name}' is missing"),
                    hint: Some(hint.to_owned()),
                });
                None
            }
        }
    }
}

impl<'a> Value<'a> {
    fn new(context: &'a Context<'a>, node: &'a Node, key_at: Position, key: String) -> Self {
        // The parser places "nothing" at what follows it, which may be another line.
        let at = if node.is_null() { key_at } else { node.at };
        Self {
            context,
            node,
            at,
            key,
            is_lenient: false,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.node.is_null()
    }

    pub(super) fn is_empty_text(&self) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { text, .. } if text.is_empty())
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { .. }) && !self.is_null()
    }

    pub(super) fn is_mapping(&self) -> bool {
        matches!(&self.node.value, NodeValue::Mapping(_))
    }

    /// True for text without quotes, as it stands in the file.
    pub(super) fn is_plain(&self, words: &str) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { text, plain: true } if text == words)
    }

    pub(super) fn problem(&self, message: impl Into<String>) {
        self.report(self.remark(message, None));
    }

    pub(super) fn problem_with(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.report(self.remark(message, Some(hint.into())));
    }

    fn report(&self, remark: Remark) {
        match self.is_lenient {
            true => self.context.warning(remark),
            false => self.context.problem(remark),
        }
    }

    pub(super) fn warn(&self, message: impl Into<String>) {
        self.context.warning(self.remark(message, None));
    }

    fn remark(&self, message: impl Into<String>, hint: Option<String>) -> Remark {
        Remark {
            at: self.at,
            key: self.key.clone(),
            message: message.into(),
            hint,
        }
    }

    /// Opens a mapping; reports unknown keys.
    pub(super) fn fields(&self, section: Section) -> Option<Fields<'a>> {
        let entries = self.entries("a mapping of keys and values")?;
        for entry in entries {
            if !section.has(&entry.key) {
                let prefix = if self.key.is_empty() { "" } else { "." };
                let name = if entry.key.is_empty() {
                    "''"
                } else {
                    &entry.key
                };
                self.context.problem(Remark {
                    at: entry.at,
                    key: format!("{}{prefix}{name}", self.key),
                    message: "unknown key".to_owned(),
                    hint: section.suggest(&entry.key),
                });
            }
        }
        Some(Fields {
            context: self.context,
            at: self.at,
            key: self.key.clone(),
            entries,
            is_lenient: self.is_lenient,
        })
    }

    /// Returns the pairs of a mapping with free keys.
    pub(super) fn pairs(&self) -> Option<Vec<(&'a str, Value<'a>)>> {
        let entries = self.entries("a mapping of names and values")?;
        let pair = |entry: &'a Entry| {
            let key = format!("{}.{}", self.key, entry.key);
            let value = Value::new(self.context, &entry.node, entry.at, key);
            (entry.key.as_str(), value)
        };
        Some(entries.iter().map(pair).collect())
    }

    fn entries(&self, wanted: &str) -> Option<&'a [Entry]> {
        match &self.node.value {
            NodeValue::Mapping(entries) => Some(entries),
            NodeValue::Scalar { .. } | NodeValue::Sequence(_) => {
                let mut message = format!("must be {wanted}, not {}", self.node.kind());
                if self.key.is_empty() {
                    message.insert_str(0, "the file ");
                }
                self.problem(message);
                None
            }
        }
    }

    /// Returns the entries of a list. Nothing is an empty list.
    pub(super) fn items(&self) -> Option<Vec<Value<'a>>> {
        match &self.node.value {
            NodeValue::Sequence(items) => {
                let item = |(index, node): (usize, &'a std::rc::Rc<Node>)| {
                    let key = format!("{}[{index}]", self.key);
                    Value {
                        is_lenient: self.is_lenient,
                        ..Value::new(self.context, node, node.at, key)
                    }
                };
                Some(items.iter().enumerate().map(item).collect())
            }
            _ if self.is_null() => Some(Vec::new()),
            _ => {
                self.problem(format!("must be a list, not {}", self.node.kind()));
                None
            }
        }
    }

    /// The same, where one entry may stand without a list around it.
    pub(super) fn one_or_more(&self) -> Vec<Value<'a>> {
        match &self.node.value {
            NodeValue::Sequence(_) => self.items().unwrap_or_default(),
            _ if self.is_null() => Vec::new(),
            _ => vec![self.clone()],
        }
    }
}
