use proptest::prelude::*;

use super::*;
use crate::config::Overrides;
use crate::config::load::interpret;

mod bids;

const FILE: &str = "s.csv";

fn config(pad_ids: bool) -> Config {
    let text = format!("dicom_root: /dicom\npad_ids: {pad_ids}\n");
    let (none, root) = (Overrides::default(), Path::new("/"));
    interpret(text.as_bytes(), None, false, &|_| None, &none, root).unwrap()
}

fn parse(text: impl AsRef<[u8]>) -> Result<Discovery, CsvError> {
    from_bytes(
        &config(true),
        Path::new(FILE),
        text.as_ref(),
        ["UID", "ScanID"],
    )
}

/// Shows sessions as `sub ses path`.
fn shown(discovery: &Discovery) -> Vec<String> {
    discovery
        .sessions
        .iter()
        .map(|session| match &session.dicom {
            Dicom::At(path) => {
                format!("{} {} {}", session.subject, session.session, path.display())
            }
            _ => format!("{} {} -", session.subject, session.session),
        })
        .collect()
}

/// A file that is being written, or whose copy was interrupted.
#[test]
fn attack_a_file_whose_last_line_is_cut_is_an_error() {
    let header = "UID,ScanID,dicom_path\n";
    let mut told = Vec::new();
    for (rows, is_complete) in [
        ("1,1,/d\n2,2,/d\n", true),
        ("1,1,/d\n2,2,/d", true),
        ("1,1,/d\n2,2", false),
        ("1,1,/d\n2", false),
        ("1,1,/d\n2,2\n", false),
        ("1", false),
        // Programs that leave out empty values at the end do so in other rows too.
        ("1,1\n2,2\n", true),
        ("1,1\n2,2,/d\n3,3\n", true),
        ("1,1\n2", false),
        ("1,1\n2,2,/d\n", true),
    ] {
        let found = parse(format!("{header}{rows}"));
        assert_eq!(found.is_ok(), is_complete, "{rows:?}: {found:?}");
        told.extend(
            found
                .err()
                .map(|error| format!("{rows:?}\n{error}\n{}\n", error.hint)),
        );
    }
    insta::assert_snapshot!(told.join("\n"));
}

/// The golden table, with comments where the Python program differs.
#[test]
fn ids_become_labels() {
    for (subject, session, expected) in [
        ("0001", "202407110849", "sub-0001 ses-202407110849"),
        ("CLMC-1", "20240711", "sub-CLMC1 ses-000020240711"),
        ("A B", "2024-07-11", "sub-00AB ses-000020240711"),
        ("42", "2024_07_11 0849", "sub-0042 ses-202407110849"),
        ("12.0", "202407110849.0", "sub-0012 ses-202407110849"),
        ("00012", "1", "sub-0012 ses-000000000001"),
        ("0001-2", "1", "sub-00012 ses-000000000001"),
        ("0000", "0", "sub-0000 ses-000000000000"),
        ("123456", "1234567890123", "sub-123456 ses-1234567890123"),
        ("True", "1", "sub-True ses-000000000001"),
        // Text, where Python read a number (1000).
        ("1e3", "1", "sub-01e3 ses-000000000001"),
        (" 7 ", "\t8", "sub-0007 ses-000000000008"),
    ] {
        let found = parse(format!("UID,ScanID,dicom_path\n{subject},{session},/d\n")).unwrap();
        assert_eq!(shown(&found), [format!("{expected} /d")], "{subject}");
        assert!(found.notes.is_empty());
    }
}

/// A column contains either numbers or texts, as in the Python program.
#[test]
fn c1_ids_of_a_column_of_texts_keep_their_zeros() {
    let text = "UID,ScanID,dicom_path\n00001,1,/a\nX,1,/b\n12,002,/c\n00012,2,/d\n";
    assert_eq!(
        shown(&parse(text).unwrap()),
        [
            "sub-00001 ses-000000000001 /a",
            "sub-00012 ses-000000000002 /d",
            "sub-000X ses-000000000001 /b",
            "sub-0012 ses-000000000002 /c",
        ]
    );
    let text = "UID,ScanID,dicom_path\n1,0000000000001,/a\n2,b,/b\n3,,/c\n";
    assert_eq!(
        shown(&parse(text).unwrap()),
        [
            "sub-0001 ses-0000000000001 /a",
            "sub-0002 ses-00000000000b /b"
        ]
    );
    // A fraction in a column of texts is part of the id, which makes it invalid.
    assert!(parse("UID,ScanID,dicom_path\n1.0,1,/a\nX,1,/b\n").is_err());
}

#[test]
fn invalid_labels_are_errors_with_their_lines() {
    for (subject, session, problem) in [
        (
            "../../evil",
            "1",
            r#"line 2: "../../evil" is not a valid subject label"#,
        ),
        // Python kept the colon, and cut 2.7 to 2.
        (
            "42",
            "2024-07-11 08:49",
            r#"line 2: "2024-07-11 08:49" is not a valid session label"#,
        ),
        ("2.7", "1", r#"line 2: "2.7" is not a valid subject label"#),
        (
            "\u{e9}t\u{e9}",
            "1",
            "line 2: \"\u{e9}t\u{e9}\" is not a valid subject label",
        ),
    ] {
        let error = parse(format!("UID,ScanID,dicom_path\n{subject},{session},/d\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("sessions_file s.csv: {problem}"));
    }
    let subject = "x".repeat(120);
    let fits = format!("UID,ScanID,dicom_path\n{subject},77,/d\n");
    let error = parse(fits.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "sessions_file s.csv: line 2: sub-{subject} and ses-000000000077 together have more than 130 letters, \
             which is too long for the names of jobs and logs"
        )
    );
    assert!(parse(fits.replace("xxxxxxxxxxxxxxx", "x")).is_ok());
    let error = parse("UID,ScanID,dicom_path\n1,1,\n.,1,\n.,.,\n?,1,\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "sessions_file s.csv: line 3: \".\" is not a valid subject label, line 4: \".\" is not a valid subject label, \
         line 4: \".\" is not a valid session label and 1 more"
    );
}

#[test]
fn errors_name_the_line_of_the_file() {
    let prefix = "UID,ScanID,dicom_path,note";
    for (text, line) in [
        (format!("{prefix}\n?,1,,\n"), 2),
        (format!("{prefix}\n1,1,,\n\n  \n?,1,,\n"), 5),
        (format!("\n\n{prefix}\n?,1,,\n"), 4),
        (format!("{prefix}\r\n1,1,,\r\n?,1,,"), 3),
        (format!("{prefix}\r1,1,,\r?,1,,\r"), 3),
        (format!("\u{feff}{prefix}\n?,1,,\n"), 2),
        (format!("{prefix}\n1,1,,\"two\nlines\"\n?,1,,\n"), 4),
        (
            format!("{prefix}\n1,1,,\"a \"\"quoted\n\n\"\" text\"\r\n?,1,,\n"),
            5,
        ),
        (format!("{prefix}\n1,1,,3\" coil\n?,1,,5\"\n"), 3),
        (format!("{prefix}\n1,1\n?,1,,,,\n"), 3),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(
            error.contains(&format!(": line {line}: \"?\"")),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn values_may_be_quoted() {
    let text = "\"UID\",ScanID,dicom_path\n\"1\",\"2\",\"/a, \"\"b\"\"/c\"\n3,4,/d e\n";
    assert_eq!(
        shown(&parse(text).unwrap()),
        [
            "sub-0001 ses-000000000002 /a, \"b\"/c",
            "sub-0003 ses-000000000004 /d e"
        ]
    );
}

#[test]
fn rows_without_ids_are_left_out_and_counted() {
    let text = "UID,ScanID,dicom_path\n,1,/d\n1,NA,/d\nnan,1,/d\n2,  ,/d\n3,1,None\n4,1,\n5,1,/x\n";
    let found = parse(text).unwrap();
    assert_eq!(
        shown(&found),
        [
            "sub-0003 ses-000000000001 -",
            "sub-0004 ses-000000000001 -",
            "sub-0005 ses-000000000001 /x"
        ]
    );
    assert_eq!(
        found.notes,
        ["s.csv: skipped 4 rows without subject or session: line 2, 3, 4 and 1 more"]
    );
}

#[test]
fn the_first_of_duplicate_sessions_is_used() {
    let text = "UID,ScanID,dicom_path\n2,1,/a\n1,1,/b\n2,1,/a\n1,1,/c\n";
    let found = parse(text).unwrap();
    assert_eq!(
        shown(&found),
        [
            "sub-0001 ses-000000000001 /b",
            "sub-0002 ses-000000000001 /a"
        ]
    );
    assert_eq!(
        found.notes,
        ["s.csv: ignored 1 row with another dicom_path: \
             sub-0001 ses-000000000001 (line 3 is used, line 5 ignored)"]
    );
}

#[test]
fn ids_with_equal_labels_are_reported_with_both_lines() {
    let text = "UID,ScanID,dicom_path\n1-2,1,/a\n12,2,/b\n3,0-1,/c\n3,01,/c\n";
    let found = parse(text).unwrap();
    assert_eq!(found.sessions.len(), 3);
    assert_eq!(
        found.notes,
        [
            "s.csv: different ids for the same label: '1-2' (line 2) and '12' (line 3) are both sub-0012, \
             '0-1' (line 4) and '01' (line 5) are both ses-000000000001 of sub-0003"
        ]
    );
}

#[test]
fn invalid_files_are_clear_errors() {
    for (text, expected) in [
        (&b""[..], "sessions_file s.csv is empty"),
        (b"\n \n", "sessions_file s.csv is empty"),
        (b"\xef\xbb\xbf", "sessions_file s.csv is empty"),
        (
            b"subject,ScanID\n1,2\n",
            "sessions_file s.csv has no column 'UID', 'dicom_path' (found: 'subject', 'ScanID')",
        ),
        (
            b"UID, ScanID,dicom_path\n",
            "sessions_file s.csv has no column 'ScanID' (found: 'UID', ' ScanID', 'dicom_path')",
        ),
        (
            b"UID,ScanID,dicom_path\n1,2,/a\n3,4,/\xe9\n",
            "sessions_file s.csv, line 3: not UTF-8",
        ),
        (
            b"UID,ScanID,dicom_path\n1,2,/a\n3,4,\"/b\n5,6,/c\n",
            "sessions_file s.csv, line 3: a quotation mark is never closed",
        ),
        (
            b"UID,ScanID,dicom_path\n1,2,/a,b\n",
            "sessions_file s.csv, line 2: 4 values, but the header names 3 columns",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
    assert_eq!(
        read(
            &config(true),
            Path::new("/nonexistent/s.csv"),
            "UID",
            "ScanID"
        )
        .unwrap_err()
        .to_string(),
        "sessions_file /nonexistent/s.csv cannot be read: No such file or directory"
    );
    assert!(
        parse("UID,ScanID,dicom_path\n")
            .unwrap()
            .sessions
            .is_empty()
    );
    assert!(parse("UID,ScanID,dicom_path").unwrap().sessions.is_empty());
    // Of two columns with the same name, the first is used.
    let found = parse("UID,ScanID,dicom_path,UID,,\n1,2,/a,9,,\n").unwrap();
    assert_eq!(shown(&found), ["sub-0001 ses-000000000002 /a"]);
}

proptest! {
    #[test]
    fn written_files_can_be_read(
        rows in prop::collection::vec((1u32..9999, 1u64..999_999_999_999, "[ -~\n\r]{0,20}"), 1..20),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let mut text = format!("dicom_path,UID,ScanID{end}");
        for (subject, session, path) in &rows {
            text += &format!("\"{}\",{subject},{session}{end}", path.replace('"', "\"\""));
        }
        let found = parse(&text).unwrap();
        let mut expected = BTreeMap::new();
        for (subject, session, path) in rows {
            let path = value(&path).map_or("-".to_owned(), |_| path.clone());
            expected.entry(format!("sub-{subject:04} ses-{session:012}")).or_insert(path);
        }
        let expected: Vec<String> = expected.iter().map(|(key, path)| format!("{key} {path}")).collect();
        prop_assert_eq!(shown(&found), expected);
    }

    #[test]
    fn any_bytes_are_sessions_or_an_error(bytes in prop::collection::vec(prop::sample::select(b"a1,\"\n\r \xff.-".to_vec()), 0..60)) {
        let mut text = b"UID,ScanID,dicom_path\n".to_vec();
        text.extend(bytes);
        let records = table(&text, false).map(|(_, records)| records.len());
        if let Ok(found) = parse(&text) {
            prop_assert!(found.sessions.len() <= records.unwrap());
        }
    }
}
