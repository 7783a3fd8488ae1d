//! What a run shows before it submits: stray jobs, abandoned rows, reduced requests, missing scripts, and the preview of
//! a dry run.

use std::collections::{BTreeMap, BTreeSet};

use crate::act::pass::MissingScripts;
use crate::base::shell;
use crate::cli::{Context, Format, Printer, Result, State, Verbosity, few, maybe, plural};
use crate::decide::reconcile::strays::Strays;
use crate::decide::request::{Batch, Prepared};
use crate::executor::{Executor, JobRequest};
use crate::gather::sessions::discover::Discovery;
use crate::model::job::ExecutorKind;
use crate::model::state::TaskKey;
use crate::setup::check::state::{removed_procedures, without_session};
use crate::show::explain::asks;
use crate::show::notify::Figures;
use crate::show::tables::{frame, numbers, texts};

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
        let mut rows = state.rows().iter();
        let owner = rows.find(|row| row.job_id.as_ref() == Some(id));
        let owner = maybe(", or is in the row of ", owner.map(|row| &row.key), "");
        printer.warning(&format!(
            "{key}: job {id} has this task's name but was not submitted by this study{owner}; the task waits until it ends"
        ));
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
        let file = context.config.file.as_deref().map(|file| file.display());
        printer.warning(&format!(
            "job {} ({name}) was submitted for a task that no longer exists in the configuration{}; to cancel it: {}",
            job.id,
            maybe(" ", file, ""),
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
    let keys = without_session(config, state, &found.sessions);
    let names: BTreeSet<String> = keys.map(TaskKey::labels_text).collect();
    let names = Vec::from_iter(names);
    // They may be in what could not be read.
    if !names.is_empty() && found.unreadable.is_empty() {
        printer.note(&format!(
            "{} on record missing from the data: {} (renamed?)",
            plural(names.len(), "session"),
            few(&names, 3)
        ));
    }
}

/// Notes requests above the site's limits, in one line per procedure and kind.
pub(super) fn note_reduced_requests<'a>(
    tasks: impl Iterator<Item = &'a Prepared>,
    printer: &mut Printer,
) {
    let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for task in tasks {
        for reduced in &task.notes.reduced {
            let procedure = &*task.intent.key.procedure;
            *groups.entry((procedure, reduced)).or_default() += 1;
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
    figures: &mut Figures,
    printer: &mut Printer,
) -> bool {
    let mut hints = BTreeSet::new();
    for (procedure, (error, count)) in missing {
        printer.warning(&format!("{procedure}: {error}"));
        printer.hints(error.hint().filter(|hint| hints.insert(hint.clone())));
        if *count > 0 {
            let cause = format!("{procedure}: script missing or unsuitable");
            figures.refused.push((cause, *count));
        }
    }
    !figures.refused.is_empty()
}

/// The preview of a dry run: a table, with `-v` the exact commands, rows for scripts.
pub(super) fn print_preview(
    batches: &[Batch],
    (executor, kind): (&dyn Executor, ExecutorKind),
    format: Format,
    printer: &mut Printer,
) -> Result<()> {
    let resources = |task: &Prepared| match kind.has_cluster() {
        true => asks(&task.request.resources).join(" "),
        false => String::new(),
    };
    match format {
        Format::Table if batches.is_empty() => {}
        Format::Table if printer.verbosity() >= Verbosity::Verbose => {
            for batch in batches {
                print_commands(batch, executor, printer);
            }
        }
        // One row per procedure and requested resources.
        Format::Table => {
            let mut groups: Vec<(&str, String, i64, Vec<String>)> = Vec::new();
            for Batch { tasks, array } in batches {
                for (at, task) in tasks.iter().enumerate() {
                    let (key, asked) = (&task.intent.key, resources(task));
                    let jobs = i64::from(array.is_none() || at == 0);
                    let mut known = groups.iter_mut();
                    match known.find(|group| group.0 == &*key.procedure && group.1 == asked) {
                        Some((_, _, all_jobs, labels)) => {
                            *all_jobs += jobs;
                            labels.push(key.labels_text());
                        }
                        None => groups.push((&key.procedure, asked, jobs, vec![key.labels_text()])),
                    }
                }
            }
            let groups = || groups.iter();
            let overview = frame(vec![
                texts("procedure", groups().map(|group| Some(group.0))),
                numbers("tasks", groups().map(|group| Some(group.3.len() as i64))),
                numbers("jobs", groups().map(|group| Some(group.2))),
                texts("resources", groups().map(|group| Some(&group.1))),
                texts(
                    "sessions or subjects",
                    groups().map(|group| Some(few(&group.3, 3))),
                ),
            ]);
            printer.frame(&overview?, format, &[], &["jobs"])?;
        }
        // One row per task, with the command of its job.
        _ => {
            let mut tasks: Vec<(&Prepared, Option<i64>, String)> = Vec::new();
            for batch in batches {
                let command = command_of(batch, executor);
                for (at, task) in batch.tasks.iter().enumerate() {
                    let index = batch.array.is_some().then_some(at as i64);
                    tasks.push((task, index, command.clone()));
                }
            }
            let tasks = || tasks.iter();
            let text = |name: &str, get: fn(&Prepared) -> &str| {
                texts(name, tasks().map(|(task, ..)| Some(get(task))))
            };
            let attempts = tasks().map(|(task, ..)| Some(task.intent.attempt.into()));
            let asked = tasks().map(|(task, ..)| Some(resources(task)));
            let rows = frame(vec![
                text("subject", |task| &task.intent.key.subject),
                text("session", |task| &task.intent.key.session),
                text("procedure", |task| &task.intent.key.procedure),
                numbers("attempt", attempts),
                text("job_name", |task| &task.request.job_name),
                numbers("array_index", tasks().map(|(_, index, _)| *index)),
                texts("resources", asked),
                texts("command", tasks().map(|(.., command)| Some(command))),
            ]);
            printer.frame(&rows?, format, &[], &[])?;
        }
    }
    Ok(())
}

/// The command line of a job or of a job array.
fn command_of(batch: &Batch, executor: &dyn Executor) -> String {
    let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
    shell::join(&executor.command_line(&requests, batch.array.as_ref()))
}

/// The commands that would be run. An array's is followed by its tasks as comments.
fn print_commands(batch: &Batch, executor: &dyn Executor, printer: &mut Printer) {
    for task in &batch.tasks {
        if let Some(text) = task.notes.retry_text(task.intent.attempt) {
            printer.line(&format!("# {}: {text}", task.intent.key));
        }
    }
    printer.line(&command_of(batch, executor));
    let tasks = batch.tasks.iter().enumerate();
    for (index, Prepared { request, .. }) in tasks.filter(|_| batch.array.is_some()) {
        let arguments = shell::join(&request.arguments).replace('\n', "\\n");
        printer.line(&format!("#   {index}: {} {arguments}", request.script));
    }
}
