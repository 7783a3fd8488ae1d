//! A YAML file as a tree of nodes with positions.
//!
//! Resolves anchors and applies merge keys (`<<`) like PyYAML's safe loader. Scalars
//! remain text, because their meaning depends on the key. Does not know any key.

mod build;

use std::collections::HashMap;
use std::rc::Rc;

use super::problem::{Position, Problem, quote};

/// One value of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub at: Position,
    pub value: NodeValue,
    /// The number of nodes in this tree; shared ones count each time, and long texts count more.
    weight: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// `plain` means written without quotes, so that words such as `null` have their special meaning.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

/// One key of a mapping with its value. Keys are unique.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    /// Position of the key.
    pub at: Position,
    pub node: Rc<Node>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// `None` if the file has no content.
    pub root: Option<Rc<Node>>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// Number of entries added by merge keys so far.
    merged: usize,
}

/// A key and a value before duplicate and merged keys are resolved.
struct Pair {
    key: Rc<Node>,
    at: Position,
    node: Rc<Node>,
}

/// Aliased keys are copied, so long ones could fill the memory.
const LONGEST_KEY: usize = 200;
/// A file with deeper nesting is not a configuration.
const DEEPEST: usize = 32;
/// A file with more values is not a configuration ("billion laughs").
const HEAVIEST: usize = 100_000;

impl Tree {
    /// Parses a file. The error is the first syntax error.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = decode(bytes)?;
        build::build(text)
    }
}

impl Node {
    /// True for `null`, `~` and an empty value, as in YAML 1.1.
    pub fn is_null(&self) -> bool {
        match &self.value {
            NodeValue::Scalar { text, plain: true } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// The kind of node, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "an empty value",
            NodeValue::Scalar { .. } => "a single value",
            NodeValue::Sequence(_) => "a list",
            NodeValue::Mapping(_) => "a mapping",
        }
    }

    /// A text without quotes.
    pub fn plain(text: &str) -> Self {
        let text = text.to_owned();
        Self::new(Position::default(), NodeValue::Scalar { text, plain: true })
    }

    fn new(at: Position, value: NodeValue) -> Self {
        let weight = match &value {
            NodeValue::Scalar { text, .. } => 1 + text.len() / 100,
            NodeValue::Sequence(items) => sum(items.iter().map(|node| node.weight)),
            NodeValue::Mapping(entries) => sum(entries.iter().map(|entry| entry.node.weight)),
        };
        Self { at, value, weight }
    }
}

fn sum(weights: impl Iterator<Item = usize>) -> usize {
    weights.fold(1, usize::saturating_add)
}

/// Accepts UTF-8 without control characters. The parser treats a NUL as the end of the file and
/// would silently ignore the rest.
fn decode(bytes: &[u8]) -> Result<&str, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        Problem::at(end_of(good), "the file is not UTF-8 text")
            .with_hint("if this is the configuration file, save it as UTF-8")
    })?;
    let control = |c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    match text.find(control) {
        Some(index) => Err(Problem::at(
            end_of(bytes.get(..index).unwrap_or_default()),
            "control characters are not allowed in YAML",
        )),
        None => Ok(text),
    }
}

/// The position right after `bytes`, which are valid UTF-8.
fn end_of(bytes: &[u8]) -> Position {
    let text = String::from_utf8_lossy(bytes);
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    position(line, column)
}

fn position(line: usize, column: usize) -> Position {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: narrow(line),
        column: narrow(column),
    }
}

/// The entries of a mapping, with an index by key.
#[derive(Default)]
struct Unique {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

impl Unique {
    /// Adds an entry. Replaces and returns an earlier one with the same key.
    fn put(&mut self, entry: Entry) -> Option<Entry> {
        let place = self.index.get(&entry.key).copied();
        match place.and_then(|place| self.entries.get_mut(place)) {
            Some(earlier) => Some(std::mem::replace(earlier, entry)),
            None => {
                self.index.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
                None
            }
        }
    }
}

/// Applies merge keys and resolves duplicates: the last of equal keys wins, own keys win over
/// merged ones, and the first of several merged mappings wins (PyYAML, `flatten_mapping`).
fn resolve_keys(pairs: Vec<Pair>, tree: &mut Tree) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::new();
    let mut own = Unique::default();
    for pair in pairs {
        let Pair { at, node, .. } = pair;
        let NodeValue::Scalar { text: key, plain } = &pair.key.value else {
            let message = format!("{} cannot be a key", pair.key.kind());
            tree.problems.push(Problem::at(at, message));
            continue;
        };
        if key.len() > LONGEST_KEY {
            let message = format!("the key {} is longer than {LONGEST_KEY} bytes", quote(key));
            tree.problems.push(Problem::at(at, message));
            continue;
        }
        if *plain && key == "<<" {
            merge(&node, at, &mut merged, tree);
            continue;
        }
        let key = key.clone();
        if let Some(earlier) = own.put(Entry { key, at, node }) {
            let line = earlier.at.line;
            let message = format!("this key appears twice; the value in line {line} is ignored");
            tree.warnings.push(Problem {
                key: earlier.key,
                ..Problem::at(at, message)
            });
        }
    }
    if merged.is_empty() {
        return own.entries;
    }
    let mut all = Unique::default();
    for entry in merged.into_iter().chain(own.entries) {
        all.put(entry);
    }
    all.entries
}

/// Appends the entries of a `<<`, ordered so that later ones win.
fn merge(node: &Node, at: Position, merged: &mut Vec<Entry>, tree: &mut Tree) {
    let sources: Vec<&Node> = match &node.value {
        NodeValue::Sequence(items) => items.iter().rev().map(Rc::as_ref).collect(),
        NodeValue::Mapping(_) | NodeValue::Scalar { .. } => vec![node],
    };
    for source in sources {
        match &source.value {
            NodeValue::Mapping(entries) => {
                let sum = tree.merged.saturating_add(entries.len());
                if sum > HEAVIEST {
                    if tree.merged <= HEAVIEST {
                        let message = format!("'<<' adds more than {HEAVIEST} values");
                        tree.problems.push(Problem::at(at, message));
                    }
                    tree.merged = usize::MAX;
                    return;
                }
                tree.merged = sum;
                merged.extend(entries.iter().cloned());
            }
            _ => {
                let found = source.kind();
                let message = format!("'<<' requires a mapping or a list of mappings, not {found}");
                tree.problems.push(Problem::at(at, message));
            }
        }
    }
}

#[cfg(test)]
mod tests;
