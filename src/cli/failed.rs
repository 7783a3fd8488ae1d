//! `status --failed`: the cause of each failure, with the most informative line of its log.

use std::path::Path;

use itertools::Itertools as _;

use super::blocks::{Block, NO_BREAK};
use super::explain::output_problems;
use super::views::{self, Cut, RowsView};
use super::{
    Context, Failure, Format, Printer, Reason, Result, State, TableError, TaskRow, TaskStatus,
    Verbosity, few, maybe, plural, sys,
};
use crate::base::parallel;
use crate::decide::manifest::retry;
use crate::gather::completion::Completion;
use crate::gather::completion::probe::Probe;
use crate::gather::logs;
use crate::show::explain::remedy;
use crate::show::failures::patterns::Patterns;
use crate::show::failures::{Likeness, alike, excerpt, shared, silence};
use crate::show::notify::events::is_retried;
use crate::show::tables::words::outlook_text;
use crate::show::tables::{failure_text, ordered_rows_frame, texts, used_text};

/// Missing outputs named per task.
const MISSING_SHOWN: usize = 3;
/// Tasks named per group.
pub(super) const TASKS_SHOWN: usize = 10;

/// Details about a failed row from its logs and the retry rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FailureNote {
    /// What happens next without a user.
    outlook: String,
    /// What to change first, if an unchanged retry would fail again.
    remedy: Option<String>,
    /// What missing or empty logs may mean.
    silence: Option<String>,
    /// The log excerpt.
    line: Option<String>,
    /// The file of `line`, or the error log if there is no line.
    line_path: Option<String>,
    /// Name of the known error that the line shows.
    pattern: Option<String>,
    /// Meaning and remedy of that error.
    meaning: Option<String>,
}

type Failed = (TaskRow, FailureNote);

pub(super) const NO_FAILURES: &str = "no failed task matches";

/// Prints failed rows; as text, first the counts of all of them per procedure.
pub(super) fn print(
    context: &Context,
    mut rows: Vec<&TaskRow>,
    state: &State,
    view: &RowsView<'_>,
    printer: &mut Printer,
) -> Result<()> {
    let dag = &context.config.procedures;
    let patterns = Patterns::for_config(&context.config);
    let is_text = view.format == Format::Table;
    if is_text {
        if rows.is_empty() {
            printer.note(NO_FAILURES);
            return Ok(());
        }
        printer.line(&plural(rows.len(), "failed task"));
    }
    let is_grouped = is_text && printer.verbosity() < Verbosity::Verbose;
    let view = RowsView {
        // Groups need no limit: their length does not depend on the number of tasks.
        limit: view.limit.or(is_grouped.then_some(0)),
        ..*view
    };
    let (cut, _) = views::arrange(&mut rows, dag, &view, printer);
    let threads = context.config.scan_threads;
    let failures: Vec<Failed> = parallel::map(&rows, threads, |row| {
        ((*row).clone(), note(context, row, state, &patterns))
    });
    if is_text {
        let probe = context.probe()?;
        let groups = if is_grouped {
            alike(&failures, |(row, note)| {
                Likeness::new(row, note.line.as_deref())
            })
        } else {
            failures.iter().map(|failed| vec![failed]).collect()
        };
        let missing = parallel::map(&groups, threads, |group| {
            group.first().map(|(row, _)| missing(context, &probe, row))
        });
        for (group, missing) in groups.iter().zip(missing) {
            let mut block = Block::new(printer.options());
            block.gap();
            describe(&mut block, group, &missing.unwrap_or_default());
            printer.data(block.finish().as_bytes());
        }
        if failures.len() > groups.len() {
            printer.hint("-v shows every task with its own log");
        }
    } else {
        let rows: Vec<&TaskRow> = failures.iter().map(|(row, _)| row).collect();
        let column = |name: &str, get: fn(&FailureNote) -> Option<&str>| {
            texts(name, failures.iter().map(|(_, note)| get(note)))
        };
        let frame = ordered_rows_frame(&rows, view.log_dir)?.hstack(&[
            column("outlook", |note| Some(&note.outlook)),
            column("log_line", |note| note.line.as_deref()),
            column("log_line_path", |note| note.line_path.as_deref()),
            column("log_pattern", |note| note.pattern.as_deref()),
        ]);
        printer.frame(&frame.map_err(TableError::from)?, view.format, &[], &[])?;
    }
    Cut::report(cut, printer, "rows");
    Ok(())
}

/// The missing outputs of a job that ended without an error, and what exists instead.
fn missing(context: &Context, probe: &Probe, row: &TaskRow) -> Vec<String> {
    if row.reason != Some(Reason::NoOutput) {
        return Vec::new();
    }
    let id = context.config.procedures.find(&row.key.procedure);
    let (Some(id), Some((subject, session))) = (id, row.key.labels()) else {
        return Vec::new();
    };
    let found = probe.explainer(&subject).findings(id, &session);
    let mut texts = output_problems(&found);
    if texts.is_empty() && found.verdict == Completion::Complete {
        texts.push("they exist now: `retry --accept-outputs` accepts them".to_owned());
    }
    if let more @ 1.. = texts.len().saturating_sub(MISSING_SHOWN) {
        texts.truncate(MISSING_SHOWN);
        texts.push(format!("and {more} more"));
    }
    texts
}

/// Groups failed rows that are alike.
pub(super) fn groups<'a>(context: &Context, rows: &'a [TaskRow]) -> Vec<Vec<&'a TaskRow>> {
    let patterns = Patterns::for_config(&context.config);
    alike(rows, |row| {
        Likeness::from_logs(row, &context.config, &context.store, &patterns)
    })
}

/// Keeps only the failed rows that are alike the one that the words name.
pub(super) fn keep_alike(
    context: &Context,
    words: &[String],
    state: &State,
    rows: &mut Vec<TaskRow>,
) -> Result<()> {
    let named = context.named(words.iter().map(String::as_str), state)?;
    let is_named = |row: &&TaskRow| named.contains(&row.key);
    context.refuse_unknown(state.rows().iter().map(|row| &row.key), named.labels())?;
    let rows_of_named = state.rows().iter().filter(is_named);
    let failed = rows_of_named.filter(|row| row.status == TaskStatus::Failed);
    let found: Vec<&TaskRow> = failed.collect();
    let [one] = found[..] else {
        return Err(Failure::usage(
            format!("{named} names {}", plural(found.len(), "failed task")),
            "name one of those that `snbb-scheduler status --failed` lists",
        ));
    };
    let Context { config, store, .. } = context;
    let patterns = Patterns::for_config(config);
    let wanted = Likeness::from_logs(one, config, store, &patterns);
    // The other comparisons are cheaper than reading logs.
    rows.retain(|row| {
        let may_be = row.key.procedure == one.key.procedure && row.reason == one.reason;
        may_be && Likeness::from_logs(row, config, store, &patterns) == wanted
    });
    Ok(())
}

/// Describes a group of similar failures by the first of them, leaving out what the others do not share.
fn describe(block: &mut Block, group: &[&Failed], missing: &[String]) {
    let Some((row, note)) = group.first() else {
        return;
    };
    let shared = |get: &dyn Fn(&Failed) -> Option<String>| shared(group, |failed| get(failed));
    let reason = row.reason_word();
    if group.len() > 1 {
        block.title(
            &row.key.procedure,
            &format!("failed ({reason}), {} tasks", group.len()),
        );
    } else {
        let attempt = row.attempt.unwrap_or(1);
        let job = maybe(", job ", row.job_id.as_ref(), "");
        block.title(
            &row.key.to_string(),
            &format!("failed ({reason}), attempt {attempt}{job}"),
        );
    }
    let ended = |row: &TaskRow| row.facts.ended_at.or(row.updated_at);
    let path = note.line_path.as_ref();
    let path = path.map(|path| path.replace(' ', &NO_BREAK.to_string()));
    let label = if path.is_some() { "" } else { "log" };
    let tasks = group.iter().map(|(row, _)| row.key.labels_text());
    let tasks = few(&tasks.collect_vec(), TASKS_SHOWN);
    let mut entries = vec![("why", shared(&|(row, _)| failure_text(row)))];
    entries.extend(missing.iter().map(|text| ("", Some(text.clone()))));
    entries.extend([
        ("used", shared(&|(row, _)| used_text(row))),
        ("ended", shared(&|(row, _)| ended(row).map(sys::local_time))),
        ("excerpt", note.line.clone()),
        ("meaning", note.meaning.clone()),
        ("log", path),
        (label, shared(&|(_, note)| note.silence.clone())),
        ("to do", shared(&|(_, note)| note.remedy.clone())),
        ("next", shared(&|(_, note)| Some(note.outlook.clone()))),
        ("tasks", Some(tasks).filter(|_| group.len() > 1)),
    ]);
    for (label, text) in entries {
        block.entries(label, text);
    }
}

fn note(context: &Context, row: &TaskRow, state: &State, patterns: &Patterns) -> FailureNote {
    let Context { config, store, .. } = context;
    let own = config.procedures.named(&row.key.procedure);
    let rules = own.and_then(|own| own.rules.retry.as_ref());
    let outlook = retry::outlook(rules, row, state.meta.owner_uid, sys::now());
    let mut note = FailureNote {
        outlook: outlook_text(outlook),
        remedy: remedy(config, row).filter(|_| !outlook.is_retry()),
        ..FailureNote::default()
    };
    let Some(files) = logs::files_of(config, store, row) else {
        return note;
    };
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let Some((file, found)) = excerpt(&files, patterns) else {
        let has_log = files.error.symlink_metadata().is_ok();
        note.line_path = has_log.then(|| path(&files.error));
        note.silence = silence(row, &files);
        return note;
    };
    note.line_path = Some(path(file));
    note.pattern = found.meaning.map(|meaning| meaning.name.to_string());
    // The remedy is more specific.
    let hint = |hint: &str| !hint.is_empty() && note.remedy.is_none();
    note.meaning = found.meaning.map(|meaning| match hint(&meaning.hint) {
        true => format!("{}: {}", meaning.meaning, meaning.hint),
        false => meaning.meaning.to_string(),
    });
    note.line = Some(found.line);
    note
}

/// Hints at the next step for failed tasks. Not with `-q`.
pub(super) fn hint_at_failures(state: &State, context: &Context, printer: &mut Printer) {
    let failed = state.count(TaskStatus::Failed);
    if failed == 0 || printer.is_quiet() {
        return;
    }
    let (owner, rows) = (state.meta.owner_uid, state.rows().iter());
    let again = rows.filter(|row| is_retried(&context.config, owner, row, sys::now()));
    let again = Some(again.count()).filter(|count| *count > 0);
    printer.hint(&format!(
        "{}{}: `snbb-scheduler status --failed` shows why; after fixing the cause, run `snbb-scheduler retry`",
        plural(failed, "failed task"),
        maybe(" (", again, " will be retried automatically)")
    ));
}
