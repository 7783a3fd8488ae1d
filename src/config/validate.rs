//! What must hold between the procedures of a configuration, and between its paths.
//!
//! Pure: looks at what was read, reports problems and warnings, reads nothing itself.

use super::problem::{Position, Problem, quote};
use super::reader::{Context, Fields};
use super::steps::Step;
use crate::model::bids::suggest;
use crate::model::config::Config;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, DagError, Procedure, ProcedureDag, Scope, SessionsRule};

/// Makes a pipeline of the procedures; none if they are none, which is reported.
pub(super) fn pipeline(steps: Vec<Step<'_>>) -> Option<ProcedureDag> {
    check_session_rules(&steps);
    warn_of_shared_outputs(&steps);
    let procedures = steps.iter().map(|step| step.procedure.clone()).collect();
    match ProcedureDag::new(procedures) {
        Ok(dag) => Some(dag),
        Err(errors) => {
            errors.iter().for_each(|error| report(error, &steps));
            None
        }
    }
}

fn report(error: &DagError, steps: &[Step<'_>]) {
    match error {
        DagError::DoubledName { at, first, name } => {
            if let (Some(step), Some(first)) = (steps.get(*at), steps.get(*first)) {
                let line = first.name.at.line;
                step.name.problem(format!(
                    "{} is already the name of the one in line {line}",
                    quote(name)
                ));
            }
        }
        DagError::UnknownDependency {
            at,
            dependency,
            missing,
            known,
            ..
        } => {
            let place = steps
                .get(*at)
                .and_then(|step| step.dependencies.get(*dependency));
            if let Some(place) = place {
                let names = steps.iter().map(|step| &*step.procedure.name);
                let message = format!("{} is not a procedure, there are: {known}", quote(missing));
                match suggest::nearest(missing, names) {
                    Some(name) => place
                        .name
                        .problem_with(message, format!("did you mean '{name}'?")),
                    None => place.name.problem(message),
                }
            }
        }
        DagError::Cycle { path, .. } => {
            let next = path.get(1);
            let step = path
                .first()
                .and_then(|first| steps.iter().find(|step| *step.procedure.name == **first));
            let place = step.and_then(|step| {
                let dependencies = step.procedure.depends_on.iter().zip(&step.dependencies);
                dependencies
                    .filter(|(dependency, _)| {
                        next.is_some_and(|next| *dependency.procedure == **next)
                    })
                    .map(|(_, place)| &place.name)
                    .next()
                    .or(Some(&step.name))
            });
            if let Some(place) = place {
                place.problem_with(
                    format!(
                        "procedures wait for each other in a circle: {}",
                        path.join(" -> ")
                    ),
                    "none of them would ever run",
                );
            }
        }
    }
}

fn check_session_rules(steps: &[Step<'_>]) {
    for step in steps {
        let dependencies = step.procedure.depends_on.iter().zip(&step.dependencies);
        for (dependency, place) in dependencies {
            let Some(sessions) = &place.sessions else {
                continue;
            };
            let target = steps
                .iter()
                .find(|other| other.procedure.name == dependency.procedure);
            if target.is_some_and(|target| target.procedure.scope == Scope::Subject) {
                sessions.warn(format!(
                    "has no effect: {} runs once per subject",
                    quote(&dependency.procedure)
                ));
            } else if dependency.sessions == SessionsRule::Same
                && step.procedure.scope == Scope::Subject
            {
                sessions.problem_with(
                    "'same' is for procedures with 'scope: session': a task of a subject has no session of its own",
                    "write 'all' to wait for all sessions of the subject, or 'any' to wait for one",
                );
            }
        }
    }
}

fn warn_of_shared_outputs(steps: &[Step<'_>]) {
    for (index, step) in steps.iter().enumerate() {
        let procedure = &step.procedure;
        let shares = |other: &&Step<'_>| {
            other.procedure.output_dir == procedure.output_dir
                && other.procedure.scope == procedure.scope
                && other.procedure.check == procedure.check
                && other.procedure.name != procedure.name
        };
        let earlier = steps.get(..index).unwrap_or_default();
        let same = earlier
            .iter()
            .filter(shares)
            .find(|other| other.procedure.completion == procedure.completion);
        let empty_rule = procedure.check == Check::Markers
            && matches!(procedure.completion.required, Required::NonEmptyDirectory);
        if let Some(other) = same {
            step.name.warn(format!(
                "has the output_dir, scope and markers of {}: when one is complete, both are",
                quote(&other.procedure.name)
            ));
        } else if empty_rule && let Some(other) = steps.iter().find(shares) {
            step.name.warn(format!(
                "has no completion_marker and shares its output_dir with {}: it counts as complete \
                 as soon as the other has written anything",
                quote(&other.procedure.name)
            ));
        } else if let Some(other) = earlier.iter().find(|other| {
            other.procedure.output_dir == procedure.output_dir
                && both_write_below(&other.procedure, procedure)
                && !waits_for(steps, &other.procedure, &procedure.name)
                && !waits_for(steps, procedure, &other.procedure.name)
        }) {
            step.name.warn(format!(
                "shares its output_dir with {}, and neither waits for the other: their jobs may write to the same \
                 directory at the same time (depends_on would keep them apart)",
                quote(&other.procedure.name)
            ));
        }
    }
}

/// True if two procedures with one `output_dir` fill a subject's directory side by side. Steps that add to the sessions
/// of the dataset itself are made for that.
fn both_write_below(one: &Procedure, other: &Procedure) -> bool {
    !one.is_below_bids() || (one.scope, other.scope) == (Scope::Subject, Scope::Subject)
}

/// True if a procedure waits for another one, or for one that does.
fn waits_for(steps: &[Step<'_>], procedure: &Procedure, other: &str) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut left: Vec<&Procedure> = vec![procedure];
    while let Some(next) = left.pop() {
        for dependency in &next.depends_on {
            let name = &*dependency.procedure;
            if name == other {
                return true;
            }
            if !seen.contains(&name) {
                seen.push(name);
                let found = steps.iter().map(|step| &step.procedure);
                left.extend(found.filter(|step| *step.name == *name));
            }
        }
    }
    false
}

/// Looks at paths that get into each other's way.
pub(super) fn paths(config: &Config, fields: &Fields<'_>, context: &Context<'_>) {
    let roots = config.roots();
    for (name, root) in roots {
        if root.to_str().is_none() {
            // It would reach jobs as another path, in an argument or a variable.
            let text = format!(
                "{} is not UTF-8, and jobs are told of it as text",
                root.display()
            );
            problem(fields, context, name, &text);
        }
    }
    for (index, (name, root)) in roots.iter().enumerate() {
        let earlier = roots.get(..index).unwrap_or_default();
        for (other, _) in earlier.iter().filter(|(_, path)| path == root) {
            warn(
                fields,
                context,
                name,
                &format!("is the same directory as {other}"),
            );
        }
    }
    if config.state_file.file_name().is_none() {
        problem(fields, context, "state_file", "names no file");
    }
}

pub(super) fn problem(fields: &Fields<'_>, context: &Context<'_>, name: &str, message: &str) {
    match fields.get(name) {
        Some(value) => value.problem(message),
        None => context.problem(whole_file(name, message)),
    }
}

fn warn(fields: &Fields<'_>, context: &Context<'_>, name: &str, message: &str) {
    match fields.get(name) {
        Some(value) => value.warn(message),
        None => context.warning(whole_file(name, message)),
    }
}

/// About a value that is a default and so stands nowhere.
fn whole_file(name: &str, message: &str) -> Problem {
    Problem {
        key: name.to_owned(),
        ..Problem::at(Position::default(), message)
    }
}
