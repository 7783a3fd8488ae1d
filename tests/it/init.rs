//! `init`: from options or a dialogue to a study that works at once.
#![expect(clippy::disallowed_methods, reason = "starts shells and a terminal")]

mod dialogue;
mod troubles;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::check::trouble;
use crate::harness::{Said, Study};
use crate::pretty::{pretty, problems};

/// A study with two DICOM sessions and no configuration.
fn study() -> Study {
    let study = Study::new();
    std::fs::remove_file(study.at("config.yaml")).unwrap();
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study
}

/// Calls `init` for the directory `site` of the study, with more arguments.
fn init(study: &Study, more: &[&str]) -> Said {
    let site = study.at("site").display().to_string();
    let mut arguments = vec!["init", &site];
    arguments.extend(more);
    study.call(&arguments)
}

/// The lines of stderr that begin with one of these words: others depend on the machine.
fn beginning(study: &Study, said: &Said, words: &[&str]) -> String {
    let lines = said.err.lines();
    let lines = lines.filter(|line| words.iter().any(|word| line.starts_with(word)));
    pretty(study, &lines.collect::<Vec<_>>().join("\n"))
}

fn arguments<'a>(pairs: &'a [(&'a str, String)]) -> Vec<&'a str> {
    let words = pairs
        .iter()
        .flat_map(|(option, value)| [*option, value.as_str()]);
    words.filter(|word| !word.is_empty()).collect()
}

fn roots(study: &Study) -> Vec<(&'static str, String)> {
    let at = |name: &str| study.at(name).display().to_string();
    vec![("--dicom-root", at("dicom")), ("--bids-root", at("bids"))]
}

/// Runs a line in a shell, as somebody who copies it, with this program first on PATH.
fn shell(study: &Study, line: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    Command::new("bash")
        .args(["-c", line])
        .current_dir("/")
        .env_clear()
        .env("PATH", path)
        .env("HOME", study.dir.path())
        .envs(study.env.iter().cloned())
        .output()
        .unwrap()
}

#[test]
fn a_study_from_options_works_at_once() {
    let mut study = study();
    let said = init(&study, &arguments(&roots(&study)));
    assert_eq!(said.code, 0, "{}", said.err);
    insta::assert_snapshot!(beginning(&study, &said, &["found ", "wrote "]));
    assert!(study.at("site/scripts/example.sh").is_file());
    let config = study.read("site/config.yaml");
    assert!(config.starts_with("# yaml-language-server: $schema=.snbb-schema.json\n"));
    assert!(config.contains("executor: local\n"), "{config}");
    for made in ["site/state", "site/logs", "derivatives"] {
        assert!(study.at(made).is_dir(), "{made}");
    }

    // The three commands, as they are printed.
    let lines = said.out.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 3, "{}", said.out);
    assert!(
        lines[0].ends_with("/site/config.yaml check"),
        "{}",
        lines[0]
    );
    let output = shell(&study, lines[0]);
    let findings = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{findings}");
    let output = shell(&study, lines[1]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && listed.lines().count() == 2,
        "{listed}"
    );
    let cron = lines[2].strip_prefix("*/15 * * * * ").unwrap();
    let output = shell(&study, cron);
    assert!(output.status.success(), "{output:?}");
    study.env.push((
        "SNBB_CONFIG".to_owned(),
        study.at("site/config.yaml").display().to_string(),
    ));
    study.ok(&["wait", "--interval", "1s", "--timeout", "1m"]);
    study.ok(&["run"]);
    study.ok(&["wait", "--interval", "1s", "--timeout", "1m"]);
    assert_eq!(
        study.statuses(),
        [
            "example sub-01 ses-01: complete verified",
            "example sub-02 ses-01: complete verified"
        ]
    );
    let summary = study.read("derivatives/example/sub-01/ses-01/summary.txt");
    assert!(
        summary.starts_with("sub-01 ses-01: 1 files in "),
        "{summary}"
    );
}

/// What the prompt offers, `--yes` takes: here the BIDS dataset beside the DICOM files.
#[test]
fn d9_yes_takes_the_defaults_of_the_prompt() {
    let study = study();
    std::fs::remove_dir_all(study.at("bids")).unwrap();
    let dicom = study.at("dicom").display().to_string();
    let said = init(&study, &["--dicom-root", &dicom, "--yes"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let bids = format!("\nbids_root: {}\n", study.at("bids").display());
    assert!(study.read("site/config.yaml").contains(&bids));
    assert!(study.at("bids").is_dir());
}

/// What `check` finds wrong about a topic.
fn checked(study: &Study, topic: &str) -> Vec<String> {
    let config = study.at("site/config.yaml").display().to_string();
    let found = trouble(study, &["--config", &config]).into_iter();
    let found = found.filter(|it| it.topic == topic);
    found.map(|it| it.text).collect()
}

#[test]
fn d8_check_names_what_the_scripts_need_and_this_machine_has_not() {
    let mut study = study();
    let pairs = roots(&study);
    let mut words = arguments(&pairs);
    words.extend(["--procedures", "heudiconv"]);
    assert_eq!(init(&study, &words).code, 0);
    let found = checked(&study, "script");
    let image = "/opt/containers/heudiconv.sif (SNBB_HEUDICONV_IMAGE)";
    assert!(found.len() == 1 && found[0].contains(image), "{found:?}");
    // The heuristic came with the script.
    assert!(!found[0].contains("SNBB_HEURISTIC"), "{found:?}");
    study.write("own.sif", "");
    let config = study.read("site/config.yaml").replace(
        "    script: heudiconv.sh\n",
        &format!(
            "    script: heudiconv.sh\n    env: {{SNBB_HEUDICONV_IMAGE: '{}'}}\n",
            study.at("own.sif").display()
        ),
    );
    study.write("site/config.yaml", &config);
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bin");
    study.path = vec![stub];
    assert_eq!(checked(&study, "script"), [""; 0]);
}

/// A dataset that arrives converted may lack the file that BIDS apps ask for first.
#[test]
fn d1_a_dataset_without_a_description_gets_one() {
    let study = study();
    study.write("bids/sub-01/anat/sub-01_T1w.nii.gz", "x");
    study.write("bids/sub-01/func/sub-01_task-rest_bold.nii.gz", "x");
    let bids = study.at("bids").display().to_string();
    let words = ["--bids-root", &bids, "--procedures", "fmriprep,freesurfer"];
    let file = "bids/dataset_description.json";
    let warns = |study: &Study| !checked(study, "bids_root").is_empty();
    assert_eq!(init(&study, &words).code, 0);
    let described: serde_json::Value = serde_json::from_str(&study.read(file)).unwrap();
    assert_eq!(described["Name"], "bids");
    assert!(!warns(&study));
    std::fs::remove_file(study.at(file)).unwrap();
    assert!(warns(&study));
    // Nothing is written over, and nothing where no app of the study needs it.
    std::fs::remove_dir_all(study.at("site")).unwrap();
    study.write(file, "{}");
    assert_eq!(init(&study, &words).code, 0);
    assert_eq!(study.read(file), "{}");
    std::fs::remove_dir_all(study.at("site")).unwrap();
    std::fs::remove_file(study.at(file)).unwrap();
    let words = ["--bids-root", &bids, "--procedures", "freesurfer"];
    assert_eq!(init(&study, &words).code, 0);
    assert!(!study.at(file).exists() && !warns(&study));
}

#[test]
fn a_converted_dataset_is_recognised() {
    let study = study();
    for path in ["sub-01/anat/x_T1w.nii.gz", "sub-02/anat/y_T1w.nii.gz"] {
        study.write(&format!("bids/{path}"), "x");
    }
    let said = init(&study, &arguments(&roots(&study)[1..]));
    assert_eq!(said.code, 0, "{}", said.err);
    let config = study.read("site/config.yaml");
    assert!(
        config.contains("\ndiscover: bids\n") && !config.contains("\ndicom_root:"),
        "{config}"
    );
    let file = study.at("site/config.yaml").display().to_string();
    let said = study.ok(&["--config", &file, "manifest", "--format", "csv"]);
    assert_eq!(said.out.lines().count(), 3, "{}", said.out);
}

#[test]
fn subjects_without_sessions_and_lists_of_sessions_are_taken_as_they_are() {
    let study = Study::new();
    study.write("dicom/sub-01/1.dcm", "x");
    let said = init(&study, &arguments(&roots(&study)));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        study
            .read("site/config.yaml")
            .contains("\nsessionless: yes\n"),
        "{}",
        said.err
    );

    let study = Study::new();
    study.write("incoming/P1/1.dcm", "x");
    study.write("list.csv", "who,when,dicom_path\n1,202401011200,/x\n");
    let mut pairs = vec![("--dicom-root", study.at("incoming").display().to_string())];
    pairs.extend(roots(&study).into_iter().skip(1));
    let said = init(&study, &arguments(&pairs));
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("but P1") && said.err.contains("--sessions-file FILE"),
        "{}",
        said.err
    );
    pairs.push((
        "--sessions-file",
        study.at("list.csv").display().to_string(),
    ));
    let said = init(&study, &arguments(&pairs));
    assert!(
        said.code != 0 && said.err.contains("'who', 'when', 'dicom_path'"),
        "{}",
        said.err
    );
    pairs.push(("--subject-col", "who".to_owned()));
    pairs.push(("--session-col", "when".to_owned()));
    let said = init(&study, &arguments(&pairs));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(study.read("site/config.yaml").contains("sessions_file: "));
}

#[test]
fn state_and_logs_lie_in_data_only_on_purpose() {
    let study = study();
    let mut pairs = roots(&study);
    pairs.push((
        "--log-dir",
        study.at("derivatives/logs").display().to_string(),
    ));
    let said = init(&study, &arguments(&pairs));
    assert_eq!(said.code, 0, "{}", said.err);
    insta::assert_snapshot!(problems(&study, &said.err));
}

#[test]
fn commands_to_copy_work_in_a_directory_of_any_name() {
    let study = study();
    for name in [
        "a b", "it's", "${HOME}", "$(x)", "100%", "~", "a;b", "é\"", "-x",
    ] {
        let dir = study.at(name);
        let pairs = roots(&study);
        let mut words = vec!["init", "--yes"];
        words.extend(arguments(&pairs));
        let output = study
            .program()
            .args(&words)
            .arg("--state-file")
            .arg("s/x.parquet")
            .arg("--")
            // A relative name, so that nothing before it keeps it from being expanded.
            .arg(if name == "${HOME}" || name == "~" {
                "."
            } else {
                name
            })
            .current_dir(if name == "${HOME}" || name == "~" {
                std::fs::create_dir(&dir).unwrap();
                dir.clone()
            } else {
                study.dir.path().to_owned()
            })
            .output()
            .unwrap();
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(output.status.success(), "{name}: {err}");
        assert!(dir.join("config.yaml").is_file(), "{name}: {err}");
        let lines = out.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        let output = shell(&study, lines[1]);
        assert!(output.status.success(), "{name}: {lines:?} {output:?}");
        // cron takes the backslash away.
        let cron = lines[2]
            .trim_start_matches("*/15 * * * * ")
            .replace("\\%", "%");
        let output = shell(&study, &cron);
        assert!(output.status.success(), "{name}: {cron} {output:?}");
        assert!(dir.join("cron.log").is_file(), "{name}");
        // The next one is a study of its own.
        std::fs::remove_dir_all(study.at("s")).ok();
    }
}

/// Types the commands of the guide; `/data` is a directory of the test's.
#[test]
fn the_guide_works_as_written() {
    let guide = include_str!("../../docs/getting-started.md");
    let blocks = |language: &'static str| {
        let all = guide.split("```").skip(1).step_by(2);
        all.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
    };
    let study = Study::new();
    let data = study.at("data").display().to_string();
    std::fs::create_dir(&data).unwrap();
    let mut script = "set -e\n".to_owned();
    let typed = blocks("console").flat_map(str::lines);
    for line in typed.filter_map(|line| line.strip_prefix("$ ")) {
        script.push_str(line);
        script.push('\n');
    }
    for line in blocks("cron").flat_map(str::lines) {
        script.push_str(line.strip_prefix("*/15 * * * * ").unwrap());
        script.push('\n');
    }
    let script = script.replace("/data/", &format!("{data}/"));
    let output = shell(&study, &script);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    assert!(
        study
            .at("data/derivatives/example/sub-02/ses-01/summary.txt")
            .is_file(),
        "{out}\n{err}"
    );
}

#[test]
fn an_app_is_added_to_a_configuration_that_keeps_its_lines() {
    let study = study();
    let mine = "# Ours.\ndiscover: bids   # converted\nbids_root: bids\nderivatives_root: derivatives\n\
                state_file: state.parquet\nscript_dir: scripts\n\nprocedures:\n- name: mriqc   # first\n  output_dir: mriqc\n  \
                script: mriqc.sh\n  completion_marker: x\n\n# Who is told.\nnotify: {email: no}\n";
    study.write("config.yaml", mine);
    let before = study.snapshot();
    let said = study.call(&["init", "--add", "fmripep"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("add_misspelt", problems(&study, &said.err));
    assert_eq!(study.call(&["init", "--add", "mriqc"]).code, 2);
    let would = study.ok(&["init", "--add", "fmriprep,xcp_d", "--dry-run"]);
    assert_eq!(study.snapshot(), before);

    study.ok(&["init", "--add", "fmriprep,xcp_d"]);
    let now = study.read("config.yaml");
    assert_eq!(would.out, now);
    let (first, rest) = mine.split_once("\n# Who is told.").unwrap();
    assert!(now.starts_with(first) && now.ends_with(rest), "{now}");
    assert!(now.contains("depends_on: [fmriprep]"), "{now}");
    for script in ["fmriprep.sh", "xcp_d.sh"] {
        assert!(study.at("scripts").join(script).is_file(), "{script}");
    }
    // A link stays a link.
    std::fs::rename(study.at("config.yaml"), study.at("real.yaml")).unwrap();
    std::os::unix::fs::symlink("real.yaml", study.at("config.yaml")).unwrap();
    study.ok(&["init", "--add", "smriprep"]);
    assert!(study.at("config.yaml").is_symlink());
    assert!(study.read("real.yaml").contains("name: smriprep"));
    // What works on results of another app is not added alone: it would fail at once.
    let said = study.call(&["init", "--add", "qsirecon"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("add_without_its_dependency", problems(&study, &said.err));
    // A script that a killed call has left is its own.
    let script = study.read("scripts/smriprep.sh");
    study.write("config.yaml", mine);
    study.ok(&["init", "--add", "smriprep"]);
    assert_eq!(study.read("scripts/smriprep.sh"), script);
    // Paths begin at the link, as for other commands.
    std::fs::create_dir(study.at("kept")).unwrap();
    std::fs::rename(study.at("real.yaml"), study.at("kept/real.yaml")).unwrap();
    std::fs::remove_file(study.at("config.yaml")).unwrap();
    std::os::unix::fs::symlink("kept/real.yaml", study.at("config.yaml")).unwrap();
    study.ok(&["init", "--add", "cat12"]);
    assert!(study.at("scripts/cat12.sh").is_file() && !study.at("kept/scripts").exists());
    // What its owner protects from writing stays.
    let kept = study.at("kept/real.yaml");
    let mut rights = std::fs::metadata(&kept).unwrap().permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&kept, rights.clone()).unwrap();
    let said = study.call(&["init", "--add", "fastsurfer"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!("add_to_a_read_only_file", problems(&study, &said.err));
    rights.set_mode(0o644);
    std::fs::set_permissions(&kept, rights).unwrap();
    // Order is no matter, and a converter of any name comes first. Scripts lie where they are looked for.
    let before = study.read("config.yaml");
    study.write(
        "config.yaml",
        "discover: bids\nbids_root: bids\nderivatives_root: derivatives\nstate_file: s.parquet\nprocedures:\n- name: convert\n  \
         output_dir: \"\"\n  script: mriqc.sh\n  completion_marker: x\n",
    );
    study.ok(&["init", "--add", "qsirecon,qsiprep"]);
    let now = study.read("config.yaml");
    assert!(
        now.contains("depends_on: [qsiprep]") && now.contains("depends_on: [convert]"),
        "{now}"
    );
    assert!(study.at("qsirecon.sh").is_file());
    study.write("config.yaml", &before);
    // A script that is there is never replaced, and then nothing is changed.
    study.write("scripts/qsiprep.sh", "mine");
    let before = study.snapshot();
    assert_eq!(study.call(&["init", "--add", "qsiprep"]).code, 1);
    assert_eq!(study.snapshot(), before);
    study.ok(&["manifest"]);
}
