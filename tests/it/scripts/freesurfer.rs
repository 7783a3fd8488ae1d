//! FreeSurfer's script: which images are taken, which steps are done again.

use super::Site;

const OUTPUT: &str = "derivatives/freesurfer/sub-0001";

fn t1(site: &Site, session: &str, name: &str) {
    let path = format!("bids/sub-0001/{session}/anat/sub-0001_{session}_{name}.nii.gz");
    site.write(&path, "image");
}

fn run(site: &Site) -> Vec<String> {
    site.run("snbb_run_freesurfer.sh", OUTPUT, &["sub-0001"]);
    site.recon_all()
}

fn run_failing(site: &Site, name: &str) -> Vec<String> {
    let fail = format!("recon-all {name}");
    let result = site.run_failing("snbb_run_freesurfer.sh", OUTPUT, &["sub-0001"], &fail);
    assert!(!result.status.success());
    site.recon_all()
}

fn short(calls: &[String]) -> Vec<String> {
    calls
        .iter()
        .map(|call| call.split(" -all").next().unwrap().to_owned())
        .collect()
}

#[test]
fn one_session_is_a_plain_run_with_the_right_images() {
    let site = Site::new();
    for name in ["T1w", "acq-defaced_T1w", "rec-norm_T1w", "T2w"] {
        t1(&site, "ses-01", name);
    }
    t1(&site, "ses-02", "acq-defaced_T1w");
    let anat = "sub-0001/ses-01/anat/sub-0001_ses-01";
    assert_eq!(
        run(&site),
        [format!(
            "-s sub-0001 -i {anat}_rec-norm_T1w.nii.gz -T2 {anat}_T2w.nii.gz -T2pial -all -parallel -openmp 8"
        )]
    );
    assert_eq!(
        run(&site),
        Vec::<String>::new(),
        "what is done is not done again"
    );
}

#[test]
fn several_sessions_are_the_longitudinal_stream() {
    let site = Site::new();
    t1(&site, "ses-01", "T1w");
    t1(&site, "ses-02", "T1w");
    t1(&site, "ses-02", "T2w");
    let calls = run(&site);
    assert_eq!(
        short(&calls),
        [
            "-s sub-0001_ses-01 -i sub-0001/ses-01/anat/sub-0001_ses-01_T1w.nii.gz",
            "-s sub-0001_ses-02 -i sub-0001/ses-02/anat/sub-0001_ses-02_T1w.nii.gz \
             -T2 sub-0001/ses-02/anat/sub-0001_ses-02_T2w.nii.gz -T2pial",
            "-base sub-0001 -tp sub-0001_ses-01 -tp sub-0001_ses-02",
            "-long sub-0001_ses-01 sub-0001",
            "-long sub-0001_ses-02 sub-0001 -T2pial",
        ]
    );
    assert!(!calls[3].contains("-parallel"), "{}", calls[3]);
    site.assert_markers(
        "derivatives/freesurfer",
        &[
            "sub-0001_ses-01/scripts/recon-all.done",
            "sub-0001_ses-02/scripts/recon-all.done",
            "sub-0001/scripts/recon-all.done",
            "sub-0001/base-tps",
            "sub-0001_ses-01.long.sub-0001/scripts/recon-all.done",
            "sub-0001_ses-02.long.sub-0001/scripts/recon-all.done",
        ],
    );
    assert_eq!(run(&site), Vec::<String>::new());
}

#[test]
fn a_step_that_failed_is_run_again_and_those_before_it_are_not() {
    let site = Site::new();
    t1(&site, "ses-01", "T1w");
    t1(&site, "ses-02", "T1w");
    let steps = [
        "sub-0001_ses-02",
        "sub-0001",
        "sub-0001_ses-02.long.sub-0001",
    ];
    let long = [
        "-long sub-0001_ses-01 sub-0001",
        "-long sub-0001_ses-02 sub-0001",
    ];
    let base = "-base sub-0001 -tp sub-0001_ses-01 -tp sub-0001_ses-02";
    assert_eq!(run_failing(&site, steps[0]).len(), 2);
    // Its input is taken in already, so it goes on without.
    let calls = run_failing(&site, steps[1]);
    assert_eq!(short(&calls), ["-s sub-0001_ses-02", base]);
    let calls = run_failing(&site, steps[2]);
    assert_eq!(short(&calls), [base, long[0], long[1]]);
    assert_eq!(short(&run(&site)), [long[1]]);
}

/// A plain result that stands where the template must come is not taken for one.
#[test]
fn a_new_session_makes_a_new_template() {
    let site = Site::new();
    t1(&site, "ses-01", "T1w");
    assert_eq!(run(&site).len(), 1);
    t1(&site, "ses-02", "T1w");
    assert_eq!(run(&site).len(), 5);
    site.assert_markers("derivatives/freesurfer", &["sub-0001/base-tps"]);
    t1(&site, "ses-03", "T1w");
    let calls = run(&site);
    assert_eq!(
        short(&calls),
        [
            "-s sub-0001_ses-03 -i sub-0001/ses-03/anat/sub-0001_ses-03_T1w.nii.gz",
            "-base sub-0001 -tp sub-0001_ses-01 -tp sub-0001_ses-02 -tp sub-0001_ses-03",
            "-long sub-0001_ses-01 sub-0001",
            "-long sub-0001_ses-02 sub-0001",
            "-long sub-0001_ses-03 sub-0001",
        ]
    );
    let kept = site.found("derivatives/freesurfer/.superseded/*");
    assert_eq!(kept.len(), 4, "earlier results are kept: {kept:?}");
}

#[test]
fn marks_are_good_or_bad_as_the_check_reads_them() {
    for (mark, good) in [
        ("1", false),
        ("", false),
        ("0", false),
        (" -1 ", false),
        ("done", true),
    ] {
        let site = Site::new();
        t1(&site, "ses-01", "T1w");
        site.write(
            &format!("{OUTPUT}/scripts/recon-all.done"),
            &format!("{mark}\nmore\n"),
        );
        assert_eq!(run(&site).is_empty(), good, "'{mark}'");
    }
}

#[test]
fn no_image_is_an_error() {
    let site = Site::new();
    t1(&site, "ses-01", "acq-defaced_T1w");
    let result = site.run_failing("snbb_run_freesurfer.sh", OUTPUT, &["sub-0001"], "");
    assert_eq!(result.status.code(), Some(1));
}
