//! The keys of one mapping and their defaults.

use super::super::keys::{Fallback, Kind, Section};
use super::super::problem::{Position, Problem};
use super::super::tree::{Entry, NodeValue};
use super::{Context, Value};

/// A mapping whose keys are all known ones.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) section: Section,
    pub(crate) at: Position,
    /// Empty at the top level.
    pub(crate) key: String,
    pub(super) entries: &'a [Entry],
    /// Problems with values become warnings.
    pub(super) is_lenient: bool,
}

/// The default of a key.
pub(super) enum Preset<'a> {
    Value(Value<'a>),
    /// The value of this top-level key.
    Site(Fields<'a>, &'static str),
}

impl<'a> Fields<'a> {
    /// The top level of the file. Reports unknown keys.
    pub(crate) fn top(context: &'a Context<'a>) -> Self {
        let empty = Self::empty(context, Section::Site);
        let Some(node) = context.root else {
            return empty;
        };
        let kind = Kind::Mapping(Section::Site);
        let value = Value::new(context, node, node.at, String::new(), kind);
        value.fields(Section::Site).unwrap_or(empty)
    }

    /// An empty mapping.
    pub(crate) fn empty(context: &'a Context<'a>, section: Section) -> Self {
        Self {
            context,
            section,
            at: Position { line: 1, column: 1 },
            key: String::new(),
            entries: &[],
            is_lenient: false,
        }
    }

    /// The mapping that is the value of a key; empty if the key has no value.
    pub(crate) fn below(&self, name: &str) -> Self {
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
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let key = if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        };
        let kind = self.section.key(name).map_or(Kind::Scalar, |key| key.kind);
        let value = Value::new(self.context, &entry.node, entry.at, key, kind);
        Some(Value {
            is_lenient: self.is_lenient,
            ..value
        })
    }

    /// The value of a key, or its default.
    pub(crate) fn get_or_default(&self, name: &str) -> Option<Value<'a>> {
        self.get(name).or_else(|| match self.default(name)? {
            Preset::Value(value) => Some(value),
            Preset::Site(site, key) => site.get_or_default(key),
        })
    }

    /// The same fields, for settings whose errors must not stop everything else.
    pub(crate) fn leniently(&self) -> Self {
        Self {
            is_lenient: true,
            ..self.clone()
        }
    }

    /// Reads a key that has a default; an empty value means the default, too.
    pub(crate) fn or<T: Default>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> T {
        let value = self.get(name);
        let written = value.filter(|value| !value.is_null() && !value.is_empty_text());
        written
            .and_then(|value| read(&value))
            .or_else(|| match self.default(name)? {
                Preset::Value(value) => read(&value),
                Preset::Site(site, key) => Some(site.or(key, read)),
            })
            .unwrap_or_default()
    }

    /// Reads an optional key. An empty text means none; null in a procedure means the site's value.
    pub(crate) fn maybe<T>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> Option<T> {
        let default = self.default(name);
        match (self.get(name), default) {
            (Some(value), _) if !value.is_null() => match value.is_empty_text() {
                true => None,
                false => read(&value),
            },
            (_, Some(Preset::Site(site, key))) => site.maybe(key, read),
            (None, Some(Preset::Value(value))) => read(&value),
            _ => None,
        }
    }

    /// Reads the entries of a list, or a single value as a list of one.
    pub(crate) fn list<T>(&self, name: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> Vec<T> {
        let entries = self.get(name).map(|value| value.one_or_more());
        let entries = entries.unwrap_or_default();
        entries.iter().filter_map(read).collect()
    }

    pub(super) fn default(&self, name: &str) -> Option<Preset<'a>> {
        let key = self.section.key(name)?;
        match key.default {
            Fallback::Of(key) => Some(Preset::Site(self.site(), key)),
            _ => {
                let node = self.context.defaults.get(&(key.section, key.name))?;
                let name = name.to_owned();
                let value = Value::new(self.context, node, node.at, name, key.kind);
                Some(Preset::Value(value))
            }
        }
    }

    /// The top level of the file, without reporting unknown keys again.
    pub(super) fn site(&self) -> Self {
        let entries = self.context.root.map(|node| &node.value);
        Self {
            entries: match entries {
                Some(NodeValue::Mapping(entries)) => entries,
                _ => &[],
            },
            ..Self::empty(self.context, Section::Site)
        }
    }

    /// Reports a problem with a key that may have its default value.
    pub(crate) fn problem(&self, name: &str, message: impl Into<String>) {
        match self.get(name) {
            Some(value) => value.problem(message),
            None => self.context.problem(default_value(name, message)),
        }
    }

    /// Likewise, for a warning.
    pub(crate) fn warn(&self, name: &str, message: impl Into<String>) {
        match self.get(name) {
            Some(value) => value.warn(message),
            None => self.context.warning(default_value(name, message)),
        }
    }

    /// Reads a required key.
    pub(crate) fn required<T>(
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
                self.context.problem(Problem {
                    key: self.key.clone(),
                    hint: Some(hint.to_owned()),
                    ..Problem::at(self.at, format!("the key '{name}' is missing"))
                });
                None
            }
        }
    }
}

fn default_value(name: &str, message: impl Into<String>) -> Problem {
    Problem {
        key: name.to_owned(),
        ..Problem::at(Position::default(), message)
    }
}
