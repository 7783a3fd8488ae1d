//! Scripted commands that do what a real cluster cannot be made to do: hang, lie, print banners.
#![expect(
    clippy::disallowed_methods,
    reason = "the fakes are written by a shell"
)]

use std::fs;
use std::process::Command;
use std::sync::Arc;

use chrono::DateTime;
use tempfile::TempDir;

use super::*;
use crate::executor::{Answer, Phase};
use crate::model::job::JobId;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{MemSize, Resources, TimeLimit};
use crate::model::state::TaskKey;

mod homes;
mod passes;
mod queries;

struct Fakes {
    dir: TempDir,
}

impl Fakes {
    fn new() -> Self {
        let fakes = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for name in ["squeue", "sacct", "scancel"] {
            fakes.write(name, "");
        }
        fakes.write("sbatch", "echo 77");
        fakes.write("step.sh", "true");
        fakes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a script with a shell: a file that this process has open for writing cannot be
    /// executed by the child of another test's thread.
    fn write(&self, name: &str, body: &str) {
        let text = format!("#!/bin/sh\nhere={}\n{body}\n", self.dir.path().display());
        let status = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
            .arg(text)
            .arg(self.path(name))
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn settings(&self) -> SlurmSettings {
        SlurmSettings {
            bin_dir: Some(self.dir.path().to_owned()),
            script_dirs: vec![self.dir.path().to_owned()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            accounting: true,
            owner: 1000,
            caller: 1000,
            project: Some("study".to_owned()),
            home: Home::default(),
            separator: parse::SEPARATOR.to_owned(),
            submit_timeout: SlurmSettings::SUBMIT_TIMEOUT,
            query_timeout: SlurmSettings::QUERY_TIMEOUT,
        }
    }

    fn executor(&self) -> SlurmExecutor {
        SlurmExecutor::new(self.settings())
    }
}

fn request() -> JobRequest {
    JobRequest {
        key: TaskKey::new("sub-0001", "ses-01", "bids"),
        job_name: "bids_sub-0001_ses-01".to_owned(),
        submission_id: "s-1".to_owned(),
        project: "study".to_owned(),
        script: "step.sh".to_owned(),
        arguments: vec!["sub-0001".to_owned(), String::new(), "a b$c".to_owned()],
        env: [("SNBB_SUBJECT".to_owned(), "sub-0001".to_owned())].into(),
        resources: Resources::default(),
        log_dir: None,
    }
}

fn job(id: &str) -> JobRef {
    JobRef {
        id: JobId::new(id),
        cluster: None,
    }
}

fn asked(jobs: &[&str], canary: Option<&str>) -> Question {
    Question {
        jobs: jobs.iter().map(|id| job(id)).collect(),
        canary: canary.map(job),
        since: DateTime::from_timestamp(1_700_000_000, 0),
        ..Question::default()
    }
}

/// A shell line that prints one row of sacct.
fn row(id: &str, state: &str, name: &str) -> String {
    format!(
        "printf '{id}\\037{state}\\0370:0\\0371700000000\\0371700000010\\0371700000070\\03760\\03760\\03750M\\0371\\0371\\037n1\\037None\\037{name}\\n'"
    )
}

fn in_doubt(submission: &Submission) -> bool {
    matches!(submission, Submission::InDoubt { .. })
}

#[test]
fn sbatch_gets_exactly_the_command_line_that_is_shown() {
    let fakes = Fakes::new();
    fakes.write(
        "sbatch",
        "printf '[%s]' \"$@\" > \"$here/args\"; echo '77;dev'",
    );
    let log_dir = fakes.path("logs/50%/bids");
    let mut request = request();
    request.log_dir = Some(log_dir.clone());
    request.resources = Resources {
        partition: Some("debug".to_owned()),
        account: Some(String::new()),
        qos: Some("normal".to_owned()),
        time: TimeLimit::parse("4:00:00").ok(),
        mem: MemSize::parse("32G").ok(),
        cpus_per_task: Some(8),
        gres: Some("gpu:1".to_owned()),
        no_requeue: true,
        sbatch_args: Arguments::from_iter(["--nice=5".to_owned()]),
    };
    let mut executor = fakes.executor();
    let shown = executor.command_line(&[&request], None);
    assert_eq!(
        executor.submit(&[&request], None),
        Submission::Accepted {
            job_id: JobId::new("77"),
            cluster: Some(Arc::from("dev")),
        }
    );
    let here = fakes.dir.path().display();
    let expected = [
        format!("{here}/sbatch"),
        "--parsable".to_owned(),
        "--comment=snbb:study:s-1".to_owned(),
        "--export=ALL".to_owned(),
        "--partition=debug".to_owned(),
        "--mem=32G".to_owned(),
        "--cpus-per-task=8".to_owned(),
        "--time=4:00:00".to_owned(),
        "--qos=normal".to_owned(),
        "--gres=gpu:1".to_owned(),
        "--job-name=bids_sub-0001_ses-01".to_owned(),
        format!("--output={here}/logs/50%%/bids/bids_sub-0001_ses-01_%j.out"),
        format!("--error={here}/logs/50%%/bids/bids_sub-0001_ses-01_%j.err"),
        "--no-requeue".to_owned(),
        "--nice=5".to_owned(),
        format!("{here}/step.sh"),
        "sub-0001".to_owned(),
        String::new(),
        "a b$c".to_owned(),
    ];
    assert_eq!(shown, expected);
    let got: String = expected[1..].iter().map(|arg| format!("[{arg}]")).collect();
    assert_eq!(fakes.read("args"), got);
    assert!(fs::metadata(log_dir).unwrap().is_dir());
}

#[test]
fn a4_e24_of_the_variables_of_slurm_only_those_to_reach_it_are_passed_on() {
    let fakes = Fakes::new();
    for name in ["sbatch", "squeue", "sacct"] {
        let answer = if name == "sbatch" { "echo 7" } else { "" };
        fakes.write(name, &format!("env > \"$here/{name}.env\"; cat; {answer}"));
    }
    let mut settings = fakes.settings();
    for name in [
        "SLURM_CONF",
        "SLURM_CONF_SERVER",
        "SLURM_JWT",
        "SLURM_SACK_JWKS",
        "SLURM_SACK_KEY",
        "SLURM_SACK_SOCKET",
        "PMI_RANK",
        "PMIX_NAMESPACE",
        "OMPI_COMM_WORLD_RANK",
        "SLURM_JOB_ID",
        "SLURM_CLUSTERS",
        "SLURM_TIME_FORMAT",
        "SBATCH_WAIT",
        "SQUEUE_STATES",
        "SACCT_FORMAT",
        "SALLOC_QOS",
        "SPRIO_FORMAT",
        "LC_ALL",
        "KRB5CCNAME",
    ] {
        settings.env.push((name.into(), "x".into()));
    }
    let mut executor = SlurmExecutor::new(settings);
    assert!(matches!(
        executor.submit(&[&request()], None),
        Submission::Accepted { .. }
    ));
    executor.observe(&asked(&["7"], None));
    let names = |file: &str| {
        let text = fakes.read(file);
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| {
                !line.starts_with("PWD=") && !line.starts_with("_=") && !line.starts_with("PATH=")
            })
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let query = [
        "KRB5CCNAME=x",
        "LC_ALL=C",
        "SLURM_BITSTR_LEN=0",
        "SLURM_CONF=x",
        "SLURM_CONF_SERVER=x",
        "SLURM_JWT=x",
        "SLURM_SACK_JWKS=x",
        "SLURM_SACK_KEY=x",
        "SLURM_SACK_SOCKET=x",
        "SLURM_TIME_FORMAT=%s",
    ];
    assert_eq!(
        names("sbatch.env"),
        [
            "KRB5CCNAME=x",
            "LC_ALL=x",
            "SLURM_CONF=x",
            "SLURM_CONF_SERVER=x",
            "SLURM_JWT=x",
            "SLURM_SACK_JWKS=x",
            "SLURM_SACK_KEY=x",
            "SLURM_SACK_SOCKET=x",
            "SNBB_SUBJECT=sub-0001"
        ]
    );
    assert_eq!(names("squeue.env"), query);
    assert_eq!(names("sacct.env"), query);
}

#[test]
fn an_sbatch_that_hangs_is_in_doubt_and_is_killed() {
    let fakes = Fakes::new();
    let mut settings = fakes.settings();
    settings.submit_timeout = Duration::from_millis(400);
    let mut executor = SlurmExecutor::new(settings);
    for body in [
        "echo $$ > \"$here/pid\"; exec sleep 600",
        "echo $$ > \"$here/pid\"; trap '' TERM; while :; do sleep 600; done",
        // Answers, then hangs.
        "echo $$ > \"$here/pid\"; echo 5; exec sleep 600",
    ] {
        fakes.write("sbatch", body);
        assert!(in_doubt(&executor.submit(&[&request()], None)), "{body}");
        let pid = fakes.read("pid");
        let alive = fs::metadata(format!("/proc/{}", pid.trim()));
        assert!(alive.is_err(), "{body}");
    }
}

#[test]
fn a_pipe_that_stays_open_does_not_block() {
    let fakes = Fakes::new();
    fakes.write(
        "sbatch",
        "setsid sleep 600 & echo $! > \"$here/pid\"; echo 5",
    );
    let submission = fakes.executor().submit(&[&request()], None);
    let pid: i32 = fakes.read("pid").trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(matches!(submission, Submission::Accepted { .. }));
}

#[test]
fn a_lying_sbatch_is_in_doubt() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    for body in [
        "",
        "echo Submitted batch job x",
        "kill -9 $$",
        "exit 3",
        "echo 5; exit 1",
    ] {
        fakes.write("sbatch", body);
        assert!(in_doubt(&executor.submit(&[&request()], None)), "{body}");
    }
}

#[test]
fn a_submission_that_cannot_start_is_refused() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    let refused = |submission: Submission| match submission {
        Submission::Refused {
            kind: Refusal::Permanent,
            message,
        } => message,
        other => panic!("{other:?}"),
    };
    let mut no_script = request();
    no_script.script = "nowhere.sh".to_owned();
    let message = refused(executor.submit(&[&no_script], None));
    assert!(message.contains("'nowhere.sh'"), "{message}");
    let mut too_long = request();
    too_long.arguments = vec!["x".repeat(1 << 18)];
    let message = refused(executor.submit(&[&too_long], None));
    assert!(message.starts_with("cannot start sbatch"), "{message}");
    let mut bad_logs = request();
    bad_logs.log_dir = Some(fakes.path("step.sh/logs"));
    let message = refused(executor.submit(&[&bad_logs], None));
    assert!(message.contains("step.sh/logs"), "{message}");
    bad_logs.log_dir = Some(fakes.path("a\\b"));
    let message = refused(executor.submit(&[&bad_logs], None));
    assert!(message.contains("backslash"), "{message}");
    fs::remove_file(fakes.path("sbatch")).unwrap();
    let message = refused(executor.submit(&[&request()], None));
    assert!(message.contains("slurm_bin_dir"), "{message}");
    assert!(matches!(
        executor.preflight(),
        Err(ExecutorError::ProgramMissing { program, .. }) if program == "sbatch"
    ));
}

#[test]
fn scripts_are_searched_for_in_order() {
    let fakes = Fakes::new();
    for dir in ["own", "config", "path", "own/step.sh"] {
        fs::create_dir_all(fakes.path(dir)).unwrap();
    }
    for file in ["config/step.sh", "path/step.sh", "path/other.sh"] {
        fs::write(fakes.path(file), "").unwrap();
    }
    let mut settings = fakes.settings();
    settings.script_dirs = ["own", "config"].map(|dir| fakes.path(dir)).to_vec();
    // Relative entries and empty ones mean the working directory.
    let path = format!("src::{}", fakes.path("path").display());
    settings.env = vec![("PATH".into(), path.into())];
    let executor = SlurmExecutor::new(settings);
    let found = |script: &str| executor.find_script(script).ok();
    assert_eq!(found("step.sh"), Some(fakes.path("config/step.sh")));
    assert_eq!(found("other.sh"), Some(fakes.path("path/other.sh")));
    let absolute = fakes.path("path/other.sh");
    assert_eq!(found(absolute.to_str().unwrap()), Some(absolute));
    for missing in ["", "lib.rs", "/nowhere/step.sh", "own", "/"] {
        let error = executor.find_script(missing).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
    }
    let error = executor.find_script("x.sh").unwrap_err().to_string();
    let places: Vec<usize> = ["/own", "/config", "PATH"]
        .iter()
        .map(|place| error.find(place).unwrap())
        .collect();
    assert!(places.is_sorted(), "{error}");
}

#[test]
fn cancelling_an_ended_job_is_no_error() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    fakes.write(
        "scancel",
        "echo 'scancel: error: Kill job error on job id 1: Invalid job id specified' >&2; exit 1",
    );
    executor.cancel(&[job("1")]).unwrap();
    fakes.write(
        "scancel",
        "echo 'scancel: error: Kill job error on job id 1: Access/permission denied' >&2; exit 1",
    );
    let error = executor.cancel(&[job("1")]).unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    assert!(executor.cancel(&[job("local-1")]).is_err());
}

#[test]
fn the_smaller_of_both_limits_counts() {
    for (config, expected) in [
        ("MaxArraySize            = 1001\n", 1001),
        (
            "MaxArraySize = 101\nSchedulerParameters     = bf_interval=1,max_array_tasks=50\n",
            50,
        ),
        (
            "MaxArraySize = 3\nSchedulerParameters     = max_array_tasks=50,x\n",
            3,
        ),
        ("MaxArraySize = 0\n", 0),
        ("SchedulerParameters = (null)\n", 1001),
        ("", 1001),
    ] {
        assert_eq!(array_limit(config), expected, "{config}");
    }
}
