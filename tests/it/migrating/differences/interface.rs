//! Differences that are seen on the command line, in files and in jobs.

use super::*;

#[test]
fn selections() {
    let (study, slurm) = study(STEPS, &["sub-01/ses-01", "sub-02/ses-01"]);
    study.write("bids/sub-01/ses-01/anat/x_T1w.nii.gz", "x");
    study.ok(&["run", "--procedure", "prep"]);
    assert_eq!(slurm.jobs().len(), 1);
    assert_eq!(slurm.jobs()[0].1, "prep_sub-01_ses-01");
    assert_eq!(study.call(&["run", "--procedure", "qsiprep"]).code, 2);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 2);
}

#[test]
fn manifest_in_flight() {
    let (study, _) = study(STEPS, &["sub-01/ses-01"]);
    assert_eq!(due(&study), ["bids sub-01 ses-01"]);
    study.ok(&["run"]);
    assert_eq!(due(&study), [""; 0]);
    let said = study.ok(&[
        "status", "--status", "pending", "--status", "running", "--format", "csv",
    ]);
    assert!(
        said.out.contains("sub-01,ses-01,bids,pending"),
        "{}",
        said.out
    );
}

#[test]
fn strict_configuration() {
    let (study, _) = study(STEPS, &["sub-01/ses-01"]);
    let step = |more: &str| format!("  - {{name: a, output_dir: a, script: job.sh{more}}}\n");
    for (steps, words) in [
        (step(", depends_on: [a]"), "dependency cycle"),
        (step("") + &step(""), "already used in line"),
        (step(", scope: sesion"), "did you mean 'session'?"),
        (step(", completion_marker: /abs/x"), "/abs/x"),
        (step(", completion_marker: ../x"), "../x"),
        (step(", completion_marker: '**.html'"), "**.html"),
    ] {
        study.configure(&format!("procedures:\n{steps}"));
        let said = study.call(&["run"]);
        assert_eq!(said.code, 2, "{steps}{}", said.err);
        says(&said, words);
    }
}

#[test]
fn relative_paths_and_scripts() {
    let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
    // The script lies where the call is made from, the configuration elsewhere.
    study.write("elsewhere/job.sh", &study.read("job.sh"));
    fs::remove_file(study.at("job.sh")).unwrap();
    let run = |study: &Study| {
        let output = study
            .program()
            .arg("run")
            .current_dir(study.at("elsewhere"))
            .output()
            .unwrap();
        output.status.code()
    };
    assert_eq!(run(&study), Some(3));
    assert_eq!(slurm.calls("sbatch"), 0);
    study.configure(&format!(
        "script_dir: {}\n{STEPS}",
        study.at("elsewhere").display()
    ));
    assert_eq!(run(&study), Some(0));
    assert_eq!(slurm.calls("sbatch"), 1);
    // Absolute paths mean the same to both programs, from wherever.
    let absolute = study
        .read("config.yaml")
        .replace(": dicom", &format!(": {}", study.at("dicom").display()));
    study.write("sub/config.yaml", &absolute);
    let said = study.call(&[
        "--config",
        study.at("sub/config.yaml").to_str().unwrap(),
        "manifest",
        "--format",
        "csv",
    ]);
    assert!(
        said.out.contains("sub-01,ses-01,bids"),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn sbatch_options() {
    for (account, expected) in [("snbb", true), ("", false), ("null", false)] {
        let (study, slurm) = study(
            &format!("slurm_account: {account}\n{STEPS}"),
            &["sub-01/ses-01"],
        );
        study.ok(&["run"]);
        let words = shell_words::split(&slurm.argv()).unwrap();
        assert_eq!(words[0], "--parsable");
        assert!(words[1].starts_with("--comment=snbb:"), "{words:?}");
        assert_eq!(words[2], "--export=ALL");
        let account = words.iter().find(|word| word.starts_with("--account"));
        assert_eq!(account.is_some(), expected, "{words:?}");
    }
}

#[test]
fn environment() {
    for (config, expected) in [
        ("", None),
        (
            ", sbatch_args: [--reservation=night]",
            Some("--reservation=night"),
        ),
    ] {
        let steps = format!(
            "procedures: [{{name: bids, output_dir: '', script: job.sh, completion_marker: done{config}}}]\n"
        );
        let (mut study, slurm) = study(&steps, &["sub-01/ses-01"]);
        study
            .env
            .push(("SBATCH_RESERVATION".into(), "night".into()));
        study.env.push(("SITE_VARIABLE".into(), "kept".into()));
        study.ok(&["run"]);
        let seen = fs::read_to_string(slurm.at("env.1")).unwrap();
        assert!(
            !seen.contains("SBATCH_RESERVATION") && seen.contains("SITE_VARIABLE=kept"),
            "{seen}"
        );
        let argv = slurm.argv();
        assert_eq!(
            argv.contains("--reservation=night"),
            expected.is_some(),
            "{argv}"
        );
    }
}

#[test]
fn one_row_and_more_columns() {
    let (study, slurm) = site("pandas-2.2.parquet");
    study.ok(&["run"]);
    // One row of the task that has two in the file of pandas, and the other one beside it.
    let rows = study.rows();
    let of_task = rows
        .iter()
        .filter(|row| row["subject"] == "sub-0001" && row["procedure"] == "bids");
    assert_eq!(of_task.count(), 1);
    let store = snbb_scheduler::store::state_file::Store::at(&study.at(".scheduler_state.parquet"))
        .unwrap();
    let attempts = store.read().unwrap();
    assert!(attempts.rows().len() >= 3);
    let events = study.read("scheduler_audit.jsonl");
    assert!(events.contains(r#""event": "submitted", "subject": "sub-0003""#));
    assert!(slurm.calls("sbatch") > 0);
    // The fixed columns come first, in their order.
    let header = study.ok(&["status", "--format", "csv"]).out;
    assert!(
        header.starts_with("subject,session,procedure,status,submitted_at,job_id,"),
        "{header}"
    );
}

#[test]
fn status_reads() {
    let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
    study.ok(&["run"]);
    slurm.set_all("RUNNING");
    let asked = slurm.calls("squeue") + slurm.calls("sacct");
    let before = study.read_bytes("state.parquet");
    assert_eq!(study.statuses(), ["bids sub-01 ses-01: pending queued"]);
    assert_eq!(slurm.calls("squeue") + slurm.calls("sacct"), asked);
    assert_eq!(before, study.read_bytes("state.parquet"));
    // The way back.
    study.ok(&["monitor"]);
    assert_eq!(study.statuses(), ["bids sub-01 ses-01: running running"]);
}

#[test]
fn exit_codes() {
    let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
    slurm.refuse(1, "sbatch: error: invalid partition specified: debug\n");
    assert_eq!(study.call(&["run"]).code, 3);
    study.ok(&["run"]);
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    study.configure("procedurs: []\n");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 2);
    assert!(!said.err.contains("Traceback"), "{}", said.err);
}

#[test]
fn audit_report_and_events() {
    let (study, slurm) = study(
        &format!("audit: {{report_dir: reports}}\n{STEPS}"),
        &["sub-01/ses-01"],
    );
    study.ok(&["run", "--dry-run"]);
    assert!(
        !study.at("scheduler_audit.jsonl").try_exists().unwrap(),
        "no event of a dry run"
    );
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    // Lines of JSON, each of them; no page at each event.
    for line in study.read("scheduler_audit.jsonl").lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let page = study.at("reports/audit_report.html");
    assert!(!page.try_exists().unwrap());
    fs::create_dir_all(study.at("reports")).unwrap();
    study.ok(&[
        "audit",
        "--format",
        "html",
        "--output",
        page.to_str().unwrap(),
    ]);
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    assert!(
        study
            .ok(&["audit", "--format", "markdown"])
            .out
            .starts_with("# ")
    );
    assert_eq!(study.call(&["audit", "--session", "sub-01/ses-01"]).code, 2);
    study.ok(&["audit", "--subject", "sub-01", "--session", "ses-01"]);
}
