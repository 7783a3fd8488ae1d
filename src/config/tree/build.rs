//! Builds the tree from the events of the YAML parser, without recursion and within limits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::super::problem::{Position, Problem};
use super::{DEEPEST, HEAVIEST, Node, NodeValue, Pair, Tree, position, resolve_keys};
use crate::config::problem::quote;

/// A collection that is still open.
enum Frame {
    Sequence {
        at: Position,
        anchor: usize,
        items: Vec<Rc<Node>>,
    },
    Mapping {
        at: Position,
        anchor: usize,
        pairs: Vec<Pair>,
        /// With the position where it is used (for an alias, not where it is defined).
        key: Option<(Rc<Node>, Position)>,
    },
}

#[derive(Default)]
struct Builder {
    tree: Tree,
    open: Vec<Frame>,
    anchors: HashMap<usize, Rc<Node>>,
    documents: usize,
}

pub(super) fn build(text: &str) -> Result<Tree, Problem> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| explain(&error, text))?;
        builder.take(event, span)?;
    }
    Ok(builder.tree)
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let at = position(span.start.line(), span.start.col() + 1);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second YAML document starts here, but only one is allowed";
                    return Err(Problem::at(at, message).with_hint("remove the '---' line"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = self.check_tag(tag, at, &["str", "int", "float", "bool", "null"]);
                let plain = plain && style == ScalarStyle::Plain;
                let text = text.into_owned();
                self.add(Node::new(at, NodeValue::Scalar { text, plain }), anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag, at, &["seq"]);
                let items = Vec::new();
                self.push(Frame::Sequence { at, anchor, items }, at)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag, at, &["map"]);
                let frame = Frame::Mapping {
                    at,
                    anchor,
                    pairs: Vec::new(),
                    key: None,
                };
                self.push(frame, at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Frame::Sequence { at, anchor, items }) => {
                    self.add(Node::new(at, NodeValue::Sequence(items)), anchor)?;
                }
                Some(Frame::Mapping {
                    at, anchor, pairs, ..
                }) => {
                    let entries = resolve_keys(pairs, &mut self.tree);
                    self.add(Node::new(at, NodeValue::Mapping(entries)), anchor)?;
                }
                None => {}
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => {
                    let node = Rc::clone(node);
                    self.attach(node, at)?;
                }
                None => {
                    let message = "the alias refers to a value that contains it";
                    return Err(Problem::at(at, message));
                }
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame, at: Position) -> Result<(), Problem> {
        if self.open.len() >= DEEPEST {
            return Err(Problem::at(
                at,
                format!("more than {DEEPEST} levels of nesting"),
            ));
        }
        self.open.push(frame);
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        let at = node.at;
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.attach(node, at)
    }

    /// Adds a finished node to the innermost open collection. `at` is where it is used (for an alias, not where it is
    /// defined).
    fn attach(&mut self, node: Rc<Node>, at: Position) -> Result<(), Problem> {
        if node.weight > HEAVIEST {
            return Err(Problem::at(at, format!("more than {HEAVIEST} values")));
        }
        match self.open.last_mut() {
            None => self.tree.root = Some(node),
            Some(Frame::Sequence { items, .. }) => items.push(node),
            Some(Frame::Mapping { pairs, key, .. }) => match key.take() {
                Some((key, at)) => pairs.push(Pair { key, at, node }),
                None => *key = Some((node, at)),
            },
        }
        Ok(())
    }

    /// Reports tags that change the meaning of a value. Returns false if the tag makes it a text.
    fn check_tag(&mut self, tag: Option<Cow<'_, Tag>>, at: Position, known: &[&str]) -> bool {
        let Some(tag) = tag else { return true };
        if tag.is_yaml_core_schema() && known.contains(&tag.suffix.as_str()) {
            return tag.suffix != "str";
        }
        // A lone `!` only marks the value as text.
        if tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty()
        {
            return false;
        }
        let message = format!("the tag {} is not allowed here", quote(&tag.to_string()));
        self.tree.problems.push(Problem::at(at, message));
        true
    }
}

/// Replaces the parser's message by a plain sentence.
fn explain(error: &ScanError, text: &str) -> Problem {
    let at = position(error.marker().line().max(1), error.marker().col() + 1);
    let has_tab = |line: &str| {
        let rest = line.trim_start_matches([' ', '\t']);
        line.get(..line.len() - rest.len())
            .is_some_and(|indent| indent.contains('\t'))
    };
    // The parser may report the end of the line before the tab.
    let before = error.marker().line().saturating_sub(1);
    let tab = text.lines().skip(before).take(2).position(has_tab);
    let info = error.info();
    let has = |words: &str| info.contains(words);
    if has("tab") && !has("quoted") && !has("expected") || tab.is_some() {
        let line = before + 1 + tab.unwrap_or(0);
        let problem = Problem::at(position(line, 1), "the indentation contains a tab");
        return problem.with_hint("indent YAML with spaces");
    }
    match SENTENCES.iter().find(|(words, ..)| has(words)) {
        Some((_, message, hint)) => Problem::at(at, *message).with_hint(*hint),
        None => Problem::at(at, format!("not valid YAML: {info}")),
    }
}

const COLON: &str = "a ':' appears where no key is possible";
const COLON_HINT: &str =
    "put the text in quotes if the colon is part of it, or check the indentation";
const STAR: &str = "put text that starts with '*' in quotes";

/// Parts of the parser's messages about frequent mistakes, with our message and hint.
#[rustfmt::skip]
const SENTENCES: [(&str, &str, &str); 4] = [
    ("mapping values are not allowed", COLON, COLON_HINT),
    ("illegal placement of ':'", COLON, COLON_HINT),
    ("unknown anchor", "this alias refers to an anchor that is not defined before it", STAR),
    ("scanning an anchor or alias", "this is neither an anchor nor an alias", STAR),
];
