//! `completion_marker` and `forbid`: from what is written to a rule.

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::procedure::marker::{Base, CompletionRule, Count, Marker, Pattern, Required};
use crate::model::procedure::template;

/// Reads the rule of a procedure.
pub(super) fn rule(procedure: &Fields<'_>) -> CompletionRule {
    CompletionRule {
        required: procedure
            .get("completion_marker")
            .map(|value| required(&value))
            .unwrap_or_default(),
        forbid: procedure.list("forbid", pattern),
    }
}

fn required(value: &Value<'_>) -> Required {
    if value.is_null() {
        return Required::NonEmptyDirectory;
    }
    let entries = value.one_or_more();
    if entries.is_empty() || value.is_empty_text() {
        value.warn(
            "is empty: taken as \"the output directory is not empty\" (the Python program was \
             content with a directory); write null to say so",
        );
        return Required::NonEmptyDirectory;
    }
    Required::Markers(entries.iter().filter_map(marker).collect())
}

fn marker(value: &Value<'_>) -> Option<Marker> {
    if !value.is_mapping() {
        return pattern(value).map(Marker::new);
    }
    let fields = value.fields(Section::Marker)?;
    let pattern = fields.required(
        "glob",
        "it names the files, such as 'anat/*_T1w.nii.gz'",
        pattern,
    );
    let min_size = fields.maybe("min_size", Value::size);
    let contains = fields.maybe("contains", Value::scalar);
    let not_contains = fields.maybe("not_contains", Value::scalar);
    let when = fields.list("when", self::pattern);
    let base: Base = fields.or("base", Value::choice);
    let min_count = fields.or("min_count", Value::whole);
    let count = fields.maybe("count", Value::choice::<Count>);
    if count.is_some() && when.is_empty() {
        value.problem_with(
            "count: input counts what `when` matches, and there is no `when`",
            "write the input files in `when`, such as 'func/*_bold.nii.gz'",
        );
    }
    if let Some(pattern) = pattern.as_ref().filter(|_| base != Base::Task)
        && !template::has_subject(pattern.as_str())
    {
        value.problem_with(
            format!("{} is looked for in a directory of all subjects, and does not say whose file it is", quote(pattern.as_str())),
            "write {subject} in it, such as '{subject}.html'",
        );
    }
    let usual = Marker::new(pattern?);
    Some(Marker {
        min_size: min_size.unwrap_or(usual.min_size),
        contains,
        not_contains,
        when,
        base,
        min_count,
        count,
        ..usual
    })
}

fn pattern(value: &Value<'_>) -> Option<Pattern> {
    // No path of a file system is longer; a matcher for more would not be small.
    const LONGEST: usize = 1000;
    let text = value.raw("a pattern such as 'anat/*_T1w.nii.gz'")?;
    if text.contains(char::is_control) {
        value.problem(format!("{} holds a control character", quote(text)));
        return None;
    }
    if text.len() > LONGEST {
        value.problem(format!("{} is longer than {LONGEST} bytes", quote(text)));
        return None;
    }
    value.parse("a pattern", Pattern::parse)
}
