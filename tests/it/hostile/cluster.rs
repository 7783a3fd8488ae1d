//! A real Slurm, and variables that would change what its commands do or answer.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness_slurm::cluster;

/// Each of them alone makes a naive caller lose its jobs: an empty answer, an array instead of a job, an sbatch
/// that waits, times without a date, an unknown cluster.
const STEERING: [(&str, &str); 9] = [
    ("SQUEUE_STATES", "SUSPENDED"),
    ("SQUEUE_USERS", "nobody"),
    ("SQUEUE_FORMAT", "%j"),
    ("SBATCH_WAIT", "1"),
    ("SBATCH_ARRAY_INX", "1-3"),
    ("SLURM_TIME_FORMAT", "relative"),
    ("SACCT_FORMAT", "JobName"),
    ("SLURM_CLUSTERS", "nowhere"),
    ("SBATCH_EXPORT", "NONE"),
];

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn steering_variables_do_not_reach_a_real_slurm() {
    let Some(cluster) = cluster() else { return };
    let mut study = cluster.study(
        "procedures: [{name: steered, output_dir: out, script: step.sh, completion_marker: done}]\n",
    );
    study
        .env
        .extend(STEERING.map(|(name, value)| (name.to_owned(), value.to_owned())));
    study.env.push(("SITE_WORD".into(), "passes".into()));
    // The site's own variable arrives, and the job is no array task.
    study.script(
        "step.sh",
        "[ \"$SITE_WORD\" = passes ]\n[ -z \"${SLURM_ARRAY_TASK_ID:-}\" ]\n\
         mkdir -p \"$SNBB_OUTPUT_DIR\"\necho \"$SLURM_JOB_ID\" > \"$SNBB_OUTPUT_DIR/done\"",
    );
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.ok(&["run"]);
    let since = Instant::now();
    let complete = [
        "steered sub-01 ses-01: complete verified",
        "steered sub-02 ses-01: complete verified",
    ];
    loop {
        study.ok(&["monitor"]);
        let statuses = study.statuses();
        if statuses == complete {
            break;
        }
        assert!(
            statuses.len() == 2 && !statuses.iter().any(|line| line.contains("failed")),
            "{statuses:?}"
        );
        assert!(since.elapsed() < PATIENCE, "still {statuses:?}");
        sleep(Duration::from_millis(500));
    }
    for row in study.rows() {
        let path = format!(
            "derivatives/out/{}/{}/done",
            row["subject"].as_str().unwrap(),
            row["session"].as_str().unwrap()
        );
        assert_eq!(study.read(&path).trim(), row["job_id"].as_str().unwrap());
    }
    study.ok(&["run"]);
    assert_eq!(study.rows().len(), 2, "nothing is submitted again");
}
