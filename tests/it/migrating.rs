//! A site of the Python program goes over: what stays, what is different, and what brings the old way back.

mod differences;
mod site;
mod stays;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Each difference of `docs/migrating.md`, and the tests that show it and its way back: file and function.
const DIFFERENCES: &[(&str, &[(&str, &str)])] = &[
    ("failed-tasks", &[HERE("failed_tasks")]),
    ("failed-with-outputs", &[HERE("c12_failed_with_outputs")]),
    (
        "completed-without-outputs",
        &[HERE("completed_without_outputs")],
    ),
    (
        "hidden-markers",
        &[
            HERE("hidden_and_empty_files"),
            (
                "src/gather/completion/probe/tests.rs",
                "globs_match_as_documented",
            ),
        ],
    ),
    (
        "empty-files",
        &[
            HERE("hidden_and_empty_files"),
            (
                "src/gather/completion/probe/tests.rs",
                "the_size_of_a_link_is_its_targets",
            ),
        ],
    ),
    ("empty-marker-list", &[HERE("an_empty_marker_list")]),
    (
        "broken-links",
        &[(
            "src/gather/completion/probe/tests.rs",
            "b1_dangling_links_are_unreadable",
        )],
    ),
    (
        "sessions-without-files",
        &[(
            "src/gather/sessions/dicom/tests.rs",
            "b4_a_directory_without_a_real_file_is_held_without_any_gate",
        )],
    ),
    (
        "files-of-others",
        &[
            (
                "src/store/audit_log/tests.rs",
                "e9_nothing_is_appended_to_a_file_that_is_not_a_log",
            ),
            ("tests/it/config/files.rs", "e9_no_two_keys_name_one_file"),
        ],
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
                "src/decide/reconcile/tests.rs",
                "a_live_job_decides_without_reading_the_disk",
            ),
        ],
    ),
    ("unaccounted-jobs", &[HERE("unaccounted_jobs")]),
    ("slurm-states", &[HERE("slurm_states")]),
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
                "src/decide/manifest/breaker.rs",
                "only_failures_that_point_to_the_procedure_count",
            ),
        ],
    ),
    (
        "order",
        &[(
            "src/decide/manifest/plan/tests.rs",
            "order_is_priority_subject_session",
        )],
    ),
    ("labels", &[HERE("labels")]),
    (
        "csv-ids",
        &[
            (
                "src/gather/sessions/discover/csv/tests.rs",
                "invalid_labels_are_errors_with_their_lines",
            ),
            (
                "src/gather/sessions/discover/csv/tests.rs",
                "ids_with_equal_labels_are_reported_with_both_lines",
            ),
            (
                "src/gather/sessions/discover/csv/tests.rs",
                "ids_become_labels",
            ),
        ],
    ),
    ("freesurfer-check", &[HERE("own_checks")]),
    (
        "qsirecon-check",
        &[
            HERE("own_checks"),
            (
                "src/gather/completion/probe/apps.rs",
                "a_spec_that_cannot_be_understood_is_an_error",
            ),
        ],
    ),
    ("force", &[("tests/it/run.rs", "force_and_limits")]),
    ("selections", &[OUTSIDE("selections")]),
    ("manifest-in-flight", &[OUTSIDE("manifest_in_flight")]),
    (
        "strict-configuration",
        &[
            OUTSIDE("strict_configuration"),
            (
                "tests/it/config.rs",
                "each_invalid_file_tells_all_its_problems",
            ),
        ],
    ),
    (
        "relative-paths",
        &[
            OUTSIDE("relative_paths_and_scripts"),
            (
                "tests/it/config/sources.rs",
                "relative_paths_are_relative_to_the_file_not_to_the_caller",
            ),
        ],
    ),
    (
        "script-lookup",
        &[
            OUTSIDE("relative_paths_and_scripts"),
            (
                "src/executor/script/tests.rs",
                "the_first_place_with_the_script_wins",
            ),
        ],
    ),
    (
        "sbatch-options",
        &[
            OUTSIDE("sbatch_options"),
            (
                "tests/it/run.rs",
                "sbatch_gets_the_flags_in_their_order_and_the_script_its_variables",
            ),
        ],
    ),
    (
        "environment",
        &[
            OUTSIDE("environment"),
            (
                "src/executor/slurm/client/tests.rs",
                "a4_e24_of_the_variables_of_slurm_only_those_to_reach_it_are_passed_on",
            ),
        ],
    ),
    (
        "time-limits",
        &[(
            "src/executor/slurm/client/tests.rs",
            "an_sbatch_that_hangs_is_in_doubt_and_is_killed",
        )],
    ),
    (
        "lock",
        &[(
            "tests/it/together/sweeps.rs",
            "calls_on_several_login_nodes_submit_each_task_once",
        )],
    ),
    (
        "owner",
        &[(
            "tests/it/together/holders.rs",
            "a_state_of_another_user_is_read_and_not_written",
        )],
    ),
    (
        "one-row",
        &[
            OUTSIDE("one_row_and_more_columns"),
            (
                "tests/it/state/foreign.rs",
                "of_several_rows_a_live_one_wins_else_the_newest",
            ),
        ],
    ),
    (
        "more-columns",
        &[
            OUTSIDE("one_row_and_more_columns"),
            ("tests/it/python.rs", "four_programs_read_our_file"),
        ],
    ),
    (
        "status-reads",
        &[
            OUTSIDE("status_reads"),
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
        "retry-looks",
        &[(
            "tests/it/run/retry.rs",
            "attack_a_requeued_job_keeps_its_task_from_being_accepted_or_cleared",
        )],
    ),
    (
        "retry-living",
        &[(
            "tests/it/run/retry.rs",
            "retry_says_what_is_complete_on_disk_and_never_frees_a_living_job",
        )],
    ),
    (
        "output-texts",
        &[("tests/it/schema.rs", "json_is_as_documented")],
    ),
    ("exit-codes", &[OUTSIDE("exit_codes")]),
    ("audit-report", &[OUTSIDE("audit_report_and_events")]),
    ("event-page", &[OUTSIDE("audit_report_and_events")]),
    ("audit-events", &[OUTSIDE("audit_report_and_events")]),
];

#[expect(non_snake_case, reason = "reads as a constant in the table")]
const fn HERE(test: &'static str) -> (&'static str, &'static str) {
    ("tests/it/migrating/differences.rs", test)
}

#[expect(non_snake_case, reason = "reads as a constant in the table")]
const fn OUTSIDE(test: &'static str) -> (&'static str, &'static str) {
    ("tests/it/migrating/differences/interface.rs", test)
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
    let here = [HERE("").0, OUTSIDE("").0]
        .map(|file| fs::read_to_string(Path::new(ROOT).join(file)).unwrap())
        .concat();
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
