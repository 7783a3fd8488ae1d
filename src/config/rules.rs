//! The rules of a procedure: `completion_marker` and `forbid`, retries, pauses, arrays.

use std::collections::BTreeMap;

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::procedure::marker::{Base, CompletionRule, Count, Marker, Pattern, Required};
use crate::model::procedure::template::{has_session, has_subject};
use crate::model::procedure::{Check, Procedure, RetryRule, RetryRules, Scope, SubmitRules};
use crate::model::state::{Reason, TaskStatus};

pub(super) fn completion(procedure: &Fields<'_>) -> CompletionRule {
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
            "is empty, so any file in the output directory counts as complete (for the Python program, the directory itself was enough); write null to confirm this",
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
        "add a pattern for the files, such as 'anat/*_T1w.nii.gz'",
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
        value.problem(
            "'count: input' counts the files that match `when`, but `when` is not set (set it to a pattern for the input \
             files, such as 'func/*_bold.nii.gz')",
        );
    }
    if let Some(pattern) = pattern.as_ref().filter(|_| base != Base::Task)
        && !has_subject(pattern.as_str())
    {
        value.problem(format!(
            "{} must contain {{subject}}, because its directory is shared by all subjects (such as '{{subject}}.html')",
            quote(pattern.as_str())
        ));
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
    // Longer paths do not occur, and their matchers would need too much memory.
    const LONGEST: usize = 1000;
    let text = value.raw("a pattern such as 'anat/*_T1w.nii.gz'")?;
    if text.len() > LONGEST || text.contains(char::is_control) {
        let quoted = quote(text);
        return value.fail(format!(
            "{quoted} is longer than {LONGEST} bytes, or contains a control character"
        ));
    }
    value.parse("a pattern", Pattern::parse)
}

/// Checks that `output_dir`, markers and scope agree on the placeholders `{subject}` and `{session}`.
pub(super) fn check_placeholders(fields: &Fields<'_>, procedure: &Procedure) {
    let dir = procedure.output_dir.to_string_lossy();
    let markers: &[Marker] = match &procedure.completion.required {
        Required::Markers(markers) => markers,
        Required::NonEmptyDirectory => &[],
    };
    let patterns = markers
        .iter()
        .flat_map(|marker| std::iter::once(&marker.pattern).chain(&marker.when));
    let patterns = patterns.chain(&procedure.completion.forbid);
    let mut texts = std::iter::once(&*dir).chain(patterns.map(Pattern::as_str));
    // Each session has its own directory for `base: task`.
    let has_template = procedure.has_template();
    let is_own = |marker: &Marker| {
        has_session(marker.pattern.as_str()) || marker.base == Base::Task && !has_template
    };
    let distinguishes_sessions =
        has_session(&dir) || markers.iter().any(is_own) || markers.is_empty() && !has_template;
    let problems = [
        (
            procedure.scope == Scope::Subject && texts.any(has_session),
            "scope",
            "a path contains {session}, but a task with 'scope: subject' has no session (write '*' or 'ses-*' instead, or \
             set 'scope: session')",
        ),
        (
            procedure.scope == Scope::Session && !distinguishes_sessions,
            "completion_marker",
            "no path contains {session}, so all sessions of a subject would be complete at once (add {session} to \
             output_dir or to a marker, or set 'scope: subject')",
        ),
        (
            has_template && !has_subject(&dir),
            "output_dir",
            "contains {session} but not {subject}, so subjects would share the directory (write for example \
             'freesurfer/{subject}_{session}')",
        ),
        (
            has_template && procedure.check != Check::Markers,
            "output_dir",
            "the built-in checks do not support placeholders in output_dir (set 'check: markers' and list the required \
             files in completion_marker)",
        ),
    ];
    for (_, key, message) in problems.into_iter().filter(|(is_broken, ..)| *is_broken) {
        let value = fields.get(key).or_else(|| fields.get("output_dir"));
        if let Some(value) = value {
            value.problem(message);
        }
    }
}

pub(super) fn submission(procedure: &Fields<'_>) -> SubmitRules {
    let pause = procedure.or("pause_after_failures", Value::whole);
    SubmitRules {
        max_in_flight: procedure.maybe("max_in_flight", Value::whole),
        retry: procedure.maybe("retry", retry).flatten(),
        pause_after_failures: Some(pause).filter(|count| *count > 0),
        warmup: procedure.or("warmup", Value::whole),
        array: procedure.or("array", Value::choice),
        array_throttle: procedure.maybe("array_throttle", Value::whole),
        min_sessions: procedure.or("min_sessions", Value::whole),
        rerun_when_stale: procedure.or("rerun_when_stale", Value::flag),
        accept_outputs: procedure.or("accept_outputs", Value::flag),
    }
}

/// The inner `None` means `off`.
fn retry(value: &Value<'_>) -> Option<Option<RetryRules>> {
    if !value.is_mapping() {
        if !value.flag()? {
            return Some(None);
        }
        return value.fail(
            "must list the failures to retry (write 'retry: {on: [node_fail, preempted]}' or 'retry: off')",
        );
    }
    let fields = value.fields(Section::Retry)?;
    let hint = "list the reasons to retry, such as 'on: [node_fail, preempted]'";
    let on = fields.required("on", hint, on);
    let max_attempts = fields.or("max_attempts", Value::whole);
    let max_infrastructure = fields.or("max_infrastructure", Value::whole);
    Some(Some(RetryRules {
        max_attempts,
        max_infrastructure,
        on: on?,
    }))
}

/// Reads a mapping of reasons to rules, or a list of reasons.
fn on(value: &Value<'_>) -> Option<BTreeMap<Reason, RetryRule>> {
    if !value.is_mapping() {
        let names = value.one_or_more();
        return names
            .iter()
            .map(|name| Some((reason(name, name.raw("a reason")?)?, RetryRule::default())))
            .collect();
    }
    let mut rules = BTreeMap::new();
    for (name, value) in value.pairs()? {
        if let Some(reason) = reason(&value, name) {
            let rule = (!value.is_null()).then(|| rule(&value, reason));
            rules.insert(reason, rule.flatten().unwrap_or_default());
        }
    }
    Some(rules)
}

fn reason(value: &Value<'_>, name: &str) -> Option<Reason> {
    let fits = |reason: &Reason| reason.fits(TaskStatus::Failed);
    let found = name.parse().ok().filter(fits);
    found.or_else(|| {
        let names = Reason::ALL.into_iter().filter(fits);
        let names: Vec<&str> = names.map(|reason| reason.as_str()).collect();
        value.fail(format!(
            "{} is not a failure reason (available: {})",
            quote(name),
            names.join(", ")
        ))
    })
}

fn rule(value: &Value<'_>, reason: Reason) -> Option<RetryRule> {
    let fields = value.fields(Section::RetryRule)?;
    if let Some(codes) = fields.get("codes").filter(|_| reason != Reason::ExitCode) {
        codes.problem("is only allowed for 'exit_code'");
    }
    Some(RetryRule {
        mem_factor: fields.maybe("mem_factor", Value::factor),
        mem_max: fields.maybe("mem_max", Value::memory),
        time_factor: fields.maybe("time_factor", Value::factor),
        time_max: fields.maybe("time_max", Value::time),
        exclude_node: fields.or("exclude_node", Value::flag),
        codes: fields.list("codes", Value::whole),
        delay: fields.maybe("delay", Value::duration),
    })
}
