//! A site of the Python program goes on with its own configuration, scripts, state and cron line.

use std::fs;
use std::path::Path;

use super::ROOT;
use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

/// The configuration as the Python program ships it, with other roots.
const SITE: &str = r#"
dicom_root: ROOT/dicom
bids_root: ROOT/bids
derivatives_root: ROOT/derivatives

slurm_partition: debug
slurm_account: snbb
slurm_mem: 32G
slurm_cpus_per_task: 8
slurm_log_dir: ROOT/logs/slurm

state_file: ROOT/.scheduler_state.parquet
log_file: null
qsirecon_spec: null
sessions_file: null

procedures:
  - name: bids
    output_dir: ""
    script: snbb_run_bids.sh
    scope: session
    depends_on: []
    completion_marker:
      - "anat/*_T1w.nii.gz"
      - "func/*task-rest_bold.nii.gz"
  - name: bids_post
    output_dir: ""
    script: snbb_run_bids_post.sh
    depends_on: [bids]
    completion_marker: "fmap/*acq-dwi*_epi.nii.gz"
  - name: freesurfer
    output_dir: freesurfer
    script: snbb_run_freesurfer.sh
    scope: subject
    depends_on: [bids_post]
    completion_marker: null

audit:
  dicom_min_files: 10
  stale_job_threshold_hours: 168
  report_dir: null
  email_recipients: []
  smtp_password: null
"#;

/// Its cron line, as it stands in the crontab.
const CRON: &str = "cd ROOT && snbb-scheduler --config config.yaml --slurm-log-dir ROOT/logs/slurm run --skip-monitor >> cron.log 2>&1";

/// Makes a site whose state pandas wrote: sub-0001 ses-01 converted at the second try (101 failed, 102 complete), FreeSurfer of
/// sub-0001 running as job 103, and a conversion of sub-0002 that has no job id.
pub fn site(state: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.write(
        "config.yaml",
        &SITE.replace("ROOT", study.dir.path().to_str().unwrap()),
    );
    fs::copy(
        Path::new(ROOT).join("fixtures/state").join(state),
        study.at(".scheduler_state.parquet"),
    )
    .unwrap();
    study.write(
        "scheduler_audit.jsonl",
        "{\"timestamp\": \"2026-03-01T10:00:00.123456+00:00\", \"event\": \"submitted\", \"subject\": \"sub-0001\", \"session\": \"ses-01\", \
         \"procedure\": \"bids\", \"job_id\": \"101\"}\n\
         {\"timestamp\": \"2026-03-03T10:00:00.000001+00:00\", \"event\": \"submitted\", \"subject\": \"sub-0001\", \"session\": \"\", \
         \"procedure\": \"freesurfer\", \"job_id\": \"103\"}\n\
         {\"timestamp\": \"2026-03-03T10:00:00.000002+00:00\", \"event\": \"retry_cleared\", \"subject\": \"sub-0009\", \"session\": \"\", \
         \"procedure\": \"freesurfer\", \"job_id\": NaN, \"old_status\": \"failed\"}\n",
    );
    for step in ["bids", "bids_post", "freesurfer"] {
        // Paths come from variables with the site's own defaults, as in the scripts of that program.
        study.write(
            &format!("snbb_run_{step}.sh"),
            "#!/bin/bash\nset -euo pipefail\nSUBJECT=$1\nSESSION=${2:-}\nDICOM=${3:-}\n\
             #SBATCH --time=04:00:00\nOUT=\"${SNBB_BIDS_ROOT:-/data/snbb/bids}\"\necho \"$SUBJECT $SESSION $DICOM\" > /dev/null\n",
        );
        executable(&study.at(&format!("snbb_run_{step}.sh")));
    }
    study.scan(&["sub-0001/ses-01", "sub-0002/ses-01", "sub-0003/ses-01"]);
    // 2026-03-03 10:00:01 UTC, a second after the row's submission.
    study.write(
        "fake-slurm/jobs/103",
        "freesurfer_sub-0001\n\n1772532001\nsbatch snbb_run_freesurfer.sh sub-0001\n\n",
    );
    slurm.set("103", "RUNNING");
    for file in [
        "anat/x_T1w.nii.gz",
        "func/x_task-rest_bold.nii.gz",
        "fmap/x_acq-dwi_epi.nii.gz",
    ] {
        study.write(&format!("bids/sub-0001/ses-01/{file}"), "x");
    }
    (study, slurm)
}

/// Does what cron does: a shell, a short environment.
#[expect(clippy::disallowed_methods, reason = "runs the line as cron does")]
fn cron(study: &Study) -> String {
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        study.at("fake-slurm/bin").display(),
        program.parent().unwrap().display()
    );
    let output = std::process::Command::new("/bin/sh")
        .args([
            "-c",
            &CRON.replace("ROOT", study.dir.path().to_str().unwrap()),
        ])
        .env_clear()
        .env("PATH", path)
        .env("HOME", "/root")
        .env("SHELL", "/bin/sh")
        .current_dir("/")
        .output()
        .unwrap();
    let log = study.read("cron.log");
    assert_eq!(output.status.code(), Some(0), "{log}");
    log
}

#[test]
fn c5_a_task_that_is_complete_by_slurms_word_alone_is_due_with_a_note() {
    let (study, _) = site("pandas-2.2.parquet");
    fs::remove_dir_all(study.at("bids/sub-0001/ses-01/func")).unwrap();
    let said = study.ok(&["run"]);
    let note = "tasks were recorded as complete by another program but have no outputs: submitted again \
                (bids sub-0001 ses-01)";
    assert!(said.err.contains(note), "{}", said.err);
}

#[test]
fn a_site_goes_on_without_a_change() {
    for state in ["pandas-2.2.parquet", "pandas-3.parquet"] {
        let (study, slurm) = site(state);
        let unchanged: Vec<String> = [
            "config.yaml",
            "snbb_run_bids.sh",
            "snbb_run_bids_post.sh",
            "snbb_run_freesurfer.sh",
        ]
        .map(|file| study.read(file))
        .to_vec();

        // Looking first, as the guide says.
        let before = study.read_bytes(".scheduler_state.parquet");
        let shown = study.ok(&["status", "--format", "csv"]).out;
        assert!(shown.contains("sub-0001,,freesurfer,running"), "{shown}");
        let dry = study.ok(&["run", "--dry-run", "--skip-monitor", "-v"]).out;
        assert_eq!(dry.lines().count(), 1, "{dry}");
        assert_eq!(before, study.read_bytes(".scheduler_state.parquet"));

        // The line of cron: what was never submitted is submitted, what is in flight is not.
        let log = cron(&study);
        let argv = slurm.argv();
        assert_eq!(argv.lines().count(), 1, "{argv}\n{log}");
        let words = shell_words::split(&argv).unwrap();
        let here = study.dir.path().to_str().unwrap();
        assert_eq!(
            words[3..].join(" ").replace(here, "ROOT"),
            "--partition=debug --account=snbb --mem=32G --cpus-per-task=8 --job-name=bids_sub-0003_ses-01 \
             --output=ROOT/logs/slurm/bids/bids_sub-0003_ses-01_%j.out --error=ROOT/logs/slurm/bids/bids_sub-0003_ses-01_%j.err \
             ROOT/snbb_run_bids.sh sub-0003 ses-01 ROOT/dicom/sub-0003/ses-01"
        );
        assert_eq!(
            study.statuses(),
            [
                "bids sub-0001 ses-01: complete -",
                "bids sub-0002 ses-01: pending -",
                "bids sub-0003 ses-01: pending queued",
                "freesurfer sub-0001 : running -",
            ],
            "{log}"
        );
        // The attempt before is kept.
        assert!(
            study
                .at(".scheduler_state.attempts.parquet")
                .try_exists()
                .unwrap()
        );

        // FreeSurfer ends well; the job of the Python program is followed to its end.
        study.write(
            "derivatives/freesurfer/sub-0001/scripts/recon-all.done",
            "------------\n",
        );
        slurm.set("103", "COMPLETED");
        study.ok(&["monitor"]);
        let mut statuses = study.statuses();
        statuses
            .retain(|row| !row.starts_with("bids sub-0001") && !row.starts_with("bids sub-0003"));
        assert_eq!(
            statuses,
            [
                // Nobody knows the job of this row, which has no id: it is not doubled.
                "bids sub-0002 ses-01: pending unaccounted",
                "freesurfer sub-0001 : complete verified",
            ]
        );
        assert_eq!(slurm.calls("sbatch"), 1);
        // The log of before is kept, line by line.
        let events = study.read("scheduler_audit.jsonl");
        assert!(
            events.starts_with("{\"timestamp\": \"2026-03-01T10:00:00.123456+00:00\""),
            "{events}"
        );

        let after: Vec<String> = [
            "config.yaml",
            "snbb_run_bids.sh",
            "snbb_run_bids_post.sh",
            "snbb_run_freesurfer.sh",
        ]
        .map(|file| study.read(file))
        .to_vec();
        assert_eq!(unchanged, after);
    }
}
