//! What the scan finds in trees of real and of odd shapes.

mod checks;
mod cost;
mod faults;
mod generated;
mod naive;
mod pipeline;
pub mod strace;

use std::fs;

use snbb_scheduler::gather::sessions::discover::discover;
use snbb_scheduler::gather::sessions::discover::{DiscoverError, Discovery};
use snbb_scheduler::model::bids::Dicom;
use snbb_scheduler::model::bids::SessionSource;

use crate::harness_tree::{Tree, as_nobody, config};

/// Shows sessions as `sub-01 ses-1`.
fn shown(discovery: &Discovery) -> Vec<String> {
    discovery
        .sessions
        .iter()
        .map(|session| {
            let text = format!("{} {}", session.subject, session.session);
            text.trim_end().to_owned()
        })
        .collect()
}

fn discover_bids(tree: &Tree) -> Discovery {
    let mut config = config(tree.root());
    config.bids_root = tree.root().to_owned();
    config.sessions = SessionSource::Bids;
    discover(&config).unwrap()
}

fn discover_dicom(tree: &Tree, sessionless: bool, threads: usize) -> Discovery {
    let mut config = config(tree.root());
    config.dicom_root = tree.root().to_owned();
    config.sessionless = sessionless;
    config.scan_threads = threads;
    discover(&config).unwrap()
}

#[test]
fn fixtures_have_the_sessions_that_they_say() {
    for name in [
        "ds001",
        "ds114",
        "ds000001-fmriprep",
        "ieeg_epilepsy_ecog",
        "pet005",
        "synthetic",
        "odd-names",
        "links",
        "no-sessions",
    ] {
        let tree = Tree::fixture(name);
        let found = discover_bids(&tree);
        assert_eq!(shown(&found), tree.sessions, "{name}");
        let root = tree.root().display().to_string();
        let notes: Vec<String> = tree
            .notes
            .iter()
            .map(|note| note.replace("ROOT", &root))
            .collect();
        assert_eq!(found.notes, notes, "{name}");
        let mut unreadable: Vec<_> = found.unreadable.iter().map(|it| &it.path).collect();
        unreadable.sort();
        assert_eq!(
            unreadable,
            tree.unreadable.iter().collect::<Vec<_>>(),
            "{name}"
        );
        assert!(
            found
                .sessions
                .iter()
                .all(|session| session.dicom == Dicom::NotNeeded)
        );
    }
}

#[test]
fn below_dicom_root_sessions_are_directories_with_a_path() {
    let tree = Tree::fixture("no-sessions");
    let found = discover_dicom(&tree, false, 1);
    assert_eq!(shown(&found), ["sub-03 ses-1"]);
    let expected = tree.root().join("sub-03/ses-1");
    assert_eq!(found.sessions[0].dicom, Dicom::At(expected.into()));

    let found = discover_dicom(&tree, true, 1);
    // Everything that has something in it and no session level.
    assert_eq!(
        shown(&found),
        ["sub-01", "sub-02", "sub-03 ses-1", "sub-05", "sub-06"]
    );
    assert_eq!(
        found.sessions[0].dicom,
        Dicom::At(tree.root().join("sub-01").into())
    );
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_found() {
    let tree = Tree::fixture("unreadable");
    let found = as_nobody(|| discover_bids(&tree));
    assert_eq!(shown(&found), tree.sessions);
    let mut paths: Vec<_> = found
        .unreadable
        .iter()
        .map(|unreadable| unreadable.path.clone())
        .collect();
    paths.sort();
    assert_eq!(paths, tree.unreadable);
    for unreadable in &found.unreadable {
        assert_eq!(unreadable.error, "Permission denied");
    }
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

/// The name of a log may have 255 bytes, and holds both labels.
#[test]
fn labels_that_are_too_long_for_the_names_of_logs_are_left_out() {
    let long = |letters: usize| "x".repeat(letters);
    let whole = format!("sub-{}", long(200));
    let fits = format!("sub-01/ses-{}", long(130 - "sub-01ses-".len()));
    let over = format!("sub-01/ses-{}", long(131 - "sub-01ses-".len()));
    let tree = Tree::build(&format!(
        "{whole}/ses-01/x\n{fits}/x\n{over}/x\nsub-02/ses-01/x\n"
    ));
    let found = discover_dicom(&tree, false, 1);
    let sessions: Vec<String> = found
        .sessions
        .iter()
        .map(|session| format!("{}/{}", session.subject, session.session))
        .collect();
    assert_eq!(sessions, [fits, "sub-02/ses-01".to_owned()]);
    let root = tree.root().display();
    let limit = "(too long for the names of jobs and logs: at most 130 letters for subject and session together)";
    assert_eq!(
        found.notes,
        [
            format!("skipped 1 entry below {root} {limit}: {whole}"),
            format!("skipped 1 entry below {root} {limit}: {over}"),
        ]
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut listing = String::new();
    for subject in 0..300 {
        for session in 0..=subject % 3 {
            listing += &format!("sub-{subject:03}/ses-{session}/x\n");
        }
        listing += &format!("sub-{subject:03}/ses-{subject}_old/x\n");
    }
    let tree = Tree::build(&listing);
    let one = discover_dicom(&tree, false, 1);
    assert_eq!(one.sessions.len(), 600);
    assert!(
        one.sessions
            .is_sorted_by_key(|session| (&session.subject, &session.session))
    );
    assert_eq!(
        one.notes,
        [format!(
            "skipped 300 entries below {} (not a valid BIDS session label): \
             sub-000/ses-0_old, sub-001/ses-1_old, sub-002/ses-2_old and 297 more",
            tree.root().display()
        )]
    );
    for threads in [0, 2, 16] {
        let many = discover_dicom(&tree, false, threads);
        assert_eq!(many.sessions, one.sessions);
        assert_eq!(many.notes, one.notes);
    }
}

#[test]
fn a_root_that_cannot_be_read_is_an_error_that_names_it() {
    let tree =
        Tree::build("file\nlocked/sub-01/ses-1/x\nlocked/\tmode=000\nempty/\nloop -> loop\n");
    let error = |name: &str| {
        let mut config = config(tree.root());
        config.dicom_root = tree.root().join(name);
        as_nobody(|| discover(&config)).unwrap_err()
    };
    let root = tree.root().display();
    let missing = error("nowhere");
    assert!(matches!(missing, DiscoverError::RootMissing { .. }));
    assert_eq!(
        missing.to_string(),
        format!("dicom_root {root}/nowhere does not exist")
    );
    assert!(missing.hint().contains("mount"));
    assert!(matches!(error("loop"), DiscoverError::RootMissing { .. }));
    assert_eq!(
        error("file").to_string(),
        format!("dicom_root {root}/file is not a directory")
    );
    assert_eq!(
        error("locked").to_string(),
        format!("dicom_root {root}/locked cannot be read: Permission denied")
    );
    let mut config = config(tree.root());
    config.dicom_root = tree.root().join("empty");
    assert!(discover(&config).unwrap().sessions.is_empty());
}

#[test]
fn a_sessions_file_takes_the_place_of_the_directories() {
    let tree = Tree::build("");
    let file = tree.root().join("sessions.csv");
    fs::write(
        &file,
        "Code,Scan,dicom_path\r\n2,20240711,/nowhere/x y\r\n1,1,\r\n",
    )
    .unwrap();
    let mut config = config(tree.root());
    config.sessions = SessionSource::Csv {
        file: file.clone(),
        subject_col: "Code".to_owned(),
        session_col: "Scan".to_owned(),
    };
    let found = discover(&config).unwrap();
    assert_eq!(
        shown(&found),
        ["sub-0001 ses-000000000001", "sub-0002 ses-000020240711"]
    );
    assert_eq!(found.sessions[0].dicom, Dicom::Missing);
    assert_eq!(
        found.sessions[1].dicom,
        Dicom::At(std::path::Path::new("/nowhere/x y").into())
    );

    fs::write(&file, "Code;Scan;dicom_path\n").unwrap();
    let error = discover(&config).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("(found: 'Code;Scan;dicom_path')"),
        "{error}"
    );
    assert!(error.hint().contains("commas"));
}

/// One note per kind, with the remedy.
#[test]
fn b3_b8_odd_layouts_are_named() {
    let tree = Tree::build(
        "sub-04/ses-01.tar.gz\nsub-08/ses-02.zip\nsub-10.zip\nsub-03/\nsub-11/ses-1/x\nsub-11/ses-1.zip\n\
         20240711/sub-09/x\n20240712/notes\nsub-03_ses-01/x\nsub-s1/ses-a/x\nsub-S1/ses-a/x\nsub-20/ses-1/x\n\
         sub-20/ses-01/x\nsub-01/ses-1/x\nsub-18 -> sub-01\nsub-19/anat/x\nsub-19/ses-01/x\n",
    );
    let found = discover_dicom(&tree, false, 1);
    let root = tree.root().display();
    assert_eq!(
        found.notes,
        [
            format!("skipped 1 entry below {root} (not a valid BIDS subject label): sub-03_ses-01"),
            format!(
                "skipped 1 entry below {root} (an archive or an empty directory): sub-10.zip; unpack archives as sub-<label>/ses-<label>"
            ),
            format!(
                "found 1 entry below {root} (labels that differ only in case or leading zeros): sub-S1 and sub-s1; each is processed separately: merge them if they are the same"
            ),
            format!(
                "skipped 3 entries below {root} (an archive or an empty directory): sub-03, sub-04/ses-01.tar.gz, sub-08/ses-02.zip; unpack archives as sub-<label>/ses-<label>"
            ),
            format!(
                "found 1 entry below {root} (labels that differ only in case or leading zeros): sub-20/ses-01 and ses-1; each is processed separately: merge them if they are the same"
            ),
            format!(
                "found 1 entry below {root} (beside sessions, but in none of them): sub-19/anat; move the data into a session"
            ),
        ]
    );
    assert_eq!(
        found.misspelt,
        ["20240711", "20240712"].map(|name| (name.to_owned(), format!("sub-{name}")))
    );
    let sessions = shown(&found);
    assert!(
        sessions.contains(&"sub-18 ses-1".to_owned()),
        "{sessions:?}"
    );
}
