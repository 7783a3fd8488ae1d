//! The pipeline as a picture: a box per procedure with its counts, an arrow per dependency. Pure.

use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::tables::Standing;
use crate::base::words::words;
use crate::decide::manifest::Manifest;
use crate::model::procedure::{ProcedureDag, SessionsRule};

words! {
    /// The language of the picture.
    pub enum Language {
        /// Of GitHub, GitLab and many editors. <https://mermaid.js.org/syntax/flowchart.html>
        Mermaid = "mermaid",
        /// Of Graphviz. <https://graphviz.org/doc/info/lang.html>
        Dot = "dot",
    }
}

/// A procedure and how many of its tasks stand where, in the order of [`Standing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub counts: Vec<(Standing, usize)>,
}

/// Counts the tasks of each procedure, in the order of the configuration.
pub fn nodes(manifest: &Manifest, dag: &ProcedureDag) -> Vec<Node> {
    let mut nodes: Vec<(String, [usize; Standing::ALL.len()])> = dag
        .iter()
        .map(|(_, procedure)| (procedure.name.to_string(), [0; Standing::ALL.len()]))
        .collect();
    for task in &manifest.tasks {
        let standing = Standing::of(&task.decision);
        if let Some((_, counts)) = nodes.get_mut(task.procedure.index())
            && let Some(count) = counts.get_mut(standing as usize)
        {
            *count += 1;
        }
    }
    let present = |counts: [usize; Standing::ALL.len()]| {
        let counts = Standing::ALL.into_iter().zip(counts);
        let told = counts.filter(|(standing, _)| *standing != Standing::NotSelected);
        told.filter(|(_, count)| *count > 0).collect()
    };
    nodes
        .into_iter()
        .map(|(name, counts)| Node {
            name,
            counts: present(counts),
        })
        .collect()
}

impl Node {
    /// What needs a person most colours the box.
    fn color(&self) -> AnsiColor {
        let worst = self.counts.iter().map(|(standing, _)| standing.look());
        worst
            .min_by_key(|look| look.urgency)
            .map_or(AnsiColor::BrightBlack, |look| look.color)
    }

    fn lines(&self) -> Vec<String> {
        let counts = self.counts.iter();
        let mut lines = vec![self.name.clone()];
        lines.extend(counts.map(|(standing, count)| format!("{count} {}", standing.as_str())));
        lines
    }
}

/// Draws the pipeline. Arrows go from what comes first to what builds on it.
pub fn draw(language: Language, nodes: &[Node], dag: &ProcedureDag) -> String {
    let (open, close) = match language {
        Language::Mermaid => ("flowchart LR\n", ""),
        Language::Dot => (
            "digraph pipeline {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
            "}\n",
        ),
    };
    let mut text = open.to_owned();
    // Writing to a text cannot fail.
    for (at, node) in nodes.iter().enumerate() {
        let (fill, line) = paint(node.color());
        let _ = match language {
            Language::Mermaid => {
                let lines = node.lines().join("<br/>");
                writeln!(
                    text,
                    "  p{at}[\"{lines}\"]\n  style p{at} fill:{fill},stroke:{line},color:#111"
                )
            }
            Language::Dot => {
                let lines = node.lines().join("\\n");
                writeln!(
                    text,
                    "  p{at} [label=\"{lines}\", fillcolor=\"{fill}\", color=\"{line}\"];"
                )
            }
        };
    }
    for (id, _) in dag.iter() {
        for (first, rule) in dag.dependencies(id) {
            let (from, to) = (first.index(), id.index());
            let any = *rule == SessionsRule::Any;
            let _ = match (language, any) {
                (Language::Mermaid, false) => writeln!(text, "  p{from} --> p{to}"),
                (Language::Mermaid, true) => writeln!(text, "  p{from} -- any session --> p{to}"),
                (Language::Dot, false) => writeln!(text, "  p{from} -> p{to};"),
                (Language::Dot, true) => {
                    writeln!(text, "  p{from} -> p{to} [label=\"any session\"];")
                }
            };
        }
    }
    text + close
}

/// Light fill and dark line of a terminal's colour.
fn paint(color: AnsiColor) -> (&'static str, &'static str) {
    match color {
        AnsiColor::Green | AnsiColor::BrightGreen => ("#dcf5e0", "#1a7f37"),
        AnsiColor::Red | AnsiColor::BrightRed => ("#ffe2e0", "#b3261e"),
        AnsiColor::Cyan | AnsiColor::BrightCyan | AnsiColor::Blue | AnsiColor::BrightBlue => {
            ("#ddf0ff", "#0a5ca8")
        }
        AnsiColor::Yellow | AnsiColor::BrightYellow => ("#fff3cd", "#8a6100"),
        AnsiColor::Magenta | AnsiColor::BrightMagenta => ("#f5e1fa", "#7b1fa2"),
        _ => ("#eeeeee", "#666666"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::manifest::{Decision, Due, Planned, Skip};
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
        let nodes = nodes(&manifest, &dag);
        assert_eq!(nodes[0].counts, [(Standing::Complete, 2)]);
        assert_eq!(nodes[1].counts, [(Standing::Due, 1)]);
        insta::assert_snapshot!(draw(Language::Mermaid, &nodes, &dag), @r##"
        flowchart LR
          p0["bids<br/>2 complete"]
          style p0 fill:#dcf5e0,stroke:#1a7f37,color:#111
          p1["qc<br/>1 due"]
          style p1 fill:#fff3cd,stroke:#8a6100,color:#111
          p0 --> p1
        "##);
        insta::assert_snapshot!(draw(Language::Dot, &nodes, &dag), @r##"
        digraph pipeline {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fontname="sans-serif"];
          p0 [label="bids\n2 complete", fillcolor="#dcf5e0", color="#1a7f37"];
          p1 [label="qc\n1 due", fillcolor="#fff3cd", color="#8a6100"];
          p0 -> p1;
        }
        "##);
    }
}
