//! `efficiency`, through the program.

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::in_terminal;

fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(
        "output_grace: 0s\nprocedures:\n  - {name: bids, output_dir: bids, script: job.sh}\n  \
         - {name: prep, output_dir: prep, script: job.sh}\n",
    );
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.script("job.sh", "true");
    study.ok(&["run", "-q"]);
    for (job, memory) in [(1001, "50M"), (1002, "32G"), (1003, "1G")] {
        slurm.set(&job.to_string(), &format!("FAILED 1:0 {memory}"));
    }
    study.ok(&["monitor", "-q"]);
    (study, slurm)
}

#[test]
fn jobs_come_by_waste_in_each_format() {
    let (study, _slurm) = study();
    let json = study
        .ok(&["efficiency", "--by", "job", "--format", "json"])
        .out;
    let jobs: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let ids: Vec<_> = jobs
        .iter()
        .map(|job| job["job_id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        ["1002", "1003", "1001"],
        "the job in the queue has not ended"
    );
    let first = &jobs[0];
    assert_eq!(
        (&first["mem_pct"], &first["queue_wait_s"]),
        (&0.into(), &0.into())
    );
    assert_eq!(jobs[2]["mem_pct"], 4);
    assert!(first["waste_h"].as_f64().unwrap() > 0.01, "{first}");
    let csv = study.ok(&[
        "efficiency",
        "--by",
        "job",
        "--format",
        "csv",
        "--limit",
        "1",
    ]);
    assert_eq!(csv.out.lines().count(), 2);
    assert!(csv.out.starts_with(
        "procedure,subject,session,attempt,job_id,status,reason,submitted_at,queue_wait_s,elapsed_s,time_limit_s,\
         time_pct,alloc_cpus,cpu_time_s,cpu_pct,req_mem_mb,max_rss_mb,mem_pct,waste_h\n"
    ));
    let none = study.ok(&[
        "efficiency",
        "--by",
        "job",
        "--procedure",
        "prep",
        "--subject",
        "02",
    ]);
    insta::assert_snapshot!("efficiency_of_nothing", none.err);
}

#[test]
fn shares_are_coloured_on_a_terminal_only() {
    let (study, _slurm) = study();
    let words = ["efficiency", "--by", "job"];
    let text = in_terminal(&study, 150, &words);
    let row = text.lines().find(|line| line.contains("1001")).unwrap();
    // Two of fifty MB is less than a fifth: red.
    assert!(row.contains("\u{1b}[91m"), "{row:?}");
    assert!(!study.ok(&words).out.contains('\u{1b}'));
}

#[test]
fn procedures_have_a_row_per_resource() {
    let (study, slurm) = study();
    for subject in ["01", "02"] {
        study.write(&format!("derivatives/prep/sub-{subject}/ses-01/x"), "x");
    }
    slurm.set("1004", "COMPLETED 0:0 1G");
    study.ok(&["monitor", "-q"]);
    let csv = study.ok(&["efficiency", "--format", "csv"]).out;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "procedure,resource,n,p50,p90,p95,max,asked,over,short,suggested,suggested_line,verdict,waste_h"
    );
    let rows: Vec<String> = lines[1..]
        .iter()
        .map(|line| line.split(',').take(8).collect::<Vec<_>>().join(","))
        .collect();
    assert_eq!(
        rows,
        [
            "prep,memory,1,2,2,2,2,1024",
            "prep,time,1,12,12,12,12,3600",
            "prep,cpu,1,16,16,16,16,1"
        ]
    );
    let table = study.ok(&["efficiency"]).out;
    assert!(table.contains("1:00:00"), "{table}");
    assert!(
        study
            .ok(&["audit", "--efficiency"])
            .out
            .contains("prep       memory")
    );
}
