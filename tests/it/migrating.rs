//! A site of the Python program goes over: what stays, what is different, and what brings the old way back.

mod differences;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Each difference of `docs/migrating.md`, and the tests that show it and its way back: file and function.
const DIFFERENCES: &[(&str, &[(&str, &str)])] = &[
    ("failed-tasks", &[HERE("failed_tasks")]),
    (
        "completed-without-outputs",
        &[HERE("completed_without_outputs")],
    ),
    (
        "hidden-markers",
        &[
            HERE("hidden_and_empty_files"),
            ("src/completion/probe/tests.rs", "glob_facts"),
        ],
    ),
    (
        "empty-files",
        &[
            HERE("hidden_and_empty_files"),
            (
                "src/completion/probe/tests.rs",
                "sizes_are_those_behind_links",
            ),
        ],
    ),
    ("empty-marker-list", &[HERE("an_empty_marker_list")]),
    (
        "broken-links",
        &[(
            "src/completion/probe/tests.rs",
            "links_that_lead_nowhere_never_count",
        )],
    ),
    (
        "all-sessions",
        &[
            HERE("all_sessions"),
            ("tests/it/run.rs", "a_subject_waits_for_all_its_sessions"),
        ],
    ),
    (
        "living-jobs",
        &[
            HERE("living_jobs"),
            (
                "src/reconcile/tests.rs",
                "a_job_that_lives_decides_and_the_disk_is_not_looked_at",
            ),
        ],
    ),
    (
        "unreadable",
        &[(
            "tests/it/errors.rs",
            "an_unreadable_directory_is_listed_and_the_rest_goes_on",
        )],
    ),
    (
        "missing-roots",
        &[
            HERE("missing_roots"),
            ("tests/it/safety.rs", "the_limit_is_the_sites"),
        ],
    ),
    (
        "pause-after-failures",
        &[
            HERE("pause_after_failures"),
            (
                "src/manifest/breaker.rs",
                "only_failures_that_speak_against_the_procedure_count",
            ),
        ],
    ),
    (
        "order",
        &[(
            "src/manifest/plan/tests.rs",
            "order_is_priority_subject_session",
        )],
    ),
    ("labels", &[HERE("labels")]),
    (
        "csv-ids",
        &[
            (
                "src/bids/csv/tests.rs",
                "what_is_no_label_is_an_error_with_its_line",
            ),
            (
                "src/bids/csv/tests.rs",
                "ids_that_become_equal_are_reported_with_both_lines",
            ),
            ("src/bids/csv/tests.rs", "ids_become_labels"),
        ],
    ),
    ("freesurfer-check", &[HERE("own_checks")]),
    (
        "qsirecon-check",
        &[
            HERE("own_checks"),
            (
                "src/completion/qsirecon.rs",
                "a_spec_that_cannot_be_understood_is_an_error",
            ),
        ],
    ),
    ("force", &[("tests/it/run.rs", "force_and_limits")]),
    ("selections", &[HERE("selections")]),
    (
        "relative-paths",
        &[
            HERE("relative_paths_and_scripts"),
            (
                "tests/it/config.rs",
                "relative_paths_are_relative_to_the_file_not_to_the_caller",
            ),
        ],
    ),
    (
        "script-lookup",
        &[
            HERE("relative_paths_and_scripts"),
            ("src/script.rs", "the_first_place_that_has_it_wins"),
        ],
    ),
    (
        "sbatch-options",
        &[
            HERE("sbatch_options"),
            (
                "tests/it/run.rs",
                "sbatch_gets_the_flags_in_their_order_and_the_script_its_variables",
            ),
        ],
    ),
    (
        "environment",
        &[
            HERE("environment"),
            (
                "src/slurm/client/tests.rs",
                "inherited_variables_that_steer_slurm_do_not_arrive",
            ),
        ],
    ),
    (
        "time-limits",
        &[(
            "src/slurm/client/tests.rs",
            "an_sbatch_that_hangs_is_in_doubt_and_does_not_stay",
        )],
    ),
    (
        "lock",
        &[(
            "tests/it/together.rs",
            "calls_on_several_login_nodes_submit_each_task_once",
        )],
    ),
    (
        "owner",
        &[(
            "tests/it/together.rs",
            "a_state_of_another_user_is_read_and_not_written",
        )],
    ),
    (
        "one-row",
        &[
            HERE("one_row_and_more_columns"),
            (
                "tests/it/state/foreign.rs",
                "of_several_rows_a_live_one_wins_else_the_newest",
            ),
        ],
    ),
    (
        "more-columns",
        &[
            HERE("one_row_and_more_columns"),
            ("tests/it/python.rs", "four_programs_read_our_file"),
        ],
    ),
    (
        "status-reads",
        &[
            HERE("status_reads"),
            ("tests/it/crash/order.rs", "looking_writes_nothing"),
        ],
    ),
    (
        "dry-run",
        &[(
            "tests/it/run.rs",
            "a_dry_run_prints_what_would_be_submitted_and_changes_nothing",
        )],
    ),
    (
        "retry-living",
        &[(
            "tests/it/run.rs",
            "retry_says_what_is_complete_on_disk_and_never_frees_a_living_job",
        )],
    ),
    (
        "output-texts",
        &[("tests/it/schema.rs", "json_is_as_documented")],
    ),
    ("exit-codes", &[HERE("exit_codes")]),
    ("audit-report", &[HERE("audit_report_and_events")]),
    ("event-page", &[HERE("audit_report_and_events")]),
    ("audit-events", &[HERE("audit_report_and_events")]),
];

#[expect(non_snake_case, reason = "reads as a constant in the table")]
const fn HERE(test: &'static str) -> (&'static str, &'static str) {
    ("tests/it/migrating/differences.rs", test)
}

#[test]
fn each_difference_of_the_guide_has_its_tests() {
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/migrating.md")).unwrap();
    let part = guide.split("\n## What is different\n").nth(1).unwrap();
    let told: Vec<&str> = part
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let known: Vec<&str> = DIFFERENCES.iter().map(|(id, _)| *id).collect();
    assert_eq!(told, known);
    for (id, text) in part
        .split("\n### ")
        .skip(1)
        .map(|text| text.split_once('\n').unwrap())
    {
        assert!(text.contains("\n*Back:* "), "{id}");
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
            "{id}"
        );
    }
    for (id, tests) in DIFFERENCES {
        for (file, test) in *tests {
            let text = fs::read_to_string(Path::new(ROOT).join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(
                text.contains(&format!("#[test]\nfn {test}()"))
                    || text.contains(&format!("#[test]\n    fn {test}()")),
                "{id}: {file} {test}"
            );
        }
    }
    let here = fs::read_to_string(Path::new(ROOT).join(HERE("").0)).unwrap();
    let named: BTreeSet<&str> = DIFFERENCES
        .iter()
        .flat_map(|(_, tests)| tests.iter())
        .map(|(_, test)| *test)
        .collect();
    for test in here
        .split("#[test]\nfn ")
        .skip(1)
        .map(|text| text.split('(').next().unwrap())
    {
        assert!(named.contains(test), "{test} shows no difference");
    }
}

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
fn site(state: &str) -> (Study, FakeSlurm) {
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
        assert!(
            shown.contains("sub-0001,\"\",freesurfer,running"),
            "{shown}"
        );
        let dry = study.ok(&["run", "--dry-run", "--skip-monitor"]).out;
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
            "--partition=debug --account=snbb --job-name=bids_sub-0003_ses-01 --mem=32G --cpus-per-task=8 \
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
        let statuses = study.statuses();
        assert!(
            statuses.contains(&"freesurfer sub-0001 : complete verified".to_owned()),
            "{statuses:?}"
        );
        // Nobody knows the job of this row, which has no id: it is not doubled.
        assert!(
            statuses.contains(&"bids sub-0002 ses-01: pending unaccounted".to_owned()),
            "{statuses:?}"
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
