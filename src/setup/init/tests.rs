//! The loader reads the written files, and gets the same values.

mod round_trip;

use std::ffi::OsString;

use proptest::prelude::*;

use super::*;
use crate::config::load::interpret;
use crate::config::{ConfigError, Overrides};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;

/// A small catalogue with every kind of dependency.
pub(super) fn catalogue() -> Vec<App> {
    let app = |name: &'static str, needs, entry| App {
        name,
        about: "a test",
        docs: "https://example.org",
        needs,
        reads: &[],
        entry: std::borrow::Cow::Borrowed(entry),
        script: match name {
            "toA" | "toB" => "#!/bin/bash\nls ${3:-$SNBB_DICOM_PATH}\n",
            _ => "#!/bin/bash\nexit 0\n",
        },
    };
    vec![
        app(
            "toA",
            &[],
            "  - name: toA\n    output_dir: \"\"\n    script: toA.sh\n    completion_marker: \"anat/*_T1w.nii.gz\"\n",
        ),
        app(
            "toB",
            &[],
            "  - name: toB\n    output_dir: \"\"\n    script: toB.sh\n    completion_marker: \"anat/*_T2w.nii.gz\"\n",
        ),
        app(
            "after",
            &[&["prep"]],
            "  # Comes last.\n  - name: after\n    output_dir: after\n    script: after.sh\n    depends_on: [prep]\n",
        ),
        app(
            "prep",
            &[&["toA", "toB"]],
            "  - name: prep\n    output_dir: prep\n    scope: subject\n    script: prep.sh\n    depends_on: [toA]\n",
        ),
        app(
            "quality",
            &[],
            "  - name: quality\n    output_dir: quality\n    script: quality.sh\n    depends_on: []\n    time: 4:00:00\n",
        ),
    ]
}

fn answers(root: &str) -> Answers {
    let at = |name: &str| PathBuf::from(format!("{root}/{name}"));
    Answers {
        sessions: SessionSource::Dicom,
        dicom_root: Some(at("dicom")),
        sessionless: false,
        bids_root: at("bids"),
        derivatives_root: at("derivatives"),
        describes: false,
        state_file: at("state/s.parquet"),
        log_dir: at("logs"),
        project: None,
        jobs: Jobs::Local,
        mem: None,
        cpus: None,
        apps: Vec::new(),
    }
}

/// Loads a configuration in an environment where every variable is set, to detect unwanted expansion.
fn load(text: &str, dir: &Path) -> Result<Config, ConfigError> {
    let env = |name: &str| (name != "SNBB_DOLLAR").then(|| OsString::from("expanded"));
    let file = dir.join(CONFIG);
    interpret(
        text.as_bytes(),
        Some(&file),
        false,
        &env,
        &Overrides::default(),
        dir,
    )
}

fn config_of(answers: &Answers, dir: &Path) -> Config {
    let files = files(answers, dir).unwrap();
    let config = load(&files[0].text, dir);
    config.unwrap_or_else(|error| panic!("{error}\n{}", files[0].text))
}

/// Uncomments all optional keys of the entries.
fn with_optional_keys(text: &str) -> String {
    let mut is_in_list = false;
    let lines = text.lines().map(|line| {
        is_in_list = line == "procedures:" || is_in_list && !line.starts_with("# --- ");
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        match rest.strip_prefix('#') {
            Some(key) if is_in_list && key.starts_with(|c: char| c.is_ascii_lowercase()) => {
                format!("{indent}{key}\n")
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Only answers are set. The test of `config.example.yaml` checks the other lines of the template.
#[test]
fn optional_keys_and_their_values_are_valid() {
    let dir = Path::new("/study");
    for jobs in [
        Jobs::Local,
        Jobs::Slurm {
            partition: None,
            account: None,
            bin_dir: None,
            accounting: false,
        },
    ] {
        let answers = Answers {
            jobs,
            ..answers("/study")
        };
        let text = &files(&answers, dir).unwrap()[0].text;
        let plain = load(text, dir).unwrap();
        assert_eq!(plain.warnings, Vec::<String>::new());
        let all =
            load(&with_optional_keys(text), dir).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let set = text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        assert!(set.count() <= 13, "{text}");
        assert!(
            text.contains("\n#max_in_flight: ") && text.contains("\n#warmup: "),
            "{text}"
        );
        let example = |config: &Config| {
            let (_, example) = config.procedures.iter().next().unwrap();
            example.resources.mem.clone()
        };
        assert!(example(&plain).is_none() && example(&all).is_some());
    }
}

#[test]
fn written_files_are_valid_by_the_schema() {
    let files_ = files(&answers("/study"), Path::new("/study")).unwrap();
    let schema = serde_json::from_str(&files_[1].text).unwrap();
    let schema = jsonschema::draft7::new(&schema).unwrap();
    let dir = Path::new("/study");
    let of_catalogue = catalogue::apps().iter().map(|app| vec![app.clone()]);
    for apps in of_catalogue.chain([Vec::new()]) {
        let answers = Answers {
            apps,
            ..answers("/study")
        };
        let text = &files(&answers, dir).unwrap()[0].text;
        for text in [text.clone(), with_optional_keys(text)] {
            let value: serde_json::Value = serde_yaml::from_str(&text).unwrap();
            let errors: Vec<String> = schema
                .iter_errors(&value)
                .map(|error| format!("{} {error}", error.instance_path()))
                .collect();
            assert_eq!(errors, Vec::<String>::new(), "{text}");
        }
    }
}

#[test]
fn scripts_find_their_files_in_a_study_with_any_name() {
    let app = catalogue::app("heudiconv").unwrap();
    let dir = Path::new("/a }\"it's $x");
    let files = scripts(app, dir, Path::new(SCRIPTS)).unwrap();
    let names: Vec<&str> = files.iter().filter_map(|file| file.path.to_str()).collect();
    assert_eq!(names, ["scripts/heudiconv.sh", "scripts/heuristic.py"]);
    assert!(files[0].is_executable && !files[1].is_executable);
    let mut lines = files[0].text.lines();
    assert_eq!(
        lines.find(|line| line.starts_with("HEURISTIC=")),
        Some("HEURISTIC=${SNBB_HEURISTIC:-'/a }\"it'\\''s $x/scripts/heuristic.py'}")
    );
    // No script refers to the shared directory any more.
    for app in catalogue::apps() {
        for file in scripts(app, Path::new("/study"), Path::new(SCRIPTS)).unwrap() {
            assert!(!file.text.contains(SHARED), "{}", app.name);
        }
    }
}

#[test]
fn the_example_and_every_app_of_the_catalogue_load() {
    let dir = Path::new("/study");
    let files_ = files(&answers("/study"), dir).unwrap();
    let names: Vec<&str> = files_
        .iter()
        .filter_map(|file| file.path.to_str())
        .collect();
    assert_eq!(
        names,
        ["config.yaml", ".snbb-schema.json", "scripts/example.sh"]
    );
    assert!(
        files_[0]
            .text
            .starts_with("# yaml-language-server: $schema=.snbb-schema.json\n")
    );
    assert!(serde_json::from_str::<serde_json::Value>(&files_[1].text).is_ok());

    let mine = catalogue();
    for catalogue in [mine.as_slice(), catalogue::apps()] {
        for (app, converts) in catalogue.iter().flat_map(|app| [(app, true), (app, false)]) {
            let wanted = with_needs(app, catalogue, converts);
            let Ok(choice) = choose(&wanted, catalogue, converts) else {
                assert!(!converts, "{wanted:?}");
                continue;
            };
            let answers = Answers {
                apps: choice.apps.clone(),
                ..answers("/study")
            };
            let config = config_of(&answers, dir);
            assert_eq!(config.warnings, Vec::<String>::new(), "{}", app.name);
            let names: Vec<&str> = config.procedures.iter().map(|(_, p)| &*p.name).collect();
            let chosen: Vec<&str> = choice.apps.iter().map(|app| app.name).collect();
            assert_eq!(names, chosen);
            for (_, procedure) in config.procedures.iter() {
                let app = choice
                    .apps
                    .iter()
                    .find(|app| app.name == &*procedure.name)
                    .unwrap();
                for group in app
                    .needs
                    .iter()
                    .filter(|group| group.iter().any(|n| chosen.contains(n)))
                {
                    let waits =
                        |name: &&str| procedure.depends_on.iter().any(|d| &*d.procedure == *name);
                    assert!(group.iter().any(waits), "{} for {group:?}", app.name);
                }
            }
        }
    }
}

/// An app and the first of each group that it needs.
fn with_needs(app: &App, catalogue: &[App], converts: bool) -> Vec<String> {
    let mut wanted = vec![app.name.to_owned()];
    let mut at = 0;
    while let Some(name) = wanted.get(at).cloned() {
        at += 1;
        let app = catalogue.iter().find(|app| app.name == name).unwrap();
        for group in app.needs {
            let first = catalogue
                .iter()
                .find(|other| group.contains(&other.name))
                .unwrap();
            let is_converter = first.is_converter();
            let is_met = wanted.iter().any(|name| group.contains(&name.as_str()));
            if !is_met && (converts || !is_converter) {
                wanted.push(first.name.to_owned());
            }
        }
    }
    wanted
}

#[test]
fn dependencies_follow_the_choice() {
    let catalogue = catalogue();
    let names = ["after".to_owned(), "toB".to_owned()];
    let apps = choose(&names, &catalogue, true).unwrap().apps;
    let config = config_of(
        &Answers {
            apps,
            ..answers("/study")
        },
        Path::new("/study"),
    );
    let dependencies: Vec<String> = config
        .procedures
        .iter()
        .map(|(_, p)| {
            let before: Vec<String> = p
                .depends_on
                .iter()
                .map(|d| d.procedure.to_string())
                .collect();
            format!("{}: {}", p.name, before.join(", "))
        })
        .collect();
    assert_eq!(dependencies, ["toB: ", "prep: toB", "after: prep"]);
}

fn chosen(names: &str, converts: bool) -> String {
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    match choose(&names, &catalogue(), converts) {
        Ok(choice) => {
            let apps: Vec<&str> = choice.apps.iter().map(|app| app.name).collect();
            let added: Vec<String> = choice
                .added
                .iter()
                .map(|(name, because)| format!(" +{name} for {because}"))
                .collect();
            format!("{}{}", apps.join(","), added.concat())
        }
        Err(error) => format!("{error} ({})", error.hint),
    }
}

#[test]
fn needed_apps_are_added_and_come_first() {
    assert_eq!(chosen("", true), "");
    assert_eq!(chosen("prep,toA", true), "toA,prep");
    assert_eq!(chosen("After, PREP ,to-b", true), "toB,prep,after");
    assert_eq!(chosen("after", false), "prep,after +prep for after");
    assert_eq!(chosen("after,toA", true), "toA,prep,after +prep for after");
}

#[test]
fn impossible_choices_are_errors_with_hints() {
    let choices = [
        ("prep", true),
        ("toA,toB", true),
        ("toA", false),
        ("pret", false),
        ("zzzzzzz", false),
    ];
    let errors = choices.map(|(names, converts)| chosen(names, converts));
    insta::assert_snapshot!(errors.join("\n"));
}
