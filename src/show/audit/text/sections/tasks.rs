//! The lists about tasks: counts, what is stuck, what failed and why.

use std::collections::HashMap;

use super::{List, counts, of, of_task, plural, row};
use crate::model::job::JobId;
use crate::model::state::{TaskKey, TaskStatus};
use crate::show::audit::Part;
use crate::show::audit::health::percent;
use crate::show::audit::report::{MarkerResult, MarkerState, Report, TaskDetail};
use crate::show::tables::Standing;
use crate::show::tables::exit::{clock, size};

pub fn procedures(report: &Report) -> List {
    let all = report
        .procedures
        .iter()
        .filter(|_| report.study.has(Part::Tasks));
    let rows = all.map(|p| {
        let scope = p.scope.unwrap_or("not configured");
        row![p.name, scope, p.tasks, counts(&p.decisions), p.rows.total]
    });
    let columns = "procedure | scope | >tasks | decisions | >on record";
    List::new("procedures", columns, rows)
}

/// Sessions in which something does not go on by itself, the least healthy first.
pub fn stuck(report: &Report) -> List {
    let matrix = &report.matrix;
    let mut rows: Vec<(f64, Vec<String>)> = matrix
        .sessions
        .iter()
        .filter_map(|session| {
            let cells = session.cells.iter().zip(&matrix.procedures);
            let troubles = cells.filter_map(|(cell, procedure)| {
                let cell = cell.as_ref().filter(|cell| cell.decision.is_stuck())?;
                let reason = cell.reason.map(|reason| format!(" ({reason})"));
                let reason = reason.unwrap_or_default();
                Some(format!("{procedure} {}{reason}", cell.decision))
            });
            let troubles: Vec<String> = troubles.collect();
            let health = session.health.filter(|_| !troubles.is_empty())?;
            let cells = row![
                session.subject,
                session.session,
                health.band.as_str(),
                format!("{}/{}", health.complete, health.of),
                troubles.join(", "),
            ];
            Some((health.share, cells))
        })
        .collect();
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let rows = rows.into_iter().map(|(_, cells)| cells);
    let columns = "subject | session | health | >complete | stuck";
    List::new("sessions that do not go on", columns, rows)
}

/// True if a task failed, or the last attempt of one that is to be tried again.
fn is_failed(task: &TaskDetail) -> bool {
    task.decision == Standing::Failed
        || task
            .job
            .as_ref()
            .is_some_and(|job| job.row.status == TaskStatus::Failed)
}

pub fn failed(report: &Report) -> List {
    let logs = report.logs.iter().flat_map(|logs| &logs.findings);
    let telling: HashMap<&TaskKey, &str> = logs
        .filter(|finding| finding.telling)
        .map(|f| (&f.key, f.line.as_str()))
        .collect();
    let tasks = report.tasks.iter().enumerate();
    let failed: Vec<(usize, &TaskDetail)> = tasks.filter(|(_, task)| is_failed(task)).collect();
    let rows = failed.iter().map(|(_, task)| {
        let last = || task.log_tail.last().map(String::as_str);
        let job = task.job.as_ref();
        let failure = job.map_or(&*task.text, |job| {
            job.failure.as_deref().unwrap_or("unknown")
        });
        let facts = job.map(|job| &job.row.facts);
        let time = facts.map(|facts| [facts.elapsed_s, facts.time_limit_s]);
        let memory = facts.map(|facts| [facts.max_rss_mb, facts.req_mem_mb]);
        let used = |values: Option<[Option<i64>; 2]>, text: fn(i64) -> String| {
            let [used, asked] = values.unwrap_or_default();
            of(used.map(text), asked.map(text))
        };
        of_task(
            &task.key,
            row![
                match task.decision {
                    Standing::Failed => failure.to_owned(),
                    now => format!("{failure}; now {now}"),
                },
                job.and_then(|job| job.row.job_id.as_ref())
                    .map_or("", JobId::as_str),
                facts
                    .and_then(|facts| facts.node_list.as_deref())
                    .unwrap_or_default(),
                used(time, clock),
                used(memory, size),
                telling
                    .get(&task.key)
                    .copied()
                    .or_else(last)
                    .unwrap_or_default(),
            ],
        )
    });
    let columns = "procedure | subject | session | why | job | node | time | memory | $log";
    let mut list = List::new("failed tasks", columns, rows);
    list.details = failed.into_iter().map(|(number, _)| number).collect();
    list
}

/// Without tasks the findings stand alone.
pub fn findings(report: &Report) -> List {
    let logs = report
        .logs
        .iter()
        .filter(|_| !report.study.has(Part::Tasks));
    let rows = logs.flat_map(|logs| &logs.findings).map(|f| {
        let number = f.line_number.map(|n| format!(":{n}"));
        let file = format!("{}{}", f.file, number.unwrap_or_default());
        of_task(&f.key, row![f.pattern, f.line, file])
    });
    let columns = "procedure | subject | session | pattern | $line | $file";
    List::new("known errors in logs", columns, rows)
}

pub fn incomplete(report: &Report) -> List {
    let met = |m: &&MarkerResult| matches!(m.state, MarkerState::Found | MarkerState::Excused);
    // A job that runs is not expected to have them all.
    let tasks = report.tasks.iter();
    let tasks = tasks.filter(|task| !task.decision.is_in_flight());
    let rows = tasks.filter_map(|task| {
        let lacking = task.markers.iter().filter(|marker| !met(marker));
        let lacking: Vec<String> = lacking
            .map(|marker| {
                let word = match marker.state {
                    MarkerState::Forbidden => "forbidden ",
                    MarkerState::Unreadable => "unreadable ",
                    _ => "",
                };
                let note = marker.note.as_ref().map(|note| format!(" ({note})"));
                format!("{word}{}{}", marker.marker, note.unwrap_or_default())
            })
            .collect();
        let all = task.markers.len();
        (!lacking.is_empty()).then(|| {
            of_task(
                &task.key,
                row![
                    task.decision,
                    format!("{}/{all}", all - lacking.len()),
                    lacking.join(", "),
                ],
            )
        })
    });
    let columns = "procedure | subject | session | decision | >found | $lacking";
    List::new("outputs that are not complete", columns, rows)
}

pub fn by_reason(report: &Report) -> List {
    let groups = report.failures.by_reason.iter();
    let rows = groups.map(|group| row![group.reason, group.count, counts(&group.procedures)]);
    List::new("failures by reason", "reason | >tasks | of", rows)
}

pub fn by_node(report: &Report) -> List {
    let nodes = report.failures.by_node.iter();
    let rows = nodes.filter(|node| node.failed > 0).map(|node| {
        let reasons = counts(&node.reasons);
        row![
            node.node,
            node.failed,
            node.jobs,
            percent(node.share),
            reasons
        ]
    });
    let columns = "node | >failed | >jobs | >share | reasons";
    List::new("failures by node, all attempts", columns, rows)
}

pub fn by_pattern(report: &Report) -> List {
    let patterns = report.logs.iter().flat_map(|logs| &logs.by_pattern);
    let rows = patterns.map(|p| row![p.pattern, p.tasks, p.meaning, p.hint]);
    let columns = "pattern | >tasks | meaning | what to do";
    List::new("what the logs say", columns, rows).note(report.logs.as_ref().map(|logs| {
        format!(
            "logs of {}: {} without a log, {} without a known error",
            plural(logs.tasks, "task"),
            logs.without_log,
            logs.without_finding
        )
    }))
}
