//! Checks the consistency of procedures and of paths. Reads no files.

use super::problem::{did_you_mean, quote};
use super::reader::Fields;
use super::steps::Step;
use crate::model::config::Config;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, DagError, Procedure, ProcedureDag, Scope, SessionsRule};

/// Builds the pipeline. Returns `None` after reporting why that is impossible.
pub(super) fn pipeline(steps: Vec<Step<'_>>) -> Option<ProcedureDag> {
    check_session_rules(&steps);
    let procedures = steps.iter().map(|step| step.procedure.clone()).collect();
    match ProcedureDag::new(procedures) {
        Ok(dag) => {
            warn_of_shared_outputs(&steps, &dag);
            Some(dag)
        }
        Err(errors) => {
            for error in &errors {
                report(error, &steps);
            }
            None
        }
    }
}

fn report(error: &DagError, steps: &[Step<'_>]) -> Option<()> {
    match error {
        DagError::DuplicateName { at, first } => {
            let step = steps.get(*at)?;
            let (name, line) = (
                quote(&step.procedure.name),
                steps.get(*first)?.entry.at.line,
            );
            let message = format!("{name} is already used in line {line}");
            step.entry.problem(message);
        }
        DagError::UnknownDependency { at, dependency } => {
            let step = steps.get(*at)?;
            let place = step.dependencies.get(*dependency)?;
            let missing = &step.procedure.depends_on.get(*dependency)?.procedure;
            let mut names: Vec<&str> = steps.iter().map(|step| &*step.procedure.name).collect();
            names.sort_unstable();
            names.dedup();
            let (quoted, known) = (quote(missing), names.join(", "));
            let message = format!("{quoted} is not a procedure (available: {known})");
            place.problem(message + &did_you_mean(missing, names));
        }
        DagError::Cycle(path) => {
            let names = path.iter().filter_map(|at| steps.get(*at));
            let names: Vec<&str> = names.map(|step| &*step.procedure.name).collect();
            let first = steps.get(*path.first()?)?;
            let mut dependencies = first.procedure.depends_on.iter();
            let next = dependencies.position(|next| names.get(1) == Some(&&*next.procedure))?;
            first.dependencies.get(next)?.problem(format!(
                "dependency cycle: {} (none of these procedures would ever run)",
                names.join(" -> ")
            ));
        }
    }
    Some(())
}

fn check_session_rules(steps: &[Step<'_>]) {
    for step in steps
        .iter()
        .filter(|step| step.procedure.scope == Scope::Subject)
    {
        let dependencies = step.procedure.depends_on.iter().zip(&step.dependencies);
        for (_, entry) in dependencies.filter(|(it, _)| it.sessions == SessionsRule::Same) {
            entry.problem(
                "'same' requires 'scope: session', because a subject's task has no session of its own (write 'all' to wait \
                 for all sessions of the subject, or 'any' to wait for one)",
            );
        }
    }
}

fn warn_of_shared_outputs(steps: &[Step<'_>], dag: &ProcedureDag) {
    for (index, step) in steps.iter().enumerate() {
        let procedure = &step.procedure;
        let is_alike = |other: &&Procedure| {
            other.output_dir == procedure.output_dir
                && other.scope == procedure.scope
                && other.check == procedure.check
                && other.name != procedure.name
        };
        let all = || steps.iter().map(|step| &step.procedure);
        let mut earlier = all().take(index);
        let same = earlier
            .clone()
            .find(|other| is_alike(other) && other.completion == procedure.completion);
        let empty_rule = procedure.check == Check::Markers
            && matches!(procedure.completion.required, Required::NonEmptyDirectory);
        // Procedures that add to the sessions of the dataset itself are expected to write to the same directory.
        let races = |other: &&Procedure| {
            let scopes = (other.scope, procedure.scope);
            other.output_dir == procedure.output_dir
                && (!other.is_below_bids() || scopes == (Scope::Subject, Scope::Subject))
                && !waits_for(dag, other, &procedure.name)
                && !waits_for(dag, procedure, &other.name)
        };
        let warning = if let Some(other) = same {
            let name = quote(&other.name);
            format!(
                "has the same output_dir, scope and markers as {name}: when one is complete, both are"
            )
        } else if empty_rule && let Some(other) = all().find(is_alike) {
            let name = quote(&other.name);
            format!(
                "has no completion_marker and shares its output_dir with {name}: it will count as complete as soon as the \
                 other procedure writes a file"
            )
        } else if let Some(other) = earlier.find(races) {
            let name = quote(&other.name);
            format!(
                "shares its output_dir with {name}, and neither depends on the other: their jobs may write to the same \
                 directory at the same time (add depends_on to prevent this)"
            )
        } else {
            continue;
        };
        step.entry.warn(warning);
    }
}

/// True if a procedure depends on another one, directly or indirectly.
fn waits_for(dag: &ProcedureDag, procedure: &Procedure, other: &str) -> bool {
    procedure.depends_on.iter().any(|dependency| {
        let next = dag.find(&dependency.procedure).map(|id| dag.get(id));
        *dependency.procedure == *other || next.is_some_and(|next| waits_for(dag, next, other))
    })
}

/// Checks the data roots and the path of the state file.
pub(super) fn paths(config: &Config, top: &Fields<'_>) {
    let roots = config.roots();
    for (name, root) in roots {
        if root.to_str().is_none() {
            // Jobs get it as an argument or a variable, and would see a different path.
            top.problem(name, format!("{} is not UTF-8", root.display()));
        }
    }
    for (index, (name, root)) in roots.iter().enumerate() {
        let earlier = roots.get(..index).unwrap_or_default();
        for (other, _) in earlier.iter().filter(|(_, path)| path == root) {
            top.warn(name, format!("is the same directory as {other}"));
        }
    }
    if config.state_file.file_name().is_none() {
        top.problem("state_file", "is not the path of a file");
    }
}
