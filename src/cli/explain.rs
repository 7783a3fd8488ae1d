//! `explain`: the status of a task, its cause, and what has to happen next. Queries Slurm and reads the disk;
//! takes no lock and writes nothing.

mod text;

use itertools::Itertools as _;
pub(super) use text::output_problems;

use super::args::{ExplainArgs, TextFormat};
use super::blocks::Block;
use super::context::{exit_of, warn_silence, warn_stops};
use super::naming::{Known, Named};
use super::{
    Access, Config, Context, Exit, Failure, Printer, Result, Selection, State, TableError,
    TaskState, Verbosity, sys,
};
use crate::act::pass::RunOptions;
use crate::decide::manifest::Planned;
use crate::decide::safety::{self, Counts, recheck, roots};
use crate::executor::Answer;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{Session, SubjectLabel};
use crate::model::procedure::{ArrayMode, Procedure};
use crate::show::explain::{Explanation, View};

pub(super) fn run(context: &Context, args: &ExplainArgs, printer: &mut Printer) -> Result<Exit> {
    let mut state = context.read_state(printer)?;
    let named = context.named(args.task.words(), &state)?;
    // If a root is missing, there may be nothing else to report.
    let mut stops = roots::safety_stops(&context.config, &state, roots::observe);
    warn_stops(&stops, printer);
    let found = context.discover(printer)?;
    let of_subject = |session: &&Session| session.subject.as_str() == named.subject;
    let sessions: Vec<Session> = found.sessions.iter().filter(of_subject).cloned().collect();
    let rows = state.rows().iter();
    let mut labels = rows
        .filter(|row| named.contains(&row.key))
        .map(|row| &*row.key.session)
        .chain(sessions.iter().map(|session| session.session.as_str()));
    let is_known = labels.any(|label| named.session.as_ref().is_none_or(|named| named == label));
    let subject = SubjectLabel::new(&named.subject);
    let Some(subject) = subject.ok().filter(|_| is_known) else {
        return Err(no_task(&named, &found));
    };
    let probe = context.probe()?;
    let project = context.project(&state);
    let control = context.store.read_control()?;
    let attempts = context.store.read_attempts()?;
    let mut executor = context.executor(Access::ReadOnly, &state)?;

    let mut pass = context.pass(executor.as_mut(), &probe, &project);
    let mut looked = pass.look(&mut state);
    warn_silence(&looked, printer);
    let mut exit = exit_of(&looked);
    if looked.queue_failed.is_some() {
        // The rows on record are used.
        looked.observation.queue = Answer::Got(Vec::new());
    }
    let mut policy = context.policy(Selection::default(), args.check.recheck)?;
    if !context.config.recheck.is_zero() {
        policy.away = Some(recheck::away(&policy, &found.sessions, &state));
    }
    let options = RunOptions {
        policy,
        control,
        ..RunOptions::default()
    };
    // About the subject's sessions, or about the whole study if the decision depends on it. Only then are lost outputs
    // counted.
    let mut decide = |state: &mut State, sessions: &[Session]| {
        pass.decide(&context.store, state, sessions, &looked, &options, &|| {})
    };
    let rows = state.clone();
    let mut decided = decide(&mut state, &sessions)?;
    let mut counts = Counts::default();
    let is_due = decided.manifest.due().any(|task| named.contains(&task.key));
    if is_due && has_limits(&context.config) {
        state = rows;
        decided = decide(&mut state, &found.sessions)?;
        counts.procedures = std::mem::take(&mut decided.counts.procedures);
    }
    counts.count_sessions(&found);
    let mut late = safety::before_submission(&context.config, &counts, &state);
    // Lost outputs of other subjects are counted only if the whole study was checked.
    if counts.procedures.is_empty() {
        late.extend(safety::remembered(&state.meta.baselines));
    }
    warn_stops(&late, printer);
    stops.extend(late);
    let tasks = decided.manifest.tasks.iter();
    let tasks: Vec<&Planned> = tasks
        .filter(|planned| planned.subject.as_str() == named.subject)
        .collect();
    let outputs = probe.explainer(&subject);
    let queue = looked.observation.queue.got();
    let queue = queue.filter(|_| looked.queue_failed.is_none());
    let view = View {
        config: &context.config,
        store: &context.store,
        subject: &subject,
        sessions: &sessions,
        is_all_read: found.unreadable.is_empty(),
        tasks: &tasks,
        state: &state,
        attempts: &attempts,
        queue: queue.map(Vec::as_slice),
        pass: &pass,
        decided: &decided,
        stops: &stops,
        outputs: &outputs,
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
    let is_detailed = explanations.len() == 1 || printer.verbosity() >= Verbosity::Verbose;
    if args.format == TextFormat::Json {
        let text = serde_json::to_string_pretty(&explanations).map_err(TableError::from)?;
        printer.line(&text);
    } else {
        for (at, task) in explanations.iter().enumerate() {
            let mut block = Block::new(printer.options());
            if is_detailed {
                if at > 0 {
                    block.gap();
                }
                text::detailed(&mut block, task, view.queue.is_some());
            } else {
                text::brief(&mut block, task);
            }
            printer.data(block.finish().as_bytes());
        }
        if !is_detailed {
            printer.hint("name one task, or add -v, to see all details");
        }
    }
    let mut decisions = explanations.iter().map(|task| task.decision);
    if exit == Exit::Done && decisions.contains(&Some(TaskState::Unreadable)) {
        exit = Exit::Unreadable;
    }
    Ok(exit)
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
        || config.procedures.iter().any(|(_, it)| has_own(it))
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
