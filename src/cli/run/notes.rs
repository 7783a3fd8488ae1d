//! Notes of a run before it submits: stray jobs, abandoned rows, reduced requests, missing scripts.

use std::collections::{BTreeMap, BTreeSet};

use crate::act::pass::MissingScripts;
use crate::base::text::{few, maybe, plural, plural_of};
use crate::cli::views::RunSummary;
use crate::cli::{Context, Printer};
use crate::decide::reconcile::strays::Strays;
use crate::decide::request::Prepared;
use crate::executor::ExecutorError;
use crate::gather::sessions::discover::Discovery;
use crate::model::state::State;
use crate::setup::check::state::removed_procedures;

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
    let without_row: BTreeMap<_, _> = strays.without_row.iter().collect();
    for (key, id) in without_row {
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
        // Without a state file, one with another study's tag may be this study's.
        let or_other = maybe(" or of the study ", strays.other_project.as_ref(), "");
        printer.warning(&match procedure {
            Some(procedure) => format!(
                "{procedure}: {} of a job array of this study{or_other} are in the queue (such as job {id}), but its task list below {} is missing, \
                 so it is unknown which tasks they are; all tasks of {procedure} wait until they end",
                plural(*count, "task"),
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

/// Notes rows of procedures that left the configuration, and of sessions that disappeared from the data.
pub(super) fn note_abandoned_rows(
    context: &Context,
    state: &State,
    found: &Discovery,
    printer: &mut Printer,
) {
    let config = &context.config;
    let removed = removed_procedures(config, state);
    if !removed.is_empty() {
        printer.note(&format!(
            "rows of procedures that are not in the configuration: {}",
            removed.join(", ")
        ));
    }
    // They may be in what could not be read.
    if !found.unreadable.is_empty() {
        return;
    }
    let keys = state.rows().iter().map(|row| &row.key);
    let mut sessions: BTreeSet<(&str, &str)> = keys
        .filter(|key| config.procedures.find(&key.procedure).is_some())
        .map(|key| (&*key.subject, &*key.session))
        .collect();
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
    let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
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
