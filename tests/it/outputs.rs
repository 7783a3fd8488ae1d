//! `outputs`: lists that rsync and tar take, with odd names.
#![expect(clippy::disallowed_methods, reason = "starts rsync and tar")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::harness::Study;
use crate::pretty::{pretty, problems};

const STEPS: &str = "\
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: '*.json'}
  - {name: post, output_dir: '', script: job.sh, depends_on: [bids], completion_marker: post/done}
  - {name: prep, output_dir: prep, script: job.sh, depends_on: [bids], completion_marker: done}
  - {name: freesurfer, output_dir: fs, script: job.sh, scope: subject, depends_on: [bids]}
  - {name: qsirecon, output_dir: recon, script: job.sh, depends_on: [prep]}
";

fn study() -> Study {
    let study = Study::new();
    study.configure(STEPS);
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-01/ses-02", "sub-02/ses-01"]);
    for path in [
        "bids/sub-01/ses-01/a.json",
        "bids/sub-01/ses-01/post/done",
        "bids/sub-01/ses-01/anat/x_T1w.nii.gz",
        "bids/sub-01/ses-02/a.json",
        "bids/sub-02/ses-01/incomplete",
        "derivatives/prep/sub-01/ses-01/done",
        "derivatives/prep/sub-01/ses-02/half",
        "derivatives/fs/sub-01/scripts/recon-all.done",
        "derivatives/fs/sub-010/scripts/recon-all.done",
        "derivatives/recon/derivatives/qsirecon-x/sub-01_ses-01.html",
        "derivatives/recon/derivatives/qsirecon-x/sub-01/ses-01/dwi.tck",
    ] {
        study.write(path, "good\n");
    }
    study
}

fn list(study: &Study, arguments: &[&str]) -> String {
    let out = study.ok(&[&["outputs"], arguments].concat()).out;
    out.replace(&format!("{}/", study.dir.path().display()), "")
}

#[test]
fn only_what_is_complete_once_each_in_order() {
    let study = study();
    let before = study.snapshot();
    assert_eq!(
        list(&study, &[]),
        "bids/sub-01/ses-01\nbids/sub-01/ses-02\nderivatives/prep/sub-01/ses-01\nderivatives/fs/sub-01\n\
         derivatives/recon/derivatives/qsirecon-x/sub-01/ses-01\n\
         derivatives/recon/derivatives/qsirecon-x/sub-01_ses-01.html\n"
    );
    assert_eq!(
        list(
            &study,
            &["--files", "--procedure", "post", "--procedure", "bids"]
        ),
        "bids/sub-01/ses-01/a.json\nbids/sub-01/ses-01/anat/x_T1w.nii.gz\nbids/sub-01/ses-01/post/done\n\
         bids/sub-01/ses-02/a.json\n"
    );
    assert_eq!(
        list(
            &study,
            &["--root", "derivatives", "--null", "--session", "01"]
        ),
        "prep/sub-01/ses-01\0recon/derivatives/qsirecon-x/sub-01/ses-01\0\
         recon/derivatives/qsirecon-x/sub-01_ses-01.html\0"
    );
    let base = study.at("bids").display().to_string();
    let bids = ["--procedure", "bids", "--relative-to", &base];
    assert_eq!(list(&study, &bids), "sub-01/ses-01\nsub-01/ses-02\n");
    let said = study.call(&["outputs", "--relative-to", &base]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    insta::assert_snapshot!("relative_to_one_of_two", problems(&study, &said.err));
    let csv = list(&study, &["--format", "csv", "--root", "bids"]);
    assert_eq!(
        csv,
        "subject,session,procedure,path\nsub-01,ses-01,bids,sub-01/ses-01\nsub-01,ses-02,bids,sub-01/ses-02\n\
         sub-01,ses-01,post,sub-01/ses-01\n"
    );
    let said = study.ok(&["outputs", "--subject", "02"]);
    assert_eq!(said.out, "");
    insta::assert_snapshot!("nothing_is_complete", pretty(&study, &said.err));
    assert_eq!(study.snapshot(), before);
}

#[test]
fn a_pause_is_no_news_for_who_copies_outputs() {
    let study = study();
    study.ok(&["pause", "--procedure", "bids"]);
    assert_eq!(study.ok(&["outputs"]).err, "");
    let err = study.ok(&["manifest"]).err;
    assert!(err.contains("bids") && err.contains("paused"), "{err}");
}

#[test]
fn odd_names_are_refused_where_they_would_be_misread() {
    let study = study();
    study.write("bids/sub-01/ses-01/two\nlines", "x");
    let said = study.call(&["outputs", "--files"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    insta::assert_snapshot!("line_break_in_a_name", problems(&study, &said.err));
    assert!(list(&study, &["--files", "-0"]).contains("two\nlines\0"));
    assert!(list(&study, &["--files", "--format", "json"]).contains(r"two\nlines"));
    assert!(study.ok(&["outputs"]).out.contains("bids/sub-01/ses-01\n"));

    fs::write(
        study
            .at("bids/sub-01/ses-01")
            .join(OsStr::from_bytes(b"\xff")),
        "x",
    )
    .unwrap();
    let said = study.call(&["outputs", "--files", "--format", "json"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains(r"\xff"), "{}", said.err);
    let output = study
        .program()
        .args(["outputs", "--files", "-0"])
        .output()
        .unwrap();
    assert!(output.stdout.windows(2).any(|pair| pair == b"\xff\0"));
}

#[test]
fn links_are_listed_and_not_followed() {
    let study = study();
    study.write("annex/key", "content");
    symlink("../../../annex/key", study.at("bids/sub-01/ses-01/linked")).unwrap();
    symlink(study.at("annex"), study.at("bids/sub-01/ses-01/dir")).unwrap();
    let files = list(&study, &["--files", "--procedure", "bids"]);
    for (path, is_there) in [
        ("bids/sub-01/ses-01/linked\n", true),
        ("bids/sub-01/ses-01/dir\n", true),
        ("bids/sub-01/ses-01/dir/key", false),
    ] {
        assert_eq!(files.contains(path), is_there, "{path}");
    }
}

/// Runs a shell line with the program as `$SNBB`; false if `tool` is not here.
fn shell(study: &Study, tool: &str, line: &str) -> bool {
    let is_here = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_here {
        eprintln!("SKIPPED: {tool} is not here");
        return false;
    }
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", line])
        .env("SNBB", assert_cmd::cargo::cargo_bin("snbb-scheduler"))
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .current_dir(study.dir.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    true
}

fn below(study: &Study, dir: &str) -> Vec<String> {
    let base = study.at(dir);
    let mut paths: Vec<String> = walkdir::WalkDir::new(&base)
        .into_iter()
        .map(|entry| entry.unwrap())
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| {
            entry
                .path()
                .strip_prefix(&base)
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    paths.sort();
    paths
}

#[test]
fn rsync_and_tar_take_the_lists() {
    let study = study();
    study.write("bids/sub-01/ses-01/ odd \n*name", "x");
    let expected = [
        "sub-01/ses-01/ odd \n*name",
        "sub-01/ses-01/a.json",
        "sub-01/ses-01/anat/x_T1w.nii.gz",
        "sub-01/ses-01/post/done",
        "sub-01/ses-02/a.json",
    ];
    for dir in ["by-rsync", "by-rsync-files", "by-tar"] {
        fs::create_dir(study.at(dir)).unwrap();
    }
    let list = "\"$SNBB\" outputs --root bids --null";
    let rsync = |rest: &str, to: &str| {
        shell(
            &study,
            "rsync",
            &format!("{list} {rest} | rsync -a -r --from0 --files-from=- bids/ {to}/"),
        )
    };
    if rsync("", "by-rsync") {
        assert_eq!(below(&study, "by-rsync"), expected);
    }
    if rsync("--files", "by-rsync-files") {
        assert_eq!(below(&study, "by-rsync-files"), expected);
    }
    let line = format!("{list} | tar -C bids --null -T - -cf - | tar -C by-tar -xf -");
    if shell(&study, "tar", &line) {
        assert_eq!(below(&study, "by-tar"), expected);
    }
}

/// FreeSurfer's results of all sessions lie beside each other; a task's own directory is a link to one.
#[test]
fn d2_what_links_lead_to_and_reports_beside_the_directory_are_listed() {
    let study = Study::new();
    study.configure(
        "procedures:\n  - {name: fs, output_dir: fs/by-session, script: job.sh, completion_marker: scripts/done}\n  \
         - {name: prep, output_dir: prep, script: job.sh, completion_marker: done}\n  \
         - {name: group, output_dir: group, script: job.sh, scope: subject, completion_marker: done}\n",
    );
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-011/ses-01"]);
    for path in [
        "derivatives/fs/sub-01_ses-01/scripts/done",
        "derivatives/fs/sub-01_ses-01/mri/x.mgz",
        "derivatives/prep/sub-01/ses-01/done",
        "derivatives/prep/sub-01.html",
        "derivatives/prep/sub-01_ses-01_T1w.html",
        "derivatives/prep/sub-01_ses-02_T1w.html",
        "derivatives/prep/sub-011.html",
        "derivatives/prep/sub-01/ses-02/x",
        "derivatives/group/sub-01/done",
        "derivatives/group/sub-01/up/x",
        "derivatives/group/sub-01_report.html",
        "derivatives/group/shared/atlas",
    ] {
        study.write(path, "x");
    }
    fs::create_dir_all(study.at("derivatives/fs/by-session/sub-01")).unwrap();
    symlink(
        "../../sub-01_ses-01",
        study.at("derivatives/fs/by-session/sub-01/ses-01"),
    )
    .unwrap();
    symlink(
        "../../shared/atlas",
        study.at("derivatives/group/sub-01/up/atlas"),
    )
    .unwrap();
    symlink("../../..", study.at("derivatives/group/sub-01/up/above")).unwrap();
    let listed = |rest: &[&str]| {
        let list = list(&study, &[&["--root", "derivatives"], rest].concat());
        list.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        listed(&[]),
        [
            "fs/by-session/sub-01/ses-01",
            "fs/sub-01_ses-01",
            "prep/sub-01/ses-01",
            "prep/sub-01.html",
            "prep/sub-01_ses-01_T1w.html",
            "group/sub-01",
            "group/sub-01_report.html",
        ]
    );
    assert_eq!(
        listed(&["--files", "--procedure", "fs", "--procedure", "group"]),
        [
            "fs/by-session/sub-01/ses-01",
            "fs/sub-01_ses-01/mri/x.mgz",
            "fs/sub-01_ses-01/scripts/done",
            "group/shared/atlas",
            "group/sub-01/done",
            "group/sub-01/up/above",
            "group/sub-01/up/atlas",
            "group/sub-01/up/x",
            "group/sub-01_report.html",
        ]
    );
    let into = study.at("backup");
    fs::create_dir(&into).unwrap();
    let line = "\"$SNBB\" outputs --root derivatives --procedure fs --null | \
                rsync -a -r --from0 --files-from=- derivatives/ backup/";
    if shell(&study, "rsync", line) {
        assert!(into.join("fs/by-session/sub-01/ses-01/mri/x.mgz").exists());
    }
}

#[test]
fn attack_relative_to_may_lead_up() {
    let study = study();
    let direct = study.at("bids").display().to_string();
    let detour = study
        .at("derivatives/../bids/./sub-01/..")
        .display()
        .to_string();
    let relative = |base: &str| list(&study, &["--procedure", "bids", "--relative-to", base]);
    assert_eq!(relative(&detour), relative(&direct));
}
