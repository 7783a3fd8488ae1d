//! The audit of a small real study, in each form.

use serde_json::Value;

use crate::harness::{Said, Study};
use crate::pretty::problems;

/// A study of three sessions on this machine: one complete, one whose second step ran out of memory, one
/// without its first step's output.
fn study() -> Study {
    let study = Study::new();
    study.configure(
        "executor: local\nlocal_jobs: 4\noutput_grace: 0s\naudit: {dicom_min_files: 2, report_dir: reports}\n\
         procedures:\n\
         - {name: bids, output_dir: '', script: bids.sh, completion_marker: ['anat/*_T1w.nii.gz', 'dwi/*.bval']}\n\
         - {name: report, output_dir: report, script: report.sh, depends_on: [bids]}\n",
    );
    study.scan(&["sub-01/ses-01", "sub-02/ses-01", "sub-03/ses-01"]);
    study.write("dicom/sub-01/ses-01/0002.dcm", "x");
    study.script(
        "bids.sh",
        "mkdir -p $SNBB_OUTPUT_DIR/anat $SNBB_OUTPUT_DIR/dwi\n\
         echo x > $SNBB_OUTPUT_DIR/anat/${1}_T1w.nii.gz\n\
         [ $1 = sub-03 ] || echo x > $SNBB_OUTPUT_DIR/dwi/$1.bval\n\
         #SBATCH --mem=1G",
    );
    study.script(
        "report.sh",
        "if [ $1 = sub-02 ]; then echo reading; echo 'std::bad_alloc' >&2; exit 3; fi\n\
         mkdir -p $SNBB_OUTPUT_DIR; echo x > $SNBB_OUTPUT_DIR/report.html",
    );
    for _ in 0..2 {
        study.ok(&["run", "-q"]);
        study.call(&["wait", "-q", "--interval", "1s", "--timeout", "60s"]);
    }
    study
}

fn report(said: &Said) -> Value {
    let json: Value = serde_json::from_str(&said.out).unwrap();
    let schema = include_str!("../../docs/schema/audit.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    json
}

#[test]
fn one_study_in_all_its_parts() {
    let study = study();
    let before = study.snapshot();
    let said = study.ok(&["audit", "--format", "json", "--queue"]);
    let json = report(&said);
    assert_eq!(study.snapshot(), before, "an audit writes nothing");

    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let counts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|c| format!("{} {}", c["count"], text(&c["word"])))
            .collect()
    };
    assert_eq!(
        counts(&json["totals"]["decisions"]),
        ["3 complete", "1 blocked", "2 failed"]
    );
    assert_eq!(json["totals"]["rows"]["total"], 5);
    assert_eq!(json["health"]["good"], 1);

    let failed: Vec<String> = json["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            let markers = task["markers"].as_array().unwrap().iter();
            let markers: Vec<String> = markers
                .map(|m| format!("{} {}", text(&m["marker"]), text(&m["state"])))
                .collect();
            format!(
                "{} {} {}: {}",
                text(&task["procedure"]),
                text(&task["subject"]),
                text(&task["reason"]),
                markers.join(", ")
            )
        })
        .collect();
    assert_eq!(
        failed,
        [
            "bids sub-03 no_output: anat/*_T1w.nii.gz found, dwi/*.bval missing",
            "report sub-02 exit_code: <directory> missing",
        ]
    );
    let cell = &json["matrix"]["sessions"][1]["cells"][1];
    assert_eq!(cell["decision"], "failed");
    assert_eq!(cell["detail"], 1);
    assert_eq!(json["tasks"][1]["log_tail"][0], "std::bad_alloc");

    let finding = &json["logs"]["findings"][0];
    assert_eq!(finding["pattern"], "out_of_memory");
    assert!(text(&finding["file"]).ends_with(".err"));
    assert_eq!(finding["line_number"], 1);
    let dicom = json["dicom"]["findings"].as_array().unwrap();
    assert_eq!(dicom.len(), 2, "one file each, two are expected");
    assert_eq!(dicom[0]["problem"], "few_files");
    // Slurm's own lines mean nothing to the local executor.
    assert_eq!(json["scripts"], Value::Array(Vec::new()));
    let progress = &json["progress"]["procedures"];
    assert_eq!(
        progress[0]["days"].as_array().unwrap().last().unwrap()["completed_so_far"],
        2
    );
    assert_eq!(json["orphans"]["jobs"], Value::Array(Vec::new()));

    let table = study.ok(&["audit"]).out;
    let overview = table.lines().find(|line| line.contains("6 tasks"));
    insta::assert_snapshot!(overview.unwrap());
    assert!(table.contains("std::bad_alloc"), "{table}");
    let markdown = study.ok(&["audit", "--format", "markdown"]).out;
    assert!(
        markdown.contains("| report | sub-02 | ses-01 |"),
        "{markdown}"
    );

    let page = study.ok(&["audit", "--format", "html"]).out;
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.contains("std::bad_alloc"), "{page}");

    one_part_each(&study);
    selections_choose(&study);
    history_compares(&study);
    files_go_where_they_may(&study);
    what_cannot_be_read_is_told(&study);
}

fn one_part_each(study: &Study) {
    for (option, part) in [
        ("--dicom-only", "dicom"),
        ("--logs-only", "logs"),
        ("--efficiency", "efficiency"),
    ] {
        let json = report(&study.ok(&["audit", option, "--format", "json"]));
        assert_eq!(json["study"]["parts"], serde_json::json!([part]));
        assert_eq!(json["totals"]["tasks"], 0, "{option} looks at no outputs");
        assert_eq!(json["dicom"].is_null(), part != "dicom");
        assert_eq!(json["logs"].is_null(), part != "logs");
        assert!(!study.ok(&["audit", option]).out.is_empty());
    }
    let said = study.call(&["audit", "--dicom-only", "--logs-only"]);
    assert_eq!(said.code, 2);
}

fn selections_choose(study: &Study) {
    let json = report(&study.ok(&[
        "audit",
        "--subject",
        "02",
        "--procedure",
        "report",
        "--format",
        "json",
    ]));
    assert_eq!(json["totals"]["tasks"], 1);
    assert_eq!(json["totals"]["rows"]["failed"], 1);
    assert_eq!(
        json["study"]["selection"],
        "--subject 02 --procedure report"
    );
    assert_eq!(json["matrix"]["procedures"], serde_json::json!(["report"]));
    let all = report(&study.ok(&["audit", "--markers", "--format", "json"]));
    assert_eq!(all["tasks"].as_array().unwrap().len(), 6);
}

fn history_compares(study: &Study) {
    let reports = || {
        let mut names: Vec<_> = walkdir::WalkDir::new(study.at("reports"))
            .min_depth(1)
            .into_iter()
            .map(|entry| entry.unwrap().into_path())
            .collect();
        names.sort();
        names
    };
    let first = report(&study.ok(&["audit", "--history", "--format", "json"]));
    assert!(first["trend"].is_null());
    assert_eq!(reports().len(), 1);
    // As if it were of another day, and had fewer failures.
    let old = std::fs::read_to_string(&reports()[0]).unwrap();
    let fewer = old.replace(
        r#"{"word":"failed","count":2}"#,
        r#"{"word":"failed","count":1}"#,
    );
    assert_ne!(old, fewer);
    std::fs::remove_file(&reports()[0]).unwrap();
    study.write("reports/audit_20260101_000000.json", &fewer);
    let next = report(&study.ok(&["audit", "--history", "--format", "json"]));
    assert_eq!(next["trend"]["worse"], true);
    assert_eq!(reports().len(), 2);
    let saved: Value = serde_json::from_slice(&std::fs::read(&reports()[1]).unwrap()).unwrap();
    assert_eq!(
        saved["trend"]["worse"], true,
        "what is saved is what was shown"
    );
    let table = study.ok(&["audit", "--history"]).out;
    assert!(table.contains("+1"), "{table}");
}

fn files_go_where_they_may(study: &Study) {
    let file = study.at("report.md");
    let said = study.ok(&[
        "audit",
        "--format",
        "markdown",
        "--output",
        file.to_str().unwrap(),
    ]);
    assert_eq!(said.out, "");
    assert!(study.read("report.md").starts_with("# Audit of "));
    let mut told = Vec::new();
    for below in ["bids/x.md", "derivatives/new/x.md", "dicom/../dicom/x.md"] {
        let below = study.at(below);
        let said = study.call(&["audit", "--output", below.to_str().unwrap()]);
        assert_eq!(said.code, 2, "{}", said.err);
        told.push(problems(study, &said.err));
        assert!(!below.try_exists().unwrap());
    }
    insta::assert_snapshot!("audit_among_the_data", told.join("\n"));
    let said = study.call(&["audit", "--output", study.at("none/x").to_str().unwrap()]);
    assert_eq!(said.code, 1);
}

fn what_cannot_be_read_is_told(study: &Study) {
    let log = walkdir::WalkDir::new(study.at("logs"))
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("report_sub-02") && name.ends_with(".err")
        })
        .unwrap();
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(log.file_name().unwrap(), &log).unwrap();
    let said = study.call(&["audit", "--format", "json"]);
    assert_eq!(said.code, 7);
    let file = log.file_name().unwrap().to_str().unwrap();
    assert!(problems(study, &said.err).contains(file), "{}", said.err);
    let json = report(&said);
    assert_eq!(json["unreadable"][0]["part"], "log");
}

#[test]
fn an_empty_study_has_a_report() {
    let study = Study::new();
    let json = report(&study.ok(&["audit", "--format", "json"]));
    assert_eq!(json["totals"]["tasks"], 0);
    assert!(json["progress"].is_null());
    let said = study.call(&["audit", "--procedure", "nonesuch"]);
    assert_eq!(said.code, 2);
}
