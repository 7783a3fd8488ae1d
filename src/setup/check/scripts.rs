//! Checks job scripts: Slurm (or the local executor) accepts them, and their `#SBATCH` lines agree with the
//! configuration.

mod header;
mod needs;

use std::ffi::OsStr;
use std::path::Path;

use super::{Findings, Level, Site, few};
use crate::base::sys;
use crate::executor::script;
use crate::executor::script::{Script, ScriptError};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Procedure;
use crate::setup::place;

const TOPIC: &str = "script";
/// Remedy for DOS line breaks.
pub(super) const DOS: &str = "convert the script: dos2unix, or sed -i 's/\\r$//'";

pub(super) fn check(site: &Site, findings: &mut Findings) {
    for procedure in site.procedures() {
        findings.about(TOPIC, &procedure.name);
        match site.find_script(&procedure.script) {
            Ok(path) => judge(&site.config, procedure, &path, findings),
            Err(error) => findings.error(error.to_string(), error.hint().unwrap_or_default()),
        }
    }
}

fn judge(config: &Config, procedure: &Procedure, path: &Path, findings: &mut Findings) {
    let shown = path.display();
    if place::mode(path).is_some_and(|mode| mode & 0o002 != 0) {
        findings.warning(
            format!("every user of the machine can change {shown}, and it runs as this user"),
            format!("run chmod o-w {shown}"),
        );
    }
    match Script::read(path) {
        Ok(script) => {
            missing_files(config, procedure, path, &script, findings);
            if config.executor == ExecutorKind::Slurm {
                directives(config, procedure, path, &script.text, findings);
            }
        }
        Err(error) => findings.error(error.to_string(), remedy(&error)),
    }
    findings.or_ok(format!("{shown} is a job script"));
}

fn remedy(error: &ScriptError) -> &'static str {
    match error {
        ScriptError::Read { .. } => "give the user who runs this command permission to read it",
        ScriptError::TooLarge(_) => {
            "Slurm does not accept larger scripts; move programs and data to separate files"
        }
        ScriptError::NoInterpreter(_) => {
            "start it with a line such as #!/bin/bash, with nothing before it"
        }
        ScriptError::DosLineBreaks(_) => DOS,
    }
}

/// Reports the interpreter, images and licences that a script needs and this machine does not have.
fn missing_files(
    config: &Config,
    procedure: &Procedure,
    path: &Path,
    script: &Script,
    findings: &mut Findings,
) {
    let search = sys::env("PATH");
    let is_missing = |name: &&str| !is_on_path(name, search.as_deref());
    let (program, started) = programs(&script.interpreter);
    let program = program.filter(is_missing).map(str::to_owned);
    let interpreter = program.or_else(|| Some(format!("env {}", started.filter(is_missing)?)));
    let has_interpreter = interpreter.is_none();
    let interpreter = interpreter.map(|name| format!("interpreter {name}"));
    let variable = |name: &str| {
        let of_caller = || Some(sys::env(name)?.to_string_lossy().into_owned());
        procedure.env.get(name).cloned().or_else(of_caller)
    };
    let files = needs::files(&String::from_utf8_lossy(&script.text), &variable).into_iter();
    let files = files.filter(|(_, path)| !place::is_there(path));
    let files = files.map(|(variable, path)| format!("{} ({variable})", path.display()));
    let missing: Vec<String> = interpreter.into_iter().chain(files).collect();
    if missing.is_empty() {
        return;
    }
    // Compute nodes may have what this machine lacks; the local executor runs here.
    let (level, otherwise) = match (config.executor, has_interpreter) {
        (ExecutorKind::Slurm, _) => (
            Level::Warning,
            "nothing if the compute nodes have it; otherwise",
        ),
        (ExecutorKind::Local, false) => (Level::Error, "install it, or"),
        (ExecutorKind::Local, true) => (Level::Warning, "install it, or"),
    };
    let (path, missing) = (path.display(), few(&missing));
    findings.add(
        level,
        format!("{path} requires {missing}, which this machine does not have"),
        format!("{otherwise} correct the script, or set its variables in the procedure's `env`"),
    );
}

fn is_on_path(name: &str, path: Option<&OsStr>) -> bool {
    let is_program = |path: &Path| place::is_program(path) == Ok(true);
    let mut dirs = path.into_iter().flat_map(std::env::split_paths);
    match name.contains('/') {
        true => is_program(Path::new(name)),
        false => dirs.any(|dir| is_program(&dir.join(name))),
    }
}

/// Checks the `#SBATCH` lines.
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
    if !ignored.is_empty() {
        let ignored = few(&ignored);
        findings.warning(
            format!("Slurm ignores #SBATCH lines of {shown}, because they are indented or after the first command: {ignored}"),
            "move them to the top of the script, right below the #! line",
        );
    }
    let options = script::options(text);
    header::compare(config, procedure, path, &options, findings);
    header::memory(&procedure.resources, path, &options, findings);
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

#[cfg(test)]
mod tests {
    use super::super::{Finding, testing};
    use super::*;

    /// Findings about a script of a procedure in this configuration.
    fn judged(config: &str, script: &[u8], mode: u32) -> Vec<Finding> {
        use std::os::unix::fs::PermissionsExt as _;
        let config = testing::procedure(config, "");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prep.sh");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let (_, procedure) = config.procedures.iter().next().unwrap();
        testing::judged(|out| judge(&config, procedure, &path, out.about(TOPIC, "prep")))
    }

    #[test]
    fn a_good_script_is_one_line() {
        for (config, script) in [
            ("", "#!/bin/sh\n#SBATCH --mem=1G\ntrue\n"),
            ("executor: local\n", "#!/bin/sh\ntrue\n#SBATCH --wait\n"),
        ] {
            let findings = judged(config, script.as_bytes(), 0o644);
            assert_eq!(findings.len(), 1, "{findings:#?}");
            assert_eq!(findings[0].level, Level::Ok);
            assert!(findings[0].text.contains("prep.sh"), "{findings:#?}");
        }
    }

    #[test]
    fn each_problem_is_a_finding() {
        let local = "executor: local\n";
        let large = [b"#!/bin/sh\n".to_vec(), vec![b'#'; 4 << 20]].concat();
        for (config, script, mode, level, part) in [
            (
                "",
                &b"true\n"[..],
                0o644,
                Level::Error,
                "does not begin with '#!'",
            ),
            ("", b"#!/bin/sh\r\n", 0o644, Level::Error, "DOS line breaks"),
            ("", &large, 0o644, Level::Error, "larger than"),
            (
                "",
                b"#!/bin/sh\n#SBATCH --wait\n",
                0o644,
                Level::Error,
                "'#SBATCH --wait' in line 2",
            ),
            (
                "",
                b"#!/bin/sh\nmodule load x\n#SBATCH --mem=64G\n",
                0o644,
                Level::Warning,
                "line 3: #SBATCH --mem=64G",
            ),
            ("", b"#!/no/zsh\n", 0o644, Level::Warning, "/no/zsh"),
            (local, b"#!/no/zsh\n", 0o644, Level::Error, "/no/zsh"),
            (
                local,
                b"#!/bin/sh\nIMAGE=/no/x.sif\n",
                0o644,
                Level::Warning,
                "/no/x.sif (IMAGE)",
            ),
            ("", b"#!/bin/sh\n", 0o666, Level::Warning, "every user"),
        ] {
            let findings = judged(config, script, mode);
            testing::one(&findings, level, part);
            assert_eq!(findings.len(), 1);
        }
        let config = testing::procedure("", "");
        let (_, procedure) = config.procedures.iter().next().unwrap();
        let findings = testing::judged(|out| judge(&config, procedure, Path::new("/no"), out));
        testing::one(&findings, Level::Error, "cannot read script");
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
