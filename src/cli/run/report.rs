//! The report of a run: submissions, refusals, doubts, and why it stopped.

use std::collections::{BTreeMap, HashMap};

use crate::act::pass::Decided;
use crate::act::submit::{Halt, HeldBy, Submitted};
use crate::base::text::and_more;
use crate::cli::{Exit, Printer, few, plural};
use crate::decide::manifest::Due;
use crate::model::state::TaskKey;
use crate::setup::check::slurm::remedy;
use crate::show::notify::Figures;
use crate::show::tables::TaskState;
use crate::store::state_file::StateError;

/// Prints the numbers of a run. With `-q`, only if there were problems.
pub fn print_run_summary(printer: &mut Printer, figures: &Figures, is_dry_run: bool) {
    let (refused, in_doubt) = (figures.refused(), figures.in_doubt);
    let tasks = figures.decisions.values().flat_map(BTreeMap::values).sum();
    let due = [TaskState::Due, TaskState::Limit, TaskState::Paused];
    let mut head = format!(
        "{}, {}: {} complete, {} due, {} {}",
        plural(figures.sessions, "session"),
        plural(tasks, "task"),
        figures.count(TaskState::Complete),
        due.map(|state| figures.count(state)).iter().sum::<usize>(),
        figures.submitted,
        match is_dry_run {
            true => "would be submitted",
            false => "submitted",
        },
    );
    for (count, what) in [(refused, "refused"), (in_doubt, "in doubt")] {
        if count > 0 {
            head.push_str(&format!(", {count} {what}"));
        }
    }
    if printer.is_quiet() && refused + in_doubt > 0 {
        printer.warning(&head);
    }
    printer.info(&head);
    if figures.stale > 0 {
        printer.note(&format!(
            "{} complete but stale: new sessions or input files arrived after it ran (`session-status` shows where; \
             `rerun_when_stale` runs such tasks again)",
            plural(figures.stale, "task")
        ));
    }
    for (name, counts) in [
        ("refused", &figures.refused),
        ("not submitted", &figures.held_back),
    ] {
        if !counts.is_empty() {
            let all: usize = counts.iter().map(|(_, count)| count).sum();
            printer.info(&format!("{name}: {all}"));
        }
        for (reason, count) in counts {
            printer.info(&format!("{count:>8}  {reason}"));
        }
    }
}

pub(super) fn report(
    submitted: &Submitted,
    decided: &Decided,
    figures: &mut Figures,
    printer: &mut Printer,
    mut exit: Exit,
) -> Exit {
    figures.submitted = submitted.accepted.len();
    figures.in_doubt = submitted.in_doubt.len();
    for task in decided.tasks() {
        if let Some(text) = task.notes.retry_text(task.intent.attempt) {
            printer.detail(&format!("{}: {text}", task.intent.key));
        }
    }
    for (key, job) in &submitted.accepted {
        printer.detail(&format!("{key}: submitted as job {job}"));
    }
    // Tasks that were submitted although they are recorded as complete, even with `-q`: this is the only sign of the
    // second run.
    let tasks = decided
        .tasks()
        .map(|task| (&task.intent.key, task.notes.due));
    let due: HashMap<&TaskKey, Option<Due>> = tasks.collect();
    for (cause, what) in [
        (Due::OutputsGone, "complete tasks have lost their outputs"),
        (
            Due::NeverVerified,
            "tasks were recorded as complete by another program but have no outputs",
        ),
    ] {
        let accepted = submitted.accepted.iter();
        let again: Vec<String> = accepted
            .filter(|(key, _)| due.get(key) == Some(&Some(cause)))
            .map(|(key, _)| key.to_string())
            .collect();
        if !again.is_empty() {
            printer.new_warning(&format!("{what}: submitted again ({})", few(&again, 3)));
        }
    }
    let alike = |(a, message): &(TaskKey, String), (b, other): &(TaskKey, String)| {
        a.procedure == b.procedure && message == other
    };
    for in_doubt in submitted.in_doubt.chunk_by(alike) {
        let keys: Vec<String> = in_doubt.iter().map(|(key, _)| key.to_string()).collect();
        let message = in_doubt.first().map_or("", |(_, message)| message);
        printer.warning(&format!(
            "{}: it is not yet known whether Slurm accepted its job ({message}); the next runs will look for it",
            few(&keys, 3)
        ));
    }
    for held in &submitted.held_back {
        let (procedure, message, count) = (&held.key.procedure, &held.message, held.count);
        match held.by {
            HeldBy::Refusal => {
                exit = Exit::Refused;
                printer.warning(&format!("{procedure}: refused: {message}"));
                printer.hints(remedy(message));
                figures
                    .refused
                    .push((format!("{procedure}: {message}"), count));
            }
            HeldBy::RefusedRetry(_) => {
                exit = Exit::Refused;
                let more = and_more(count, 1);
                printer.warning(&format!(
                    "{}{more}: the next attempt was refused: {message}",
                    held.key
                ));
                printer
                    .hint("the retry rules set its resources; `retry` starts again without them");
                figures
                    .refused
                    .push((format!("{procedure}, next attempt: {message}"), count));
            }
            HeldBy::Limit => {
                printer.note(&format!(
                    "{procedure}: Slurm accepts no more of its jobs now: {message}; the remaining tasks wait for the next run"
                ));
                figures.hold_back("a limit in Slurm", count);
            }
            HeldBy::Doubts => {
                exit = Exit::Unreachable;
                printer.warning(&format!(
                    "{procedure}: several consecutive submissions got no answer ({message}), so no more of its jobs were submitted; \
                     the next runs look for these jobs first"
                ));
                figures.hold_back("submissions without an answer", count);
            }
        }
    }
    if let Some((stop, left)) = &submitted.stopped {
        let (why, ends_with) = match stop {
            Halt::Limit(message) => {
                printer.note(&format!(
                    "Slurm accepts no more jobs now: {message}; the rest waits"
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
                printer.note(
                    "the run reached its deadline; the remaining tasks wait for the next run",
                );
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
        figures.hold_back(why, *left);
        exit = ends_with;
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
