//! What is wrong with the configuration, the scripts and the data.

use super::*;
use crate::pretty::pretty;

#[test]
fn a_configuration_with_problems_is_exit_code_2_with_every_line() {
    let (study, _slurm) = site();
    study.configure("bids_rot: x\nscan_threads: 0\n");
    let (code, found) = check(&study, &[]);
    assert_eq!(code, 2);
    let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.starts_with("line 6: ")),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.starts_with("line 7: scan_threads")),
        "{texts:?}"
    );
    assert!(found.iter().all(|finding| finding.topic == "config"));
    let said = study.call(&["--config", "/nowhere.yaml", "check"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("check_no_configuration", said.out);
    // Shared outputs are a warning of the configuration.
    study.configure("procedures:\n  - {name: a, output_dir: a, script: job.sh, completion_marker: x}\n  - {name: b, output_dir: a, script: job.sh, completion_marker: x}\n");
    only(
        &study,
        "warning",
        "config",
        "when one is complete, both are",
    );
}

#[test]
fn scripts_that_slurm_would_not_take_or_not_as_they_say() {
    let (study, _slurm) = site();
    study.configure("slurm_mem: 8G\nprocedures:\n  - {name: bids, output_dir: '', script: job.sh, completion_marker: x}\n");
    assert_eq!(trouble(&study, &[]).len(), 0);
    for (text, level, part) in [
        ("echo\n", "error", "does not begin with '#!'"),
        ("\u{feff}#!/bin/sh\n", "error", "does not begin with '#!'"),
        ("#!/bin/bash\r\ntrue\r\n", "error", "DOS line breaks"),
        (
            "#!/bin/bash\n#SBATCH --wait\n",
            "error",
            "'#SBATCH --wait' in line 2",
        ),
        (
            "#!/bin/bash\n#SBATCH --array=1-5\n",
            "error",
            "'#SBATCH --array=1-5' in line 2",
        ),
        (
            "#!/bin/bash\nmodule load x\n#SBATCH --time=5\n",
            "warning",
            "line 3: #SBATCH --time=5",
        ),
        (
            "#!/bin/bash\n#SBATCH --output=x.log\n",
            "warning",
            "which slurm_log_dir overrides",
        ),
        (
            "#!/bin/bash\n#SBATCH --mem=64G\n",
            "warning",
            "--mem=64G in line 2, 8G in the configuration",
        ),
        (
            "#!/opt/no/such/python3\n",
            "warning",
            "interpreter /opt/no/such/python3",
        ),
        (
            "#!/usr/bin/env no-such-python\n",
            "warning",
            "interpreter env no-such-python",
        ),
    ] {
        study.write("job.sh", text);
        only(&study, level, "script", part);
    }
    let mut large = b"#!/bin/bash\n".to_vec();
    large.resize((4 << 20) + 1, b'#');
    fs::write(study.at("job.sh"), large).unwrap();
    only(&study, "error", "script", "larger than 4 MiB");
    fs::remove_file(study.at("job.sh")).unwrap();
    only(&study, "error", "script", "was not found");
    study.write("job.sh", "#!/bin/bash\n");
    // Executable or not does not matter to Slurm; open to all does.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(study.at("job.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(trouble(&study, &[]).len(), 0);
    fs::set_permissions(study.at("job.sh"), fs::Permissions::from_mode(0o666)).unwrap();
    only(&study, "warning", "script", "every user");
}

#[test]
fn settings_that_are_dear_and_messengers_that_cannot_run() {
    let (study, _slurm) = site();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mail = format!(
        "notify: {{email: yes}}\naudit: {{email_recipients: [a@example.org], smtp_host: 127.0.0.1, smtp_port: {port}}}\n"
    );
    study.script("messenger", "cat > /dev/null");
    study.write("plain", "x");
    let configured = |rest: &str| study.configure(&format!("{rest}{STEPS}"));
    for text in [
        &mail,
        "notify: {command: messenger}\n",
        "heartbeat_file: news/h.json\n",
    ] {
        configured(text);
        let found = trouble(&study, &[]);
        assert_eq!(found.len(), 0, "{text} {found:#?}");
    }
    drop(listener);
    configured(&mail);
    only(&study, "warning", "notify", "cannot be reached");
    for (text, level, topic, part) in [
        (
            "safety: {min_free: 0}\n",
            "warning",
            "safety",
            "disk of the state",
        ),
        (
            "resubmit_failed: yes\n",
            "warning",
            "safety",
            "without limit",
        ),
        (
            "notify: {command: plain}\n",
            "error",
            "notify",
            "not an executable file",
        ),
        (
            "notify: {command: none}\n",
            "error",
            "notify",
            "cannot be used",
        ),
        (
            "metrics_file: none/x.prom\n",
            "warning",
            "notify",
            "does not exist",
        ),
        (
            "heartbeat_file: plain/x.json\n",
            "warning",
            "notify",
            "is not a directory",
        ),
    ] {
        configured(text);
        only(&study, level, topic, part);
    }
    configured("audit: {smtp_password: secret}\n");
    let found = trouble(&study, &[]);
    assert!(
        found
            .iter()
            .any(|f| f.topic == "config" && f.text.contains("smtp_password")),
        "{found:#?}"
    );
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn sessions_and_names_that_were_meant_to_be_some() {
    let (study, _slurm) = site();
    for name in ["dicom/Sub-03", "dicom/sub-01/ses_02", "dicom/sublist"] {
        fs::create_dir_all(study.at(name)).unwrap();
    }
    let found = only(&study, "warning", "sessions", "not valid BIDS");
    insta::assert_snapshot!("check_odd_names", pretty(&study, &found.text));
    study.configure(&format!("exclude: [sub-77]\n{STEPS}"));
    fs::remove_dir(study.at("dicom/Sub-03")).unwrap();
    fs::remove_dir(study.at("dicom/sub-01/ses_02")).unwrap();
    only(
        &study,
        "warning",
        "sessions",
        "matches no session: exclude: sub-77 (line 6",
    );

    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,2,/nowhere\n");
    study.configure(&format!("sessions_file: sessions.csv\n{STEPS}"));
    only(
        &study,
        "warning",
        "sessions",
        "1 of 1 checked sessions: /nowhere",
    );
    study.write("sessions.csv", "UID,dicom_path\n1,/nowhere\n");
    only(&study, "error", "sessions", "has no column 'ScanID'");
}

#[test]
fn a_specification_of_qsirecon_that_cannot_be_read_is_told() {
    let (study, _slurm) = site();
    study.configure(
        "qsirecon_spec: spec.yaml\nprocedures:\n  - {name: qsirecon, output_dir: qsirecon, script: job.sh}\n",
    );
    only(&study, "error", "markers", "spec.yaml");
}
