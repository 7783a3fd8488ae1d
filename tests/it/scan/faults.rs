//! File systems that fail in the middle of a real call: the network's errors are never absences.

use super::strace;
use crate::harness::{Said, Study};

/// Two complete sessions of one step.
fn study() -> Study {
    let study = Study::new();
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.configure(
        "procedures: [{name: p, output_dir: p, script: p.sh, completion_marker: ['*.html', 'a/*.txt']}]\n",
    );
    for subject in ["sub-01", "sub-02"] {
        study.write(&format!("derivatives/p/{subject}/ses-01/x.html"), "x");
        study.write(&format!("derivatives/p/{subject}/ses-01/a/x.txt"), "x");
    }
    study
}

/// Lists the due tasks while calls on one path fail; `when` as strace has it.
fn failing(study: &Study, path: &str, call: &str, error: &str, when: &str) -> Said {
    let inject = format!("inject={call}:error={error}{when}");
    let path = study.at(path);
    strace::call(
        study,
        &[
            "-o",
            "/dev/null",
            "-P",
            path.to_str().unwrap(),
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
        ],
        &["manifest", "--format", "csv"],
    )
}

const NONE_DUE: usize = 1;
const OUTPUT: &str = "derivatives/p/sub-01/ses-01/a";

#[test]
fn an_error_of_the_network_is_no_absence() {
    if !strace::works("an_error_of_the_network_is_no_absence") {
        return;
    }
    let study = study();
    let dicom = "dicom/sub-01";
    let text = "derivatives/p/sub-01/ses-01/a/x.txt";
    for (path, call, error, when, code, lines, told) in [
        // Once stale: the second try counts.
        (OUTPUT, "openat", "ESTALE", ":when=1", 0, NONE_DUE, ""),
        (text, "newfstatat", "ESTALE", ":when=1", 0, NONE_DUE, ""),
        (dicom, "openat", "ESTALE", ":when=1", 0, NONE_DUE, ""),
        (
            OUTPUT,
            "openat",
            "ESTALE",
            "",
            7,
            NONE_DUE,
            "ses-01/a: Stale file handle",
        ),
        (
            OUTPUT,
            "openat",
            "EIO",
            "",
            7,
            NONE_DUE,
            "ses-01/a: Input/output error",
        ),
        (
            text,
            "newfstatat",
            "EIO",
            "",
            7,
            NONE_DUE,
            "a/x.txt: Input/output error",
        ),
        (
            OUTPUT,
            "openat",
            "EACCES",
            "",
            7,
            NONE_DUE,
            "ses-01/a: Permission denied",
        ),
        (
            OUTPUT,
            "openat",
            "ETIMEDOUT",
            "",
            7,
            NONE_DUE,
            "ses-01/a: Connection timed out",
        ),
        (
            OUTPUT,
            "openat",
            "EMFILE",
            "",
            7,
            NONE_DUE,
            "ses-01/a: Too many open files",
        ),
        (
            dicom,
            "openat",
            "EIO",
            "",
            7,
            NONE_DUE,
            "dicom/sub-01: Input/output error",
        ),
        (
            "dicom",
            "openat",
            "EIO",
            "",
            1,
            0,
            "dicom cannot be read: Input/output error",
        ),
        // Gone in the middle: incomplete, so due.
        (OUTPUT, "openat", "ENOENT", "", 0, NONE_DUE + 1, ""),
        (text, "newfstatat", "ENOENT", "", 0, NONE_DUE + 1, ""),
        // A session that vanished with its subject is none.
        (dicom, "openat", "ENOENT", "", 0, NONE_DUE, ""),
        (OUTPUT, "openat", "EINTR", ":when=1", 0, NONE_DUE, ""),
    ] {
        let said = failing(&study, path, call, error, when);
        let case = format!("{path} {call} {error}{when}: {} {}", said.out, said.err);
        assert_eq!(said.code, code, "{case}");
        assert_eq!(said.out.lines().count(), lines, "{case}");
        assert!(said.err.contains(told), "{case}");
        assert_eq!(said.err.is_empty(), told.is_empty(), "{case}");
    }
}

#[test]
fn a_directory_that_fails_while_it_is_read_is_unreadable_or_gone() {
    if !strace::works("a_directory_that_fails_while_it_is_read_is_unreadable_or_gone") {
        return;
    }
    let study = study();
    for (error, when, code, lines) in [
        ("EIO", "", 7, NONE_DUE),
        ("EIO", ":when=2", 7, NONE_DUE),
        ("ESTALE", ":when=1", 0, NONE_DUE),
        ("ESTALE", "", 7, NONE_DUE),
        // Removed after it was opened.
        ("ENOENT", "", 0, NONE_DUE + 1),
        ("ENOENT", ":when=2", 0, NONE_DUE + 1),
        ("EINTR", ":when=1", 0, NONE_DUE),
    ] {
        let said = failing(&study, OUTPUT, "getdents64", error, when);
        let case = format!("{error}{when}: {} {}", said.out, said.err);
        assert_eq!(
            (said.code, said.out.lines().count()),
            (code, lines),
            "{case}"
        );
    }
}
