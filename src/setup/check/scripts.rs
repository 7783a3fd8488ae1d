//! Job scripts: would Slurm (or the local executor) take them, and do their `#SBATCH` lines say what the
//! configuration says.

mod header;
mod needs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Findings, Level, Site, few};
use crate::base::sys;
use crate::executor::script;
use crate::executor::script::{Script, ScriptError};
use crate::model::job::ExecutorKind;
use crate::model::procedure::{ArrayMode, Procedure, Resources};
use crate::setup::place;

const TOPIC: &str = "script";
/// What to do about DOS line breaks.
pub const DOS: &str = "convert the script: dos2unix, or sed -i 's/\\r$//'";

/// What is known of the script of one procedure.
pub struct Facts<'a> {
    pub procedure: &'a str,
    /// Where it is, or why it was not found and the way out.
    place: Result<PathBuf, (String, String)>,
    /// What stands in it; an error says why it cannot be read or is no script.
    text: Option<Result<Vec<u8>, ScriptError>>,
    /// Permission bits.
    mode: Option<u32>,
    /// What it needs and this machine does not have: its interpreter, images, licences.
    missing: Vec<String>,
    /// The interpreter is among them.
    has_no_interpreter: bool,
    executor: ExecutorKind,
    pub resources: &'a Resources,
    pub has_log_dir: bool,
    pub array: ArrayMode,
}

pub fn check(site: &Site, findings: &mut Findings) {
    let path = sys::env("PATH");
    for procedure in site.procedures() {
        judge(&gather(site, procedure, path.as_ref()), findings);
    }
}

fn gather<'a>(site: &Site, procedure: &'a Procedure, path: Option<&OsString>) -> Facts<'a> {
    let place = site.find_script(&procedure.script);
    let place = place.map_err(|error| (error.to_string(), error.hint().unwrap_or_default()));
    let mut facts = Facts {
        procedure: &procedure.name,
        mode: place.as_ref().ok().and_then(|file| place::mode(file)),
        place,
        text: None,
        missing: Vec::new(),
        has_no_interpreter: false,
        executor: site.config.executor,
        resources: &procedure.resources,
        has_log_dir: site.config.slurm.log_dir.is_some(),
        array: procedure.rules.array,
    };
    let Ok(file) = &facts.place else {
        return facts;
    };
    let read = Script::read(file);
    if let Ok(script) = &read {
        let seen = |name: &str| {
            let of_caller = || Some(sys::env(name)?.to_string_lossy().into_owned());
            procedure.env.get(name).cloned().or_else(of_caller)
        };
        let is_missing = |name: &&str| !is_on_path(name, path);
        let (program, started) = programs(&script.interpreter);
        let program = program.filter(is_missing).map(str::to_owned);
        let interpreter = program.or_else(|| Some(format!("env {}", started.filter(is_missing)?)));
        facts.has_no_interpreter = interpreter.is_some();
        let interpreter = interpreter.map(|name| format!("interpreter {name}"));
        let files = needs::files(&String::from_utf8_lossy(&script.text), &seen).into_iter();
        let files = files.filter(|(_, path)| !place::is_there(path));
        let files = files.map(|(variable, path)| format!("{} ({variable})", path.display()));
        facts.missing = interpreter.into_iter().chain(files).collect();
    }
    facts.text = Some(read.map(|script| script.text));
    facts
}

fn is_on_path(name: &str, path: Option<&OsString>) -> bool {
    let is_there = |path: &Path| place::is_program(path) == Ok(true);
    let mut dirs = path.into_iter().flat_map(std::env::split_paths);
    match name.contains('/') {
        true => is_there(Path::new(name)),
        false => dirs.any(|dir| is_there(&dir.join(name))),
    }
}

fn judge(facts: &Facts<'_>, findings: &mut Findings) {
    findings.about(TOPIC, facts.procedure);
    let path = match &facts.place {
        Ok(path) => path,
        Err((message, hint)) => {
            findings.error(message, hint);
            return;
        }
    };
    let shown = path.display();
    if facts.mode.is_some_and(|mode| mode & 0o002 != 0) {
        findings.warning(
            format!("{shown} can be changed by every user of the machine, and runs as this one"),
            format!("chmod o-w {shown}"),
        );
    }
    match &facts.text {
        None => {}
        Some(Err(error)) => findings.error(error.to_string(), way_out(error)),
        Some(Ok(text)) => content(facts, path, text, findings),
    }
    findings.or_ok(format!("{shown} is a job script"));
}

fn way_out(error: &ScriptError) -> &'static str {
    match error {
        ScriptError::Read { .. } => "the user who runs this needs read permission on it",
        ScriptError::TooLarge(_) => {
            "Slurm takes no larger one; keep programs and data in files of their own"
        }
        ScriptError::NoInterpreter(_) => {
            "begin it with a line such as #!/bin/bash, without anything before it"
        }
        ScriptError::DosLineBreaks(_) => DOS,
    }
}

fn content(facts: &Facts<'_>, path: &Path, text: &[u8], findings: &mut Findings) {
    let shown = path.display();
    let is_slurm = facts.executor == ExecutorKind::Slurm;
    if !facts.missing.is_empty() {
        let missing = few(&facts.missing);
        // Who sees what this machine sees cannot start it.
        let (level, otherwise) = match (is_slurm, facts.has_no_interpreter) {
            (true, _) => (
                Level::Warning,
                "nothing if the compute nodes have it; otherwise",
            ),
            (false, true) => (Level::Error, "install it, or"),
            (false, false) => (Level::Warning, "install it, or"),
        };
        findings.add(
            level,
            format!("{shown} needs what is not on this machine: {missing}"),
            format!(
                "{otherwise} correct the script, or set its variables in the procedure's `env`"
            ),
        );
    }
    if !is_slurm {
        return;
    }
    if let Some(unfit) = script::header::unfit(text) {
        let (option, line) = (unfit.option, unfit.line);
        findings.error(
            format!(
                "{shown} has '#SBATCH {option}' in line {line}: {}",
                unfit.why
            ),
            format!(
                "take it out of line {line}; nothing of this procedure is submitted until then"
            ),
        );
    }
    let ignored = script::ignored_directives(text).into_iter();
    let ignored: Vec<String> = ignored
        .map(|(line, text)| format!("line {line}: {text}"))
        .collect();
    if !ignored.is_empty() {
        let ignored = few(&ignored);
        findings.warning(
            format!("{shown} has #SBATCH lines that Slurm ignores, after the first command or indented: {ignored}"),
            "move them to the top of the script, right below the #! line",
        );
    }
    let asked = script::header::options(text);
    header::judge(facts, path, &asked, findings);
    header::memory(facts, path, &asked, findings);
}

/// Returns the programs of a `#!` line that must be there: the interpreter, and what `env` is to start.
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

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    pub(super) fn facts(text: Result<&[u8], ScriptError>) -> Facts<'static> {
        static RESOURCES: std::sync::LazyLock<Resources> =
            std::sync::LazyLock::new(Resources::default);
        Facts {
            procedure: "prep",
            place: Ok("/s/prep.sh".into()),
            text: Some(text.map(<[u8]>::to_vec)),
            mode: Some(0o644),
            missing: Vec::new(),
            has_no_interpreter: false,
            executor: ExecutorKind::Slurm,
            resources: &RESOURCES,
            has_log_dir: true,
            array: ArrayMode::Never,
        }
    }

    fn one(facts: &Facts<'_>, level: Level, part: &str) {
        let findings = testing::judged(|out| judge(facts, out));
        if level == Level::Ok {
            assert!(testing::trouble(&findings).is_empty(), "{findings:#?}");
            assert!(findings[0].text.contains(part), "{findings:#?}");
        } else {
            testing::one(&findings, level, part);
        }
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn a_script_without_trouble_is_one_line() {
        one(
            &facts(Ok(b"#!/bin/bash\n#SBATCH --mem=1G\ntrue\n")),
            Level::Ok,
            "/s/prep.sh",
        );
        let text = b"#!/bin/bash\ntrue\n#SBATCH --wait\n";
        let local = Facts {
            executor: ExecutorKind::Local,
            ..facts(Ok(text))
        };
        one(&local, Level::Ok, "");
    }

    #[test]
    fn each_trouble_is_a_finding() {
        let path = || PathBuf::from("/s/prep.sh");
        let good: &[u8] = b"#!/bin/bash\n";
        let missing = Facts {
            place: Err((
                "script 'prep.sh' was not found".into(),
                "set script_dir".into(),
            )),
            ..facts(Ok(good))
        };
        one(&missing, Level::Error, "not found");
        for (error, part) in [
            (
                ScriptError::NoInterpreter(path()),
                "does not begin with '#!'",
            ),
            (ScriptError::DosLineBreaks(path()), "DOS line breaks"),
            (ScriptError::TooLarge(path()), "larger than"),
            (
                ScriptError::Read {
                    path: path(),
                    source: std::io::ErrorKind::PermissionDenied.into(),
                },
                "cannot read script",
            ),
        ] {
            one(&facts(Err(error)), Level::Error, part);
        }
        one(
            &facts(Ok(b"#!/bin/bash\n#SBATCH --wait\n")),
            Level::Error,
            "'#SBATCH --wait' in line 2",
        );
        one(
            &facts(Ok(b"#!/bin/bash\nmodule load x\n#SBATCH --mem=64G\n")),
            Level::Warning,
            "line 3: #SBATCH --mem=64G",
        );
        for (executor, level) in [
            (ExecutorKind::Slurm, Level::Warning),
            (ExecutorKind::Local, Level::Error),
        ] {
            let zsh = Facts {
                missing: vec!["interpreter /bin/zsh".to_owned()],
                has_no_interpreter: true,
                executor,
                ..facts(Ok(good))
            };
            one(&zsh, level, "/bin/zsh");
        }
        let needy = Facts {
            missing: vec!["/x.sif (IMAGE)".to_owned()],
            ..facts(Ok(good))
        };
        one(&needy, Level::Warning, "/x.sif (IMAGE)");
        let open = Facts {
            mode: Some(0o777),
            ..facts(Ok(good))
        };
        one(&open, Level::Warning, "every user");
    }

    #[test]
    fn the_programs_of_the_first_line_are_found() {
        let words = |line: &[&str]| line.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        for (line, expected) in [
            (&["/bin/bash"][..], (Some("/bin/bash"), None)),
            (&["/bin/bash", "-e"], (Some("/bin/bash"), None)),
            (
                &["/usr/bin/env", "python3"],
                (Some("/usr/bin/env"), Some("python3")),
            ),
            (
                &["/usr/bin/env", "-S LC_ALL=C bash -e"],
                (Some("/usr/bin/env"), Some("bash")),
            ),
            (&["/usr/bin/env"], (Some("/usr/bin/env"), None)),
            (&[], (None, None)),
        ] {
            let line = words(line);
            let found = programs(&line);
            assert_eq!(found, expected);
        }
    }
}
