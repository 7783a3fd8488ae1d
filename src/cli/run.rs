//! `run`: the whole pass. Finds the sessions, brings the rows up to date, decides, submits.
//!
//! A dry run goes the same way up to the submission, takes no lock and writes nothing.

use std::collections::BTreeMap;

use super::args::RunArgs;
use super::context::{Access, Context};
use super::error::{Exit, Failure};
use super::guard::Guard;
use super::manifest::warn_unreadable;
use super::monitor::{hint_at_failures, tell};
use super::output::Printer;
use super::pause::{Tense, tell_pauses};
use super::views::{self, RunSummary};
use crate::array::{Batch, group};
use crate::bids::Session;
use crate::executor::{Executor, ExecutorError, JobRequest};
use crate::news::Figures;
use crate::pass::{Decided, Looked, MissingScripts, Pass, Wishes, clean_arrays};
use crate::procedure::{ArrayMode, ProcedureDag};
use crate::reconcile::strays::Strays;
use crate::request::{Prepared, Reduced};
use crate::shell;
use crate::state::store::StateError;
use crate::state::{State, TaskKey};
use crate::submit::{Stop, Submitted};
use crate::sys;

/// More single jobs of one procedure in one run are worth a word about arrays.
const MANY_SINGLES: usize = 100;

/// `figures`: for those who do not watch; filled in as far as the run comes.
pub fn run(
    context: &Context,
    args: &RunArgs,
    figures: &mut Option<Figures>,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
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
        pass.look_at_queue(&state)
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
        control: context.store.read_control()?,
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
    let figures = figures.insert(Figures::of(
        is_everything,
        found.sessions.len(),
        &decided.manifest,
        &context.config.procedures,
    ));
    let tense = match locked {
        Some(_) => Tense::Now,
        None => Tense::Would,
    };
    tell_pauses(
        context,
        &decided.brakes,
        Some(&decided.manifest),
        tense,
        printer,
    );
    let mut exit = warn_unreadable(&decided.manifest, found.unreadable.is_empty(), printer);
    if tell_missing(&decided.missing_scripts, &mut summary, printer) {
        exit = Exit::Refused;
    }
    tell_reduced(decided.tasks(), printer);
    if let Some(locked) = &locked {
        let count = decided.tasks().count() as u64;
        let progress = printer.progress(Some(count), "submitting");
        let submitted = pass.carry_out(locked, &mut state, &decided, started, &|| progress.inc(1));
        progress.finish();
        for task in decided.tasks() {
            if let Some(text) = task.notes.retry_text(task.intent.attempt) {
                printer.detail(&format!("{}: {text}", task.intent.key));
            }
        }
        exit = report(&submitted?, &mut summary, printer, exit);
        clean_arrays(
            &locked.store.paths.arrays,
            &state,
            &looked.observation,
            started,
        );
    } else {
        summary.submitted = decided.tasks().count();
        show(&decided.batches, pass.executor, printer);
    }
    if pass.executor.takes_arrays() {
        hint_at_arrays(&decided.batches, &context.config.procedures, printer);
    }
    if summary.tasks == 0 && !is_everything {
        printer.warning("no task of the study matches the selection");
    }
    figures.submitted = summary.submitted;
    figures.in_doubt = summary.in_doubt;
    figures.refused.clone_from(&summary.refused);
    views::print_run_summary(printer, &summary);
    hint_at_failures(&state, context, printer);
    if looked.accounting_failed.is_some() && exit == Exit::Done {
        // Submission went on; what the jobs did is not known.
        exit = Exit::Unreachable;
    }
    Ok(exit)
}

/// Prints the command lines that would be run; below that of an array, its tasks as comments.
fn show(batches: &[Batch], executor: &dyn Executor, printer: &mut Printer) {
    for Batch { tasks, array } in batches {
        for task in tasks {
            if let Some(text) = task.notes.retry_text(task.intent.attempt) {
                printer.line(&format!("# {}: {text}", task.intent.key));
            }
        }
        let requests: Vec<&JobRequest> = tasks.iter().map(|task| &task.request).collect();
        let Some(array) = array else {
            for request in requests {
                printer.line(&shell::join(&executor.command_line(request)));
            }
            continue;
        };
        printer.line(&shell::join(&executor.array_command_line(array, &requests)));
        for (index, request) in requests.iter().enumerate() {
            let arguments = shell::join(&request.arguments).replace('\n', "\\n");
            printer.line(&format!("#   {index}: {} {arguments}", request.script));
        }
    }
}

/// Says once that there are arrays, where they would have spared the controller many jobs.
fn hint_at_arrays(batches: &[Batch], dag: &ProcedureDag, printer: &mut Printer) {
    let is_never = |name: &str| {
        dag.find(name)
            .is_some_and(|id| dag.get(id).rules.array == ArrayMode::Never)
    };
    let many: Vec<String> = group::singles(batches)
        .into_iter()
        .filter(|(procedure, count)| *count > MANY_SINGLES && is_never(procedure))
        .map(|(procedure, count)| format!("{count} of {procedure}"))
        .collect();
    if !many.is_empty() {
        printer.hint(&format!(
            "many single jobs ({}): with 'array: auto' each such group is one job array",
            many.join(", ")
        ));
    }
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
    for (procedure, (count, id)) in &strays.unlisted {
        printer.warning(&format!(
            "{procedure}: {count} task(s) of a job array of this study live (such as job {id}), and its task list \
             below {} is gone, so nobody knows which tasks they are; all tasks of {procedure} wait until they end",
            context.store.paths.arrays.display()
        ));
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

/// Tells what is above the site's ceiling, in one line per procedure and kind.
fn tell_reduced<'a>(tasks: impl Iterator<Item = &'a Prepared>, printer: &mut Printer) {
    let mut groups: BTreeMap<(&str, &Reduced), usize> = BTreeMap::new();
    for task in tasks {
        for reduced in &task.notes.reduced {
            *groups
                .entry((&task.intent.key.procedure, reduced))
                .or_default() += 1;
        }
    }
    for ((procedure, reduced), count) in groups {
        let tasks = if count == 1 { "task" } else { "tasks" };
        printer.note(&format!("{procedure}: {reduced} for {count} {tasks}"));
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
