use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::config::{Overrides, load};

fn excerpt(text: &[u8]) -> Option<(Option<String>, String, Option<u64>)> {
    let tail = Tail::new(text.to_vec(), true);
    let found = Patterns::builtin().excerpt(&tail)?;
    let name = found.meaning.map(|meaning| meaning.name.to_string());
    Some((name, found.line, found.number))
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/logs/{name}.log"))
}

fn last_excerpt(log: &Path) -> Found<'static> {
    let tail = read_tail(log).unwrap().unwrap();
    Patterns::builtin().excerpt(&tail).unwrap()
}

#[test]
fn a9_each_pattern_has_a_log_whose_excerpt_matches_it() {
    for (name, number, part) in [
        ("time_limit", 4, "DUE TO TIME LIMIT"),
        ("gpu_memory", 5, "CUDA out of memory"),
        ("out_of_memory", 6, "Out Of Memory"),
        ("node_failure", 2, "NODE FAILURE"),
        ("disk_full", 5, "No space left on device"),
        (
            "license",
            3,
            "license file /opt/freesurfer/license.txt not found",
        ),
        ("module_command", 2, "module: command not found"),
        ("cuda", 3, "no CUDA-capable device"),
        ("container", 2, "could not open image"),
        ("module", 3, "recon-all: command not found"),
        ("annex", 2, "not available"),
        ("network", 2, "Max retries exceeded"),
        ("freesurfer", 6, "exited with ERRORS"),
        ("nipype", 6, "crash-20260303-104409-lab-bold_reg-1f2e.txt"),
        ("segfault", 2, "Segmentation fault"),
        ("permission", 2, "Permission denied"),
        ("missing_file", 2, "cannot stat"),
        ("python", 7, "ValueError: unknown sequence"),
        ("timed_out", 2, "timed out"),
        ("not_bids", 4, "BIDSValidationError"),
        ("conversion", 2, "converted no series"),
        ("slurm", 1, "slurmstepd: error"),
    ] {
        let found = last_excerpt(&fixture(name));
        let meaning = found
            .meaning
            .unwrap_or_else(|| panic!("{name}: {}", found.line));
        assert_eq!(&*meaning.name, name, "{}", found.line);
        assert_eq!(found.number, Some(number), "{name}");
        assert!(found.line.contains(part), "{name}: {}", found.line);
    }
    let named: Vec<String> = Patterns::builtin()
        .meanings()
        .iter()
        .map(|meaning| meaning.name.to_string())
        .collect();
    for name in &named {
        // A note does not explain a failure: `known_lines.tsv` has lines of it.
        let is_note = ["left_out", "warning"].contains(&name.as_str());
        let has_log = fixture(name).metadata().is_ok();
        assert!(has_log != is_note, "{name}");
    }
}

/// A line of each kind that the Python program recognised, and success in the words of failures.
#[test]
fn c15_d4_known_lines_are_recognized_and_success_is_not_an_error() {
    let lines = std::fs::read_to_string(fixture("known_lines").with_extension("tsv")).unwrap();
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let (expected, line) = line.split_once('\t').unwrap();
        let tail = Tail::new(line.as_bytes().to_vec(), true);
        let found = Patterns::builtin().scan(&tail);
        let names: Vec<&str> = found
            .iter()
            .map(|found| &*found.meaning.unwrap().name)
            .collect();
        if names.join(" ") != expected {
            wrong.push(format!("{line}: {names:?} instead of {expected:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // An error in the same line still counts.
    let (name, ..) = excerpt(b"recon-all: 1 error, 0 warnings").unwrap();
    assert_eq!(name.as_deref(), Some("freesurfer"));
}

#[test]
fn d4_a_pattern_of_the_site_sees_the_whole_line() {
    let pattern = LogPattern {
        name: "done".to_owned(),
        regex: "finished without error".to_owned(),
        hint: None,
    };
    let patterns = Patterns::new(&[pattern]).unwrap();
    let tail = Tail::new("recon-all -s x finished without error".into(), true);
    let found = patterns.excerpt(&tail).unwrap();
    assert_eq!(&*found.meaning.unwrap().name, "done");
}

#[test]
fn single_lines_are_distinguished() {
    for (line, expected) in [
        (
            "slurmstepd: error: Exceeded job memory limit",
            Some("out_of_memory"),
        ),
        ("Killed", Some("out_of_memory")),
        (
            "job.sh: line 7: 991 Killed                  python x.py",
            Some("out_of_memory"),
        ),
        ("MemoryError", Some("out_of_memory")),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.2 GiB for an array",
            Some("out_of_memory"),
        ),
        (
            "terminate called after throwing an instance of 'std::bad_alloc'",
            Some("out_of_memory"),
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            Some("out_of_memory"),
        ),
        (
            "OpenBLAS: fork: Cannot allocate memory",
            Some("out_of_memory"),
        ),
        (
            "RuntimeError: CUDA error: invalid device ordinal",
            Some("cuda"),
        ),
        (
            "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
            Some("node_failure"),
        ),
        ("cat: /data/x: Stale file handle", Some("node_failure")),
        ("write failed: Disk quota exceeded", Some("disk_full")),
        (
            "docker: Error response from daemon: pull access denied for x/y.",
            Some("container"),
        ),
        ("/bin/sh: singularity: command not found", Some("container")),
        ("/x/a.sh: 3: module: not found", Some("module_command")),
        ("a.sh: line 3: my_module: not found", None),
        (
            "ModuleNotFoundError: No module named 'nibabel'",
            Some("module"),
        ),
        (
            "fsl: error while loading shared libraries: libgfortran.so.3: cannot open shared object file: No such file or directory",
            Some("module"),
        ),
        (
            "IOError: No such file or no access: '/d/.git/annex/objects/Xx/MD5E-s1--a.nii.gz'",
            Some("annex"),
        ),
        (
            "curl: (6) Could not resolve host: example.org",
            Some("network"),
        ),
        (
            "slurmstepd: error: execve(): /x/job.sh: Permission denied",
            Some("permission"),
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/x'",
            Some("missing_file"),
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/x'",
            Some("permission"),
        ),
        ("qsiprep failed", Some("nipype")),
        (
            "mris_fix_topology: Segmentation fault (core dumped)",
            Some("segfault"),
        ),
        ("KeyError: 'RepetitionTime'", Some("python")),
        // Similar lines that do not match.
        ("INFO: process was not killed", None),
        ("MemoryErrors: 0", None),
        ("0 errors, 0 warnings", None),
        ("skilled work", None),
        ("fatal: not a git repository", None),
        ("INFO:    Mounting image with FUSE", None),
    ] {
        let (name, ..) = excerpt(line.as_bytes()).unwrap();
        assert_eq!(name.as_deref(), expected, "{line}");
    }
}

#[test]
fn the_cause_is_preferred_to_later_lines() {
    let text = "slurmstepd: error: Detected 1 oom_kill event\n\
        Traceback (most recent call last):\nValueError: x\nall done\n";
    let (name, line, number) = excerpt(text.as_bytes()).unwrap();
    assert_eq!(name.as_deref(), Some("out_of_memory"));
    assert!(line.contains("oom_kill"));
    assert_eq!(number, Some(1));
    // The last of equal ones: the job survived an earlier complaint.
    let text = "rm: cannot remove 'x': No such file or directory\nValueError: x\n";
    assert_eq!(
        excerpt(text.as_bytes()).unwrap().0.as_deref(),
        Some("python")
    );
}

#[test]
fn without_a_pattern_the_last_line_is_shown() {
    assert_eq!(
        excerpt(b"one\ntwo\n\n  \n"),
        Some((None, "two".to_owned(), Some(2)))
    );
    assert_eq!(excerpt(b" \n\n"), None);
    assert_eq!(excerpt(b""), None);
}

#[test]
fn patterns_of_the_site_come_first_and_bad_ones_are_named() {
    let pattern = |name: &str, regex: &str| LogPattern {
        name: name.to_owned(),
        regex: regex.to_owned(),
        hint: None,
    };
    let patterns =
        Patterns::new(&[pattern("mine", r"^E42\b"), pattern("é", "(?i)FEHLER é")]).unwrap();
    let tail = Tail::new("E42 out of memory\nfehler é\nMemoryError\n".into(), true);
    let found = patterns.scan(&tail);
    let names: Vec<_> = found
        .iter()
        .map(|f| f.meaning.unwrap().name.to_string())
        .collect();
    assert_eq!(names, ["mine", "é", "out_of_memory"]);
    assert_eq!(
        &*found
            .iter()
            .min_by_key(|found| found.weight())
            .unwrap()
            .meaning
            .unwrap()
            .name,
        "é"
    );
    let error = Patterns::new(&[pattern("a", "ok"), pattern("b", "(x")]).unwrap_err();
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn requests_are_no_remedy_for_the_local_executor() {
    let hint = |executor: &str| {
        let text = format!("executor: {executor}");
        let (none, root) = (Overrides::default(), Path::new("/"));
        let config = load::interpret(text.as_bytes(), None, false, &|_| None, &none, root).unwrap();
        let tail = Tail::new("MemoryError\n".into(), true);
        let patterns = Patterns::for_config(&config);
        let found = patterns.excerpt(&tail).unwrap();
        found.meaning.unwrap().hint.to_string()
    };
    assert!(hint("slurm").contains("'mem'"));
    let local = hint("local");
    assert!(
        local.contains("local_jobs") && !local.contains("'mem"),
        "{local}"
    );
}

#[test]
fn only_the_end_of_a_large_log_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.out");
    let mut text = b"MemoryError\n".to_vec();
    for number in 0..40_000 {
        text.extend_from_slice(format!("line {number} of many\n").as_bytes());
    }
    text.extend_from_slice(b"ValueError: at the end\n");
    std::fs::write(&path, &text).unwrap();
    let found = last_excerpt(&path);
    assert_eq!(&*found.meaning.unwrap().name, "python");
    assert_eq!(found.number, None);
    let tail = read_tail(&path).unwrap().unwrap();
    // No line is cut.
    assert!(tail.lines().all(|(_, line)| line.is_empty()
        || line.starts_with(b"line ")
        || line.starts_with(b"Value")));
    assert_eq!(tail.last_lines(2, 4096).len(), 2);
    assert_eq!(tail.last_lines(2, 30), ["ValueError: at the end"]);
}

#[test]
fn a_missing_log_is_none_and_an_unreadable_one_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_tail(&dir.path().join("none")), Ok(None));
    assert_eq!(read_tail(dir.path()), Ok(None));
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(read_tail(&pipe), Ok(None));
    let link = dir.path().join("loop");
    std::os::unix::fs::symlink("loop", &link).unwrap();
    assert!(read_tail(&link).is_err());
}

#[test]
fn shown_lines_are_safe_for_a_terminal() {
    assert_eq!(
        shown(b" \x1b[31mred\tx\0 \xff\r"),
        "red    x\\u{0} \u{fffd}"
    );
    let long = shown(&vec![b'x'; 10_000]);
    assert_eq!(long.chars().count(), SHOWN + 1);
    assert!(long.ends_with('…'));
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..400), whole in any::<bool>()) {
        let tail = Tail::new(bytes.clone(), whole);
        for found in Patterns::builtin().scan(&tail) {
            prop_assert!(!found.line.contains(char::is_control));
            prop_assert_eq!(found.number.is_some(), whole);
        }
        for (at, line) in tail.lines() {
            if let Some(number) = tail.number(at) {
                let expected = bytes.split(|b| *b == b'\n').nth(number as usize - 1).unwrap();
                let is_part = line.is_empty() || expected.windows(line.len()).any(|w| w == line);
                prop_assert!(is_part);
            }
        }
    }
}
