//! The README and the book are true: every command in them runs, every link leads somewhere, every piece of
//! configuration is one.
//!
//! A page says by a comment in its first lines which study its commands find: `<!-- study: slurm -->` (the
//! default: a study of two subjects and a Slurm of shell scripts), `local` (the same with child processes) or
//! `empty` (an empty directory). A fence can say why its commands cannot run here (`console needs-mail`); how
//! many there are of that kind stands in [`NOT_RUN`], so that no page leaves by itself.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the commands of the documentation in a shell"
)]

pub mod blocks;
mod links;
mod pieces;
mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocks::{Block, blocks, commands, cron_command, pages};

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How many blocks of a page do not run, each with its reason in its fence.
const NOT_RUN: &[(&str, usize)] = &[
    ("docs/cron.md", 1),
    ("docs/install.md", 4),
    ("docs/python.md", 1),
];

/// Why a block may not run.
const REASONS: [&str; 5] = [
    "needs-mail",
    "needs-network",
    "needs-root",
    "needs-cluster",
    "takes-minutes",
];

const STEPS: &str = "\
output_grace: 0s
audit: {report_dir: reports}
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: 'anat/*_T1w.nii.gz'}
  - {name: mriqc, output_dir: mriqc, script: job.sh, depends_on: [bids], completion_marker: '*.html'}
  - {name: qsiprep, output_dir: qsiprep, script: job.sh, depends_on: [bids], completion_marker: '*.html'}
";

/// Makes the study that a page's commands find.
fn study(kind: &str) -> Study {
    let mut study = Study::new();
    if kind == "empty" {
        for entry in ["dicom", "bids", "derivatives", "logs"] {
            fs::remove_dir(study.at(entry)).unwrap();
        }
        fs::remove_file(study.at("config.yaml")).unwrap();
        return study;
    }
    // What is looked at has happened: some tasks are complete, one has failed, one runs.
    study.scan(&["sub-0001/ses-01", "sub-0001/ses-02", "sub-0002/ses-01"]);
    study.script("job.sh", "mkdir -p \"$SNBB_OUTPUT_DIR/anat\"\ntouch \"$SNBB_OUTPUT_DIR/x.html\"\necho x > \"$SNBB_OUTPUT_DIR/anat/x_T1w.nii.gz\"");
    for session in ["ses-01", "ses-02"] {
        study.write(&format!("bids/sub-0001/{session}/anat/x_T1w.nii.gz"), "x");
    }
    match kind {
        "local" => {
            study.configure(&format!("executor: local\n{STEPS}"));
            study.ok(&["run"]);
            study.ok(&["wait", "--interval", "1s"]);
        }
        "slurm" => {
            let slurm = FakeSlurm::new(&mut study);
            study.configure(STEPS);
            study.ok(&["run"]);
            for (job, name) in slurm.jobs() {
                match name.as_str() {
                    "qsiprep_sub-0001_ses-01" => slurm.set(&job, "COMPLETED"),
                    "qsiprep_sub-0001_ses-02" => slurm.set(&job, "FAILED 1:0"),
                    _ => slurm.set(&job, "RUNNING"),
                }
            }
            study.write("derivatives/qsiprep/sub-0001/ses-01/x.html", "x");
            study.ok(&["monitor"]);
        }
        other => panic!("no study is called '{other}'"),
    }
    for dir in ["www", "backup", "reports"] {
        fs::create_dir(study.at(dir)).unwrap();
    }
    study
}

/// Programs of the reader's that a test machine does not have, or that would ask the network.
fn stand_ins(study: &mut Study) {
    let bin = study.at(".bin");
    fs::create_dir(&bin).unwrap();
    for name in ["datalad", "rsync", "curl"] {
        fs::write(bin.join(name), "#!/bin/sh\n[ -t 0 ] || cat > /dev/null\n").unwrap();
        executable(&bin.join(name));
    }
    if let Some(python) = crate::python::python() {
        fs::write(
            bin.join("python3"),
            format!("#!/bin/sh\nexec {} \"$@\"\n", python.display()),
        )
        .unwrap();
        executable(&bin.join("python3"));
    }
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    study.path.insert(0, program.parent().unwrap().to_owned());
    study.path.insert(0, bin);
}

/// Names what a command needs and this machine does not have.
fn lacking(command: &str) -> Option<&'static str> {
    if command.contains("pandas") && crate::python::python().is_none() {
        return Some("pandas");
    }
    let mut words = command.split([' ', '|', '(']);
    let is_there = |tool: &str| {
        ["/usr/bin", "/bin"]
            .iter()
            .any(|dir| Path::new(dir).join(tool).is_file())
    };
    words.find_map(|word| {
        ["man", "jq", "tar", "xargs"]
            .into_iter()
            .find(|tool| *tool == word && !is_there(tool))
    })
}

/// Runs a script in a study, as a person would type it, and expects that nothing fails.
fn run(study: &Study, page: &str, script: &str) {
    let here = study.dir.path().to_str().unwrap();
    let script = script
        .replace("/data/study", here)
        .replace("/data/snbb", here)
        .replace("/data/", &format!("{here}/"))
        .replace("store:/", &format!("{here}/"));
    let mut path: Vec<PathBuf> = study.path.clone();
    path.extend(["/usr/bin".into(), "/bin".into()]);
    let output = Command::new("bash")
        .args([
            "-c",
            &format!("set -eo pipefail\ntrap 'echo \"FAILED: $BASH_COMMAND\" >&2' ERR\n{script}"),
        ])
        .current_dir(here)
        .env_clear()
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", here)
        .envs(study.env.iter().cloned())
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}: {script}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn every_command_of_the_book_runs() {
    let mut ran = 0;
    for (page, text) in pages() {
        let runs = |block: &Block| block.remarks.is_empty();
        let of = |language: &str| -> Vec<Block> {
            blocks(&text)
                .into_iter()
                .filter(|block| block.language == language && runs(block))
                .collect()
        };
        let (consoles, crons) = (of("console"), of("cron"));
        // The README's are run by `readme`, in the study that it describes; those of contributors build the program.
        let is_elsewhere = ["README.md", "CONTRIBUTING.md"].contains(&page.as_str());
        if is_elsewhere || consoles.is_empty() && crons.is_empty() {
            continue;
        }
        let kind = text
            .lines()
            .take(5)
            .find_map(|line| {
                line.trim()
                    .strip_prefix("<!-- study: ")?
                    .strip_suffix(" -->")
            })
            .unwrap_or("slurm");
        let mut study = study(kind);
        stand_ins(&mut study);
        let mut script = String::new();
        for block in &consoles {
            let commands = commands(&block.text);
            assert!(
                !commands.is_empty(),
                "{page}:{}: a console block without a command",
                block.line
            );
            for command in commands {
                if let Some(lacking) = lacking(&command) {
                    eprintln!("SKIPPED: {page}:{}: no {lacking}: {command}", block.line);
                    continue;
                }
                // Each in a shell of its own directory, so that a `cd` ends with its line.
                script.push_str(&command);
                script.push_str("\ncd \"$HOME\"\n");
                ran += 1;
            }
        }
        for command in crons
            .iter()
            .flat_map(|block| block.text.lines())
            .filter_map(cron_command)
        {
            script.push_str(&command);
            script.push('\n');
            ran += 1;
        }
        run(&study, &page, &script);
    }
    assert!(ran > 20, "{ran}");
}

#[test]
fn no_page_opts_out_without_being_counted() {
    for (page, text) in pages() {
        let mut count = 0;
        for block in blocks(&text) {
            if !["console", "cron", "bash", "sh", "shell"].contains(&block.language.as_str()) {
                continue;
            }
            assert!(
                !["sh", "shell"].contains(&block.language.as_str()),
                "{page}:{}: commands are 'console', scripts 'bash'",
                block.line
            );
            for remark in &block.remarks {
                assert!(
                    REASONS.contains(&remark.as_str()),
                    "{page}:{}: '{remark}' is no reason, there are {REASONS:?}",
                    block.line
                );
            }
            count += usize::from(!block.remarks.is_empty());
        }
        let known = NOT_RUN
            .iter()
            .find(|(known, _)| *known == page)
            .map_or(0, |(_, count)| *count);
        if page != "CONTRIBUTING.md" {
            assert_eq!(count, known, "{page}: blocks that do not run");
        }
    }
}

/// The oldest compiler that is named is the one that builds and tests the program.
#[test]
fn the_oldest_compiler_is_stated_and_true() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let stated = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .unwrap();
    for page in ["README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        assert!(text.contains(&format!("Rust {stated} or newer")), "{page}");
    }
    let output = Command::new(env!("CARGO"))
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    if !version.starts_with(&format!("cargo {stated}.")) {
        eprintln!(
            "SKIPPED: this is {}, so nobody knows whether {stated} still builds the program",
            version.trim()
        );
    }
}
