//! Typed access to the tree. Every function reports problems and continues, so that one pass over
//! the file finds them all. Does not know the meaning of keys. Mappings: [`fields`]; single values: [`values`].

mod fields;
mod values;
mod walk;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keys::{Fallback, KEYS, Key, Kind, Section};
use super::problem::{Position, Problem};
use super::tree::{Entry, Node, NodeValue, Tree};

pub(super) use fields::Fields;
pub(super) use walk::settings;

/// The pipeline of a configuration without `procedures`.
const BUILTIN: &[u8] = include_bytes!("builtin.yaml");

/// The input shared by all parts of the file, and the problems so far.
pub(super) struct Context<'a> {
    pub(super) file: Option<Arc<Path>>,
    /// Relative paths are relative to this directory.
    pub(super) base: PathBuf,
    pub(super) env: &'a dyn Fn(&str) -> Option<OsString>,
    /// `None` if the file has no content.
    root: Option<&'a Node>,
    /// The defaults of keys, in the form of values from the file.
    defaults: HashMap<(Section, &'static str), Node>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

/// A value with its position and key.
#[derive(Clone)]
pub(super) struct Value<'a> {
    context: &'a Context<'a>,
    node: &'a Node,
    pub(super) at: Position,
    pub(super) key: String,
    kind: Kind,
    /// Problems become warnings.
    is_lenient: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        file: Option<Arc<Path>>,
        base: PathBuf,
        env: &'a dyn Fn(&str) -> Option<OsString>,
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
            root: root.filter(|node| !node.is_null()),
            defaults: KEYS.iter().filter_map(default).collect(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    pub(super) fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(self.located(problem));
    }

    pub(super) fn warning(&self, warning: Problem) {
        self.warnings.borrow_mut().push(self.located(warning));
    }

    /// Problems and warnings in the order of the file.
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

    fn located(&self, problem: Problem) -> Problem {
        Problem {
            file: self.file.clone(),
            ..problem
        }
    }
}

impl<'a> Value<'a> {
    fn new(
        context: &'a Context<'a>,
        node: &'a Node,
        key_at: Position,
        key: String,
        kind: Kind,
    ) -> Self {
        // The parser gives an empty value the position of the next token, which may be on another line.
        let at = if node.is_null() { key_at } else { node.at };
        Self {
            context,
            node,
            at,
            key,
            kind,
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

    /// True if the file contains this text without quotes.
    pub(super) fn is_plain(&self, words: &str) -> bool {
        matches!(&self.node.value, NodeValue::Scalar { text, plain: true } if text == words)
    }

    pub(super) fn problem(&self, message: impl Into<String>) {
        self.report(self.remark(message, None));
    }

    pub(super) fn problem_with(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.report(self.remark(message, Some(hint.into())));
    }

    fn report(&self, remark: Problem) {
        match self.is_lenient {
            true => self.context.warning(remark),
            false => self.context.problem(remark),
        }
    }

    pub(super) fn warn(&self, message: impl Into<String>) {
        self.context.warning(self.remark(message, None));
    }

    fn remark(&self, message: impl Into<String>, hint: Option<String>) -> Problem {
        Problem {
            key: self.key.clone(),
            hint,
            ..Problem::at(self.at, message)
        }
    }

    /// Opens a mapping; reports unknown keys.
    pub(super) fn fields(&self, section: Section) -> Option<Fields<'a>> {
        let entries = self.entries("a mapping of keys and values")?;
        for entry in entries {
            if section.key(&entry.key).is_none() {
                let prefix = if self.key.is_empty() { "" } else { "." };
                let name = if entry.key.is_empty() {
                    "''"
                } else {
                    &entry.key
                };
                self.context.problem(Problem {
                    key: format!("{}{prefix}{name}", self.key),
                    hint: section.suggest(&entry.key),
                    ..Problem::at(entry.at, "unknown key")
                });
            }
        }
        Some(Fields {
            context: self.context,
            section,
            at: self.at,
            key: self.key.clone(),
            entries,
            is_lenient: self.is_lenient,
        })
    }

    /// The pairs of a mapping with arbitrary keys.
    pub(super) fn pairs(&self) -> Option<Vec<(&'a str, Value<'a>)>> {
        let entries = self.entries("a mapping of names and values")?;
        let pair = |entry: &'a Entry| {
            let key = format!("{}.{}", self.key, entry.key);
            let value = Value::new(self.context, &entry.node, entry.at, key, Kind::Scalar);
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

    /// The entries of a list; an empty value is an empty list.
    pub(super) fn items(&self) -> Option<Vec<Value<'a>>> {
        match &self.node.value {
            NodeValue::Sequence(items) => {
                let item = |(index, node): (usize, &'a std::rc::Rc<Node>)| {
                    let key = format!("{}[{index}]", self.key);
                    Value {
                        is_lenient: self.is_lenient,
                        ..Value::new(self.context, node, node.at, key, self.kind)
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

    /// Like [`Self::items`], but a single value counts as a list of one entry.
    pub(super) fn one_or_more(&self) -> Vec<Value<'a>> {
        match &self.node.value {
            NodeValue::Sequence(_) => self.items().unwrap_or_default(),
            _ if self.is_null() => Vec::new(),
            _ => vec![self.clone()],
        }
    }
}
