//! The entries of `procedures`, one by one, including `sbatch_args`. `validate` checks them together.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use super::{paths, rules};
use crate::model::procedure::options::{self, Argument, Arguments, Class};
use crate::model::procedure::{
    Check, Dependency, Procedure, Resources, Scope, SessionsRule, Variable, template,
};
use crate::model::state::Reason;

/// A procedure with its entry in the file.
pub(super) struct Step<'a> {
    pub(super) procedure: Procedure,
    pub(super) entry: Value<'a>,
    /// One per dependency of the procedure, in the same order.
    pub(super) dependencies: Vec<Value<'a>>,
}

/// Reads one entry and reports all problems. Returns valid parts of an invalid entry,
/// so that other entries can depend on it without an error of their own.
pub(super) fn read<'a>(value: &Value<'a>) -> Option<Step<'a>> {
    let fields = value.fields(Section::Procedure)?;
    let hint = "add a name, such as 'qsiprep'";
    let name = fields.required("name", hint, procedure_name);
    let hint =
        "set it to a directory relative to derivatives_root, or to \"\" for bids_root itself";
    let output_dir = match fields.get("output_dir") {
        // Like "", as in the Python program.
        Some(value) if value.is_null() => Some(PathBuf::new()),
        _ => fields.required("output_dir", hint, output_dir),
    };
    let hint = "set it to the job script, such as snbb_run_qsiprep.sh";
    let script = fields.required("script", hint, script);
    // `None` after an error.
    let known_scope = fields.or("scope", |value| Some(value.choice::<Scope>()));
    let (depends_on, dependencies) = depends_on(&fields, known_scope);
    let completion = rules::completion(&fields);
    let env = fields.get("env").map(|value| environment(&value));
    let mut resources = resources(&fields);
    let output_grace = fields.maybe("output_grace", Value::duration);
    let rules = rules::submission(&fields);
    // If both Slurm and the scheduler restarted a job, it would run twice.
    resources.no_requeue = rules.retry.as_ref().is_some_and(|rules| {
        let restarts = [Reason::NodeFail, Reason::Preempted];
        restarts.iter().all(|reason| rules.on.contains_key(reason))
    }) && !options::decide_requeue(&resources.sbatch_args);
    if known_scope == Some(Scope::Session)
        && let Some(value) = fields.get("min_sessions")
    {
        value.problem("requires 'scope: subject' (remove the key)");
    }
    let check = check(
        value,
        &fields,
        name.as_deref(),
        output_dir.as_deref(),
        known_scope,
    );
    let procedure = Procedure {
        name: name?,
        output_dir: output_dir.unwrap_or_default(),
        script: script.unwrap_or_default(),
        scope: known_scope.unwrap_or_default(),
        depends_on,
        check,
        completion,
        resources,
        env: env.unwrap_or_default(),
        output_grace,
        rules,
    };
    rules::check_placeholders(&fields, &procedure);
    Some(Step {
        procedure,
        entry: value.clone(),
        dependencies,
    })
}

/// Names become part of paths and of job names, which accounting truncates at 255 bytes.
fn procedure_name(value: &Value<'_>) -> Option<Arc<str>> {
    const LONGEST: usize = 100;
    let text = value.raw("a name")?;
    let letter = |c: char| c.is_ascii_alphanumeric();
    let fits = |c: char| letter(c) || matches!(c, '_' | '.' | '+' | '-');
    if text.len() > LONGEST || !text.starts_with(letter) || !text.chars().all(fits) {
        value.problem(format!(
            "{} is not a valid name: use at most {LONGEST} letters, digits, '_', '.', '+' and '-', and start with a letter \
             or digit",
            quote(text)
        ));
    }
    Some(Arc::from(text))
}

fn output_dir(value: &Value<'_>) -> Option<PathBuf> {
    if value.is_empty_text() {
        return Some(PathBuf::new());
    }
    let path = PathBuf::from(value.expanded()?);
    let text = path.to_string_lossy();
    let problem = if path.is_absolute() {
        Some("is absolute (use a path relative to derivatives_root)".to_owned())
    } else if path.components().any(|part| part == Component::ParentDir) {
        Some("leaves derivatives_root with '..'".to_owned())
    } else if let Some(brace) = template::stray_brace(&text) {
        Some(format!(
            "contains '{brace}' (only {{subject}} and {{session}} are placeholders)"
        ))
    } else {
        template::open_end(&text).map(|placeholder| {
            format!(
                "has no separator after {placeholder} (add '_', '-' or '/' after it, so that different labels give different \
                 directories)"
            )
        })
    };
    if let Some(problem) = problem {
        return value.fail(format!("{} {problem}", quote(&text)));
    }
    let plain: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    // The empty path means bids_root.
    let itself = plain.as_os_str().is_empty();
    Some(if itself { PathBuf::from(".") } else { plain })
}

fn script(value: &Value<'_>) -> Option<String> {
    let Ok(script) = value.expanded()?.into_string() else {
        return value.fail("expands to a path that is not UTF-8");
    };
    let problem = if script.starts_with('-') {
        "starts with '-', so sbatch would treat it as an option"
    } else if script.ends_with('/') || Path::new(&script).file_name().is_none() {
        "is a directory"
    } else {
        return Some(script);
    };
    value.fail(format!("{} {problem}", quote(&script)))
}

/// The dependencies, and their entries.
fn depends_on<'a>(fields: &Fields<'a>, scope: Option<Scope>) -> (Vec<Dependency>, Vec<Value<'a>>) {
    let mut dependencies: Vec<Dependency> = Vec::new();
    let mut places = Vec::new();
    for entry in fields.list("depends_on", |entry| Some(entry.clone())) {
        let Some(dependency) = dependency(&entry, scope) else {
            continue;
        };
        let mut earlier = dependencies.iter();
        match earlier.find(|earlier| earlier.procedure == dependency.procedure) {
            Some(earlier) if *earlier != dependency => {
                let name = quote(&dependency.procedure);
                entry.problem(format!("{name} appears twice, with different `sessions`"));
            }
            Some(_) => {}
            None => {
                dependencies.push(dependency);
                places.push(entry);
            }
        }
    }
    (dependencies, places)
}

fn dependency(entry: &Value<'_>, scope: Option<Scope>) -> Option<Dependency> {
    let name = |value: &Value<'_>| value.raw("the name of a procedure").map(Arc::from);
    let fields = match entry.is_mapping() {
        true => Some(entry.fields(Section::Dependency)?),
        false => None,
    };
    let (procedure, sessions) = match fields {
        Some(fields) => (
            fields.required("name", "add the name of a procedure", name),
            fields.maybe("sessions", Value::choice),
        ),
        None => (name(entry), None),
    };
    let sessions = sessions.unwrap_or_default();
    if (scope, sessions) == (Some(Scope::Subject), SessionsRule::Same) {
        entry.problem(
            "'same' requires 'scope: session', because a subject's task has no session of its own (write 'all' to wait \
             for all sessions of the subject, or 'any' to wait for one)",
        );
    }
    Some(Dependency {
        procedure: procedure?,
        sessions,
    })
}

/// Chooses the check, by the procedure's name if `check` is not set. Reports keys that do not fit it.
/// `scope` is `None` after an error.
fn check(
    entry: &Value<'_>,
    fields: &Fields<'_>,
    name: Option<&str>,
    dir: Option<&Path>,
    scope: Option<Scope>,
) -> Check {
    // The built-in checks do not support placeholders.
    let is_template = dir.is_some_and(|dir| template::has_any(&dir.to_string_lossy()));
    let by_name = name.and_then(|name| name.parse().ok());
    let by_name = by_name.filter(|_| !is_template);
    let check = fields.maybe("check", Value::choice).or(by_name);
    let check = check.unwrap_or_default();
    let needed = match check {
        Check::Markers => return check,
        Check::Freesurfer => Scope::Subject,
        Check::Qsirecon => Scope::Session,
    };
    if scope.is_some_and(|scope| scope != needed) {
        entry.problem(format!(
            "the {check} check requires 'scope: {needed}' (set it, or set 'check: markers' to use completion_marker)"
        ));
    }
    if let Some(marker) = fields.get("completion_marker")
        && !marker.is_null()
    {
        marker.warn(format!(
            "is ignored, because the built-in {check} check is used (set 'check: markers' to use the marker)"
        ));
    }
    check
}

/// The resources that a procedure's jobs request. Options of the command line apply to every procedure.
fn resources(fields: &Fields<'_>) -> Resources {
    let overrides = fields.context.overrides;
    let mem = fields.maybe("mem", Value::memory);
    let cpus = fields.maybe("cpus_per_task", Value::whole);
    let resources = Resources {
        partition: fields.maybe("partition", Value::word),
        account: fields.maybe("account", Value::word),
        qos: fields.maybe("qos", Value::word),
        time: fields.maybe("time", Value::time),
        mem: overrides.slurm_mem.clone().or(mem),
        cpus_per_task: overrides.slurm_cpus.or(cpus).filter(|cpus| *cpus > 0),
        gres: fields.maybe("gres", Value::word),
        sbatch_args: fields
            .maybe("sbatch_args", sbatch_arguments)
            .unwrap_or_default(),
        no_requeue: false,
    };
    let memory = options::passed_memory_options(&resources);
    if let ([first, second, ..], Some(value)) = (&memory[..], fields.get("sbatch_args")) {
        value.problem(format!(
            "--{first} and --{second} exclude each other in sbatch (with --mem-per-cpu or --mem-per-gpu, set mem: \"\", \
             which also disables slurm_mem)"
        ));
    }
    resources
}

/// Further options of sbatch. Options are refused if they would change how a job is found, how sbatch answers, how many
/// jobs there are, or what the script sees.
fn sbatch_arguments(value: &Value<'_>) -> Option<Arguments> {
    if value.is_scalar() {
        return value.fail(
            "must be a list, not a single value (write one list entry per option, such as [--nice=100, --exclusive])",
        );
    }
    let items = value.items()?;
    let texts = items.iter().enumerate();
    let arguments = Arguments::parse(texts.filter_map(|(at, item)| Some((at, item.text()?))));
    for argument in arguments.iter() {
        if let Some(item) = items.get(argument.at) {
            check_argument(item, argument);
        }
    }
    // sbatch's answer would not name the cluster that the job id belongs to.
    if options::clusters(&arguments).contains(&"all") {
        value.problem(
            "--clusters=all does not name the clusters (list them, such as --clusters=first,second)",
        );
    }
    Some(arguments)
}

fn check_argument(item: &Value<'_>, argument: &Argument) {
    let word = &argument.word;
    let Some(option) = argument.option else {
        if word == "--" || word.starts_with("--=") {
            item.problem(format!("'{word}' is not an option of sbatch"));
        } else if !argument.is_option() {
            item.problem(format!(
                "'{word}' is not an option, so sbatch would treat it as the script (write an option and its value as a \
                 single entry, such as --nice=100)"
            ));
        }
        return;
    };
    let long = format!("--{}", option.long);
    let (name, short) = match argument.letter {
        Some(letter) => (format!("-{letter} ({long})"), format!("-{letter}")),
        None => (long.clone(), long),
    };
    match option.class {
        Class::Refused(why) | Class::Unfit(why) => {
            item.problem(format!("'{word}': {name} is not allowed here: {why}"));
        }
        Class::Key(key) => item.warn(format!("use the key '{key}' instead of {short}")),
        Class::Free => {}
    }
    if argument.is_open() {
        item.problem(format!(
            "'{word}' has no value, so sbatch would treat the script as its value"
        ));
    }
}

fn environment(value: &Value<'_>) -> BTreeMap<String, String> {
    const RESERVED: [&str; 2] = ["SLURM_", "SBATCH_"];
    let mut variables = BTreeMap::new();
    if value.is_null() {
        return variables;
    }
    for (name, value) in value.pairs().unwrap_or_default() {
        if !paths::is_variable_name(name) {
            value.problem(format!(
                "{} is not a valid variable name: use letters, digits and '_', and do not start with a digit",
                quote(name)
            ));
        } else if let Some(prefix) = RESERVED.iter().find(|prefix| name.starts_with(**prefix)) {
            value.problem(format!(
                "variables that start with {prefix} are set by Slurm"
            ));
        } else if Variable::reserved().contains(&name) {
            value.problem("is set by the scheduler for each job");
        } else if value.is_null() {
            value.problem("has no value (write \"\" for an empty value)");
        } else if let Some(text) = value.scalar() {
            if text.contains('\0') {
                value.problem("contains a NUL character");
            }
            variables.insert(name.to_owned(), text);
        }
    }
    variables
}
