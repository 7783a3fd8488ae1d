//! Notes of a run before it submits: stray jobs, abandoned rows, reduced requests, missing scripts.

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

pub(crate) fn report_strays(
    strays: &Strays,
    state: &State,
    context: &Context,
    printer: &mut Printer,
) {
    for (key, job) in &strays.adopt {
        printer.note(&format!("{key}: adopted its job {}", job.id));
    }
    for (key, job) in &strays.doubled {
        let own = state.get(key).and_then(|row| row.job_id.as_ref());
        let own = maybe(" beside job ", own, "");
        printer.warning(&format!(
            "{key}: a second job, {}, is in the queue{own}; cancel one of them: {}",
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
                "{key}: job {id} was submitted for this task but is recorded in the row of {} (was the state edited?); \
                 the task waits until it ends",
                row.key
            ),
            None => format!(
                "{key}: job {id} has this task's name but was not submitted by this study; \
                 the task waits until it ends"
            ),
        });
    }
    if let Some(project) = &strays.other_project {
        printer.hint(&format!(
            "there was no state file at {} yet, but jobs of the study {project} are in the queue: if its state was moved, \
             move it there before the next run; if this is another study, give it another `project`",
            context.store.paths.state.display()
        ));
    }
    for (procedure, (count, job)) in &strays.unknown {
        let (id, scancel) = (&job.id, job.scancel_line());
        printer.warning(&match procedure {
            Some(procedure) => format!(
                "{procedure}: {} of a job array of {} are in the queue (such as job {id}), but its task list below {} is missing, \
                 so it is unknown which tasks they are; all tasks of {procedure} wait until they end",
                plural(*count, "task"),
                whose_array(strays.other_project.as_deref()),
                context.store.paths.arrays.display()
            ),
            None => format!(
                "{} of this study (such as job {id}) may be running any task: their names were changed and the audit log does \
                 not list them; no task is submitted until they end; to cancel them: {scancel}",
                plural(*count, "job")
            ),
        });
    }
    for (name, job) in &strays.orphans {
        printer.warning(&format!(
            "job {} ({name}) was submitted for a task that no longer exists in {}; to cancel it: {}",
            job.id,
            context
                .config
                .file
                .as_deref()
                .map_or_else(|| "the configuration".to_owned(), |file| file.display().to_string()),
            job.scancel_line()
        ));
    }
}

/// Possible owners of an array. Without a state file, one with another study's tag may be this study's.
fn whose_array(other_project: Option<&str>) -> String {
    match other_project {
        Some(other) => format!("this study or of the study {other}"),
        None => "this study".to_owned(),
    }
}

/// Notes rows of procedures that left the configuration, and of sessions that disappeared from the data.
pub(super) fn note_abandoned_rows(
    context: &Context,
    state: &State,
    found: &Discovery,
    printer: &mut Printer,
) {
    let mut removed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut sessions: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in state.rows() {
        let key = &row.key;
        if context.config.procedures.find(&key.procedure).is_some() {
            sessions.insert((&key.subject, &key.session));
            continue;
        }
        let (rows, in_flight) = removed.entry(&key.procedure).or_default();
        *rows += 1;
        *in_flight += usize::from(row.is_in_flight());
    }
    if !removed.is_empty() {
        let names: Vec<String> = removed
            .iter()
            .map(|(name, (rows, in_flight))| match in_flight {
                0 => format!("{name} ({rows})"),
                in_flight => format!("{name} ({rows}, {in_flight} in flight)"),
            })
            .collect();
        printer.note(&format!(
            "rows of procedures that are not in the configuration: {}",
            names.join(", ")
        ));
    }
    // They may be in what could not be read.
    if !found.unreadable.is_empty() {
        return;
    }
    for session in &found.sessions {
        sessions.remove(&(session.subject.as_str(), session.session.as_str()));
        // The row of a subject-scoped task.
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
        "session on record is missing",
        "sessions on record are missing",
    );
    printer.note(&format!(
        "{are} from the data: {} (renamed?)",
        few(&names, 3)
    ));
}

/// Notes requests above the site's limits, in one line per procedure and kind.
pub(super) fn note_reduced_requests<'a>(
    tasks: impl Iterator<Item = &'a Prepared>,
    printer: &mut Printer,
) {
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

/// Warns of missing or unsuitable scripts. True if a due task needs one of them.
pub(super) fn warn_missing_scripts(
    missing: &MissingScripts,
    summary: &mut RunSummary,
    printer: &mut Printer,
) -> bool {
    let mut refused = false;
    let mut hints = BTreeSet::new();
    for (procedure, (error, count)) in missing {
        let due = if *count == 0 {
            "; this holds up nothing now, because none of its tasks is due"
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
