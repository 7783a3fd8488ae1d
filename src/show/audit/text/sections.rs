//! What the text shows, in which order. Knows neither alignment nor Markdown.

mod figures;
mod tasks;
mod upkeep;

use super::Align::{self, Left, Right};
use crate::base::sys::local_time;
use crate::show::audit::health::percent;
use crate::show::audit::report::Report;
use crate::show::tables::plural;

/// Is a part of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Title(String),
    Heading(String),
    Line(String),
    Table(Vec<(&'static str, Align)>, Vec<Vec<String>>),
    /// Rows of the table before it that are left out.
    More(usize),
}

/// Returns the blocks of a report; lists have at most `most` rows. Empty sections are left out.
pub(super) fn sections(report: &Report, most: usize) -> Vec<Block> {
    let mut text = Text {
        report,
        most,
        blocks: Vec::new(),
    };
    text.head();
    text.unreadable();
    text.trend();
    text.procedures();
    text.sessions();
    text.failed();
    text.markers();
    text.causes();
    text.dicom();
    text.jobs();
    text.scripts();
    text.progress();
    text.efficiency();
    text.blocks
}

struct Text<'a> {
    report: &'a Report,
    most: usize,
    blocks: Vec<Block>,
}

impl Text<'_> {
    fn line(&mut self, text: String) {
        self.blocks.push(Block::Line(text));
    }

    fn has(&self, part: &str) -> bool {
        self.report.study.parts.contains(&part)
    }

    /// Adds a heading and a table, unless there is nothing in it.
    fn list(
        &mut self,
        heading: &str,
        header: Vec<(&'static str, Align)>,
        mut rows: Vec<Vec<String>>,
    ) {
        if rows.is_empty() {
            return;
        }
        let more = rows.len().saturating_sub(self.most);
        rows.truncate(self.most);
        self.blocks.push(Block::Heading(heading.to_owned()));
        self.blocks.push(Block::Table(header, rows));
        if more > 0 {
            self.blocks.push(Block::More(more));
        }
    }

    fn head(&mut self) {
        let report = self.report;
        let study = &report.study;
        self.blocks.push(Block::Title(format!(
            "Audit of {} at {}",
            study.name(),
            local_time(study.created_at)
        )));
        self.line(match &study.config {
            Some(config) => format!("configuration: {config}"),
            None => format!("state: {}", study.state_file),
        });
        if let Some(selection) = &study.selection {
            self.line(format!("selection: {selection}"));
        }
        let totals = &report.totals;
        if self.has("tasks") {
            let counts = totals.decisions.iter();
            let counts: Vec<String> = counts.map(|c| format!("{} {}", c.count, c.word)).collect();
            self.line(format!(
                "{} of {}, {}: {}",
                plural(totals.sessions, "session"),
                plural(totals.subjects, "subject"),
                plural(totals.tasks, "task"),
                if counts.is_empty() {
                    "none".to_owned()
                } else {
                    counts.join(", ")
                }
            ));
            let health = &report.health;
            let mut line = format!(
                "health of sessions: {} good, {} fair, {} poor",
                health.good, health.fair, health.poor
            );
            if health.none > 0 {
                line.push_str(&format!(", {} not rated", health.none));
            }
            if let Some(mean) = health.mean {
                line.push_str(&format!("; mean {}", percent(mean)));
            }
            self.line(line);
        }
        let rows = &totals.rows;
        self.line(format!(
            "{} on record: {} pending, {} running, {} complete, {} failed",
            plural(rows.total, "task"),
            rows.pending,
            rows.running,
            rows.complete,
            rows.failed
        ));
    }

    fn procedures(&mut self) {
        if !self.has("tasks") {
            return;
        }
        let words: Vec<&str> = self
            .report
            .totals
            .decisions
            .iter()
            .map(|c| &*c.word)
            .collect();
        let rows = self.report.procedures.iter().map(|procedure| {
            let counts = procedure.decisions.iter();
            let mut counts: Vec<(usize, String)> = counts
                .filter_map(|c| {
                    let at = words.iter().position(|word| *word == &*c.word)?;
                    Some((at, format!("{} {}", c.count, c.word)))
                })
                .collect();
            counts.sort();
            let texts: Vec<String> = counts.into_iter().map(|(_, text)| text).collect();
            vec![
                procedure.name.to_string(),
                procedure.scope.unwrap_or("not configured").to_owned(),
                procedure.tasks.to_string(),
                texts.join(", "),
                procedure.rows.total.to_string(),
            ]
        });
        let rows = rows.collect();
        let header = vec![
            ("procedure", Left),
            ("scope", Left),
            ("tasks", Right),
            ("decisions", Left),
            ("on record", Right),
        ];
        self.list("procedures", header, rows);
    }
}
