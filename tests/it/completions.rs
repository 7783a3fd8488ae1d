//! Completion in real shells: what the Tab key finds in a study.
#![expect(clippy::disallowed_methods, reason = "starts shells as a person does")]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::harness::Study;

const STEPS: &str = "\
executor: local
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: done}
  - {name: qsiprep, output_dir: q, script: job.sh, depends_on: [bids]}
";

fn study() -> Study {
    let study = Study::new();
    study.configure(STEPS);
    study.scan(&["sub-0001/ses-01", "sub-0001/ses-02", "sub-0002/ses-03"]);
    study
}

/// Starts a shell with the program on its `PATH`; none, loudly, if there is no such shell.
fn shell(study: &Study, name: &str) -> Option<Command> {
    let path = std::env::split_paths("/usr/bin:/bin").map(|dir| dir.join(name));
    let Some(shell) = path.into_iter().find(|path| path.is_file()) else {
        eprintln!("SKIPPED: {name} is not installed: completion is not tried in it");
        return None;
    };
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let mut command = Command::new(shell);
    command
        .env_clear()
        .env(
            "PATH",
            format!(
                "{}:/usr/bin:/bin:/usr/sbin",
                program.parent().unwrap().display()
            ),
        )
        .env("HOME", study.dir.path())
        .env("TERM", "dumb")
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .current_dir(study.dir.path());
    Some(command)
}

fn said(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.is_empty() && output.status.success(), "{err}");
    String::from_utf8(output.stdout).unwrap()
}

/// What stands before the cursor, and what is offered.
const LINES: [(&str, &str); 21] = [
    ("expl", "explain"),
    ("explain ", "sub-0001 sub-0002"),
    ("explain s", "sub-0001 sub-0002"),
    ("explain 00", "0001 0002"),
    ("explain sub-0001 ", "ses-01 ses-02 bids qsiprep"),
    ("explain 0001 ses-", "ses-01 ses-02"),
    ("explain 0001 ses-0", "ses-01 ses-02"),
    ("logs sub-0001 ses-01 ", "bids qsiprep"),
    ("history sub-0001 bids ", "ses-01 ses-02"),
    ("status --subject ", "sub-0001 sub-0002"),
    ("status --subject sub-0002 --session ", "ses-03"),
    ("cancel --session ", "ses-01 ses-02 ses-03"),
    ("run --procedure q", "qsiprep"),
    ("status --status ", "pending running complete failed"),
    ("retry --reason no", "node_fail no_output"),
    ("session-status --status f", "foreign-job failed few-dicom"),
    ("session-status --sort ", "subject session status"),
    ("retry --status ", "failed pending running all"),
    ("run --ski", "--skip-monitor"),
    ("state ", "verify repair path"),
    ("completions ", "bash zsh fish"),
];

#[test]
fn bash_completes_what_the_study_has() {
    let study = study();
    let Some(mut bash) = shell(&study, "bash") else {
        return;
    };
    let mut script = String::from(
        "source <(snbb-scheduler completions bash)\n\
         complete -p snbb-scheduler >/dev/null\n\
         try() {\n\
         COMP_WORDS=(snbb-scheduler \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; COMPREPLY=()\n\
         _clap_complete_snbb_scheduler snbb-scheduler \"${!#}\" \"${COMP_WORDS[$#-1]}\"\n\
         echo \"${COMPREPLY[*]}\"\n}\n",
    );
    for (line, _) in LINES {
        let (words, current) = line.rsplit_once(' ').unwrap_or(("", line));
        script.push_str(&format!("try {words} '{current}'\n"));
    }
    let out = said(bash.args(["--norc", "--noprofile", "-s"]), &script);
    let told: Vec<&str> = out.lines().collect();
    for ((line, expected), told) in LINES.iter().zip(&told) {
        assert_eq!(told, expected, "{line}");
    }
    assert_eq!(told.len(), LINES.len(), "{out}");
}

/// The key itself, on a terminal.
#[test]
fn the_tab_key_writes_the_rest_of_the_word() {
    let study = study();
    study.script("job.sh", "true");
    let Some(mut script) = shell(&study, "script") else {
        return;
    };
    fs::write(
        study.at(".inputrc"),
        "set bell-style none\nset enable-bracketed-paste off\n",
    )
    .unwrap();
    let keys = "source <(snbb-scheduler completions bash)\n\
                snbb-scheduler mani\t--procedure bi\t --session 0\t3 --format csv\n\
                exit\n";
    let out = said(
        script.args(["-qec", "bash --norc --noprofile -i", "/dev/null"]),
        keys,
    );
    assert!(out.contains("subject,session,procedure,priority"), "{out}");
    assert!(out.contains("sub-0002,ses-03,bids,0"), "{out}");
}

#[test]
fn fish_completes_what_the_study_has() {
    let study = study();
    let Some(mut fish) = shell(&study, "fish") else {
        return;
    };
    let mut script = String::from("snbb-scheduler completions fish | source\n");
    for (line, _) in LINES {
        script.push_str(&format!("complete -C 'snbb-scheduler {line}'\necho .\n"));
    }
    let out = said(fish.arg("--no-config"), &script);
    let answers: Vec<String> = out
        .split(".\n")
        .map(|answer| {
            let words = answer
                .lines()
                .map(|line| line.split('\t').next().unwrap_or_default());
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    for ((line, expected), told) in LINES.iter().zip(&answers) {
        assert_eq!(told, expected, "{line}");
    }
}

#[test]
fn zsh_completes_what_the_study_has() {
    let study = study();
    let Some(mut zsh) = shell(&study, "zsh") else {
        return;
    };
    // The system of zsh needs a terminal; what it is told is looked at in its place.
    let mut script = String::from(
        "autoload -Uz compinit && compinit -u -D\n\
         source <(snbb-scheduler completions zsh)\n\
         (( ${+_comps[snbb-scheduler]} )) || echo unregistered\n\
         _describe() { local name=${@[-1]}; [[ $name == -* || $name == / ]] && name=$4; print -r -- ${(P)name%%:*} }\n",
    );
    for (line, _) in LINES {
        let (words, current) = line.rsplit_once(' ').unwrap_or(("", line));
        script.push_str(&format!(
            "words=(snbb-scheduler {words} '{current}'); CURRENT=$#words; _clap_dynamic_completer_snbb_scheduler\n"
        ));
    }
    let out = said(zsh.args(["-f", "-s"]), &script);
    let told: Vec<&str> = out.lines().collect();
    for ((line, expected), told) in LINES.iter().zip(&told) {
        assert_eq!(told, expected, "{line}");
    }
    assert_eq!(told.len(), LINES.len(), "{out}");
}

/// A study that is broken, slow or not there has nothing to offer, and says nothing.
#[test]
fn a_broken_study_offers_nothing_and_says_nothing() {
    let study = study();
    let ask = |study: &Study, words: &[&str]| {
        let at = words.len().to_string();
        let output = study
            .program()
            .env("_SNBB_SCHEDULER_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", at)
            .env("_CLAP_IFS", "\n")
            .args(["--", "snbb-scheduler"])
            .args(words)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&study, &["explain", ""]), "sub-0001\nsub-0002");
    let before = study.snapshot();
    for (config, expected) in [
        ("procedures: [", ""),
        ("unknown: 1", ""),
        (STEPS, "sub-0001\nsub-0002"),
    ] {
        study.configure(config);
        let offered = ask(&study, &["explain", ""]);
        assert!(!offered.contains("lock-always"), "{offered}");
        // Without a word to offer, options are.
        let words: Vec<&str> = offered
            .lines()
            .filter(|word| !word.starts_with('-'))
            .collect();
        assert_eq!(words.join("\n"), expected, "{config}");
    }
    // The configuration of the line counts, not that of the environment.
    assert!(!ask(&study, &["--config", "none.yaml", "explain", ""]).contains("sub-"));
    assert_eq!(
        ask(&study, &["--config", "~/config.yaml", "explain", ""]),
        "sub-0001\nsub-0002"
    );
    assert_eq!(
        ask(&study, &["--config", "=", "'~/config.yaml'", "explain", ""]),
        "sub-0001\nsub-0002"
    );
    // Nothing was written, no lock taken.
    assert_eq!(study.snapshot(), before);
    fs::remove_dir_all(study.at("dicom")).unwrap();
    assert!(!ask(&study, &["explain", ""]).contains("sub-"));
    // A directory that never answers.
    let fifo = study.at("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    assert!(!ask(&study, &["--config", fifo.to_str().unwrap(), "explain", ""]).contains("sub-"));
    // An unknown shell, and words that are none of ours.
    let output = study
        .program()
        .env("_SNBB_SCHEDULER_COMPLETE", "tcsh")
        .args(["--", "x"])
        .output()
        .unwrap();
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

/// A variable of the usual name is not ours: `run` from cron must not become a completion.
#[test]
fn a_variable_of_the_usual_name_changes_nothing() {
    let mut study = study();
    study.env.push(("COMPLETE".to_owned(), "bash".to_owned()));
    assert!(
        study
            .ok(&["manifest", "--format", "csv"])
            .out
            .starts_with("subject,session")
    );
}

/// Subjects whose DICOM files are gone are still known by their rows; those of a CSV file by its lines.
#[test]
fn rows_and_csv_files_are_sources_too() {
    let study = study();
    study.script(
        "job.sh",
        "mkdir -p \"$SNBB_OUTPUT_DIR\"; touch \"$SNBB_OUTPUT_DIR/done\"",
    );
    study.ok(&["run"]);
    study.ok(&["wait", "--interval", "1s"]);
    fs::remove_dir_all(study.at("dicom/sub-0002")).unwrap();
    let ask = |words: &str| {
        let Some(mut bash) = shell(&study, "bash") else {
            return String::new();
        };
        let script = format!(
            "_SNBB_SCHEDULER_COMPLETE=bash _CLAP_IFS=' ' _CLAP_COMPLETE_INDEX={} snbb-scheduler -- snbb-scheduler {words} ''",
            words.split(' ').count() + 1
        );
        said(bash.args(["--norc", "-s"]), &script)
    };
    assert_eq!(ask("explain"), "sub-0001 sub-0002");
    assert_eq!(ask("explain sub-0002"), "ses-03 bids qsiprep");
    study.write("s.csv", "UID,ScanID,dicom_path\n7,8,/x\n");
    study.configure(&format!(
        "sessions_file: s.csv\nstate_file: other.parquet\n{STEPS}"
    ));
    assert_eq!(ask("explain"), "sub-0007");
    assert_eq!(ask("explain sub-0007"), "ses-000000000008 bids qsiprep");
}
