//! Valid and invalid data directories.

use super::*;

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
fn layouts_of_dicom_roots_are_recognized() {
    let survey = |entries: &[&str]| dicom(tree(entries).path());
    let data = survey(&["sub-1/ses-1/1.dcm", "sub-1/ses-2/", "sub-2/ses-1/"]).unwrap();
    assert_eq!(data.sessions.len(), 3);
    assert!(!data.is_sessionless && data.notes.is_empty());
    assert!(survey(&["sub-1/1.dcm"]).unwrap().is_sessionless);
    let data = survey(&[]).unwrap();
    assert_eq!(
        (data.sessions.len(), data.notes.len()),
        (0, 1),
        "{:?}",
        data.notes
    );
    let error = survey(&["P1/1.dcm", "P2/", "P3/", "P4/", "x.csv"]).unwrap_err();
    assert!(
        error.to_string().ends_with("but P1, P2, P3 and 1 more"),
        "{error}"
    );
    assert!(error.hint.contains("--sessions-file"));
}

#[test]
fn sessions_of_a_converted_dataset_are_counted() {
    let dir = tree(&[
        "sub-1/ses-1/anat/x",
        "sub-1/ses-2/dwi/x",
        "sub-2/anat/",
        "derivatives/a/",
    ]);
    let data = bids(dir.path(), true).unwrap();
    assert_eq!(data.sessions.len(), 3);
    let error = bids(&dir.path().join("derivatives"), true).unwrap_err();
    assert!(error.hint.contains("--dicom-root"), "{error}");
    assert_eq!(
        bids(&dir.path().join("new"), false).unwrap(),
        Data::default()
    );
}

#[test]
fn a_wrong_path_suggests_the_right_one() {
    let dir = tree(&["study/dicom/", "file"]);
    let at = |path: &str| dir.path().join(path);
    let hint = |path: &str| source("--dicom-root", &at(path)).unwrap_err().hint;
    assert_eq!(
        hint("study/dicm"),
        format!("did you mean {}?", at("study/dicom").display())
    );
    assert!(hint("study/other").contains("mounted"));
    assert_eq!(hint("file"), "use a directory");
    assert!(target("--bids-root", &at("study/bids")).is_ok());
    assert!(target("--bids-root", &at("study")).is_ok());
    assert!(target("--bids-root", &at("no/bids")).is_err());
}
