//! What a site of the Python program relies on and finds again.
#![expect(
    clippy::disallowed_methods,
    reason = "starts Python, as job scripts do"
)]

use std::fs;
use std::process::Command;

use super::differences::{STEPS, study};

const ONE: &[&str] = &["sub-01/ses-01"];

/// The audit log's lines about one kind of event, found as sites find them.
fn lines(study: &crate::harness::Study, event: &str) -> Vec<String> {
    let log = study.read("scheduler_audit.jsonl");
    let found = log
        .lines()
        .filter(|line| line.contains(&format!("\"event\": \"{event}\"")));
    found.map(str::to_owned).collect()
}

#[test]
fn c6_grep_finds_events_as_before() {
    let (study, slurm) = study(STEPS, ONE);
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["retry"]);
    for (event, parts) in [
        ("submitted", r#""procedure": "bids", "job_id": "1001""#),
        (
            "status_change",
            r#""old_status": "pending", "new_status": "failed""#,
        ),
        (
            "retry_cleared",
            r#""subject": "sub-01", "session": "ses-01""#,
        ),
    ] {
        let lines = lines(&study, event);
        assert_eq!(lines.len(), 1, "{event}");
        assert!(lines[0].contains(parts), "{}", lines[0]);
        serde_json::from_str::<serde_json::Value>(&lines[0]).unwrap();
    }
}

#[test]
fn c16_a_new_reason_is_no_change_of_status() {
    let (study, slurm) = study(STEPS, ONE);
    study.ok(&["run"]);
    slurm.set_all("GONE");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        ["bids sub-01 ses-01: pending unaccounted"]
    );
    assert_eq!(lines(&study, "status_change"), [""; 0]);
    let changes = lines(&study, "reason_change");
    assert_eq!(changes.len(), 1);
    assert!(changes[0].contains(r#""reason": "unaccounted""#));
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    assert_eq!(lines(&study, "status_change").len(), 1);
    assert_eq!(lines(&study, "reason_change").len(), 1);
    let history = study.ok(&["history", "01", "--format", "json"]).out;
    assert!(history.contains("\"reason_change\""), "{history}");
}

#[test]
fn c13_harmless_values_of_the_python_program_are_taken() {
    for (more, steps) in [
        ("", "{name: a, output_dir: a, script: job.sh, scope: }"),
        ("", "{name: a, output_dir: a, script: job.sh, scope: ''}"),
        (
            "",
            "{name: z, output_dir: z, script: job.sh}, {name: a, output_dir: a, script: job.sh, depends_on: [z, z]}",
        ),
        (
            "audit: {stale_job_threshold_hours: 0.5, dicom_min_files: , smtp_port: }\n",
            "{name: a, output_dir: a, script: job.sh}",
        ),
    ] {
        let (study, _) = study(&format!("{more}procedures: [{steps}]\n"), ONE);
        study.write("derivatives/z/sub-01/ses-01/x", "x");
        let said = study.ok(&["manifest", "--format", "csv"]);
        assert!(
            said.out.contains("sub-01,ses-01,a,"),
            "{steps}: {}",
            said.out
        );
    }
    // Without a value, outputs are in bids_root.
    let (study, _) = study(
        "procedures: [{name: a, output_dir: , script: job.sh, completion_marker: x}]\n",
        ONE,
    );
    study.write("bids/sub-01/ses-01/x", "x");
    let said = study.ok(&["manifest", "--format", "csv"]);
    assert!(!said.out.contains("sub-01"), "{}", said.out);
}

#[test]
fn c13_values_that_do_harm_are_refused() {
    for (text, words) in [
        ("", "the configuration is empty"),
        ("dicom_root:\n", "dicom_root"),
        (
            "procedures: [{name: my step, output_dir: a, script: job.sh}]\n",
            "'my step' is not a valid name",
        ),
        (
            "procedures: [{name: z, output_dir: z, script: job.sh}, {name: a, output_dir: a, script: job.sh, \
             scope: subject, depends_on: [z, {name: z, sessions: any}]}]\n",
            "'z' appears twice",
        ),
    ] {
        let (study, _) = study("", ONE);
        study.write("config.yaml", text);
        let said = study.call(&["manifest"]);
        assert_eq!(said.code, 2, "{text}");
        assert!(said.err.contains(words), "{text}: {}", said.err);
    }
}

#[test]
fn c10_mail_settings_never_stop_a_run() {
    for mail in [
        "audit: {email_recipients: [root]}",
        "audit: {email_recipients: ['PI <a@b.org>'], email_from: 'x'}",
        "audit: {email_recipients: [a b c, [x]], email_from: [], smtp_port: no, smtp_tls: maybe, smtp_host: a b, smtp_username: {a: b}}",
        "audit: {smtp_password: [x], smtp_password_env: A-B}",
        "notify: {email: yes}",
    ] {
        let (study, slurm) = study(&format!("{mail}\n{STEPS}"), ONE);
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), 1, "{mail}");
    }
}

#[test]
fn c9_a_dry_run_shows_its_preview_whatever_is_missing() {
    let (study, slurm) = study(STEPS, ONE);
    fs::remove_file(study.at("job.sh")).unwrap();
    let said = study.call(&["run", "--dry-run", "-v"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.out.contains("job.sh sub-01 ses-01"), "{}", said.out);
    assert!(said.err.contains("job.sh"), "{}", said.err);
    study.script("job.sh", "true");
    // Without Slurm.
    study.configure(&format!("slurm_bin_dir: nowhere\n{STEPS}"));
    let said = study.call(&["run", "--dry-run", "-v"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.out.contains("job.sh sub-01 ses-01"), "{}", said.out);
    assert!(said.err.contains("sbatch"), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 0);
}

#[test]
fn c8_history_without_reports_is_a_report_without_trend() {
    let (study, _) = study(STEPS, ONE);
    let said = study.ok(&["audit", "--history", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert!(report["trend"].is_null());
    assert_eq!(
        said.err.matches("audit.report_dir").count(),
        1,
        "{}",
        said.err
    );
}

#[test]
fn c14_session_status_has_the_columns_of_the_selected_procedures_only() {
    let (study, _) = study(STEPS, ONE);
    let words = ["session-status", "--procedure", "prep", "--format"];
    let show = |more: &[&str]| study.ok(&[&words, more].concat()).out;
    assert_eq!(
        show(&["csv"]),
        "subject,session,prep\nsub-01,ses-01,waiting\n"
    );
    let json: serde_json::Value = serde_json::from_str(&show(&["json"])).unwrap();
    let procedures = json[0]["procedures"].as_object().unwrap();
    assert_eq!(procedures.keys().collect::<Vec<_>>(), ["prep"]);
    // Also where no session is left: the header stays.
    assert_eq!(
        show(&["csv", "--status", "failed"]),
        "subject,session,prep\n"
    );
}

/// A script of that program that runs FreeSurfer: its helper imports `main` and nothing else.
#[test]
fn c3_job_scripts_find_the_module_that_they_import() {
    let (study, _) = study(STEPS, ONE);
    let recon_all = "#!/bin/bash\necho \"$*\" >> \"$SEEN\"\nwhile [ $# -gt 0 ]; do case $1 in -sd) sd=$2;; -s|-base) name=$2;; \
                     -long) name=$2.long.$3;; esac; shift; done\nmkdir -p \"$sd/$name/scripts\"\necho \"SUBJECT $name\" > \"$sd/$name/scripts/recon-all.done\"\n";
    study.write("bin/recon-all", recon_all);
    crate::harness::executable(&study.at("bin/recon-all"));
    study.write(
        "helper.py",
        "import sys\nfrom snbb_scheduler.freesurfer import main\nsys.exit(main())\n",
    );
    for name in [
        "ses-1/anat/a_T1w.nii.gz",
        "ses-1/anat/b_rec-norm_T1w.nii.gz",
        "ses-2/anat/x_T1w.nii.gz",
        "ses-2/anat/x_T2w.nii.gz",
        "ses-3/anat/a_acq-defaced_T1w.nii.gz",
    ] {
        study.write(&format!("bids/sub-1/{name}"), "x");
    }
    let run = || {
        let path = format!("{}:/usr/bin:/bin", study.at("bin").display());
        Command::new("python3")
            .arg(study.at("helper.py"))
            .args(["--subject", "sub-1", "--threads", "2", "--bids-dir"])
            .arg(study.at("bids"))
            .arg("--output-dir")
            .arg(study.at("fs"))
            .env("PATH", path)
            .env("SEEN", study.at("seen"))
            .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
    };
    let Ok(output) = run() else {
        eprintln!("SKIPPED: no python3");
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = study
        .read("seen")
        .replace(study.dir.path().to_str().unwrap(), "");
    assert_eq!(
        seen,
        "-sd /fs -s sub-1_ses-1 -i /bids/sub-1/ses-1/anat/b_rec-norm_T1w.nii.gz -all -parallel -openmp 2\n\
         -sd /fs -s sub-1_ses-2 -i /bids/sub-1/ses-2/anat/x_T1w.nii.gz -T2 /bids/sub-1/ses-2/anat/x_T2w.nii.gz -T2pial -all -parallel -openmp 2\n\
         -sd /fs -base sub-1 -tp sub-1_ses-1 -tp sub-1_ses-2 -all -parallel -openmp 2\n\
         -sd /fs -long sub-1_ses-1 sub-1 -all -openmp 2\n\
         -sd /fs -long sub-1_ses-2 sub-1 -all -openmp 2\n"
    );
    // What ended well is not done again.
    assert!(run().unwrap().status.success());
    assert_eq!(study.read("seen").lines().count(), 5);
}
