//! `explain`: the status of a task, its cause, and what has to happen next. Queries Slurm and reads the disk;
//! takes no lock and writes nothing.

mod text;

pub(super) use text::output_problems;

use super::args::{ExplainArgs, TextFormat};
use super::blocks::Block;
use super::context::{Access, Context, warn_stops};
use super::error::{Failure, Result};
use super::naming::{Known, Named};
use super::output::{Printer, Verbosity};
use crate::act::pass::{Decided, Looked, Pass, RunOptions};
use crate::base::exit::Exit;
use crate::base::sys;
use crate::decide::manifest::{Decision, Planned, Policy, Selection};
use crate::decide::safety::{self, recheck};
use crate::decide::safety::{Counts, roots};
use crate::executor::Answer;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{Session, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::{ArrayMode, Procedure};
use crate::model::state::{State, TaskKey};
use crate::show::explain::{Explanation, View};
use crate::show::tables::{TableError, TaskState};
use crate::store::control::Control;

pub(super) fn run(context: &Context, args: &ExplainArgs, printer: &mut Printer) -> Result<Exit> {
    let mut state = context.read_state(printer)?;
    let named = context.named(args.task.words(), &state)?;
    let mut stops = roots::safety_stops(&context.config, &state, roots::observe);
    if !stops.is_empty() {
        // If a root is missing, there may be nothing else to report.
        warn_stops(&stops, printer);
    }
    let is_warned = !stops.is_empty();
    let found = context.discover(printer)?;
    let (subject, sessions) = sessions_of(&named, &found, &state)?;
    let has_session = |label: &String| {
        let is_there = sessions
            .iter()
            .any(|session| session.session.as_str() == *label);
        is_there || on_record(&named, &state).any(|key| *key.session == **label)
    };
    if !named.session.as_ref().is_none_or(has_session) {
        return Err(no_task(&named, &found));
    }
    let probe = context.probe()?;
    let project = context.project(&state);
    let control = context.store.read_control()?;
    let attempts = context.store.read_attempts()?;
    let mut executor = context.executor(Access::ReadOnly, &state)?;

    let mut pass = context.pass(executor.as_mut(), &probe, &project);
    let (looked, mut exit) = update(&mut pass, &mut state, printer);
    let place = (&found, sessions.as_slice());
    let policy = context.policy(Selection::default(), args.check.recheck)?;
    let options = (control, policy);
    let (decided, counts) = decide(
        context, &mut pass, &mut state, place, &looked, options, &named,
    )?;
    stops.extend(safety::before_submission(&context.config, &counts, &state));
    // Lost outputs of other subjects are counted only if the whole study was checked.
    if counts.procedures.is_empty() {
        stops.extend(safety::remembered(&state.meta.baselines));
    }
    if !is_warned {
        warn_stops(&stops, printer);
    }
    let tasks = decided.manifest.tasks.iter();
    let tasks: Vec<&Planned> = tasks
        .filter(|planned| planned.subject.as_str() == named.subject)
        .collect();
    let outputs = probe.explainer(&subject);
    let view = View {
        config: &context.config,
        store: &context.store,
        subject: &subject,
        sessions: &sessions,
        is_all_read: found.unreadable.is_empty(),
        tasks: &tasks,
        state: &state,
        attempts: &attempts,
        queue: match (&looked.queue_failed, &looked.observation.queue) {
            (None, Answer::Got(jobs)) => Some(jobs),
            _ => None,
        },
        control: &decided.pauses.control,
        stops: &stops,
        trust: &decided.trust,
        batches: &decided.batches,
        executor: executor.as_ref(),
        outputs: &outputs,
        project: &project,
        run_id: &context.run_id,
        now: sys::now(),
    };
    let mut explanations: Vec<Explanation> = tasks
        .iter()
        .filter(|planned| named.contains(&planned.key))
        .map(|planned| view.explain(planned))
        .collect();
    let gone = view.rows_without_task().into_iter();
    let gone = gone.filter(|row| named.contains(&row.key));
    explanations.extend(gone.map(|row| view.explain_row(row)));
    if explanations.is_empty() {
        return Err(no_task(&named, &found));
    }
    print(&explanations, args.format, view.queue.is_some(), printer)?;
    if exit == Exit::Done
        && explanations
            .iter()
            .any(|task| task.decision == Some(TaskState::Unreadable))
    {
        exit = Exit::Unreadable;
    }
    Ok(exit)
}

/// Updates the rows in memory. Without the queue's answer, the rows on record are used.
fn update(pass: &mut Pass<'_>, state: &mut State, printer: &mut Printer) -> (Looked, Exit) {
    let mut looked = pass.look(state);
    if let Some(message) = &looked.queue_failed {
        printer.warning(&format!(
            "the queue is not responding: {message}; showing the state on record, and `run` would submit nothing"
        ));
        looked.observation.queue = Answer::Got(Vec::new());
        return (looked, Exit::Unreachable);
    }
    if let Some(message) = &looked.accounting_failed {
        printer.warning(&format!(
            "accounting is not responding: {message}; jobs that left the queue stay as recorded until it does"
        ));
        return (looked, Exit::Unreachable);
    }
    (looked, Exit::Done)
}

/// Decides about the subject's sessions, or about the whole study if the decision depends on it. Only then are lost
/// outputs counted.
fn decide(
    context: &Context,
    pass: &mut Pass<'_>,
    state: &mut State,
    (found, sessions): (&Discovery, &[Session]),
    looked: &Looked,
    (control, policy): (Control, Policy),
    named: &Named,
) -> Result<(Decided, Counts)> {
    let is_trusting = !policy.recheck.is_zero();
    let away = is_trusting.then(|| recheck::away(&policy, &found.sessions, state));
    let options = RunOptions {
        policy: Policy { away, ..policy },
        control,
        ..RunOptions::default()
    };
    let mut decide = |state: &mut State, sessions: &[Session]| {
        pass.decide(&context.store, state, sessions, looked, &options, &|| {})
    };
    let rows = state.clone();
    let mut decided = decide(state, sessions)?;
    let mut counts = Counts::default();
    let mut tasks = decided.manifest.tasks.iter();
    let is_due =
        |task: &Planned| named.contains(&task.key) && matches!(task.decision, Decision::Submit(_));
    if has_limits(&context.config) && tasks.any(is_due) {
        *state = rows;
        decided = decide(state, &found.sessions)?;
        counts.procedures = std::mem::take(&mut decided.counts.procedures);
    }
    counts.count_sessions(found);
    Ok((decided, counts))
}

/// The subject and its sessions.
fn sessions_of(
    named: &Named,
    found: &Discovery,
    state: &State,
) -> Result<(SubjectLabel, Vec<Session>)> {
    let sessions: Vec<Session> = found
        .sessions
        .iter()
        .filter(|session| session.subject.as_str() == named.subject)
        .cloned()
        .collect();
    if let Some(first) = sessions.first() {
        return Ok((first.subject.clone(), sessions));
    }
    match SubjectLabel::new(&named.subject) {
        Ok(subject) if on_record(named, state).next().is_some() => Ok((subject, sessions)),
        _ => Err(no_task(named, found)),
    }
}

/// The keys of rows that the words may name, in any session.
fn on_record<'a>(named: &'a Named, state: &'a State) -> impl Iterator<Item = &'a TaskKey> {
    let rows = state.rows().iter();
    rows.map(|row| &row.key)
        .filter(|key| *key.subject == *named.subject)
        .filter(|key| named.contains(key))
}

/// True if a due task may have to wait for others, or be submitted together with them.
fn has_limits(config: &Config) -> bool {
    let has_own = |procedure: &Procedure| {
        let rules = &procedure.rules;
        rules.max_in_flight.is_some() || rules.warmup > 0 || rules.array != ArrayMode::Never
    };
    config.max_in_flight.is_some()
        || config.max_submit_per_run.is_some()
        || config.max_queued_user_jobs.is_some()
        || config
            .procedures
            .iter()
            .any(|(_, procedure)| has_own(procedure))
}

fn no_task(named: &Named, found: &Discovery) -> Failure {
    if let Err(failure) = Known::in_study(found).refuse(named.labels()) {
        return failure;
    }
    Failure::usage(
        format!("no task {named}"),
        "`snbb-scheduler session-status` lists the tasks of the study, `snbb-scheduler status` those on record",
    )
}

fn print(
    tasks: &[Explanation],
    format: TextFormat,
    is_queue_known: bool,
    printer: &mut Printer,
) -> Result<()> {
    if format == TextFormat::Json {
        let text = serde_json::to_string_pretty(tasks).map_err(TableError::from)?;
        printer.line(&text);
        return Ok(());
    }
    let is_detailed = tasks.len() == 1 || printer.verbosity() >= Verbosity::Verbose;
    for (at, task) in tasks.iter().enumerate() {
        let mut block = Block::new(printer.options().width, printer.options().out_color);
        if is_detailed {
            if at > 0 {
                block.gap();
            }
            text::detailed(&mut block, task, is_queue_known);
        } else {
            text::brief(&mut block, task);
        }
        printer.data(block.finish().as_bytes());
    }
    if !is_detailed {
        printer.hint("name one task, or add -v, to see all details");
    }
    Ok(())
}
