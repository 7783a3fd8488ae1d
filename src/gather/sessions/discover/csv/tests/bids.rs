//! Files in the formats of BIDS and nipoppy, and ids that are labels already.

use super::*;

fn parse_as(file: &str, pad_ids: bool, text: &str) -> Result<Discovery, CsvError> {
    let cols = ["UID", "ScanID"];
    from_bytes(&config(pad_ids), Path::new(file), text.as_bytes(), cols)
}

#[test]
fn ids_with_a_prefix_are_labels_already() {
    for (subject, session, expected) in [
        ("sub-1", "ses-01", "sub-1 ses-01"),
        ("sub-00012", "7", "sub-00012 ses-000000000007"),
        ("12", "ses-BL", "sub-0012 ses-BL"),
        // The other column's prefix does not count.
        ("ses-1", "sub-1", "sub-ses1 ses-00000000sub1"),
    ] {
        let found = parse(format!("UID,ScanID,dicom_path\n{subject},{session},/d\n")).unwrap();
        assert_eq!(shown(&found), [format!("{expected} /d")]);
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
    let error = parse("UID,ScanID,dicom_path\nsub-1_2,ses-,/d\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "sessions_file s.csv: line 2: \"sub-1_2\" is not a valid subject label, line 2: \"ses-\" is not a valid session label"
    );
    // One label, written with and without prefix.
    let found = parse("UID,ScanID,dicom_path\nsub-0001,1,/d\n0001,2,/d\n").unwrap();
    assert_eq!(
        found.notes,
        [
            "s.csv: different ids for the same label: 'sub-0001' (line 2) and '0001' (line 3) are both sub-0001"
        ]
    );
}

#[test]
fn ids_can_be_used_as_written() {
    let text = "UID,ScanID,dicom_path\n01,BL,/a\nsub-2,ses-1,/b\n 003 ,000,/c\n";
    assert_eq!(
        shown(&parse_as("s.csv", false, text).unwrap()),
        ["sub-003 ses-000 /c", "sub-01 ses-BL /a", "sub-2 ses-1 /b"]
    );
    for id in ["1-2", "a b", "12.0"] {
        let text = format!("UID,ScanID,dicom_path\n{id},1,/a\n");
        let error = parse_as("s.csv", false, &text).unwrap_err();
        assert!(error.to_string().contains(id), "{error}");
        assert!(error.hint.contains("pad_ids"), "{}", error.hint);
    }
}

#[test]
fn a_tsv_file_is_split_at_tabs_without_quoting() {
    let text = "UID\tScanID\tdicom_path\tnote\n1\t2\t/a, b\t\"\r\n3\t4\t\"/c\"\t\n5\tn/a\t/d\t\n";
    let found = parse_as("s.tsv", true, text).unwrap();
    assert_eq!(
        shown(&found),
        [
            "sub-0001 ses-000000000002 /a, b",
            "sub-0003 ses-000000000004 \"/c\""
        ]
    );
    assert_eq!(
        found.notes,
        ["s.tsv: skipped 1 row without subject or session: line 4"]
    );
    for (file, text, problem, hint) in [
        (
            "s.tsv",
            "UID,ScanID,dicom_path\n",
            "(found: 'UID,ScanID,dicom_path')",
            "by tabs",
        ),
        (
            "s.csv",
            "UID\tScanID\tdicom_path\n",
            "(found: 'UID\tScanID\tdicom_path')",
            "by commas",
        ),
        (
            "s.tsv",
            "UID\tScanID\tdicom_path\n1\t2\t/a\tb\n",
            "line 2: 4 values",
            "tabs separate",
        ),
    ] {
        let error = parse_as(file, true, text).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(error.hint.contains(hint), "{}", error.hint);
    }
}

#[test]
fn participants_of_bids_are_subjects_without_sessions() {
    let text = "participant_id\tage\nsub-01\t30\nsub-2\tn/a\nn/a\t1\n";
    let found = parse_as("participants.tsv", true, text).unwrap();
    assert_eq!(
        shown(&found),
        ["sub-01  /dicom/sub-01", "sub-2  /dicom/sub-2"]
    );
    assert_eq!(
        found.notes,
        ["participants.tsv: skipped 1 row without subject or session: line 4"]
    );
    // A column of paths is used if there is one.
    let text = "participant_id,session_id,dicom_path\nsub-1,ses-1,/a\nsub-1,ses-2,\nsub-1,,\n";
    let found = parse(text).unwrap();
    assert_eq!(shown(&found), ["sub-1 ses-1 /a", "sub-1 ses-2 -"]);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
}

/// A visit without session has no imaging.
#[test]
fn nipoppys_manifest_lists_sessions() {
    let text = "participant_id\tvisit_id\tsession_id\tdatatype\n01\tBL\tBL\t['anat']\n01\tM06\t\t\n\
        02\tBL\tBL\t['anat','dwi']\n02\tM12\tn/a\t\n";
    let found = parse_as("manifest.tsv", false, text).unwrap();
    let dir = "/dicom/sub-0";
    assert_eq!(
        shown(&found),
        [
            format!("sub-01 ses-BL {dir}1/ses-BL"),
            format!("sub-02 ses-BL {dir}2/ses-BL")
        ]
    );
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let found = parse_as("s.csv", false, "participant_id,visit_id\n01,BL\n01,\n").unwrap();
    assert_eq!(shown(&found), ["sub-01 ses-BL /dicom/sub-01/ses-BL"]);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
}

#[test]
fn columns_of_bids_replace_only_the_defaults() {
    let find = |header: &str, cols| {
        from_bytes(&config(true), Path::new(FILE), header.as_bytes(), cols)
            .map_err(|error| error.to_string())
            .map(|_| ())
    };
    let defaults = ["UID", "ScanID"];
    for (header, cols, missing) in [
        (
            "participant_id,session_id",
            ["Code", "ScanID"],
            "'Code', 'ScanID', 'dicom_path'",
        ),
        ("participant_id,session_id", ["UID", "Scan"], "'Scan'"),
        (
            "participant_id,session_id",
            ["participant_id", "Scan"],
            "'Scan'",
        ),
        (
            "UID,participant_id,session_id,dicom_path",
            defaults,
            "'ScanID'",
        ),
        (
            "session_id,visit_id,dicom_path",
            defaults,
            "'UID', 'ScanID'",
        ),
    ] {
        let error = find(header, cols).unwrap_err();
        let expected = format!("has no column {missing} (found");
        assert!(error.contains(&expected), "{error}");
    }
    for cols in [
        defaults,
        ["participant_id", "ScanID"],
        ["UID", "session_id"],
    ] {
        assert_eq!(find("participant_id,session_id", cols), Ok(()));
    }
    assert_eq!(find("participant_id,ScanID,session_id", defaults), Ok(()));
}
