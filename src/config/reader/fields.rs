//! The keys of one mapping: what is written, and what holds where nothing is.

use super::super::keys::{Fallback, Kind, Section};
use super::super::problem::Position;
use super::super::problem::Problem;
use super::super::tree::{Entry, NodeValue};
use super::{Context, Value};

/// A mapping whose keys are all known ones.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) section: Section,
    /// Where it begins.
    pub(crate) at: Position,
    /// Empty: the top of the file.
    pub(crate) key: String,
    pub(super) entries: &'a [Entry],
    /// What is wrong with its values is only warned about.
    pub(super) is_lenient: bool,
}

/// What holds where nothing is written.
pub(super) enum Preset<'a> {
    Value(Value<'a>),
    /// The value of this key at the top of the file.
    Site(Fields<'a>, &'static str),
}

impl<'a> Fields<'a> {
    /// Opens the top of the file; reports unknown keys.
    pub(crate) fn top(context: &'a Context<'a>) -> Self {
        let empty = Self::empty(context, Section::Site);
        let Some(node) = context.root else {
            return empty;
        };
        let value = Value {
            context,
            node,
            at: node.at,
            key: String::new(),
            kind: Kind::Mapping(Section::Site),
            is_lenient: false,
        };
        value.fields(Section::Site).unwrap_or(empty)
    }

    /// A mapping in which nothing is written.
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

    /// Opens the mapping after a key; it is empty if nothing is written there.
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

    /// Returns the value of a key that is written, be it null.
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

    /// Returns the value of a key, or its default.
    pub(crate) fn get_or_default(&self, name: &str) -> Option<Value<'a>> {
        self.get(name).or_else(|| match self.default(name)? {
            Preset::Value(value) => Some(value),
            Preset::Site(site, key) => site.get_or_default(key),
        })
    }

    /// The same fields, for settings that must not stop anything else.
    pub(crate) fn leniently(&self) -> Self {
        Self {
            is_lenient: true,
            ..self.clone()
        }
    }

    /// Reads a key that has a default, which an empty value means too.
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

    /// Reads a key whose value may be none, for which an empty value stands. Nothing after a key of a procedure leaves
    /// it at the site's value.
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

    /// Reads the entries of a list, or one that stands alone.
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

    /// The top of the file, whose unknown keys have been reported.
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

    /// Reads a key that must be there.
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
