//! `config show`: every value that counts, and where it comes from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::harness::{Said, Study};
use crate::pretty::problems;

/// Has an entry of every section.
const FULL: &str = "\
dicom_root: ${STUDY}/dicom
bids_root: ${NOT_SET:-/data}/bids
derivatives_root: derivatives
state_file: state.parquet
slurm_partition: cpu
slurm_account: ''
retry: {on: {timeout: {time_factor: 1.5}, node_fail: }}
audit:
  smtp_username: bot
  smtp_password_env: PASSWORD
  log_patterns: [{name: x, regex: 'ERROR 42'}]
notify: {email: no}
procedures:
  - name: bids
    output_dir: ''
    script: convert.sh
    completion_marker: 'anat/*_T1w.nii.gz'
    partition:
    mem: 32G
  - name: prep
    output_dir: prep
    script: ~/prep.sh
    depends_on: [{name: bids, sessions: any}]
    scope: subject
    completion_marker: [{glob: '*.html'}, done]
    warmup: 3
    retry: off
";

struct Shown(BTreeMap<String, Value>);

impl Shown {
    fn of(study: &Study, options: &[&str]) -> Self {
        let words = [options, &["config", "show", "--format", "json"]].concat();
        Self::from(&study.ok(&words))
    }

    fn from(said: &Said) -> Self {
        let list: Vec<Value> = serde_json::from_str(&said.out).unwrap();
        let keyed = list
            .into_iter()
            .map(|one| (one["key"].as_str().unwrap().to_owned(), one));
        Self(keyed.collect())
    }

    fn value(&self, key: &str) -> &Value {
        &self.0[key]["value"]
    }

    /// Value, origin, line, the rest in a word.
    fn assert(
        &self,
        key: &str,
        value: impl Into<Value>,
        origin: &str,
        line: Option<u32>,
        rest: &str,
    ) {
        let one = &self.0[key];
        assert_eq!(one["value"], value.into(), "{one}");
        assert_eq!(one["origin"], origin, "{one}");
        assert_eq!(one["line"], json!(line), "{one}");
        let file = one["file"].as_str();
        assert_eq!(
            file.is_some_and(|file| file.ends_with("/full.yaml")),
            line.is_some(),
            "{one}"
        );
        let texts = [&one["option"], &one["from"], &one["variables"][0]];
        let texts: Vec<&str> = texts.iter().filter_map(|text| text.as_str()).collect();
        assert_eq!(texts.join(" "), rest, "{one}");
    }
}

fn study() -> Study {
    let mut study = Study::new();
    study.write("full.yaml", FULL);
    let file = study.at("full.yaml").to_string_lossy().into_owned();
    for (name, value) in [
        ("STUDY", "/mnt/study"),
        ("PASSWORD", "hunter2"),
        ("SNBB_CONFIG", &file),
    ] {
        study.env.push((name.to_owned(), value.to_owned()));
    }
    study
}

#[test]
fn each_value_has_its_origin() {
    let study = study();
    let shown = Shown::of(&study, &[]);
    shown.assert("dicom_root", "/mnt/study/dicom", "file", Some(1), "STUDY");
    shown.assert("bids_root", "/data/bids", "file", Some(2), "");
    let real = |name: &str| study.at(name).to_string_lossy().into_owned();
    shown.assert("derivatives_root", real("derivatives"), "file", Some(3), "");
    shown.assert(
        "log_file",
        real("scheduler_audit.jsonl"),
        "default",
        None,
        "",
    );
    shown.assert("slurm_account", Value::Null, "file", Some(6), "");
    shown.assert("lock_timeout", "10s", "default", None, "");
    shown.assert("accounting", true, "default", None, "");
    shown.assert("audit.stale_job_threshold_hours", 168, "default", None, "");
    shown.assert("audit.smtp_username", "bot", "file", Some(9), "");
    shown.assert(
        "audit.smtp_password",
        "(hidden)",
        "variable",
        Some(10),
        "PASSWORD",
    );
    shown.assert("retry.on.timeout.time_factor", 1.5, "file", Some(7), "");
    shown.assert("retry.on.node_fail", json!({}), "file", Some(7), "");
    let of_bids = |key: &str, value: Value, origin, line, rest| {
        shown.assert(&format!("procedures.bids.{key}"), value, origin, line, rest);
    };
    of_bids("output_dir", "".into(), "file", Some(15), "");
    of_bids(
        "partition",
        "cpu".into(),
        "file",
        Some(5),
        "slurm_partition",
    );
    of_bids("account", Value::Null, "file", Some(6), "slurm_account");
    of_bids("mem", "32G".into(), "file", Some(19), "");
    of_bids("scope", "session".into(), "default", None, "");
    of_bids("check", "markers".into(), "default", None, "");
    of_bids("warmup", 0.into(), "default", None, "warmup");
    of_bids(
        "output_grace",
        "10m".into(),
        "default",
        None,
        "output_grace",
    );
    of_bids(
        "retry.on.timeout.time_factor",
        1.5.into(),
        "file",
        Some(7),
        "retry",
    );
    of_bids("retry.max_attempts", 3.into(), "default", None, "retry");
    let of_prep = |key: &str, value: Value, line| {
        shown.assert(
            &format!("procedures.prep.{key}"),
            value,
            "file",
            Some(line),
            "",
        );
    };
    of_prep("depends_on[0].sessions", "any".into(), 23);
    of_prep("completion_marker[0].glob", "*.html".into(), 25);
    of_prep("completion_marker[1]", "done".into(), 25);
    of_prep("warmup", 3.into(), 26);
    of_prep("retry", "off".into(), 27);
    let home = study.dir.path().join("prep.sh");
    of_prep("script", home.to_string_lossy().into(), 22);
}

#[test]
fn options_win_and_say_so() {
    let study = study();
    let options = [
        "--slurm-mem",
        "64G",
        "--slurm-cpus",
        "0",
        "--slurm-log-dir",
        "logs",
    ];
    let shown = Shown::of(&study, &options);
    for key in ["slurm_mem", "procedures.bids.mem", "procedures.prep.mem"] {
        shown.assert(key, "64G", "option", None, "--slurm-mem");
    }
    for key in ["slurm_cpus_per_task", "procedures.prep.cpus_per_task"] {
        shown.assert(key, 0, "option", None, "--slurm-cpus");
    }
    shown.assert("slurm_log_dir", "/logs", "option", None, "--slurm-log-dir");
}

#[test]
fn every_key_of_the_table_is_shown() {
    let shown = Shown::of(&study(), &[]);
    let words: BTreeSet<&str> = shown
        .0
        .keys()
        .flat_map(|key| key.split(['.', '[']))
        .collect();
    for key in KEYS {
        assert!(words.contains(key.name), "{} {}", key.section, key.name);
    }
    // Those of mappings that may stand at several places are shown at each.
    for (place, section) in [
        ("", Section::Site),
        ("audit.", Section::Audit),
        ("procedures.bids.", Section::Procedure),
        ("procedures.prep.completion_marker[0].", Section::Marker),
        ("procedures.bids.retry.on.timeout.", Section::RetryRule),
        ("retry.", Section::Retry),
    ] {
        for key in section.keys() {
            let path = format!("{place}{}", key.name);
            let is_there = shown.0.keys().any(|shown| shown.starts_with(&path));
            assert!(is_there, "{path}");
        }
    }
}

#[test]
fn a_password_is_never_shown() {
    let mut study = study();
    study.env.retain(|(name, _)| name != "SNBB_CONFIG");
    study.configure("audit: {smtp_username: bot, smtp_password: swordfish}\n");
    for arguments in [
        &["config", "show"][..],
        &["-vv", "config", "show", "--format", "json"],
    ] {
        let said = study.ok(arguments);
        assert!(said.out.contains("(hidden)"), "{}", said.out);
        assert!(!(said.out + &said.err).contains("swordfish"));
    }
}

/// Anchors and merge keys: the line is that where the value was written.
#[test]
fn merged_values_have_the_line_where_they_were_written() {
    let mut study = study();
    study.env.retain(|(name, _)| name != "SNBB_CONFIG");
    study.configure(
        "procedures:\n  - &first {name: a, output_dir: a, script: a.sh, mem: 1G}\n  - {<<: *first, name: b, output_dir: b}\n",
    );
    let shown = Shown::of(&study, &[]);
    let line = |key: &str| shown.0[key]["line"].as_u64().unwrap();
    assert_eq!(line("procedures.b.mem"), line("procedures.a.mem"));
    assert_eq!(line("procedures.b.name"), line("procedures.a.name") + 1);
}

/// An empty value means the default for some keys and "none" for others: what is shown is what is read.
#[test]
fn empty_values_are_shown_as_they_are_read() {
    for empty in ["", "''"] {
        let text = format!(
            "slurm_partition: {empty}\nslurm_mem: {empty}\nlock_timeout: {empty}\nslurm_account: lab\nwarmup: 2\n\
             slurm_log_dir: {empty}\nprocedures:\n  - {{name: a, output_dir: a, script: a.sh, account: {empty}, \
             warmup: {empty}, time: {empty}}}\n"
        );
        let source = tempfile::NamedTempFile::new().unwrap();
        fs::write(source.path(), &text).unwrap();
        let (config, settings) = load(
            Some(source.path()),
            &env,
            &Overrides::default(),
            Path::new("/cwd"),
        )
        .unwrap();
        let procedure = config.procedures.iter().next().unwrap().1;
        let shown = |path: &str| {
            let found = settings.iter().find(|setting| setting.path == path);
            found.unwrap().value.clone()
        };
        let account = procedure.resources.account.as_deref();
        for (path, read) in [
            ("slurm_partition", json!(config.slurm.partition)),
            (
                "slurm_mem",
                json!(config.slurm.mem.as_ref().map(ToString::to_string)),
            ),
            ("slurm_log_dir", json!(config.slurm.log_dir)),
            (
                "lock_timeout",
                json!(format!("{}s", config.lock_timeout.as_secs())),
            ),
            ("procedures.a.account", json!(account)),
            ("procedures.a.warmup", json!(procedure.rules.warmup)),
        ] {
            assert_eq!(shown(path), read, "{path} {empty}");
        }
    }
}

#[test]
fn procedures_are_chosen_and_a_wrong_name_is_answered_with_the_nearest() {
    let study = study();
    let shown =
        Shown::from(&study.ok(&["config", "show", "--procedure", "pre*", "--format", "json"]));
    assert_eq!(shown.value("procedures.prep.name"), "prep");
    assert!(
        shown
            .0
            .keys()
            .all(|key| key.starts_with("procedures.prep."))
    );
    let said = study.call(&["config", "show", "--procedure", "prap"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!("show_misspelt_procedure", problems(&study, &said.err));
}

#[test]
fn as_text_each_line_is_a_key_with_value_and_origin() {
    let mut study = study();
    let said = study.ok(&["config", "show"]);
    let file = study.at("full.yaml");
    assert_eq!(said.err, format!("{} (SNBB_CONFIG)\n", file.display()));
    for line in [
        "dicom_root /mnt/study/dicom full.yaml:1, $STUDY",
        "project - default: a hash of the state file's path",
        "slurm_account - full.yaml:6",
        "procedures.bids.output_dir \"\" full.yaml:15",
        "procedures.bids.partition cpu full.yaml:5 (slurm_partition)",
        "procedures.bids.rerun_when_stale no default",
        "audit.smtp_password (hidden) $PASSWORD (full.yaml:10)",
    ] {
        let is_there = |shown: &str| shown.split_whitespace().eq(line.split(' '));
        assert!(said.out.lines().any(is_there), "{line}\n{}", said.out);
    }
    // Without a file, the built-in pipeline and all other defaults.
    study.env.retain(|(name, _)| name != "SNBB_CONFIG");
    study.env.push(("SNBB_CONFIG".to_owned(), String::new()));
    let said = study.ok(&["config", "show"]);
    assert!(
        said.out.contains("procedures.qsiprep.scope"),
        "{}",
        said.out
    );
    assert!(!said.out.contains(".yaml"), "{}", said.out);
    assert!(
        said.err.starts_with("no configuration file"),
        "{}",
        said.err
    );
}

#[test]
fn a_file_with_problems_tells_them_and_shows_nothing() {
    let study = study();
    study.write("full.yaml", "slurm_partiton: x\n");
    let said = study.call(&["config", "show"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    insta::assert_snapshot!("show_misspelt_key", problems(&study, &said.err));
}
