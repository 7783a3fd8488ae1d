//! What a run reports when it is done: what was submitted, refused, left in doubt, and why it stopped.

use std::collections::HashMap;

use crate::act::submit::{Halt, HeldBy, Submitted};
use crate::base::exit::Exit;
use crate::base::text::{and_more, few, plural_of};
use crate::cli::Printer;
use crate::cli::views::RunSummary;
use crate::decide::manifest::Due;
use crate::decide::request::Prepared;
use crate::model::state::TaskKey;
use crate::setup::check::slurm::remedy;
use crate::store::journal::JournalError;
use crate::store::state_file::StateError;

pub(super) fn report<'a>(
    submitted: &Submitted,
    tasks: impl Iterator<Item = &'a Prepared>,
    summary: &mut RunSummary,
    printer: &mut Printer,
    exit: Exit,
) -> Exit {
    let mut exit = exit;
    summary.submitted = submitted.accepted.len();
    summary.in_doubt = submitted.in_doubt.len();
    for (key, job) in &submitted.accepted {
        printer.detail(&format!("{key}: submitted as job {job}"));
    }
    tell_missing_outputs(submitted, tasks, printer);
    for (procedure, (message, count)) in &submitted.refused {
        printer.warning(&format!("{procedure}: refused: {message}"));
        if let Some(remedy) = remedy(message) {
            printer.hint(remedy);
        }
        summary
            .refused
            .push((format!("{procedure}: {message}"), *count));
        exit = Exit::Refused;
    }
    for retry in &submitted.refused_retries {
        let more = and_more(retry.count, 1);
        printer.warning(&format!(
            "{}{more}: the next attempt was refused: {}",
            retry.key, retry.message
        ));
        printer.hint(
            "it asks for what the retry rules say (`run --dry-run` shows it); `retry` starts anew without them",
        );
        summary.refused.push((
            format!("{}, tried again: {}", retry.key.procedure, retry.message),
            retry.count,
        ));
        exit = Exit::Refused;
    }
    for doubted in submitted
        .in_doubt
        .chunk_by(|(a, said), (b, says)| a.procedure == b.procedure && said == says)
    {
        tell_doubts(doubted, printer);
    }
    for (procedure, held) in &submitted.held {
        let message = &held.message;
        let why = match held.by {
            HeldBy::Limit => {
                printer.note(&format!(
                    "{procedure}: Slurm takes no more of its jobs now: {message}; the rest waits for the next run"
                ));
                "a limit of Slurm's"
            }
            HeldBy::Doubts => {
                exit = Exit::Unreachable;
                printer.warning(&format!(
                    "{procedure}: several submissions in a row ended without an answer ({message}), so no more of its \
                     jobs were submitted; the next runs look for them first"
                ));
                "submissions without an answer"
            }
        };
        if held.count > 0 {
            summary.hold_back(why, held.count);
        }
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
                "the state file does not show the {sent} submissions of this run yet; the journal holds them for the next run"
            ));
        }
        exit = Exit::Error;
    }
    exit
}

/// Names the tasks that were submitted although they are recorded as complete, also with `-q`: nothing else asks for a
/// second run.
fn tell_missing_outputs<'a>(
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
            "task was complete and has lost its outputs",
            "tasks were complete and have lost their outputs",
        ),
        (
            Due::NeverVerified,
            "task was recorded as complete by an earlier program, without outputs",
            "tasks were recorded as complete by an earlier program, without outputs",
        ),
    ] {
        let accepted = submitted.accepted.iter();
        let again: Vec<String> = accepted
            .filter(|(key, _)| due.get(key) == Some(&Some(cause)))
            .map(|(key, _)| key.to_string())
            .collect();
        if !again.is_empty() {
            let tasks = plural_of(again.len(), one, several);
            printer.news(&format!("{tasks}: submitted again ({})", few(&again, 3)));
        }
    }
}

/// Tells of tasks whose submission ended alike; of an array's in one line.
fn tell_doubts(doubted: &[(TaskKey, String)], printer: &mut Printer) {
    match doubted {
        [(key, message), _, _, _, ..] => printer.warning(&format!(
            "{} tasks of {}: nobody knows yet whether their jobs were accepted ({message}); the next passes look for them",
            doubted.len(),
            key.procedure
        )),
        few => {
            for (key, message) in few {
                printer.warning(&format!(
                    "{key}: nobody knows yet whether its job was accepted ({message}); the next passes look for it"
                ));
            }
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
                "Slurm takes no more jobs now: {message}; the rest waits for the next run"
            ));
            ("a limit of Slurm's", exit)
        }
        Halt::Transient(message) => {
            printer.warning(&format!(
                "Slurm does not take jobs now: {message}; the next run tries again"
            ));
            ("Slurm could not be reached", Exit::Unreachable)
        }
        Halt::NoAnswers(message) => {
            printer.warning(&format!(
                "several submissions in a row ended without an answer ({message}), and the queue does not answer either, \
                 so no more were made; the next runs look for them first"
            ));
            ("Slurm did not answer", Exit::Unreachable)
        }
        Halt::Deadline => {
            printer.note("the run has reached its deadline; the rest waits for the next run");
            ("the deadline of a run", exit)
        }
        Halt::Journal(error) => {
            printer.error(&without_intent(error));
            printer.hints(error.hint());
            ("the journal could not be written", Exit::Error)
        }
        // Why is told with what could not be saved.
        Halt::Unsaved => ("the rows could not be saved", Exit::Error),
        Halt::Lock(error) => {
            printer.error(&format!("{error}; nothing more was submitted"));
            ("the lock was lost", Exit::Locked)
        }
    };
    summary.hold_back(why, left);
    exit
}

/// Says why an intent could not be written. Of errors that only writing brings, the words say already what follows.
fn without_intent(error: &StateError) -> String {
    match error {
        StateError::Journal(
            JournalError::NotRecorded { .. }
            | JournalError::Replaced { .. }
            | JournalError::Shared { .. },
        ) => error.to_string(),
        other => format!("{other}; nothing more was submitted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broken_journal_ends_is_said_once() {
        let path = std::path::PathBuf::from("j");
        for error in [
            JournalError::NotRecorded {
                action: "sync",
                path: path.clone(),
                source: std::io::Error::other("gone"),
            },
            JournalError::Replaced { path: path.clone() },
            JournalError::Shared { path: path.clone() },
            JournalError::FailedBefore { path: path.clone() },
            JournalError::NotAFile { path },
        ] {
            let text = without_intent(&StateError::Journal(error));
            assert_eq!(text.matches("was submitted").count(), 1, "{text}");
        }
    }
}
