//! Complete passes: their time and calls, on one cluster and on several.

use std::time::Instant;

use super::*;
use crate::executor::JobReport;
use crate::model::state::Reason;

/// Far more than a pass with a deadline of a second may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn on(id: &str, cluster: &str) -> JobRef {
    JobRef {
        id: JobId::new(id),
        cluster: Some(Arc::from(cluster)),
    }
}

/// A shell line that prints one row of sacct about steps.
fn step(fields: &[&str; 7]) -> String {
    let fields = [&fields[..], &["long", "lab", "normal"]].concat();
    format!("printf '{}\\n'", fields.join("\\037"))
}

/// Answers about jobs with one text and about steps with another.
fn sacct(fakes: &Fakes, jobs: &[String], steps: &str) {
    fakes.write(
        "sacct",
        &format!(
            "echo \"$*\" >> \"$here/sacct.calls\"\ncase \"$*\" in *MaxRSS*) {steps} ;; *) {} ;; esac",
            jobs.join("; ")
        ),
    );
}

fn records(executor: &mut SlurmExecutor, question: &Question) -> (Vec<JobReport>, Vec<String>) {
    let observation = executor.observe(question);
    match observation.accounting {
        Answer::Got(jobs) => (jobs, observation.warnings),
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn ended_jobs_get_what_their_steps_used() {
    let fakes = Fakes::new();
    let jobs = [row("5", "COMPLETED", "a"), row("6", "RUNNING", "b")];
    let steps = [
        step(&["5", "COMPLETED", "0:0", "1700000000", "4", "", "00:61.500"]),
        step(&[
            "5.batch",
            "COMPLETED",
            "0:0",
            "1700000001",
            "4",
            "3000K",
            "01:01.500",
        ]),
    ];
    sacct(&fakes, &jobs, &steps.join("; "));
    let (jobs, warnings) = records(&mut fakes.executor(), &asked(&["5", "6"], None));
    assert_eq!(warnings, Vec::<String>::new());
    let facts = &jobs[0].facts;
    assert_eq!(
        (facts.max_rss_mb, facts.cpu_time_s, facts.alloc_cpus),
        (Some(3), Some(62), Some(4))
    );
    let place = [&facts.partition, &facts.account, &facts.qos].map(Option::as_deref);
    assert_eq!(place, [Some("long"), Some("lab"), Some("normal")]);
    assert_eq!(jobs[1].facts.alloc_cpus, None);
    let calls = fakes.read("sacct.calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 3, "and one about the fields: {calls:?}");
    assert!(
        calls[2].contains("--jobs=5 ") && !calls[2].contains("-X"),
        "{calls:?}"
    );
}

#[test]
fn without_an_answer_about_steps_only_the_usage_is_lost() {
    for steps in [
        "echo 'sacct: error: no' >&2; exit 1",
        "echo Welcome to our cluster",
    ] {
        let fakes = Fakes::new();
        let jobs = [row("5", "TIMEOUT", "a"), row("7", "CANCELLED by 0", "c")];
        sacct(&fakes, &jobs, steps);
        let (jobs, warnings) = records(&mut fakes.executor(), &asked(&["5", "7"], None));
        assert_eq!(jobs[0].phase, Phase::Failed(Reason::Timeout));
        assert_eq!(jobs[0].facts.max_rss_mb, None);
        // Its prolog may have failed.
        assert_eq!(jobs[1].phase, Phase::Unknown);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}

/// The steps were purged, or never written.
#[test]
fn e14_a_cancel_without_steps_is_a_cancel_after_a_minute() {
    let fakes = Fakes::new();
    let recent = crate::base::sys::now().timestamp().to_string();
    let jobs = [
        row("5", "CANCELLED by 0", "a"),
        row("6", "CANCELLED by 0", "b").replace("1700000070", &recent),
    ];
    sacct(&fakes, &jobs, "true");
    let (jobs, _) = records(&mut fakes.executor(), &asked(&["5", "6"], None));
    let phases: Vec<Phase> = jobs.iter().map(|job| job.phase).collect();
    assert_eq!(phases, [Phase::Failed(Reason::Cancelled), Phase::Unknown]);
}

#[test]
fn a_failed_prolog_is_distinguished_from_a_cancel() {
    let fakes = Fakes::new();
    let jobs = [
        row("5", "CANCELLED by 0", "a"),
        row("6", "CANCELLED by 0", "b"),
        row("7", "CANCELLED by 1000", "c"),
    ];
    let line = |id, code| step(&[id, "CANCELLED", code, "1700000000", "1", "", "00:00:00"]);
    let steps = [
        line("5", "0:0"),
        line("5.batch", ""),
        line("6", "0:0"),
        line("6.batch", "0:15"),
        line("7", "0:0"),
    ];
    sacct(&fakes, &jobs, &steps.join("; "));
    let (jobs, _) = records(&mut fakes.executor(), &asked(&["5", "6", "7"], None));
    let phases: Vec<Phase> = jobs.iter().map(|job| job.phase).collect();
    assert_eq!(
        phases,
        [
            Phase::Failed(Reason::LaunchFailed),
            Phase::Failed(Reason::Cancelled),
            Phase::Failed(Reason::Cancelled)
        ]
    );
}

#[test]
fn nothing_outlasts_the_deadline_of_a_pass() {
    let fakes = Fakes::new();
    for name in ["sbatch", "squeue", "sacct", "scancel"] {
        fakes.write(name, "exec sleep 600");
    }
    let since = Instant::now();
    let mut executor = fakes.executor();
    executor.set_deadline(Duration::from_millis(300));
    let observation = executor.observe(&asked(&["5"], None));
    assert!(matches!(observation.queue, Answer::Failed(_)));
    executor.set_deadline(Duration::from_millis(300));
    assert!(in_doubt(&executor.submit(&[&request()], None)));
    // A submission that was not started was certainly not accepted.
    let submission = executor.submit(&[&request()], None);
    let kind = Refusal::Transient;
    assert!(
        matches!(&submission, Submission::Refused { kind: found, .. } if *found == kind),
        "{submission:?}"
    );
    executor.set_deadline(Duration::from_millis(300));
    assert!(executor.cancel(&[job("5"), on("6", "x")]).is_err());
    assert!(since.elapsed() < PATIENCE);
}

#[test]
fn a_program_that_did_not_answer_is_not_asked_again_in_this_pass() {
    let fakes = Fakes::new();
    for name in ["squeue", "sacct", "scancel"] {
        fakes.write(
            name,
            &format!("echo \"$*\" >> \"$here/{name}.calls\"; exec sleep 600"),
        );
    }
    let mut settings = fakes.settings();
    settings.query_timeout = Duration::from_millis(200);
    let mut executor = SlurmExecutor::new(settings);
    let question = Question {
        jobs: vec![on("5", "x"), on("6", "y")],
        search_from: DateTime::from_timestamp(1_700_000_000, 0),
        ..asked(&["4"], Some("3"))
    };
    let calls = |name: &str| fakes.read(&format!("{name}.calls")).lines().count();
    executor.set_deadline(PATIENCE);
    executor.observe(&question);
    assert_eq!((calls("squeue"), calls("sacct")), (1, 0));
    assert!(executor.cancel(&question.jobs).is_err());
    assert_eq!(calls("scancel"), 1);
    fakes.write("squeue", "");
    executor.set_deadline(PATIENCE);
    executor.observe(&question);
    assert_eq!(calls("sacct"), 1);
}

#[test]
fn every_cluster_is_asked_for_its_own_jobs() {
    let fakes = Fakes::new();
    for name in ["squeue", "scancel"] {
        fakes.write(name, &format!("echo \"$*\" >> \"$here/{name}.calls\""));
    }
    // The same id on two clusters is two jobs.
    fakes.write(
        "sacct",
        &format!(
            "echo \"$*\" >> \"$here/sacct.calls\"\ncase \"$*\" in --helpformat) echo JobID ;; *MaxRSS*) ;;\n\
             --clusters=x*--jobs=*) {} ;; *--jobs=*) {} ;; esac",
            row("5", "RUNNING", "on_x"),
            row("5", "FAILED", "here")
        ),
    );
    let mut executor = fakes.executor();
    let question = Question {
        jobs: vec![job("5"), on("5", "x")],
        search_from: DateTime::from_timestamp(1_700_000_000, 0),
        clusters: vec![Arc::from("y"), Arc::from("x")],
        ..asked(&[], None)
    };
    let (jobs, _) = records(&mut executor, &question);
    let mut found: Vec<(Option<&str>, &str)> = jobs
        .iter()
        .map(|job| (job.facts.cluster.as_deref(), job.name.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(None, "here"), (Some("x"), "on_x")]);
    let of = |program: &str, word: &str| -> Vec<String> {
        let calls = fakes.read(&format!("{program}.calls"));
        let mut clusters: Vec<String> = calls
            .lines()
            .filter(|call| call.contains(word))
            .map(|call| {
                let first = call.split(' ').next().unwrap_or_default();
                first.strip_prefix("--clusters=").unwrap_or("-").to_owned()
            })
            .collect();
        clusters.sort_unstable();
        clusters
    };
    assert_eq!(of("squeue", "--user="), ["-", "x", "y"]);
    assert_eq!(of("sacct", "--uid=1000 --starttime="), ["-", "x", "y"]);
    assert_eq!(of("sacct", "--uid=1000 --jobs="), ["-", "x"]);
    assert_eq!(of("sacct", "MaxRSS"), ["-"], "the job on x runs");
    executor.cancel(&question.jobs).unwrap();
    assert_eq!(of("scancel", ""), ["-", "x"]);
}

#[test]
fn the_queue_shows_a_failed_dependency_that_accounting_lacks() {
    let fakes = Fakes::new();
    let line = |id: &str| {
        format!(
            "printf '{id}\\037CANCELLED\\037DependencyNeverSatisfied\\0371700000000\\037N/A\\0371700000070\\037\\0371:00\\037\\037a\\n'"
        )
    };
    fakes.write("squeue", &[line("5"), line("6")].join("; "));
    let jobs: Vec<String> = [("5", "CANCELLED"), ("6", "CANCELLED by 1000")]
        .iter()
        .map(|(id, state)| row(id, state, "a").replace("n1", "None assigned"))
        .collect();
    sacct(&fakes, &jobs, "");
    let (jobs, _) = records(&mut fakes.executor(), &asked(&["5", "6"], None));
    let phases: Vec<Phase> = jobs.iter().map(|job| job.phase).collect();
    assert_eq!(
        phases,
        [
            Phase::Failed(Reason::Dependency),
            Phase::Failed(Reason::Cancelled)
        ]
    );
}
