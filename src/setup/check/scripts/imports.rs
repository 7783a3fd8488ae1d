//! Job scripts that import modules of the earlier Python program, which our wheel replaces.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::setup::check::Findings;

/// Modules of that program which our Python package does not have. It has `freesurfer`, which job scripts used.
const GONE: [&str; 12] = [
    "audit",
    "auditor",
    "checks",
    "cli",
    "config",
    "log_analyzer",
    "manifest",
    "monitor",
    "report",
    "rules",
    "sessions",
    "submit",
];
const PACKAGE: &str = "snbb_scheduler";

/// Reads the Python files that a script names: at the path itself, or beside the script (`$DIR/helper.py`).
pub fn helpers(script: &Path, text: &[u8]) -> Vec<(PathBuf, Vec<u8>)> {
    let is_small = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata.is_ok_and(|file| file.is_file() && file.len() < 1 << 20)
    };
    let files = named(script, text).into_iter().filter(is_small);
    let read = files.map(|path| Some((path.clone(), std::fs::read(&path).ok()?)));
    read.flatten().collect()
}

fn named(script: &Path, text: &[u8]) -> BTreeSet<PathBuf> {
    let text = String::from_utf8_lossy(text);
    let words = text.split(|c: char| !c.is_alphanumeric() && !"/._-+~".contains(c));
    let words = words.map(Path::new);
    let files = words.filter(|word| word.extension().is_some_and(|end| end == "py"));
    let places = files.flat_map(|file| {
        let beside = script.parent().zip(file.file_name());
        let beside = beside.map(|(dir, name)| dir.join(name));
        [file.is_absolute().then(|| file.to_owned()), beside]
    });
    places.flatten().collect()
}

/// Judges a script or one of its helpers.
pub fn judge(path: &Path, text: &[u8], findings: &mut Findings) {
    let text = String::from_utf8_lossy(text);
    let mut lines = (1..).zip(text.lines());
    if let Some((line, module)) = lines.find_map(|(line, text)| Some((line, gone(text)?))) {
        let path = path.display();
        findings.warning(
            format!("{path} imports {PACKAGE}.{module} in line {line}, a module of the earlier Python program"),
            "nothing if the script's Python still has that program (this program's wheel replaces it); otherwise take \
             the import out",
        );
    }
}

/// The module that a line imports, if we do not have it.
fn gone(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
        .filter(|word| !word.is_empty())
        .collect();
    let imports = words.iter().any(|word| ["import", "m"].contains(word));
    if !imports || line.trim_start().starts_with('#') {
        return None;
    }
    let names_package = words.windows(2).any(|pair| pair == ["from", PACKAGE]);
    GONE.into_iter().find(|module| {
        words.iter().any(|word| {
            let name = word
                .strip_prefix(PACKAGE)
                .and_then(|rest| rest.strip_prefix('.'));
            name == Some(*module) || names_package && word == module
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c3_imports_of_what_is_gone_are_found() {
        for (line, module) in [
            (
                "from snbb_scheduler.config import SchedulerConfig",
                Some("config"),
            ),
            ("    import snbb_scheduler.manifest as m", Some("manifest")),
            ("from snbb_scheduler import rules, checks", Some("checks")),
            ("python3 -m snbb_scheduler.cli run", Some("cli")),
            (
                "python3 -c 'from snbb_scheduler.audit import x'",
                Some("audit"),
            ),
            ("from snbb_scheduler.freesurfer import main", None),
            ("import snbb_scheduler as snbb", None),
            ("# from snbb_scheduler.config import x", None),
            ("/data/snbb_scheduler/config.yaml --import config", None),
        ] {
            assert_eq!(gone(line), module, "{line}");
        }
    }

    #[test]
    fn c3_helpers_are_the_python_files_that_a_script_names() {
        let text = b"python3 \"/opt/a/one.py\" x\npython3 ${DIR}/two.py; python3 $(dirname $0)/x/three.py\n";
        let found = named(Path::new("/s/job.sh"), text);
        for path in ["/opt/a/one.py", "/s/one.py", "/s/two.py", "/s/three.py"] {
            assert!(found.contains(Path::new(path)), "{path}: {found:?}");
        }
    }
}
