use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use rustix::io::Errno;
use tempfile::TempDir;

use super::*;
use crate::gather::disk::reader::spy;
use crate::model::procedure::marker::Pattern;
use crate::model::procedure::marker::{CompletionRule, Marker, Required};
use crate::model::procedure::{Resources, Scope};

/// A study with one procedure `p` of session scope below `derivatives/p`.
struct Study {
    tmp: TempDir,
    procedure: Procedure,
}

impl Study {
    fn new(markers: &[&str]) -> Self {
        let markers: Vec<Marker> = markers.iter().map(|text| marker(text)).collect();
        let required = if markers.is_empty() {
            Required::NonEmptyDirectory
        } else {
            Required::Markers(markers)
        };
        Self {
            tmp: tempfile::tempdir().unwrap(),
            procedure: Procedure {
                name: Arc::from("p"),
                output_dir: "p".into(),
                script: "p.sh".into(),
                scope: Scope::Session,
                depends_on: Vec::new(),
                check: Check::Markers,
                completion: CompletionRule {
                    required,
                    forbid: Vec::new(),
                },
                resources: Resources::default(),
                env: Default::default(),
                output_grace: None,
                rules: Default::default(),
            },
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Procedure)) -> Self {
        change(&mut self.procedure);
        self
    }

    fn change_marker(self, change: impl FnOnce(&mut Marker)) -> Self {
        self.change(|procedure| match &mut procedure.completion.required {
            Required::Markers(markers) => change(&mut markers[0]),
            Required::NonEmptyDirectory => panic!(),
        })
    }

    fn output(&self) -> PathBuf {
        self.tmp.path().join("derivatives/p/sub-01/ses-1")
    }

    fn bids(&self) -> PathBuf {
        self.tmp.path().join("bids/sub-01/ses-1")
    }

    /// Creates files of one byte in the output; a `/` at the end creates a directory.
    fn put(self, paths: &[&str]) -> Self {
        put(&self.output(), paths);
        self
    }

    fn probe(&self) -> Probe {
        let dag = ProcedureDag::new(vec![self.procedure.clone()]).unwrap();
        let root = |name: &str| self.tmp.path().join(name);
        Probe::of(root("bids"), root("derivatives"), dag, None).unwrap()
    }

    fn completion(&self) -> Completion {
        let probe = self.probe();
        let subject = SubjectLabel::new("sub-01").unwrap();
        let session = SessionLabel::new("ses-1").unwrap();
        let id = probe.procedures.find("p").unwrap();
        probe.for_subject(&subject).completion(id, &session)
    }

    fn newest(&self) -> Option<DateTime<Utc>> {
        let probe = self.probe();
        let subject = SubjectLabel::new("sub-01").unwrap();
        let session = SessionLabel::new("ses-1").unwrap();
        let id = probe.procedures.find("p").unwrap();
        probe.for_subject(&subject).newest_output(id, &session)
    }

    fn is_complete(&self) -> bool {
        match self.completion() {
            Completion::Complete => true,
            Completion::Incomplete => false,
            other => panic!("{other:?}"),
        }
    }
}

fn marker(text: &str) -> Marker {
    Marker::new(Pattern::parse(text).unwrap())
}

fn put(base: &Path, paths: &[&str]) {
    fs::create_dir_all(base).unwrap();
    for path in paths.iter().filter(|path| **path != "./") {
        let path = base.join(path);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
    }
}

#[test]
fn globs_match_as_documented() {
    for (pattern, files, expected) in [
        ("*.html", &["a.html"][..], true),
        ("*.html", &[".a.html"], false),
        (".*.html", &[".a.html"], true),
        ("*.html", &["a.HTML"], false),
        ("*", &["dir/"], true),
        ("*/", &["file"], false),
        ("*/", &["dir/"], true),
        ("done", &["done"], true),
        ("done", &["done/"], true),
        ("done/", &["done"], false),
        ("a/b/done", &["a/b/done"], true),
        ("a/b/done", &["a/c/done"], false),
        ("a/done", &["a"], false),
        ("**/x", &["x"], true),
        ("**/x", &["a/b/x"], true),
        ("**/x", &["a/b/y"], false),
        ("a/**/x", &["x"], false),
        ("a/**/x", &["a/x"], true),
        ("**/*.nii.gz", &[".partial/a.nii.gz"], false),
        ("**", &["a/"], true),
        ("**", &[".hidden"], false),
        ("**/", &["file"], false),
        ("**/", &["a/"], true),
        ("*/x", &["a/y", "b/x"], true),
        ("?.txt", &["ab.txt"], false),
        ("[ab].txt", &["b.txt"], true),
        ("[!ab].txt", &["b.txt"], false),
        ("a[1].html", &["a[1].html"], false),
    ] {
        let study = Study::new(&[pattern]).put(files);
        assert_eq!(study.is_complete(), expected, "{pattern} with {files:?}");
    }
    let study = Study::new(&["**"]).put(&["./"]);
    assert!(!study.is_complete(), "an empty directory is no result");
}

#[test]
fn links_are_followed_but_not_by_double_asterisks() {
    let study = Study::new(&["link/x"]).put(&["real/x"]);
    symlink("real", study.output().join("link")).unwrap();
    assert!(study.is_complete());

    let study = Study::new(&["*k/x"]).put(&["real/x"]);
    symlink("real", study.output().join("link")).unwrap();
    assert!(study.is_complete());

    let study = Study::new(&["**/x"]).put(&["./"]);
    put(study.tmp.path(), &["elsewhere/x"]);
    symlink(study.tmp.path().join("elsewhere"), study.output().join("l")).unwrap();
    assert!(!study.is_complete());

    let study = Study::new(&["**/x"]).put(&["a/"]);
    symlink("..", study.output().join("a/loop")).unwrap();
    assert!(!study.is_complete(), "and loops end");
}

#[test]
fn b1_dangling_links_are_unreadable() {
    let named = |study: &Study| match study.completion() {
        Completion::Unreadable(what) => what.path,
        other => panic!("{other:?}"),
    };
    for pattern in ["*.html", "a.html", "**/*.html", "a.html/x", "*.html/x"] {
        let study = Study::new(&[pattern]).change_marker(|marker| marker.min_size = 0);
        let study = study.put(&["./"]);
        symlink("nowhere", study.output().join("a.html")).unwrap();
        assert_eq!(named(&study), study.output().join("a.html"), "{pattern}");
        put(&study.output(), &["c.html/x"]);
        assert!(
            !pattern.starts_with('*') || study.is_complete(),
            "{pattern}"
        );
    }
    let study = Study::new(&[]).put(&["./"]);
    symlink("nowhere", study.output().join("a")).unwrap();
    assert_eq!(named(&study), study.output().join("a"));
    // The input of `when`.
    let when =
        |marker: &mut Marker| marker.when = vec![Pattern::parse("anat/*_T1w.nii.gz").unwrap()];
    let study = Study::new(&["x"]).change_marker(when);
    put(&study.bids(), &["anat/"]);
    assert_eq!(study.completion(), Completion::NotApplicable);
    let image = study.bids().join("anat/a_T1w.nii.gz");
    symlink("/nonexistent/a_T1w.nii.gz", &image).unwrap();
    assert_eq!(named(&study), image);
    // A directory above the outputs.
    let study = Study::new(&["x"]);
    let subject = study.output().parent().unwrap().to_owned();
    fs::create_dir_all(subject.parent().unwrap()).unwrap();
    assert_eq!(study.completion(), Completion::Incomplete);
    symlink("/nonexistent/sub-01", &subject).unwrap();
    assert_eq!(named(&study), subject);
}

#[test]
fn b7_a_subdataset_that_is_not_installed_is_unreadable() {
    for (modules, dataset) in [
        ("derivatives/.gitmodules", "p/sub-01"),
        ("derivatives/.gitmodules", "p"),
        (".gitmodules", "derivatives/p/sub-01/ses-1"),
    ] {
        let study = Study::new(&["x"]);
        let root = study.tmp.path();
        let at = root.join(modules).with_file_name(dataset);
        fs::create_dir_all(&at).unwrap();
        assert_eq!(
            study.completion(),
            Completion::Incomplete,
            "an empty directory"
        );
        let text = format!("[submodule \"a\"]\n\tpath = {dataset}\n\turl = ./a\n");
        fs::write(root.join(modules), text).unwrap();
        let Completion::Unreadable(what) = study.completion() else {
            panic!("{dataset}")
        };
        assert_eq!(what.path, at);
        let reader = Reader::default().with_annex(crate::model::annex::Annex::Absent);
        let probe = study.probe().with_reader(reader);
        let subject = SubjectLabel::new("sub-01").unwrap();
        let session = SessionLabel::new("ses-1").unwrap();
        let id = probe.procedures.find("p").unwrap();
        let answer = probe.for_subject(&subject).completion(id, &session);
        assert_eq!(answer, Completion::Incomplete, "annex: absent");
        put(&study.output(), &["x"]);
        assert!(study.is_complete(), "installed");
    }
}

#[test]
fn the_size_of_a_link_is_its_targets() {
    for (min_size, text, expected) in [
        (1, "", false),
        (0, "", true),
        (1, "x", true),
        (3, "xx", false),
    ] {
        let study = Study::new(&["*.html"]).change_marker(|marker| marker.min_size = min_size);
        let study = study.put(&["target"]);
        fs::write(study.output().join("target"), text).unwrap();
        symlink("target", study.output().join("a.html")).unwrap();
        assert_eq!(study.is_complete(), expected, "{min_size} {text:?}");
    }
    let study = Study::new(&["*.html"]).put(&["a.html", "b.html"]);
    fs::write(study.output().join("a.html"), "").unwrap();
    assert!(study.is_complete(), "one good match is enough");
}

#[test]
fn attack_only_a_regular_file_satisfies_a_rule_of_size_or_content() {
    type Change = fn(&mut Marker);
    let large: Change = |marker| marker.min_size = 2;
    let clean: Change = |marker| (marker.min_size, marker.not_contains) = (0, Some("x".into()));
    let usual: Change = |_| {};
    for (change, pattern, expected) in [
        (large, "d*", false),
        (large, "dir", false),
        (large, "link", false),
        (clean, "dir", false),
        (clean, "pipe", false),
        (clean, "null", false),
        (large, "pipe", false),
        (clean, "file", true),
        (large, "file", true),
        (usual, "d*", true),
        (usual, "link", true),
    ] {
        let study = Study::new(&[pattern]).change_marker(change);
        let study = study.put(&["dir/", "file"]);
        let out = study.output();
        fs::write(out.join("file"), "good").unwrap();
        symlink("dir", out.join("link")).unwrap();
        symlink("/dev/null", out.join("null")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let (cwd, pipe) = (rustix::fs::CWD, out.join("pipe"));
        rustix::fs::mknodat(cwd, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(study.is_complete(), expected, "{pattern}");
    }
}

#[test]
fn without_markers_the_directory_must_not_be_empty() {
    assert!(!Study::new(&[]).is_complete());
    assert!(!Study::new(&[]).put(&["./"]).is_complete());
    assert!(Study::new(&[]).put(&[".hidden"]).is_complete());
    assert!(Study::new(&[]).put(&["dir/"]).is_complete());
    for markers in [&[][..], &["*"], &["x"]] {
        let study = Study::new(markers);
        put(study.output().parent().unwrap(), &["ses-1"]);
        assert!(!study.is_complete(), "the output is a file: {markers:?}");
    }
}

#[test]
fn texts_are_searched() {
    for (contains, not_contains, expected) in [
        (Some("No errors"), None, true),
        (Some("no errors"), None, false),
        (Some("a.c"), None, false),
        (None, Some("Traceback"), true),
        (None, Some("No errors"), false),
        (Some("No errors"), Some("Traceback"), true),
    ] {
        let study = Study::new(&["*.log"]).change_marker(|marker| {
            marker.contains = contains.map(str::to_owned);
            marker.not_contains = not_contains.map(str::to_owned);
        });
        let study = study.put(&["dir.log/", "a.log"]);
        // The text crosses the border between two reads.
        let text = format!("{}\u{ff}No errors abc", " ".repeat(64 * 1024 - 5));
        fs::write(study.output().join("a.log"), text).unwrap();
        assert_eq!(
            study.is_complete(),
            expected,
            "{contains:?} {not_contains:?}"
        );
    }
}

#[test]
fn forbidden_files_win() {
    let forbid = |procedure: &mut Procedure| {
        procedure.completion.forbid = vec![Pattern::parse("**/crash-*").unwrap()];
    };
    let study = Study::new(&["*.html"]).change(forbid).put(&["a.html"]);
    assert!(study.is_complete());
    put(&study.output(), &["log/crash-1.txt"]);
    fs::write(study.output().join("log/crash-1.txt"), "").unwrap();
    assert!(!study.is_complete());
    let study = Study::new(&[]).change(forbid).put(&["crash-1"]);
    assert!(!study.is_complete());
}

#[test]
fn markers_are_excused_without_their_input() {
    let study = Study::new(&["func/*"]).change_marker(|marker| {
        marker.when = vec![Pattern::parse("func/*_bold.nii.gz").unwrap()];
    });
    assert_eq!(
        study.completion(),
        Completion::Incomplete,
        "without any input"
    );
    put(&study.bids(), &["anat/a_T1w.nii.gz"]);
    assert_eq!(study.completion(), Completion::NotApplicable);
    put(&study.bids(), &["func/a_bold.nii.gz"]);
    assert_eq!(study.completion(), Completion::Incomplete);
    put(&study.output(), &["func/x"]);
    assert_eq!(study.completion(), Completion::Complete);

    let study = Study::new(&["func/*", "*.html"]).change_marker(|marker| {
        marker.when = vec![Pattern::parse("func/*_bold.nii.gz").unwrap()];
    });
    put(&study.bids(), &["anat/a_T1w.nii.gz"]);
    assert_eq!(study.completion(), Completion::Incomplete);
    put(&study.output(), &["a.html"]);
    assert_eq!(study.completion(), Completion::Complete);
}

#[test]
fn attack_an_empty_input_directory_excuses_nothing() {
    let study = Study::new(&["func/*"]).change_marker(|marker| {
        marker.when = vec![Pattern::parse("func/*_bold.nii.gz").unwrap()];
    });
    fs::create_dir_all(study.bids()).unwrap();
    assert_eq!(
        study.completion(),
        Completion::Incomplete,
        "a mount point without its file system looks like this"
    );
    put(&study.bids(), &["anat/a_T1w.nii.gz"]);
    assert_eq!(study.completion(), Completion::NotApplicable);
}

#[test]
fn an_error_is_not_an_absence() {
    let study = Study::new(&["a/x", "b/x"]).put(&["a/x", "b/x"]);
    spy::fail(study.output().join("a"), Errno::ACCESS, 1);
    let Completion::Unreadable(unreadable) = study.completion() else {
        panic!()
    };
    assert_eq!(unreadable.path, study.output().join("a"));
    assert_eq!(unreadable.error, "Permission denied");

    spy::fail(study.output().join("b"), Errno::IO, 1);
    assert!(matches!(study.completion(), Completion::Unreadable(_)));
    assert!(study.newest().is_some());

    let study = Study::new(&["*/x"]).put(&["a/y", "b/x"]);
    spy::fail(study.output().join("a"), Errno::ACCESS, 1);
    assert!(study.is_complete(), "another match makes it certain");

    let study = Study::new(&["*.html"]).put(&["a.html"]);
    spy::fail(study.output().join("a.html"), Errno::STALE, 1);
    assert!(study.is_complete());
    spy::fail(study.output().join("a.html"), Errno::STALE, 2);
    assert!(matches!(study.completion(), Completion::Unreadable(_)));
    spy::fail(study.output().join("a.html"), Errno::NOENT, 1);
    assert!(!study.is_complete(), "removed during the scan");

    let study = Study::new(&["*"]).change(|procedure| {
        procedure.completion.forbid = vec![Pattern::parse("log/*").unwrap()];
    });
    let study = study.put(&["a", "log/"]);
    spy::fail(study.output().join("log"), Errno::IO, 1);
    assert!(matches!(study.completion(), Completion::Unreadable(_)));
}

#[test]
fn only_what_is_needed_is_read_and_only_once() {
    let study = Study::new(&["a/*.x", "a/y", "b/*", "a/**/z"]).put(&["a/1.x", "a/2.x", "c/1"]);
    let probe = study.probe();
    let subject = SubjectLabel::new("sub-01").unwrap();
    let session = SessionLabel::new("ses-1").unwrap();
    let id = probe.procedures.find("p").unwrap();
    let answers = probe.for_subject(&subject);
    spy::calls();
    for _ in 0..3 {
        assert_eq!(answers.completion(id, &session), Completion::Incomplete);
    }
    // The directory, the first match's size; `a/y` is missing in the listing: nothing more.
    let out = study.output();
    assert_eq!(spy::calls(), [out.join("a"), out.join("a/1.x")]);
}

#[test]
fn the_newest_output_is_among_the_satisfying_files() {
    let study =
        Study::new(&["*.html", "d/done"]).put(&["a.html", "b.html", "c.html", "d/done", "z"]);
    assert!(study.newest().is_some());
    let time = |seconds: u64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    for (name, seconds) in [
        ("a.html", 100),
        ("b.html", 300),
        ("c.html", 500),
        ("d/done", 200),
        ("z", 900),
    ] {
        let file = fs::File::options()
            .write(true)
            .open(study.output().join(name))
            .unwrap();
        if name == "c.html" {
            file.set_len(0).unwrap();
        }
        file.set_modified(time(seconds)).unwrap();
    }
    assert_eq!(study.newest().unwrap().timestamp(), 300);
    assert_eq!(Study::new(&["*.html"]).newest(), None);
}
