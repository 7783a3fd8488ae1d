//! The JSON Schema of the configuration, for editors: made from the one list of keys.
//!
//! It must never refuse what the program takes. What it cannot tell (a circle of dependencies, a variable
//! that is not set, a regular expression that does not compile) is left to the program.

use serde_json::{Map, Value, json};

use super::keys::{Key, Section};
use crate::model::config::notify::Occasion;
use crate::model::procedure::Variable;
use crate::model::state::{Reason, TaskStatus};

/// Makes the whole schema (draft 7, which all editors know).
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for section in Section::ALL
        .into_iter()
        .filter(|section| *section != Section::Site)
    {
        definitions.insert(section.word().to_owned(), mapping(section));
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
        .filter(|key| key.default == "required")
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
        "" | "none" => String::new(),
        "required" => " (required)".to_owned(),
        words if words.contains([' ', '`']) => format!(" (default: {words})"),
        value => format!(" (default: `{value}`)"),
    };
    let description = format!("{}{default}", key.doc);
    let value = value_of(key).unwrap_or_else(|| json!({}));
    let value = match may_be_none(key) {
        true if is_one_value(key) => any_of(vec![value, none()]),
        true => any_of(vec![value, json!({"type": "null"})]),
        false => value,
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

/// Says what may be written after a key, nothing aside. None: nobody has said it yet for this kind of value.
pub fn value_of(key: &Key) -> Option<Value> {
    let section = |section: Section| json!({"$ref": format!("#/definitions/{}", section.word())});
    Some(match (key.section, key.name, key.kind) {
        (Section::Procedure, "name", _) => positive(written("^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$")),
        (_, "project", _) => written("^[A-Za-z0-9_.-]{1,32}$"),
        (_, "smtp_password" | "contains" | "not_contains", _)
        | (Section::Dependency, "name", _) => scalar(),
        (_, "smtp_host" | "gres" | "qos", _) => word(),
        (_, "smtp_password_env", _) => any_of(vec![
            pattern("^[A-Za-z_][A-Za-z0-9_]*$"),
            json!({"type": "boolean"}),
        ]),
        (_, "audit", "mapping") => section(Section::Audit),
        (_, "safety", "mapping") => section(Section::Safety),
        (_, "notify", "mapping") => section(Section::Notify),
        (_, "env", "mapping") => json!({
            "type": "object",
            "propertyNames": {"pattern": format!(
                "^(?!SLURM_|SBATCH_|({})$)[A-Za-z_][A-Za-z0-9_]*$",
                Variable::reserved().join("|")
            )},
            "additionalProperties": scalar(),
        }),
        (_, _, "path") => text(),
        (_, _, "path or file name") => {
            positive(written("^(?!-)(?!.*/$)[^\\n\\r\\t]*[^\\s][^\\n\\r\\t]*$"))
        }
        (_, _, "path that ends with `.prom`") => pattern("(\\.prom|\\})$"),
        (_, _, "relative path") => any_of(vec![
            pattern(&format!(
                "^(?![/~]){NO_PARENT}([^\\n\\r\\t]*\\S[^\\n\\r\\t]*)?$"
            )),
            json!({"type": ["number", "boolean"]}),
        ]),
        (_, _, "text") => text(),
        (_, _, "regular expression") => written("^[\\s\\S]"),
        (_, _, "text, or empty for none") => any_of(vec![word(), none()]),
        (_, _, "address") => text(),
        (_, _, "list of addresses") => list(text(), true),
        (_, _, "yes or no" | "`yes` or `no`" | "`on` or `off`") => flag(),
        (_, "stale_job_threshold_hours", _) => any_of(vec![
            json!({"type": "number", "minimum": 0, "maximum": 24 * 36_525}),
            pattern("^[0-9]+([.][0-9]+)?$"),
        ]),
        (_, _, "duration") => pattern("^[0-9]+([.][0-9]+)?\\s*[smhd]$"),
        (_, _, "memory size") => any_of(vec![
            whole(0, None),
            pattern("^[0-9]+([Kk]|[Mm]|[Gg]|[Tt])?[Bb]?$"),
        ]),
        (_, _, "time limit of Slurm") => any_of(vec![whole(0, None), pattern(TIME)]),
        (_, _, kind) if kind.starts_with("bytes, or a size") => any_of(vec![
            whole(0, None),
            pattern("^[0-9]+([KkMmGgTt]([Ii]?[Bb])?)?$"),
        ]),
        (_, _, "percentage") => any_of(vec![
            json!({"type": "number", "minimum": 0, "maximum": 100}),
            pattern("^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\\s*%?$"),
        ]),
        (_, _, "number from 1") => any_of(vec![
            json!({"type": "number", "minimum": 1, "maximum": 100}),
            pattern("^[+]?[0-9.]+([eE][+-]?[0-9]+)?$"),
        ]),
        (_, name, kind) if kind == "number" || kind.starts_with("number, 0 for") => {
            let (least, most) = limits(key.section, name);
            any_of(vec![whole(least, most), digits(least)])
        }
        (_, _, "list of numbers") => list(any_of(vec![whole(1, Some(255)), digits(1)]), true),
        (_, _, "list of procedures") => {
            json!({"type": "array", "minItems": 1, "items": section(Section::Procedure)})
        }
        (_, _, "list of names") => list(any_of(vec![scalar(), section(Section::Dependency)]), true),
        (_, _, "pattern") => glob(),
        (_, _, "list of patterns") => list(glob(), true),
        (_, _, "pattern, or list of patterns") => {
            list(any_of(vec![glob(), section(Section::Marker)]), true)
        }
        (_, _, "list of patterns, see below") => list(section(Section::LogPattern), false),
        (_, _, "list of options") => any_of(vec![
            // The first is an option; a later one may be the value of the one before it.
            json!({"type": "array", "items": [pattern("^-")], "additionalItems": text()}),
            none(),
        ]),
        (_, _, "list of words, see below") => {
            json!({"anyOf": [
                one_of(&Occasion::ALL.map(Occasion::as_str)),
                {"type": "array", "minItems": 1, "items": one_of(&Occasion::ALL.map(Occasion::as_str))},
            ]})
        }
        (_, name, "list, or path of a file") => {
            let least = usize::from(name == "include");
            any_of(vec![
                text(),
                json!({"type": "array", "minItems": least, "items": written(ENTRY)}),
            ])
        }
        (_, _, "mapping of reasons, or list") => reasons(),
        (_, _, "mapping, see below, or `off`") => any_of(vec![off(), section(Section::Retry)]),
        (_, _, kind) if kind.starts_with('`') => {
            let words: Vec<&str> = kind.split('`').skip(1).step_by(2).collect();
            one_of(&words)
        }
        _ => return None,
    })
}

/// A subject, or a session of one; with or without prefixes and wildcards.
const ENTRY: &str = "^(?!ses-)(sub-)?[A-Za-z0-9+*?!^\\[\\]-]+(/[A-Za-z0-9+*?!^\\[\\]-]+)?$";

/// sbatch(1), `--time`.
const TIME: &str = "^([0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}|[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd]|\
                    [Ii][Nn][Ff][Ii][Nn][Ii][Tt][Ee])$";

/// Forbids a component `..`.
const NO_PARENT: &str = "(?!(.*/)?\\.\\.(/|$))";

/// Says how large a number may be; none: as large as the program can count.
fn limits(section: Section, name: &str) -> (u64, Option<u64>) {
    match (section, name) {
        (_, "local_jobs") => (1, Some(4096)),
        (_, "max_cpus") => (1, Some(65_536)),
        (_, "slurm_cpus_per_task" | "cpus_per_task") => (0, Some(65_536)),
        (_, "scan_threads") => (1, Some(512)),
        (_, "warmup" | "pause_after_failures") => (0, Some(u32::MAX.into())),
        (_, "dicom_min_files") => (0, None),
        (_, "smtp_port") => (1, Some(65_535)),
        (_, "min_sessions") => (1, Some(100_000)),
        (_, "max_attempts") => (1, Some(1000)),
        (_, "max_infrastructure") => (0, Some(1000)),
        _ => (1, Some(u32::MAX.into())),
    }
}

/// True if an empty value is the same as none, or as the default.
fn may_be_none(key: &Key) -> bool {
    match (key.section, key.name) {
        (_, "procedures") | (Section::Dependency, _) => false,
        (Section::Site, "state_file" | "dicom_root" | "bids_root" | "derivatives_root") => false,
        (Section::Notify | Section::Retry, "on") => false,
        (Section::Procedure, "output_dir") => true,
        _ => key.default != "required",
    }
}

/// True if an empty text is as good as nothing.
fn is_one_value(key: &Key) -> bool {
    key.name == "retry" || !(key.kind.starts_with("mapping") || key.kind.starts_with("list of"))
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

fn word() -> Value {
    written("^\\S+$")
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

fn whole(least: u64, most: Option<u64>) -> Value {
    match most {
        Some(most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        None => json!({"type": "integer", "minimum": least}),
    }
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
    json!({
        "type": ["string", "number", "boolean"],
        "pattern": format!("^(?!/){NO_PARENT}{glued}(?=.*([^./]|[.]{{3}})).+$"),
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
    let rule = json!({"$ref": format!("#/definitions/{}", Section::RetryRule.word())});
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::KEYS;

    #[test]
    fn what_may_be_written_after_each_key_is_known() {
        let unknown: Vec<String> = KEYS
            .iter()
            .filter(|key| value_of(key).is_none())
            .map(|key| format!("{:?} {}: {}", key.section, key.name, key.kind))
            .collect();
        assert_eq!(unknown, [""; 0], "say it in config/schema.rs");
    }
}
