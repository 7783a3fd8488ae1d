//! The pipeline as a picture in Mermaid, DOT or SVG: a box per procedure, an arrow per dependency. Pure.

use anstyle::AnsiColor;
use maud::{Markup, html};

use super::tables::{Group, Tally, TaskState, count_states};
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

/// The start of a picture in DOT.
const DOT: &str = "digraph pipeline {
  rankdir=LR;
  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];
";

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
    pub nodes: Vec<Tally>,
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Counts the tasks of each procedure.
    pub fn new<'a>(tasks: impl Iterator<Item = &'a Planned>, dag: &ProcedureDag) -> Self {
        let states = tasks.map(|task| (task.procedure, TaskState::of(&task.decision)));
        let states = states.filter(|(_, state)| *state != TaskState::NotSelected);
        let edges = dag.iter().flat_map(|(id, _)| {
            let all = dag.dependencies(id).iter();
            all.map(move |(first, rule)| Edge {
                from: first.index(),
                to: id.index(),
                any_session: *rule == SessionsRule::Any,
            })
        });
        Self {
            nodes: count_states(states, dag),
            edges: edges.collect(),
        }
    }

    /// Draws the pipeline. Arrows point from a dependency to the dependent procedure.
    pub fn draw(&self, language: Language) -> String {
        let (start, end, line_break) = match language {
            Language::Mermaid => ("flowchart LR\n", "", "<br/>"),
            Language::Dot => (DOT, "}\n", "\\n"),
            Language::Svg => return self.svg(Some("http://www.w3.org/2000/svg")).into_string(),
        };
        let is_dot = language == Language::Dot;
        let nodes = self.nodes.iter().enumerate().map(|(at, node)| {
            let (fill, line) = paint(node.worst());
            let text = node.lines().join(line_break);
            match is_dot {
                true => {
                    format!("  p{at} [label=\"{text}\", fillcolor=\"{fill}\", color=\"{line}\"];\n")
                }
                false => format!(
                    "  p{at}[\"{text}\"]\n  style p{at} fill:{fill},stroke:{line},color:#111\n"
                ),
            }
        });
        let edges = self.edges.iter().map(|edge| {
            let Edge { from, to, .. } = edge;
            match (is_dot, edge.any_session) {
                (true, true) => format!("  p{from} -> p{to} [label=\"any session\"];\n"),
                (true, false) => format!("  p{from} -> p{to};\n"),
                (false, true) => format!("  p{from} -- any session --> p{to}\n"),
                (false, false) => format!("  p{from} --> p{to}\n"),
            }
        });
        start.to_owned() + &nodes.chain(edges).collect::<String>() + end
    }

    /// Draws the pipeline in layers. A separate file needs the `namespace`. Colours are attributes, which a page can
    /// override with its classes.
    pub fn svg(&self, namespace: Option<&str>) -> Markup {
        let (places, width, height) = self.places();
        let at = |number: usize| places.get(number).copied();
        let summary = self.nodes.iter().map(|node| node.lines().join(", "));
        let summary: Vec<String> = summary.collect();
        html! {
            svg.pipeline xmlns=[namespace] role="img" aria-label={ "Pipeline: " (summary.join("; ")) }
                viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
                font-family="system-ui, sans-serif" font-size="13" {
                @for edge in &self.edges {
                    @if let (Some(from), Some(to)) = (at(edge.from), at(edge.to)) {
                        (arrow(from, to, edge.any_session))
                    }
                }
                @for (node, place) in self.nodes.iter().zip(&places) {
                    @let (fill, line) = paint(node.worst());
                    @let group = node.worst().map_or(Group::Out, |worst| worst.style().group);
                    g class={ "g-" (group) } {
                        rect.card x=(place.x) y=(place.y) width=(place.width) height=(place.height) rx="6" fill=(fill) stroke=(line) {}
                        @for (number, text) in node.lines().iter().enumerate() {
                            text x=(place.x + PADDING) y=(place.y + LINE * (number as f64 + 1.0) + 3.0) fill="#111"
                                font-weight=[(number == 0).then_some("600")] { (text) }
                        }
                    }
                }
            }
        }
    }

    /// The place of each box, and the size of the picture.
    fn places(&self) -> (Vec<Place>, f64, f64) {
        let layers = self.layers();
        let mut places = vec![Place::default(); self.nodes.len()];
        let (mut x, mut lowest) = (2.0, 0.0_f64);
        for layer in 0..=layers.iter().copied().max().unwrap_or(0) {
            let (mut y, mut widest) = (2.0, 0.0_f64);
            let members = layers.iter().zip(&self.nodes).zip(&mut places);
            for ((_, node), place) in members.filter(|((own, _), _)| **own == layer) {
                let lines = node.lines();
                let longest = lines.iter().map(|line| line.chars().count()).max();
                *place = Place {
                    x,
                    y,
                    width: longest.unwrap_or(0) as f64 * LETTER + 2.0 * PADDING,
                    height: lines.len() as f64 * LINE + PADDING,
                };
                y += place.height + DOWN;
                widest = widest.max(place.width);
            }
            lowest = lowest.max(y - DOWN);
            x += widest + ACROSS;
        }
        (places, x - ACROSS + 2.0, lowest + 4.0)
    }

    /// The layer of each node: one after its last dependency.
    fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0; self.nodes.len()];
        for _ in 0..self.nodes.len() {
            for edge in &self.edges {
                let after = layers.get(edge.from).map_or(0, |layer| layer + 1);
                if let Some(layer) = layers.get_mut(edge.to) {
                    *layer = after.max(*layer);
                }
            }
        }
        layers
    }
}

/// The boxes of the picture.
impl Tally {
    /// The most urgent state, which colours the box.
    fn worst(&self) -> Option<TaskState> {
        let states = self.counts.keys().copied();
        states.min_by_key(|state| state.style().urgency)
    }

    fn lines(&self) -> Vec<String> {
        let counts = self.counts.iter();
        let mut lines = vec![self.procedure.to_string()];
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

/// Approximate width of a letter.
const LETTER: f64 = 8.0;
const LINE: f64 = 17.0;
const PADDING: f64 = 11.0;
/// Horizontal gap between boxes, for the arrows, and vertical gap.
const ACROSS: f64 = 46.0;
const DOWN: f64 = 16.0;

/// Position and size of a box.
#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// A curve from the right side of a box to the left side of another.
fn arrow(from: Place, to: Place, any_session: bool) -> Markup {
    let (x1, y1) = (from.x + from.width, from.y + from.height / 2.0);
    let (x2, y2) = (to.x - 1.0, to.y + to.height / 2.0);
    let bend = ACROSS / 2.0;
    html! {
        path.edge fill="none" stroke="#777" stroke-width="1.5" stroke-dasharray=[any_session.then_some("5 4")]
            d={ "M" (x1) " " (y1) "C" (x1 + bend) " " (y1) " " (x2 - bend) " " (y2) " " (x2 - 6.0) " " (y2) } {}
        path.head fill="#777" d={ "M" (x2) " " (y2) "l-7-4v8z" } {}
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
        assert_eq!(nodes[0].counts, [(TaskState::Complete, 2)].into());
        assert_eq!(nodes[1].counts, [(TaskState::Due, 1)].into());
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
