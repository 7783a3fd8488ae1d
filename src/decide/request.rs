//! The job of a due task: name, arguments, environment, resources.

pub mod batch;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use sha2::{Digest, Sha256};

use crate::base::text::{hash_of, hex_of_first, maybe};
use crate::decide::manifest::retry::{self, asked_mem, asked_time};
use crate::decide::manifest::{Decision, Due, Planned};
use crate::executor::JobRequest;
use crate::model::bids::SessionLabel;
use crate::model::config::{Ceiling, Config};
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{
    MemSize, OutputRoots, Procedure, Resources, Scope, TimeLimit, Variable, options,
};
use crate::model::state::{Reason, RetryState, TaskRow};
use crate::store::journal::Intent;

pub use batch::Batch;

/// The journal's record of a submission, and the executor's request.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub intent: Intent,
    pub request: JobRequest,
    pub notes: RequestNotes,
}

/// How a request differs from the configuration, for people and the audit log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestNotes {
    /// Why the task is due; `None` if it was not planned.
    pub due: Option<Due>,
    /// The failure that is retried.
    pub retry_of: Option<Reason>,
    /// How a retry differs from the previous attempt: `--mem 32G -> 48G`.
    pub changes: Vec<String>,
    /// Values above the site's ceiling: `--mem 256G reduced to 128G (max_mem)`.
    pub reduced: Vec<String>,
    /// True if a retry requests other resources than a first attempt.
    pub has_own_resources: bool,
}

/// The task's history and this run.
#[derive(Debug, Clone)]
pub struct RequestContext<'a> {
    pub project: &'a str,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// Why the previous attempt failed, if it did.
    pub last_reason: Option<Reason>,
    /// The task's row, if it has one.
    pub row: Option<&'a TaskRow>,
    /// The words of the script's `#SBATCH` lines; only needed for retries.
    pub script: &'a Arguments,
    pub now: DateTime<Utc>,
    /// Ensures that different processes create different submission ids.
    pub run_id: &'a str,
}

pub fn prepare(config: &Config, planned: &Planned, context: &RequestContext<'_>) -> Prepared {
    let procedure = config.procedures.get(planned.procedure);
    let key = &planned.key;
    let unique = hash_of([
        context.project,
        &key.procedure,
        &key.subject,
        &key.session,
        context.run_id,
        &context.attempt.to_string(),
        &context.now.to_rfc3339_opts(SecondsFormat::Micros, true),
    ]);
    let submission_id = config.executor.submission_id(&hex_of_first(8, &unique));
    // For subject scope, the subject; for session scope, subject, session (empty in a dataset without sessions) and the
    // DICOM path if there is one.
    let mut arguments = vec![planned.subject.to_string()];
    if procedure.scope == Scope::Session {
        arguments.push(planned.session.to_string());
        let path = planned.dicom_path.iter();
        arguments.extend(path.map(|path| path.to_string_lossy().into_owned()));
    }
    let job_name = key.job_name();
    let due = match planned.decision {
        Decision::Submit(due) => Some(due),
        Decision::Skip(_) => None,
    };
    let retried = match due {
        Some(Due::Retry { .. }) => context.row.zip(procedure.rules.retry.as_ref()),
        _ => None,
    };
    let retried = retried.map(|(row, rules)| RetryBase {
        row,
        state: retry::next(rules, row, &procedure.resources),
        script: context.script,
    });
    let (resources, notes) = ask(procedure, &config.ceiling, retried.as_ref());
    let notes = RequestNotes {
        due,
        retry_of: retried.as_ref().and_then(|base| base.row.reason),
        has_own_resources: retried.is_some()
            && resources != ask(procedure, &config.ceiling, None).0,
        ..notes
    };
    let intent = Intent {
        submission_id: submission_id.as_str().into(),
        job_name: job_name.as_str().into(),
        attempt: context.attempt,
        submitted_at: context.now,
        replaces_outputs: matches!(
            due,
            Some(
                Due::Forced { complete: true }
                    | Due::Retry { complete: true, .. }
                    | Due::FailedBefore { complete: true }
                    | Due::Stale
                    | Due::LateInput
            )
        ),
        req_mem_mb: options::mem(&resources).and_then(|mem| i64::try_from(mem.bound()?).ok()),
        time_limit_s: options::time(&resources).and_then(|time| i64::try_from(time.bound()?).ok()),
        retry: retried.map(|base| base.state).unwrap_or_default(),
        // Separated by spaces.
        input_sessions: planned.input_sessions.as_deref().map(|sessions| {
            let labels: Vec<&str> = sessions.iter().map(SessionLabel::as_str).collect();
            labels.join(" ").into()
        }),
        key: key.clone(),
        project: None,
        state_file: None,
    };
    let request = JobRequest {
        job_name,
        submission_id,
        project: context.project.to_owned(),
        script: procedure.script.clone(),
        arguments,
        env: environment(config, procedure, planned, context),
        resources,
        log_dir: (config.slurm.log_dir.as_ref()).map(|dir| dir.join(&*procedure.name)),
        key: key.clone(),
    };
    Prepared {
        intent,
        request,
        notes,
    }
}

impl RequestNotes {
    /// `attempt 2 after out_of_memory: --mem 32G -> 48G`; `None` unless it is a retry.
    pub fn retry_text(&self, attempt: i32) -> Option<String> {
        let changes = self.changes.join(", ");
        let changes = maybe(": ", Some(changes).filter(|text| !text.is_empty()), "");
        Some(format!(
            "attempt {attempt} after {}{changes}",
            self.retry_of?
        ))
    }
}

/// A job's environment variables; the procedure's override ours where allowed.
fn environment(
    config: &Config,
    procedure: &Procedure,
    planned: &Planned,
    context: &RequestContext<'_>,
) -> BTreeMap<String, String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    // A procedure may use other paths for the data, as in a container.
    let seen = |variable: Variable, root: &Path| match procedure.env.get(variable.as_str()) {
        Some(own) => PathBuf::from(own),
        None => root.to_owned(),
    };
    let bids = seen(Variable::BidsRoot, &config.bids_root);
    let derivatives = seen(Variable::DerivativesRoot, &config.derivatives_root);
    let roots = OutputRoots {
        bids: &bids,
        derivatives: &derivatives,
    };
    let mut env = procedure.env.clone();
    for variable in Variable::ALL {
        let value = match variable {
            Variable::Subject => planned.subject.to_string(),
            Variable::Session => planned.session.to_string(),
            Variable::Procedure => procedure.name.to_string(),
            Variable::Attempt => context.attempt.to_string(),
            Variable::LastReason => context.last_reason.map_or("", Reason::as_str).to_owned(),
            Variable::DicomPath => planned.dicom_path.as_deref().map(path).unwrap_or_default(),
            Variable::BidsRoot => path(&bids),
            Variable::DerivativesRoot => path(&derivatives),
            Variable::OutputDir => {
                let (subject, session) = (planned.subject.as_str(), planned.session.as_str());
                // With an empty root, the script chooses the directory.
                match roots.root(procedure).as_os_str().is_empty() {
                    true => String::new(),
                    false => path(&roots.output(procedure, subject, session)),
                }
            }
        };
        env.insert(variable.as_str().to_owned(), value);
    }
    env
}

/// The word that identifies a study's jobs: `name@mark`, or the mark alone if the study has no name. The mark is 8 hex
/// digits of a hash of the state file's path at the study's first run.
pub fn study_word(known: Option<String>, state_file: &std::path::Path) -> String {
    let path = state_file.as_os_str().as_encoded_bytes();
    let mark = hex_of_first(4, &Sha256::digest(path));
    match known {
        Some(word) if word.contains('@') || word == mark => word,
        Some(name) => format!("{name}@{mark}"),
        None => mark,
    }
}

/// The basis of an automatic retry.
struct RetryBase<'a> {
    /// The previous attempt.
    row: &'a TaskRow,
    /// The result of the rules.
    state: RetryState,
    /// The options in the script's `#SBATCH` lines.
    script: &'a Arguments,
}

/// An attempt's resources, and how they differ from the previous attempt and the configuration. `failed` is given for an
/// automatic retry.
fn ask(
    procedure: &Procedure,
    ceiling: &Ceiling,
    failed: Option<&RetryBase<'_>>,
) -> (Resources, RequestNotes) {
    let own = &procedure.resources;
    let mut resources = own.clone();
    let mut notes = RequestNotes::default();
    let Some(RetryBase { row, state, script }) = failed else {
        notes.reduced = reduce(&mut resources, ceiling);
        return (resources, notes);
    };
    let is_mem_shared = options::mem(own).is_none() && options::is_mem_shared(script);
    raise(&mut resources, state, is_mem_shared);
    let is_avoided = (!state.exclude.is_empty())
        .then(|| options::exclude(&mut resources, script, &state.exclude));
    notes.reduced = reduce(&mut resources, ceiling);

    let rules = procedure.rules.retry.as_ref();
    let rule = row.reason.and_then(|reason| rules?.on.get(&reason));
    let is_raised = |factor: Option<f64>| factor.is_some_and(|factor| factor > 1.0);
    let raises_mem = is_raised(rule.and_then(|rule| rule.mem_factor));
    let raises_time = is_raised(rule.and_then(|rule| rule.time_factor));
    let (mem, time) = (asked_mem(row, own), asked_time(row, own));
    let no_effect = |factor: &str, why: &str| Some(format!("{factor} has no effect: {why}"));
    let changes = [
        match mem {
            _ if !raises_mem => None,
            _ if is_mem_shared => no_effect(
                "mem_factor",
                "the script requests memory per CPU or GPU (#SBATCH)",
            ),
            None => no_effect(
                "mem_factor",
                "the memory request of the last attempt is unknown; set mem",
            ),
            Some(_) => None,
        },
        match time {
            None if raises_time => no_effect(
                "time_factor",
                "the time limit of the last attempt is unknown or unlimited; set time",
            ),
            _ => None,
        },
        change(
            "--mem",
            mem,
            options::mem(&resources).and_then(|mem| mem.bound()),
            |mem| MemSize::of_megabytes(mem).to_string(),
        ),
        change(
            "--time",
            time,
            options::time(&resources).and_then(|time| time.bound()),
            |time| TimeLimit::of_seconds(time).to_string(),
        ),
        match is_avoided {
            Some(true) => Some(format!("--exclude {}", state.exclude.join(","))),
            Some(false) => no_effect("exclude_node", "sbatch_args use a file of nodes"),
            None => None,
        },
    ];
    notes.changes = changes.into_iter().flatten().collect();
    (resources, notes)
}

/// Applies the values raised by retries, unless the configuration now requests more.
fn raise(resources: &mut Resources, state: &RetryState, is_mem_shared: bool) {
    // Nothing is more than unlimited (all memory of a node, no time limit).
    let is_more = |raised: u64, configured: Option<Option<u64>>| {
        configured.is_none_or(|bound| bound.is_some_and(|bound| bound < raised))
    };
    if let Some(raised) = state.mem_mb
        && !is_mem_shared
        && is_more(raised, options::mem(resources).map(|mem| mem.bound()))
    {
        options::set_mem(resources, MemSize::of_megabytes(raised));
    }
    if let Some(raised) = state.time_s
        && is_more(raised, options::time(resources).map(|time| time.bound()))
    {
        options::set_time(resources, TimeLimit::of_seconds(raised));
    }
}

/// Reduces the request to the site's ceiling. Values that are not requested stay unset, because the values
/// of partition and script are unknown here.
fn reduce(resources: &mut Resources, ceiling: &Ceiling) -> Vec<String> {
    let mut reduced = Vec::new();
    let mut note = |option, from: &dyn Display, to: &dyn Display, key| {
        reduced.push(format!("{option} {from} reduced to {to} ({key})"));
    };
    if let (Some(most), Some(mem)) = (&ceiling.mem, options::mem(resources))
        && let Some(bound) = most.bound()
        && mem.bound().is_none_or(|asked| asked > bound)
    {
        note("--mem", &mem, most, "max_mem");
        options::set_mem(resources, most.clone());
    }
    if let (Some(most), Some(time)) = (&ceiling.time, options::time(resources))
        && let Some(bound) = most.bound()
        && time.bound().is_none_or(|asked| asked > bound)
    {
        note("--time", &time, most, "max_time");
        options::set_time(resources, most.clone());
    }
    if let (Some(most), Some(cpus)) = (ceiling.cpus, options::cpus(resources))
        && cpus > most
    {
        note("--cpus-per-task", &cpus, &most, "max_cpus");
        options::set_cpus(resources, most);
    }
    reduced
}

/// How a value of the next attempt differs from the last one's: `--mem 32G -> 48G`.
fn change(
    option: &str,
    from: Option<u64>,
    to: Option<u64>,
    print: impl Fn(u64) -> String,
) -> Option<String> {
    let (from, to) = from.zip(to).filter(|(from, to)| from != to)?;
    Some(format!("{option} {} -> {}", print(from), print(to)))
}
