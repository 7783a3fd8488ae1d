//! What a run tells of what it met and did.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::act::pass::MissingScripts;
use crate::act::submit::{Halt, HeldBy, Submitted};
use crate::base::exit::Exit;
use crate::cli::monitor::first;
use crate::cli::views::RunSummary;
use crate::cli::{Context, Printer};
use crate::decide::manifest::Due;
use crate::decide::reconcile::strays::Strays;
use crate::decide::request::{Prepared, Reduced};
use crate::executor::ExecutorError;
use crate::gather::sessions::discover::Discovery;
use crate::model::state::{State, TaskKey};
use crate::setup::check::slurm::way_out;
use crate::show::tables::plural;
use crate::store::journal::JournalError;
use crate::store::state_file::StateError;

pub fn tell_strays(strays: &Strays, state: &State, context: &Context, printer: &mut Printer) {
    for (key, job) in &strays.adopt {
        printer.note(&format!("{key}: adopted its living job {}", job.id));
    }
    for (key, job) in &strays.doubled {
        let own = state
            .get(key)
            .and_then(|row| row.job_id.as_ref())
            .map_or_else(String::new, |id| format!(" beside job {id}"));
        printer.warning(&format!(
            "{key}: a second job, {}, is alive{own}; one of them should go: {}",
            job.id,
            job.scancel_line()
        ));
    }
    for (key, id) in &strays.without_row {
        let owner = state
            .rows()
            .iter()
            .find(|row| row.job_id.as_ref() == Some(id));
        printer.warning(&match owner {
            Some(row) => format!(
                "{key}: job {id} was made for this task and stands in the row of {} (was it edited?); \
                 the task waits until it ends",
                row.key
            ),
            None => format!(
                "{key}: job {id} has this task's name and was not submitted by this study; \
                 the task waits until it ends"
            ),
        });
    }
    if let Some(project) = &strays.other_project {
        printer.hint(&format!(
            "there was no state file at {} yet, and jobs of the study {project} are in the queue: if its state \
             was moved, put it there before the next run; if this is another study, give it another `project`",
            context.store.paths.state.display()
        ));
    }
    for (procedure, (count, job)) in &strays.unknown {
        let (id, scancel) = (&job.id, job.scancel_line());
        printer.warning(&match procedure {
            Some(procedure) => format!(
                "{procedure}: {} of a job array of {} live (such as job {id}), and its task list \
                 below {} is gone, so nobody knows which tasks they are; all tasks of {procedure} wait until they end",
                plural(*count, "task"),
                whose_array(strays.other_project.as_deref()),
                context.store.paths.arrays.display()
            ),
            None => format!(
                "{} of this study (such as job {id}) may be running any task: they have changed their \
                 names, and the audit log does not list them; no task is submitted until they end; if they are not \
                 wanted: {scancel}",
                plural(*count, "job")
            ),
        });
    }
    for (name, job) in &strays.orphans {
        printer.warning(&format!(
            "job {} ({name}) was submitted for a task that {} no longer has; if it is not wanted: {}",
            job.id,
            context
                .config
                .file
                .as_deref()
                .map_or_else(|| "the study".to_owned(), |file| file.display().to_string()),
            job.scancel_line()
        ));
    }
}

/// Without a state file, an array with another study's tag may still be this one's.
fn whose_array(other_project: Option<&str>) -> String {
    match other_project {
        Some(other) => format!("this study or of the study {other}"),
        None => "this study".to_owned(),
    }
}

/// Tells which rows nothing is done about any more: those of procedures that left the configuration, and of sessions
/// that are gone from the data.
pub(super) fn tell_left_over(
    context: &Context,
    state: &State,
    found: &Discovery,
    printer: &mut Printer,
) {
    let mut unknown: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut sessions: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in state.rows() {
        let key = &row.key;
        if context.config.procedures.find(&key.procedure).is_some() {
            sessions.insert((&key.subject, &key.session));
            continue;
        }
        let (rows, living) = unknown.entry(&key.procedure).or_default();
        *rows += 1;
        *living += usize::from(row.is_in_flight());
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown
            .iter()
            .map(|(name, (rows, living))| match living {
                0 => format!("{name} ({rows})"),
                living => format!("{name} ({rows}, {living} in flight)"),
            })
            .collect();
        printer.note(&format!(
            "rows of procedures that are not in the configuration: {}",
            names.join(", ")
        ));
    }
    // What could not be read may hold them.
    if !found.unreadable.is_empty() {
        return;
    }
    for session in &found.sessions {
        sessions.remove(&(session.subject.as_str(), session.session.as_str()));
        // The row of a task per subject.
        sessions.remove(&(session.subject.as_str(), ""));
    }
    let names: Vec<String> = sessions
        .iter()
        .map(|(subject, session)| format!("{subject} {session}").trim_end().to_owned())
        .collect();
    let are = match names.len() {
        0 => return,
        1 => "1 session on record is".to_owned(),
        count => format!("{count} sessions on record are"),
    };
    printer.note(&format!(
        "{are} gone from the data: {} (renamed?)",
        first(&names)
    ));
}

/// Tells what is above the site's ceiling, in one line per procedure and kind.
pub(super) fn tell_reduced<'a>(tasks: impl Iterator<Item = &'a Prepared>, printer: &mut Printer) {
    let mut groups: BTreeMap<(&str, &Reduced), usize> = BTreeMap::new();
    for task in tasks {
        for reduced in &task.notes.reduced {
            *groups
                .entry((&task.intent.key.procedure, reduced))
                .or_default() += 1;
        }
    }
    for ((procedure, reduced), count) in groups {
        let tasks = plural(count, "task");
        printer.note(&format!("{procedure}: {reduced} for {tasks}"));
    }
}

/// Tells which scripts are nowhere; returns whether a due task needs one of them.
pub(super) fn tell_missing(
    missing: &MissingScripts,
    summary: &mut RunSummary,
    printer: &mut Printer,
) -> bool {
    let mut refused = false;
    let mut hints = BTreeSet::new();
    for (procedure, (error, count)) in missing {
        let due = if *count == 0 {
            " (nothing of it is due yet)"
        } else {
            ""
        };
        printer.warning(&format!("{procedure}: {error}{due}"));
        if let Some(hint) = error.hint()
            && hints.insert(hint.clone())
        {
            printer.hint(&hint);
        }
        if *count > 0 {
            refused = true;
            let what = match error {
                ExecutorError::ScriptUnfit { option, .. } => {
                    format!("script with '#SBATCH {option}'")
                }
                _ => "script not found".to_owned(),
            };
            summary
                .refused
                .push((format!("{procedure}: {what}"), *count));
        }
    }
    refused
}

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
        if let Some(advice) = way_out(message) {
            printer.hint(advice);
        }
        summary
            .refused
            .push((format!("{procedure}: {message}"), *count));
        exit = Exit::Refused;
    }
    for retry in &submitted.refused_retries {
        let more = match retry.count {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
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
        if let Some(hint) = error.hint() {
            printer.hint(&hint);
        }
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
        let words = if again.len() == 1 { one } else { several };
        if !again.is_empty() {
            printer.news(&format!(
                "{} {words}: submitted again ({})",
                again.len(),
                first(&again)
            ));
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
    let mut held_back = |why: &str| summary.hold_back(why, left);
    match stop {
        Halt::Limit(message) => {
            held_back("a limit of Slurm's");
            printer.note(&format!(
                "Slurm takes no more jobs now: {message}; the rest waits for the next run"
            ));
            exit
        }
        Halt::Transient(message) => {
            held_back("Slurm could not be reached");
            printer.warning(&format!(
                "Slurm does not take jobs now: {message}; the next run tries again"
            ));
            Exit::Unreachable
        }
        Halt::NoAnswers(message) => {
            held_back("Slurm did not answer");
            printer.warning(&format!(
                "several submissions in a row ended without an answer ({message}), and the queue does not answer either, \
                 so no more were made; the next runs look for them first"
            ));
            Exit::Unreachable
        }
        Halt::Deadline => {
            held_back("the deadline of a run");
            printer.note("the run has reached its deadline; the rest waits for the next run");
            exit
        }
        Halt::Journal(error) => {
            held_back("the journal could not be written");
            printer.error(&without_intent(error));
            if let Some(hint) = error.hint() {
                printer.hint(&hint);
            }
            Exit::Error
        }
        // Why is told with what could not be saved.
        Halt::Unsaved => {
            held_back("the rows could not be saved");
            Exit::Error
        }
        Halt::Lock(error) => {
            held_back("the lock was lost");
            printer.error(&format!("{error}; nothing more was submitted"));
            Exit::Locked
        }
    }
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
    fn attack_an_array_of_another_study_is_not_called_this_ones() {
        assert_eq!(whose_array(None), "this study");
        assert_eq!(
            whose_array(Some("other@1")),
            "this study or of the study other@1"
        );
    }

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
