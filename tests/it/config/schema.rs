//! The JSON Schema for editors: made from the list of keys, and of one mind with the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::{Value, json};

use snbb_scheduler::config::keys::{KEYS, Key, Section};

use super::generate::schema;
use super::{ROOT, fixtures, interpret};

const FILE: &str = "docs/schema/config.json";

fn validator() -> Validator {
    jsonschema::draft7::new(&schema()).unwrap()
}

/// Reads a file as an editor does. None: it is no YAML, or a key stands twice.
fn tree(bytes: &[u8]) -> Option<Value> {
    let mut tree: serde_yaml::Value = serde_yaml::from_slice(bytes).ok()?;
    tree.apply_merge().ok()?;
    serde_json::to_value(tree).ok()
}

fn complaints(validator: &Validator, tree: &Value) -> Vec<String> {
    let errors = validator.iter_errors(tree);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Set `UPDATE_DOCS=1` to write it anew.
#[test]
fn the_schema_is_that_of_the_code() {
    let file = Path::new(ROOT).join(FILE);
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if snbb_scheduler::base::sys::env("UPDATE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let old = fs::read_to_string(&file).unwrap_or_default();
    assert!(old == text, "{FILE} is old: run with UPDATE_DOCS=1");
    jsonschema::meta::validate(&schema()).unwrap();
}

#[test]
fn every_key_is_described() {
    let schema = schema();
    for key in KEYS {
        let place = match key.section {
            Section::Site => &schema,
            section => &schema["definitions"][section.as_str()],
        };
        let property = &place["properties"][key.name];
        let description = property["description"].as_str().unwrap_or_default();
        assert!(
            description.starts_with(key.doc),
            "{} {}",
            key.section.as_str(),
            key.name
        );
    }
}

#[test]
fn good_configurations_are_accepted() {
    let validator = validator();
    let example = fs::read(Path::new(ROOT).join("config.example.yaml")).unwrap();
    let mut files = fixtures("valid");
    files.push(("config.example.yaml".to_owned(), example));
    let mut unread = Vec::new();
    for (name, bytes) in files {
        match tree(&bytes) {
            Some(tree) => assert_eq!(complaints(&validator, &tree), [""; 0], "{name}"),
            None => unread.push(name),
        }
    }
    // What editors complain of themselves: keys that stand twice.
    assert_eq!(unread, UNREAD);
}

#[test]
fn the_example_names_its_schema() {
    let example = fs::read_to_string(Path::new(ROOT).join("config.example.yaml")).unwrap();
    let line = example.lines().next().unwrap();
    let path = line
        .strip_prefix("# yaml-language-server: $schema=")
        .expect(line);
    assert!(Path::new(ROOT).join(path).try_exists().unwrap(), "{path}");
}

/// Each file of the repository that the program refuses for a key or a type is refused here too.
#[test]
fn bad_configurations_are_refused() {
    let validator = validator();
    let mut accepted = Vec::new();
    for (name, bytes) in fixtures("invalid") {
        let Some(tree) = tree(&bytes) else { continue };
        if validator.is_valid(&tree) {
            accepted.push(name);
        }
    }
    // What holds between two keys, and in the environment, no schema knows.
    assert_eq!(
        accepted,
        ["cycle.yaml", "empty.yaml", "same-files.yaml", "self.yaml"]
    );
}

/// Every single problem of these two files is seen at its place.
#[test]
fn each_unknown_key_and_each_wrong_type_is_pointed_at() {
    let validator = validator();
    for (file, unseen) in [
        ("unknown-keys.yaml", vec![]),
        ("types.yaml", vec!["deadline"]),
    ] {
        let (_, bytes) = fixtures("invalid")
            .into_iter()
            .find(|(name, _)| name == file)
            .unwrap();
        let tree = tree(&bytes).unwrap();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for error in validator.iter_errors(&tree) {
            seen.insert(format!("{}", error.instance_path()));
            // An unknown key is told at the mapping that holds it.
            let text = error.to_string();
            for key in text.split('\'').skip(1).step_by(2) {
                seen.insert(format!("{}/{key}", error.instance_path()));
            }
        }
        let mut missed = Vec::new();
        for problem in interpret(file, &bytes).unwrap_err().problems {
            let place = format!("/{}", problem.key.replace(['.', '['], "/").replace(']', ""));
            let is_seen = seen.iter().any(|seen| {
                place == *seen
                    || place
                        .strip_prefix(seen.as_str())
                        .is_some_and(|rest| !seen.is_empty() && rest.starts_with('/'))
            });
            if !is_seen {
                missed.push(problem.key.clone());
            }
        }
        assert_eq!(missed, unseen, "{file}");
    }
}

/// Puts a value after a key into an otherwise good configuration.
fn around(key: &Key, value: &Value) -> Value {
    let name = key.name;
    let with = |mut mapping: Value| {
        mapping[name] = value.clone();
        mapping
    };
    let procedure = |more: Value| {
        let mut procedure = json!({"name": "a", "output_dir": "a", "script": "a.sh"});
        procedure
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"procedures": [procedure, {"name": "b", "output_dir": "b", "script": "b.sh"}]})
    };
    // The built-in procedures would be compiled anew each time.
    let short = |mut site: Value| {
        if site.get("procedures").is_none() {
            site["procedures"] = json!([{"name": "a", "output_dir": "a", "script": "a.sh"}]);
        }
        site
    };
    short(match key.section {
        Section::Site => with(json!({})),
        Section::Audit => json!({"audit": with(json!({}))}),
        Section::LogPattern => {
            json!({"audit": {"log_patterns": [with(json!({"name": "a", "regex": "a"}))]}})
        }
        Section::Procedure => {
            let scope = match name {
                "min_sessions" => json!({"scope": "subject"}),
                _ => json!({}),
            };
            procedure(with(scope))
        }
        Section::Dependency => procedure(json!({"depends_on": [with(json!({"name": "b"}))]})),
        Section::Marker => procedure(json!({"completion_marker": [with(json!({"glob": "x"}))]})),
        Section::Retry => json!({"retry": with(json!({"on": ["timeout"]}))}),
        Section::RetryRule => json!({"retry": {"on": {"exit_code": with(json!({}))}}}),
        Section::Safety => json!({"safety": with(json!({}))}),
        Section::Notify => json!({"notify": with(json!({}))}),
    })
}

/// Whatever the program takes, the schema takes; and what the program refuses for its form, it refuses.
#[test]
fn program_and_schema_are_of_one_mind_about_every_key() {
    let validator = validator();
    let values = [
        json!(null),
        json!(""),
        json!(" "),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(1.5),
        json!(100),
        json!(256),
        json!(513),
        json!(70_000),
        json!(5_000_000_000_u64),
        json!("0"),
        json!("1"),
        json!("4"),
        json!("+4"),
        json!("1.5"),
        json!("a"),
        json!("a b"),
        json!("a\nb"),
        json!("a/b"),
        json!("/a"),
        json!("/a.prom"),
        json!("../a"),
        json!("a/../b"),
        json!("a..b"),
        json!("..."),
        json!("."),
        json!("**"),
        json!("**/a*"),
        json!("a**"),
        json!("***"),
        json!("*.html"),
        json!("./a"),
        json!("yes"),
        json!("NO"),
        json!("off"),
        json!("On"),
        json!("maybe"),
        json!("10m"),
        json!("10 m"),
        json!("1h30m"),
        json!("36525d"),
        json!("32G"),
        json!("32GB"),
        json!("32 G"),
        json!("32GiB"),
        json!("10K"),
        json!("1.5G"),
        json!("4:00:00"),
        json!("3-0"),
        json!("3-1:2:3"),
        json!("1:2:3:4"),
        json!("4h"),
        json!("UNLIMITED"),
        json!("10%"),
        json!("10 %"),
        json!("a@b"),
        json!("a@"),
        json!("@b"),
        json!("a@b c"),
        json!("sub-01"),
        json!("sub-*/ses-1"),
        json!("${HOME}/a"),
        json!("${HOME}"),
        json!("~/a"),
        json!("$HOME"),
        json!("--nice=1"),
        json!("--nice=1 --hold"),
        json!("session"),
        json!("subject"),
        json!("dicom"),
        json!("bids"),
        json!("slurm"),
        json!("local"),
        json!("auto"),
        json!("always"),
        json!("never"),
        json!("present"),
        json!("absent"),
        json!("order"),
        json!("subjects"),
        json!("markers"),
        json!("any"),
        json!("all"),
        json!("same"),
        json!("Session"),
        json!("failed"),
        json!("lost"),
        json!("timeout"),
        json!("b"),
        json!("_x"),
        json!("x".repeat(101)),
        json!("1A"),
        json!("on"),
        json!([]),
        json!([1]),
        json!([0]),
        json!(["1"]),
        json!(["a"]),
        json!([null]),
        json!([""]),
        json!([[]]),
        json!(["b"]),
        json!(["b", "b"]),
        json!(["*.html", "a/b"]),
        json!(["/a"]),
        json!(["failed"]),
        json!(["timeout"]),
        json!(["timeout", "queued"]),
        json!(["a@b"]),
        json!(["a@b", "a"]),
        json!(["--nice=1"]),
        json!(["sub-1", "2/3"]),
        json!([256]),
        json!([{"name": "b"}]),
        json!([{"name": "b", "sessions": "any"}]),
        json!([{"sessions": "any"}]),
        json!([{"glob": "*"}]),
        json!([{"glob": "*", "min_size": "1M"}]),
        json!([{"min_size": 1}]),
        json!([{"glob": "*", "minsize": 1}]),
        json!([{"name": "a", "regex": "b"}]),
        json!([{"name": "a"}]),
        json!([{"name": "x", "output_dir": "", "script": "x.sh"}]),
        json!([{"name": "x", "output_dir": ""}]),
        json!([{"name": "x", "output_dir": "", "script": "x.sh", "scop": 1}]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": null}),
        json!({"A": 1, "B": true}),
        json!({"SNBB_X": "1"}),
        json!({"1A": "1"}),
        json!({"name": "b"}),
        json!({"glob": "*"}),
        json!({"on": ["timeout"]}),
        json!({"on": {"timeout": {}}}),
        json!({"on": {"timeout": {"codes": [1]}}}),
        json!({"on": {"exit_code": {"codes": [1]}}}),
        json!({"max_attempts": 3}),
        json!({"timeout": null}),
        json!({"timeout": {"time_factor": 2}}),
        json!({"queued": {}}),
        json!({"on": ["failed"]}),
        json!({"max_drop": "5%"}),
        json!({"smtp_port": 25}),
        json!({"email": true}),
    ];
    let is_mail = |key: &Key| key.name.starts_with("smtp_") || key.name.starts_with("email_");
    let mut too_strict = Vec::new();
    let mut too_loose = Vec::new();
    for key in KEYS {
        for value in &values {
            let tree = around(key, value);
            // JSON is YAML.
            let text = serde_json::to_vec(&tree).unwrap();
            let program = interpret("c.yaml", &text);
            let line = || format!("{} {}: {value}", key.section.as_str(), key.name);
            match (&program, validator.is_valid(&tree)) {
                // Mail settings never stop the program, which warns.
                (Ok(config), false) if is_mail(key) && !config.warnings.is_empty() => {}
                (Ok(_), false) => {
                    too_strict.push(format!("{} {:?}", line(), complaints(&validator, &tree)))
                }
                (Err(error), true) => {
                    let is_left = |message: &str| {
                        LEFT_TO_THE_PROGRAM
                            .iter()
                            .any(|words| message.contains(words))
                    };
                    let is_known = error
                        .problems
                        .iter()
                        .all(|problem| is_left(&problem.message));
                    if !is_known {
                        too_loose.push(format!("{}: {}", line(), error.problems[0]));
                    }
                }
                _ => {}
            }
        }
    }
    assert_eq!(too_strict, [""; 0]);
    assert!(too_loose.is_empty(), "{}", too_loose.join("\n"));
}

/// A key that stands twice: the program warns, editors complain.
const UNREAD: [&str; 1] = ["python-corners.yaml"];

/// What the program says of values that have the right form.
const LEFT_TO_THE_PROGRAM: &[&str] = &[
    "must be longer than zero",
    "is not a procedure (available",
    "is already used in line",
    "dependency cycle",
    "appears twice",
    "there is nobody to send it to",
    "is not a number from 1 to",
    "is not a regular expression",
    // A variable stands for anything.
    "does not end with '.prom'",
    "is absolute",
    "is a directory",
    "must contain {subject}",
    "no path contains {session}",
];
