//! How tasks are submitted and submitted again: retry rules, pauses, arrays. The site's values are
//! the defaults of its procedures.

use std::collections::BTreeMap;

use super::duration;
use super::keys::Section;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::procedure::{ArrayMode, MemSize, RetryRule, RetryRules, SubmitRules, TimeLimit};
use crate::model::state::{Reason, TaskStatus};

/// A factor above this is a slip of the pen.
const GREATEST_FACTOR: f64 = 100.0;

/// Reads the rules that stand in a mapping (the top of the file, or a procedure); what is not
/// written is as in `default`.
pub(super) fn read(fields: &Fields<'_>, default: &SubmitRules) -> SubmitRules {
    let count = |value: &Value<'_>| value.whole(1, u64::from(u32::MAX));
    let modes = [
        ("never", ArrayMode::Never),
        ("auto", ArrayMode::Auto),
        ("always", ArrayMode::Always),
    ];
    SubmitRules {
        // The site's own one counts all procedures together.
        max_in_flight: None,
        retry: match fields.setting("retry", retry) {
            Some(rules) => rules.flatten(),
            None => default.retry.clone(),
        },
        pause_after_failures: match fields.maybe("pause_after_failures", |value| {
            value.whole(0, u64::from(u32::MAX))
        }) {
            Some(0) => None,
            Some(count) => Some(count),
            None => default.pause_after_failures,
        },
        warmup: fields
            .maybe("warmup", |value| value.whole(0, u64::from(u32::MAX)))
            .unwrap_or(default.warmup),
        array: fields
            .maybe("array", |value| value.choice(&modes))
            .unwrap_or(default.array),
        array_throttle: fields
            .maybe("array_throttle", count)
            .or(default.array_throttle),
        ..default.clone()
    }
}

/// The inner none: `off`.
fn retry(value: &Value<'_>) -> Option<Option<RetryRules>> {
    if !value.is_mapping() {
        return match value.flag() {
            Some(false) => Some(None),
            Some(true) => {
                value.problem_with(
                    "does not say what is to be tried again",
                    "write 'retry: {on: [node_fail, preempted]}', or 'off'",
                );
                None
            }
            None => None,
        };
    }
    let fields = value.fields(Section::Retry)?;
    let hint = "name the reasons that are tried again, such as 'on: [node_fail, preempted]'";
    let on = fields.required("on", hint, on);
    let rules = RetryRules {
        max_attempts: fields.or("max_attempts", RetryRules::MAX_ATTEMPTS, |value| {
            value.whole(1, 1000)
        }),
        max_infrastructure: fields.or(
            "max_infrastructure",
            RetryRules::MAX_INFRASTRUCTURE,
            |value| value.whole(0, 1000),
        ),
        on: on.clone().unwrap_or_default(),
    };
    Some(Some(rules)).filter(|_| on.is_some())
}

/// Reads reasons with their rules, or a plain list of reasons.
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
        let Some(reason) = reason(&value, name) else {
            continue;
        };
        let rule = if value.is_null() {
            Some(RetryRule::default())
        } else {
            rule(&value, reason)
        };
        rules.insert(reason, rule.unwrap_or_default());
    }
    Some(rules)
}

fn reason(value: &Value<'_>, name: &str) -> Option<Reason> {
    let failures = || {
        Reason::ALL
            .iter()
            .filter(|reason| reason.fits(TaskStatus::Failed))
    };
    let found = failures().find(|reason| reason.as_str() == name);
    if found.is_none() {
        let names: Vec<&str> = failures().map(|reason| reason.as_str()).collect();
        value.problem(format!(
            "{} is no reason of a failure, there are: {}",
            quote(name),
            names.join(", ")
        ));
    }
    found.copied()
}

fn rule(value: &Value<'_>, reason: Reason) -> Option<RetryRule> {
    let fields = value.fields(Section::RetryRule)?;
    let codes = fields.get("codes");
    if let Some(codes) = codes.as_ref().filter(|_| reason != Reason::ExitCode) {
        codes.problem("belongs to 'exit_code' only");
    }
    Some(RetryRule {
        mem_factor: fields.maybe("mem_factor", factor),
        mem_max: fields.maybe("mem_max", |value| {
            value.parse("a memory size such as 128G", MemSize::parse)
        }),
        time_factor: fields.maybe("time_factor", factor),
        time_max: fields.maybe("time_max", |value| {
            value.parse("a time limit such as 3-00:00:00", TimeLimit::parse)
        }),
        exclude_node: fields.or("exclude_node", false, Value::flag),
        codes: codes
            .map(|value| {
                let codes = value.one_or_more();
                codes.iter().filter_map(|code| code.whole(1, 255)).collect()
            })
            .unwrap_or_default(),
        delay: fields.maybe("delay", |value| {
            value.parse("a duration such as 1h", duration::parse)
        }),
    })
}

fn factor(value: &Value<'_>) -> Option<f64> {
    value.parse("a number such as 1.5", |text| {
        text.parse()
            .ok()
            .filter(|factor| (1.0..=GREATEST_FACTOR).contains(factor))
            .ok_or_else(|| {
                format!(
                    "{} is not a number from 1 to {GREATEST_FACTOR}",
                    quote(text)
                )
            })
    })
}
