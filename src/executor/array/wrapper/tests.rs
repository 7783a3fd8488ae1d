//! Runs the wrapper with real shells.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start the wrapper and list its files"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::*;
use crate::decide::request::batch::testing::prepared;
use crate::executor::array;

/// Values that careless quoting would change.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "a b",
    "'",
    "''",
    "\"",
    "$HOME",
    "`id`",
    "$(id)",
    "a\nb",
    "\n",
    "\n\n",
    "'\n'",
    "\\",
    "\\n",
    "*",
    "~",
    "-n",
    "--",
    "!",
    "#x",
    "a;b&c|d<e>f(g)",
    "é\u{1f600}",
    "\t",
    "%s%d",
    "x=1",
    "{a,b}",
    "\u{1b}[31m",
    "a\rb",
];

struct Lab {
    home: tempfile::TempDir,
    array: ArrayJob,
    tasks: Vec<JobRequest>,
}

impl Lab {
    /// Writes an array of hostile tasks below a hostile directory.
    fn new(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("it's $a\n\"dir\" %j");
        let logs = place.join("logs & more\n");
        fs::create_dir_all(&logs).unwrap();
        let tasks: Vec<JobRequest> = HOSTILE
            .iter()
            .enumerate()
            .map(|(number, value)| {
                let mut task = prepared("a", number).request;
                task.arguments = vec![(*value).to_owned(), "end".to_owned(), (*value).to_owned()];
                task.env
                    .insert("SNBB_DICOM_PATH".into(), (*value).to_owned());
                task.log_dir = Some(logs.clone());
                task
            })
            .collect();
        let array = ArrayJob {
            submission_id: "array-0123456789abcdef".to_owned(),
            job_name: "a_array_01234567".to_owned(),
            throttle: None,
            dir: place.join("state.arrays/array-0123456789abcdef"),
        };
        let script = Script {
            interpreter: script
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("#!"))
                .unwrap()
                .splitn(2, ' ')
                .map(str::to_owned)
                .collect(),
            text: script.as_bytes().to_vec(),
        };
        let list: Vec<&JobRequest> = tasks.iter().collect();
        let common = |name: &str| name == "SNBB_BIDS_ROOT";
        let files = files_of(&array, &list, &script, &common);
        array::write(&array.dir, &files).unwrap();
        Self { home, array, tasks }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.array.dir.join(name)
    }

    fn log(&self, job: &str, end: &str) -> PathBuf {
        let dir = self.tasks[0].log_dir.as_ref().unwrap();
        dir.join(format!("{job}.{end}"))
    }

    /// Runs the wrapper as Slurm does, as a copy in another place.
    fn run(&self, shell: &str, index: &str) -> Output {
        let spool = self.home.path().join("slurm_script");
        fs::copy(self.path(WRAPPER), &spool).unwrap();
        let bin = self.home.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let nap = bin.join("sleep");
        if !nap.exists() {
            std::os::unix::fs::symlink("/bin/true", nap).unwrap();
        }
        Command::new(shell)
            .arg(spool)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("SNBB_BIDS_ROOT", "/from/sbatch")
            .env("SLURM_JOB_NAME", "a_array_01234567")
            .env("SLURM_JOB_ID", "77")
            .env("SLURM_ARRAY_JOB_ID", "70")
            .env("SLURM_ARRAY_TASK_ID", index)
            .current_dir("/")
            .output()
            .unwrap()
    }

    fn code_and_message(&self, index: &str) -> (i32, String) {
        let output = self.run("sh", index);
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    }
}

fn files_of(
    array: &ArrayJob,
    tasks: &[&JobRequest],
    script: &Script,
    common: &dyn Fn(&str) -> bool,
) -> Vec<File> {
    files(array, tasks, script, common).unwrap()
}

const REPORT_SCRIPT: &str = r#"#!/bin/bash -f
printf '[%s]' "$@" "$SNBB_DICOM_PATH" "$SNBB_SUBJECT" "$SNBB_BIDS_ROOT" "$SLURM_JOB_NAME" "$-"
env | grep snbb_array
exit 7
"#;

#[test]
fn every_value_arrives_whole_in_every_shell() {
    let lab = Lab::new(REPORT_SCRIPT);
    for shell in ["sh", "dash", "bash"] {
        for (index, value) in HOSTILE.iter().enumerate() {
            let output = lab.run(shell, &index.to_string());
            let subject = format!("sub-{index:04}");
            let expected = format!(
                "[{value}][end][{value}][{value}][{subject}][/from/sbatch][a_{subject}_ses-01][fhB]"
            );
            let found = String::from_utf8(output.stdout).unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                found.replace("[hfB]", "[fhB]"),
                expected,
                "{shell} {value:?}: {said}"
            );
            assert_eq!(output.status.code(), Some(7), "{said}");
            assert_eq!(said, "");
        }
    }
}

#[test]
fn the_logs_get_the_name_of_the_task() {
    let lab = Lab::new(REPORT_SCRIPT);
    for end in ["out", "err"] {
        fs::write(lab.log("a_array_01234567_70_2", end), end).unwrap();
        // The log of an earlier start of the same job.
        fs::write(lab.log("a_sub-0002_ses-01_70_2", end), "old").unwrap();
    }
    let output = lab.run("sh", "2");
    assert_eq!(output.status.code(), Some(7));
    for end in ["out", "err"] {
        let text = fs::read_to_string(lab.log("a_sub-0002_ses-01_70_2", end)).unwrap();
        assert_eq!(text, end);
        assert!(!lab.log("a_array_01234567_70_2", end).exists());
    }
}

#[test]
fn unreadable_and_changed_files_have_their_own_exit_codes() {
    let lab = Lab::new(REPORT_SCRIPT);
    let count = HOSTILE.len();
    for (index, code) in [
        (count.to_string(), 64),
        ("x".into(), 64),
        (String::new(), 64),
    ] {
        let (found, said) = lab.code_and_message(&index);
        assert_eq!(found, code, "{said}");
        assert!(said.starts_with("snbb-scheduler: "), "{said}");
    }
    for name in [SCRIPT, SHELL_LIST] {
        let lab = Lab::new(REPORT_SCRIPT);
        let path = lab.path(name);
        let mut text = fs::read(&path).unwrap();
        text.push(b'#');
        fs::remove_file(&path).unwrap();
        let (code, said) = lab.code_and_message("0");
        assert_eq!(code, 66, "{said}");
        assert!(said.contains(name), "{said}");
        fs::write(&path, text).unwrap();
        let (code, said) = lab.code_and_message("0");
        assert_eq!(code, 65, "{said}");
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn only_directives_that_sbatch_reads_are_copied() {
    let script = b"#!/bin/bash\n#SBATCH --time=5\n# words\n\n  \n#SBATCH --mem=1G # why\n #SBATCH --no\n##SBATCH --no\n\
                   #PBS -l x\n  #\nmodule load x\n#SBATCH --late=1\n";
    let found: Vec<&str> = directives(script)
        .into_iter()
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    assert_eq!(
        found,
        ["#SBATCH --time=5", "#SBATCH --mem=1G # why", "#PBS -l x"]
    );
    let lab = Lab::new("#!/bin/sh\n#SBATCH --time=5\ntrue\n#SBATCH --late\n");
    let wrapper = fs::read_to_string(lab.path(WRAPPER)).unwrap();
    assert!(
        wrapper.starts_with("#!/bin/sh\n#SBATCH --time=5\n# Written by"),
        "{wrapper}"
    );
    assert!(!wrapper.contains("--late"));
    assert_eq!(
        wrapper.find('@').map(|at| &wrapper[at..at + 2]),
        Some("@\""),
        "{wrapper}"
    );
}

#[test]
fn tasks_that_cannot_be_an_array_are_refused() {
    let task = prepared("a", 0).request;
    let array = ArrayJob {
        submission_id: "array-0123456789abcdef".to_owned(),
        job_name: "a_array_01234567".to_owned(),
        throttle: None,
        dir: "/x".into(),
    };
    let refuse = |text: &str, task: &JobRequest| {
        let script = Script {
            interpreter: vec!["/bin/sh".to_owned()],
            text: text.as_bytes().to_vec(),
        };
        files(&array, &[task], &script, &|_| false).unwrap_err()
    };
    let parts = refuse("#!/bin/sh\n#SBATCH hetjob\n", &task);
    assert!(parts.contains("heterogeneous"), "{parts}");
    let mut nul = task;
    nul.arguments.push("a\0b".to_owned());
    assert!(refuse("#!/bin/sh\n", &nul).contains("NUL"));
}

#[test]
fn shellcheck_has_nothing_to_say() {
    let lab = Lab::new(REPORT_SCRIPT);
    // The hostile directory's name causes this finding.
    let exclude = "--exclude=SC2016";
    let Ok(output) = Command::new("shellcheck")
        .arg(exclude)
        .arg(lab.path(WRAPPER))
        .output()
    else {
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
}
