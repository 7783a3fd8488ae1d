//! A YAML file as a tree of nodes with positions, built from the events of the parser without recursion.
//!
//! Resolves anchors and applies merge keys (`<<`) like PyYAML's safe loader. Scalars
//! remain text, because their meaning depends on the key. Does not know any key.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

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
    pub warnings: Vec<Problem>,
}

/// A file with deeper nesting is not a configuration.
const DEEPEST: usize = 32;
/// A mapping with more keys is not part of a configuration.
const MOST_KEYS: usize = 1000;
/// A file with more values, aliases resolved, is not a configuration ("billion laughs").
const HEAVIEST: usize = 500_000;

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
            NodeValue::Sequence(items) => 1 + items.iter().map(|node| node.weight).sum::<usize>(),
            NodeValue::Mapping(entries) => {
                1 + entries.iter().map(|entry| entry.node.weight).sum::<usize>()
            }
        };
        Self { at, value, weight }
    }
}

/// A collection that is still open.
struct Open {
    at: Position,
    anchor: usize,
    /// The items of a list, or keys and values in turn. Each with the position where it is used (for an alias, not
    /// where it is defined).
    items: Vec<(Position, Rc<Node>)>,
}

#[derive(Default)]
struct Builder {
    tree: Tree,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    /// Of all nodes so far, at every level.
    weight: usize,
}

impl Tree {
    /// Parses a file. The error is the first syntax error.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = decode(bytes)?;
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| explain(&error, text))?;
            builder.take(event, span)?;
        }
        Ok(builder.tree)
    }
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let at = position(span.start.line(), span.start.col() + 1);
        match event {
            Event::DocumentStart(_) if self.tree.root.is_some() => {
                let message = "a second YAML document starts here, but only one is allowed (remove the '---' line)";
                Err(Problem::at(at, message))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let known = ["str", "int", "float", "bool", "null"];
                let plain = check_tag(tag, at, &known)? && style == ScalarStyle::Plain;
                let text = text.into_owned();
                self.add(at, NodeValue::Scalar { text, plain }, anchor)
            }
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                check_tag(tag, at, &["seq", "map"])?;
                if self.open.len() >= DEEPEST {
                    let message = format!("more than {DEEPEST} levels of nesting");
                    return Err(Problem::at(at, message));
                }
                let items = Vec::new();
                self.open.push(Open { at, anchor, items });
                Ok(())
            }
            Event::SequenceEnd => self.open.pop().map_or(Ok(()), |list| {
                let items = list.items.into_iter().map(|(_, node)| node).collect();
                self.add(list.at, NodeValue::Sequence(items), list.anchor)
            }),
            Event::MappingEnd => self.open.pop().map_or(Ok(()), |open| {
                let entries = resolve_keys(&open, &mut self.tree.warnings)?;
                self.add(open.at, NodeValue::Mapping(entries), open.anchor)
            }),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => self.attach(Rc::clone(node), at),
                None => {
                    let message = "the alias refers to a value that contains it";
                    Err(Problem::at(at, message))
                }
            },
            _ => Ok(()),
        }
    }

    fn add(&mut self, at: Position, value: NodeValue, anchor: usize) -> Result<(), Problem> {
        let node = Rc::new(Node::new(at, value));
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.attach(node, at)
    }

    /// Adds a finished node to the innermost open collection.
    fn attach(&mut self, node: Rc<Node>, at: Position) -> Result<(), Problem> {
        self.weight += node.weight;
        if self.weight > HEAVIEST {
            return Err(Problem::at(at, "the file has too many values"));
        }
        match self.open.last_mut() {
            None => self.tree.root = Some(node),
            Some(open) => open.items.push((at, node)),
        }
        Ok(())
    }
}

/// Refuses tags that change the meaning of a value. Returns false if the tag makes it a text.
fn check_tag(tag: Option<Cow<'_, Tag>>, at: Position, known: &[&str]) -> Result<bool, Problem> {
    let Some(tag) = tag else { return Ok(true) };
    if tag.is_yaml_core_schema() && known.contains(&tag.suffix.as_str()) {
        return Ok(tag.suffix != "str");
    }
    // A lone `!` only marks the value as text.
    if tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty() {
        return Ok(false);
    }
    let message = format!("the tag {} is not allowed here", quote(&tag.to_string()));
    Err(Problem::at(at, message))
}

/// Applies merge keys and resolves duplicates: the last of equal keys wins, own keys win over
/// merged ones, and the first of several merged mappings wins (PyYAML, `flatten_mapping`).
fn resolve_keys(open: &Open, warnings: &mut Vec<Problem>) -> Result<Vec<Entry>, Problem> {
    let mut merged: Vec<Entry> = Vec::new();
    let mut own: Vec<Entry> = Vec::new();
    for pair in open.items.chunks(2) {
        let [(at, key), (_, node)] = pair else {
            continue;
        };
        let NodeValue::Scalar { text, plain } = &key.value else {
            let message = format!("{} cannot be a key", key.kind());
            return Err(Problem::at(*at, message));
        };
        if *plain && text == "<<" {
            merge(node, *at, &mut merged)?;
            continue;
        }
        let (key, at, node) = (text.clone(), *at, Rc::clone(node));
        if let Some(earlier) = put(&mut own, Entry { key, at, node })? {
            let line = earlier.at.line;
            let message = format!("this key appears twice; the value in line {line} is ignored");
            warnings.push(Problem {
                key: earlier.key,
                ..Problem::at(at, message)
            });
        }
    }
    for entry in own {
        put(&mut merged, entry)?;
    }
    Ok(merged)
}

/// Adds an entry. Replaces and returns an earlier one with the same key.
fn put(entries: &mut Vec<Entry>, entry: Entry) -> Result<Option<Entry>, Problem> {
    if let Some(earlier) = entries.iter_mut().find(|known| known.key == entry.key) {
        return Ok(Some(std::mem::replace(earlier, entry)));
    }
    if entries.len() >= MOST_KEYS {
        let message = format!("a mapping has more than {MOST_KEYS} keys");
        return Err(Problem::at(entry.at, message));
    }
    entries.push(entry);
    Ok(None)
}

/// Adds the entries of a `<<`. The last of its mappings comes first, so that the first one wins.
fn merge(node: &Rc<Node>, at: Position, merged: &mut Vec<Entry>) -> Result<(), Problem> {
    let sources = match &node.value {
        NodeValue::Sequence(items) => items.as_slice(),
        NodeValue::Mapping(_) | NodeValue::Scalar { .. } => std::slice::from_ref(node),
    };
    for source in sources.iter().rev() {
        let NodeValue::Mapping(entries) = &source.value else {
            let found = source.kind();
            let message = format!("'<<' requires a mapping or a list of mappings, not {found}");
            return Err(Problem::at(at, message));
        };
        for entry in entries {
            put(merged, entry.clone())?;
        }
    }
    Ok(())
}

/// Accepts UTF-8 without control characters. The parser treats a NUL as the end of the file and
/// would silently ignore the rest.
fn decode(bytes: &[u8]) -> Result<&str, Problem> {
    let control = |c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    let (valid, message) = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find(control) {
            None => return Ok(text),
            Some(at) => (at, "control characters are not allowed in YAML"),
        },
        Err(error) => (
            error.valid_up_to(),
            "the file is not UTF-8 text (if this is the configuration file, save it as UTF-8)",
        ),
    };
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let line = before.matches('\n').count() + 1;
    let last = before.rsplit('\n').next().unwrap_or_default();
    Err(Problem::at(
        position(line, last.chars().count() + 1),
        message,
    ))
}

fn position(line: usize, column: usize) -> Position {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: narrow(line),
        column: narrow(column),
    }
}

/// Replaces the parser's message by a plain sentence.
fn explain(error: &ScanError, text: &str) -> Problem {
    let has_tab = |line: &str| {
        let rest = line.trim_start_matches([' ', '\t']);
        line.strip_suffix(rest)
            .is_some_and(|indent| indent.contains('\t'))
    };
    // The parser may report the end of the line before the tab.
    let before = error.marker().line().saturating_sub(1);
    let tab = text.lines().skip(before).take(2).position(has_tab);
    let info = error.info();
    let has = |words: &str| info.contains(words);
    if has("tab") && !has("quoted") && !has("expected") || tab.is_some() {
        let message = "the indentation contains a tab (indent YAML with spaces)";
        return Problem::at(position(before + 1 + tab.unwrap_or(0), 1), message);
    }
    let sentence = SENTENCES.iter().find(|(words, _)| has(words));
    let message = match sentence {
        Some((_, message)) => (*message).to_owned(),
        None => format!("not valid YAML: {info}"),
    };
    let at = position(error.marker().line().max(1), error.marker().col() + 1);
    Problem::at(at, message)
}

const COLON: &str = "a ':' appears where no key is possible (put the text in quotes if the colon is part of it, or check \
     the indentation)";

/// Parts of the parser's messages about frequent mistakes, with our message.
#[rustfmt::skip]
const SENTENCES: [(&str, &str); 4] = [
    ("mapping values are not allowed", COLON),
    ("illegal placement of ':'", COLON),
    ("unknown anchor", "this alias refers to an anchor that is not defined before it (put text that starts with '*' in quotes)"),
    ("scanning an anchor or alias", "this is neither an anchor nor an alias (put text that starts with '*' in quotes)"),
];

#[cfg(test)]
mod tests;
