//! The lists of changes, progress and efficiency.

use chrono::{DateTime, Utc};

use super::{List, plural, row};
use crate::base::sys::local_time;
use crate::show::audit::Part;
use crate::show::audit::report::{Backlog, ProcedureProgress, Rate, Report, signed};
use crate::show::efficiency::{TITLES, no_measurement, resources};

/// Changes in the whole study.
pub(crate) fn trend(report: &Report) -> List {
    let Some(trend) = &report.trend else {
        return List::new("", "", []);
    };
    let changed = trend.figures.iter().filter(|f| f.before != f.now);
    let rows = changed.map(|f| {
        let change = f.now as i128 - f.before as i128;
        let verdict = match (f.bad, change > 0) {
            (true, true) => "worse",
            (true, false) => "better",
            (false, _) => "",
        };
        let name = f.name.replace('_', " ");
        row![name, f.before, f.now, signed(change), verdict]
    });
    let title = format!("changes since {}", local_time(trend.created_at));
    let list = List::new(title, "figure | >before | >now | >change | !trend", rows);
    let unchanged = list.rows.is_empty().then(|| "no changes".to_owned());
    list.note(unchanged)
        .note(format!("compared with {}", trend.file))
}

pub(crate) fn trend_by_procedure(report: &Report) -> List {
    let procedures = report.trend.iter().flat_map(|trend| &trend.procedures);
    let rows = procedures
        .filter(|p| (p.complete_before, p.failed_before) != (p.complete_now, p.failed_now))
        .map(|p| {
            let complete = signed(p.complete_now as i128 - p.complete_before as i128);
            let failed = signed(p.failed_now as i128 - p.failed_before as i128);
            row![p.procedure, p.complete_now, complete, p.failed_now, failed]
        });
    let columns = "procedure | >complete | >change | >failed | >change";
    List::new("changes by procedure", columns, rows)
}

/// Completed and failed tasks of a procedure so far.
pub(crate) fn so_far(procedure: &ProcedureProgress) -> (usize, usize) {
    let last = procedure.days.last();
    last.map_or((0, 0), |day| (day.completed_so_far, day.failed_so_far))
}

const PER_DAY: &str =
    "per day: average of the last 7 or 28 days, or since the first job if that was later";
const BACKLOG: &str = "backlog and expected end: without failed, blocked and paused tasks";

pub(crate) fn progress(report: &Report) -> List {
    let line = |name: &str, (done, failed): (usize, usize), rate: &Rate, backlog: &Backlog| {
        let rate_text = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.1}"));
        let end = |end: DateTime<Utc>| end.format("%Y-%m-%d").to_string();
        row![
            name,
            done,
            failed,
            rate_text(rate.last_7_days),
            rate_text(rate.last_28_days),
            backlog.tasks,
            backlog.expected_end.map(end).unwrap_or_default(),
        ]
    };
    let mut rows = Vec::new();
    if let Some(progress) = &report.progress {
        let mut sum = (0, 0);
        for procedure in &progress.procedures {
            let done = so_far(procedure);
            sum = (sum.0 + done.0, sum.1 + done.1);
            let name = &procedure.procedure;
            rows.push(line(name, done, &procedure.rate, &procedure.backlog));
        }
        if rows.len() > 1 {
            rows.push(line("total", sum, &progress.rate, &progress.backlog));
        }
    }
    let columns = "procedure | >completed | >failed attempts | >per day (7 d) | >per day (28 d) | >backlog | >expected end";
    let bad = report.progress.as_ref().map_or(0, |all| all.bad_lines);
    let note = format!("{} in the audit log", plural(bad, "invalid line"));
    let mut list = List::new("progress", columns, rows);
    if !list.rows.is_empty() {
        list.notes.extend([PER_DAY, BACKLOG].map(str::to_owned));
    }
    list.note(Some(note).filter(|_| bad > 0))
}

pub(crate) fn efficiency(report: &Report) -> List {
    let rows = resources(&report.efficiency).map(|row| row.cells());
    let list = List::new("efficiency of completed jobs", TITLES, rows);
    let note = match list.rows.is_empty() {
        false => {
            "over: completed jobs that used less than half of their request; short: jobs that failed because their request was too small"
        }
        true if report.study.parts == [Part::Efficiency] => no_measurement(report.study.executor),
        true => return list,
    };
    list.note(note.to_owned())
}
