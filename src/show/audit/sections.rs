//! The lists of a report, shared by its formats: text, Markdown, mail and page.

pub(super) mod tasks;

use chrono::{DateTime, Duration, NaiveDate, Utc};

use super::Report;
use super::inputs::DicomProblem;
use super::{Count, Part, percent};
use crate::act::clean::OrphanCause;
use crate::base::sys::local_time;
use crate::base::text::{maybe, plural};
use crate::model::state::TaskKey;
use crate::show::efficiency::{TITLES, no_measurement, resources};
use crate::show::progress::{Backlog, ProcedureProgress, Rate};

/// How a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Right-aligned; `>` before the title.
    Number,
    /// A path or a line of a log; `$` before the title.
    Code,
    /// A word that the page colours; `!` before the title.
    Verdict,
}

/// One list of the report with its notes. A list without rows and notes is omitted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct List {
    pub title: String,
    pub columns: Vec<(&'static str, Kind)>,
    /// The first cell names the row.
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
    /// For each row the index of its task in [`Report::tasks`] and its anchor. May be empty.
    pub details: Vec<(usize, String)>,
}

/// All lists, in the order of the text.
pub(super) const LISTS: [fn(&Report) -> List; 18] = [
    unreadable,
    trend,
    trend_by_procedure,
    tasks::procedures,
    tasks::stuck,
    tasks::failed,
    tasks::findings,
    tasks::incomplete,
    tasks::by_reason,
    tasks::by_node,
    tasks::by_pattern,
    dicom,
    stale,
    orphans,
    unknown_jobs,
    scripts,
    progress,
    efficiency,
];

/// The lists about maintenance, the most urgent first.
pub(super) const UPKEEP: [fn(&Report) -> List; 6] =
    [unreadable, stale, dicom, scripts, orphans, unknown_jobs];

impl List {
    /// `columns` are the titles, separated by ` | `, each with the sign of its [`Kind`].
    fn new(
        title: impl Into<String>,
        columns: &'static str,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let columns = columns.split(" | ").map(|title| {
            let signs = [('>', Kind::Number), ('$', Kind::Code), ('!', Kind::Verdict)];
            let mut found = signs
                .iter()
                .filter_map(|(sign, kind)| Some((title.strip_prefix(*sign)?, *kind)));
            found.next().unwrap_or((title, Kind::Text))
        });
        Self {
            title: title.into(),
            columns: columns.collect(),
            rows: rows.into_iter().collect(),
            notes: Vec::new(),
            details: Vec::new(),
        }
    }

    fn note(mut self, note: impl Into<Option<String>>) -> Self {
        self.notes.extend(note.into());
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.notes.is_empty()
    }
}

/// A row of printable values.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
use row;

/// A row that begins with the names of a task.
fn of_task(key: &TaskKey, rest: Vec<String>) -> Vec<String> {
    let mut row = row![key.procedure, key.subject, key.session];
    row.extend(rest);
    row
}

/// The title of a report, and lines about the whole study.
pub(super) fn head(report: &Report) -> (String, Vec<String>) {
    let study = &report.study;
    let at = local_time(study.created_at);
    let mut lines = vec![match &study.config {
        Some(config) => format!("configuration: {config}"),
        None => format!("state: {}", study.state_file),
    }];
    let selection = study.selection.iter();
    lines.extend(selection.map(|selection| format!("selection: {selection}")));
    let totals = &report.totals;
    if study.has(Part::Tasks) {
        let counts = counts(&totals.decisions);
        lines.push(format!(
            "{} of {}, {}: {}",
            plural(totals.sessions, "session"),
            plural(totals.subjects, "subject"),
            plural(totals.tasks, "task"),
            if counts.is_empty() { "none" } else { &counts }
        ));
        let health = &report.health;
        let none = Some(health.none).filter(|none| *none > 0);
        let none = maybe(", ", none, " not rated");
        let mean = maybe("; on average ", health.mean.map(percent), " complete");
        lines.push(format!(
            "health of sessions: {} good, {} fair, {} poor{none}{mean}",
            health.good, health.fair, health.poor
        ));
    }
    let rows = &totals.rows;
    lines.push(format!(
        "{} on record: {} pending, {} running, {} complete, {} failed",
        plural(rows.total, "task"),
        rows.pending,
        rows.running,
        rows.complete,
        rows.failed
    ));
    (format!("Audit of {} at {at}", study.name()), lines)
}

/// `2 complete, 1 failed`.
pub(super) fn counts(counts: &[Count]) -> String {
    let counts = counts.iter();
    let texts: Vec<String> = counts.map(|c| format!("{} {}", c.count, c.word)).collect();
    texts.join(", ")
}

/// `8100M of 8G`, `? of 8G` if the use is unknown, `8100M` if the request is.
fn of(used: Option<String>, asked: Option<String>) -> String {
    match (used, asked) {
        (used, None) => used.unwrap_or_default(),
        (used, Some(asked)) => format!("{} of {asked}", used.as_deref().unwrap_or("?")),
    }
}

/// Changes in the whole study.
pub(super) fn trend(report: &Report) -> List {
    let Some(trend) = &report.trend else {
        return List::new("", "", []);
    };
    let changed = trend.figures.iter().filter(|f| f.before != f.now);
    let rows = changed.map(|f| {
        let verdict = match f.bad {
            true if f.now > f.before => "worse",
            true => "better",
            false => "",
        };
        let name = f.name.replace('_', " ");
        row![name, f.before, f.now, signed(f.before, f.now), verdict]
    });
    let title = format!("changes since {}", local_time(trend.created_at));
    let list = List::new(title, "figure | >before | >now | >change | !trend", rows);
    let unchanged = list.rows.is_empty().then(|| "no changes".to_owned());
    list.note(unchanged)
        .note(format!("compared with {}", trend.file))
}

pub(super) fn trend_by_procedure(report: &Report) -> List {
    let procedures = report.trend.iter().flat_map(|trend| &trend.procedures);
    let changed = procedures
        .filter(|p| (p.complete_before, p.failed_before) != (p.complete_now, p.failed_now));
    let rows = changed.map(|p| {
        let complete = signed(p.complete_before, p.complete_now);
        let failed = signed(p.failed_before, p.failed_now);
        row![p.procedure, p.complete_now, complete, p.failed_now, failed]
    });
    let columns = "procedure | >complete | >change | >failed | >change";
    List::new("changes by procedure", columns, rows)
}

/// Completed and failed tasks of a procedure so far.
pub(super) fn so_far(procedure: &ProcedureProgress) -> (usize, usize) {
    let last = procedure.days.last();
    last.map_or((0, 0), |day| (day.completed_so_far, day.failed_so_far))
}

pub(super) fn progress(report: &Report) -> List {
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
    List::new("progress", columns, rows).note(Some(note).filter(|_| bad > 0))
}

/// A day with its completed and failed tasks.
pub(super) type Counts = (NaiveDate, usize, usize);

/// The last days up to that of the report, over all procedures.
pub(super) fn daily(report: &Report, days: i64) -> Vec<Counts> {
    let procedures = || report.progress.iter().flat_map(|all| &all.procedures);
    let daily = (0..days).rev().map(|back| {
        let date = report.study.created_at.date_naive() - Duration::days(back);
        let of_day = || procedures().flat_map(|p| p.days.iter().filter(|day| day.date == date));
        let done = of_day().map(|day| day.completed).sum();
        (date, done, of_day().map(|day| day.failed).sum())
    });
    daily.collect()
}

pub(super) fn per_day(days: &[Counts]) -> List {
    let rows = days
        .iter()
        .map(|(day, done, failed)| row![day, done, failed]);
    List::new("days", "day | >completed | >failed", rows)
}

pub(super) fn efficiency(report: &Report) -> List {
    let rows = resources(&report.efficiency).map(|row| row.cells());
    let list = List::new("efficiency of completed jobs", TITLES, rows);
    let is_missed = list.rows.is_empty() && report.study.parts == [Part::Efficiency];
    let note = no_measurement(report.study.executor).to_owned();
    list.note(Some(note).filter(|_| is_missed))
}

/// A change with its sign.
fn signed(before: usize, now: usize) -> String {
    format!("{:+}", now as i128 - before as i128)
}

pub(super) fn unreadable(report: &Report) -> List {
    let items = report.unreadable.iter();
    let rows = items.map(|item| row![item.part, item.path, item.error]);
    let title = "unreadable: the figures are incomplete";
    List::new(title, "part | $path | error", rows)
}

pub(super) fn dicom(report: &Report) -> List {
    let dicom = report.dicom.as_ref();
    let least = dicom.map_or(0, |dicom| dicom.min_files);
    let findings = dicom.iter().flat_map(|dicom| &dicom.findings);
    let rows = findings.map(|finding| {
        let problem = match finding.problem {
            DicomProblem::Missing => "missing".to_owned(),
            DicomProblem::FewFiles => {
                let files = plural(finding.files.unwrap_or(0) as usize, "file");
                format!("{files}, at least {least} expected")
            }
            DicomProblem::Unreadable => {
                format!("unreadable: {}", finding.error.as_deref().unwrap_or("?"))
            }
        };
        let path = finding.path.as_deref().unwrap_or_default();
        row![finding.subject, finding.session, problem, path]
    });
    let columns = "subject | session | problem | $path";
    let list = List::new("DICOM directories", columns, rows);
    list.note(dicom.map(|dicom| {
        let (sessions, bad) = (plural(dicom.checked, "session"), dicom.findings.len());
        let files = plural(least as usize, "file");
        format!("{sessions} checked, {bad} with a problem; at least {files} expected in each")
    }))
}

pub(super) fn stale(report: &Report) -> List {
    let rows = report.stale.iter().map(|job| {
        let id = maybe("", job.job_id.as_ref(), "");
        let reason = maybe("", job.reason, "");
        let (at, age) = (local_time(job.submitted_at), job.hours);
        let age = format!("{} days {} h", age / 24, age % 24);
        of_task(&job.key, row![id, job.status, reason, at, age])
    });
    let columns =
        "procedure | subject | session | job | status | reason | submitted | >in flight for";
    List::new("stale jobs", columns, rows)
}

pub(super) fn orphans(report: &Report) -> List {
    let rows = report.orphans.rows.iter().map(|row| {
        let cause = match row.cause {
            OrphanCause::Procedure => "the configuration has no such procedure",
            OrphanCause::Session => "no such subject or session",
            OrphanCause::Scope => "the procedure has a different scope now",
        };
        let job = maybe("", row.job_id.as_ref(), "");
        of_task(&row.key, row![row.status, job, cause])
    });
    let columns = "procedure | subject | session | status | job | cause";
    List::new("rows without a task", columns, rows)
}

pub(super) fn unknown_jobs(report: &Report) -> List {
    let jobs = report.orphans.jobs.iter().flatten();
    let rows = jobs.map(|job| {
        let state = job.slurm_state.as_deref().unwrap_or_default();
        row![job.job_id, job.name, state]
    });
    List::new("jobs without a row", "job | $name | state", rows)
}

pub(super) fn scripts(report: &Report) -> List {
    let rows = report.scripts.iter().map(|script| {
        let lines = script.lines.iter();
        let lines = lines.map(|line| format!("; line {}: {}", line.number, line.text));
        let text = script.text.clone() + &lines.collect::<String>();
        row![script.procedure, script.script, text]
    });
    List::new("job scripts", "procedure | $script | problem", rows)
}
