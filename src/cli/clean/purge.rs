//! `clean --purge --subject X`: removes a subject who withdrew consent from all files of the state.

use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::plural;
use crate::cli::args::CleanArgs;
use crate::cli::context::Context;
use crate::cli::error::Failure;
use crate::cli::output::Printer;
use crate::gather::sessions::lists;
use crate::model::bids::SubjectLabel;
use crate::model::state::State;
use crate::store::audit_log::{Event, EventKind};
use crate::store::purge::{Held, Purge};

pub fn run(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let subject = label(args.subject.as_deref().unwrap_or_default())?;
    let purge = Purge {
        log: &context.config.log_file,
        subject: &subject,
    };
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let held = purge.look(&context.store, &state)?;
    check_removable(context, &subject, &held, &state, printer)?;
    if let Some(locked) = locked {
        purge.carry_out(&locked, &mut state, &held)?;
        if !held.is_nothing() {
            super::append(context, &[event(&held)])?;
        }
    }
    report(&subject, &held, args.dry_run, printer);
    Ok(Exit::Done)
}

/// One complete label: a pattern could remove more than intended.
fn label(text: &str) -> Result<SubjectLabel, Failure> {
    let label = match text.starts_with(SubjectLabel::PREFIX) {
        true => text.to_owned(),
        false => format!("{}{text}", SubjectLabel::PREFIX),
    };
    SubjectLabel::new(&label).map_err(|error| Failure::Usage {
        message: format!("--subject '{text}': {error}"),
        hint: "--purge requires the complete label of one subject".to_owned(),
    })
}

/// Refuses if the subject would reappear, or if its jobs still need its records.
fn check_removable(
    context: &Context,
    subject: &SubjectLabel,
    held: &Held,
    state: &State,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if !state.is_stored() {
        return Err(Failure::Usage {
            message: format!(
                "the state file {} does not exist, only copies beside it",
                context.store.paths.state.display()
            ),
            hint: "rebuild it with `snbb-scheduler state repair --yes`, then purge".to_owned(),
        });
    }
    let in_flight = state
        .rows()
        .iter()
        .filter(|row| *row.key.subject == *subject.as_str() && row.is_in_flight())
        .count();
    if in_flight > 0 {
        return Err(Failure::Usage {
            message: format!("{} of {subject} in flight", plural(in_flight, "task")),
            hint: format!(
                "run `snbb-scheduler cancel --subject {subject}`, and purge when `snbb-scheduler monitor` has recorded \
                 the end of the jobs"
            ),
        });
    }
    if let Some(file) = held.in_use(&context.store, state) {
        return Err(Failure::Usage {
            message: format!(
                "{subject} appears in {}, which other jobs in flight still need (an array's task list or a job's script)",
                file.display()
            ),
            hint: "purge when they have ended".to_owned(),
        });
    }
    let cohort = lists::load(&context.config.cohort)?;
    let found = context.discover(printer)?;
    if let Some(unseen) = found.unreadable.first() {
        return Err(Failure::Usage {
            message: format!(
                "not all sessions can be read ({}), so {subject} may still have some",
                unseen.path.display()
            ),
            hint: "purge when everything is mounted and readable".to_owned(),
        });
    }
    let is_found = found
        .sessions
        .iter()
        .any(|session| session.subject == *subject && !cohort.excludes(session));
    if is_found {
        return Err(Failure::Usage {
            message: format!("{subject} still has sessions: its tasks would be submitted again"),
            hint: "remove its data, or list it in `exclude`; then purge".to_owned(),
        });
    }
    Ok(())
}

fn event(held: &Held) -> Event {
    Event {
        detail: Some("a subject was removed (clean --purge)".to_owned()),
        extra: vec![
            ("rows", held.rows.into()),
            ("attempts", held.attempts.into()),
            ("events", held.events.into()),
        ],
        ..Event::new(sys::now(), EventKind::Pruned)
    }
}

fn report(subject: &SubjectLabel, held: &Held, is_dry_run: bool, printer: &mut Printer) {
    if held.is_nothing() {
        printer.info(&format!("no file of the state mentions {subject}"));
        return;
    }
    let (removed, deleted) = match is_dry_run {
        true => ("would remove", "would delete"),
        false => ("removed", "deleted"),
    };
    printer.info(&format!(
        "{removed} {}, {}, {} of {subject}, and its name from {}; {deleted} {}",
        plural(held.rows, "row"),
        plural(held.attempts, "earlier attempt"),
        plural(held.events, "event"),
        plural(held.texts.len(), "other file"),
        plural(held.copies.len(), "left-over file"),
    ));
    let texts = held.texts.iter().map(|(path, ..)| path);
    for path in texts.chain(&held.copies) {
        printer.detail_line(&path.display().to_string());
    }
    printer.hint(
        "data, job logs and Slurm's accounting are not part of this: see docs/cron.md for what else to check",
    );
}
