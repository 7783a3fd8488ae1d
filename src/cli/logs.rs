//! `logs`: the last lines of a job's logs and, with `--follow`, new ones. Reads only; `--follow` queries Slurm.

use std::time::Duration;

use itertools::Itertools as _;

use super::args::LogsArgs;
use super::context::all_attempts;
use super::{
    Access, Context, Exit, Failure, Printer, Result, Selection, State, TaskRow, TaskStatus,
    Verbosity, failed, few, maybe, plural,
};
use crate::act::pass::queue_question;
use crate::base::regular::FileError;
use crate::base::text::size;
use crate::executor::Answer;
use crate::gather::logs::{self, Follower, LogFiles};
use crate::show::tables::row_text;

/// Interval at which followed logs are read.
const INTERVAL: Duration = Duration::from_millis(500);
/// Number of readings between two queries of the job.
const READINGS_PER_QUERY: u32 = 20;

pub(super) fn run(context: &Context, args: &LogsArgs, printer: &mut Printer) -> Result<Exit> {
    let state = context.read_state(printer)?;
    if args.failed {
        return show_failed(context, &state, args, printer);
    }
    let named = context.named(args.words(), &state)?;
    // The one attempt that the words name.
    let earlier = context.store.read_attempts()?;
    let attempts = all_attempts(&earlier, &state);
    let own = attempts.clone().filter(|row| named.contains(&row.key));
    let all: Vec<&TaskRow> = own.sorted_by_key(|row| number(row)).collect();
    let keys = all.iter().map(|row| &row.key).unique().sorted();
    let keys = keys.collect_vec();
    if let [_, .., last] = &keys[..] {
        let (count, list) = (keys.len(), keys.iter().join("\n  "));
        return Err(Failure::usage(
            format!("{named} has {count} tasks with jobs:\n  {list}"),
            format!("name one of them: snbb-scheduler logs {}", last.words()),
        ));
    }
    let is_wanted = |row: &&&TaskRow| args.attempt.is_none_or(|wanted| number(row) == wanted);
    let newest = all.iter().filter(is_wanted);
    let newest = newest.max_by_key(|row| (number(row), row.submitted_at, row.is_in_flight()));
    if let Some(row) = newest {
        return show_one(context, row, args, printer);
    }
    if all.is_empty() {
        context.refuse_unknown(attempts.map(|row| &row.key), named.labels())?;
    }
    let numbers = Some(all.iter().map(|row| number(row)).join(", "));
    let numbers = numbers.filter(|numbers| !numbers.is_empty());
    let known = maybe(" with this number; those on record are ", numbers, "");
    Err(Failure::not_found(
        format!("{named}: no attempt is on record{known}"),
        format!("`snbb-scheduler history {named}` and `explain {named}` show why"),
    ))
}

/// Shows the logs of failed tasks; of similar failures only the first one's, unless with `-v`.
fn show_failed(
    context: &Context,
    state: &State,
    args: &LogsArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    // Without words, those of all tasks.
    let named = args.subject.as_ref();
    let named = named.map(|_| context.named(args.words(), state));
    let named = named.transpose()?;
    let names = context.procedure_names(Some(state));
    let selection = Selection::new(&[], &[], &args.procedures, &names)?;
    let is_chosen = |row: &&TaskRow| {
        row.status == TaskStatus::Failed
            && named.as_ref().is_none_or(|named| named.contains(&row.key))
            && selection.contains_key(&row.key)
    };
    let rows: Vec<TaskRow> = state.rows().iter().filter(is_chosen).cloned().collect();
    if rows.is_empty() {
        if let Some(named) = &named {
            context.refuse_unknown(state.rows().iter().map(|row| &row.key), named.labels())?;
        }
        printer.note(failed::NO_FAILURES);
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
            let labels = group.iter().map(|row| row.key.labels_text()).collect_vec();
            printer.note(&format!(
                "{} of {} failed alike: {}; these are the logs of the first",
                plural(group.len(), "task"),
                first.key.procedure,
                few(&labels, failed::TASKS_SHOWN)
            ));
        }
        match show_one(context, first, args, printer) {
            Ok(Exit::Done) => {}
            Ok(other) => exit = other,
            // The logs of the others may exist.
            Err(failure) => {
                printer.warning(&failure.sentence());
                exit = Exit::Error;
            }
        }
    }
    if groups.len() < rows.len() {
        printer.hint("-v shows the logs of every task");
    }
    Ok(exit)
}

fn show_one(
    context: &Context,
    row: &TaskRow,
    args: &LogsArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    let key = &row.key;
    let Some(job) = row.job_id.clone() else {
        return Err(Failure::not_found(
            format!("{key}: it is not yet known whether Slurm accepted its job"),
            "the next `run` or `monitor` will look for it",
        ));
    };
    let Some(files) = logs::files_of(&context.config, &context.store, row) else {
        return Err(Failure::not_found(
            format!("{key}: `slurm_log_dir` is not set, so the logs of job {job} are unknown"),
            format!(
                "set `slurm_log_dir` in the configuration; without it, Slurm writes slurm-{job}.out into the directory in which `run` \
                 started (under cron the home directory), unless the script sets #SBATCH --output"
            ),
        ));
    };
    if args.path {
        for (_, path) in files.iter() {
            printer.line(&path.to_string_lossy());
        }
        return Ok(Exit::Done);
    }
    let (number, text) = (number(row), row_text(row));
    printer.note(&format!("{key}, attempt {number}, job {job}: {text}"));
    let mut followers = show(&files, args, printer)?;
    let mut is_live = row.is_in_flight();
    if !args.follow {
        let mut paths = files.iter().map(|(_, path)| path);
        let is_fine = is_live || paths.any(|path| path.symlink_metadata().is_ok());
        return Ok(Exit::Done.unless(!is_fine, Exit::Error));
    }
    // Prints new lines until the job has ended.
    let state = context.store.read()?;
    let mut executor = context.executor(Access::ReadOnly, &state)?;
    let question = queue_question(&context.config, &state);
    // Unless the queue shows that the job has ended. A queue that is not responding shows nothing.
    let mut is_alive = || {
        executor.set_deadline(context.config.deadline);
        match executor.observe(&question).queue {
            Answer::Got(jobs) => jobs.iter().any(|it| it.id == job && it.phase.is_live()),
            Answer::Failed(_) => true,
            Answer::Off => false,
        }
    };
    // The last log already has its header.
    let mut shown = followers.len().saturating_sub(1);
    for reading in 0u32.. {
        // Queried before the logs are read, so that the last lines are not missed.
        if is_live && reading.is_multiple_of(READINGS_PER_QUERY) {
            is_live = is_alive();
        }
        for (at, follower) in followers.iter_mut().enumerate() {
            let lines = follower.next_lines();
            let mut lines = lines.map_err(FileError::of("read", follower.path()))?;
            if !is_live {
                lines.extend(follower.finish());
            }
            if shown != at && !lines.is_empty() {
                shown = at;
                printer.line(&format!("==> {} <==", follower.path().display()));
            }
            for line in lines {
                printer.line(&line);
            }
        }
        if !is_live || printer.is_closed() {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    printer.note(&format!(
        "job {job} has ended; `monitor` records its result"
    ));
    Ok(Exit::Done)
}

fn number(row: &TaskRow) -> i32 {
    row.attempt.unwrap_or(1)
}

/// Shows the last lines of each log, and returns readers for new lines.
fn show(files: &LogFiles, args: &LogsArgs, printer: &mut Printer) -> Result<Vec<Follower>> {
    let mut followers = Vec::new();
    for (what, path) in files.iter() {
        let end = logs::tail(path, args.lines).map_err(FileError::of("read", path))?;
        followers.push(Follower::new(path, end.as_ref().map_or(0, |end| end.size)));
        let Some(end) = end else {
            printer.warning(&format!(
                "no {what} log {}: the job has not started yet, writes elsewhere (#SBATCH --output), or its log was removed",
                path.display()
            ));
            continue;
        };
        let size = match (end.size, end.is_cut) {
            (0, _) => " (empty)".to_owned(),
            (_, false) => String::new(),
            (all, true) => format!(" (last lines of {})", size(all)),
        };
        printer.line(&format!("==> {}{size} <==", path.display()));
        for line in &end.lines {
            printer.line(line);
        }
    }
    Ok(followers)
}
