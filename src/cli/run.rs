//! `run`: the whole pass. Finds the sessions, brings the rows up to date, decides, submits.
//!
//! A dry run goes the same way up to the submission, takes no lock and writes nothing.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use chrono::Duration;

use super::args::RunArgs;
use super::context::{Access, Context};
use super::error::{Exit, Failure};
use super::manifest::warn_unreadable;
use super::monitor::{open_audit, save, tell};
use super::output::Printer;
use super::views::{self, RunSummary};
use crate::bids::{Discovery, Session};
use crate::executor::{Executor, ExecutorError, Question};
use crate::manifest::{Limits, Manifest, World, limits};
use crate::pass::{self, History, Looked};
use crate::procedure::ProcedureId;
use crate::reconcile::strays::{self, Strays};
use crate::request::{self, Circumstances, Prepared};
use crate::safety;
use crate::state::State;
use crate::state::store::LockedStore;
use crate::submit::{Stop, Submitted, Submitter};
use crate::sys;

/// Per procedure: where its script was looked for, and how many tasks that keeps back.
type MissingScripts = BTreeMap<Arc<str>, (ExecutorError, usize)>;

pub fn run(context: &Context, args: &RunArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    if args.force && selection.is_everything() {
        return Err(Failure::Usage {
            message: "--force needs a selection".to_owned(),
            hint: "say which tasks are to run again, such as --procedure qsiprep --subject 0001"
                .to_owned(),
        });
    }
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
    let found = discover(context, &state, printer)?;
    let probe = context.probe()?;

    let mut looked = if args.skip_monitor {
        Looked {
            observation: executor.observe(&Question::default()),
            ..Looked::default()
        }
    } else {
        pass::look(
            &context.config,
            &mut state,
            executor.as_mut(),
            &probe,
            &sys::now,
        )
    };
    tell(&looked, printer);
    let project = context.project(&state);
    let history = History::new(&context.store.read_attempts()?, &state);
    let strays = compare_with_queue(context, &state, &found.sessions, &looked, &project)?;
    looked
        .events
        .extend(pass::adopt(&mut state, &strays.adopt, &history, sys::now()));
    tell_strays(&strays, &state, context, printer);

    let world = World {
        sessions: &found.sessions,
        rows: &state,
        completions: &probe,
        foreign_jobs: &strays.foreign,
        gate: context.gate(),
        now: started,
    };
    let mut manifest = context.plan(&world, &context.policy(selection, args.force), printer);
    let limits = Limits {
        max_jobs: args.max_jobs,
        max_submit_per_run: context.config.max_submit_per_run,
        max_in_flight: context.config.max_in_flight,
    };
    limits::apply(&mut manifest, &limits, &context.config.procedures, &state);
    let mut summary = RunSummary::of(found.sessions.len(), &manifest);
    summary.dry_run = args.dry_run;

    let (tasks, missing) = prepare(context, &manifest, executor.as_ref(), &project, &history);
    let mut exit = warn_unreadable(&manifest, found.unreadable.is_empty(), printer);
    for (procedure, (error, count)) in &missing {
        printer.warning(&format!("{procedure}: {error}"));
        if let Some(hint) = error.hint() {
            printer.hint(&hint);
        }
        summary
            .refused
            .push((format!("{procedure}: script not found"), *count));
        exit = Exit::Refused;
    }
    if let Some(locked) = &locked {
        if !state.is_stored() {
            state.mark_changed();
        }
        save(context, locked, &mut state, &looked)?;
        let submitted = submit(
            context,
            locked,
            &mut state,
            executor.as_mut(),
            &tasks,
            started,
            printer,
        )?;
        exit = report(&submitted, &mut summary, printer, exit);
    } else {
        summary.submitted = tasks.len();
        for task in &tasks {
            printer.line(&shell_words::join(executor.command_line(&task.request)));
        }
    }
    views::print_run_summary(printer, &summary);
    if looked.accounting_failed.is_some() && exit == Exit::Done {
        // Submission went on; what the jobs did is not known.
        exit = Exit::Unreachable;
    }
    Ok(exit)
}

/// Finds the sessions; stops if a root is gone that the state knows results of.
fn discover(context: &Context, state: &State, printer: &mut Printer) -> Result<Discovery, Failure> {
    let roots = safety::look(&context.config);
    if let Some((message, hint)) = safety::judge(&context.config, &roots, state) {
        return Err(Failure::Safety { message, hint });
    }
    context.discover(printer)
}

fn compare_with_queue(
    context: &Context,
    state: &State,
    sessions: &[Session],
    looked: &Looked,
    project: &str,
) -> Result<Strays, Failure> {
    // Without the queue nobody knows which jobs live, and nothing may be submitted.
    let Some(queue) = looked.observation.queue.got() else {
        return Err(Failure::QueueUnknown {
            message: match &looked.observation.queue {
                crate::executor::Answer::Failed(message) => message.clone(),
                _ => "there is no queue".to_owned(),
            },
        });
    };
    Ok(strays::compare(
        queue,
        state,
        &context.config.procedures,
        sessions,
        project,
        &|id| context.was_ours(id),
    ))
}

fn tell_strays(strays: &Strays, state: &State, context: &Context, printer: &mut Printer) {
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
            "{key}: job {id} has this task's name and was not submitted by this program; \
             the task waits until it ends"
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

/// Builds the requests of all due tasks whose scripts exist; the others are counted by procedure.
fn prepare(
    context: &Context,
    manifest: &Manifest,
    executor: &dyn Executor,
    project: &str,
    history: &History,
) -> (Vec<Prepared>, MissingScripts) {
    let config = &context.config;
    let mut missing = MissingScripts::new();
    let mut checked: HashSet<ProcedureId> = HashSet::new();
    let mut tasks = Vec::new();
    let now = sys::now();
    for planned in manifest.due() {
        let procedure = config.procedures.get(planned.procedure);
        if checked.insert(planned.procedure)
            && let Err(error) = executor.find_script(&procedure.script)
        {
            missing.insert(Arc::clone(&procedure.name), (error, 0));
        }
        if let Some((_, count)) = missing.get_mut(&procedure.name) {
            *count += 1;
            continue;
        }
        let (attempt, last_reason) = history.next(&request::key(config, planned));
        tasks.push(request::prepare(
            config,
            planned,
            &Circumstances {
                project,
                attempt,
                last_reason,
                now,
                run_id: &context.run_id,
            },
        ));
    }
    (tasks, missing)
}

fn submit(
    context: &Context,
    locked: &LockedStore,
    state: &mut State,
    executor: &mut dyn Executor,
    tasks: &[Prepared],
    started: chrono::DateTime<chrono::Utc>,
    printer: &mut Printer,
) -> Result<Submitted, Failure> {
    if tasks.is_empty() {
        return Ok(Submitted::default());
    }
    make_log_dirs(tasks)?;
    let mut audit = open_audit(context)?;
    let progress = printer.progress(Some(tasks.len() as u64), "submitting");
    let deadline = Duration::from_std(context.config.deadline).unwrap_or(Duration::MAX);
    let submitted = Submitter {
        store: locked,
        state,
        executor,
        audit: &mut audit,
        clock: &sys::now,
        pause: &std::thread::sleep,
        tick: &|| progress.inc(1),
        deadline: started + deadline,
    }
    .submit(tasks);
    progress.finish();
    Ok(submitted?)
}

/// Slurm makes no log directories: a job whose output cannot be opened fails without a trace.
fn make_log_dirs(tasks: &[Prepared]) -> Result<(), Failure> {
    let dirs: HashSet<&Path> = tasks
        .iter()
        .filter_map(|task| task.request.log_dir.as_deref())
        .collect();
    for dir in dirs {
        std::fs::create_dir_all(dir)
            .and_then(|()| {
                rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).map_err(Into::into)
            })
            .map_err(|source| Failure::Write {
                path: dir.to_owned(),
                source,
            })?;
    }
    Ok(())
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
