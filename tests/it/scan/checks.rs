//! FreeSurfer's and QSIRecon's checks, datasets without sessions, and files that cannot be read.

use std::path::PathBuf;

use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions};
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::procedure::{Procedure, ProcedureDag};

use super::pipeline::{pipeline, step};
use crate::harness_tree::{Tree, as_nobody};

const GOOD: &str = "\ttext=-----\\nSUBJECT done\\n";

fn completion(
    tree: &Tree,
    steps: ProcedureDag,
    spec: Option<PathBuf>,
    name: &str,
    session: &str,
) -> Completion {
    let id = steps.find(name).unwrap();
    let root = |name: &str| tree.root().join(name);
    let probe = Probe::of(root("bids"), root("derivatives"), steps, spec.as_deref()).unwrap();
    let subject = SubjectLabel::new("sub-01").unwrap();
    let session = SessionLabel::new(session).unwrap_or(SessionLabel::none());
    let answers = probe.for_subject(&subject);
    let answer = answers.completion(id, &session);
    if answer == Completion::Complete {
        assert!(answers.newest_output(id, &session).is_some());
    }
    answer
}

fn freesurfer(images: &[&str], outputs: &[&str]) -> Completion {
    let mut listing = String::new();
    for image in images {
        listing += &format!("bids/sub-01/{image}\n");
    }
    for output in outputs {
        let (path, rest) = output
            .split_once('\t')
            .map_or((*output, ""), |(path, rest)| (path, rest));
        listing += &match rest {
            "" if !path.contains('/') => {
                format!("derivatives/freesurfer/{path}/scripts/recon-all.done{GOOD}\n")
            }
            "" => format!("derivatives/freesurfer/{path}\n"),
            rest => format!("derivatives/freesurfer/{path}\t{rest}\n"),
        };
    }
    completion(&Tree::build(&listing), pipeline(), None, "freesurfer", "")
}

const A: &str = "ses-a/anat/sub-01_ses-a_T1w.nii.gz";
const B: &str = "ses-b/anat/sub-01_ses-b_T1w.nii.gz";
const TPS: &str = "sub-01/base-tps\ttext=sub-01_ses-a\\nsub-01_ses-b\\n";
const LONGITUDINAL: [&str; 6] = [
    "sub-01_ses-a",
    "sub-01_ses-b",
    "sub-01",
    "sub-01_ses-a.long.sub-01",
    "sub-01_ses-b.long.sub-01",
    TPS,
];

#[test]
fn freesurfer_with_one_session_needs_one_mark() {
    use Completion::{Complete, Incomplete};
    for (images, outputs, expected) in [
        (&[A][..], &["sub-01"][..], Complete),
        (&[A], &[], Incomplete),
        (&[A], &["sub-01_ses-a"], Incomplete),
        (&[], &["sub-01"], Incomplete),
        (&["ses-a/anat/x_T2w.nii.gz"], &["sub-01"], Incomplete),
        (
            &["ses-a/anat/x_acq-defaced_T1w.nii.gz"],
            &["sub-01"],
            Incomplete,
        ),
        (&["ses-a/anat/.x_T1w.nii.gz"], &["sub-01"], Incomplete),
        // A session with a defaced image only is none (D34c).
        (
            &[A, "ses-b/anat/x_acq-defaced_T1w.nii.gz"],
            &["sub-01"],
            Complete,
        ),
        (&[A, "ses-b/dwi/x"], &["sub-01"], Complete),
        (&[A, "ses-b_old/anat/x_T1w.nii.gz"], &["sub-01"], Complete),
        (
            &[A],
            &["sub-01/scripts/recon-all.done\ttext=1\\n"],
            Incomplete,
        ),
        (&[A], &["sub-01/scripts/recon-all.done\tsize=0"], Incomplete),
        (&[A], &["sub-01/scripts/recon-all.done/"], Incomplete),
        // Without session level.
        (&["anat/sub-01_T1w.nii.gz"], &["sub-01"], Complete),
        (&["anat/sub-01_T1w.nii.gz"], &[], Incomplete),
        (
            &["anat/sub-01_T1w.nii.gz", "ses-a/dwi/x"],
            &["sub-01"],
            Incomplete,
        ),
        // git-annex: the image counts although its content is not here.
        (
            &[A, "ses-b/anat/x_T1w.nii.gz -> gone"],
            &["sub-01"],
            Incomplete,
        ),
    ] {
        assert_eq!(
            freesurfer(images, outputs),
            expected,
            "{images:?} {outputs:?}"
        );
    }
}

#[test]
fn freesurfer_with_two_sessions_needs_all_marks_and_their_template() {
    assert_eq!(freesurfer(&[A, B], &LONGITUDINAL), Completion::Complete);
    for missing in LONGITUDINAL {
        let outputs: Vec<&str> = LONGITUDINAL
            .into_iter()
            .filter(|output| *output != missing)
            .collect();
        assert_eq!(
            freesurfer(&[A, B], &outputs),
            Completion::Incomplete,
            "{missing}"
        );
    }
    // A template of fewer time points, and a cross-sectional result in its place (D34b).
    for tps in [
        "text=sub-01_ses-a\\n",
        "text=sub-01_ses-a\\nsub-01_ses-bb\\n",
        "size=0",
    ] {
        let tps = format!("sub-01/base-tps\t{tps}");
        let mut outputs = LONGITUDINAL;
        outputs[5] = &tps;
        assert_eq!(
            freesurfer(&[A, B], &outputs),
            Completion::Incomplete,
            "{tps}"
        );
    }
}

fn qsirecon(spec: Option<&str>, outputs: &[&str], session: &str) -> Completion {
    let mut listing: String = outputs
        .iter()
        .map(|path| format!("derivatives/{path}\n"))
        .collect();
    listing += "x\n";
    let tree = Tree::build(&listing);
    let file = tree.root().join("spec.yaml");
    if let Some(spec) = spec {
        std::fs::write(&file, spec).unwrap();
    }
    let mut steps: Vec<Procedure> = pipeline().iter().map(|(_, step)| step.clone()).collect();
    // The configured directory is honoured (D32).
    steps[5].output_dir = "recon/v2".into();
    let steps = ProcedureDag::new(steps).unwrap();
    completion(&tree, steps, spec.map(|_| file), "qsirecon", session)
}

#[test]
fn attack_an_empty_qsirecon_report_proves_nothing() {
    let report = "recon/v2/derivatives/qsirecon-A/sub-01_ses-a.html";
    for spec in [Some("nodes: [{qsirecon_suffix: A}]"), None] {
        let judged = |output: &str| qsirecon(spec, &[output], "ses-a");
        let empty = format!("{report}\tsize=0");
        assert_eq!(judged(&empty), Completion::Incomplete, "{spec:?}");
        assert_eq!(judged(report), Completion::Complete, "{spec:?}");
    }
}

#[test]
fn qsirecon_needs_a_report_per_suffix() {
    use Completion::{Complete, Incomplete};
    let spec = "nodes: [{qsirecon_suffix: A}, {qsirecon_suffix: B}, {qsirecon_suffix: A}]";
    let a = "recon/v2/derivatives/qsirecon-A/sub-01_ses-a.html";
    let b = "recon/v2/derivatives/qsirecon-B/sub-01_ses-a.html";
    let a_plain = "recon/v2/derivatives/qsirecon-A/sub-01.html";
    for (spec, outputs, session, expected) in [
        (Some(spec), &[a, b][..], "ses-a", Complete),
        (Some(spec), &[a], "ses-a", Incomplete),
        (Some(spec), &[a, b], "ses-b", Incomplete),
        (Some(spec), &[], "ses-a", Incomplete),
        (Some("nodes: []"), &[b], "ses-a", Complete),
        (None, &[b], "ses-a", Complete),
        (None, &[a_plain], "ses-a", Incomplete),
        (None, &[a_plain], "", Complete),
        (
            None,
            &["qsirecon/derivatives/qsirecon-A/sub-01_ses-a.html"],
            "ses-a",
            Incomplete,
        ),
        (
            None,
            &["recon/v2/derivatives/.x/sub-01_ses-a.html"],
            "ses-a",
            Incomplete,
        ),
        (
            None,
            &["recon/v2/derivatives/x/sub-01_ses-a.html/"],
            "ses-a",
            Incomplete,
        ),
        (
            None,
            &["recon/v2/derivatives/x/sub-01_ses-a.html\tsize=0"],
            "ses-a",
            Incomplete,
        ),
        (
            None,
            &["recon/v2/derivatives/sub-01_ses-a.html"],
            "ses-a",
            Incomplete,
        ),
    ] {
        assert_eq!(
            qsirecon(spec, outputs, session),
            expected,
            "{spec:?} {outputs:?} {session:?}"
        );
    }
    let nowhere = &["recon/v2/derivatives/x/sub-01_ses-a.html -> gone"];
    assert!(matches!(
        qsirecon(None, nowhere, "ses-a"),
        Completion::Unreadable(_)
    ));
}

#[test]
fn a_spec_that_cannot_be_read_is_an_error_if_it_is_needed() {
    let missing = PathBuf::from("/nonexistent/spec.yaml");
    let probe = |steps| Probe::of("/b".into(), "/d".into(), steps, Some(&missing));
    assert!(probe(pipeline()).is_err());
    let steps = ProcedureDag::new(vec![step("bids", "", &[], &["x"])]).unwrap();
    assert!(probe(steps).is_ok());
}

#[test]
fn without_sessions_the_output_has_no_session_part() {
    let tree = Tree::build(
        "bids/sub-01/fmap/sub-01_acq-dwi_epi.nii.gz\nderivatives/qsiprep/sub-01/ses-a/x\n",
    );
    assert_eq!(
        completion(&tree, pipeline(), None, "bids_post", ""),
        Completion::Complete
    );
    assert_eq!(
        completion(&tree, pipeline(), None, "bids_post", "ses-a"),
        Completion::Incomplete
    );
}

#[test]
fn unreadable_is_not_incomplete() {
    let locked = |path: &str| {
        let listing = format!(
            "bids/sub-01/ses-a/fmap/x_acq-dwi_epi.nii.gz\nbids/sub-01/ses-a/anat/x_T1w.nii.gz\n\
             bids/sub-01/ses-a/anat/x_acq-defaced_T1w.nii.gz -> ../hidden/x\nbids/sub-01/ses-a/hidden/x\n\
             derivatives/freesurfer/sub-01/scripts/recon-all.done{GOOD}\n\
             derivatives/qsirecon/derivatives/a/sub-01_ses-a.html\n{path}\tmode=000\n"
        );
        Tree::build(&listing)
    };
    for (path, name, session, reported) in [
        (
            "bids/sub-01/ses-a/fmap/",
            "bids_post",
            "ses-a",
            "bids/sub-01/ses-a/fmap",
        ),
        (
            "bids/sub-01/ses-a/",
            "bids_post",
            "ses-a",
            "bids/sub-01/ses-a/fmap",
        ),
        ("bids/", "bids_post", "ses-a", "bids/sub-01/ses-a/fmap"),
        (
            "bids/sub-01/ses-a/hidden/",
            "defacing",
            "ses-a",
            "bids/sub-01/ses-a/anat/x_acq-defaced_T1w.nii.gz",
        ),
        ("bids/sub-01/", "freesurfer", "", "bids/sub-01"),
        (
            "bids/sub-01/ses-a/anat/",
            "freesurfer",
            "",
            "bids/sub-01/ses-a/anat",
        ),
        (
            "derivatives/freesurfer/sub-01/scripts/recon-all.done",
            "freesurfer",
            "",
            "derivatives/freesurfer/sub-01/scripts/recon-all.done",
        ),
        (
            "derivatives/qsirecon/derivatives/",
            "qsirecon",
            "ses-a",
            "derivatives/qsirecon/derivatives",
        ),
        (
            "derivatives/qsirecon/derivatives/a/",
            "qsirecon",
            "ses-a",
            "derivatives/qsirecon/derivatives/a",
        ),
    ] {
        let path = if path.contains(".done") {
            format!("{path}{GOOD}")
        } else {
            path.to_owned()
        };
        let tree = locked(&path);
        match as_nobody(|| completion(&tree, pipeline(), None, name, session)) {
            Completion::Unreadable(unreadable) => {
                assert_eq!(unreadable.path, tree.root().join(reported), "{path}");
                assert_eq!(unreadable.error, "Permission denied");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn forbidden_files_count_beside_a_check_of_its_own_too() {
    use snbb_scheduler::model::procedure::marker::Pattern;
    let steps: Vec<Procedure> = pipeline()
        .iter()
        .map(|(_, procedure)| {
            let mut procedure = procedure.clone();
            if &*procedure.name == "freesurfer" {
                procedure.completion.forbid = vec![Pattern::parse("scripts/IsRunning*").unwrap()];
            }
            procedure
        })
        .collect();
    let listing =
        format!("bids/sub-01/{A}\nderivatives/freesurfer/sub-01/scripts/recon-all.done{GOOD}\n");
    let judge = |listing: &str| {
        let steps = ProcedureDag::new(steps.clone()).unwrap();
        completion(&Tree::build(listing), steps, None, "freesurfer", "")
    };
    assert_eq!(judge(&listing), Completion::Complete);
    let running = format!("{listing}derivatives/freesurfer/sub-01/scripts/IsRunning.lh\n");
    assert_eq!(judge(&running), Completion::Incomplete);
}

/// An empty `output_dir` is `bids_root`, for every kind of check.
#[test]
fn b9_checks_look_where_the_outputs_are_said_to_be() {
    let mut step = pipeline()
        .iter()
        .find(|(_, step)| &*step.name == "freesurfer")
        .unwrap()
        .1
        .clone();
    step.output_dir = PathBuf::new();
    step.depends_on = Vec::new();
    let steps = ProcedureDag::new(vec![step]).unwrap();
    for (root, expected) in [
        ("bids", Completion::Complete),
        ("derivatives", Completion::Incomplete),
    ] {
        let tree = Tree::build(&format!(
            "bids/sub-01/{A}\n{root}/sub-01/scripts/recon-all.done{GOOD}\n"
        ));
        let config = crate::harness_tree::config(tree.root());
        let (id, procedure) = steps.iter().next().unwrap();
        let output = config.output_roots().output(procedure, "sub-01", "");
        assert_eq!(output, tree.root().join("bids/sub-01"));
        let probe = Probe::of(
            config.bids_root,
            config.derivatives_root,
            steps.clone(),
            None,
        )
        .unwrap();
        let subject = SubjectLabel::new("sub-01").unwrap();
        let none = SessionLabel::none();
        let found = probe.explainer(&subject).findings(id, &none);
        assert_eq!(found.directory, output.to_string_lossy());
        assert_eq!(probe.for_subject(&subject).completion(id, &none), expected);
    }
}
