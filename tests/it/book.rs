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

mod links;
mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How many blocks of a page do not run, each with its reason in its fence.
const NOT_RUN: &[(&str, usize)] = &[("README.md", 1), ("docs/cron.md", 1)];

/// Why a block may not run.
const REASONS: [&str; 5] = [
    "needs-mail",
    "needs-network",
    "needs-root",
    "needs-cluster",
    "takes-minutes",
];

/// Is a fenced block.
pub struct Block {
    pub language: String,
    /// What else its fence says.
    pub remarks: Vec<String>,
    pub line: usize,
    pub text: String,
}

/// Returns the fenced blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // How far the fence is indented, while it is open.
    let mut open: Option<usize> = None;
    for (at, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info
                    .split([' ', ','])
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned);
                blocks.push(Block {
                    language: words.next().unwrap_or_default(),
                    remarks: words.collect(),
                    line: at + 1,
                    text: String::new(),
                });
                open = Some(indent);
            }
            (Some(_), Some("")) => open = None,
            (Some(indent), _) => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(line.get(indent..).unwrap_or_default());
                    block.text.push('\n');
                }
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is never closed");
    blocks
}

/// Returns README and all pages of the book with their text.
pub fn pages() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in walkdir::WalkDir::new(Path::new(ROOT).join("docs")).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|end| end == "md") {
            pages.push(
                entry
                    .path()
                    .strip_prefix(ROOT)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    pages
        .into_iter()
        .map(|page| {
            let text = fs::read_to_string(Path::new(ROOT).join(&page)).unwrap();
            (page, text)
        })
        .collect()
}

/// Returns the commands of a console block: what follows `$ `, with lines that a `\` continues.
fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        if goes_on {
            let line = line.strip_prefix("> ").unwrap_or(line);
            if let Some(command) = commands.last_mut() {
                command.push('\n');
                command.push_str(line);
            }
        } else if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
        } else {
            continue;
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Returns the command of a crontab's line; none for comments and variables.
fn cron_command(line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.split_whitespace().next()?.contains('=') {
        return None;
    }
    let mut rest = line;
    let fields = if line.starts_with('@') { 1 } else { 5 };
    for _ in 0..fields {
        rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    }
    Some(rest.to_owned())
}

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
                if command.contains("pandas") && crate::python::python().is_none() {
                    eprintln!("SKIPPED: {page}:{}: no pandas: {command}", block.line);
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

/// Scripts are looked at by bash and shellcheck.
#[test]
fn scripts_of_the_book_are_sound() {
    let has_shellcheck = Path::new("/usr/bin/shellcheck").is_file();
    if !has_shellcheck {
        eprintln!(
            "SKIPPED: shellcheck is not installed: scripts of the book are looked at by bash only"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    for (page, text) in pages() {
        for block in blocks(&text)
            .iter()
            .filter(|block| block.language == "bash")
        {
            let file = dir.path().join("script");
            fs::write(&file, &block.text).unwrap();
            let mut checks = vec![Command::new("bash")];
            checks[0].arg("-n");
            if has_shellcheck && block.text.starts_with("#!") {
                checks.push(Command::new("shellcheck"));
            }
            for mut check in checks {
                let output = check.arg(&file).output().unwrap();
                let out = String::from_utf8_lossy(&output.stdout);
                let err = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{page}:{}: {out}{err}", block.line);
            }
        }
    }
}

/// Pieces of configuration are loaded; Prometheus' and Ansible's say so in their fence.
#[test]
fn configurations_of_the_book_are_valid() {
    let mut count = 0;
    for (page, text) in pages() {
        for block in blocks(&text)
            .iter()
            .filter(|block| block.language == "yaml" && block.remarks.is_empty())
        {
            let file = Path::new("/site/config.yaml");
            let env = |name: &str| (name == "HOME").then(|| "/home/ada".into());
            let overrides = snbb_scheduler::config::Overrides::default();
            let loaded = snbb_scheduler::config::load::interpret(
                block.text.as_bytes(),
                Some(file),
                false,
                &env,
                &overrides,
                Path::new("/"),
            );
            if let Err(error) = loaded {
                panic!("{page}:{}: {error}", block.line);
            }
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn commands_are_taken_out_of_blocks() {
    let block = "$ one \\\n>   more\noutput\n$ two # why\n";
    assert_eq!(commands(block), ["one \\\n  more", "two # why"]);
    for (line, command) in [
        ("*/15 * * * *  a b >> c", Some("a b >> c")),
        ("@daily a", Some("a")),
        ("# no", None),
        ("PATH=/bin", None),
        ("", None),
    ] {
        assert_eq!(cron_command(line).as_deref(), command, "{line}");
    }
    let page = "a\n```console needs-root,x\n$ a\n```\n  ```bash\n  b\n  ```\n";
    let found = blocks(page);
    assert_eq!(found[0].remarks, ["needs-root", "x"]);
    assert_eq!(
        (
            found[1].language.as_str(),
            found[1].text.as_str(),
            found[1].line
        ),
        ("bash", "b\n", 5)
    );
}
