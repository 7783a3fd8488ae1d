//! What the text shows, in which order. Knows neither alignment nor Markdown.

use std::collections::HashMap;

use super::Align::{self, Left, Right};
use crate::audit::efficiency::{memory_text, time_limit_text};
use crate::audit::report::{
    DicomProblem, MarkerResult, MarkerState, OrphanCause, Report, TaskDetail, Usage, Verdict,
    time_text,
};

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
            study.project,
            time_text(study.created_at)
        )));
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
                line.push_str(&format!(", {} without tasks", health.none));
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

    fn unreadable(&mut self) {
        let rows = self
            .report
            .unreadable
            .iter()
            .map(|what| vec![what.part.to_owned(), what.path.clone(), what.error.clone()]);
        let rows = rows.collect();
        let header = vec![("part", Left), ("path", Left), ("error", Left)];
        self.list(
            "could not be read: the figures are not the whole truth",
            header,
            rows,
        );
    }

    fn trend(&mut self) {
        let Some(trend) = &self.report.trend else {
            return;
        };
        let changed = trend.matters.iter().filter(|m| m.before != m.now);
        let rows: Vec<Vec<String>> = changed
            .map(|m| {
                let change = m.now as i128 - m.before as i128;
                let mark = match (m.bad, change > 0) {
                    (true, true) => "worse",
                    (true, false) => "better",
                    (false, _) => "",
                };
                vec![
                    m.matter.replace('_', " "),
                    m.before.to_string(),
                    m.now.to_string(),
                    format!("{change:+}"),
                    mark.to_owned(),
                ]
            })
            .collect();
        let since = time_text(trend.created_at);
        if rows.is_empty() {
            self.line(format!("nothing has changed since the report of {since}"));
        }
        let header = vec![
            ("matter", Left),
            ("before", Right),
            ("now", Right),
            ("change", Right),
            ("", Left),
        ];
        self.list(&format!("changes since {since}"), header, rows);
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

    /// Sessions in which something does not go on by itself, the least healthy first.
    fn sessions(&mut self) {
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
                        let stuck = matches!(cell.decision, "failed" | "blocked" | "unreadable");
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

    fn failed(&mut self) {
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
                    task.reason.unwrap_or("unknown").to_owned(),
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
            ("reason", Left),
            ("job", Left),
            ("node", Left),
            ("time", Left),
            ("memory", Left),
            ("log", Left),
        ];
        self.list("failed tasks", header, rows);
        if !self.has("tasks") {
            // Without details the findings stand alone.
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
    }

    fn markers(&mut self) {
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

    fn causes(&mut self) {
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
                    "logs of {} failed: {} without a log, {} without a known error",
                    plural(logs.tasks, "task"),
                    logs.without_log,
                    logs.without_finding
                ));
            }
        }
    }

    fn dicom(&mut self) {
        let Some(dicom) = &self.report.dicom else {
            return;
        };
        let rows: Vec<Vec<String>> = dicom
            .findings
            .iter()
            .map(|finding| {
                let text = match finding.problem {
                    DicomProblem::Missing => "missing".to_owned(),
                    DicomProblem::FewFiles => format!(
                        "{}, at least {} expected",
                        plural(finding.files.unwrap_or(0) as usize, "file"),
                        dicom.min_files
                    ),
                    DicomProblem::Unreadable => {
                        format!("unreadable: {}", finding.error.as_deref().unwrap_or("?"))
                    }
                };
                vec![
                    finding.subject.to_string(),
                    finding.session.to_string(),
                    text,
                    finding.path.clone().unwrap_or_default(),
                ]
            })
            .collect();
        let is_fine = rows.is_empty();
        let header = vec![
            ("subject", Left),
            ("session", Left),
            ("problem", Left),
            ("path", Left),
        ];
        self.list("DICOM directories", header, rows);
        if is_fine && !self.has("tasks") {
            self.line(format!(
                "DICOM directories of {}: nothing to report",
                plural(dicom.checked, "session")
            ));
        }
    }

    fn jobs(&mut self) {
        let stale = self.report.stale.iter().map(|job| {
            vec![
                job.procedure.to_string(),
                job.subject.to_string(),
                job.session.to_string(),
                job.job_id.as_deref().unwrap_or_default().to_owned(),
                job.status.to_owned(),
                job.reason.unwrap_or_default().to_owned(),
                format!("{} days {} h", job.hours / 24, job.hours % 24),
            ]
        });
        let stale = stale.collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("job", Left),
            ("status", Left),
            ("reason", Left),
            ("in flight for", Right),
        ];
        self.list("stale jobs", header, stale);
        let rows = self.report.orphans.rows.iter().map(|row| {
            let cause = match row.cause {
                OrphanCause::Procedure => "the configuration has no such procedure",
                OrphanCause::Session => "there is no such subject or session",
                OrphanCause::Scope => "the procedure has another scope",
            };
            vec![
                row.procedure.to_string(),
                row.subject.to_string(),
                row.session.to_string(),
                row.status.to_owned(),
                row.job_id.as_deref().unwrap_or_default().to_owned(),
                cause.to_owned(),
            ]
        });
        let rows = rows.collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("status", Left),
            ("job", Left),
            ("why", Left),
        ];
        self.list("rows without task", header, rows);
        let jobs = self.report.orphans.jobs.iter().flatten().map(|job| {
            vec![
                job.job_id.to_string(),
                job.name.clone(),
                job.slurm_state.as_deref().unwrap_or_default().to_owned(),
            ]
        });
        let jobs = jobs.collect();
        let header = vec![("job", Left), ("name", Left), ("state", Left)];
        self.list("living jobs without task", header, jobs);
    }

    fn scripts(&mut self) {
        let rows = self.report.scripts.iter().map(|script| {
            let lines = script.lines.iter();
            let lines: Vec<String> = lines
                .map(|line| format!("line {}: {}", line.number, line.text))
                .collect();
            let text = if lines.is_empty() {
                script.text.clone()
            } else {
                format!("{} ({})", script.text, lines.join(", "))
            };
            vec![script.procedure.to_string(), script.script.clone(), text]
        });
        let rows = rows.collect();
        let header = vec![("procedure", Left), ("script", Left), ("problem", Left)];
        self.list("job scripts", header, rows);
    }

    fn progress(&mut self) {
        let Some(progress) = &self.report.progress else {
            return;
        };
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.1}"));
        let end = |end: Option<chrono::DateTime<chrono::Utc>>| {
            end.map_or(String::new(), |end| end.format("%Y-%m-%d").to_string())
        };
        let mut rows: Vec<Vec<String>> = progress
            .procedures
            .iter()
            .map(|procedure| {
                let last = procedure.days.last();
                vec![
                    procedure.procedure.to_string(),
                    last.map_or(0, |day| day.completed_so_far).to_string(),
                    last.map_or(0, |day| day.failed_so_far).to_string(),
                    rate(procedure.rate.last_7_days),
                    rate(procedure.rate.last_28_days),
                    procedure.backlog.tasks.to_string(),
                    end(procedure.backlog.expected_end),
                ]
            })
            .collect();
        if rows.len() > 1 {
            let sum = |get: fn(&crate::audit::report::Day) -> usize| {
                let last = progress.procedures.iter().filter_map(|p| p.days.last());
                last.map(get).sum::<usize>().to_string()
            };
            rows.push(vec![
                "total".to_owned(),
                sum(|day| day.completed_so_far),
                sum(|day| day.failed_so_far),
                rate(progress.rate.last_7_days),
                rate(progress.rate.last_28_days),
                progress.backlog.tasks.to_string(),
                end(progress.backlog.expected_end),
            ]);
        }
        let header = vec![
            ("procedure", Left),
            ("completed", Right),
            ("failed", Right),
            ("a day (7 d)", Right),
            ("a day (28 d)", Right),
            ("backlog", Right),
            ("expected end", Right),
        ];
        self.list("progress", header, rows);
    }

    fn efficiency(&mut self) {
        let mut rows = Vec::new();
        for found in &self.report.efficiency {
            let name = found.procedure.to_string();
            let usages: [(&str, &Option<Usage>, fn(i64) -> String); 2] = [
                ("memory", &found.memory, memory_text),
                ("time", &found.time, time_limit_text),
            ];
            for (what, usage, text) in usages {
                let Some(usage) = usage else { continue };
                let used = |get: fn(&crate::audit::report::Percentiles) -> i64| {
                    usage
                        .used
                        .as_ref()
                        .map_or(String::new(), |used| text(get(used)))
                };
                rows.push(vec![
                    name.clone(),
                    what.to_owned(),
                    usage.n.to_string(),
                    used(|p| p.p50),
                    used(|p| p.p90),
                    used(|p| p.p95),
                    used(|p| p.max),
                    usage.asked.map_or(String::new(), text),
                    usage.over_asked.to_string(),
                    usage.under_asked.to_string(),
                    match usage.verdict {
                        Verdict::OverAsked => "over-asked",
                        Verdict::UnderAsked => "under-asked",
                        Verdict::Fits => "fits",
                        Verdict::Unknown => "",
                    }
                    .to_owned(),
                    usage.suggested_text.clone().map_or(String::new(), |value| {
                        let key = if what == "memory" { "mem" } else { "time" };
                        format!("{key}: {value}")
                    }),
                ]);
            }
            if let Some(cpu) = &found.cpu {
                let mut row = vec![
                    name,
                    "CPU".to_owned(),
                    cpu.n.to_string(),
                    percent(cpu.busy_p50),
                    percent(cpu.busy_p90),
                ];
                row.resize(7, String::new());
                row.push(plural(cpu.alloc_cpus.max(0) as usize, "CPU"));
                row.resize(12, String::new());
                rows.push(row);
            }
        }
        let is_empty = rows.is_empty();
        let header = vec![
            ("procedure", Left),
            ("used", Left),
            ("n", Right),
            ("p50", Right),
            ("p90", Right),
            ("p95", Right),
            ("max", Right),
            ("asked", Right),
            ("half unused", Right),
            ("too little", Right),
            ("verdict", Left),
            ("suggested", Left),
        ];
        self.list("efficiency of completed jobs", header, rows);
        if is_empty && self.has("efficiency") && !self.has("tasks") {
            self.line("no job has been measured yet (needs Slurm's accounting)".to_owned());
        }
    }
}

fn plural(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
