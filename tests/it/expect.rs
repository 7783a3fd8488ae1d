//! Expectations from inputs, through the program: lists of sessions, numbers of sessions, tasks that a
//! session came after.

use snbb_scheduler::base::sys;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{messages, pretty};

const PIPELINE: &str = "slurm_partition: normal
output_grace: 0s
procedures:
  - {name: convert, output_dir: '', script: s.sh, completion_marker: anat/T1w.nii.gz}
  - name: group
    output_dir: group
    script: s.sh
    scope: subject
    depends_on: [convert]
    completion_marker: table.tsv
";

fn study(head: &str, group: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(&format!("{head}{PIPELINE}{group}"));
    study.script("s.sh", "true");
    study.scan(&["sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"]);
    (study, slurm)
}

fn convert(study: &Study, session: &str) {
    study.write(&format!("bids/{session}/anat/T1w.nii.gz"), "x");
}

/// The table of `session-status`, a cell per procedure: `sub-01 ses-1: complete, waiting`.
fn table(study: &Study) -> Vec<String> {
    let said = study.call(&["session-status", "--format", "csv"]);
    assert!(matches!(said.code, 0 | 7), "{}", said.err);
    let lines = said.out.lines().skip(1);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{} {}: {}", cells[0], cells[1], cells[2..].join(", "))
        })
        .collect()
}

fn job_names(slurm: &FakeSlurm) -> Vec<String> {
    slurm.jobs().into_iter().map(|(_, name)| name).collect()
}

#[test]
fn excluded_sessions_are_left_alone_and_shown() {
    let (study, slurm) = study("exclude: excluded.txt\n", "");
    study.write(
        "excluded.txt",
        "# asked to be forgotten\nsub-01/ses-2\n02  # all of it\n",
    );
    study.ok(&["run"]);
    assert_eq!(job_names(&slurm), ["convert_sub-01_ses-1"]);
    assert_eq!(
        table(&study),
        [
            "sub-01 ses-1: pending, waiting",
            "sub-01 ses-2: excluded, waiting",
            "sub-02 ses-1: excluded, excluded",
        ]
    );
    // The subject does not wait for the excluded session; force does not help against the list.
    convert(&study, "sub-01/ses-1");
    slurm.set_all("COMPLETED");
    study.ok(&["run"]);
    study.ok(&["run", "--force", "--subject", "02"]);
    assert_eq!(job_names(&slurm), ["convert_sub-01_ses-1", "group_sub-01"]);
    // Not on the list any more: a session like the others.
    study.write("excluded.txt", "# nobody\n");
    study.ok(&["run"]);
    assert_eq!(
        job_names(&slurm)[2..],
        ["convert_sub-01_ses-2", "convert_sub-02_ses-1"]
    );
    // A job of an excluded session is followed, and its row stays.
    study.write("excluded.txt", "02\n");
    slurm.set_all("COMPLETED");
    convert(&study, "sub-02/ses-1");
    study.call(&["run"]);
    assert_eq!(study.status("convert sub-02 ses-1"), "complete verified");
    assert_eq!(table(&study)[2], "sub-02 ses-1: excluded, excluded");
}

#[test]
fn include_names_all_that_is_worked_on() {
    let (study, slurm) = study("include: [sub-0*/1, 77]\nexclude: sub-02\n", "");
    let said = study.ok(&["run"]);
    assert_eq!(job_names(&slurm), ["convert_sub-01_ses-1"]);
    let told = messages(&study, &said);
    insta::assert_snapshot!(told);
    assert_eq!(messages(&study, &study.ok(&["session-status"])), told);
}

#[test]
fn a_list_that_cannot_be_used_is_an_error_with_its_place() {
    let (study, _slurm) = study("exclude: lists/nothing.txt\n", "");
    for command in [
        &["run"][..],
        &["run", "--dry-run"],
        &["manifest"],
        &["session-status"],
    ] {
        let said = study.call(command);
        assert_eq!(said.code, 2, "{}", said.err);
        insta::assert_snapshot!("no_list", messages(&study, &said));
    }
    // What does not submit goes on.
    study.ok(&["monitor"]);
    study.ok(&["status"]);
    study.write("lists/nothing.txt", "sub-01\n\nsub-0 2\n");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!("a_wrong_list", messages(&study, &said));
    // In the configuration itself all are told at once, with their lines.
    study.configure(&format!(
        "exclude:\n  - sub-01\n  - ses-1\n  - a_b\ninclude: []\n{PIPELINE}"
    ));
    let said = study.call(&["run"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!(
        "wrong_lists_in_the_configuration",
        pretty(&study, &said.err)
    );
}

#[test]
fn a_subject_waits_for_as_many_sessions_as_it_needs() {
    let (study, slurm) = study("", "    min_sessions: 2\n");
    for session in ["sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"] {
        convert(&study, session);
    }
    study.ok(&["run"]);
    assert_eq!(job_names(&slurm), ["group_sub-01"]);
    let waiting = &study.json(&["session-status", "--subject", "02"])[0]["procedures"]["group"];
    assert_eq!(waiting["decision"], "waiting");
    insta::assert_snapshot!(waiting["text"].as_str().unwrap());
}

#[test]
fn rules_about_sessions_are_checked_when_the_configuration_is_read() {
    let (study, _slurm) = study("", "");
    let procedures = |second: &str| {
        study.configure(&format!(
            "procedures:\n  - {{name: a, output_dir: a, script: s.sh}}\n  - {{name: b, output_dir: b, script: s.sh, {second}}}\n"
        ));
        study.call(&["manifest"])
    };
    let wrong = [
        "scope: subject, depends_on: [{name: a, sessions: same}]",
        "min_sessions: 2",
        "scope: subject, min_sessions: 0",
    ];
    let told = wrong.map(|second| {
        let said = procedures(second);
        assert_eq!(said.code, 2, "{second}: {}", said.err);
        messages(&study, &said)
    });
    insta::assert_snapshot!(told.join("\n"));
    for second in ["same", "all", "any"] {
        let said = procedures(&format!("depends_on: [{{name: a, sessions: {second}}}]"));
        assert_eq!(said.code, 0, "{second}: {}", said.err);
        assert!(!said.err.contains("warning: "), "{second}: {}", said.err);
    }
}

#[test]
fn a_session_that_comes_later_makes_a_complete_task_stale() {
    let (study, slurm) = study("", "");
    for session in ["sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"] {
        convert(&study, session);
    }
    study.ok(&["run"]);
    assert_eq!(job_names(&slurm), ["group_sub-01", "group_sub-02"]);
    for subject in ["sub-01", "sub-02"] {
        let table = format!("derivatives/group/{subject}/table.tsv");
        study.write(&table, "x");
        let file = std::fs::File::options().append(true).open(study.at(&table));
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        file.unwrap().set_modified(old).unwrap();
    }
    slurm.set_all("COMPLETED");
    assert_eq!(messages(&study, &study.ok(&["run"])), "");
    study.scan(&["sub-01/ses-3"]);
    assert_eq!(table(&study)[2], "sub-01 ses-3: due, complete");
    convert(&study, "sub-01/ses-3");
    assert_eq!(table(&study)[2], "sub-01 ses-3: complete, complete (stale)");
    let said = study.ok(&["run"]);
    let stale = &study.json(&["session-status", "--session", "3"])[0]["procedures"]["group"];
    assert_eq!(stale["decision"], "complete");
    let text = stale["text"].as_str().unwrap();
    insta::assert_snapshot!(format!("{}{text}", pretty(&study, &said.err)));
    // The site wants it: once, with the outputs that are to be replaced.
    study.configure(&format!("{PIPELINE}    rerun_when_stale: yes\n"));
    study.ok(&["run"]);
    assert_eq!(job_names(&slurm)[2..], ["group_sub-01"]);
    slurm.set_all("COMPLETED");
    study.ok(&["monitor"]);
    let rows = study.statuses();
    assert_eq!(
        rows[0], "group sub-01 : failed no_output",
        "outputs of before prove nothing"
    );
}

#[test]
fn what_a_task_worked_on_outlives_a_rebuilt_state() {
    let (study, slurm) = study("", "    rerun_when_stale: yes\n");
    convert(&study, "sub-02/ses-1");
    study.ok(&["run", "--procedure", "group"]);
    study.write("derivatives/group/sub-02/table.tsv", "x");
    slurm.set_all("COMPLETED");
    study.ok(&["monitor"]);
    std::fs::remove_file(study.at("state.parquet")).unwrap();
    std::fs::remove_file(study.at("state.parquet.bak")).unwrap();
    study.ok(&["state", "repair", "--yes"]);
    study.scan(&["sub-02/ses-9"]);
    convert(&study, "sub-02/ses-9");
    study.ok(&["run", "--procedure", "group"]);
    assert_eq!(job_names(&slurm), ["group_sub-02", "group_sub-02"]);
}

#[test]
fn files_of_git_annex_count_as_the_site_says() {
    let (study, _slurm) = study("", "");
    let key = "SHA256E-s1234--0af3.nii.gz";
    let link = |session: &str, target: &str| {
        let anat = study.at(&format!("bids/{session}/anat"));
        std::fs::create_dir_all(&anat).unwrap();
        std::os::unix::fs::symlink(target, anat.join("T1w.nii.gz")).unwrap();
    };
    link(
        "sub-01/ses-1",
        &format!("../../../.git/annex/objects/Xk/9m/{key}/{key}"),
    );
    link("sub-01/ses-2", "../../../elsewhere/T1w.nii.gz");
    link(
        "sub-02/ses-1",
        "../../../.git/annex/objects/Xk/9m/MD5-s0--x/MD5-s0--x",
    );
    for (head, marker, expected) in [
        (
            "",
            "anat/T1w.nii.gz",
            ["complete", "unreadable", "complete"],
        ),
        ("", "anat/*_T1w.nii.gz", ["due", "due", "due"]),
        ("", "anat/*T1w.nii.gz", ["complete", "unreadable", "due"]),
        (
            "",
            "{glob: anat/T1w.nii.gz, min_size: 1234}",
            ["complete", "unreadable", "due"],
        ),
        (
            "",
            "{glob: anat/T1w.nii.gz, min_size: 1235}",
            ["due", "unreadable", "due"],
        ),
        (
            "",
            "{glob: anat/T1w.nii.gz, contains: x}",
            ["unreadable", "unreadable", "unreadable"],
        ),
        (
            "",
            "{glob: anat/T1w.nii.gz, not_contains: x}",
            ["unreadable", "unreadable", "unreadable"],
        ),
        ("", "", ["complete", "complete", "complete"]),
        (
            "annex: absent\n",
            "anat/T1w.nii.gz",
            ["due", "unreadable", "due"],
        ),
        (
            "annex: present\n",
            "anat/T1w.nii.gz",
            ["complete", "unreadable", "complete"],
        ),
    ] {
        study.configure(&format!(
            "{head}procedures:\n  - {{name: a, output_dir: '', script: s.sh, completion_marker: [{marker}]}}\n"
        ));
        let cells: Vec<String> = table(&study)
            .iter()
            .map(|line| line.split(": ").nth(1).unwrap().to_owned())
            .collect();
        assert_eq!(cells, expected, "{head}{marker}");
    }
}

/// The place of the raw images is not mounted: nothing is taken for absent, and nothing goes on without it.
#[test]
fn b1_images_behind_links_that_lead_nowhere_hold_their_task_and_its_dependents() {
    let (study, slurm) = study("", "");
    study.configure(
        "procedures:\n  - {name: t1, output_dir: t1, script: s.sh, completion_marker: [{glob: brain.nii.gz, when: 'anat/*_T1w.nii.gz'}]}\n  \
         - {name: after, output_dir: after, script: s.sh, depends_on: [t1], completion_marker: done}\n",
    );
    let anat = study.at("bids/sub-01/ses-1/anat");
    std::fs::create_dir_all(&anat).unwrap();
    std::os::unix::fs::symlink(study.at("raw/a.nii.gz"), anat.join("a_T1w.nii.gz")).unwrap();
    let only = ["--subject", "01", "--session", "1"];
    let said = study.call(&[&["run"][..], &only].concat());
    assert_eq!((said.code, slurm.calls("sbatch")), (7, 0), "{}", said.err);
    assert!(said.err.contains("a_T1w.nii.gz"), "{}", said.err);
    study.write("raw/a.nii.gz", "x");
    study.ok(&[&["run"][..], &only].concat());
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn b5_sessions_whose_dicom_path_is_not_there_are_held_as_check_says() {
    let (study, slurm) = study("sessions_file: sessions.csv\n", "");
    let there = study.at("dicom/sub-01/ses-1").display().to_string();
    study.write(
        "sessions.csv",
        &format!("UID,ScanID,dicom_path\n1,1,/nonexistent\n2,1,{there}\n3,1,\n"),
    );
    study.ok(&["run"]);
    let jobs = slurm.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert!(jobs[0].1.starts_with("convert_sub-0002_"), "{jobs:?}");
    let csv = study.ok(&["session-status", "--format", "csv"]).out;
    for session in [
        "sub-0001,ses-000000000001,no-dicom",
        "sub-0003,ses-000000000001,no-dicom",
    ] {
        assert!(csv.contains(session), "{csv}");
    }
    let findings = study.findings(&["check"]);
    assert!(
        findings.contains(&"warning sessions".to_owned()),
        "{findings:?}"
    );
}

/// Sets the time of a file and of its directory, hours from now.
fn touch(study: &Study, path: &str, hours: i64) {
    let path = study.at(path);
    for one in [path.as_path(), path.parent().unwrap()] {
        let time = sys::now() + chrono::TimeDelta::hours(hours);
        let file = std::fs::File::open(one).unwrap();
        file.set_modified(time.into()).unwrap();
    }
}

#[test]
fn files_that_come_after_a_task_ran_make_it_stale() {
    let (study, slurm) = study("", "");
    for session in ["sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"] {
        study.write(&format!("dicom/{session}/series/1.dcm"), "x");
        touch(&study, &format!("dicom/{session}/series/1.dcm"), -2);
    }
    study.ok(&["run"]);
    for session in ["sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"] {
        convert(&study, session);
    }
    slurm.set_all("COMPLETED");
    study.ok(&["run"]);
    for subject in ["sub-01", "sub-02"] {
        study.write(&format!("derivatives/group/{subject}/table.tsv"), "x");
    }
    slurm.set_all("COMPLETED");
    study.ok(&["run"]);
    let line = |which: &str| {
        let lines = table(&study);
        let line = lines.iter().find(|line| line.starts_with(which));
        line.unwrap().clone()
    };
    assert_eq!(line("sub-01 ses-1"), "sub-01 ses-1: complete, complete");
    // A clock that is wrong says nothing.
    study.write("dicom/sub-01/ses-1/series/2.dcm", "x");
    touch(&study, "dicom/sub-01/ses-1/series/2.dcm", 24);
    assert_eq!(line("sub-01 ses-1"), "sub-01 ses-1: complete, complete");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    touch(&study, "dicom/sub-01/ses-1/series/2.dcm", 0);
    assert_eq!(
        line("sub-01 ses-1"),
        "sub-01 ses-1: complete (stale), complete"
    );
    let text = "input files changed after it ran";
    let said = study.call(&["explain", "sub-01", "ses-1", "convert"]);
    assert!(said.out.contains(text), "{}", said.out);
    // A run leaves it, unless the site wants it again: once.
    let before = slurm.calls("sbatch");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), before);
    let wanted = PIPELINE.replace(
        "completion_marker: anat",
        "rerun_when_stale: yes, completion_marker: anat",
    );
    study.configure(&wanted);
    let said = study.ok(&["run", "--dry-run"]);
    assert!(said.out.contains("convert"), "{}", said.out);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), before + 1);
    assert_eq!(job_names(&slurm).last().unwrap(), "convert_sub-01_ses-1");
    convert(&study, "sub-01/ses-1");
    slurm.set_all("COMPLETED");
    study.ok(&["run"]);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), before + 1, "no loop");
}
