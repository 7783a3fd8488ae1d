use std::os::unix::fs::symlink;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::gather::completion::Completions as _;
use crate::gather::disk::reader::spy;
use crate::model::procedure::marker::{Base, Count, Required};
use crate::model::procedure::testing::procedure;
use crate::model::procedure::{Check, Procedure};
use crate::model::procedure::{ProcedureDag, Scope};

/// Explains procedure `p` of `sub-01 ses-01`, and checks that the probe agrees.
fn explained(root: &Path, step: Procedure, faults: &[(PathBuf, Errno)]) -> Findings {
    let dag = ProcedureDag::new(vec![step]).unwrap();
    let id = dag.find("p").unwrap();
    let probe = || Probe::of(root.join("bids"), root.join("out"), dag.clone(), None).unwrap();
    let subject = SubjectLabel::new("sub-01").unwrap();
    let session = SessionLabel::new("ses-01").unwrap();
    for (path, errno) in faults {
        spy::fail(path, *errno, usize::MAX);
    }
    let findings = probe().explainer(&subject).findings(id, &session);
    let completion = probe().for_subject(&subject).completion(id, &session);
    spy::forget();
    assert_eq!(findings.verdict, completion, "{findings:#?}");
    findings
}

/// Creates files below the root; `-> target` creates a link, a `/` at the end a directory.
fn make(files: &[(String, String)]) -> tempfile::TempDir {
    let tmp = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let full = tmp.path().join(path);
        if std::fs::create_dir_all(full.parent().unwrap()).is_err() {
            continue;
        }
        let _ = match text.strip_prefix("-> ") {
            Some(target) => symlink(target, &full),
            None if path.ends_with('/') => std::fs::create_dir_all(&full),
            None => std::fs::write(&full, text),
        };
    }
    tmp
}

fn files(list: &[(&str, &str)]) -> tempfile::TempDir {
    let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    make(&list.iter().map(own).collect::<Vec<_>>())
}

fn step(markers: &[&str], forbid: &[&str]) -> Procedure {
    let mut step = procedure("p", Scope::Session, &[]);
    let parse = |text: &&str| Pattern::parse(text).unwrap();
    if !markers.is_empty() {
        let markers = markers.iter().map(|text| Marker::new(parse(text)));
        step.completion.required = Required::Markers(markers.collect());
    }
    step.completion.forbid = forbid.iter().map(parse).collect();
    step
}

#[test]
fn a_marker_shows_its_matches_or_the_nearest_directory() {
    let tmp = files(&[
        ("out/p/sub-01/ses-01/dwi/a_dwi.nii.gz", "image"),
        ("out/p/sub-01/ses-01/dwi/a_dwi.bval", "x"),
        ("out/p/sub-01/ses-01/dwi/notes.txt", "x"),
        ("out/p/sub-01/ses-01/anat/a.json", ""),
        ("out/p/sub-01/ses-01/anat/gone.html", "-> nowhere"),
        ("out/p/sub-01/ses-01/crash-1.txt", ""),
    ]);
    let found = explained(
        tmp.path(),
        step(
            &[
                "dwi/*_dwi.nii.gz",
                "dwi/*_dwi.bvec",
                "anat/*.json",
                "anat/*.html",
                "func/*/x",
                "**/*.svg",
            ],
            &["crash-*", "core.*"],
        ),
        &[],
    );
    assert_eq!(found.verdict, Completion::Incomplete);
    let output = tmp.path().join("out/p/sub-01/ses-01");
    let short = |path: &str| match Path::new(path).strip_prefix(&output) {
        Ok(rest) => rest.display().to_string(),
        Err(_) => path.to_owned(),
    };
    let seen: Vec<String> = found
        .required
        .iter()
        .chain(&found.forbidden)
        .map(|f| {
            let matches: Vec<String> = f
                .matches
                .iter()
                .map(|m| {
                    let size = m.size.map_or("-".to_owned(), |size| size.to_string());
                    let problem = m.problem.as_deref().unwrap_or("ok");
                    format!("{} {size} {problem}", short(&m.path))
                })
                .collect();
            let nearest = f.nearest.as_ref().map(|n| {
                let dir = short(&n.directory);
                format!(
                    "in '{dir}' of {} {:?} no {}",
                    n.entries, n.names, n.fails_at
                )
            });
            format!("{} {:?} {matches:?} {nearest:?}", f.rule, f.state)
        })
        .collect();
    insta::assert_snapshot!(seen.join("\n"), @r#"
    dwi/*_dwi.nii.gz Found ["dwi/a_dwi.nii.gz 5 ok"] None
    dwi/*_dwi.bvec Missing [] Some("in 'dwi' of 3 [\"a_dwi.bval\", \"a_dwi.nii.gz\", \"notes.txt\"] no *_dwi.bvec")
    anat/*.json Missing ["anat/a.json 0 is empty"] None
    anat/*.html Unreadable [] None
    func/*/x Missing [] Some("in '' of 3 [\"anat\", \"crash-1.txt\", \"dwi\"] no func")
    **/*.svg Missing [] Some("in '' of 3 [\"anat\", \"crash-1.txt\", \"dwi\"] no *.svg")
    crash-* Forbidden ["crash-1.txt 0 ok"] None
    core.* Absent [] None
    "#);
}

#[test]
fn for_a_missing_output_the_directory_above_is_shown() {
    let tmp = files(&[("out/p/sub-02/x", "x"), ("out/p/sub-011/x", "x")]);
    let found = explained(tmp.path(), step(&["a/b"], &[]), &[]);
    let nearest = found.required[0].nearest.as_ref().unwrap();
    assert_eq!(nearest.directory, lossy(&tmp.path().join("out/p")));
    assert_eq!(nearest.fails_at, "sub-01");
    assert_eq!(nearest.names, ["sub-011", "sub-02"]);
    let found = explained(tmp.path(), step(&[], &[]), &[]);
    assert_eq!(found.required[0].nearest.as_ref().unwrap().entries, 2);
    let tmp = files(&[("out/p/sub-01/ses-01/", "")]);
    let found = explained(tmp.path(), step(&[], &[]), &[]);
    let nearest = found.required[0].nearest.as_ref().unwrap();
    assert_eq!((nearest.entries, nearest.fails_at.as_str()), (0, ""));
}

#[test]
fn a_directory_of_all_subjects_is_read_once() {
    let tmp = files(&[("out/p/sub-02_a", "x"), ("out/p/sub-03_a", "x")]);
    let mut step = step(&["{subject}_b"], &[]);
    if let Required::Markers(markers) = &mut step.completion.required {
        markers[0].base = Base::Procedure;
    }
    let dag = ProcedureDag::new(vec![step]).unwrap();
    let id = dag.find("p").unwrap();
    let root = |name: &str| tmp.path().join(name);
    let probe = Probe::of(root("bids"), root("out"), dag, None).unwrap();
    let session = SessionLabel::new("ses-01").unwrap();
    spy::calls();
    for subject in ["sub-01", "sub-02", "sub-03"] {
        let subject = SubjectLabel::new(subject).unwrap();
        let findings = probe.brief_explainer(&subject).findings(id, &session);
        let nearest = findings.required[0].nearest.as_ref().unwrap();
        assert_eq!(nearest.directory, lossy(&root("out/p")));
    }
    let reads = spy::calls()
        .into_iter()
        .filter(|path| *path == root("out/p"));
    assert_eq!(reads.count(), 1);
}

#[test]
fn conditions_and_their_failures_are_shown() {
    let tmp = files(&[
        ("out/p/sub-01/ses-01/log.txt", "nothing"),
        ("out/p/sub-01/ses-01/small.nii", "12345"),
        ("bids/sub-01/ses-01/anat/x", "x"),
    ]);
    let mut step = step(&["log.txt", "*.nii", "func/*.html"], &[]);
    if let Required::Markers(markers) = &mut step.completion.required {
        markers[0].contains = Some("done".to_owned());
        markers[1].min_size = 10;
        markers[2].when = vec![Pattern::parse("func/*").unwrap()];
    }
    let found = explained(tmp.path(), step, &[]);
    let problem = |at: usize| found.required[at].matches[0].problem.as_deref().unwrap();
    assert_eq!(problem(0), "does not contain 'done'");
    assert_eq!(problem(1), "has 5 bytes, at least 10 are required");
    assert_eq!(found.required[1].conditions, ["at least 10 bytes"]);
    assert_eq!(found.required[2].state, FindingState::NotNeeded);
}

#[test]
fn the_built_in_checks_are_shown_file_by_file() {
    let tmp = files(&[
        ("bids/sub-01/ses-01/anat/a_T1w.nii.gz", "x"),
        ("bids/sub-01/ses-02/anat/a_T1w.nii.gz", "x"),
        ("out/p/sub-01_ses-01/scripts/recon-all.done", "------\n"),
        ("out/p/sub-01_ses-02/scripts/recon-all.done", "1\n"),
        ("out/p/sub-01/base-tps", "sub-01_ses-01\n"),
        ("out/p/derivatives/qsirecon-A/sub-01_ses-02.html", "x"),
    ]);
    let mut step = procedure("p", Scope::Session, &[]);
    step.check = Check::Freesurfer;
    let found = explained(tmp.path(), step.clone(), &[]);
    let notes: Vec<_> = found
        .required
        .iter()
        .map(|f| (f.rule.as_str(), f.state, f.note.as_deref()))
        .collect();
    use FindingState::{Found, Missing};
    assert_eq!(
        notes,
        [
            ("sub-01_ses-01/scripts/recon-all.done", Found, None),
            (
                "sub-01_ses-02/scripts/recon-all.done",
                Missing,
                Some("recon-all ended with exit code 1")
            ),
            ("sub-01/scripts/recon-all.done", Missing, None),
            (
                "sub-01/base-tps",
                Missing,
                Some("the template was made without sub-01_ses-02")
            ),
            (
                "sub-01_ses-01.long.sub-01/scripts/recon-all.done",
                Missing,
                None
            ),
            (
                "sub-01_ses-02.long.sub-01/scripts/recon-all.done",
                Missing,
                None
            ),
        ]
    );
    step.check = Check::Qsirecon;
    let found = explained(tmp.path(), step, &[]);
    assert_eq!(found.required[0].rule, "derivatives/*/sub-01_ses-01.html");
    let nearest = found.required[0].nearest.as_ref().unwrap();
    assert_eq!(nearest.names, ["sub-01_ses-02.html"]);
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", ".a", "x.nii", "x.json", "y.nii"]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    vec(name(), 1..4).prop_map(|parts| parts.join("/"))
}

fn content() -> impl Strategy<Value = String> {
    let texts = vec![
        "",
        "1",
        "done",
        "error",
        "done error",
        "-> nowhere",
        "-> a",
        "-> .",
    ];
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let parts = vec!["a", "b", "*", "**", "*.nii", "x.*", "?", "a*"];
    (vec(prop::sample::select(parts), 1..4), any::<bool>())
        .prop_filter_map("no pattern", |(parts, slash)| {
            Pattern::parse(&(parts.join("/") + if slash { "/" } else { "" })).ok()
        })
}

fn marker() -> impl Strategy<Value = Marker> {
    let text = |word: &'static str| prop::option::weighted(0.3, Just(word.to_owned()));
    let when = prop::collection::vec(pattern(), 0..3);
    let texts = (text("done"), text("error"));
    let count = (1usize..3, prop::option::weighted(0.3, Just(Count::Input)));
    (pattern(), 0u64..3, texts, when, count).prop_map(
        |(pattern, min_size, (contains, not_contains), when, (min_count, count))| Marker {
            min_size,
            contains,
            not_contains,
            count: count.filter(|_| !when.is_empty()),
            when,
            min_count,
            ..Marker::new(pattern)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn explainer_and_probe_agree(
        outputs in vec((path(), content()), 0..8),
        inputs in vec((path(), content()), 0..3),
        markers in vec(marker(), 0..4),
        forbid in vec(pattern(), 0..2),
        faults in vec(path(), 0..2),
    ) {
        let below = |root: &str, list: &[(String, String)]| -> Vec<(String, String)> {
            let base = format!("{root}/sub-01/ses-01");
            list.iter().map(|(path, text)| (format!("{base}/{path}"), text.clone())).collect()
        };
        let mut all = below("out/p", &outputs);
        all.extend(below("bids", &inputs));
        let tmp = make(&all);
        let mut step = procedure("p", Scope::Session, &[]);
        if !markers.is_empty() {
            step.completion.required = Required::Markers(markers);
        }
        step.completion.forbid = forbid;
        let faults: Vec<(PathBuf, Errno)> = faults
            .iter()
            .map(|path| (tmp.path().join("out/p/sub-01/ses-01").join(path), Errno::ACCESS))
            .collect();
        let findings = explained(tmp.path(), step, &faults);
        for finding in findings.required.iter().chain(&findings.forbidden) {
            let has_matches = !finding.matches.is_empty();
            match finding.state {
                FindingState::Found | FindingState::Forbidden => prop_assert!(has_matches),
                FindingState::Absent | FindingState::NotNeeded => prop_assert!(!has_matches),
                FindingState::Missing | FindingState::Unreadable => {}
            }
        }
    }
}
