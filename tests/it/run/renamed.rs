//! A procedure gets another name while its jobs live.

use super::*;

/// Gives `convert` another name, which writes to the same places.
fn rename(study: &Study, from: &str, to: &str) {
    let config = study.read("config.yaml");
    let config = config
        .replace(&format!("name: {from}\n"), &format!("name: {to}\n"))
        .replace(&format!("[{from}]"), &format!("[{to}]"));
    study.write("config.yaml", &config);
}

fn names(slurm: &FakeSlurm) -> Vec<String> {
    let mut names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    names.sort();
    names
}

#[test]
fn a_renamed_procedure_waits_for_the_jobs_of_its_old_name() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    study.scan(&["sub-03/ses-01"]);
    rename(&study, "convert", "import");

    let said = study.ok(&["run"]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    let before = [
        "convert_sub-01_ses-01",
        "convert_sub-01_ses-02",
        "convert_sub-02_ses-01",
        "import_sub-03_ses-01",
    ];
    assert_eq!(names(&slurm), before);
    // Nor now that it has rows of its own, nor by force.
    study.ok(&["run"]);
    study.ok(&["run", "--force", "--procedure", "import", "--subject", "01"]);
    assert_eq!(names(&slurm), before);

    let explained = &study.json(&["explain", "sub-01", "ses-01", "import"])[0];
    let words = ["text", "todo"].map(|key| explained[key].as_str().unwrap());
    insta::assert_snapshot!(words.join("\n"));
    let shown = study.json(&["session-status"]);
    let cell = &shown[0]["procedures"]["import"];
    assert_eq!(cell["decision"], "waiting", "{shown:#?}");
    assert_eq!(cell["text"], words[0]);
    assert_eq!(cell["job_id"], "1001");
    let said = study.ok(&["manifest", "--format", "csv"]);
    assert!(!said.out.contains("sub-01,ses-01,import"), "{}", said.out);

    // One job ends and leaves its outputs: nothing is to be done. One fails: its task is due now.
    convert(&study, "sub-01", "ses-01");
    slurm.set("1001", "COMPLETED");
    slurm.set("1002", "FAILED 1:0");
    study.ok(&["run"]);
    let mut after: Vec<&str> = before.to_vec();
    after.push("import_sub-01_ses-02");
    after.push("prep_sub-01_ses-01");
    after.sort_unstable();
    assert_eq!(names(&slurm), after);
    // The one that is not wanted is cancelled, as the advice says.
    study.ok(&[
        "cancel",
        "--subject",
        "sub-02",
        "--session",
        "ses-01",
        "--procedure",
        "convert",
    ]);
    study.ok(&["run"]);
    after.push("import_sub-02_ses-01");
    after.sort_unstable();
    assert_eq!(names(&slurm), after);
}

#[test]
fn a_name_that_is_given_back_doubles_nothing_either() {
    let (study, slurm) = study();
    study.ok(&["run", "--subject", "01"]);
    rename(&study, "convert", "import");
    study.ok(&["run"]);
    rename(&study, "import", "convert");
    study.ok(&["run"]);
    study.ok(&["run"]);
    assert_eq!(
        names(&slurm),
        [
            "convert_sub-01_ses-01",
            "convert_sub-01_ses-02",
            "import_sub-02_ses-01",
        ]
    );
    slurm.set("1003", "CANCELLED");
    study.ok(&["run"]);
    assert!(names(&slurm).contains(&"convert_sub-02_ses-01".to_owned()));
}

/// Submissions of the new name between two of the old one do not make it another procedure.
#[test]
fn a_name_that_is_given_again_doubles_nothing() {
    let (study, slurm) = study();
    study.ok(&["run", "--subject", "01"]);
    rename(&study, "convert", "import");
    study.ok(&["run"]);
    rename(&study, "import", "convert");
    study.scan(&["sub-03/ses-01"]);
    study.ok(&["run"]);
    let before = [
        "convert_sub-01_ses-01",
        "convert_sub-01_ses-02",
        "convert_sub-03_ses-01",
        "import_sub-02_ses-01",
    ];
    assert_eq!(names(&slurm), before);
    rename(&study, "convert", "import");
    study.ok(&["run"]);
    assert_eq!(names(&slurm), before);
}

/// Nothing can be cancelled yet of a submission in doubt, and so nothing advises that.
#[test]
fn a_submission_in_doubt_of_the_old_name_is_no_job_to_cancel() {
    let (study, slurm) = study();
    slurm.silent(1);
    study.ok(&["run", "--subject", "02"]);
    rename(&study, "convert", "import");
    fs::remove_file(slurm.at("jobs/1001")).unwrap();
    slurm.break_program("sacct", "sacct: error: down");
    let words = ["import", "convert"].map(|procedure| {
        let explained = &study.json(&["explain", "sub-02", "ses-01", procedure])[0];
        ["text", "todo"].map(|key| explained[key].as_str().unwrap().to_owned())
    });
    insta::assert_snapshot!(words.concat().join("\n"));
}

/// Another procedure than the one that went, known to be so, goes on.
#[test]
fn procedures_that_stood_side_by_side_do_not_wait_for_each_other() {
    let (study, slurm) = study();
    let both = format!(
        "{PIPELINE}  - {{name: qc, output_dir: qc, script: prep.sh, completion_marker: done}}\n"
    );
    study.configure(&both);
    study.ok(&["run"]);
    assert_eq!(names(&slurm).len(), 6);
    slurm.set("1001", "FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["retry"]);
    study.configure(PIPELINE);
    let said = study.ok(&["run"]);
    assert_eq!(names(&slurm).len(), 7, "{}", said.err);
}
