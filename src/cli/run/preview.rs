//! The preview of a dry run: a table, with `-v` the exact commands, rows for scripts.

use polars::prelude::DataFrame;

use crate::base::shell;
use crate::base::text::few;
use crate::cli::error::Result;
use crate::cli::output::{Format, Printer, Verbosity};
use crate::decide::request::{Batch, Prepared};
use crate::executor::{Executor, JobRequest};
use crate::model::job::ExecutorKind;
use crate::show::explain::asks;
use crate::show::tables::{TableError, frame, numbers, texts};

/// Tasks named per line.
const SHOWN: usize = 3;

pub(super) fn print(
    batches: &[Batch],
    (executor, kind): (&dyn Executor, ExecutorKind),
    format: Format,
    printer: &mut Printer,
) -> Result<()> {
    match format {
        Format::Table if batches.is_empty() => {}
        Format::Table if printer.verbosity() >= Verbosity::Verbose => {
            lines(batches, executor, printer);
        }
        Format::Table => printer.frame(&overview(batches, kind)?, format, &[], &["jobs"])?,
        Format::Csv | Format::Json => {
            printer.frame(&rows(batches, executor, kind)?, format, &[], &[])?
        }
    }
    Ok(())
}

/// One row per procedure and requested resources.
fn overview(batches: &[Batch], kind: ExecutorKind) -> Result<DataFrame, TableError> {
    let mut groups: Vec<(&str, String, i64, Vec<String>)> = Vec::new();
    for Batch { tasks, array } in batches {
        for (at, task) in tasks.iter().enumerate() {
            let key = &task.intent.key;
            let asked = resources(task, kind);
            let jobs = i64::from(array.is_none() || at == 0);
            let known = groups.iter_mut();
            let mut known = known.filter(|group| group.0 == &*key.procedure && group.1 == asked);
            if let Some((_, _, all_jobs, labels)) = known.next() {
                *all_jobs += jobs;
                labels.push(key.labels_text());
            } else {
                groups.push((&key.procedure, asked, jobs, vec![key.labels_text()]));
            }
        }
    }
    let groups = || groups.iter();
    frame(vec![
        texts("procedure", groups().map(|group| Some(group.0))),
        numbers("tasks", groups().map(|group| Some(group.3.len() as i64))),
        numbers("jobs", groups().map(|group| Some(group.2))),
        texts("resources", groups().map(|group| Some(&group.1))),
        texts(
            "sessions or subjects",
            groups().map(|group| Some(few(&group.3, SHOWN))),
        ),
    ])
}

/// One row per task, with the command of its job.
fn rows(
    batches: &[Batch],
    executor: &dyn Executor,
    kind: ExecutorKind,
) -> Result<DataFrame, TableError> {
    let mut tasks: Vec<(&Prepared, Option<i64>, String)> = Vec::new();
    for batch in batches {
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        let command = shell::join(&executor.command_line(&requests, batch.array.as_ref()));
        for (at, task) in batch.tasks.iter().enumerate() {
            let index = batch.array.is_some().then_some(at as i64);
            tasks.push((task, index, command.clone()));
        }
    }
    let text = |name: &str, get: fn(&Prepared) -> &str| {
        texts(name, tasks.iter().map(|(task, ..)| Some(get(task))))
    };
    frame(vec![
        text("subject", |task| &task.intent.key.subject),
        text("session", |task| &task.intent.key.session),
        text("procedure", |task| &task.intent.key.procedure),
        numbers(
            "attempt",
            tasks
                .iter()
                .map(|(task, ..)| Some(task.intent.attempt.into())),
        ),
        text("job_name", |task| &task.request.job_name),
        numbers("array_index", tasks.iter().map(|(_, index, _)| *index)),
        texts(
            "resources",
            tasks.iter().map(|(task, ..)| Some(resources(task, kind))),
        ),
        texts("command", tasks.iter().map(|(.., command)| Some(command))),
    ])
}

/// The resources that a job requests.
fn resources(task: &Prepared, kind: ExecutorKind) -> String {
    match kind.has_cluster() {
        true => asks(&task.request.resources).join(" "),
        false => String::new(),
    }
}

/// The commands that would be run. An array's is followed by its tasks as comments.
fn lines(batches: &[Batch], executor: &dyn Executor, printer: &mut Printer) {
    for Batch { tasks, array } in batches {
        for task in tasks {
            if let Some(text) = task.notes.retry_text(task.intent.attempt) {
                printer.line(&format!("# {}: {text}", task.intent.key));
            }
        }
        let requests: Vec<&JobRequest> = tasks.iter().map(|task| &task.request).collect();
        printer.line(&shell::join(
            &executor.command_line(&requests, array.as_ref()),
        ));
        for (index, request) in requests.iter().enumerate().filter(|_| array.is_some()) {
            let arguments = shell::join(&request.arguments).replace('\n', "\\n");
            printer.line(&format!("#   {index}: {} {arguments}", request.script));
        }
    }
}
