//! Submission rules of a procedure: retries, pauses, arrays.

use std::collections::BTreeMap;

use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::procedure::{RetryRule, RetryRules, SubmitRules};
use crate::model::state::{Reason, TaskStatus};

pub(super) fn read(procedure: &Fields<'_>) -> SubmitRules {
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
