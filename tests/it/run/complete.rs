//! Complete is complete: what outputs decide, in every command.

use super::*;

fn json(study: &Study, arguments: &[&str]) -> serde_json::Value {
    let said = study.call(arguments);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err))
}

/// The decisions about `sub-01 ses-01`, by procedure.
fn words(study: &Study) -> [String; 3] {
    let shown = json(study, &["session-status", "--format", "json"]);
    ["convert", "prep", "group"].map(|name| {
        let word = &shown[0]["procedures"][name]["decision"];
        word.as_str().unwrap().to_owned()
    })
}

#[test]
fn c7_complete_outputs_are_shown_counted_and_listed_whatever_their_inputs_look_like() {
    let (study, _) = study();
    for session in ["sub-01/ses-01", "sub-01/ses-02"] {
        study.write(&format!("derivatives/prep/{session}/x.html"), "x");
    }
    assert_eq!(words(&study), ["due", "complete", "due"]);
    let explained = json(&study, &["explain", "01", "01", "prep", "--format", "json"]);
    assert_eq!(explained[0]["decision"], "complete", "{explained}");
    let outputs = study.ok(&["outputs", "--procedure", "prep"]).out;
    assert_eq!(outputs.lines().count(), 2, "{outputs}");
    let report = json(&study, &["audit", "--format", "json"]);
    let health = &report["matrix"]["sessions"][0]["health"];
    assert_eq!((&health["complete"], &health["of"]), (&1.into(), &3.into()));
    let due = study.ok(&["manifest", "--procedure", "group"]);
    assert!(
        due.out.contains("sub-01") && !due.out.contains("sub-02"),
        "{}",
        due.out
    );
}

#[test]
fn c7_a_session_without_dicom_files_is_complete_if_its_outputs_are() {
    let (study, _) = study();
    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,1,\n1,2,\n");
    let list = study.at("sessions.csv");
    study.configure(&format!("sessions_file: {}\n{PIPELINE}", list.display()));
    convert(&study, "sub-0001", "ses-000000000001");
    assert_eq!(words(&study), ["complete", "no-dicom", "no-dicom"]);
}

#[test]
fn d6_a_forced_job_that_changes_nothing_is_complete_and_a_crash_file_is_not_waited_for() {
    let (study, slurm) = study();
    study.configure(&PIPELINE.replace("['*.html']", "['*.html']\n    forbid: ['crash-*']"));
    for session in ["ses-01", "ses-02"] {
        convert(&study, "sub-01", session);
    }
    study.write("derivatives/prep/sub-01/ses-01/x.html", "x");
    let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let report = fs::File::open(study.at("derivatives/prep/sub-01/ses-01/x.html")).unwrap();
    report.set_modified(hour).unwrap();
    let prep = ["--procedure", "prep", "--subject", "01"];
    study.ok(&[&["run", "--force"], &prep[..]].concat());
    study.write("derivatives/prep/sub-01/ses-02/x.html", "x");
    study.write("derivatives/prep/sub-01/ses-02/crash-1.txt", "x");
    slurm.set_all("COMPLETED");
    study.call(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "prep sub-01 ses-01: complete verified",
            "prep sub-01 ses-02: failed no_output",
        ]
    );
}

#[test]
fn d22_a_job_whose_outputs_are_awaited_says_so_in_the_table() {
    let (study, slurm) = study();
    study.ok(&["run", "--max-jobs", "1"]);
    slurm.set_all("COMPLETED");
    study.ok(&["monitor"]);
    let shown = study.ok(&["session-status", "--format", "csv"]).out;
    let line = "sub-01,ses-01,running (awaiting output),waiting,waiting";
    assert!(shown.lines().any(|it| it == line), "{shown}");
}

#[test]
fn e11_a_changed_scope_waits_for_the_jobs_of_the_old_one() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let config = study.read("config.yaml");
    let changed = config.replacen(
        "output_dir: ''\n",
        "output_dir: ''\n    scope: subject\n",
        1,
    );
    study.write("config.yaml", &changed);
    for arguments in [&["run"][..], &["run", "--force", "--procedure", "convert"]] {
        study.ok(arguments);
        assert_eq!(slurm.calls("sbatch"), 3, "{arguments:?}");
    }
    assert_eq!(words(&study)[0], "waiting");
    // They have ended.
    for session in ["ses-01", "ses-02"] {
        convert(&study, "sub-01", session);
    }
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 5, "one per subject");
}

#[test]
fn b2_a_subject_that_lacks_the_input_of_all_sessions_is_blocked_with_the_reason() {
    let (study, _) = study();
    let marker = |when: &str| format!("completion_marker: [{{glob: x.html{when}}}]");
    let configure = |when: &str| {
        study.configure(
            &PIPELINE
                .replace("completion_marker: ['*.html']", &marker(", when: 'func/*'"))
                .replace("completion_marker: done", &marker(when)),
        );
    };
    for session in ["ses-01", "ses-02"] {
        convert(&study, "sub-01", session);
    }
    configure("");
    assert_eq!(words(&study), ["complete", "not-applicable", "blocked"]);
    configure(", when: 'ses-*/func/*'");
    assert_eq!(
        words(&study),
        ["complete", "not-applicable", "not-applicable"]
    );
}
