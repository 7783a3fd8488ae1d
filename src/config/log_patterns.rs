//! `audit.log_patterns`: error patterns of a site for job logs.

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::config::LogPattern;

pub(super) fn read(audit: &Fields<'_>) -> Vec<LogPattern> {
    let Some(value) = audit.get("log_patterns") else {
        return Vec::new();
    };
    let items = value.items().unwrap_or_default();
    items.iter().filter_map(entry).collect()
}

fn entry(value: &Value<'_>) -> Option<LogPattern> {
    let fields = value.fields(Section::LogPattern)?;
    let name = fields.required("name", "add a short name for the report", Value::text);
    let hint = "add a pattern for a line of the log, such as 'ERROR 42:'";
    let regex = fields.required("regex", hint, |value| {
        value.parse("a regular expression", |text| {
            if text.is_empty() {
                return Err("is empty and would match every line".to_owned());
            }
            let problem = compile(&[text]).err();
            problem.map_or(Ok(text.to_owned()), |error| {
                let quoted = quote(text);
                Err(format!("{quoted} is not a regular expression: {error}"))
            })
        })
    });
    let hint = fields.maybe("hint", Value::text);
    Some(LogPattern {
        name: name?,
        regex: regex?,
        hint,
    })
}

/// Compiles expressions for logs. Without Unicode classes, because logs are bytes; letters outside ASCII still match
/// themselves. The error is one short sentence.
pub(crate) fn compile(expressions: &[&str]) -> Result<RegexSet, String> {
    let set = RegexSetBuilder::new(expressions).unicode(false).build();
    set.map_err(|error| {
        // The crate's message shows the expression with a marker first; the last line is the explanation.
        let text = error.to_string();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.unwrap_or("syntax error").trim();
        last.strip_prefix("error: ").unwrap_or(last).to_owned()
    })
}
