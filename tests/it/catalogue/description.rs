//! `dataset_description.json`, which BIDS apps need: the converters' scripts write it once.
#![expect(clippy::disallowed_methods, reason = "looks at what scripts leave")]

use std::fs;
use std::process::Output;

use serde_json::Value;
use snbb_scheduler::setup::catalogue::app;

use super::site::{Site, text};

const FILE: &str = "bids/dataset_description.json";

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

#[test]
fn d1_converters_describe_a_dataset_that_has_no_description() {
    for name in ["heudiconv", "dcm2bids"] {
        let site = Site::new(app(name).unwrap(), &["ses-01"]);
        succeeded(&site.run(""));
        let text = fs::read_to_string(site.at(FILE)).unwrap();
        let described: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(described["DatasetType"], "raw", "{name}");
        // Never again: the site may have written its own.
        for own in ["{\"Name\": \"ours\", \"BIDSVersion\": \"1.2.0\"}", ""] {
            site.write(FILE, own.as_bytes());
            succeeded(&site.run(""));
            assert_eq!(fs::read_to_string(site.at(FILE)).unwrap(), own, "{name}");
        }
        // Not even a link whose content is not here (git-annex).
        fs::remove_file(site.at(FILE)).unwrap();
        std::os::unix::fs::symlink("nowhere", site.at(FILE)).unwrap();
        succeeded(&site.run(""));
        assert!(!site.at("bids/nowhere").exists(), "{name}");
        site.assert_clean("a description that exists");
    }
}

/// A description that cannot be written is reported; the session is converted all the same.
#[test]
fn d1_a_dataset_that_cannot_be_described_is_reported() {
    let site = Site::new(app("heudiconv").unwrap(), &["ses-01"]);
    // Even root cannot write this name.
    let hidden = "bids/.dataset_description.json.sub-01_ses-01.tmp/x";
    site.write(hidden, b"");
    let output = site.run("");
    succeeded(&output);
    let said = text(&output);
    assert!(
        said.contains("cannot write") && said.contains(FILE),
        "{said}"
    );
}

#[test]
fn d1_many_jobs_at_once_describe_the_dataset_once() {
    let site = Site::new(app("heudiconv").unwrap(), &["ses-01"]);
    for round in 0..3 {
        let _ = fs::remove_file(site.at(FILE));
        let jobs: Vec<_> = (0..8)
            .map(|number| {
                let session = format!("ses-{round}{number}");
                site.write(&format!("dicom/sub-01/{session}/1.dcm"), b"x");
                let mut command = site.command(site.app, &session);
                std::thread::spawn(move || command.output().unwrap())
            })
            .collect();
        // Whoever looks sees the whole file, or none.
        while jobs.iter().any(|job| !job.is_finished()) {
            if let Ok(text) = fs::read_to_string(site.at(FILE)) {
                serde_json::from_str::<Value>(&text).unwrap();
            }
        }
        for job in jobs {
            succeeded(&job.join().unwrap());
        }
        assert!(site.at(FILE).exists());
        site.assert_clean("many jobs");
    }
}
