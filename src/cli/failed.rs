//! `status --failed`: what is known of each failure, with the line of its log that tells most.

use std::path::Path;

use super::blocks::Block;
use super::context::Context;
use super::error::Failure;
use super::explain::troubles;
use super::output::{Format, Printer};
use super::views::{self, RowsView};
use crate::audit::patterns::Patterns;
use crate::bids::{SessionLabel, SubjectLabel};
use crate::completion::explain::Verdict;
use crate::completion::probe::Probe;
use crate::explain::{remedy, silence, telling};
use crate::logs;
use crate::manifest::retry;
use crate::parallel;
use crate::state::{Reason, State, TaskRow};
use crate::sys;
use crate::tables::tasks::FailureNote;
use crate::tables::words::outlook_text_of;
use crate::tables::{failure_text_for, failures_frame, used_text};

/// So many missing outputs of a task are named.
const MISSING_SHOWN: usize = 3;

/// Prints failed rows; as text, first the counts per procedure and status of all of them.
pub fn print(
    context: &Context,
    mut rows: Vec<&TaskRow>,
    state: &State,
    view: &RowsView<'_>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let dag = &context.config.procedures;
    let patterns = Patterns::new(&context.config.audit.log_patterns)
        .unwrap_or_else(|_| Patterns::builtin().clone());
    let is_text = view.format == Format::Table;
    if is_text && rows.is_empty() {
        printer.note("no task has failed");
        return Ok(());
    }
    if is_text {
        views::print_counts(printer, rows.iter().copied(), dag, view.is_filtered)?;
    }
    let (cut, _) = views::arrange(&mut rows, dag, view, printer);
    let threads = context.config.scan_threads;
    // Looks at the disk for what is shown to people only.
    let probe = if is_text {
        Some(context.probe()?)
    } else {
        None
    };
    let noted: Vec<(TaskRow, FailureNote)> = parallel::map(&rows, threads, |row| {
        let mut note = note(context, row, state, &patterns);
        if let Some(probe) = &probe {
            note.missing = missing(context, probe, row);
        }
        ((*row).clone(), note)
    });
    if is_text {
        for (row, note) in &noted {
            let mut block = Block::new(printer.width(), printer.is_colored());
            block.gap();
            tell(&mut block, row, note);
            printer.data(block.finish().as_bytes());
        }
    } else {
        let frame = failures_frame(&noted, view.log_dir)?;
        printer.frame(&frame, view.format, &[], &[])?;
    }
    if let Some(cut) = cut {
        cut.tell_of_rows(printer);
    }
    Ok(())
}

/// Says which outputs of a job that ended well are missing, and what is there instead.
fn missing(context: &Context, probe: &Probe, row: &TaskRow) -> Vec<String> {
    if row.reason != Some(Reason::NoOutput) {
        return Vec::new();
    }
    let key = &row.key;
    let session = match &*key.session {
        "" => Ok(SessionLabel::none()),
        session => SessionLabel::new(session),
    };
    let id = context.config.procedures.find(&key.procedure);
    let (Some(id), Ok(subject), Ok(session)) = (id, SubjectLabel::new(&key.subject), session)
    else {
        return Vec::new();
    };
    let found = probe.brief_explainer(&subject).findings(id, &session);
    let texts = troubles(&found);
    match texts.len() {
        0 if found.verdict == Verdict::Complete => {
            vec!["they are there now: `retry --accept-outputs` takes them as they are".to_owned()]
        }
        count if count > MISSING_SHOWN => {
            let more = format!("and {} more", count - MISSING_SHOWN);
            texts
                .into_iter()
                .take(MISSING_SHOWN)
                .chain([more])
                .collect()
        }
        _ => texts,
    }
}

fn tell(block: &mut Block, row: &TaskRow, note: &FailureNote) {
    let reason = row
        .reason
        .map_or("reason unknown", |reason| reason.as_str());
    let attempt = row.attempt.unwrap_or(1);
    let job = row.job_id.as_ref();
    let job = job.map_or_else(String::new, |id| format!(", job {id}"));
    block.title(
        &row.key.to_string(),
        &format!("failed ({reason}), attempt {attempt}{job}"),
    );
    if let Some(why) = failure_text_for(row, Some(sys::effective_uid())) {
        block.entry("why", &why);
    }
    for text in &note.missing {
        block.entry("", text);
    }
    if let Some(used) = used_text(row) {
        block.entry("used", &used);
    }
    let ended = row.facts.ended_at.or(row.updated_at);
    if let Some(ended) = ended {
        block.entry("ended", &ended.format("%Y-%m-%d %H:%M UTC").to_string());
    }
    if let Some(line) = &note.line {
        block.entry("log says", line);
    }
    if let Some(meaning) = &note.meaning {
        block.entry("", meaning);
    }
    if let Some(path) = &note.line_path {
        block.verbatim("log", path);
    }
    if let Some(silence) = &note.silence {
        block.entry("", silence);
    }
    if let Some(remedy) = &note.remedy {
        block.entry("to do", remedy);
    }
    block.entry("next", &note.outlook);
}

fn note(context: &Context, row: &TaskRow, state: &State, patterns: &Patterns) -> FailureNote {
    let dag = &context.config.procedures;
    let rules = dag
        .find(&row.key.procedure)
        .and_then(|id| dag.get(id).rules.retry.as_ref());
    let outlook = retry::outlook(rules, row, state.meta.owner_uid, sys::now());
    let remedy = remedy(&context.config, row).filter(|_| !outlook.is_retry());
    let note = FailureNote {
        outlook: outlook_text_of(outlook, row.attempt.unwrap_or(1)),
        remedy,
        ..FailureNote::default()
    };
    let Some(files) = logs::of(&context.config, &context.store, row) else {
        return note;
    };
    let path = |path: &Path| Some(path.to_string_lossy().into_owned());
    match telling(&files, patterns) {
        Some((file, found)) => FailureNote {
            line_path: path(file),
            pattern: found.meaning.map(|meaning| meaning.name.to_string()),
            meaning: found.meaning.map(|meaning| match &*meaning.hint {
                "" => meaning.meaning.to_string(),
                // The remedy knows the value, too.
                _ if note.remedy.is_some() => meaning.meaning.to_string(),
                hint => format!("{}: {hint}", meaning.meaning),
            }),
            line: Some(found.line),
            ..note
        },
        // Where it should be, for whoever looks.
        None => FailureNote {
            line_path: path(&files.error),
            silence: silence(row, &files),
            ..note
        },
    }
}
