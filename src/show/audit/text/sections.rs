//! The lists of a report, shared by its formats: text, Markdown, mail and page.

pub(crate) mod figures;
pub(crate) mod tasks;
pub(crate) mod upkeep;

use crate::base::sys::local_time;
use crate::base::text::{maybe, plural};
use crate::model::state::TaskKey;
use crate::show::audit::Part;
use crate::show::audit::health::percent;
use crate::show::audit::report::{Count, Report};

/// How a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
pub(crate) struct List {
    pub title: String,
    pub columns: Vec<(&'static str, Kind)>,
    /// The first cell names the row.
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
    /// For each row the index of its task in [`Report::tasks`] and its anchor. May be empty.
    pub details: Vec<(usize, String)>,
}

/// All lists, in the order of the text.
pub(crate) const LISTS: [fn(&Report) -> List; 18] = [
    upkeep::unreadable,
    figures::trend,
    figures::trend_by_procedure,
    tasks::procedures,
    tasks::stuck,
    tasks::failed,
    tasks::findings,
    tasks::incomplete,
    tasks::by_reason,
    tasks::by_node,
    tasks::by_pattern,
    upkeep::dicom,
    upkeep::stale,
    upkeep::orphans,
    upkeep::unknown_jobs,
    upkeep::scripts,
    figures::progress,
    figures::efficiency,
];

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

    pub(crate) fn is_empty(&self) -> bool {
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
pub(crate) fn head(report: &Report) -> (String, Vec<String>) {
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
pub(crate) fn counts(counts: &[Count]) -> String {
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
