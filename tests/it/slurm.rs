//! The Slurm executor on a real cluster.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod refusals;
mod strangers;
mod watch;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use snbb_scheduler::base::sys;
use snbb_scheduler::executor::slurm::SlurmExecutor;
use snbb_scheduler::executor::{
    Answer, Executor, JobReport, JobRequest, Observation, Phase, Question, Refusal, Submission,
};
use snbb_scheduler::model::job::JobRef;
use snbb_scheduler::model::procedure::Resources;
use snbb_scheduler::model::state::{Reason, TaskKey};

use crate::harness_slurm::{Cluster, cluster};

/// Far more than anything takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory for one test's script and logs, open to all users.
struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lab = Self { dir };
        fs::write(lab.path("step.sh"), format!("#!/bin/bash\n{script}\n")).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn request(&self, job_name: &str) -> JobRequest {
        JobRequest {
            key: TaskKey::new("sub-0001", "ses-01", "test"),
            job_name: job_name.to_owned(),
            submission_id: format!("id-{job_name}"),
            project: "it".to_owned(),
            script: self.path("step.sh").to_str().unwrap().to_owned(),
            arguments: vec![self.dir.path().to_str().unwrap().to_owned()],
            env: [("SNBB_SUBJECT".to_owned(), "sub-0001".to_owned())].into(),
            resources: Resources {
                partition: Some("debug".to_owned()),
                account: Some("snbb".to_owned()),
                ..Resources::default()
            },
            log_dir: Some(self.path("logs")),
        }
    }

    fn request_with(&self, job_name: &str, sbatch_args: &[&str]) -> JobRequest {
        let mut request = self.request(job_name);
        request.resources.sbatch_args = sbatch_args.iter().map(|arg| (*arg).to_owned()).collect();
        request
    }
}

fn accepted(submission: Submission) -> JobRef {
    match submission {
        Submission::Accepted { job_id, cluster } => JobRef {
            id: job_id,
            cluster,
        },
        other => panic!("not accepted: {other:?}"),
    }
}

fn question(jobs: &[&JobRef]) -> Question {
    Question {
        jobs: jobs.iter().map(|job| (*job).clone()).collect(),
        since: Some(sys::now()),
        ..Question::default()
    }
}

fn of<'a>(answer: &'a Answer<Vec<JobReport>>, job: &JobRef) -> Option<&'a JobReport> {
    match answer {
        Answer::Got(jobs) => jobs.iter().find(|report| report.id == job.id),
        other => panic!("no answer: {other:?}"),
    }
}

/// Asks until the answer is as wanted.
fn ask_until(
    executor: &mut SlurmExecutor,
    question: &Question,
    wanted: impl Fn(&Observation) -> bool,
) -> Observation {
    let since = Instant::now();
    loop {
        let observation = executor.observe(question);
        assert_eq!(observation.warnings, Vec::<String>::new());
        if wanted(&observation) {
            return observation;
        }
        assert!(since.elapsed() < PATIENCE, "still {observation:?}");
        sleep(Duration::from_millis(300));
    }
}

fn queue_phase(observation: &Observation, job: &JobRef) -> Option<Phase> {
    of(&observation.queue, job).map(|report| report.phase)
}

/// Waits for a job's end in accounting and returns what that says.
fn end_of(executor: &mut SlurmExecutor, job: &JobRef) -> JobReport {
    let observation = ask_until(executor, &question(&[job]), |observation| {
        of(&observation.accounting, job).is_some_and(|report| !report.phase.is_live())
    });
    of(&observation.accounting, job).unwrap().clone()
}

const UNTIL_GO: &str = "while [ ! -e \"$1/go\" ]; do sleep 0.1; done";

#[test]
fn a_job_is_followed_from_its_start_to_its_end() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new(&format!("{UNTIL_GO}\necho \"$SNBB_SUBJECT\""));
    let mut executor = cluster.executor();
    let request = lab.request("whole_life");
    let before = sys::now();
    let job = accepted(executor.submit(&[&request], None));
    let asked = question(&[&job]);
    let observation = ask_until(&mut executor, &asked, |observation| {
        queue_phase(observation, &job) == Some(Phase::Running)
            && of(&observation.accounting, &job)
                .is_some_and(|report| report.phase == Phase::Running)
    });
    let report = of(&observation.queue, &job).unwrap();
    let tag = report.tag.as_ref().unwrap();
    assert_eq!(
        (tag.project.as_str(), tag.submission_id.as_str()),
        ("it", "id-whole_life")
    );
    assert_eq!(report.name, "whole_life");
    assert!(report.facts.started_at.is_some() && report.facts.ended_at.is_none());
    let submitted = report.submitted_at.unwrap();
    assert!((submitted - before).num_seconds().abs() < 60, "{submitted}");

    fs::write(lab.path("go"), "").unwrap();
    let report = end_of(&mut executor, &job);
    assert_eq!(report.phase, Phase::Completed);
    assert_eq!(report.facts.exit_code.as_deref(), Some("0:0"));
    assert_eq!(report.facts.req_mem_mb, Some(50));
    assert!(report.facts.ended_at >= report.facts.started_at);
    assert!(report.facts.node_list.is_some());
    let log = lab.path(&format!("logs/whole_life_{}.out", job.id));
    assert_eq!(fs::read_to_string(log).unwrap(), "sub-0001\n");

    // It is now a canary; an id that nobody knows is none.
    let mut with_canary = asked.clone();
    with_canary.canary = Some(job.clone());
    assert!(executor.observe(&with_canary).accounting.got().is_some());
    let nobodys = |id: &str| JobRef {
        id: snbb_scheduler::model::job::JobId::new(id),
        cluster: None,
    };
    with_canary.canary = Some(nobodys("66000000"));
    with_canary.jobs = vec![nobodys("66000001")];
    assert!(matches!(
        executor.observe(&with_canary).accounting,
        Answer::Failed(_)
    ));
}

#[test]
fn a8_a10_a_script_that_exports_nothing_sees_our_variables_and_a_sites_comment_stays() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("#SBATCH --export=NONE\nenv");
    let mut executor = SlurmExecutor::new(cluster.settings(&[("OF_THE_CALLER", "x")]));
    let request = lab.request_with("no_export", &[r#"--comment={"project":"p"}"#]);
    let job = accepted(executor.submit(&[&request], None));
    let seen = executor.observe(&question(&[&job]));
    let tag = of(&seen.queue, &job).unwrap().tag.as_ref().unwrap();
    assert_eq!(tag.submission_id, "id-no_export");
    let comment = cluster.run(
        "squeue",
        &["-h", "--states=all", "--format=%k", "-j", job.id.as_str()],
    );
    let comment: serde_json::Value = serde_json::from_str(comment.trim()).unwrap();
    assert_eq!(
        (&comment["project"], &comment["snbb"]),
        (&"p".into(), &"snbb:it:id-no_export".into())
    );

    assert_eq!(end_of(&mut executor, &job).phase, Phase::Completed);
    let log = fs::read_to_string(lab.path(&format!("logs/no_export_{}.out", job.id))).unwrap();
    assert!(log.contains("SNBB_SUBJECT=sub-0001\n"), "{log}");
    assert!(!log.contains("OF_THE_CALLER"), "{log}");
}

#[test]
fn each_bad_end_has_its_reason() {
    let Some(cluster) = cluster() else { return };
    let mut executor = cluster.executor();
    let memory = if cluster.has_memory_cgroup {
        Reason::OutOfMemory
    } else {
        // The polling watcher kills; Slurm calls that a plain failure.
        Reason::ExitCode
    };
    let cases = [
        (
            "exit_3",
            "exit 3",
            "--nice=0",
            Reason::ExitCode,
            Some("3:0"),
        ),
        (
            "killed",
            "kill -9 $$",
            "--nice=0",
            Reason::ExitCode,
            Some("0:9"),
        ),
        (
            "too_big",
            "echo 1000 > /proc/self/oom_score_adj; x=$(head -c 300000000 /dev/zero | tr '\\0' x); sleep 5; exit 1",
            "--mem=30M",
            memory,
            None,
        ),
        (
            "no_log_dir",
            "true",
            // Newer releases make a missing directory where they can.
            "--output=/proc/nowhere/%j",
            Reason::LaunchFailed,
            Some("0:53"),
        ),
    ];
    let labs: Vec<Lab> = cases.iter().map(|case| Lab::new(case.1)).collect();
    let jobs: Vec<JobRef> = cases
        .iter()
        .zip(&labs)
        .map(|(case, lab)| accepted(executor.submit(&[&lab.request_with(case.0, &[case.2])], None)))
        .collect();
    for ((name, _, _, reason, code), job) in cases.iter().zip(&jobs) {
        let report = end_of(&mut executor, job);
        assert_eq!(report.phase, Phase::Failed(*reason), "{name}: {report:?}");
        if let Some(code) = code {
            assert_eq!(report.facts.exit_code.as_deref(), Some(*code), "{name}");
        }
    }
}

#[test]
fn a_job_over_its_time_limit_has_timed_out() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("sleep 600");
    let mut executor = cluster.executor();
    let job = accepted(executor.submit(&[&lab.request_with("too_slow", &["--time=10"])], None));
    ask_until(&mut executor, &question(&[&job]), |observation| {
        queue_phase(observation, &job) == Some(Phase::Running)
    });
    // Limits have whole minutes and are looked at each half minute; this leaves the half minute only.
    cluster.end_time_limit(&job.id.to_string());
    let report = end_of(&mut executor, &job);
    assert_eq!(report.phase, Phase::Failed(Reason::Timeout));
    assert_eq!(report.facts.time_limit_s, Some(60));
}

#[test]
fn jobs_are_held_and_cancelled() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("sleep 600");
    let mut executor = cluster.executor();
    let held = accepted(executor.submit(&[&lab.request_with("held", &["--hold"])], None));
    let wide = accepted(executor.submit(
        &[&lab.request_with("wide", &["--cpus-per-task=1000"])],
        None,
    ));
    let runs = accepted(executor.submit(&[&lab.request("to_be_cancelled")], None));
    let asked = question(&[&held, &wide, &runs]);
    let observation = ask_until(&mut executor, &asked, |observation| {
        queue_phase(observation, &runs) == Some(Phase::Running)
            && queue_phase(observation, &wide) == Some(Phase::Held)
    });
    let report = of(&observation.queue, &held).unwrap();
    assert_eq!(report.phase, Phase::Held);
    assert_eq!(report.pending_reason.as_deref(), Some("JobHeldUser"));
    executor
        .cancel(&[held.clone(), wide.clone(), runs.clone()])
        .unwrap();
    for job in [&held, &wide, &runs] {
        let report = end_of(&mut executor, job);
        assert_eq!(report.phase, Phase::Failed(Reason::Cancelled));
        let word = report.facts.slurm_state.unwrap();
        assert!(word.starts_with("CANCELLED by "), "{word}");
    }
    // Ended jobs and unknown ones are no error.
    executor.cancel(&[held, runs]).unwrap();
}

#[test]
fn odd_names_and_paths_arrive_whole() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("printf '[%s]' \"$@\"");
    let mut executor = cluster.executor();
    let name = "a|b, %j c+d_é";
    let mut request = lab.request(name);
    request.log_dir = Some(lab.path("50% done/of it"));
    request.arguments = vec!["x y".to_owned(), String::new(), "$HOME'\"*".to_owned()];
    let job = accepted(executor.submit(&[&request], None));
    let report = end_of(&mut executor, &job);
    assert_eq!(report.name, name);
    assert_eq!(report.phase, Phase::Completed);
    let log = lab.path(&format!("50% done/of it/{name}_{}.out", job.id));
    assert_eq!(fs::read_to_string(log).unwrap(), "[x y][][$HOME'\"*]");
}

#[test]
fn refusals_are_told_apart() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("true");
    let mut executor = cluster.executor();
    let mut refused = |request: &JobRequest| match executor.submit(&[request], None) {
        Submission::Refused { kind, message } => (kind, message),
        other => panic!("not refused: {other:?}"),
    };
    let mut no_partition = lab.request("no_partition");
    no_partition.resources.partition = Some("nosuch".to_owned());
    let (kind, message) = refused(&no_partition);
    assert_eq!(kind, Refusal::Permanent);
    assert_eq!(
        message,
        "invalid partition specified: nosuch; Invalid partition name specified"
    );
    let mut no_account = lab.request("no_account");
    no_account.resources.account = Some("nosuch".to_owned());
    assert_eq!(refused(&no_account).0, Refusal::Permanent);
    for option in ["--bogus", "--time=soon", "--mem=900G", "--gres=gpu:1"] {
        let (kind, message) = refused(&lab.request_with("bad_option", &[option]));
        assert_eq!(kind, Refusal::Permanent, "{option}: {message}");
    }
    fs::write(lab.path("step.sh"), "echo no first line\n").unwrap();
    assert_eq!(refused(&lab.request("no_script")).0, Refusal::Permanent);

    fs::write(lab.path("step.sh"), "#!/bin/sh\n").unwrap();
    for arguments in [
        ["add", "qos", "narrow", "MaxSubmitJobsPerUser=1"].as_slice(),
        &["modify", "user", "root", "set", "qos+=narrow"],
    ] {
        cluster.run("sacctmgr", &[&["-i"], arguments].concat());
    }
    let mut executor = cluster.executor();
    let narrow = lab.request_with("narrow", &["--qos=narrow", "--hold"]);
    // The controller hears of the new quality of service a moment later.
    let since = Instant::now();
    let first = loop {
        match executor.submit(&[&narrow], None) {
            Submission::Accepted { job_id, cluster } => {
                break JobRef {
                    id: job_id,
                    cluster,
                };
            }
            other => assert!(since.elapsed() < PATIENCE, "{other:?}"),
        }
        sleep(Duration::from_millis(200));
    };
    match executor.submit(&[&narrow], None) {
        Submission::Refused { kind, .. } => assert_eq!(kind, Refusal::Limit),
        other => panic!("{other:?}"),
    }
    executor.cancel(&[first]).unwrap();
}
