//! Job scripts: would Slurm (or the local executor) take them, and do their `#SBATCH` lines say what the
//! configuration says. Pure.

mod header;
pub mod imports;
pub mod needs;

use std::path::{Path, PathBuf};

use super::{Finding, few};
use crate::executor::script;
use crate::executor::script::ScriptError;
use crate::model::job::ExecutorKind;
use crate::model::procedure::{ArrayMode, Resources};

const TOPIC: &str = "script";
/// What to do about DOS line breaks.
pub const DOS: &str = "convert the script: dos2unix, or sed -i 's/\\r$//'";
/// Byte order mark of UTF-8: an editor's, and no beginning of `#!`.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Holds what is known of the script of one procedure.
pub struct Facts<'a> {
    pub procedure: &'a str,
    /// Where it is, or why it was not found and the way out.
    pub place: Result<PathBuf, (String, String)>,
    /// It was found on `PATH` only, in a directory that cron's `PATH` does not have.
    pub by_path_only: bool,
    /// What stands in it; an error says why it cannot be read or is no script.
    pub text: Option<Result<Vec<u8>, ScriptError>>,
    /// It begins with UTF-8's byte order mark, which hides the `#!`.
    pub byte_order_mark: bool,
    /// Permission bits.
    pub mode: Option<u32>,
    /// The interpreter of its `#!` line that is not there: `/bin/zsh`, `env: python3`.
    pub missing_interpreter: Option<String>,
    /// Python files that it names, and what is in them.
    pub helpers: Vec<(PathBuf, Vec<u8>)>,
    /// The program comes from a wheel, whose Python package has replaced the Python program.
    pub is_wheel: bool,
    /// What it needs and this machine does not have: runtimes of containers, images, licences.
    pub missing: Vec<String>,
    pub executor: ExecutorKind,
    pub resources: &'a Resources,
    pub has_log_dir: bool,
    pub array: ArrayMode,
}

/// Judges one script.
pub fn judge(facts: &Facts<'_>) -> Vec<Finding> {
    let about = facts.procedure;
    let path = match &facts.place {
        Ok(path) => path,
        Err((message, hint)) => return vec![Finding::error(TOPIC, about, message, hint)],
    };
    let shown = path.display();
    let mut findings = Vec::new();
    if facts.by_path_only {
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!("{shown} is found by PATH only, and cron's PATH is shorter"),
            "set script_dir to its directory, or give the script's absolute path",
        ));
    }
    if facts.mode.is_some_and(|mode| mode & 0o002 != 0) {
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!("{shown} can be changed by every user of the machine, and runs as this one"),
            format!("chmod o-w {shown}"),
        ));
    }
    match &facts.text {
        None => {}
        Some(Err(_)) if facts.byte_order_mark => findings.push(Finding::error(
            TOPIC,
            about,
            format!("{shown} begins with a byte order mark, so that its '#!' is not seen"),
            "save it as UTF-8 without a byte order mark (sed -i '1s/^\\xef\\xbb\\xbf//')",
        )),
        Some(Err(error)) => findings.push(Finding::error(
            TOPIC,
            about,
            error.to_string(),
            way_out(error),
        )),
        Some(Ok(text)) => content(facts, path, text, &mut findings),
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            TOPIC,
            about,
            format!("{shown} is a job script"),
        ));
    }
    findings
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

fn content(facts: &Facts<'_>, path: &Path, text: &[u8], findings: &mut Vec<Finding>) {
    let about = facts.procedure;
    let shown = path.display();
    let is_slurm = facts.executor == ExecutorKind::Slurm;
    if let Some(interpreter) = &facts.missing_interpreter {
        let message =
            format!("{shown} asks for the interpreter {interpreter}, which is not on this machine");
        findings.push(if is_slurm {
            let advice =
                "nothing if the compute nodes have it; otherwise correct the script's first line";
            Finding::warning(TOPIC, about, message, advice)
        } else {
            Finding::error(
                TOPIC,
                about,
                message,
                "install it, or correct the script's first line",
            )
        });
    }
    if !facts.missing.is_empty() {
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!(
                "{shown} needs what is not on this machine: {}",
                few(&facts.missing)
            ),
            if is_slurm {
                "nothing if the compute nodes have it; otherwise set the variables in the procedure's `env`"
            } else {
                "install it, or set the variables in the procedure's `env`"
            },
        ));
    }
    if let Err(error) = std::str::from_utf8(text) {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!("{shown} is not UTF-8 in line {line}"),
            "save it as UTF-8; names in another encoding are not found by all programs",
        ));
    }
    let files = facts.helpers.iter().map(|(path, text)| (&**path, &**text));
    for (path, text) in std::iter::once((path, text)).chain(files) {
        findings.extend(imports::judge(facts, path, text));
    }
    if !is_slurm {
        return;
    }
    if let Some(unfit) = script::header::unfit(text) {
        findings.push(Finding::error(
            TOPIC,
            about,
            format!(
                "{shown} has '#SBATCH {}' in line {}: {}",
                unfit.option, unfit.line, unfit.why
            ),
            format!(
                "take it out of line {}; nothing of this procedure is submitted until then",
                unfit.line
            ),
        ));
    }
    let ignored: Vec<String> = script::ignored_directives(text)
        .into_iter()
        .map(|(line, text)| format!("line {line}: {text}"))
        .collect();
    if !ignored.is_empty() {
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!(
                "{shown} has #SBATCH lines that Slurm ignores, after the first command or indented: {}",
                few(&ignored)
            ),
            "move them to the top of the script, right below the #! line",
        ));
    }
    let asked = script::header::options(text);
    header::judge(facts, path, &asked, findings);
    header::memory(facts, path, &asked, findings);
}

/// Returns the programs of a `#!` line that must be there: the interpreter, and what `env` is to start.
pub fn programs(interpreter: &[String]) -> (Option<&str>, Option<&str>) {
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
    use super::super::Level;
    use super::*;

    fn facts(text: Result<&[u8], ScriptError>) -> Facts<'static> {
        static RESOURCES: std::sync::LazyLock<Resources> =
            std::sync::LazyLock::new(Resources::default);
        Facts {
            procedure: "prep",
            place: Ok("/s/prep.sh".into()),
            by_path_only: false,
            text: Some(text.map(<[u8]>::to_vec)),
            byte_order_mark: false,
            mode: Some(0o644),
            missing_interpreter: None,
            helpers: Vec::new(),
            is_wheel: true,
            missing: Vec::new(),
            executor: ExecutorKind::Slurm,
            resources: &RESOURCES,
            has_log_dir: true,
            array: ArrayMode::Never,
        }
    }

    fn one(facts: &Facts<'_>, level: Level, part: &str) {
        let findings = judge(facts);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].level, level, "{findings:#?}");
        assert!(findings[0].text.contains(part), "{part}: {findings:#?}");
        assert_eq!(findings[0].advice.is_none(), level == Level::Ok);
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
        one(
            &facts(Ok(b"#!/bin/bash\n# caf\xe9\n")),
            Level::Warning,
            "not UTF-8 in line 2",
        );
        for (executor, level) in [
            (ExecutorKind::Slurm, Level::Warning),
            (ExecutorKind::Local, Level::Error),
        ] {
            let zsh = Facts {
                missing_interpreter: Some("/bin/zsh".to_owned()),
                executor,
                ..facts(Ok(good))
            };
            one(&zsh, level, "/bin/zsh");
        }
        let marked = Facts {
            byte_order_mark: true,
            ..facts(Err(ScriptError::NoInterpreter(path())))
        };
        one(&marked, Level::Error, "byte order mark");
        let needy = Facts {
            missing: vec!["apptainer (not on PATH)".to_owned()],
            ..facts(Ok(good))
        };
        one(&needy, Level::Warning, "apptainer (not on PATH)");
        let by_path = Facts {
            by_path_only: true,
            ..facts(Ok(good))
        };
        one(&by_path, Level::Warning, "by PATH only");
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
