//! What a run notes before it submits: stray jobs, rows that nothing is done about, reduced requests, missing scripts.

use std::collections::{BTreeMap, BTreeSet};

use crate::act::pass::MissingScripts;
use crate::base::text::{few, maybe, plural, plural_of};
use crate::cli::views::RunSummary;
use crate::cli::{Context, Printer};
use crate::decide::reconcile::strays::Strays;
use crate::decide::request::{Prepared, Reduced};
use crate::executor::ExecutorError;
use crate::gather::sessions::discover::Discovery;
use crate::model::state::State;

pub fn tell_strays(strays: &Strays, state: &State, context: &Context, printer: &mut Printer) {
    for (key, job) in &strays.adopt {
        printer.note(&format!("{key}: adopted its living job {}", job.id));
    }
    for (key, job) in &strays.doubled {
        let own = state.get(key).and_then(|row| row.job_id.as_ref());
        let own = maybe(" beside job ", own, "");
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
    if names.is_empty() {
        return;
    }
    let are = plural_of(
        names.len(),
        "session on record is",
        "sessions on record are",
    );
    printer.note(&format!(
        "{are} gone from the data: {} (renamed?)",
        few(&names, 3)
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
}
