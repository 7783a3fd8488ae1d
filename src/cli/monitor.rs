//! `monitor`: asks about the jobs in flight and updates their rows. Never submits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::args::{MonitorArgs, WriteArgs};
use super::context::{Access, Context};
use super::error::{Exit, Failure};
use super::output::{Printer, Verbosity};
use super::views;
use crate::executor::JobId;
use crate::pass::Looked;
use crate::state::audit_log::AuditLog;
use crate::state::{State, TaskKey, TaskRow, TaskStatus};

pub fn run(context: &Context, args: &MonitorArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    loop {
        let (looked, state) = update(context, "monitor", &args.write, printer)?;
        if args.watch.is_some() && printer.clears_screen() {
            printer.clear_screen();
        }
        if printer.verbosity() > Verbosity::Quiet {
            views::print_counts(printer, state.rows(), &context.config.procedures)?;
            hint_at_failures(state.rows(), context, printer);
        }
        match args.watch {
            Some(seconds) if !printer.is_closed() => {
                std::thread::sleep(Duration::from_secs(seconds.get().into()));
            }
            _ if looked.queue_failed.is_some() || looked.accounting_failed.is_some() => {
                return Ok(Exit::Unreachable);
            }
            _ => return Ok(Exit::Done),
        }
    }
}

/// Takes the lock, brings the rows up to date, saves them, and lets the lock go.
pub fn update(
    context: &Context,
    command: &str,
    args: &WriteArgs,
    printer: &mut Printer,
) -> Result<(Looked, State), Failure> {
    let (locked, mut state) = context.lock_state(command, args, printer)?;
    let outputs = context.outputs(&state, printer)?;
    let mut executor = context.executor(Access::ReadWrite)?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), outputs.as_ref(), &project);
    let looked = pass.look(&mut state);
    if let Some(message) = &looked.queue_failed {
        printer.warning(&format!(
            "the queue does not answer: {message}; statuses stay as they are"
        ));
    }
    tell(&looked, printer);
    pass.save(&locked, &mut state, &looked.events)?;
    Ok((looked, state))
}

pub fn open_audit(context: &Context) -> Result<AuditLog, Failure> {
    AuditLog::open(&context.config.log_file, &context.run_id)
        .map_err(|(path, source)| Failure::Write { path, source })
}

/// Tells what changed, one line each, and whether accounting is silent.
pub fn tell(looked: &Looked, printer: &mut Printer) {
    for warning in &looked.warnings {
        printer.warning(warning);
    }
    if let Some(message) = &looked.accounting_failed
        && looked.queue_failed.is_none()
    {
        printer.warning(&format!(
            "accounting does not answer: {message}; nothing is concluded from its silence"
        ));
    }
    for ((status, reason), row) in &looked.changed {
        let word =
            |status: &dyn std::fmt::Display, reason: Option<crate::state::Reason>| match reason {
                Some(reason) => format!("{status} ({reason})"),
                None => status.to_string(),
            };
        let job = row
            .job_id
            .as_ref()
            .map_or_else(String::new, |id| format!(", job {id}"));
        printer.detail(&format!(
            "{}: {} -> {}{job}",
            row.key,
            word(status, *reason),
            word(&row.status, row.reason),
        ));
    }
    for (reason, jobs) in by_reason(&looked.held) {
        printer.warning(&format!(
            "{} job(s) will not start by themselves, Slurm says {reason}: {}",
            jobs.len(),
            first(&jobs)
        ));
    }
    for row in &looked.released {
        printer.note(&format!(
            "{}: the submission in doubt never became a job; the task is free again",
            row.key
        ));
    }
}

/// Says what to do about failed tasks, in one line. Not with `-q`.
pub fn hint_at_failures(rows: &[TaskRow], context: &Context, printer: &mut Printer) {
    let failed = rows
        .iter()
        .filter(|row| row.status == TaskStatus::Failed)
        .count();
    if failed == 0 || printer.is_quiet() {
        return;
    }
    let logs = match &context.config.slurm.log_dir {
        Some(dir) => format!(", their logs are below {}", dir.display()),
        None => String::new(),
    };
    printer.hint(&format!(
        "`snbb-scheduler status --status failed` shows the {failed} failed task(s){logs}; \
         once the cause is mended, `snbb-scheduler retry` makes them due again"
    ));
}

/// Groups held jobs by Slurm's word, so that a thousand of them are one line.
fn by_reason(held: &[(TaskKey, JobId, String)]) -> BTreeMap<&str, Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, id, reason) in held {
        groups
            .entry(reason)
            .or_default()
            .push(format!("{key} (job {id})"));
    }
    groups
}

fn first(jobs: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = jobs[..jobs.len().min(SHOWN)].join(", ");
    if jobs.len() > SHOWN {
        text.push_str(", ...");
    }
    text
}
