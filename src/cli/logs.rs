//! `logs`: the end of a job's logs, and what comes after it. Reads only; asks Slurm with `--follow`.

use std::path::Path;
use std::time::Duration;

use super::args::LogsArgs;
use super::context::{Access, Context};
use super::error::Failure;
use super::failed;
use super::naming::Named;
use super::output::{Printer, Verbosity};
use crate::act::pass::queue_question;
use crate::base::exit::Exit;
use crate::base::text::{few, plural, size};
use crate::executor::{Answer, Executor, Question};
use crate::gather::logs;
use crate::gather::logs::{Follower, LogFiles};
use crate::model::job::JobId;
use crate::model::state::{State, TaskRow, TaskStatus};
use crate::show::tables::row_text;

/// How often the logs are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// So many looks after each other the job is asked for.
const LOOKS_PER_QUESTION: u32 = 20;
/// So many tasks of a group are named.
const TASKS_SHOWN: usize = 10;

pub fn run(context: &Context, args: &LogsArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let state = context.read_state(printer)?;
    let named = args.subject.is_some() || !args.failed;
    let named = named
        .then(|| context.named(args.words(), &state))
        .transpose()?;
    match named {
        Some(named) if !args.failed => {
            let row = choose(context, &named, args.attempt, &state)?;
            show_one(context, &row, args, printer)
        }
        named => show_failed(context, named.as_ref(), &state, args, printer),
    }
}

/// Shows the logs of failed tasks: of those that are alike the first one's, unless each is asked for.
fn show_failed(
    context: &Context,
    named: Option<&Named>,
    state: &State,
    args: &LogsArgs,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let rows = state.rows().iter();
    let rows = rows.filter(|row| row.status == TaskStatus::Failed);
    let rows = rows.filter(|row| named.is_none_or(|named| named.contains(&row.key)));
    let rows: Vec<TaskRow> = rows.cloned().collect();
    if rows.is_empty() {
        if let Some(named) = named {
            context.refuse_unknown_words(state.rows().iter().map(|row| &row.key), named)?;
        }
        printer.note(match named {
            Some(_) => "no failed task matches",
            None => "no task has failed",
        });
        return Ok(Exit::Done);
    }
    let groups = match printer.verbosity() >= Verbosity::Verbose {
        true => rows.iter().map(|row| vec![row]).collect(),
        false => failed::groups(context, &rows),
    };
    let mut exit = Exit::Done;
    for group in &groups {
        let Some(first) = group.first() else { continue };
        if group.len() > 1 {
            let labels: Vec<String> = group.iter().map(|row| row.key.labels_text()).collect();
            printer.note(&format!(
                "{} of {} failed alike: {}; these are the logs of the first",
                plural(group.len(), "task"),
                first.key.procedure,
                few(&labels, TASKS_SHOWN)
            ));
        }
        match show_one(context, first, args, printer) {
            Ok(Exit::Done) => {}
            Ok(other) => exit = other,
            // The logs of the others may be there.
            Err(failure) => {
                printer.warning(&failure.sentence());
                exit = Exit::Error;
            }
        }
    }
    if groups.len() < rows.len() {
        printer.hint("-v shows the logs of each task");
    }
    Ok(exit)
}

fn show_one(
    context: &Context,
    row: &TaskRow,
    args: &LogsArgs,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let Some(job) = row.job_id.clone() else {
        return Err(Failure::not_found(
            format!("{}: nobody knows yet whether its job was accepted", row.key),
            "the next `run` or `monitor` finds out".to_owned(),
        ));
    };
    let Some(files) = logs::files_of(&context.config, &context.store, row) else {
        return Err(Failure::not_found(
            format!(
                "{}: where the logs of job {job} are is not known, slurm_log_dir is not set",
                row.key
            ),
            format!(
                "Slurm writes slurm-{}.out into the directory where `run` was called (under cron the home \
                 directory), unless the script says otherwise (#SBATCH --output); set slurm_log_dir in the configuration",
                job.as_str()
            ),
        ));
    };
    if args.path {
        for (_, path) in files.iter() {
            printer.line(&path.to_string_lossy());
        }
        return Ok(Exit::Done);
    }
    printer.note(&about(row, &job));
    let followers = show(&files, row, args, printer)?;
    if args.follow {
        return follow(context, &job, followers, row.is_in_flight(), printer);
    }
    let are_there = files
        .iter()
        .any(|(_, path)| path.symlink_metadata().is_ok());
    let is_lost = !are_there && !row.is_in_flight();
    Ok(Exit::Done.unless(is_lost, Exit::Error))
}

/// Chooses the one attempt that is meant.
fn choose(
    context: &Context,
    named: &Named,
    attempt: Option<i32>,
    state: &State,
) -> Result<TaskRow, Failure> {
    let earlier = context.store.read_attempts()?;
    let everybody = earlier.iter().chain(state.superseded()).chain(state.rows());
    let all: Vec<&TaskRow> = everybody
        .clone()
        .filter(|row| named.contains(&row.key))
        .collect();
    let mut keys: Vec<_> = all.iter().map(|row| &row.key).collect();
    keys.sort();
    keys.dedup();
    if keys.len() > 1 {
        let list = keys.iter().map(|key| format!("\n  {key}"));
        return Err(Failure::usage(
            format!(
                "{named} has {} tasks with jobs:{}",
                keys.len(),
                list.collect::<String>()
            ),
            format!(
                "name one of them: snbb-scheduler logs {}",
                keys.last().map_or_else(String::new, |key| key.words())
            ),
        ));
    }
    let newest = all
        .iter()
        .filter(|row| attempt.is_none_or(|wanted| number(row) == wanted))
        .max_by_key(|row| (number(row), row.submitted_at, row.is_in_flight()));
    match newest {
        Some(row) => Ok((*row).clone()),
        None if all.is_empty() => {
            context.refuse_unknown_words(everybody.map(|row| &row.key), named)?;
            Err(Failure::not_found(
                format!("{named}: no job is on record"),
                format!("`snbb-scheduler explain {}` says why", named.words()),
            ))
        }
        None => {
            let mut numbers: Vec<i32> = all.iter().map(|row| number(row)).collect();
            numbers.sort_unstable();
            let numbers: Vec<String> = numbers.iter().map(i32::to_string).collect();
            Err(Failure::not_found(
                format!(
                    "{named}: there is no such attempt, on record are {}",
                    numbers.join(", ")
                ),
                format!("`snbb-scheduler history {}` lists them", named.words()),
            ))
        }
    }
}

fn number(row: &TaskRow) -> i32 {
    row.attempt.unwrap_or(1)
}

fn about(row: &TaskRow, job: &JobId) -> String {
    format!(
        "{}, attempt {}, job {job}: {}",
        row.key,
        number(row),
        row_text(row)
    )
}

/// Shows the end of each log, and returns what reads on.
fn show(
    files: &LogFiles,
    row: &TaskRow,
    args: &LogsArgs,
    printer: &mut Printer,
) -> Result<Vec<Follower>, Failure> {
    let mut followers = Vec::new();
    for (what, path) in files.iter() {
        let end = logs::tail(path, args.lines).map_err(|source| Failure::Read {
            path: path.to_owned(),
            source,
        })?;
        let Some(end) = end else {
            followers.push(Follower::new(path, 0));
            let text = format!("no {what} log {}: {}", path.display(), why_not(row, path));
            if row.is_in_flight() {
                printer.note(&text);
            } else {
                printer.warning(&text);
            }
            continue;
        };
        followers.push(Follower::new(path, end.size));
        let size = match (end.size, end.is_cut) {
            (0, _) => " (empty)".to_owned(),
            (_, false) => String::new(),
            (all, true) => format!(" (the end of {})", size(all)),
        };
        printer.line(&format!("==> {}{size} <==", path.display()));
        for line in &end.lines {
            printer.line(line);
        }
    }
    Ok(followers)
}

fn why_not(row: &TaskRow, path: &Path) -> String {
    let dir = path
        .parent()
        .is_some_and(|dir| dir.symlink_metadata().is_ok());
    match row.status {
        TaskStatus::Pending => "the job has not started yet".to_owned(),
        TaskStatus::Running => {
            "the job has not written it yet, or has it elsewhere (#SBATCH --output)".to_owned()
        }
        _ if !dir => "its directory is gone, or the job could not write there".to_owned(),
        _ => "it was removed, or the job never began or wrote elsewhere (#SBATCH --output)"
            .to_owned(),
    }
}

/// Shows what is written from now on, until the job has ended.
fn follow(
    context: &Context,
    job: &JobId,
    mut followers: Vec<Follower>,
    is_live: bool,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let state = context.store.read()?;
    let mut executor = context.executor(Access::ReadOnly, &state)?;
    let question = queue_question(&context.config, &state);
    // The log that was shown last needs no header.
    let mut shown = followers.len().saturating_sub(1);
    let mut looks = 0u32;
    let mut lives = is_live;
    loop {
        // Asked before the logs are read: what the job wrote last is not missed.
        if lives && looks.is_multiple_of(LOOKS_PER_QUESTION) {
            lives = is_alive(executor.as_mut(), &question, job, context);
        }
        looks = looks.wrapping_add(1);
        for (at, follower) in followers.iter_mut().enumerate() {
            let mut lines = follower.next_lines().map_err(|source| Failure::Read {
                path: follower.path().to_owned(),
                source,
            })?;
            if !lives {
                lines.extend(follower.finish());
            }
            if lines.is_empty() {
                continue;
            }
            if shown != at {
                shown = at;
                printer.line(&format!("==> {} <==", follower.path().display()));
            }
            for line in lines {
                printer.line(&line);
            }
        }
        if !lives || printer.is_closed() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    printer.note(&format!(
        "job {job} has ended; `snbb-scheduler monitor` takes note of how"
    ));
    Ok(Exit::Done)
}

/// True unless the queue says otherwise. A queue that does not answer says nothing.
fn is_alive(
    executor: &mut dyn Executor,
    question: &Question,
    job: &JobId,
    context: &Context,
) -> bool {
    executor.set_deadline(context.config.deadline);
    match executor.observe(question).queue {
        Answer::Got(jobs) => jobs
            .iter()
            .any(|report| report.id == *job && report.phase.is_live()),
        Answer::Failed(_) => true,
        Answer::Off => false,
    }
}
