//! What no cluster can be made to do on demand: commands that hang, and very many jobs.

use std::fs;

use super::*;
use crate::fake_slurm::FakeSlurm;
use crate::harness::executable;

const STEP: &str = "procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done}
";

/// A hanging command of the fake's sleeps for many minutes; a call that waits for it fails the test.
fn in_time(study: &Study, arguments: &[&str]) -> Said {
    let since = Instant::now();
    let said = study.call(arguments);
    assert!(since.elapsed() < PATIENCE, "{arguments:?}: {}", said.err);
    said
}

#[test]
fn a_pass_ends_in_order_whatever_hangs() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEP);
    study.script("job.sh", "true");
    study.scan(&["sub-1/ses-1", "sub-2/ses-1", "sub-3/ses-1", "sub-4/ses-1"]);
    study.ok(&["run", "--max-jobs", "1"]);
    slurm.set_all("RUNNING");
    study.ok(&["monitor"]);
    let running = "job sub-1 ses-1: running running".to_owned();
    study.configure(&format!("deadline: 3s\n{STEP}"));
    let hang = |program: &str| fs::write(slurm.at(format!("{program}.hang")), "").unwrap();
    let heal = |program: &str| fs::remove_file(slurm.at(format!("{program}.hang"))).unwrap();

    hang("squeue");
    for command in ["run", "monitor"] {
        let said = in_time(&study, &[command]);
        assert_eq!(said.code, 5, "{command}: {}", said.err);
        assert!(said.err.contains("squeue"), "{}", said.err);
        assert_eq!(study.statuses(), [running.as_str()]);
    }
    let said = in_time(&study, &["run", "--skip-monitor"]);
    assert_eq!(said.code, 5, "{}", said.err);
    let said = in_time(&study, &["cancel", "--all"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("scancel"), 0);
    let said = in_time(&study, &["wait", "--timeout", "1s"]);
    assert_eq!(said.code, 124, "{}", said.err);
    let said = in_time(&study, &["retry", "--status", "running"]);
    assert_eq!(said.code, 1, "nobody knows whether it lives: {}", said.err);
    assert_eq!(study.statuses(), [running.as_str()]);
    heal("squeue");

    hang("sacct");
    for command in ["run", "monitor"] {
        let calls = slurm.calls("sacct");
        let said = in_time(&study, &[command]);
        assert_eq!(said.code, 5, "{command}: {}", said.err);
        assert!(said.err.contains("sacct"), "{}", said.err);
        assert_eq!(slurm.calls("sacct"), calls + 1, "Slurm is waited for once");
        assert!(study.statuses().contains(&running));
    }
    heal("sacct");

    // An sbatch that was ended may have been heard: its task waits until that is known.
    hang("sbatch");
    in_time(&study, &["run"]);
    let doubts = |study: &Study| {
        study
            .statuses()
            .iter()
            .filter(|s| s.ends_with("pending submitting"))
            .count()
    };
    let in_doubt = doubts(&study);
    assert!((1..=3).contains(&in_doubt), "{:?}", study.statuses());
    assert!(study.at("state.parquet").exists());
    assert!(
        !study.at("state.journal.jsonl").exists(),
        "what is known was saved"
    );
    heal("sbatch");
    let said = study.ok(&["run"]);
    assert_eq!(doubts(&study), in_doubt, "{}", said.err);
    assert_eq!(
        study.statuses().len(),
        4,
        "the others are submitted, each once"
    );
    assert_eq!(slurm.jobs().len(), 4 - in_doubt);

    hang("scancel");
    let said = in_time(&study, &["cancel", "--all"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains("scancel"), "{}", said.err);
}

/// A frozen Slurm costs the calls of one query, and a healthy one as many as it must.
#[test]
fn twenty_thousand_jobs_take_twenty_calls() {
    const JOBS: usize = 20_000;
    let mut study = Study::new();
    FakeSlurm::new(&mut study);
    study.configure(STEP);
    study.script("job.sh", "true");
    let path = study.at("state.parquet");
    let store = snbb_scheduler::store::state_file::Store::at(&path).unwrap();
    let locked = store.lock("test", Duration::ZERO).unwrap();
    let mut state = locked.read().unwrap();
    // The end of a job is asked for again for a day.
    let now = snbb_scheduler::base::sys::now() - chrono::Duration::days(2);
    for n in 0..JOBS {
        let mut row = crate::state::bare_row(
            &format!("sub-{n:05}"),
            "job",
            snbb_scheduler::model::state::TaskStatus::Running,
        );
        row.key.session = "ses-1".into();
        row.job_name = Some(row.key.job_name().into());
        row.job_id = Some(snbb_scheduler::model::job::JobId::new(
            &(100_000 + n).to_string(),
        ));
        row.submitted_at = Some(now);
        row.attempt = Some(1);
        row.reason = Some(snbb_scheduler::model::state::Reason::Running);
        row.submission_id = Some(format!("{n:016x}").as_str().into());
        if n == JOBS - 1 {
            row.job_id = None;
            row.status = snbb_scheduler::model::state::TaskStatus::Pending;
            row.reason = Some(snbb_scheduler::model::state::Reason::Submitting);
        }
        state.put(row);
    }
    locked.save(&mut state).unwrap();
    drop(locked);

    let bin = study.at("fake-slurm/bin");
    let fake = |name: &str, body: &str| {
        let text = format!(
            "#!/bin/bash\necho {name} \"$@\" >> {0}/calls\n{body}\n",
            study.dir.path().display()
        );
        fs::write(bin.join(name), text).unwrap();
        executable(&bin.join(name));
    };
    let now = now.timestamp();
    let row = |state: &str| {
        format!(
            r#"awk -v RS=, -v OFS="$S" -v t={now} '{{ n = sprintf("%05d", $1 - 100000);
            print $1, "{state}", "1:0", t, t, t, 5, 60, "50M", 1, 1, "n1", "None", "", "job_sub-" n "_ses-1" }}'"#
        )
    };
    let steps = format!(
        r#"awk -v RS=, -v OFS="$S" -v t={now} '{{ print $1 + 0, "FAILED", "1:0", t, 2, "", "00:01.000", "long", "lab", "normal";
            print ($1 + 0) ".batch", "FAILED", "1:0", t, 2, "7000K", "00:01.000", "long", "lab", "normal" }}'"#
    );
    fake("squeue", "");
    fake(
        "sacct",
        &format!(
            r#"case "$*" in *--helpformat*) echo JobID SubmitLine; exit;; *--jobs=*) ;; *) exit;; esac
            for a in "$@"; do case $a in --jobs=*) ids=${{a#*=}};; --delimiter=*) S=${{a#*=}};; esac; done
            case "$*" in *MaxRSS*) echo -n "$ids" | {steps};; *) echo -n "$ids" | {};; esac"#,
            row("FAILED")
        ),
    );
    study.ok(&["monitor"]);
    let calls = study.read("calls");
    let count = |wanted: &str| calls.lines().filter(|line| line.contains(wanted)).count();
    assert_eq!(count("squeue"), 2, "the queue, and a search");
    assert_eq!(count("--helpformat"), 1);
    assert_eq!(
        count("-X -D"),
        20 + 1,
        "one per thousand jobs, and a search"
    );
    assert_eq!(count("MaxRSS"), 20);
    assert_eq!(calls.lines().count(), 2 + 1 + 21 + 20);
    let rows = study.rows();
    let failed: Vec<_> = rows
        .iter()
        .filter(|row| row["status"] == "failed")
        .collect();
    assert_eq!(failed.len(), JOBS - 1);
    assert!(failed.iter().all(|row| row["max_rss_mb"] == 7
        && row["cpu_time_s"] == 1
        && row["alloc_cpus"] == 2
        && [&row["partition"], &row["account"], &row["qos"]] == ["long", "lab", "normal"]
        && (&row["req_cpus"], &row["exit_status"], &row["signal"])
            == (&1.into(), &1.into(), &serde_json::Value::Null)
        && row["reason"] == "exit_code"));

    // Nothing in flight but the doubt: no call per job of the past.
    fs::remove_file(study.at("calls")).unwrap();
    study.ok(&["monitor"]);
    assert_eq!(
        study.read("calls").lines().count(),
        5,
        "{}",
        study.read("calls")
    );
}

/// A procedure that submits to another cluster: its jobs are looked for there.
#[test]
fn jobs_on_another_cluster_are_found_adopted_and_cancelled_there() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(
        "procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done, sbatch_args: [-M, 'far,near']}
",
    );
    study.script("job.sh", "true");
    study.scan(&["sub-1/ses-1", "sub-2/ses-1"]);
    // Jobs exist on `far` only; the fake itself knows no clusters.
    let bin = slurm.at("bin");
    for program in ["sbatch", "squeue", "sacct", "scancel"] {
        let real = bin.join(format!("{program}.real"));
        fs::create_dir_all(&real).unwrap();
        fs::rename(bin.join(program), real.join(program)).unwrap();
        let text = format!(
            "#!/bin/bash\necho {program} \"$@\" >> {study}/calls\nexport D={fake}\n\
             case {program}:$* in sbatch:*) {real}/{program} \"$@\" | sed 's/$/;far/' ;;\n\
             *:--helpformat*) exec {real}/{program} \"$@\" ;;\n\
             *:--clusters=far*) shift; exec {real}/{program} \"$@\" ;; esac\n",
            study = study.dir.path().display(),
            fake = slurm.at("").display(),
            real = real.display(),
        );
        fs::write(bin.join(program), text).unwrap();
        executable(&bin.join(program));
        // It finds its files beside itself.
        let own = real.join(program);
        let text = fs::read_to_string(&own)
            .unwrap()
            .replace("D=$(dirname \"$(dirname \"$0\")\")", ":");
        fs::write(own, text).unwrap();
    }
    // The second answer is lost.
    slurm.silent(2);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("1 submitted"), "{}", said.err);
    assert_eq!(row(&study, "job", "sub-1")["cluster"], "far");
    study.ok(&["monitor"]);
    for subject in ["sub-1", "sub-2"] {
        let row = row(&study, "job", subject);
        assert_eq!(row["cluster"], "far", "{row}");
        assert!(row["job_id"].is_string(), "{row}");
    }
    let calls = study.read("calls");
    for wanted in [
        "squeue --all",
        "squeue --clusters=far --all",
        "squeue --clusters=near --all",
        "sacct --clusters=near -X -D -n -p",
    ] {
        assert!(calls.contains(wanted), "{wanted}: {calls}");
    }
    // A state that was lost: the living jobs are adopted on their cluster.
    fs::remove_file(study.at("state.parquet")).unwrap();
    let said = study.ok(&["run"]);
    assert!(said.err.contains("0 submitted"), "{}", said.err);
    assert_eq!(row(&study, "job", "sub-2")["cluster"], "far");
    study.ok(&["cancel", "--subject", "1"]);
    let calls = study.read("calls");
    let id = job_id(&study, "job", "sub-1");
    assert!(
        calls.contains(&format!("scancel --clusters=far {id}")),
        "{calls}"
    );
    assert_eq!(
        study.statuses(),
        [
            "job sub-1 ses-1: failed cancelled",
            "job sub-2 ses-1: pending queued"
        ]
    );
}
