//! The local executor with real processes.
//!
//! This test binary is also the supervisor and the caller: [`entry`] does nothing as a test, and is the
//! way into [`supervise`] and into a short-lived caller when it is started again with arguments.
#![expect(
    clippy::disallowed_methods,
    reason = "starts and looks at real processes"
)]

mod ends;
mod records;
mod slots;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use snbb_scheduler::executor::local::{LocalExecutor, LocalSettings, supervise};
use snbb_scheduler::executor::{
    Answer, Executor, JobReport, JobRequest, Phase, Question, Refusal, Submission,
};
use snbb_scheduler::model::job::{JobId, JobRef, JobTag};
use snbb_scheduler::model::procedure::Resources;
use snbb_scheduler::model::state::{Reason, TaskKey};

const ENTRY: &str = "local::entry";

#[test]
fn entry() {
    let args: Vec<String> = std::env::args().collect();
    let after = |word: &str| {
        let at = args.iter().position(|arg| arg == word)?;
        Some(&args[at + 1..])
    };
    if let Some([dir, number, ..]) = after("as-supervisor") {
        supervise(Path::new(dir), number.parse().unwrap());
        std::process::exit(0);
    }
    if let Some([dir, script, ..]) = after("as-caller") {
        let study = Study {
            dir: PathBuf::from(dir),
            _temporary: None,
        };
        let request = study.request("caller", script);
        study.executor(1).submit(&[&request], None);
        println!("submitted");
        std::thread::sleep(Duration::from_secs(600));
    }
}

struct Study {
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Study {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self {
            dir: temporary.path().to_owned(),
            _temporary: Some(temporary),
        }
    }

    fn records(&self) -> PathBuf {
        self.dir.join("state.local")
    }

    fn settings(&self, local_jobs: usize) -> LocalSettings {
        LocalSettings {
            project: None,
            records: self.records(),
            local_jobs,
            script_dirs: vec![self.dir.clone()],
            environment: std::env::vars_os().collect(),
            supervisor: [
                std::env::current_exe().unwrap().into_os_string(),
                ENTRY.into(),
                "--exact".into(),
                "--nocapture".into(),
                "as-supervisor".into(),
            ]
            .to_vec(),
            read_only: false,
        }
    }

    fn executor(&self, local_jobs: usize) -> LocalExecutor {
        LocalExecutor::new(self.settings(local_jobs)).unwrap()
    }

    fn script(&self, name: &str, body: &str) -> String {
        std::fs::write(self.dir.join(name), format!("#!/bin/bash\n{body}\n")).unwrap();
        name.to_owned()
    }

    fn request(&self, id: &str, script: &str) -> JobRequest {
        JobRequest {
            key: TaskKey::new("sub-0001", "ses-01", "qc"),
            job_name: format!("qc_sub-0001_{id}"),
            submission_id: id.to_owned(),
            project: "study".to_owned(),
            script: script.to_owned(),
            arguments: vec!["sub-0001".to_owned(), "ses-01".to_owned()],
            env: BTreeMap::from([("DIR".to_owned(), self.dir.display().to_string())]),
            resources: Resources::default(),
            log_dir: Some(self.dir.join("logs")),
        }
    }

    fn submit(&self, executor: &mut LocalExecutor, id: &str, body: &str) -> JobId {
        let script = self.script(&format!("{id}.sh"), body);
        accepted(executor.submit(&[&self.request(id, &script)], None))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }

    /// Changes a record, as time or another host would have.
    fn edit(&self, name: &str, change: impl Fn(&mut serde_json::Value)) {
        let path = self.records().join(name);
        let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(&path, value.to_string()).unwrap();
    }

    fn supervisor_pid(&self, number: u64) -> i32 {
        let claim = std::fs::read(self.records().join(format!("{number}.claim"))).unwrap();
        let claim: serde_json::Value = serde_json::from_slice(&claim).unwrap();
        claim["supervisor"]["process"]["pid"].as_i64().unwrap() as i32
    }
}

fn accepted(submission: Submission) -> JobId {
    match submission {
        Submission::Accepted { job_id, .. } => job_id,
        other => panic!("{other:?}"),
    }
}

fn reports(executor: &mut LocalExecutor) -> Vec<JobReport> {
    let observation = executor.observe(&Question::default());
    assert_eq!(observation.queue, observation.accounting);
    match observation.queue {
        Answer::Got(reports) => reports,
        other => panic!("{other:?}"),
    }
}

fn report(executor: &mut LocalExecutor, id: &JobId) -> JobReport {
    reports(executor)
        .into_iter()
        .find(|report| report.id == *id)
        .unwrap()
}

/// Looks again and again until something holds; the limit is only there so that a fault ends.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn until_over(executor: &mut LocalExecutor, id: &JobId) -> JobReport {
    until("the job is over", || {
        Some(report(executor, id)).filter(|report| !report.phase.is_live())
    })
}

fn until_text(study: &Study, name: &str) -> String {
    until(name, || {
        Some(study.read(name)).filter(|text| text.ends_with('\n'))
    })
}

fn job(id: &JobId) -> JobRef {
    JobRef {
        id: id.clone(),
        cluster: None,
    }
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn every_end_is_told_as_it_was() {
    let study = Study::new();
    let mut executor = study.executor(4);
    let failed = Phase::Failed(Reason::ExitCode);
    let table = [
        ("zero", "exit 0", Phase::Completed, "COMPLETED", "0:0"),
        ("three", "exit 3", failed, "FAILED", "3:0"),
        ("high", "exit 137", failed, "FAILED", "137:0"),
        ("killed", "kill -KILL $$", failed, "FAILED", "0:9"),
        ("termed", "kill -TERM $$", failed, "FAILED", "0:15"),
        ("crashed", "kill -SEGV $$", failed, "FAILED", "0:11"),
    ];
    for (id, body, phase, word, code) in table {
        let id = study.submit(&mut executor, id, body);
        let report = until_over(&mut executor, &id);
        let facts = &report.facts;
        assert_eq!(report.phase, phase, "{body}");
        assert_eq!(facts.slurm_state.as_deref(), Some(word), "{body}");
        assert_eq!(facts.exit_code.as_deref(), Some(code), "{body}");
        assert!(report.submitted_at <= facts.started_at && facts.started_at <= facts.ended_at);
        assert!(facts.elapsed_s.is_some() && facts.node_list.is_some());
    }
    let ids: Vec<String> = reports(&mut executor)
        .iter()
        .map(|report| report.id.to_string())
        .collect();
    assert_eq!(
        ids,
        [
            "local-1", "local-2", "local-3", "local-4", "local-5", "local-6"
        ]
    );
}

#[test]
fn what_cannot_start_is_launch_failed_and_says_why() {
    let study = Study::new();
    let mut executor = study.executor(1);
    std::fs::write(study.dir.join("none.sh"), "#!/no/such/shell\n").unwrap();
    let id = accepted(executor.submit(&[&study.request("none", "none.sh")], None));
    let report = until_over(&mut executor, &id);
    assert_eq!(report.phase, Phase::Failed(Reason::LaunchFailed));
    assert_eq!(report.facts.exit_code.as_deref(), Some("0:53"));
    let log = study.read("logs/qc_sub-0001_none_local-1.err");
    assert!(log.contains("/no/such/shell"), "{log}");

    let script = study.script("blocked.sh", "true");
    std::fs::create_dir(study.dir.join("logs/qc_sub-0001_blocked_local-2.out")).unwrap();
    let id = accepted(executor.submit(&[&study.request("blocked", &script)], None));
    assert_eq!(
        until_over(&mut executor, &id).phase,
        Phase::Failed(Reason::LaunchFailed)
    );
}

#[test]
fn arguments_environment_and_logs_arrive_as_they_are() {
    let study = Study::new();
    let script = study.script(
        "show.sh",
        r#"printf '<%s>' "$@"; printf '[%s]' "$SPECIAL" "$OVER" "${SLURM_CPUS_PER_TASK-}" "$(umask)"; pwd
           printf '%s' "$BYTES" >"$DIR/bytes"; cat; echo problem >&2"#,
    );
    let mut settings = study.settings(1);
    let bytes = OsString::from_vec(vec![b'a', 0xff, b'\n', b'b']);
    settings.environment.extend([
        ("OVER".into(), "caller".into()),
        ("BYTES".into(), bytes.clone()),
    ]);
    let mut request = study.request("show", &script);
    request.arguments = ["a b", "", "$(touch x)", "'\"\\", "*", "l1\nl2", "-n", "ü"]
        .map(str::to_owned)
        .to_vec();
    request
        .env
        .insert("SPECIAL".to_owned(), "x y\n$HOME".to_owned());
    request.env.insert("OVER".to_owned(), "request".to_owned());
    request.resources.cpus_per_task = Some(3);
    let mut executor = LocalExecutor::new(settings).unwrap();
    let id = accepted(executor.submit(&[&request], None));
    assert_eq!(until_over(&mut executor, &id).phase, Phase::Completed);

    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let umask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:\t"))
        .unwrap();
    let directory = std::env::current_dir().unwrap();
    assert_eq!(
        study.read("logs/qc_sub-0001_show_local-1.out"),
        format!(
            "<a b><><$(touch x)><'\"\\><*><l1\nl2><-n><ü>[x y\n$HOME][request][3][{umask}]{}\n",
            directory.display()
        )
    );
    assert_eq!(study.read("logs/qc_sub-0001_show_local-1.err"), "problem\n");
    assert_eq!(
        std::fs::read(study.dir.join("bytes")).unwrap(),
        bytes.into_vec()
    );
}

#[test]
fn logs_go_beside_the_records_if_no_place_is_configured() {
    let study = Study::new();
    let script = study.script("a.sh", "echo here");
    let mut request = study.request("a", &script);
    request.log_dir = None;
    let mut executor = study.executor(1);
    let id = accepted(executor.submit(&[&request], None));
    until_over(&mut executor, &id);
    let log = study.read("state.local/logs/qc_sub-0001_a_local-1.out");
    assert_eq!(log, "here\n");
}

#[test]
fn the_script_runs_as_it_was_at_submission() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let first = study.submit(
        &mut executor,
        "gate",
        r#"until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#,
    );
    let second = study.submit(&mut executor, "edited", r#"echo old >"$DIR/edited""#);
    study.script("edited.sh", r#"echo new >"$DIR/edited""#);
    std::fs::write(study.dir.join("go"), "").unwrap();
    until_over(&mut executor, &first);
    until_over(&mut executor, &second);
    assert_eq!(study.read("edited"), "old\n");
}
