//! `audit`: a report on the whole study. Writes only what `--output` and `--history` request, never below the
//! data roots.

use std::path::Path;

use itertools::Itertools as _;

use super::args::{AuditArgs, AuditFormat, SelectArgs};
use super::context::refuse_data;
use super::{Access, Context, Exit, Failure, Printer, Result, Selection, TableError, sys};
use crate::base::shell::quote;
use crate::decide::manifest::Manifest;
use crate::executor::{Answer, Question};
use crate::show::audit::collect::{Input, collect};
use crate::show::audit::trend::{Snapshot, earlier, replace, save, trend};
use crate::show::audit::{Part, Report, UnreadableItem, html, text};
use crate::show::mail::{self, Message};

pub(super) fn run(context: &Context, args: &AuditArgs, printer: &mut Printer) -> Result<Exit> {
    if args.email {
        // Before hours of reading.
        mail::check(&context.config.audit)?;
    }
    let report_dir = context.config.audit.report_dir.clone();
    let report_dir = report_dir.filter(|_| args.history);
    if args.history && report_dir.is_none() {
        printer.note("no trend: --history needs `audit.report_dir`, the earlier reports");
    }
    for path in [&report_dir, &args.output].into_iter().flatten() {
        refuse_data(&context.config, path, "")?;
    }
    let mut report = gather(context, args, printer)?;
    // A full disk may be the very finding of the report, so it goes wherever it can.
    let mut saved = Ok(());
    if let Some(dir) = &report_dir {
        let study = &report.study;
        let (earlier, unreadable) = earlier(dir, study.selection.as_deref(), study.created_at);
        report.unreadable.extend(unreadable);
        let now = Snapshot::read(&report.to_json().map_err(TableError::from)?);
        report.trend = earlier
            .zip(now)
            .map(|((path, before), now)| trend(&before, &path.to_string_lossy(), &now));
        let json = report.to_json().map_err(TableError::from)?;
        let path = save(dir, report.study.created_at, &json);
        saved = path.map(drop).map_err(Failure::from);
    }
    let width = printer.options().width.filter(|_| args.output.is_none());
    let bytes = match args.format {
        AuditFormat::Table => text::table(&report, width).into_bytes(),
        AuditFormat::Markdown => text::markdown(&report).into_bytes(),
        AuditFormat::Json => report.to_json().map_err(TableError::from)?,
        AuditFormat::Html => html::render(&report).into_bytes(),
    };
    match &args.output {
        Some(file) => match replace(file, &bytes).map_err(Failure::from) {
            Ok(()) => printer.info(&format!("wrote the report to {}", file.display())),
            Err(failure) => saved = saved.and(Err(failure)),
        },
        None => printer.data(&bytes),
    }
    if args.email {
        let message = Message {
            subject: text::subject(&report),
            text: text::table(&report, None),
        };
        if let Err(error) = mail::send(&context.config.audit, &message, mail::LIMITS) {
            if let Err(failure) = &saved {
                printer.warning(&failure.sentence());
            }
            return Err(error.into());
        }
        let recipients = context.config.audit.email_recipients.join(", ");
        printer.info(&format!("the report was sent to {recipients}"));
    }
    let unreadable = report.unreadable.iter();
    let unreadable = unreadable.map(|what| format!("cannot read {}: {}", what.path, what.error));
    printer.warn_unreadable(&unreadable.collect_vec());
    saved?;
    Ok(Exit::Done.unless(report.is_partial(), Exit::Unreadable))
}

fn gather(context: &Context, args: &AuditArgs, printer: &mut Printer) -> Result<Report> {
    let parts: &'static [Part] = match (args.dicom_only, args.logs_only, args.efficiency) {
        (true, ..) => &[Part::Dicom],
        (_, true, _) => &[Part::Logs],
        (.., true) => &[Part::Efficiency],
        _ => &Part::ALL,
    };
    let config = &context.config;
    // Only `--markers` and `--queue` need these; the tasks do anyway.
    let state = context.read_state(printer)?;
    let selection = context.selection_among(&args.select, Some(&state))?;
    let has = |part| parts.contains(&part);
    let (found, manifest) = if has(Part::Tasks) {
        // A subject-scoped task has no session, so the report selects sessions by what it shows. `--procedure` may also
        // name one that only rows know, about which nothing is decided.
        let by_subject = Selection::new(&args.select.subjects, &[], &[], &[])?;
        context.plan(by_subject, args.check.recheck, printer)?
    } else if has(Part::Dicom) {
        (context.discover(printer)?, Manifest::default())
    } else {
        Default::default()
    };
    if has(Part::Tasks) || has(Part::Dicom) {
        context.refuse_unknown_in(&found, &args.select)?;
    }
    let mut unreadable = Vec::new();
    let attempts = context.store.read_attempts().unwrap_or_else(|error| {
        let path = &context.store.paths.attempts;
        unreadable.push(UnreadableItem::new("attempts", path, error));
        Vec::new()
    });
    let project = context.project(&state);
    let mut executor = context.executor(Access::ReadOnly, &state)?;
    let queue =
        (args.queue && has(Part::Tasks)).then(|| executor.observe(&Question::default()).queue);
    if let Some(Answer::Failed(error)) = &queue {
        unreadable.push(UnreadableItem::new("queue", Path::new("queue"), error));
    }
    let probe = has(Part::Tasks).then(|| context.probe()).transpose()?;
    let progress = printer.progress(None, "checking tasks, logs and DICOM files");
    let input = Input {
        config,
        project: &project,
        now: sys::now(),
        parts,
        selection: &selection,
        selection_text: selection_text(&args.select),
        all_markers: args.markers,
        all_logs: args.all_logs,
        state: &state,
        attempts: &attempts,
        found: &found,
        manifest: &manifest,
        probe: probe.as_ref(),
        queue: queue.as_ref().and_then(Answer::got).map(Vec::as_slice),
        unreadable,
        tick: &|| progress.inc(1),
    };
    let report = collect(input, &|script| executor.find_script(script));
    progress.finish_and_clear();
    Ok(report)
}

/// The selection as options.
fn selection_text(select: &SelectArgs) -> Option<String> {
    let groups = [
        ("--subject", &select.subjects),
        ("--session", &select.sessions),
        ("--procedure", &select.procedures),
    ];
    let words = groups.iter().flat_map(|(option, values)| {
        let values = values.iter();
        values.map(move |value| format!("{option} {}", quote(value)))
    });
    Some(words.collect_vec().join(" ")).filter(|words| !words.is_empty())
}
