//! Directories that were meant, and those that were not.

use super::*;
use crate::setup::catalogue;

fn tree(entries: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in entries {
        let path = dir.path().join(entry);
        if entry.ends_with('/') {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
    }
    dir
}

#[test]
fn layouts_of_dicom_roots_are_told_apart() {
    let look = |entries: &[&str]| dicom(tree(entries).path());
    let data = look(&["sub-1/ses-1/1.dcm", "sub-1/ses-2/", "sub-2/ses-1/"]).unwrap();
    assert_eq!(
        (data.subjects, data.sessions, data.most_sessions),
        (2, 3, 2)
    );
    assert!(!data.is_sessionless && data.notes.is_empty());
    assert!(look(&["sub-1/1.dcm"]).unwrap().is_sessionless);
    let data = look(&[]).unwrap();
    assert!(data.notes[0].contains("no sessions"), "{:?}", data.notes);
    let told = look(&["P1/1.dcm", "P2/", "P3/", "P4/", "x.csv"]).unwrap_err();
    assert!(
        told.to_string().ends_with("there are P1, P2, P3, ..."),
        "{told}"
    );
    assert!(told.hint().contains("--sessions-file"));
}

#[test]
fn kinds_of_data_are_counted_in_a_converted_dataset() {
    let dir = tree(&[
        "sub-1/ses-1/anat/x",
        "sub-1/ses-2/dwi/x",
        "sub-2/anat/",
        "derivatives/a/",
    ]);
    let data = bids(dir.path(), true).unwrap();
    assert_eq!((data.sessions, data.looked_at), (3, 3));
    assert_eq!(
        data.datatypes,
        [("anat".to_owned(), 2), ("dwi".to_owned(), 1)].into()
    );
    let told = bids(&dir.path().join("derivatives"), true).unwrap_err();
    assert!(told.hint().contains("--dicom-root"), "{told}");
    assert_eq!(
        bids(&dir.path().join("new"), false).unwrap(),
        Data::default()
    );
}

#[test]
fn a_wrong_path_is_told_with_the_right_one() {
    let dir = tree(&["study/dicom/", "file"]);
    let at = |path: &str| dir.path().join(path);
    let hint = |path: &str| source("--dicom-root", &at(path)).unwrap_err().hint();
    assert_eq!(
        hint("study/dicm"),
        format!("did you mean {}?", at("study/dicom").display())
    );
    assert_eq!(hint("stdy/dicom"), hint("study/dicm"));
    assert!(hint("study/other").contains("mounted"));
    assert_eq!(hint("file"), "give a directory");
    assert!(target("--bids-root", &at("study/bids")).unwrap());
    assert!(!target("--bids-root", &at("study")).unwrap());
    assert!(target("--bids-root", &at("no/bids")).is_err());
}

fn named(name: &str) -> App {
    catalogue::app(name).unwrap().clone()
}

#[test]
fn apps_whose_data_is_missing_are_left_out() {
    let data = Data {
        subjects: 2,
        sessions: 2,
        most_sessions: 1,
        looked_at: 2,
        datatypes: [("anat".to_owned(), 2)].into(),
        ..Data::default()
    };
    assert_eq!(data.obstacle(&named("mriqc")), None);
    assert_eq!(data.obstacle(&named("dcm2niix")), None);
    let told = |name, data: &Data| data.obstacle(&named(name)).unwrap();
    assert_eq!(told("fmriprep", &data), "no session has func");
    assert_eq!(told("xcp_d", &data), "no session has func");
    let sample = Data {
        sessions: 300,
        ..data.clone()
    };
    assert_eq!(
        told("qsiprep", &sample),
        "none of 2 sessions looked at has dwi"
    );
    let unknown = Data {
        looked_at: 0,
        ..data
    };
    assert_eq!(unknown.obstacle(&named("qsiprep")), None);
}
