//! `run`: the whole pass. Finds the sessions, brings the rows up to date, decides, submits.
//!
//! A dry run goes the same way up to the submission, takes no lock and writes nothing.

use super::args::RunArgs;
use super::context::{Access, Context};
use super::error::{Exit, Failure};
use super::guard::Guard;
use super::manifest::warn_unreadable;
use super::monitor::{hint_at_failures, tell};
use super::output::Printer;
use super::views::{self, RunSummary};
use crate::bids::Session;
use crate::pass::{Decided, Looked, MissingScripts, Pass, Wishes};
use crate::reconcile::strays::Strays;
use crate::state::State;
use crate::state::store::StateError;
use crate::submit::{Stop, Submitted};
use crate::sys;

pub fn run(context: &Context, args: &RunArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    if args.force && selection.is_everything() {
        return Err(Failure::Usage {
            message: "--force needs a selection".to_owned(),
            hint: "say which tasks are to run again, such as --procedure qsiprep --subject 0001"
                .to_owned(),
        });
    }
    let is_everything = selection.is_everything();
    let policy = context.policy(selection, args.force)?;
    let started = sys::now();
    let (locked, mut state) = if args.dry_run {
        (None, context.read_state(printer)?)
    } else {
        let (locked, state) = context.lock_state("run", &args.write, printer)?;
        (Some(locked), state)
    };
    let access = match locked {
        Some(_) => Access::ReadWrite,
        None => Access::ReadOnly,
    };
    let mut executor = context.executor(access)?;
    executor.preflight()?;
    let mut guard = Guard::new(context, args, locked.as_ref());
    guard.before_scan(executor.as_mut(), &mut state, printer)?;
    let found = context.discover(printer)?;
    context.tell_unmatched(&policy, &found, printer);
    let probe = context.probe()?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), &probe, &project);

    let looked = if args.skip_monitor {
        pass.look_at_queue()
    } else {
        pass.look(&mut state)
    };
    if let Some(message) = &looked.queue_failed {
        return Err(Failure::QueueUnknown {
            message: message.clone(),
        });
    }
    tell(&looked, printer);
    let wishes = Wishes {
        policy,
        max_jobs: args.max_jobs,
    };
    let mut decided = decide(
        context,
        &mut pass,
        &mut state,
        &found.sessions,
        &looked,
        &wishes,
        printer,
    )?;

    if !found.unreadable.is_empty() {
        decided.standing.sessions = None;
    }
    guard.before_submission(&pass, &mut state, (&looked, &mut decided), printer)?;

    let mut summary = RunSummary::of(found.sessions.len(), &decided.manifest);
    summary.dry_run = args.dry_run;
    let mut exit = warn_unreadable(&decided.manifest, found.unreadable.is_empty(), printer);
    if tell_missing(&decided.missing_scripts, &mut summary, printer) {
        exit = Exit::Refused;
    }
    if let Some(locked) = &locked {
        let count = decided.tasks.len() as u64;
        let progress = printer.progress(Some(count), "submitting");
        let submitted = pass.carry_out(locked, &mut state, &decided, started, &|| progress.inc(1));
        progress.finish();
        exit = report(&submitted?, &mut summary, printer, exit);
    } else {
        summary.submitted = decided.tasks.len();
        for task in &decided.tasks {
            printer.line(&shell_words::join(
                pass.executor.command_line(&task.request),
            ));
        }
    }
    if summary.tasks == 0 && !is_everything {
        printer.warning("no task of the study matches the selection");
    }
    views::print_run_summary(printer, &summary);
    hint_at_failures(state.rows(), context, printer);
    if looked.accounting_failed.is_some() && exit == Exit::Done {
        // Submission went on; what the jobs did is not known.
        exit = Exit::Unreachable;
    }
    Ok(exit)
}

fn decide(
    context: &Context,
    pass: &mut Pass<'_>,
    state: &mut State,
    sessions: &[Session],
    looked: &Looked,
    wishes: &Wishes,
    printer: &mut Printer,
) -> Result<Decided, Failure> {
    let subjects = sessions.chunk_by(|a, b| a.subject == b.subject).count();
    let progress = printer.progress(Some(subjects as u64), "looking at outputs");
    let decided = pass.decide(&context.store, state, sessions, looked, wishes, &|| {
        progress.inc(1)
    });
    progress.finish();
    let decided = decided?;
    tell_strays(&decided.strays, state, context, printer);
    Ok(decided)
}

pub fn tell_strays(strays: &Strays, state: &State, context: &Context, printer: &mut Printer) {
    for (key, job) in &strays.adopt {
        printer.note(&format!("{key}: adopted its living job {}", job.id));
    }
    for (key, id) in &strays.doubled {
        let own = state
            .get(key)
            .and_then(|row| row.job_id.as_ref())
            .map_or_else(String::new, |id| format!(" beside job {id}"));
        printer.warning(&format!(
            "{key}: a second job, {id}, is alive{own}; one of them should go: scancel {id}"
        ));
    }
    for (key, id) in &strays.foreign {
        printer.warning(&format!(
            "{key}: job {id} has this task's name and was not submitted by this study; \
             the task waits until it ends"
        ));
    }
    if let Some(project) = &strays.other_project {
        printer.hint(&format!(
            "there was no state file at {} yet, and these jobs are of project {project}: if the study's state \
             was moved, put it there before the next run; if this is another study, the next run goes on",
            context.store.paths.state.display()
        ));
    }
    for (name, id) in &strays.orphans {
        printer.warning(&format!(
            "job {id} ({name}) was submitted for a task that {} no longer has; if it is not wanted: scancel {id}",
            context
                .config
                .file
                .as_deref()
                .map_or_else(|| "the study".to_owned(), |file| file.display().to_string()),
        ));
    }
}

/// Tells which scripts are nowhere; returns whether a due task needs one of them.
fn tell_missing(missing: &MissingScripts, summary: &mut RunSummary, printer: &mut Printer) -> bool {
    let mut refused = false;
    for (procedure, (error, count)) in missing {
        let due = if *count == 0 {
            " (nothing of it is due yet)"
        } else {
            ""
        };
        printer.warning(&format!("{procedure}: {error}{due}"));
        if let Some(hint) = error.hint() {
            printer.hint(&hint);
        }
        if *count > 0 {
            refused = true;
            summary
                .refused
                .push((format!("{procedure}: script not found"), *count));
        }
    }
    refused
}

fn report(
    submitted: &Submitted,
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
    for (procedure, (message, count)) in &submitted.refused {
        printer.warning(&format!("{procedure}: refused: {message}"));
        summary
            .refused
            .push((format!("{procedure}: {message}"), *count));
        exit = Exit::Refused;
    }
    for (key, message) in &submitted.in_doubt {
        printer.warning(&format!(
            "{key}: nobody knows yet whether its job was accepted ({message}); the next passes look for it"
        ));
    }
    if let Some(error) = &submitted.audit_error {
        printer.warning(&format!("the audit log is incomplete: {error}"));
        exit = Exit::Error;
    }
    if let Some((stop, left)) = &submitted.stopped {
        exit = report_stop(stop, *left, summary, printer, exit);
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

fn report_stop(
    stop: &Stop,
    left: usize,
    summary: &mut RunSummary,
    printer: &mut Printer,
    exit: Exit,
) -> Exit {
    let mut held_back = |why: &str| summary.held_back.push((why.to_owned(), left));
    match stop {
        Stop::Limit(message) => {
            held_back("a limit of Slurm's");
            printer.note(&format!(
                "Slurm takes no more jobs now: {message}; the rest waits for the next run"
            ));
            exit
        }
        Stop::Transient(message) => {
            held_back("Slurm could not be reached");
            printer.warning(&format!(
                "Slurm does not take jobs now: {message}; the next run tries again"
            ));
            Exit::Unreachable
        }
        Stop::NoAnswers(message) => {
            held_back("Slurm did not answer");
            printer.warning(&format!(
                "several submissions in a row ended without an answer ({message}), so no more were made; \
                 the next passes look for them first"
            ));
            Exit::Unreachable
        }
        Stop::Deadline => {
            held_back("the deadline of a run");
            printer.note("the run has reached its deadline; the rest waits for the next run");
            exit
        }
        Stop::Journal(error) => {
            held_back("the journal could not be written");
            printer.error(&format!("{error}; nothing more was submitted"));
            if let Some(hint) = error.hint() {
                printer.hint(&hint);
            }
            Exit::Error
        }
        Stop::Lock(error) => {
            held_back("the lock was lost");
            printer.error(&format!("{error}; nothing more was submitted"));
            Exit::Locked
        }
    }
}
