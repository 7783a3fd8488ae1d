//! The configuration, through the library: every fixture loads, or tells all that is wrong with it.

mod describe;
mod files;
mod generate;
mod properties;
mod schema;
mod settings;
mod sources;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use snbb_scheduler::config::keys::{KEYS, Section};
use snbb_scheduler::config::{ConfigError, Overrides, load};
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::procedure::MemSize;

use describe::{describe, procedures};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn env(name: &str) -> Option<OsString> {
    match name {
        "HOME" => Some("/home/someone".into()),
        "STUDY" => Some("/mnt/study".into()),
        "PASSWORD" => Some("hunter2".into()),
        _ => None,
    }
}

/// Interprets a text as if it stood in a fixed place, so that messages do not depend on the machine.
fn interpret(name: &str, bytes: &[u8]) -> Result<Config, ConfigError> {
    let file = PathBuf::from("/site").join(name);
    let overrides = Overrides::default();
    load::interpret(
        bytes,
        Some(&file),
        false,
        &env,
        &overrides,
        Path::new("/cwd"),
    )
}

fn problems(text: &str) -> Vec<String> {
    match interpret("c.yaml", text.as_bytes()) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.iter().map(ToString::to_string).collect(),
    }
}

fn fixtures(kind: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(ROOT).join("fixtures/config").join(kind);
    let mut files: Vec<(String, Vec<u8>)> = walkdir::WalkDir::new(dir)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.file_name().to_str().unwrap().to_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn each_valid_file_loads() {
    for (name, bytes) in fixtures("valid") {
        let config = interpret(&name, &bytes).unwrap_or_else(|error| panic!("{error}"));
        insta::assert_snapshot!(format!("valid-{name}"), describe(&config));
    }
}

#[test]
fn each_invalid_file_tells_all_its_problems() {
    for (name, bytes) in fixtures("invalid") {
        let error = interpret(&name, &bytes).expect_err(&name);
        let mut told = String::new();
        for problem in &error.problems {
            writeln!(told, "{problem}").unwrap();
            assert_eq!(problem.to_string().lines().count(), 1);
        }
        for warning in &error.warnings {
            writeln!(told, "warning: {warning}").unwrap();
        }
        insta::assert_snapshot!(format!("invalid-{name}"), told);
    }
}

/// Every value of the wrong kind is noticed, at its own key: so each key of the list is really read.
#[test]
fn every_known_key_is_read() {
    for key in KEYS {
        let name = key.name;
        let (text, expected) = match key.section {
            Section::Site => (format!("{name}: [[[]]]"), name.to_owned()),
            Section::Audit => (
                format!("audit: {{{name}: [[[]]]}}"),
                format!("audit.{name}"),
            ),
            Section::LogPattern => (
                format!("audit: {{log_patterns: [{{name: a, regex: a, {name}: [[[]]]}}]}}"),
                format!("audit.log_patterns[0].{name}"),
            ),
            Section::Procedure => (
                format!("procedures: [{{name: a, output_dir: a, script: a, {name}: [[[]]]}}]"),
                format!("procedures[0].{name}"),
            ),
            Section::Dependency => (
                format!(
                    "procedures: [{{name: a, output_dir: a, script: a, depends_on: [{{name: b, {name}: [[[]]]}}]}}, \
                     {{name: b, output_dir: b, script: b}}]"
                ),
                format!("procedures[0].depends_on[0].{name}"),
            ),
            Section::Marker => (
                format!(
                    "procedures: [{{name: a, output_dir: a, script: a, completion_marker: [{{glob: x, {name}: [[[]]]}}]}}]"
                ),
                format!("procedures[0].completion_marker[0].{name}"),
            ),
            Section::Retry => (
                format!("retry: {{{name}: [[[]]]}}"),
                format!("retry.{name}"),
            ),
            Section::RetryRule => (
                format!("retry: {{on: {{exit_code: {{{name}: [[[]]]}}}}}}"),
                format!("retry.on.exit_code.{name}"),
            ),
            Section::Safety => (
                format!("safety: {{{name}: [[[]]]}}"),
                format!("safety.{name}"),
            ),
            Section::Notify => (
                format!("notify: {{{name}: [[[]]]}}"),
                format!("notify.{name}"),
            ),
        };
        // What is wrong with mail settings is a warning.
        let said = match interpret("c.yaml", text.as_bytes()) {
            Ok(config) => config.warnings,
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        };
        let at_key = |line: &String| {
            line.contains(&format!(": {expected}: ")) || line.contains(&format!(": {expected}["))
        };
        assert!(said.iter().any(at_key), "{text}: {said:?}");
        assert!(
            !said.iter().any(|line| line.contains("unknown")),
            "{text}: {said:?}"
        );
    }
}

#[test]
fn values_are_read_by_the_type_of_their_key() {
    let config = |text: &str| {
        interpret("c.yaml", text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    for (text, expected) in [
        ("yes", true),
        ("On", true),
        ("TRUE", true),
        ("'true'", true),
        ("1", true),
        ("no", false),
        ("off", false),
        ("False", false),
    ] {
        assert_eq!(
            config(&format!("accounting: {text}")).slurm.accounting,
            expected,
            "{text}"
        );
    }
    for (text, expected) in [
        ("32000", Some(32_000)),
        ("32G", Some(32_768)),
        ("'0'", Some(0)),
        ("0", None),
        ("''", None),
        ("", None),
        ("~", None),
    ] {
        let mem = config(&format!("slurm_mem: {text}")).slurm.mem;
        assert_eq!(mem.map(|mem| mem.megabytes()), expected, "{text}");
    }
    for (text, expected) in [("8", Some(8)), ("0", None), ("", None), ("'4'", Some(4))] {
        let cpus = config(&format!("slurm_cpus_per_task: {text}"))
            .slurm
            .cpus_per_task;
        assert_eq!(cpus, expected, "{text}");
    }
    for (text, expected) in [
        ("null", None),
        ("''", None),
        ("", None),
        ("'null'", Some("null")),
        ("no", Some("no")),
        ("12", Some("12")),
    ] {
        let account = config(&format!("slurm_account: {text}")).slurm.account;
        assert_eq!(account.as_deref(), expected, "{text}");
    }
    assert_eq!(config("{}").slurm.account.as_deref(), Some("snbb"));
    assert_eq!(config("{}").slurm.partition.as_deref(), Some("debug"));
}

#[test]
fn a_procedure_takes_the_values_of_the_site_unless_it_has_its_own() {
    let site = "slurm_mem: 8G\nslurm_cpus_per_task: 4\nprocedures:\n";
    let text = format!(
        "{site}  - {{name: a, output_dir: a, script: a}}\n  \
         - {{name: b, output_dir: b, script: b, mem: 1G, cpus_per_task: 2, partition: p, account: c}}\n  \
         - {{name: c, output_dir: c, script: c, mem: '', cpus_per_task: 0, partition: '', account: ''}}\n  \
         - {{name: d, output_dir: d, script: d, mem: , cpus_per_task: , partition: , account: }}\n"
    );
    let shown = |overrides: &Overrides| {
        let file = Path::new("/site/c.yaml");
        let config = load::interpret(
            text.as_bytes(),
            Some(file),
            false,
            &env,
            overrides,
            Path::new("/cwd"),
        )
        .unwrap();
        let line = |procedure: &snbb_scheduler::model::procedure::Procedure| {
            let r = &procedure.resources;
            let mem = r.mem.as_ref().map_or("-".to_owned(), ToString::to_string);
            let cpus = r
                .cpus_per_task
                .map_or("-".to_owned(), |cpus| cpus.to_string());
            let text = |text: &Option<String>| text.clone().unwrap_or("-".to_owned());
            format!("{mem} {cpus} {} {}", text(&r.partition), text(&r.account))
        };
        config
            .procedures
            .iter()
            .map(|(_, p)| line(p))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&Overrides::default()),
        ["8G 4 debug snbb", "1G 2 p c", "- - - -", "8G 4 debug snbb"]
    );
    let overrides = Overrides {
        slurm_mem: Some(MemSize::parse("64G").unwrap()),
        slurm_cpus: Some(16),
        slurm_log_dir: None,
    };
    assert_eq!(
        shown(&overrides),
        [
            "64G 16 debug snbb",
            "64G 16 p c",
            "64G 16 - -",
            "64G 16 debug snbb"
        ]
    );
}

#[test]
fn a_password_is_kept_from_eyes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yaml");
    fs::write(&file, "audit: {smtp_password: hunter2}\n").unwrap();
    for (mode, warned) in [(0o644, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let (config, _) = load(Some(&file), &env, &Overrides::default(), dir.path()).unwrap();
        assert_eq!(!config.warnings.is_empty(), warned, "{:?}", config.warnings);
        assert!(!format!("{config:?}{:?}", config.warnings).contains("hunter2"));
        assert_eq!(config.audit.smtp_password.unwrap().0, "hunter2");
    }
    let config = interpret("c.yaml", b"audit: {smtp_password_env: PASSWORD}").unwrap();
    assert_eq!(config.audit.smtp_password.unwrap().0, "hunter2");
    let config = interpret("c.yaml", b"audit: {smtp_password_env: OTHER}").unwrap();
    assert_eq!(config.audit.smtp_password, None);
    insta::assert_snapshot!("password_variable_is_not_set", config.warnings.join("\n"));
    for text in [
        "audit: {smtp_password: [hunter2]}",
        "audit: {smtp_password: hunter2, smtp_password_env: X}",
    ] {
        let told = interpret("c.yaml", text.as_bytes()).unwrap().warnings;
        assert!(!told.is_empty() && !told.concat().contains("hunter2"));
    }
}

#[test]
fn warnings_name_what_is_valid_and_probably_not_meant() {
    let text = "\
settle_time: 5s
bids_root: /data/x
derivatives_root: /data/x
bids_root: /data/x
slurm_mem: 0
procedures:
  - {name: a, output_dir: a, script: a, completion_marker: x.html}
  - {name: b, output_dir: a, script: b, completion_marker: x.html, depends_on: [{name: a, sessions: any}]}
  - {name: c, output_dir: a, script: c, sbatch_args: [--mem=4G, -pshort]}
  - {name: d, output_dir: d, script: d, completion_marker: []}
  - {name: s, output_dir: s, script: d, scope: subject, completion_marker: x, depends_on: [{name: a, sessions: all}]}
  - {name: t, output_dir: t, script: d, scope: subject, completion_marker: x, depends_on: [{name: s, sessions: all}]}
  - {name: qsirecon, output_dir: q, script: d, completion_marker: x}
";
    let config = interpret("c.yaml", text.as_bytes()).unwrap();
    insta::assert_snapshot!(config.warnings.join("\n"));
}

/// Any difference in the rules of completion makes two procedures different.
#[test]
fn b10_procedures_that_differ_in_one_rule_are_two() {
    let mut told = Vec::new();
    for rule in [
        "completion_marker: [{glob: x, min_size: 1}]",
        "completion_marker: [{glob: x, min_size: 2}]",
        "completion_marker: [{glob: x, min_size: 1}]\n    forbid: [crash*]",
    ] {
        let text = format!(
            "procedures:\n  - name: a\n    output_dir: a\n    script: a\n    completion_marker: [{{glob: x, min_size: 1}}]\n  \
             - name: b\n    output_dir: a\n    script: a\n    {rule}\n"
        );
        let config = interpret("c.yaml", text.as_bytes()).unwrap();
        told.push(format!("{rule}\n{}\n", config.warnings.join("\n")));
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn procedures_that_may_write_to_one_directory_at_a_time_are_warned_of() {
    for (first, second, is_warned) in [
        (
            "output_dir: x, scope: subject",
            "output_dir: x, scope: subject",
            true,
        ),
        ("output_dir: x", "output_dir: x, scope: subject", true),
        (
            "output_dir: '', scope: subject",
            "output_dir: '', scope: subject",
            true,
        ),
        ("output_dir: ''", "output_dir: ''", false),
        (
            "output_dir: x, scope: subject",
            "output_dir: y, scope: subject",
            false,
        ),
        // By way of another one.
        (
            "output_dir: x, scope: subject",
            "output_dir: x, scope: subject, depends_on: [between]",
            false,
        ),
    ] {
        let text = format!(
            "procedures:\n  - {{name: a, script: s, completion_marker: a, {first}}}\n  \
             - {{name: between, script: s, scope: subject, output_dir: z, completion_marker: z, depends_on: [a]}}\n  \
             - {{name: b, script: s, completion_marker: b, {second}}}\n"
        );
        let config = interpret("c.yaml", text.as_bytes()).unwrap();
        let about_b = |warning: &&String| warning.contains(": procedures[2]: ");
        let about_b: Vec<&String> = config.warnings.iter().filter(about_b).collect();
        assert_eq!(
            about_b.len(),
            usize::from(is_warned),
            "{first}; {second}: {:?}",
            config.warnings
        );
    }
}

#[test]
fn the_example_loads_and_shows_every_key() {
    let file = Path::new(ROOT).join("config.example.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (config, _) = load(Some(&file), &env, &Overrides::default(), Path::new("/cwd"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.warnings, [""; 0]);
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start_matches([' ', '#', '-', '{']))
        .collect();
    for key in KEYS {
        let nested = matches!(
            key.section,
            Section::Dependency | Section::LogPattern | Section::Marker | Section::RetryRule
        );
        let word = format!("{}:", key.name);
        let written = lines
            .iter()
            .any(|line| line.starts_with(&word) || nested && line.contains(&format!(" {word} ")));
        assert!(written, "{:?} {}", key.section, key.name);
    }
    // With the sign before every key that is commented out taken away, it is a valid file too.
    let opened: String = text
        .lines()
        .map(|line| match line.trim_start().strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => {
                format!("{}\n", line.replacen('#', "", 1))
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let opened =
        interpret("example.yaml", opened.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    insta::assert_snapshot!("example-opened", describe(&opened));
    // The procedures that are written out are the built-in ones.
    let defaults = interpret("c.yaml", b"{}").unwrap();
    assert_eq!(procedures(&config), procedures(&defaults));
}

/// Set `UPDATE_DOCS=1` to write the tables anew.
#[test]
fn the_tables_of_the_documentation_are_those_of_the_code() {
    let file = Path::new(ROOT).join("docs/configuration.md");
    let mut text = fs::read_to_string(&file).unwrap();
    let before = text.clone();
    for section in Section::ALL {
        let start = format!("<!-- keys: {} -->\n", section.as_str());
        let end = "<!-- end of keys -->";
        let from = text.find(&start).unwrap_or_else(|| panic!("{start}")) + start.len();
        let to = from + text[from..].find(end).unwrap();
        text.replace_range(from..to, &generate::markdown(section));
    }
    if text != before && snbb_scheduler::base::sys::env("UPDATE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    } else {
        assert!(
            text == before,
            "docs/configuration.md is old: run with UPDATE_DOCS=1"
        );
    }
}
