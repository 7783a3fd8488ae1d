//! The entries of `procedures`, one by one. What holds between them stands in `validate`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use super::{Overrides, markers, paths, placeholders, rules, sbatch_args};
use crate::model::procedure::{
    Check, Dependency, Procedure, Resources, Scope, Variable, options, template,
};
use crate::model::state::Reason;

/// Is a procedure together with where its parts stand in the file.
pub(super) struct Step<'a> {
    pub(super) procedure: Procedure,
    pub(super) name: Value<'a>,
    /// One per dependency of the procedure, in the same order.
    pub(super) dependencies: Vec<DependencyPlace<'a>>,
}

/// Says where a dependency stands.
pub(super) struct DependencyPlace<'a> {
    pub(super) name: Value<'a>,
    /// The value of `sessions`, if it is written.
    pub(super) sessions: Option<Value<'a>>,
}

/// Reads one entry. Everything that is wrong is reported; what can be read is returned all the
/// same, so that an entry with a typo is not missed by those that depend on it.
pub(super) fn read<'a>(value: &Value<'a>, overrides: &Overrides) -> Option<Step<'a>> {
    let fields = value.fields(Section::Procedure)?;
    let hint = "every procedure needs one, such as 'qsiprep'";
    let name = fields.required("name", hint, |value| {
        Some((procedure_name(value)?, value.clone()))
    });
    let hint = "write the directory below derivatives_root, or \"\" for the bids_root itself";
    let output_dir = match fields.get("output_dir") {
        // As the Python program had it: the same as "".
        Some(value) if value.is_null() => Some(PathBuf::new()),
        _ => fields.required("output_dir", hint, output_dir),
    };
    let hint = "write the job script, such as snbb_run_qsiprep.sh";
    let script = fields.required("script", hint, script);
    // None: it is wrong already.
    let known_scope = fields.or("scope", |value| Some(value.choice::<Scope>()));
    let (depends_on, dependencies) = depends_on(&fields);
    let completion = markers::rule(&fields);
    let env = fields.get("env").map(|value| environment(&value));
    let mut resources = resources(&fields, overrides);
    let output_grace = fields.maybe("output_grace", Value::duration);
    let rules = rules::read(&fields);
    // Two that restart the same job would run it twice.
    resources.no_requeue = rules.retry.as_ref().is_some_and(|rules| {
        let restarts = [Reason::NodeFail, Reason::Preempted];
        restarts.iter().all(|reason| rules.on.contains_key(reason))
    }) && !options::decide_requeue(&resources.sbatch_args);
    if known_scope == Some(Scope::Session)
        && let Some(value) = fields.get("min_sessions")
    {
        value.problem_with(
            "is for procedures with 'scope: subject'",
            "a task of a session has that session only; leave the key out",
        );
    }
    let known_name = name.as_ref().map(|(name, _)| &**name);
    let check = check(&fields, known_name, output_dir.as_deref(), known_scope);

    let (name, name_value) = name?;
    let procedure = Procedure {
        name,
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
    placeholders::check(&fields, &procedure);
    Some(Step {
        procedure,
        name: name_value,
        dependencies,
    })
}

/// Names become part of job names, of which accounting keeps 255 bytes, and of paths.
fn procedure_name(value: &Value<'_>) -> Option<Arc<str>> {
    const LONGEST: usize = 100;
    let text = value.raw("a name")?;
    let letter = |c: char| c.is_ascii_alphanumeric();
    if text.len() > LONGEST {
        value.problem(format!("{} is longer than {LONGEST} letters", quote(text)));
    } else if !(text.starts_with(letter)
        && text
            .chars()
            .all(|c| letter(c) || matches!(c, '_' | '.' | '+' | '-')))
    {
        value.problem(format!(
            "{} is not a name: a letter or digit, then letters, digits, '_', '.', '+' or '-'",
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
    let shown = quote(&path.to_string_lossy());
    if path.is_absolute() {
        let hint = "only directories below derivatives_root can be outputs";
        value.problem_with(format!("{shown} is absolute"), hint);
        return None;
    }
    if path.components().any(|part| part == Component::ParentDir) {
        value.problem(format!("{shown} leaves derivatives_root by '..'"));
        return None;
    }
    if let Some(brace) = template::stray_brace(&path.to_string_lossy()) {
        let hint = "the placeholders are {subject} and {session}";
        value.problem_with(format!("{shown} holds '{brace}'"), hint);
        return None;
    }
    if let Some(placeholder) = template::open_end(&path.to_string_lossy()) {
        let hint = "two labels could mean one directory: write a '_', '-' or '/' after it";
        value.problem_with(format!("{shown} goes on after {placeholder}"), hint);
        return None;
    }
    let plain: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    // The empty path would be bids_root.
    let itself = plain.as_os_str().is_empty();
    Some(if itself { PathBuf::from(".") } else { plain })
}

fn script(value: &Value<'_>) -> Option<String> {
    let Ok(script) = value.expanded()?.into_string() else {
        value.problem("expands to a path that is not UTF-8");
        return None;
    };
    if script.starts_with('-') {
        value.problem(format!(
            "{} begins with '-': sbatch would take it for an option",
            quote(&script)
        ));
        return None;
    }
    if script.ends_with('/') || Path::new(&script).file_name().is_none() {
        value.problem(format!("{} names a directory", quote(&script)));
        return None;
    }
    Some(script)
}

fn depends_on<'a>(fields: &Fields<'a>) -> (Vec<Dependency>, Vec<DependencyPlace<'a>>) {
    let mut dependencies: Vec<Dependency> = Vec::new();
    let mut places = Vec::new();
    let entries = fields.get("depends_on").map(|value| value.one_or_more());
    for entry in entries.unwrap_or_default() {
        let (name, sessions) = if entry.is_mapping() {
            let Some(fields) = entry.fields(Section::Dependency) else {
                continue;
            };
            let name = fields.required("name", "it names a procedure", |value| {
                Some((value.raw("the name of a procedure")?, value.clone()))
            });
            (name, fields.get("sessions"))
        } else {
            let name = entry.raw("the name of a procedure");
            (name.map(|name| (name, entry.clone())), None)
        };
        let sessions = sessions.filter(|value| !value.is_null() && !value.is_empty_text());
        let rule = sessions.as_ref().and_then(Value::choice);
        let Some((name, name_value)) = name else {
            continue;
        };
        let dependency = Dependency {
            procedure: Arc::from(name),
            sessions: rule.unwrap_or_default(),
        };
        let earlier = dependencies
            .iter()
            .find(|earlier| earlier.procedure == dependency.procedure);
        if let Some(earlier) = earlier {
            if *earlier != dependency {
                let name = quote(name);
                name_value.problem(format!("{name} appears twice, with different `sessions`"));
            }
            continue;
        }
        dependencies.push(dependency);
        places.push(DependencyPlace {
            name: name_value,
            sessions,
        });
    }
    (dependencies, places)
}

/// Chooses the check, by name if none is given, and tells what does not go with it.
/// `scope`: none if it is wrong already.
fn check(
    fields: &Fields<'_>,
    name: Option<&str>,
    dir: Option<&Path>,
    scope: Option<Scope>,
) -> Check {
    // A place that is said outright is not where the checks by name would look.
    let is_said = dir.is_some_and(|dir| template::has_any(&dir.to_string_lossy()));
    let by_name = name.and_then(|name| name.parse().ok()).filter(|_| !is_said);
    let check = fields
        .maybe("check", Value::choice)
        .unwrap_or_else(|| by_name.unwrap_or_default());
    let needed = match check {
        Check::Markers => return check,
        Check::Freesurfer => Scope::Subject,
        Check::Qsirecon => Scope::Session,
    };
    if scope.is_some_and(|scope| scope != needed) {
        let place = ["check", "scope", "name"]
            .iter()
            .find_map(|key| fields.get(key));
        if let Some(value) = place {
            value.problem_with(
                format!("the {check} check needs 'scope: {needed}'"),
                "or write 'check: markers' to judge by completion_marker",
            );
        }
    }
    if let Some(marker) = fields.get("completion_marker")
        && !marker.is_null()
    {
        marker.warn(format!(
            "is not looked at: the built-in {check} check decides ('check: markers' chooses the marker)"
        ));
    }
    check
}

/// Reads what the jobs of a procedure ask for. What is typed in the shell is meant for everything that this call
/// submits.
fn resources(fields: &Fields<'_>, overrides: &Overrides) -> Resources {
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
            .maybe("sbatch_args", sbatch_args::read)
            .unwrap_or_default(),
        no_requeue: false,
    };
    let memory = options::passed_memory_options(&resources);
    if let ([first, second, ..], Some(value)) = (&memory[..], fields.get("sbatch_args")) {
        value.problem_with(
            format!("--{first} and --{second} are passed together, and sbatch takes one of them only"),
            "write mem: \"\" beside --mem-per-cpu or --mem-per-gpu: it takes slurm_mem away as well",
        );
    }
    resources
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
                "{} is not the name of a variable: letters, digits and '_', no digit first",
                quote(name)
            ));
        } else if let Some(prefix) = RESERVED.iter().find(|prefix| name.starts_with(**prefix)) {
            value.problem(format!("names that begin with {prefix} are set by Slurm"));
        } else if Variable::reserved().contains(&name) {
            value.problem("is set by the scheduler for each job");
        } else if value.is_null() {
            value.problem_with("has no value", "write \"\" for an empty one");
        } else if let Some(text) = value.scalar() {
            if text.contains('\0') {
                value.problem("holds a NUL");
            }
            variables.insert(name.to_owned(), text);
        }
    }
    variables
}
