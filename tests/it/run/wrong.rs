//! What goes wrong around the program: no answer, no root, a moved state, a newcomer's mistakes.

use regex::Regex;

use super::*;

#[test]
fn without_an_answer_nothing_is_submitted_and_nothing_changes() {
    let (study, slurm) = study();
    study.ok(&["run", "--max-jobs", "1"]);
    let before = study.read_bytes("state.parquet");
    let silent = "Unable to contact slurm controller";
    slurm.break_program("squeue", &format!("slurm_load_jobs error: {silent}\n"));
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains(silent), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 1);
    assert_eq!(study.call(&["monitor"]).code, 5);
    slurm.heal("squeue");
    let refused = "slurmdbd: Connection refused";
    slurm.break_program("sacct", &format!("sacct: error: {refused}\n"));
    slurm.set_all("COMPLETED");
    let said = study.call(&["monitor"]);
    assert_eq!(said.code, 5);
    assert!(said.err.contains(refused), "{}", said.err);
    assert_eq!(
        before,
        study.read_bytes("state.parquet"),
        "no conclusion without accounting"
    );
    slurm.heal("sacct");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        ["convert sub-01 ses-01: running awaiting_output"]
    );
    // New jobs do not need accounting, but the exit code shows that it is down.
    slurm.break_program("sacct", &format!("sacct: error: {refused}\n"));
    slurm.set_all("RUNNING");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 3);
}

#[test]
fn a_root_that_is_gone_stops_everything() {
    let (study, slurm) = study();
    convert(&study, "sub-01", "ses-01");
    study.ok(&["run"]);
    slurm.set_all("COMPLETED");
    for session in ["ses-01", "ses-02"] {
        convert(&study, "sub-01", session);
    }
    study.call(&["monitor"]);
    std::fs::rename(study.at("bids"), study.at("unmounted")).unwrap();
    std::fs::create_dir(study.at("bids")).unwrap();
    let calls = slurm.calls("sbatch");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(slurm.calls("sbatch"), calls);
}

#[test]
fn what_a_newcomer_gets_wrong_is_said() {
    let (study, slurm) = study();
    // A typing error in a later step does not wait for its day.
    std::fs::remove_file(study.at("group.sh")).unwrap();
    let mut told = Vec::new();
    for command in [
        &["run", "--max-jobs", "1"][..],
        &["status", "--status", "failed"],
        &["run", "--subject", "02", "--dry-run"],
    ] {
        told.push(pretty(&study, &study.ok(command).err));
    }
    slurm.set_all("FAILED 2:0");
    told.push(messages(&study, &study.ok(&["monitor"])));

    let empty = Study::new();
    empty.configure("executor: local\nprocedures: [{name: a, output_dir: a, script: /bin/true}]\n");
    empty.write("dicom/sub-01/T1/0001.dcm", "x");
    told.push(messages(&empty, &empty.ok(&["manifest"])));
    std::fs::rename(empty.at("dicom/sub-01"), empty.at("dicom/01")).unwrap();
    told.push(messages(&empty, &empty.ok(&["run", "--dry-run"])));
    insta::assert_snapshot!(told.join("\n---\n"));
}

#[test]
fn a_state_file_that_was_moved_does_not_double_the_living_jobs_at_once() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let moved = study
        .read("config.yaml")
        .replace("state.parquet", "moved.parquet");
    study.write("config.yaml", &moved);
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3, "{}", said.err);
    let told = messages(&study, &said);
    let hint = told.lines().find(|line| line.starts_with("hint: "));
    let mark = Regex::new("study [0-9a-f]{8}").unwrap();
    insta::assert_snapshot!(mark.replace(hint.unwrap(), "study [project]"));
    std::fs::rename(study.at("state.parquet"), study.at("moved.parquet")).unwrap();
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
    assert_eq!(study.statuses().len(), 3);

    // The mark of a study whose state file is gone stands in the copies beside it.
    std::fs::remove_file(study.at("moved.parquet")).unwrap();
    std::fs::copy(study.at("state.parquet.bak"), study.at("moved.parquet.bak")).unwrap();
    study.write("config.yaml", &format!("project: other\n{moved}"));
    study.ok(&["run"]);
    assert_eq!(study.events("adopted").len(), 3);
    assert_eq!(slurm.calls("sbatch"), 3);
}

#[test]
fn a1_an_sbatch_that_never_answers_is_not_started_for_every_job() {
    let (study, slurm) = study();
    study.scan(&["sub-03/ses-01", "sub-03/ses-02"]);
    for call in 1..=5 {
        slurm.silent(call);
    }
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 3);
    insta::assert_snapshot!(pretty(&study, &said.err));
    study.call(&["run"]);
    assert_eq!(
        slurm.calls("sbatch"),
        5,
        "the three are found, the rest is submitted"
    );
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 5);
}

#[test]
fn a_root_of_the_sessions_that_is_gone_is_one_exit_code_and_no_false_hint() {
    let (study, _slurm) = study();
    study.ok(&["run"]);
    fs::rename(study.at("dicom"), study.at("away")).unwrap();
    for command in [
        &["run"][..],
        &["run", "--accept-drop"],
        &["manifest"],
        &["session-status"],
        &["audit"],
        &["explain", "01", "01", "convert"],
    ] {
        let said = study.call(command);
        assert_eq!(said.code, 6, "{command:?}: {}", said.err);
    }
    fs::rename(study.at("away"), study.at("dicom")).unwrap();
    assert_eq!(
        study.call(&["explain", "77"]).code,
        2,
        "as for a procedure that there is not"
    );
}

#[test]
fn a_link_to_a_configuration_starts_no_second_state_beside_the_first() {
    let (study, slurm) = study();
    study.configure(&format!("state_file: st/state.parquet\n{PIPELINE}"));
    let text = study.read("config.yaml");
    study.write(
        "config.yaml",
        &text
            .lines()
            .filter(|line| !line.starts_with("state_file: ") || line.contains("st/"))
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    );
    study.ok(&["run"]);
    assert!(study.at("st/state.parquet").exists());
    fs::create_dir(study.at("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../config.yaml", study.at("elsewhere/c.yaml")).unwrap();
    let link = study.at("elsewhere/c.yaml").display().to_string();
    for command in ["run", "status", "monitor"] {
        let said = study.call(&["--config", &link, command]);
        assert_eq!(said.code, 2, "{command}: {}", said.err);
        insta::assert_snapshot!("a_link_to_a_configuration", messages(&study, &said));
    }
    assert_eq!(slurm.calls("sbatch"), 3);
    // A link beside the file itself means the same state.
    std::os::unix::fs::symlink("config.yaml", study.at("c.yaml")).unwrap();
    study.ok(&["--config", &study.at("c.yaml").display().to_string(), "run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
}

#[test]
fn a_trace_is_written_neither_below_the_data_nor_over_the_programs_own_files() {
    let (study, _slurm) = study();
    let mut told = Vec::new();
    for place in [
        "bids/trace",
        "derivatives/trace",
        "dicom/sub-01/trace",
        "state.parquet",
        "state.journal.jsonl",
    ] {
        let path = study.at(place);
        let said = study.call(&["metrics", "--output", &path.display().to_string()]);
        assert_eq!(said.code, 2, "{}", said.err);
        told.push(messages(&study, &said));
        assert!(!path.exists(), "{place}");
    }
    insta::assert_snapshot!(told.join("\n"));
    let fine = study.at("trace").display().to_string();
    study.ok(&["metrics", "--output", &fine]);
}

#[test]
fn a_state_of_absurd_size_or_kind_is_an_error_that_names_it() {
    let (study, _slurm) = study();
    study.ok(&["run"]);
    let state = fs::File::create(study.at("state.parquet")).unwrap();
    state.set_len(1 << 42).unwrap();
    for command in [
        &["status"][..],
        &["run"],
        &["monitor"],
        &["check"],
        &["state", "verify"],
    ] {
        let said = study.call(command);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        let all = format!("{}{}", said.out, said.err);
        assert!(all.contains("state.parquet"), "{command:?}: {all}");
        if command == ["status"] {
            insta::assert_snapshot!(messages(&study, &said));
        }
    }
    fs::remove_file(study.at("state.parquet")).unwrap();
    // Read without end if it were read.
    std::os::unix::fs::symlink("/dev/zero", study.at("state.parquet")).unwrap();
    for command in [&["status"][..], &["state", "verify"]] {
        let said = study.call(command);
        assert_eq!(said.code, 2, "{command:?}: {}", said.err);
        insta::assert_snapshot!("a_state_that_is_no_regular_file", messages(&study, &said));
    }
}

/// A log that grows without end must not hold up a call that holds the lock.
#[test]
fn a_file_too_large_to_be_searched_is_unreadable() {
    let study = Study::new();
    study.configure(
        "executor: local\nprocedures:\n  - {name: one, output_dir: '', script: job.sh, completion_marker: {glob: log, contains: finished}}\n",
    );
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    study.write("bids/sub-01/ses-01/log", "finished\n");
    let log = fs::OpenOptions::new()
        .write(true)
        .open(study.at("bids/sub-01/ses-01/log"))
        .unwrap();
    log.set_len(1 << 42).unwrap();
    assert_eq!(
        study.decisions(),
        ["one sub-01 ses-01: complete"],
        "found at its beginning"
    );
    study.write("bids/sub-01/ses-01/log", "working\n");
    log.set_len(0).unwrap();
    log.set_len(1 << 42).unwrap();
    let said = study.call(&["run"]);
    assert_eq!(said.code, 7, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
}

/// Somebody has deleted results, or a disk has: nothing else asks for a second run.
#[test]
fn results_that_have_gone_are_named_before_they_are_made_again() {
    let (study, slurm) = study();
    for (subject, session) in [
        ("sub-01", "ses-01"),
        ("sub-01", "ses-02"),
        ("sub-02", "ses-01"),
    ] {
        convert(&study, subject, session);
    }
    study.ok(&["run", "-q"]);
    slurm.set_all("RUNNING");
    study.ok(&["run", "-q"]);
    for session in ["sub-01/ses-01", "sub-01/ses-02", "sub-02/ses-01"] {
        study.write(&format!("derivatives/prep/{session}/x.html"), "x");
    }
    slurm.set_all("COMPLETED");
    assert_eq!(study.ok(&["run", "-q"]).err, "");
    fs::remove_file(study.at("derivatives/prep/sub-01/ses-01/x.html")).unwrap();
    fs::remove_file(study.at("derivatives/prep/sub-01/ses-02/x.html")).unwrap();
    let said = study.ok(&["run", "-q"]);
    assert_eq!(study.ok(&["run", "-q"]).err, "");
    let history = study.json(&["history", "01", "01", "prep"]);
    let again = history.as_array().unwrap().last().unwrap();
    assert_eq!(again["event"], "submitted", "{history}");
    let told = [&said.err, again["detail"].as_str().unwrap()].concat();
    insta::assert_snapshot!(told);
    let submitted = study.events("submitted");
    let is_again = |event: &&serde_json::Value| event["cause"] == "outputs_gone";
    assert_eq!(submitted.iter().filter(is_again).count(), 2);
    // Outputs are not replaced while a job that reads them is in flight.
    study.ok(&["cancel", "--procedure", "group"]);
    let force = ["run", "--force", "--subject", "02", "--procedure", "prep"];
    assert_eq!(
        study.ok(&[&force[..], &["-q"]].concat()).err,
        "",
        "who asks for it knows"
    );
    assert!(
        study
            .ok(&["history", "02", "01", "prep"])
            .out
            .contains("forced")
    );
}

/// The defaults' roots are those of one machine; elsewhere a call without configuration leaves no trace.
#[test]
fn without_a_configuration_nothing_is_written_and_the_way_out_is_said() {
    if fs::metadata("/data/snbb").is_ok() {
        return;
    }
    let study = Study::new();
    let before = study.snapshot();
    for command in [
        &["run"][..],
        &["-q", "run"],
        &["monitor"],
        &["retry"],
        &["pause"],
        &["manifest"],
        &["state", "repair", "--yes"],
    ] {
        let output = study
            .program()
            .env_remove("SNBB_CONFIG")
            .args(command)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        let lines = said.lines().filter(|line| !line.starts_with("note: "));
        let told = lines.collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!("without_a_configuration", told);
        assert!(fs::metadata("/data/snbb").is_err(), "{command:?}");
    }
    assert_eq!(study.snapshot(), before);
    // With one, the same order: first the look, then the lock's directory.
    study.write("config.yaml", "dicom_root: nowhere\nbids_root: bids\nderivatives_root: derivatives\nstate_file: new/state.parquet\n");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains("dicom_root"), "{}", said.err);
    assert!(!study.at("new").try_exists().unwrap());
}

#[test]
fn a_state_that_is_begun_is_said_even_to_cron_and_none_is_begun_behind_a_broken_link() {
    let (study, slurm) = study();
    std::os::unix::fs::symlink("volume/deep/state.parquet", study.at("state.parquet")).unwrap();
    let said = study.call(&["-q", "run"]);
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    assert!(!study.at("volume").exists());
    assert_eq!(slurm.calls("sbatch"), 0);
    fs::create_dir_all(study.at("volume/deep")).unwrap();
    let said = study.ok(&["-q", "run"]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(study.ok(&["-q", "run"]).err, "");
    assert_eq!(slurm.calls("sbatch"), 3);
}
