//! The lists about tasks: counts, stuck sessions, failures and their causes.

use super::{List, counts, of, of_task, plural, row};
use crate::base::text::{few, maybe};
use crate::gather::completion::explain::FindingState;
use crate::show::audit::Report;
use crate::show::audit::attention::FailureGroup;
use crate::show::audit::details::{JobDetail, MarkerResult, TaskDetail};
use crate::show::audit::{Part, percent};
use crate::show::failures::shared;
use crate::show::tables::TaskState;
use crate::show::tables::exit::{clock, size};

/// Tasks that are named per group.
const LABELS: usize = 3;

pub(crate) fn procedures(report: &Report) -> List {
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

/// Sessions with a stuck task, the least healthy first.
pub(crate) fn stuck(report: &Report) -> List {
    let matrix = &report.matrix;
    let mut rows: Vec<(f64, Vec<String>)> = matrix
        .sessions
        .iter()
        .filter_map(|session| {
            let cells = session.cells.iter().zip(&matrix.procedures);
            let troubles = cells.filter_map(|(cell, procedure)| {
                let cell = cell.as_ref().filter(|cell| cell.decision.is_stuck())?;
                let reason = maybe(" (", cell.reason, ")");
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
    List::new("stuck sessions", columns, rows)
}

/// Failed tasks, one row per group of similar failures.
pub(crate) fn failed(report: &Report) -> List {
    let rows = report.failures.groups.iter().map(|group| {
        let tasks = members(report, group);
        let all = |get: fn(&JobDetail) -> String| {
            let value = shared(&tasks, |task| task.job.as_ref().map(get));
            value.unwrap_or_default()
        };
        let labels = tasks.iter().map(|task| task.key.labels_text());
        let labels: Vec<String> = labels.collect();
        let why = group.failure.as_deref().unwrap_or(group.reason);
        let now = shared(&tasks, |task| Some(task.decision));
        let now = now.filter(|now| *now != TaskState::Failed);
        row![
            group.procedure,
            tasks.len(),
            why.to_owned() + &maybe("; now ", now, ""),
            all(node),
            all(time_used),
            all(memory_used),
            group.log_line.as_deref().unwrap_or_default(),
            few(&labels, LABELS)
                + &maybe(", job ", Some(all(job_id)).filter(|id| !id.is_empty()), ""),
        ]
    });
    let columns = "procedure | >tasks | cause | node | time | memory | $log | which";
    List::new("failed tasks", columns, rows)
}

/// The tasks of one group.
pub(crate) fn failed_alike(report: &Report, group: &FailureGroup) -> List {
    let tasks = members(report, group);
    let rows = tasks.iter().map(|task| {
        let of = |get: fn(&JobDetail) -> String| task.job.as_ref().map_or(String::new(), get);
        let [job, node, time, memory] = [job_id, node, time_used, memory_used].map(of);
        row![
            task.key.labels_text(),
            job,
            node,
            time,
            memory,
            task.decision
        ]
    });
    let columns = "task | job | node | time | memory | now";
    let mut list = List::new(plural(tasks.len(), "task"), columns, rows);
    let ids = tasks.iter().map(|task| task.key.words().replace(' ', "_"));
    list.details = group.tasks.iter().copied().zip(ids).collect();
    list
}

fn members<'a>(report: &'a Report, group: &FailureGroup) -> Vec<&'a TaskDetail> {
    let tasks = group.tasks.iter().map(|number| report.tasks.get(*number));
    tasks.flatten().collect()
}

fn job_id(job: &JobDetail) -> String {
    maybe("", job.row.job_id.as_ref(), "")
}

fn node(job: &JobDetail) -> String {
    maybe("", job.row.facts.node_list.as_ref(), "")
}

fn time_used(job: &JobDetail) -> String {
    let facts = &job.row.facts;
    of(facts.elapsed_s.map(clock), facts.time_limit_s.map(clock))
}

fn memory_used(job: &JobDetail) -> String {
    let facts = &job.row.facts;
    of(facts.max_rss_mb.map(size), facts.req_mem_mb.map(size))
}

/// Log findings, shown only if the report has no tasks.
pub(crate) fn findings(report: &Report) -> List {
    let logs = report
        .logs
        .iter()
        .filter(|_| !report.study.has(Part::Tasks));
    let rows = logs.flat_map(|logs| &logs.findings).map(|f| {
        let file = f.file.clone() + &maybe(":", f.line_number, "");
        of_task(&f.key, row![f.pattern, f.line, file])
    });
    let columns = "procedure | subject | session | pattern | $line | $file";
    List::new("log lines with known errors", columns, rows)
}

pub(crate) fn incomplete(report: &Report) -> List {
    let is_unmet =
        |m: &&MarkerResult| !matches!(m.state, FindingState::Found | FindingState::NotNeeded);
    // A running job has no complete outputs yet.
    let tasks = report.tasks.iter();
    let tasks = tasks.filter(|task| !task.decision.is_in_flight());
    let rows = tasks.filter_map(|task| {
        let unmet = task.markers.iter().filter(is_unmet).map(|marker| {
            let word = match marker.state {
                FindingState::Forbidden => "forbidden ",
                FindingState::Unreadable => "unreadable ",
                _ => "",
            };
            let note = maybe(" (", marker.note.as_ref(), ")");
            format!("{word}{}{note}", marker.marker)
        });
        let (unmet, all) = (unmet.collect::<Vec<_>>(), task.markers.len());
        let found = format!("{}/{all}", all - unmet.len());
        let row = of_task(&task.key, row![task.decision, found, unmet.join(", ")]);
        Some(row).filter(|_| !unmet.is_empty())
    });
    let columns = "procedure | subject | session | decision | >found | $missing or wrong";
    List::new("incomplete outputs", columns, rows)
}

pub(crate) fn by_reason(report: &Report) -> List {
    let groups = report.failures.by_reason.iter();
    let rows = groups.map(|group| row![group.reason, group.count, counts(&group.procedures)]);
    List::new("failures by reason", "reason | >tasks | procedures", rows)
}

pub(crate) fn by_node(report: &Report) -> List {
    let nodes = report.failures.by_node.iter();
    let rows = nodes.filter(|node| node.failed > 0).map(|node| {
        let (share, reasons) = (percent(node.share), counts(&node.reasons));
        row![node.node, node.failed, node.jobs, share, reasons]
    });
    let columns = "node | >failed | >jobs | >failure rate | reasons";
    List::new("failures by node, all attempts", columns, rows)
}

pub(crate) fn by_pattern(report: &Report) -> List {
    let patterns = report.logs.iter().flat_map(|logs| &logs.by_pattern);
    let rows = patterns.map(|p| row![p.pattern, p.tasks, p.meaning, p.hint]);
    let columns = "pattern | >tasks | meaning | remedy";
    let logs = report.logs.as_ref().filter(|logs| logs.tasks > 0);
    List::new("known errors in logs", columns, rows).note(logs.map(|logs| {
        format!(
            "logs of {}: {} without a known error, {} missing",
            plural(logs.tasks, "task"),
            logs.without_finding,
            logs.without_log
        )
    }))
}
