//! `clean --purge --subject X`: a subject has withdrawn consent, and leaves all files of the state.

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
use crate::store::purge::{Purge, SubjectData};

pub fn run(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let subject = label(args.subject.as_deref().unwrap_or_default())?;
    let purge = Purge {
        log: &context.config.log_file,
        subject: &subject,
    };
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let held = purge.find(&context.store, &state)?;
    may_go(context, &subject, &held, &state, printer)?;
    if let Some(locked) = locked {
        purge.carry_out(&locked, &mut state, &held)?;
        if !held.is_nothing() {
            super::append(context, &[event(&held)])?;
        }
    }
    tell(&subject, &held, args.dry_run, printer);
    Ok(Exit::Done)
}

/// One whole label: a pattern would take out more than a person has in mind.
fn label(text: &str) -> Result<SubjectLabel, Failure> {
    let whole = match text.starts_with(SubjectLabel::PREFIX) {
        true => text.to_owned(),
        false => format!("{}{text}", SubjectLabel::PREFIX),
    };
    SubjectLabel::new(&whole).map_err(|error| Failure::Usage {
        message: format!("--subject '{text}': {error}"),
        hint: "--purge takes the whole label of one subject".to_owned(),
    })
}

/// Refuses while the subject would come back, or while its jobs need what is known of them.
fn may_go(
    context: &Context,
    subject: &SubjectLabel,
    held: &SubjectData,
    state: &State,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if !state.is_stored() {
        return Err(Failure::Usage {
            message: format!(
                "there is no state file {}: the copies beside it are all that is known",
                context.store.paths.state.display()
            ),
            hint: "`snbb-scheduler state repair --yes` rebuilds it; then purge".to_owned(),
        });
    }
    let alive = state
        .rows()
        .iter()
        .filter(|row| *row.key.subject == *subject.as_str() && row.is_in_flight())
        .count();
    if alive > 0 {
        return Err(Failure::Usage {
            message: format!("{} of {subject} in flight", plural(alive, "task")),
            hint: format!(
                "end the jobs by `snbb-scheduler cancel --subject {subject}`, and purge when \
                 `snbb-scheduler monitor` has seen their end"
            ),
        });
    }
    if let Some(file) = held.in_use(&context.store, state) {
        return Err(Failure::Usage {
            message: format!(
                "{subject} stands in {}, which jobs of others in flight need (an array's task list, or a job's script)",
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
                "not all sessions can be seen ({}), so {subject} may still have some",
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

fn event(held: &SubjectData) -> Event {
    Event {
        detail: Some("a subject was taken out (clean --purge)".to_owned()),
        extra: vec![
            ("rows", held.rows.into()),
            ("attempts", held.attempts.into()),
            ("events", held.events.into()),
        ],
        ..Event::new(sys::now(), EventKind::Pruned)
    }
}

fn tell(subject: &SubjectLabel, held: &SubjectData, is_dry_run: bool, printer: &mut Printer) {
    if held.is_nothing() {
        printer.talk(&format!("no file of the state names {subject}"));
        return;
    }
    let (removed, wrote) = match is_dry_run {
        true => ("would remove", "would write"),
        false => ("removed", "wrote"),
    };
    printer.talk(&format!(
        "{removed} {}, {}, {} of {subject}; {wrote} it out of {}; {removed} {}",
        plural(held.rows, "row"),
        plural(held.attempts, "earlier attempt"),
        plural(held.events, "event"),
        plural(held.texts.len(), "other file"),
        plural(held.copies.len(), "left-over file"),
    ));
    let texts = held.texts.iter().map(|(path, ..)| path);
    for path in texts.chain(&held.copies) {
        printer.data_detail(&path.display().to_string());
    }
    printer.hint(
        "data, logs of jobs and Slurm's accounting are not the scheduler's: docs/cron.md names \
         what else to look through",
    );
}
