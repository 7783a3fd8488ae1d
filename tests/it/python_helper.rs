//! The Python package that comes with the wheel: `python/snbb_scheduler`, with this program on `PATH`.
//! It is not tested where there is no Python with pandas and polars (`scripts/python-env`).
#![expect(
    clippy::disallowed_methods,
    reason = "starts Python, and reads the documentation's examples"
)]

use std::path::Path;
use std::process::Command;

use super::fake_slurm::FakeSlurm;
use super::harness::Study;
use super::python::python;
use super::repair::eventful;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn helped(python: &Path) -> Command {
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let mut command = Command::new(python);
    command
        .env("PATH", path)
        .env("PYTHONPATH", Path::new(ROOT).join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SNBB_TEST_ENGINES", "pandas polars")
        .env_remove("SNBB_CONFIG");
    command
}

fn succeeds(command: &mut Command, what: &str) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{what}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn its_own_tests_pass() {
    let Some(python) = python() else { return };
    let script = Path::new(ROOT).join("python/tests/test_helper.py");
    succeeds(
        helped(python)
            .args(["-W", "error::DeprecationWarning"])
            .arg(script),
        "test_helper.py",
    );
}

#[test]
fn its_types_hold() {
    let Some(python) = python() else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut command = helped(python);
    command
        .args(["-m", "mypy", "--strict", "--cache-dir"])
        .arg(cache.path())
        .args(["python/snbb_scheduler", "python/tests/typed.py"])
        .env("MYPYPATH", "python")
        .current_dir(ROOT);
    succeeds(&mut command, "mypy");
}

/// The recipes of `docs/python.md` run as they stand there, one after the other, in the
/// configuration's directory.
#[test]
fn the_recipes_of_the_documentation_run() {
    let Some(python) = python() else { return };
    let (study, _slurm) = eventful();
    let recipes = std::fs::read_to_string("docs/python.md").unwrap();
    let recipes: Vec<&str> = recipes
        .split("```python\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(recipes.len() >= 5, "{}", recipes.len());
    let mut command = helped(python);
    command
        .args(["-W", "error::DeprecationWarning", "-c"])
        .arg(recipes.join("\n"))
        .current_dir(study.dir.path());
    succeeds(&mut command, "docs/python.md");
}

/// What the README says in Python, with a table of this program.
#[test]
fn state_path_says_where_the_files_are() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure("log_file: logs/events.jsonl\n");
    let said = study.ok(&["state", "path", "--format", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    let path = |file: &str| {
        let row = rows.iter().find(|row| row["file"] == file).unwrap();
        row["path"].as_str().unwrap().to_owned()
    };
    for (file, expected) in [
        ("state", "state.parquet"),
        ("attempts", "state.attempts.parquet"),
        ("audit", "logs/events.jsonl"),
        ("journal", "state.journal.jsonl"),
        ("arrays", "state.arrays"),
    ] {
        assert_eq!(path(file), study.at(expected).to_str().unwrap());
        let one = study.ok(&["state", "path", file]).out;
        assert_eq!(one, format!("{}\n", path(file)));
    }
    assert_eq!(rows.len(), 10);
    // Nothing is made by asking.
    assert!(!study.at("state.parquet").exists() && !study.at("state.lock").exists());
    let said = study.call(&["state", "path", "stat"]);
    assert!(said.code == 2 && said.err.contains("state"), "{}", said.err);
}

/// Bytes of a name that is not UTF-8 come out as they are.
#[test]
fn state_path_of_any_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    let study = Study::new();
    let odd = study.at("").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    // The state may lie anywhere; the roots, of which jobs are told as text, may not.
    let mut config = study.read("config.yaml");
    for root in ["dicom", "bids", "derivatives"] {
        let path = study.at(root).display().to_string();
        config = config.replace(
            &format!("{root}_root: {root}\n"),
            &format!("{root}_root: {path}\n"),
        );
    }
    std::fs::write(odd.join("config.yaml"), config).unwrap();
    let output = study
        .program()
        .args(["state", "path", "state", "--config"])
        .arg(odd.join("config.yaml"))
        .output()
        .unwrap();
    let mut expected = odd.join("state.parquet").as_os_str().as_bytes().to_vec();
    expected.push(b'\n');
    assert_eq!(output.stdout, expected);
}
