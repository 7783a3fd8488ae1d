//! Answers of Slurm that hold more than jobs of the study: texts of other jobs, pages of a proxy, output without end,
//! jobs of another user, of a study with the same name, and of a Slurm that has forgotten them.

use std::fs;
use std::time::{Duration, Instant};

use snbb_scheduler::store::lock::Lock;
use snbb_scheduler::store::state_file::Store;

use crate::check::{Found, trouble};
use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};
use crate::harness_slurm::private_cluster;
use crate::pretty::problems;

const ONE: &str = "\
slurm_partition: normal
settle_time: 0s
output_grace: 0s
procedures:
  - {name: a, output_dir: a, script: a.sh, completion_marker: done}
";

fn study(config: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("a.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    (study, slurm)
}

/// Puts a shell script in front of one of Slurm's programs, which it finds as `$REAL`.
fn wrap(study: &mut Study, program: &str, body: &str) {
    let real = study.at("fake-slurm/bin").join(program);
    let path = format!("front/{program}");
    study.write(
        &path,
        &format!("#!/bin/bash\nREAL={}\n{body}\n", real.display()),
    );
    executable(&study.at(&path));
    let front = study.at("front");
    if study.path[0] != front {
        study.path.insert(0, front);
    }
}

#[test]
fn a3_texts_of_other_jobs_cost_no_answer() {
    let Some(cluster) = private_cluster("texts") else {
        return;
    };
    let study = cluster.study("procedures:\n  - {name: texts, output_dir: texts, script: a.sh, completion_marker: done}\n");
    study.script(
        "a.sh",
        "mkdir -p \"$SNBB_OUTPUT_DIR\"; touch \"$SNBB_OUTPUT_DIR/done\"",
    );
    study.scan(&["sub-01/ses-01"]);
    let texts = [
        "x\ny",
        "x\u{1f}y\n12\u{1f}RUNNING\u{1f}None\u{1f}1\u{1f}",
        "\n\n7|8\r\n",
    ];
    let others: Vec<String> = texts
        .iter()
        .map(|text| {
            let comment = format!("--comment={text}");
            let name = format!("--job-name=n{text}");
            let options = [
                "--parsable",
                &comment,
                &name,
                "--output=/dev/null",
                "--wrap=sleep 60",
            ];
            cluster.run("sbatch", &options).trim().to_owned()
        })
        .collect();
    study.ok(&["run"]);
    let ends = study.until(&["monitor"], Duration::from_secs(60), |rows| {
        rows.iter().all(|row| row.contains("complete"))
    });
    assert_eq!(ends, ["texts sub-01 ses-01: complete verified"]);
    for other in others {
        cluster.run("scancel", &[&other]);
    }
}

#[test]
fn e4_an_answer_with_text_that_is_no_job_releases_nothing() {
    let mut told = Vec::new();
    for body in [
        "echo '<html><body>502 Bad Gateway</body></html>'",
        "echo 'JOBID STATE NAME'; exec \"$REAL\" \"$@\"",
        "\"$REAL\" \"$@\"; echo 'slurm_load_jobs error: Unable to contact slurm controller'",
    ] {
        let (mut study, slurm) = study(ONE);
        slurm.silent(1);
        study.call(&["run"]);
        assert_eq!(study.statuses(), ["a sub-01 ses-01: pending submitting"]);
        wrap(&mut study, "squeue", body);
        for turn in 0..3 {
            let said = study.call(&["run"]);
            assert_eq!(said.code, 5, "{body}: {}", said.err);
            if turn == 0 {
                told.push(problems(&study, &said.err));
            }
        }
        assert_eq!(slurm.calls("sbatch"), 1, "{body}");
        fs::remove_file(study.at("front/squeue")).unwrap();
        study.ok(&["run"]);
        assert_eq!(study.statuses(), ["a sub-01 ses-01: pending queued"]);
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn e18_output_without_end_is_no_answer() {
    for (program, code, part) in [
        ("squeue", 5, "squeue printed more than 128 MiB"),
        ("sacct", 5, "sacct printed more than 128 MiB"),
        ("sbatch", 0, "sbatch printed more than"),
    ] {
        let (mut study, slurm) = study(ONE);
        if program != "sbatch" {
            study.ok(&["run"]);
        }
        let calls = slurm.calls("sbatch");
        wrap(&mut study, program, "exec yes 1");
        let began = Instant::now();
        let said = study.call(&["run"]);
        assert!(said.err.contains(part), "{program}: {}", said.err);
        assert_eq!(said.code, code, "{program}: {}", said.err);
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(slurm.calls("sbatch"), calls);
    }
}

#[test]
fn e6_queries_ask_for_the_jobs_of_the_owner() {
    let (mut study, _slurm) = study(ONE);
    study.ok(&["run"]);
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let locked = store.locked_by(Lock::unlocked());
    let mut state = locked.read().unwrap();
    state.meta.owner_uid = Some(4711);
    let row = state.rows()[0].clone();
    state.put(row);
    locked.save(&mut state).unwrap();
    let log = study.at("asked");
    for program in ["squeue", "sacct"] {
        let body = format!(
            "echo {program} \"$@\" >> {}; exec \"$REAL\" \"$@\"",
            log.display()
        );
        wrap(&mut study, program, &body);
    }
    study.ok(&["monitor", "--as-owner"]);
    let asked = study.read("asked");
    let me = snbb_scheduler::base::sys::effective_uid();
    assert!(asked.contains(&format!("--user=4711,{me} ")), "{asked}");
    assert!(!asked.contains(&format!("id={me} ")), "{asked}");
}

#[test]
fn a7_a_site_without_accounting_learns_what_to_set() {
    let (study, slurm) = study(ONE);
    slurm.break_program("sacct", "sacct: error: Connection refused");
    study.ok(&["run"]);
    slurm.set("1001", "GONE");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains("`accounting: off`"), "{}", said.err);
    assert!(!said.err.contains("slurm_bin_dir"), "{}", said.err);
    study.configure(&format!("accounting: off\n{ONE}"));
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn c11_a_job_that_slurm_has_forgotten_is_cleared_at_a_persons_word() {
    let (study, slurm) = study(ONE);
    study.ok(&["run"]);
    let pending = ["retry", "--status", "pending"];
    assert_eq!(study.call(&pending).code, 1, "it waits in the queue");
    slurm.set("1001", "GONE");
    slurm.break_program("sacct", "sacct: error: Connection refused");
    assert_eq!(study.call(&pending).code, 1, "accounting is not responding");
    slurm.heal("sacct");
    study.ok(&pending);
    assert_eq!(study.statuses(), [""; 0]);
    study.ok(&["run"]);
    slurm.set("1002", "GONE");
    study.ok(&["cancel", "--all"]);
    assert_eq!(study.statuses(), ["a sub-01 ses-01: failed cancelled"]);
    assert_eq!(slurm.calls("sbatch"), 2);
}

#[test]
fn c11_a_job_that_was_submitted_a_moment_ago_is_not_cleared() {
    let (study, slurm) = study(&ONE.replace("settle_time: 0s", "settle_time: 5m"));
    study.ok(&["run"]);
    slurm.set("1001", "GONE");
    assert_eq!(study.call(&["retry", "--status", "pending"]).code, 1);
}

#[test]
fn e12_an_end_without_known_markers_proves_nothing() {
    let both =
        format!("{ONE}  - {{name: b, output_dir: b, script: a.sh, completion_marker: done}}\n");
    let without = both.replace("name: a, output_dir: a", "name: c, output_dir: c");
    let (study, slurm) = study(&both);
    let first = || study.statuses().remove(0);
    study.ok(&["run"]);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["a_sub-01_ses-01", "b_sub-01_ses-01"]);
    study.configure(&without);
    slurm.set("1001", "COMPLETED");
    study.ok(&["monitor"]);
    assert_eq!(first(), "a sub-01 ses-01: complete unverified");
    study.configure(&both);
    for _ in 0..3 {
        study.call(&["run"]);
        assert_eq!(first(), "a sub-01 ses-01: failed no_output");
    }
    assert_eq!(slurm.calls("sbatch"), 2);

    study.ok(&["retry", "--procedure", "a"]);
    study.ok(&["run"]);
    study.configure(&without);
    slurm.set("1003", "COMPLETED");
    study.ok(&["monitor"]);
    study.write("derivatives/a/sub-01/ses-01/done", "");
    study.configure(&both);
    study.ok(&["monitor"]);
    assert_eq!(first(), "a sub-01 ses-01: complete verified");
}

#[test]
fn e15_studies_of_one_name_leave_each_others_jobs_alone() {
    let named = format!("project: memory\n{ONE}");
    let (first, slurm) = study(&named);
    first.ok(&["run"]);
    let mut second = Study::new();
    second.path.insert(0, slurm.at("bin"));
    second.configure(&named);
    second.script("a.sh", "true");
    second.scan(&["sub-02/ses-01"]);
    let found = trouble(&second, &[]);
    let is_namesake = |it: &Found| (it.level.as_str(), it.about.as_str()) == ("warning", "project");
    assert!(found.iter().any(is_namesake), "{found:#?}");
    let said = second.ok(&["run"]);
    assert!(said.err.contains("memory@"), "{}", said.err);
    // A session of the first study's name: its job is not this one's.
    second.scan(&["sub-01/ses-01"]);
    second.ok(&["run"]);
    assert_eq!(second.rows().len(), 2);
    assert_eq!(slurm.jobs().len(), 3, "each submits its own");
    let tags: std::collections::BTreeSet<String> = slurm
        .argv()
        .lines()
        .filter_map(|line| {
            Some(
                line.split("--comment=")
                    .nth(1)?
                    .split(':')
                    .nth(1)?
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(tags.len(), 2, "{tags:?}");

    // A job in flight from a release without marks is the first study's own.
    let tag = tags
        .iter()
        .find(|tag| first.read("scheduler_audit.jsonl").contains(tag.as_str()));
    let job = fs::read_to_string(slurm.at("jobs/1001")).unwrap();
    fs::write(
        slurm.at("jobs/1001"),
        job.replace(tag.unwrap().as_str(), "memory"),
    )
    .unwrap();
    for file in [
        "state.parquet",
        "state.parquet.bak",
        "scheduler_audit.jsonl",
    ] {
        let _ = fs::remove_file(first.at(file));
    }
    first.ok(&["run"]);
    let rows = first.rows();
    assert_eq!(
        rows[0]["job_id"].as_str(),
        Some("1001"),
        "adopted: {rows:?}"
    );
}
