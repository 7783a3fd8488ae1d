//! The pipeline as a picture in Mermaid, DOT or SVG: a box per procedure, an arrow per dependency. Pure.

mod svg;

use std::fmt::Write as _;
use std::sync::Arc;

use anstyle::AnsiColor;
use maud::Markup;

use super::tables::{TaskState, count_states};
use crate::base::words::words;
use crate::decide::manifest::Planned;
use crate::model::procedure::{ProcedureDag, SessionsRule};

words! {
    /// The language of the picture.
    pub enum Language {
        /// For GitHub, GitLab and many editors. <https://mermaid.js.org/syntax/flowchart.html>
        Mermaid = "mermaid",
        /// For Graphviz. <https://graphviz.org/doc/info/lang.html>
        Dot = "dot",
        /// For browsers.
        Svg = "svg",
    }
}

/// A procedure with the counts of its tasks, in the order of [`TaskState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    pub counts: Vec<(TaskState, usize)>,
}

/// A dependency: `to` depends on `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub any_session: bool,
}

/// The pipeline in the order of the configuration. Edges refer to nodes by index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Counts the tasks of each procedure.
    pub fn new<'a>(tasks: impl Iterator<Item = &'a Planned>, dag: &ProcedureDag) -> Self {
        let states = tasks.map(|task| (task.procedure, TaskState::of(&task.decision)));
        let states = states.filter(|(_, state)| *state != TaskState::NotSelected);
        let counts = count_states(states, dag);
        let nodes = dag.iter().zip(counts).map(|((_, procedure), counts)| Node {
            name: Arc::clone(&procedure.name),
            counts: counts.into_iter().collect(),
        });
        let edges = dag.iter().flat_map(|(id, _)| {
            let all = dag.dependencies(id).iter();
            all.map(move |(first, rule)| Edge {
                from: first.index(),
                to: id.index(),
                any_session: *rule == SessionsRule::Any,
            })
        });
        Self {
            nodes: nodes.collect(),
            edges: edges.collect(),
        }
    }

    /// Draws the pipeline. Arrows point from a dependency to the dependent procedure.
    pub fn draw(&self, language: Language) -> String {
        match language {
            Language::Mermaid => self.mermaid(),
            Language::Dot => self.dot(),
            Language::Svg => svg::draw(self, Some("http://www.w3.org/2000/svg")).into_string(),
        }
    }

    /// The picture as part of a page.
    pub fn picture(&self) -> Markup {
        svg::draw(self, None)
    }

    // Writing to a `String` cannot fail.
    fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let (fill, line) = paint(node.worst());
            let lines = node.lines().join("<br/>");
            let _ = writeln!(
                text,
                "  p{at}[\"{lines}\"]\n  style p{at} fill:{fill},stroke:{line},color:#111"
            );
        }
        for edge in &self.edges {
            let arrow = match edge.any_session {
                true => "-- any session -->",
                false => "-->",
            };
            let _ = writeln!(text, "  p{} {arrow} p{}", edge.from, edge.to);
        }
        text
    }

    fn dot(&self) -> String {
        let mut text = "digraph pipeline {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let (fill, line) = paint(node.worst());
            let lines = node.lines().join("\\n");
            let _ = writeln!(
                text,
                "  p{at} [label=\"{lines}\", fillcolor=\"{fill}\", color=\"{line}\"];"
            );
        }
        for edge in &self.edges {
            let label = match edge.any_session {
                true => " [label=\"any session\"]",
                false => "",
            };
            let _ = writeln!(text, "  p{} -> p{}{label};", edge.from, edge.to);
        }
        text + "}\n"
    }
}

impl Node {
    /// The most urgent state, which colours the box.
    fn worst(&self) -> Option<TaskState> {
        let states = self.counts.iter().map(|(state, _)| *state);
        states.min_by_key(|state| state.style().urgency)
    }

    fn lines(&self) -> Vec<String> {
        let counts = self.counts.iter();
        let mut lines = vec![self.name.to_string()];
        lines.extend(counts.map(|(state, count)| format!("{count} {state}")));
        lines
    }
}

/// Light fill and dark line for the most urgent state of a box. Only failures are red, as on the page of the audit.
fn paint(state: Option<TaskState>) -> (&'static str, &'static str) {
    let color = state.map_or(AnsiColor::BrightBlack, |state| state.style().color);
    match color {
        _ if state == Some(TaskState::Blocked) => ("#fdeac6", "#b06f10"),
        AnsiColor::Green => ("#dcf5e0", "#1a7f37"),
        AnsiColor::Red => ("#ffe2e0", "#b3261e"),
        AnsiColor::Cyan | AnsiColor::Blue => ("#ddf0ff", "#0a5ca8"),
        AnsiColor::Yellow => ("#fff3cd", "#8a6100"),
        AnsiColor::Magenta => ("#f5e1fa", "#7b1fa2"),
        _ => ("#eeeeee", "#666666"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::manifest::{Decision, Due, Manifest, Skip};
    use crate::model::bids::{SessionLabel, SubjectLabel};
    use crate::model::procedure::testing::procedure;
    use crate::model::procedure::{Scope, SessionsRule};

    #[test]
    fn boxes_have_counts_and_arrows_follow_the_work() {
        let dag = ProcedureDag::new(vec![
            procedure("bids", Scope::Session, &[]),
            procedure("qc", Scope::Session, &[("bids", SessionsRule::Same)]),
        ])
        .unwrap();
        let task = |name: &str, subject: &str, decision| {
            let labels = (SubjectLabel::new(subject).unwrap(), SessionLabel::none());
            Planned::new(&dag, dag.find(name).unwrap(), labels, decision)
        };
        let manifest = Manifest {
            tasks: vec![
                task("bids", "sub-1", Decision::Skip(Skip::Complete)),
                task("bids", "sub-2", Decision::Skip(Skip::Complete)),
                task("qc", "sub-1", Decision::Submit(Due::New)),
                task("qc", "sub-2", Decision::Skip(Skip::NotSelected)),
            ],
        };
        let graph = Graph::new(manifest.tasks.iter(), &dag);
        let nodes = &graph.nodes;
        assert_eq!(nodes[0].counts, [(TaskState::Complete, 2)]);
        assert_eq!(nodes[1].counts, [(TaskState::Due, 1)]);
        insta::assert_snapshot!(graph.draw(Language::Mermaid), @r##"
        flowchart LR
          p0["bids<br/>2 complete"]
          style p0 fill:#dcf5e0,stroke:#1a7f37,color:#111
          p1["qc<br/>1 due"]
          style p1 fill:#fff3cd,stroke:#8a6100,color:#111
          p0 --> p1
        "##);
        insta::assert_snapshot!(graph.draw(Language::Dot), @r##"
        digraph pipeline {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fontname="sans-serif"];
          p0 [label="bids\n2 complete", fillcolor="#dcf5e0", color="#1a7f37"];
          p1 [label="qc\n1 due", fillcolor="#fff3cd", color="#8a6100"];
          p0 -> p1;
        }
        "##);
    }

    #[test]
    fn the_svg_puts_dependent_procedures_to_the_right() {
        let dag = ProcedureDag::new(vec![
            procedure("a", Scope::Session, &[]),
            procedure("b", Scope::Session, &[("a", SessionsRule::Same)]),
            procedure("c", Scope::Session, &[("a", SessionsRule::Same)]),
            procedure(
                "d<",
                Scope::Subject,
                &[("b", SessionsRule::All), ("c", SessionsRule::Any)],
            ),
        ])
        .unwrap();
        let svg = Graph::new([].into_iter(), &dag).draw(Language::Svg);
        let numbers = |name: &str| -> Vec<f64> {
            let boxes = svg.split("<rect ").skip(1);
            let values = boxes
                .filter_map(|text| text.split_once(&format!("{name}=\""))?.1.split('"').next());
            values.map(|value| value.parse().unwrap()).collect()
        };
        let (x, y) = (numbers("x"), numbers("y"));
        assert_eq!((x.len(), y.len()), (4, 4));
        assert!(x[0] < x[1] && x[1] == x[2] && x[2] < x[3], "{x:?}");
        assert!(y[1] < y[2], "{y:?}");
        assert_eq!(svg.matches("class=\"edge\"").count(), 4);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        assert!(svg.contains("d&lt;"), "{svg}");
    }
}
