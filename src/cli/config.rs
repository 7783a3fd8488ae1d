//! `config show`: every effective value with its origin. Reads only the configuration.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::args::{ConfigCommand, Global, TextFormat};
use super::context::read_config;
use super::{Exit, Format, Printer, Result, Selection, TableError, maybe};
use crate::config::keys::Fallback;
use crate::config::load::FILE_VARIABLE;
use crate::config::{Origin, Setting};
use crate::show::tables::{frame, texts};

pub(super) fn run(global: &Global, command: &ConfigCommand, printer: &mut Printer) -> Result<Exit> {
    let ConfigCommand::Show(args) = command;
    let (config, mut settings) = read_config(global)?;
    printer.warnings(&config.warnings);
    let procedures = config.procedures.iter();
    let names: Vec<&str> = procedures.map(|(_, one)| &*one.name).collect();
    let selection = Selection::new(&[], &[], &args.procedures, &names)?;
    settings.retain(|setting| {
        let procedure = setting.procedure.as_deref();
        selection.is_everything()
            || procedure.is_some_and(|name| selection.contains_procedure(name))
    });
    // Procedures come last although they are in the middle of the table of keys.
    settings.sort_by_key(|setting| setting.procedure.is_some());
    let file = config.file.as_deref();
    match args.format {
        TextFormat::Json => {
            let list = settings.iter().map(|setting| object(setting, file));
            let list: Vec<Json> = list.collect();
            let text = serde_json::to_string_pretty(&list).map_err(TableError::from)?;
            printer.line(&text);
        }
        TextFormat::Text => {
            printer.info(&match (file, &global.config) {
                (None, _) => "no configuration file: using the built-in defaults".to_owned(),
                (Some(file), Some(_)) => format!("{} (--config)", file.display()),
                (Some(file), None) => format!("{} ({FILE_VARIABLE})", file.display()),
            });
            let all = || settings.iter();
            let table = frame(vec![
                texts("key", all().map(|one| Some(&one.path))),
                texts("value", all().map(|one| text(&one.value))),
                texts("origin", all().map(|one| Some(origin(one, file)))),
            ])?;
            printer.frame(&table, Format::Table, &[], &[])?;
        }
    }
    Ok(Exit::Done)
}

/// A value as it could be written; `None` if there is none.
fn text(value: &Json) -> Option<String> {
    let inner = |value: &Json| text(value).unwrap_or_default();
    let joined = |parts: Vec<String>| parts.join(", ");
    Some(match value {
        Json::Null => return None,
        Json::Bool(true) => "yes".to_owned(),
        Json::Bool(false) => "no".to_owned(),
        Json::String(text) if !text.is_empty() => text.clone(),
        Json::String(_) | Json::Number(_) => value.to_string(),
        Json::Array(list) => format!("[{}]", joined(list.iter().map(inner).collect())),
        Json::Object(map) => {
            let pairs = map.iter();
            let pairs = pairs.map(|(name, value)| format!("{name}: {}", inner(value)));
            format!("{{{}}}", joined(pairs.collect()))
        }
    })
}

fn origin(setting: &Setting, file: Option<&Path>) -> String {
    let name = file.and_then(Path::file_name).unwrap_or_default();
    let line = |line: u32| format!("{}:{line}", name.to_string_lossy());
    let text = match &setting.origin {
        Origin::Default => match setting.known.default {
            Fallback::Words(words) if setting.value.is_null() => {
                format!("default: {}", words.replace('`', ""))
            }
            _ => "default".to_owned(),
        },
        Origin::Option(option) => (*option).to_owned(),
        Origin::Variable { name, line: at } => format!("${name} ({})", line(*at)),
        Origin::File {
            line: at,
            variables,
        } => {
            let variables = variables.iter().map(|name| format!(", ${name}"));
            line(*at) + &variables.collect::<String>()
        }
    };
    text + &maybe(" (", setting.from, ")")
}

fn object(setting: &Setting, file: Option<&Path>) -> Json {
    let none: &[String] = &[];
    let (word, line, option, variables) = match &setting.origin {
        Origin::Default => ("default", None, None, none),
        Origin::Option(option) => ("option", None, Some(*option), none),
        Origin::Variable { name, line } => {
            ("variable", Some(*line), None, std::slice::from_ref(name))
        }
        Origin::File { line, variables } => ("file", Some(*line), None, &variables[..]),
    };
    json!({
        "key": setting.path,
        "procedure": setting.procedure,
        "value": setting.value,
        "origin": word,
        "file": line.and(file).map(Path::to_string_lossy),
        "line": line,
        "option": option,
        "variables": variables,
        "from": setting.from,
    })
}
