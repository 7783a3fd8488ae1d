//! What is made of the list of keys: the JSON Schema for editors, and the tables of the documentation.
//!
//! The schema must never refuse what the program takes. What it cannot tell (a circle of dependencies, a variable
//! that is not set, a regular expression that does not compile) is left to the program.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use snbb_scheduler::config::keys::{Fallback, Key, Kind, Section};
use snbb_scheduler::model::procedure::Variable;
use snbb_scheduler::model::state::{Reason, TaskStatus};

/// Makes the whole schema (draft 7, which all editors know).
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for section in Section::ALL
        .into_iter()
        .filter(|section| *section != Section::Site)
    {
        definitions.insert(section.as_str().to_owned(), mapping(section));
    }
    let mut whole = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of snbb-scheduler",
    });
    if let (Some(whole), Value::Object(top)) = (whole.as_object_mut(), mapping(Section::Site)) {
        whole.extend(top);
        // An empty file is one with all the defaults.
        whole.insert("type".to_owned(), json!(["object", "null"]));
        whole.insert("definitions".to_owned(), Value::Object(definitions));
    }
    whole
}

/// Describes a mapping with known keys.
fn mapping(section: Section) -> Value {
    let properties: Map<String, Value> = section
        .keys()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<&str> = section
        .keys()
        .filter(|key| key.default == Fallback::Required)
        .map(|key| key.name)
        .collect();
    let mut mapping = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if let Some(mapping) = mapping.as_object_mut().filter(|_| !required.is_empty()) {
        mapping.insert("required".to_owned(), json!(required));
    }
    mapping
}

fn property(key: &Key) -> Value {
    let default = match key.default {
        Fallback::Required => " (required)".to_owned(),
        default => default
            .words()
            .map(|words| format!(" (default: {words})"))
            .unwrap_or_default(),
    };
    let description = format!("{}{default}", key.doc);
    let value = match may_be_none(key) {
        true if is_single(key.kind) => any_of(vec![form(key.kind), none()]),
        true => any_of(vec![form(key.kind), json!({"type": "null"})]),
        false => form(key.kind),
    };
    match value {
        Value::Object(mut value) if !value.contains_key("$ref") => {
            value.insert("description".to_owned(), json!(description));
            Value::Object(value)
        }
        // Beside a `$ref` nothing else counts in draft 7.
        value => json!({"description": description, "allOf": [value]}),
    }
}

/// Describes what may be written after a key of this kind, nothing aside.
fn form(kind: Kind) -> Value {
    let section = |section: Section| json!({"$ref": format!("#/definitions/{}", section.as_str())});
    match kind {
        Kind::Whole { least, most } => any_of(vec![whole(least, most), digits(least)]),
        Kind::Factor => any_of(vec![
            json!({"type": "number", "minimum": 1, "maximum": 100}),
            pattern("^[+]?[0-9.]+([eE][+-]?[0-9]+)?$"),
        ]),
        Kind::Percent => any_of(vec![
            json!({"type": "number", "minimum": 0, "maximum": 100}),
            pattern("^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\\s*%?$"),
        ]),
        Kind::Hours => any_of(vec![
            json!({"type": "number", "minimum": 0, "maximum": 24 * 36_525}),
            pattern("^[0-9]+([.][0-9]+)?$"),
        ]),
        Kind::Duration => any_of(vec![
            json!({"const": 0}),
            pattern("^(0|[0-9]+([.][0-9]+)?\\s*[smhd])$"),
        ]),
        Kind::Size => sized("^[0-9]+([KkMmGgTt]([Ii]?[Bb])?)?$"),
        Kind::Memory => sized("^[0-9]+([Kk]|[Mm]|[Gg]|[Tt])?[Bb]?$"),
        Kind::Time => sized(TIME),
        Kind::Flag => flag(),
        Kind::Choice(words) => one_of(words),
        Kind::Text | Kind::Address | Kind::Path => text(),
        Kind::Word => written("^\\S+$"),
        Kind::Scalar => scalar(),
        Kind::Name => positive(written("^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$")),
        Kind::Project => written("^[A-Za-z0-9_.-]{1,32}$"),
        Kind::Variable => any_of(vec![
            pattern("^[A-Za-z_][A-Za-z0-9_]*$"),
            json!({"type": "boolean"}),
        ]),
        Kind::Regex => written("^[\\s\\S]"),
        Kind::PromFile => pattern("(\\.prom|\\})$"),
        Kind::OutputDir => any_of(vec![
            pattern(&format!(
                "^(?![/~]){NO_PARENT}([^\\n\\r\\t]*\\S[^\\n\\r\\t]*)?$"
            )),
            json!({"type": ["number", "boolean"]}),
        ]),
        Kind::Script => positive(written("^(?!-)(?!.*/$)[^\\n\\r\\t]*[^\\s][^\\n\\r\\t]*$")),
        Kind::Pattern => glob(),
        Kind::List(Kind::Choice(words)) => any_of(vec![
            one_of(words),
            json!({"type": "array", "minItems": 1, "items": one_of(words)}),
        ]),
        Kind::List(item) => list(form(*item), true),
        Kind::Mapping(name) => section(name),
        Kind::Environment => json!({
            "type": "object",
            "propertyNames": {"pattern": format!(
                "^(?!SLURM_|SBATCH_|({})$)[A-Za-z_][A-Za-z0-9_]*$",
                Variable::reserved().join("|")
            )},
            "additionalProperties": scalar(),
        }),
        Kind::Procedures => {
            json!({"type": "array", "minItems": 1, "items": section(Section::Procedure)})
        }
        Kind::Dependencies => list(any_of(vec![scalar(), section(Section::Dependency)]), true),
        Kind::Markers => list(any_of(vec![glob(), section(Section::Marker)]), true),
        Kind::LogPatterns => list(section(Section::LogPattern), false),
        Kind::SbatchArgs => any_of(vec![
            // The first is an option; a later one may be the value of the one before it.
            json!({"type": "array", "items": [pattern("^-")], "additionalItems": text()}),
            none(),
        ]),
        Kind::Entries { least } => any_of(vec![
            text(),
            json!({"type": "array", "minItems": least, "items": written(ENTRY)}),
        ]),
        Kind::Reasons => reasons(),
        Kind::Retries => any_of(vec![off(), section(Section::Retry)]),
    }
}

/// A subject, or a session of one; with or without prefixes and wildcards.
const ENTRY: &str = "^(?!ses-)(sub-)?[A-Za-z0-9+*?!^\\[\\]-]+(/[A-Za-z0-9+*?!^\\[\\]-]+)?$";

/// sbatch(1), `--time`.
const TIME: &str = "^([0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}|[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd]|\
                    [Ii][Nn][Ff][Ii][Nn][Ii][Tt][Ee])$";

/// Forbids a component `..`.
const NO_PARENT: &str = "(?!(.*/)?\\.\\.(/|$))";

/// True if an empty value is the same as none, or as the default.
fn may_be_none(key: &Key) -> bool {
    match (key.kind, key.default) {
        (Kind::OutputDir, _) => true,
        (Kind::Path, Fallback::Is(_)) | (_, Fallback::Required) => false,
        (Kind::Procedures | Kind::List(Kind::Choice(_)), _) => false,
        _ => true,
    }
}

/// True if an empty text is as good as nothing.
fn is_single(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::List(_)
            | Kind::Mapping(_)
            | Kind::Environment
            | Kind::Procedures
            | Kind::Dependencies
            | Kind::LogPatterns
            | Kind::SbatchArgs
            | Kind::Reasons
    )
}

fn none() -> Value {
    json!({"enum": [null, ""]})
}

/// Accepts whatever is no mapping, list or nothing: values are taken as they are written.
fn scalar() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

/// Accepts a text of one line.
fn text() -> Value {
    written("^[^\\n\\r\\t]*\\S[^\\n\\r\\t]*$")
}

/// Accepts a text of a form, also where YAML takes it for a number or a truth value.
fn written(regex: &str) -> Value {
    json!({"type": ["string", "number", "boolean"], "pattern": regex})
}

/// Accepts a text of a form that YAML takes for a text.
fn pattern(regex: &str) -> Value {
    json!({"type": "string", "pattern": regex})
}

fn digits(least: u64) -> Value {
    match least {
        0 => pattern("^[+]?(0|[1-9][0-9]*)$"),
        _ => pattern("^[+]?[1-9][0-9]*$"),
    }
}

/// Takes numbers below zero away from what is written.
fn positive(mut form: Value) -> Value {
    if let Some(form) = form.as_object_mut() {
        form.insert("minimum".to_owned(), json!(0));
    }
    form
}

fn whole(least: u64, most: u64) -> Value {
    match most {
        u64::MAX => json!({"type": "integer", "minimum": least}),
        _ => json!({"type": "integer", "minimum": least, "maximum": most}),
    }
}

/// Accepts a whole number, or a text of this form.
fn sized(regex: &str) -> Value {
    any_of(vec![whole(0, u64::MAX), pattern(regex)])
}

fn flag() -> Value {
    any_of(vec![
        json!({"type": "boolean"}),
        json!({"enum": [0, 1]}),
        json!({"type": "string", "pattern": format!("^({}|{})$", any_case(&["yes", "on", "true", "1"]), any_case(&NO))}),
    ])
}

const NO: [&str; 4] = ["no", "off", "false", "0"];

fn off() -> Value {
    any_of(vec![
        json!({"enum": [false, 0]}),
        json!({"type": "string", "pattern": format!("^({})$", any_case(&NO))}),
    ])
}

/// Writes words for a regular expression of JavaScript, which has no sign for "any case".
fn any_case(words: &[&str]) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{c}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    let words: Vec<String> = words
        .iter()
        .map(|word| word.chars().map(letter).collect())
        .collect();
    words.join("|")
}

fn one_of(words: &[&str]) -> Value {
    json!({"enum": words})
}

/// Accepts a relative pattern that does not leave its directory.
fn glob() -> Value {
    let glued = "(?!.*[^/]\\*\\*)(?!.*\\*\\*[^/])";
    let braces = "(?=([^{}]|\\{subject\\}|\\{session\\})*$)";
    json!({
        "type": ["string", "number", "boolean"],
        "pattern": format!("^(?!/){NO_PARENT}{glued}{braces}(?=.*([^./]|[.]{{3}})).+$"),
        "maxLength": 1000,
    })
}

/// Accepts a list of something, or nothing (an empty list), or one alone.
fn list(item: Value, one_alone: bool) -> Value {
    let mut forms = vec![
        json!({"type": "array", "items": item.clone()}),
        json!({"type": "null"}),
    ];
    if one_alone {
        forms.push(item);
    }
    any_of(forms)
}

/// Accepts the reasons that are tried again. `codes` is for one of them only.
fn reasons() -> Value {
    let names: Vec<&str> = Reason::ALL
        .iter()
        .filter(|reason| reason.fits(TaskStatus::Failed))
        .map(|reason| reason.as_str())
        .collect();
    let rule = json!({"$ref": format!("#/definitions/{}", Section::RetryRule.as_str())});
    let rules: Map<String, Value> = names
        .iter()
        .map(|name| {
            let rule = match *name {
                "exit_code" => rule.clone(),
                _ => json!({"allOf": [rule, {"not": {"required": ["codes"]}}]}),
            };
            (
                (*name).to_owned(),
                any_of(vec![rule, json!({"type": "null"})]),
            )
        })
        .collect();
    any_of(vec![
        json!({"type": "object", "additionalProperties": false, "properties": rules}),
        json!({"type": "array", "items": one_of(&names)}),
        one_of(&names),
    ])
}

/// Joins alternatives; those that are alternatives themselves are taken apart.
fn any_of(forms: Vec<Value>) -> Value {
    let mut flat: Vec<Value> = Vec::new();
    for form in forms {
        let inner = match &form {
            Value::Object(map) if map.len() == 1 => {
                map.get("anyOf").and_then(Value::as_array).cloned()
            }
            _ => None,
        };
        for form in inner.unwrap_or_else(|| vec![form]) {
            if !flat.contains(&form) {
                flat.push(form);
            }
        }
    }
    json!({ "anyOf": flat })
}

/// Writes a section's table as Markdown.
pub fn markdown(section: Section) -> String {
    let mut table = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in section.keys() {
        let cell = |text: &str| text.replace('|', "\\|");
        let default = key.default.words().unwrap_or_else(|| "none".to_owned());
        let (kind, default, doc) = (cell(&key.kind.words()), cell(&default), cell(key.doc));
        writeln!(table, "| `{}` | {kind} | {default} | {doc} |", key.name).unwrap();
    }
    table
}
