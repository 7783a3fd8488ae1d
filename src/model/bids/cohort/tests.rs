//! Matches of entries, and errors of invalid ones.

use super::*;
use crate::gather::sessions::lists;
use crate::model::bids::Dicom;

fn session(subject: &str, session: &str) -> Session {
    Session {
        subject: SubjectLabel::new(subject).unwrap(),
        session: match session {
            "" => SessionLabel::none(),
            label => SessionLabel::new(label).unwrap(),
        },
        dicom: Dicom::NotNeeded,
    }
}

fn list(entries: &[&str]) -> Option<ListSource> {
    let entries = entries.iter();
    let entries = entries.map(|text| Entry::parse("exclude", text, String::new()).unwrap());
    Some(ListSource::Entries(entries.collect()))
}

/// The sessions of a small study that a cohort leaves.
fn left(include: Option<ListSource>, exclude: Option<ListSource>) -> String {
    let cohort = lists::load(&CohortSource { include, exclude }).unwrap();
    let sessions = [
        session("sub-01", "ses-a"),
        session("sub-01", "ses-b"),
        session("sub-011", "ses-a"),
        session("sub-02", ""),
    ];
    let wanted = sessions.iter().filter(|session| !cohort.excludes(session));
    let shown = wanted.map(|s| format!("{} {}", &s.subject.as_str()[4..], s.session));
    shown.collect::<Vec<_>>().join(",").replace("ses-", "")
}

#[test]
fn entries_are_written_as_on_the_command_line() {
    let all = "01 a,01 b,011 a,02 ";
    assert_eq!(left(None, None), all);
    assert_eq!(left(None, list(&[])), all);
    for (exclude, expected) in [
        (&["sub-01"][..], "011 a,02 "),
        (&["01"], "011 a,02 "),
        (&["sub-01/ses-b"], "01 a,011 a,02 "),
        (&["01/b"], "01 a,011 a,02 "),
        (&["*/a"], "01 b,02 "),
        (&["*/ses-a"], "01 b,02 "),
        (&["01*"], "02 "),
        (&["0?/[ab]", "02"], "011 a"),
        (&["sub-0{11,2}"], "01 a,01 b"),
        (&["9"], all),
    ] {
        assert_eq!(left(None, list(exclude)), expected, "{exclude:?}");
    }
    assert_eq!(left(list(&["01"]), None), "01 a,01 b");
    assert_eq!(left(list(&["01", "02"]), list(&["01/a"])), "01 b,02 ");
    assert_eq!(
        left(list(&["9"]), None),
        "",
        "included is only what is named"
    );
}

#[test]
fn entries_that_cannot_match_are_refused() {
    for (text, message) in [
        ("", "the entry is empty"),
        ("ses-01", "'ses-01' is a session without a subject"),
        ("/", "'/' is neither a subject nor a session"),
        ("sub-", "'sub-' is neither a subject nor a session"),
        ("01/", "'01/' is neither a subject nor a session"),
        ("01/a/b", "'01/a/b' is neither a subject nor a session"),
        (
            "sub-0 1",
            "'sub-0 1' contains ' ', which is not allowed in BIDS labels",
        ),
        (
            "0_1",
            "'0_1' contains '_', which is not allowed in BIDS labels",
        ),
        (
            "01-2",
            "'01-2' contains '-', which is not allowed in BIDS labels",
        ),
        (
            "01/sub-2",
            "'01/sub-2' contains '-', which is not allowed in BIDS labels",
        ),
        (
            "0\u{7}",
            "'0\u{7}' contains '\\u{7}', which is not allowed in BIDS labels",
        ),
    ] {
        let error = Entry::parse("exclude", text, String::new()).unwrap_err();
        assert_eq!(error, message);
    }
    let error = Entry::parse("exclude", "0[1", String::new()).unwrap_err();
    assert!(error.contains("is not a valid pattern"));
}

#[test]
fn a_file_has_an_entry_per_line_and_errors_name_the_line() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("list.txt");
    let load = |text: &[u8], key: &str| {
        std::fs::write(&file, text).unwrap();
        let list = Some(ListSource::File(file.clone()));
        lists::load(&match key {
            "include" => CohortSource {
                include: list,
                exclude: None,
            },
            _ => CohortSource {
                include: None,
                exclude: list,
            },
        })
    };
    let cohort = load(
        "\u{feff}# withdrawn\r\n\r\n  sub-01 # asked on Monday\r\n02/x\n".as_bytes(),
        "exclude",
    );
    let sessions = [session("sub-01", "ses-a")];
    let cohort = cohort.unwrap();
    assert!(cohort.excludes(&sessions[0]));
    let unmatched = cohort.unmatched(&sessions);
    let unmatched: Vec<String> = unmatched.into_iter().map(Entry::to_string).collect();
    assert_eq!(unmatched, [format!("exclude: 02/x ({}:4)", file.display())]);
    let message = |text: &[u8], key| {
        let error = load(text, key).unwrap_err();
        error
            .to_string()
            .replace(&file.display().to_string(), "FILE")
    };
    assert_eq!(
        message(b"01\n\n0 1\n", "exclude"),
        "FILE:3: '0 1' contains ' ', which is not allowed in BIDS labels"
    );
    assert_eq!(
        message(b"\xff", "exclude"),
        "cannot read the list 'exclude', FILE: it is not UTF-8"
    );
    assert_eq!(
        message(b"# none\n", "include"),
        "the list 'include', FILE, is empty"
    );
    assert!(load(b"# none\n", "exclude").is_ok());
    let missing = ListSource::File(tmp.path().join("nothing"));
    let error = lists::load(&CohortSource {
        include: None,
        exclude: Some(missing),
    });
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("cannot read the list 'exclude'")
    );
    let directory = ListSource::File(tmp.path().to_owned());
    let error = lists::load(&CohortSource {
        include: Some(directory),
        exclude: None,
    });
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("it is a directory")
    );
}

#[test]
fn an_empty_list_is_an_error() {
    let tmp = tempfile::NamedTempFile::new().unwrap();
    let list = || Some(ListSource::File(tmp.path().to_owned()));
    for (include, exclude) in [(list(), None), (None, list())] {
        let error = lists::load(&CohortSource { include, exclude });
        assert!(error.unwrap_err().to_string().ends_with(", is empty"));
    }
}
