//! The sections about tasks: what is stuck, what failed and why.

use std::collections::HashMap;

use super::Text;
use crate::show::audit::efficiency::{memory_text, time_limit_text};
use crate::show::audit::health::{is_stuck, percent};
use crate::show::audit::report::{MarkerResult, MarkerState, TaskDetail};
use crate::show::audit::text::Align::{Left, Right};
use crate::show::tables::plural;

impl Text<'_> {
    /// Sessions in which something does not go on by itself, the least healthy first.
    pub(super) fn sessions(&mut self) {
        let matrix = &self.report.matrix;
        let mut rows: Vec<(f64, Vec<String>)> = matrix
            .sessions
            .iter()
            .filter_map(|row| {
                let troubles: Vec<String> = row
                    .cells
                    .iter()
                    .zip(&matrix.procedures)
                    .filter_map(|(cell, procedure)| {
                        let cell = cell.as_ref()?;
                        let stuck = is_stuck(cell.decision);
                        stuck.then(|| match cell.reason {
                            Some(reason) => format!("{procedure} {} ({reason})", cell.decision),
                            None => format!("{procedure} {}", cell.decision),
                        })
                    })
                    .collect();
                let health = row.health.filter(|_| !troubles.is_empty())?;
                let cells = vec![
                    row.subject.to_string(),
                    row.session.to_string(),
                    health.band.as_str().to_owned(),
                    format!("{}/{}", health.complete, health.of),
                    troubles.join(", "),
                ];
                Some((health.share, cells))
            })
            .collect();
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let rows = rows.into_iter().map(|(_, cells)| cells).collect();
        let header = vec![
            ("subject", Left),
            ("session", Left),
            ("health", Left),
            ("complete", Right),
            ("stuck", Left),
        ];
        self.list("sessions that do not go on", header, rows);
    }

    pub(super) fn failed(&mut self) {
        let logs = self.report.logs.iter().flat_map(|logs| &logs.findings);
        let telling: HashMap<(&str, &str, &str), &str> = logs
            .filter(|finding| finding.telling)
            .map(|f| ((&*f.procedure, &*f.subject, &*f.session), f.line.as_str()))
            .collect();
        let last_line = |task: &TaskDetail| {
            let key = (&*task.procedure, &*task.subject, &*task.session);
            let last = || task.log_tail.last().map(String::as_str);
            let line = telling.get(&key).copied().or_else(last);
            line.unwrap_or_default().to_owned()
        };
        let tasks = self.report.tasks.iter();
        let rows: Vec<Vec<String>> = tasks
            .filter_map(|task| {
                let job = task.job.as_ref().filter(|job| job.status == "failed")?;
                let of = |used: Option<String>, asked: Option<String>| match (used, asked) {
                    (None, None) => String::new(),
                    (used, asked) => format!(
                        "{} of {}",
                        used.unwrap_or("?".to_owned()),
                        asked.unwrap_or("?".to_owned())
                    ),
                };
                Some(vec![
                    task.procedure.to_string(),
                    task.subject.to_string(),
                    task.session.to_string(),
                    job.failure.clone().unwrap_or("unknown".to_owned()),
                    job.job_id.as_deref().unwrap_or_default().to_owned(),
                    job.node_list.as_deref().unwrap_or_default().to_owned(),
                    of(
                        job.elapsed_s.map(time_limit_text),
                        job.time_limit_s.map(time_limit_text),
                    ),
                    of(
                        job.max_rss_mb.map(memory_text),
                        job.req_mem_mb.map(memory_text),
                    ),
                    last_line(task),
                ])
            })
            .collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("why", Left),
            ("job", Left),
            ("node", Left),
            ("time", Left),
            ("memory", Left),
            ("log", Left),
        ];
        self.list("failed tasks", header, rows);
        if !self.has("tasks") {
            self.known_errors();
        }
    }

    /// Without details the findings stand alone.
    fn known_errors(&mut self) {
        let findings = self.report.logs.iter().flat_map(|logs| &logs.findings);
        let rows = findings
            .map(|f| {
                let number = f.line_number.map(|n| format!(":{n}"));
                vec![
                    f.procedure.to_string(),
                    f.subject.to_string(),
                    f.session.to_string(),
                    f.pattern.to_string(),
                    f.line.clone(),
                    format!("{}{}", f.file, number.unwrap_or_default()),
                ]
            })
            .collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("pattern", Left),
            ("line", Left),
            ("file", Left),
        ];
        self.list("known errors in logs", header, rows);
    }

    pub(super) fn markers(&mut self) {
        let rows = self.report.tasks.iter().filter_map(|task| {
            let met =
                |m: &&MarkerResult| matches!(m.state, MarkerState::Found | MarkerState::Excused);
            let found = task.markers.iter().filter(met).count();
            let lacking: Vec<String> = task
                .markers
                .iter()
                .filter(|marker| !met(marker))
                .map(|marker| {
                    let word = match marker.state {
                        MarkerState::Forbidden => "forbidden ",
                        MarkerState::Unreadable => "unreadable ",
                        _ => "",
                    };
                    match &marker.note {
                        Some(note) => format!("{word}{} ({note})", marker.marker),
                        None => format!("{word}{}", marker.marker),
                    }
                })
                .collect();
            // A job that runs is not expected to have them all.
            let is_running = matches!(task.decision, "pending" | "running");
            (!lacking.is_empty() && !is_running).then(|| {
                vec![
                    task.procedure.to_string(),
                    task.subject.to_string(),
                    task.session.to_string(),
                    task.decision.to_owned(),
                    format!("{found}/{}", task.markers.len()),
                    lacking.join(", "),
                ]
            })
        });
        let rows = rows.collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("decision", Left),
            ("found", Right),
            ("lacking", Left),
        ];
        self.list("outputs that are not complete", header, rows);
    }

    pub(super) fn causes(&mut self) {
        let failures = &self.report.failures;
        let rows = failures.by_reason.iter().map(|group| {
            let by = group.procedures.iter();
            let by: Vec<String> = by.map(|c| format!("{} {}", c.count, c.word)).collect();
            vec![
                group.reason.to_owned(),
                group.count.to_string(),
                by.join(", "),
            ]
        });
        let rows = rows.collect();
        let header = vec![("reason", Left), ("tasks", Right), ("of", Left)];
        self.list("failures by reason", header, rows);
        let nodes = failures.by_node.iter().filter(|node| node.failed > 0);
        let rows = nodes.map(|node| {
            let reasons = node.reasons.iter();
            let reasons: Vec<String> = reasons.map(|c| format!("{} {}", c.count, c.word)).collect();
            vec![
                node.node.to_string(),
                node.failed.to_string(),
                node.jobs.to_string(),
                percent(node.share),
                reasons.join(", "),
            ]
        });
        let rows = rows.collect();
        let header = vec![
            ("node", Left),
            ("failed", Right),
            ("jobs", Right),
            ("share", Right),
            ("reasons", Left),
        ];
        self.list("failures by node, all attempts", header, rows);
        if let Some(logs) = &self.report.logs {
            let rows = logs.by_pattern.iter().map(|p| {
                vec![
                    p.pattern.to_string(),
                    p.tasks.to_string(),
                    p.meaning.to_string(),
                    p.hint.to_string(),
                ]
            });
            let rows = rows.collect();
            let header = vec![
                ("pattern", Left),
                ("tasks", Right),
                ("meaning", Left),
                ("what to do", Left),
            ];
            self.list("what the logs say", header, rows);
            if !self.has("tasks") || logs.without_log > 0 {
                self.line(format!(
                    "logs of {}: {} without a log, {} without a known error",
                    plural(logs.tasks, "task"),
                    logs.without_log,
                    logs.without_finding
                ));
            }
        }
    }
}
