//! A person at a terminal, and what a real Slurm offers for choice.

use std::process::Command;

use serde_json::json;

use super::{arguments, init, roots, study};
use crate::harness::{Study, search_path};
use crate::harness_slurm::cluster;

/// Plays a person at a terminal: waits for each text and types the answer. Returns the exit code and the transcript.
fn dialogue(study: &Study, arguments: &[&str], steps: &[(&str, &str)]) -> (i32, String) {
    const DRIVER: &str = r#"
import json, os, pty, select, signal, sys, time
steps = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen, at, end = b"", 0, time.time() + 60
while time.time() < end:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        seen += got
    if steps and steps[0][0].encode() in seen[at:]:
        wanted, answer = steps.pop(0)
        at = seen.index(wanted.encode(), at) + len(wanted.encode())
        os.write(fd, answer.encode())
else:
    os.kill(pid, signal.SIGKILL)
    seen += b"\n(no end; not seen: %r)" % (steps[:1],)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.stdout.buffer.write(seen)
sys.exit(status if 0 <= status < 100 else 99)
"#;
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let steps: Vec<_> = steps
        .iter()
        .map(|(seen, typed)| json!([seen, typed]))
        .collect();
    let output = Command::new("python3")
        .env("PATH", search_path())
        .args(["-c", DRIVER, &json!(steps).to_string()])
        .arg(program)
        .args(arguments)
        .current_dir(study.dir.path())
        .env_remove("SNBB_CONFIG")
        .envs(study.env.iter().cloned())
        .output()
        .unwrap();
    let transcript = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), transcript)
}

#[test]
fn d26_a_person_at_a_terminal_is_asked_and_may_err() {
    let study = study();
    let typo = format!("{}\r", study.at("dicm").display());
    let dicom = format!("{}\r", study.at("dicom").display());
    let derivatives = format!("{}\r", study.at("my outputs").display());
    let steps = [
        ("Sessions", "dcm\r"),
        ("choose one of dicom, bids, list", "\r"),
        ("Directory of the DICOM files", &typo),
        ("did you mean", &dicom),
        ("to create from them", "\r"),
        ("Directory for outputs", &derivatives),
        ("empty for a small example", "fmripep\r"),
        ("did you mean fmriprep", "mriqc, heudiconv\r"),
        ("Executor", "\r"),
        ("Write them?", "y\r"),
    ];
    let mut known: Vec<(&str, &str)> = steps.to_vec();
    let (code, told) = dialogue(&study, &["init", "site"], &known);
    assert_eq!(code, 0, "{told}");
    let config = study.read("site/config.yaml");
    for line in [
        format!("dicom_root: {}", study.at("dicom").display()),
        format!("bids_root: {}", study.at("bids").display()),
        format!("derivatives_root: {}", study.at("my outputs").display()),
    ] {
        assert!(config.contains(&line), "{line}\n{config}");
    }
    assert!(study.at("my outputs").is_dir());
    // Changed their mind.
    let before = study.snapshot();
    known.pop();
    known.push(("Write them?", "n\r"));
    let (code, told) = dialogue(&study, &["init", "other"], &known);
    assert_eq!(code, 0, "{told}");
    assert!(study.snapshot() == before);
    // Ctrl-C, and an answer on the way that was in vain.
    let (code, _) = dialogue(&study, &["init", "other"], &[("Sessions", "\x03")]);
    assert!(code != 0 && study.snapshot() == before);
    // Lists are chosen from by number. No option is named that nobody typed.
    let steps = [
        ("Sessions", "1\r"),
        ("Directory of the DICOM files", &typo),
        ("did you mean", &dicom),
        ("to create from them", "\r"),
        ("Directory for outputs", "\r"),
        ("empty for a small example", "fmripep, mriqc, 3\r"),
        ("did you mean fmriprep", "fmriprep, mriqc, 3\r"),
        ("Executor", "2\r"),
        ("Write them?", "y\r"),
    ];
    let (code, told) = dialogue(&study, &["init", "d26"], &steps);
    assert_eq!(code, 0, "{told}");
    assert!(
        !told.contains("--dicom-root") && !told.contains("--procedures"),
        "{told}"
    );
    let config = study.read("d26/config.yaml");
    for name in ["heudiconv", "fmriprep", "mriqc"] {
        assert!(config.contains(&format!("- name: {name}\n")), "{config}");
    }
    // Not asked, although there is a terminal.
    let (code, told) = dialogue(&study, &["init", "other", "--yes"], &[]);
    assert!(code == 2 && told.contains("missing --"), "{told}");
    // Told before anything is asked.
    let (code, told) = dialogue(&study, &["init", "site"], &[]);
    assert_eq!(code, 1, "{told}");
}

#[test]
fn partitions_and_accounts_are_those_that_slurm_knows() {
    let Some(cluster) = cluster() else { return };
    let mut study = study();
    let conf = cluster.conf().to_string_lossy().into_owned();
    study.env.push(("SLURM_CONF".into(), conf));
    // Would hide partitions.
    study.env.push(("SINFO_PARTITION".into(), "nosuch".into()));
    let partition = cluster.run("sinfo", &["--noheader", "--format=%R"]);
    let partition = partition.lines().next().unwrap().trim();
    let said = init(&study, &arguments(&roots(&study)));
    assert_eq!(said.code, 0, "{}", said.err);
    let config = study.read("site/config.yaml");
    assert!(config.contains("\nexecutor: slurm\n"), "{config}");
    assert!(
        config.contains(&format!("\nslurm_partition: {partition}\n")),
        "{config}"
    );
    assert!(!said.err.contains("warning"), "{}", said.err);
    let file = study.at("site/config.yaml").display().to_string();
    let dry = study.ok(&["--config", &file, "run", "--dry-run", "-v"]);
    assert!(
        dry.out.contains(&format!("--partition={partition}")),
        "{}",
        dry.out
    );

    let typo = format!("{partition}x");
    let site = study.at("second").display().to_string();
    let pairs = roots(&study);
    let mut words = vec!["init", &site, "--partition", &typo, "--account", "nosuch"];
    words.extend(arguments(&pairs));
    let said = study.call(&words);
    let told = format!("Slurm has no partition '{typo}' (did you mean '{partition}'?)");
    assert!(said.code == 0 && said.err.contains(&told), "{}", said.err);

    // At a terminal they are choices, and a typo is asked again.
    let dicom = format!("{}\r", study.at("dicom").display());
    let typo = format!("{typo}\r");
    let steps = [
        ("Sessions", "\r"),
        ("Directory of the DICOM files", dicom.as_str()),
        ("to create from them", "\r"),
        ("Directory for outputs", "\r"),
        ("empty for a small example", "\r"),
        ("Executor", "\r"),
        ("Partition [", typo.as_str()),
        ("did you mean", "\r"),
        ("Account", "\r"),
        ("Write them?", "\r"),
    ];
    let (code, told) = dialogue(&study, &["init", "third"], &steps);
    assert_eq!(code, 0, "{told}");
    assert_eq!(
        study.read("third/config.yaml"),
        config.replace("/second/", "/third/")
    );
}
