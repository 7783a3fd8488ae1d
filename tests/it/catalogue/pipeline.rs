//! The whole catalogue as one pipeline, run by the program itself on this machine.

use std::path::Path;

use snbb_scheduler::setup::catalogue::{App, apps};

use super::site::ROOT;
use crate::harness::Study;

#[test]
fn the_program_takes_a_subject_through_all_of_it() {
    let mut study = Study {
        dir: tempfile::Builder::new()
            .prefix("a study ")
            .tempdir()
            .unwrap(),
        path: vec![Path::new(ROOT).join("fixtures/bin")],
        env: Vec::new(),
    };
    for dir in ["dicom", "bids", "derivatives", "logs", "scratch"] {
        std::fs::create_dir(study.at(dir)).unwrap();
    }
    for file in ["license.txt", "heuristic.py"] {
        study.write(file, "");
    }
    let variables = [
        ("STUB_LOG", "calls"),
        ("SNBB_SCRATCH", "scratch"),
        ("SNBB_FS_LICENSE", "license.txt"),
        ("SNBB_HEURISTIC", "heuristic.py"),
    ];
    for (name, file) in variables {
        let path = study.at(file).display().to_string();
        study.env.push((name.to_owned(), path));
    }
    study.scan(&["sub-01/ses-01", "sub-01/ses-02"]);
    let chosen: Vec<&App> = apps().iter().filter(|app| app.name != "dcm2bids").collect();
    let names: Vec<&str> = chosen.iter().map(|app| app.name).collect();
    let entries: String = chosen
        .iter()
        .map(|app| app.entry_for(&names, None))
        .collect();
    study.configure(&format!(
        "executor: local\nlocal_jobs: 4\nscript_dir: {ROOT}/slurm_templates\nprocedures:\n{entries}"
    ));

    for _ in 0..8 {
        study.ok(&["run"]);
        study.ok(&["wait", "--interval", "1s", "--timeout", "2m"]);
        if study
            .ok(&["manifest", "--format", "csv"])
            .out
            .lines()
            .count()
            == 1
        {
            break;
        }
    }
    let all: Vec<String> = study.statuses();
    let bad: Vec<&String> = all
        .iter()
        .filter(|row| !row.ends_with(": complete verified"))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    for app in chosen {
        let rows = all
            .iter()
            .filter(|row| row.starts_with(&format!("{} ", app.name)))
            .count();
        // HeuDiConv's stub makes no perfusion images.
        let expected = match app.name {
            "aslprep" => 0,
            _ if app.entry.contains("\n    scope: subject\n") => 1,
            _ => 2,
        };
        assert_eq!(rows, expected, "{}: {all:#?}", app.name);
    }
}
