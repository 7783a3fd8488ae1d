//! `run --watch`: passes until nothing is due or in flight; what keeps it going, what ends it, and with which exit code.
//! `slurm::watch` has the same on a real Slurm.
#![expect(clippy::disallowed_methods, reason = "starts programs that go on")]

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{in_terminal, messages};

const PATIENCE: Duration = Duration::from_secs(60);

const STEPS: &str = "\
output_grace: 0s
procedures:
  - {name: convert, output_dir: '', script: step.sh, completion_marker: a.done, env: {MARK: a.done}}
  - {name: report, output_dir: report, script: step.sh, depends_on: [convert], completion_marker: b.done, env: {MARK: b.done}}
";

/// Jobs are child processes; `body`: what a job does before its output is there.
fn local(body: &str) -> Study {
    let study = Study::new();
    study.configure(&format!("executor: local\nlocal_jobs: 4\n{STEPS}"));
    study.script(
        "step.sh",
        &format!("mkdir -p \"$SNBB_OUTPUT_DIR\"\n{body}\ntouch \"$SNBB_OUTPUT_DIR/$MARK\""),
    );
    study.scan(&["sub-01/ses-01", "sub-01/ses-02"]);
    study
}

/// Jobs are files that a test sets to what it wants.
fn fake() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEPS);
    study.script("step.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    (study, slurm)
}

/// Starts the program and does not wait for it.
pub fn watching(study: &Study, arguments: &[&str], err: Stdio) -> Child {
    let program = study.program();
    let mut command = Command::new(program.get_program());
    command.env_clear().args(arguments).current_dir("/");
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(err).spawn().unwrap()
}

/// Sends a signal and expects that it ends the program, after a word about the jobs.
pub fn end_by(child: &mut Child, signal: i32) {
    let pid = rustix::process::Pid::from_child(child);
    let name = rustix::process::Signal::from_named_raw(signal).unwrap();
    rustix::process::kill_process(pid, name).unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(signal), "{err}");
    let last = err.lines().last().unwrap_or_default();
    assert!(last.starts_with("note: "), "{err}");
}

pub fn assert_each_task_ran_once(study: &Study, tasks: usize) {
    let statuses = study.statuses();
    assert!(
        statuses
            .iter()
            .all(|row| row.ends_with("complete verified")),
        "{statuses:#?}"
    );
    let ids: HashSet<String> = study.job_ids().into_values().collect();
    assert_eq!((statuses.len(), ids.len()), (tasks, tasks));
    let log = study.read("scheduler_audit.jsonl");
    let submitted = log.matches("\"event\": \"submitted\"").count();
    assert_eq!(submitted, tasks, "{log}");
}

/// Without a terminal: no control characters, and no line about a procedure that says nothing new.
pub fn assert_plain_lines(err: &str) {
    assert!(!err.contains('\x1b') && !err.contains('\r'), "{err}");
    let lines = err
        .lines()
        .filter(|line| line.contains("/") && line.contains(" complete"));
    let mut last = std::collections::HashMap::new();
    for line in lines {
        let (_, said) = line.split_once(" UTC ").expect(line);
        let (procedure, counts) = said.split_once(": ").expect(line);
        assert_ne!(last.insert(procedure, counts), Some(counts), "{err}");
    }
}

#[test]
fn each_step_follows_the_one_before_it_until_all_is_complete() {
    let study = local("sleep 0.5");
    let said = study.ok(&["run", "--watch", "1s"]);
    assert_each_task_ran_once(&study, 4);
    assert_plain_lines(&said.err);
    assert!(
        said.err.contains(" convert: 2/2 complete\n"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("report: 0/2 complete, 2 waiting\n"),
        "{}",
        said.err
    );
    let counts = ["complete", "due", "submitted"].map(|word| said.count(word));
    assert_eq!(counts, [4, 0, 0], "{}", said.err);
    // A study in which nothing is left ends at once, and is silent if it is to be.
    let said = study.ok(&["-q", "run", "--watch"]);
    assert_eq!(said.err, "");
}

#[test]
fn on_a_terminal_a_line_per_procedure_is_drawn_and_stays() {
    let study = local("sleep 0.5");
    let shown = in_terminal(&study, 100, &["run", "--watch", "1s"]);
    assert!(shown.contains("convert ["), "{shown}");
    assert!(shown.contains("Ctrl-C"), "{shown}");
    let end = shown.rsplit("submitted").next().unwrap();
    for line in ["] 2/2 complete", "convert [", "report  ["] {
        assert!(end.contains(line), "{shown}");
    }
}

#[test]
fn failed_tasks_and_what_they_block_end_it_with_1() {
    let study = local("[ \"$2\" = ses-02 ] || exit 3");
    let said = study.call(&["run", "--watch", "1s"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("convert: 1/2 complete, 1 failed\n"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("report: 1/2 complete, 1 blocked\n"),
        "{}",
        said.err
    );
    insta::assert_snapshot!(messages(&study, &said));
}

#[test]
fn a_failure_that_is_tried_again_keeps_it_going() {
    let study = local("[ \"$SNBB_ATTEMPT\" = 2 ] || exit 3");
    study.configure(&format!(
        "executor: local\nretry: {{on: {{exit_code: {{delay: 2s}}}}}}\n{STEPS}"
    ));
    study.ok(&["run", "--watch", "1s"]);
    assert_eq!(study.statuses().len(), 4);
}

#[test]
fn a_pause_does_not_keep_it_waiting() {
    let (study, slurm) = fake();
    study.ok(&["pause"]);
    let said = study.ok(&["run", "--watch", "1s"]);
    assert!(
        said.err.contains("convert: 0/1 complete, 1 paused\n"),
        "{}",
        said.err
    );
    assert_eq!(slurm.calls("sbatch"), 0);
}

#[test]
fn what_slurm_refuses_is_not_tried_for_ever() {
    let (study, slurm) = fake();
    slurm.break_program(
        "sbatch",
        "sbatch: error: Batch job submission failed: Invalid account\n",
    );
    let said = study.call(&["run", "--watch", "1s"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn a_slurm_that_does_not_answer_is_asked_again() {
    let (study, slurm) = fake();
    slurm.break_program(
        "squeue",
        "squeue: error: Unable to contact slurm controller\n",
    );
    let mut child = watching(&study, &["run", "--watch", "1s"], Stdio::piped());
    let since = Instant::now();
    while slurm.calls("squeue") < 4 {
        assert!(since.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(100));
    }
    slurm.heal("squeue");
    for (jobs, output) in [(1, "bids"), (2, "derivatives/report")] {
        while slurm.jobs().len() < jobs {
            assert!(since.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(100));
        }
        let name = ["a.done", "b.done"][jobs - 1];
        study.write(&format!("{output}/sub-01/ses-01/{name}"), "");
        slurm.set_all("COMPLETED");
    }
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    assert_eq!(err.matches("warning: ").count(), 1, "{err}");
}

#[test]
fn two_at_once_share_a_study_and_neither_gives_up() {
    let study = local("sleep 0.5");
    let arguments = ["run", "--watch", "1s", "--lock-timeout", "0s"];
    let mut children = [(); 2].map(|()| watching(&study, &arguments, Stdio::piped()));
    for child in &mut children {
        let mut err = String::new();
        let mut said = child.stderr.take().unwrap();
        said.read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    }
    assert_each_task_ran_once(&study, 4);
}

#[test]
fn signals_end_it_between_two_passes() {
    let (study, slurm) = fake();
    for signal in [2, 15] {
        let mut child = watching(&study, &["run", "--watch"], Stdio::piped());
        let since = Instant::now();
        while study.statuses().is_empty() {
            assert!(since.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(100));
        }
        end_by(&mut child, signal);
    }
    study.ok(&["state", "verify"]);
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn options_that_would_never_end_or_never_stop_are_refused() {
    let study = Study::new();
    for option in [
        "--dry-run",
        "--skip-monitor",
        "--accept-drop",
        "--accept-cluster",
    ] {
        let said = study.call(&["run", "--watch", "2s", option]);
        assert_eq!(said.code, 2, "{option}: {}", said.err);
    }
    let said = study.call(&["run", "--watch", "--force", "--subject", "01"]);
    assert_eq!(said.code, 2, "{}", said.err);
    let said = study.call(&["run", "--watch", "soon"]);
    assert_eq!(said.code, 2, "{}", said.err);
}
