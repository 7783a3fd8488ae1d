//! The report of a run: submissions, refusals, doubts, and why it stopped.

use std::collections::HashMap;

use crate::act::submit::{Halt, HeldBack, HeldBy, Submitted};
use crate::base::exit::Exit;
use crate::base::text::{and_more, few, plural_of};
use crate::cli::Printer;
use crate::cli::views::RunSummary;
use crate::decide::manifest::Due;
use crate::decide::request::Prepared;
use crate::model::state::TaskKey;
use crate::setup::check::slurm::remedy;
use crate::store::state_file::StateError;

pub(super) fn report<'a>(
    submitted: &Submitted,
    tasks: impl Iterator<Item = &'a Prepared>,
    summary: &mut RunSummary,
    printer: &mut Printer,
    mut exit: Exit,
) -> Exit {
    summary.submitted = submitted.accepted.len();
    summary.in_doubt = submitted.in_doubt.len();
    for (key, job) in &submitted.accepted {
        printer.detail(&format!("{key}: submitted as job {job}"));
    }
    note_resubmitted(submitted, tasks, printer);
    let (refused, held): (Vec<&HeldBack>, Vec<&HeldBack>) =
        (submitted.held_back.iter()).partition(|held| held.by.is_refusal());
    for held in refused {
        exit = report_held_back(held, summary, printer, exit);
    }
    for in_doubt in submitted
        .in_doubt
        .chunk_by(|(a, message), (b, other)| a.procedure == b.procedure && message == other)
    {
        warn_in_doubt(in_doubt, printer);
    }
    for held in held {
        exit = report_held_back(held, summary, printer, exit);
    }
    if let Some((stop, left)) = &submitted.stopped {
        exit = report_stop(stop, *left, summary, printer, exit);
    }
    if let Some(error) = &submitted.audit_error {
        printer.warning(&format!("the audit log is incomplete: {error}"));
        exit = Exit::Error;
    }
    if let Some(error) = &submitted.unsaved {
        printer.error(&error.to_string());
        printer.hints(error.hint());
        let sent = submitted.accepted.len() + submitted.in_doubt.len();
        if sent > 0 && !matches!(error, StateError::Shared { .. }) {
            printer.note(&format!(
                "the state file does not show the submissions of this run yet ({sent}); the journal keeps them for the next run"
            ));
        }
        exit = Exit::Error;
    }
    exit
}

/// Lists tasks that were submitted although they are recorded as complete, even with `-q`: this is the only sign of
/// the second run.
fn note_resubmitted<'a>(
    submitted: &Submitted,
    tasks: impl Iterator<Item = &'a Prepared>,
    printer: &mut Printer,
) {
    let due: HashMap<&TaskKey, Option<Due>> = tasks
        .map(|task| (&task.intent.key, task.notes.due))
        .collect();
    for (cause, one, several) in [
        (
            Due::OutputsGone,
            "complete task has lost its outputs",
            "complete tasks have lost their outputs",
        ),
        (
            Due::NeverVerified,
            "task was recorded as complete by another program but has no outputs",
            "tasks were recorded as complete by another program but have no outputs",
        ),
    ] {
        let accepted = submitted.accepted.iter();
        let again: Vec<String> = accepted
            .filter(|(key, _)| due.get(key) == Some(&Some(cause)))
            .map(|(key, _)| key.to_string())
            .collect();
        if !again.is_empty() {
            let tasks = plural_of(again.len(), one, several);
            printer.new_warning(&format!("{tasks}: submitted again ({})", few(&again, 3)));
        }
    }
}

/// Warns of submissions in doubt that ended the same way, of an array's in one line.
fn warn_in_doubt(in_doubt: &[(TaskKey, String)], printer: &mut Printer) {
    match in_doubt {
        [(key, message), _, _, _, ..] => printer.warning(&format!(
            "{} tasks of {}: it is not yet known whether Slurm accepted their jobs ({message}); the next runs will look for them",
            in_doubt.len(),
            key.procedure
        )),
        few => {
            for (key, message) in few {
                printer.warning(&format!(
                    "{key}: it is not yet known whether Slurm accepted its job ({message}); the next runs will look for it"
                ));
            }
        }
    }
}

fn report_held_back(
    held: &HeldBack,
    summary: &mut RunSummary,
    printer: &mut Printer,
    exit: Exit,
) -> Exit {
    let (procedure, message, count) = (&held.key.procedure, &held.message, held.count);
    match held.by {
        HeldBy::Refusal => {
            printer.warning(&format!("{procedure}: refused: {message}"));
            if let Some(remedy) = remedy(message) {
                printer.hint(remedy);
            }
            let cause = format!("{procedure}: {message}");
            summary.refused.push((cause, count));
            Exit::Refused
        }
        HeldBy::RefusedRetry(_) => {
            let more = and_more(count, 1);
            printer.warning(&format!(
                "{}{more}: the next attempt was refused: {message}",
                held.key
            ));
            printer.hint(
                "the retry rules set its resources (`run --dry-run` shows them); `retry` starts again without those rules",
            );
            let cause = format!("{procedure}, next attempt: {message}");
            summary.refused.push((cause, count));
            Exit::Refused
        }
        HeldBy::Limit => {
            printer.note(&format!(
                "{procedure}: Slurm accepts no more of its jobs now: {message}; the remaining tasks wait for the next run"
            ));
            summary.hold_back("a limit in Slurm", count);
            exit
        }
        HeldBy::Doubts => {
            printer.warning(&format!(
                "{procedure}: several consecutive submissions got no answer ({message}), so no more of its jobs were submitted; \
                 the next runs look for these jobs first"
            ));
            if count > 0 {
                summary.hold_back("submissions without an answer", count);
            }
            Exit::Unreachable
        }
    }
}

fn report_stop(
    stop: &Halt,
    left: usize,
    summary: &mut RunSummary,
    printer: &mut Printer,
    exit: Exit,
) -> Exit {
    let (why, exit) = match stop {
        Halt::Limit(message) => {
            printer.note(&format!(
                "Slurm accepts no more jobs now: {message}; the remaining tasks wait for the next run"
            ));
            ("a limit in Slurm", exit)
        }
        Halt::Transient(message) => {
            printer.warning(&format!(
                "Slurm cannot accept jobs now: {message}; the next run tries again"
            ));
            ("Slurm could not be reached", Exit::Unreachable)
        }
        Halt::NoAnswers(message) => {
            printer.warning(&format!(
                "stopped submitting: several consecutive submissions got no answer ({message}), and the queue is not responding \
                 either; the next runs look for these jobs first"
            ));
            ("Slurm did not answer", Exit::Unreachable)
        }
        Halt::Deadline => {
            printer.note("the run reached its deadline; the remaining tasks wait for the next run");
            ("the deadline of a run", exit)
        }
        Halt::Journal(error) => {
            printer.error(&error.to_string());
            printer.hints(error.hint());
            ("the journal could not be written", Exit::Error)
        }
        // The cause is reported with the rows that could not be saved.
        Halt::Unsaved => ("the rows could not be saved", Exit::Error),
        Halt::Lock(error) => {
            printer.error(&format!("{error}; nothing more was submitted"));
            ("the lock was lost", Exit::Locked)
        }
    };
    summary.hold_back(why, left);
    exit
}
