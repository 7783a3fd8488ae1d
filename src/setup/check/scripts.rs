//! Checks job scripts: Slurm (or the local executor) accepts them, this machine has what they need, and their `#SBATCH`
//! lines agree with the configuration.

use std::path::{Path, PathBuf};

use super::{Config, ExecutorKind, Findings, Level, Procedure, Site, few, sys};
use crate::executor::script::{self, Script, ScriptError};
use crate::model::procedure::options::{Argument, Arguments};
use crate::model::procedure::{MemSize, Resources, TimeLimit, options};
use crate::setup::place;

const TOPIC: &str = "script";
/// Remedy for DOS line breaks.
pub(super) const DOS: &str = "convert the script: dos2unix, or sed -i 's/\\r$//'";
/// Endings of names of shell variables whose values are files.
const FILES: &str = "IMAGE SIF CONTAINER LICENSE LICENCE HEURISTIC CONFIG";

pub(super) fn check(site: &Site, findings: &mut Findings) {
    for procedure in site.config.procedures.all() {
        findings.about(TOPIC, &procedure.name);
        match site.find_script(&procedure.script) {
            Ok(path) => judge(&site.config, procedure, &path, findings),
            Err(error) => findings.error(error.to_string(), error.hint().unwrap_or_default()),
        }
    }
}

fn judge(config: &Config, procedure: &Procedure, path: &Path, findings: &mut Findings) {
    let shown = path.display();
    let what = format!("change {shown}, and it runs as this user");
    findings.writable_by_all(path, place::mode(path), &what);
    let script = match Script::read(path) {
        Ok(script) => script,
        Err(error) => return findings.error(error.to_string(), remedy(&error)),
    };
    // The interpreter, images and licences that the script needs and this machine does not have.
    let search = sys::env("PATH");
    let is_program = |path: &Path| place::is_program(path) == Ok(true);
    let is_missing = |name: &&str| match name.contains('/') {
        true => !is_program(Path::new(name)),
        false => {
            let mut dirs = search.iter().flat_map(std::env::split_paths);
            !dirs.any(|dir| is_program(&dir.join(name)))
        }
    };
    let (program, started) = programs(&script.interpreter);
    let program = program.filter(is_missing).map(str::to_owned);
    let interpreter = program.or_else(|| Some(format!("env {}", started.filter(is_missing)?)));
    // Compute nodes may have what this machine lacks; the local executor runs here.
    let (level, otherwise) = match (config.executor, &interpreter) {
        (ExecutorKind::Slurm, _) => (
            Level::Warning,
            "nothing if the compute nodes have it; otherwise",
        ),
        (ExecutorKind::Local, Some(_)) => (Level::Error, "install it, or"),
        (ExecutorKind::Local, None) => (Level::Warning, "install it, or"),
    };
    let interpreter = interpreter.map(|name| format!("interpreter {name}"));
    let variable = |name: &str| {
        let of_caller = || Some(sys::env(name)?.to_string_lossy().into_owned());
        procedure.env.get(name).cloned().or_else(of_caller)
    };
    let files = files(&String::from_utf8_lossy(&script.text), &variable).into_iter();
    let files = files.filter(|(_, path)| !place::is_there(path));
    let files = files.map(|(variable, path)| format!("{} ({variable})", path.display()));
    let missing: Vec<String> = interpreter.into_iter().chain(files).collect();
    if !missing.is_empty() {
        let (path, missing) = (path.display(), few(&missing));
        findings.add(
            level,
            format!("{path} requires {missing}, which this machine does not have"),
            format!(
                "{otherwise} correct the script, or set its variables in the procedure's `env`"
            ),
        );
    }
    if config.executor == ExecutorKind::Slurm {
        directives(config, procedure, path, &script.text, findings);
    }
    findings.or_ok(format!("{shown} is a job script"));
}

fn remedy(error: &ScriptError) -> &'static str {
    match error {
        ScriptError::Read(_) => "give the user who runs this command permission to read it",
        ScriptError::TooLarge(_) => {
            "Slurm does not accept larger scripts; move programs and data to separate files"
        }
        ScriptError::NoInterpreter(_) => {
            "start it with a line such as #!/bin/bash, with nothing before it"
        }
        ScriptError::DosLineBreaks(_) => DOS,
    }
}

/// The programs that a `#!` line requires: the interpreter, and the program that `env` starts.
fn programs(interpreter: &[String]) -> (Option<&str>, Option<&str>) {
    let mut words = interpreter.iter().map(String::as_str);
    let program = words.next();
    let is_env = program.is_some_and(|program| program.ends_with("/env"));
    let argument = words.next().filter(|_| is_env).and_then(|argument| {
        argument
            .split_ascii_whitespace()
            .find(|word| !word.starts_with('-') && !word.contains('='))
    });
    (program, argument)
}

/// The files that a script requires, each with the variable that a site can set for it. `env` contains the job's
/// variables.
fn files(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Vec<(String, PathBuf)> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let file = |line: &str| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        if !name.chars().all(is_name) || !FILES.split(' ').any(|end| name.ends_with(end)) {
            return None;
        }
        // `${VARIABLE:-default}`, or the value itself.
        let inner = value.trim_end().strip_prefix("${");
        let inner = inner.and_then(|inner| inner.strip_suffix('}')?.split_once('-'));
        let (variable, value) = match inner {
            None => (name, unquoted(value)),
            Some((variable, default)) => {
                let variable = variable.trim_end_matches(':');
                let set = env(variable).filter(|value| !value.is_empty());
                (variable, set.unwrap_or_else(|| unquoted(default)))
            }
        };
        // Values that contain variables or are not paths (docker://...) cannot be checked here.
        let is_path = value.starts_with('/') && !value.contains('$');
        is_path.then(|| (variable.to_owned(), value.into()))
    };
    text.lines().filter_map(file).collect()
}

/// A word without surrounding quotes.
fn unquoted(word: &str) -> String {
    let word = word.trim_end().replace(r"'\''", "'");
    word.trim_matches(['\'', '"']).to_owned()
}

/// Checks the `#SBATCH` lines, and compares them with the options on the command line, which take precedence.
fn directives(
    config: &Config,
    procedure: &Procedure,
    path: &Path,
    text: &[u8],
    findings: &mut Findings,
) {
    let shown = path.display();
    if let Some((line, option, why)) = script::unfit(text) {
        findings.error(
            format!("{shown} has '#SBATCH {option}' in line {line}: {why}"),
            format!("remove it from line {line}; until then, this procedure is not submitted"),
        );
    }
    let ignored = script::ignored_directives(text).into_iter();
    let ignored: Vec<String> = ignored
        .map(|(line, text)| format!("line {line}: {text}"))
        .collect();
    findings.warn_of(
        format!("Slurm ignores #SBATCH lines of {shown}, because they are indented or after the first command:"),
        &ignored,
        "move them to the top of the script, right below the #! line",
    );
    let asked = &script::options(text);
    memory(&procedure.resources, path, asked, findings);
    let first = |name: &str| asked.iter().find(|option| option.is(name));
    let value = |option: &Argument| option.value.clone().unwrap_or_default();
    if let Some(array) = first("array") {
        let (value, line) = (value(array), array.at);
        findings.error(
            format!(
                "{shown} has '#SBATCH --array={value}' in line {line}: each task would become several jobs, and it would \
                 be unknown which one is the task's"
            ),
            "remove it; `array: auto` combines tasks to job arrays",
        );
    }
    if let Some(clusters) = first("clusters") {
        let (value, line) = (value(clusters), clusters.at);
        findings.warning(
            format!(
                "{shown} has '#SBATCH --clusters={value}' in line {line}, which the program ignores"
            ),
            format!("set sbatch_args: [--clusters={value}] in the procedure instead"),
        );
    }
    let logs = asked.iter().filter_map(|option| {
        let (name, line) = (option.option?.long, option.at);
        matches!(name, "output" | "error")
            .then(|| format!("--{name}={} (line {line})", value(option)))
    });
    let logs: Vec<String> = logs.collect();
    if config.slurm.log_dir.is_some() {
        findings.warn_of(
            format!("{shown} sets log files, which slurm_log_dir overrides:"),
            &logs,
            "remove these lines, or set slurm_log_dir to that directory",
        );
    }
    let overruled = asked.iter().filter_map(|option| {
        let name = option.option?.long;
        let passed = passed(&procedure.resources, name)?;
        let (asked, line) = (value(option), option.at);
        (!is_same(name, &asked, &passed))
            .then(|| format!("--{name}={asked} in line {line}, {passed} in the configuration"))
    });
    let overruled: Vec<String> = overruled.collect();
    findings.warn_of(
        format!("{shown} differs from the configuration, which takes precedence:"),
        &overruled,
        "keep the value in one place: the script, or the procedure's key (an empty key passes no option)",
    );
}

/// Reports conflicting memory options, which sbatch refuses.
fn memory(resources: &Resources, path: &Path, asked: &Arguments, findings: &mut Findings) {
    let own: Vec<&str> = options::memory_options(asked).collect();
    let passed = options::passed_memory_options(resources);
    let all = || own.iter().chain(&passed);
    let both = own
        .iter()
        .find_map(|one| Some((one, all().find(|other| *other != one)?)));
    if let Some((one, other)) = both {
        let path = path.display();
        findings.error(
            format!("'#SBATCH --{one}' in {path} conflicts with --{other}: sbatch accepts only one of them"),
            "keep one of them; mem: \"\" in the procedure omits --mem",
        );
    }
}

/// The value that the program passes for an option of a script.
fn passed(resources: &Resources, name: &str) -> Option<String> {
    match name {
        "time" => options::time(resources).map(|time| time.to_string()),
        "mem" => options::mem(resources).map(|mem| mem.to_string()),
        "cpus-per-task" => options::cpus(resources).map(|cpus| cpus.to_string()),
        _ => resources
            .named()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value),
    }
}

fn is_same(name: &str, one: &str, other: &str) -> bool {
    let mem = |text| Some(MemSize::parse(text).ok()?.megabytes());
    let time = |text| Some(TimeLimit::parse(text).ok()?.seconds());
    match name {
        "mem" if mem(one).is_some() => mem(one) == mem(other),
        "time" if time(one).is_some() => time(one) == time(other),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
