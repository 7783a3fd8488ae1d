//! Rules against rows as tables, and random lives of a task.

use proptest::prelude::*;

use super::*;
use crate::model::procedure::{MemSize, TimeLimit};
use crate::model::state::testing::{at, row};
use crate::model::state::{JobFacts, RetryState};

fn rules(on: &[(Reason, RetryRule)]) -> RetryRules {
    RetryRules {
        max_attempts: 3,
        max_infrastructure: 5,
        on: on.iter().cloned().collect(),
    }
}

fn failed(reason: Reason) -> TaskRow {
    let mut row = row("a", TaskStatus::Failed, reason);
    row.facts.ended_at = Some(at(0));
    row
}

fn after(minutes: i64) -> DateTime<Utc> {
    at(0) + TimeDelta::minutes(minutes)
}

fn mem(text: &str) -> MemSize {
    MemSize::parse(text).unwrap()
}

#[test]
fn nothing_is_retried_without_a_rule() {
    let listed = rules(&[(Reason::Timeout, RetryRule::default())]);
    let outlook_of =
        |rules: Option<&RetryRules>, row: &TaskRow| outlook(rules, row, Some(1000), after(0));
    assert_eq!(outlook_of(None, &failed(Reason::Timeout)), Outlook::None);
    assert_eq!(
        outlook_of(Some(&listed), &failed(Reason::NodeFail)),
        Outlook::None
    );
    assert_eq!(
        outlook_of(Some(&listed), &failed(Reason::Timeout)),
        Outlook::Now
    );
    let mut python = failed(Reason::Timeout);
    python.reason = None;
    assert_eq!(outlook_of(Some(&listed), &python), Outlook::None);
    let all = rules(
        &Reason::ALL
            .iter()
            .map(|reason| (*reason, RetryRule::default()))
            .collect::<Vec<_>>(),
    );
    for status in TaskStatus::ALL {
        for reason in Reason::ALL {
            if status != TaskStatus::Failed {
                assert_eq!(
                    outlook_of(Some(&all), &row("a", status, reason)),
                    Outlook::None
                );
            }
        }
    }
}

#[test]
fn the_owners_own_cancel_is_final() {
    let rules = rules(&[(Reason::Cancelled, RetryRule::default())]);
    for (state, own, expected) in [
        (Some("CANCELLED by 0"), Some(1000), Outlook::Now),
        (Some("CANCELLED by 1001"), Some(1000), Outlook::Now),
        (Some("CANCELLED by 1000"), Some(1000), Outlook::None),
        // 20.11 prints large uids so.
        (Some("CANCELLED by -2"), Some(4_294_967_294), Outlook::None),
        (Some("CANCELLED by -3"), Some(4_294_967_294), Outlook::Now),
        (Some("CANCELLED"), Some(1000), Outlook::None),
        (Some("CANCELLED by root"), Some(1000), Outlook::None),
        (Some("CANCELLED by"), Some(1000), Outlook::None),
        (Some("CANCELLED by 0"), None, Outlook::None),
        (None, Some(1000), Outlook::None),
    ] {
        let mut row = failed(Reason::Cancelled);
        row.facts.slurm_state = state.map(Into::into);
        assert_eq!(
            outlook(Some(&rules), &row, own, after(0)),
            expected,
            "{state:?} {own:?}"
        );
    }
}

#[test]
fn exit_codes_are_compared_as_in_a_shell() {
    for (codes, text, expected) in [
        (vec![], Some("1:0"), true),
        (vec![], None, true),
        (vec![75], Some("75:0"), true),
        (vec![75], Some("1:0"), false),
        (vec![137], Some("0:9"), true),
        (vec![137], Some("137:0"), true),
        (vec![137], Some("9:0"), false),
        (vec![9], Some("9:0"), true),
        (vec![9], Some("0:9"), false),
        (vec![75], None, false),
        (vec![75], Some("75"), false),
        (vec![255], Some("0:200"), false),
        (vec![255], Some("0:127"), true),
    ] {
        let rule = RetryRule {
            codes: codes.clone(),
            ..RetryRule::default()
        };
        let mut row = failed(Reason::ExitCode);
        row.facts.exit_code = text.map(Into::into);
        let got = outlook(
            Some(&rules(&[(Reason::ExitCode, rule)])),
            &row,
            Some(1),
            after(0),
        );
        assert_eq!(got.is_retry(), expected, "{codes:?} {text:?}");
    }
}

#[test]
fn only_infrastructure_failures_back_off() {
    let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
    // reason, delay of the rule, retries of this kind before, minutes until it is due
    for (reason, delay, before, due) in [
        (Reason::Timeout, None, 0, 0),
        (Reason::Timeout, None, 1, 0),
        (Reason::ExitCode, minutes(60), 0, 60),
        (Reason::ExitCode, minutes(60), 1, 60),
        (Reason::NodeFail, None, 0, 1),
        (Reason::NodeFail, None, 1, 2),
        (Reason::NodeFail, None, 4, 16),
        (Reason::NodeFail, None, 8, 60),
        (Reason::NodeFail, None, 1000, 60),
        (Reason::Preempted, minutes(10), 1, 20),
        (Reason::Preempted, minutes(10), 3, 60),
        (Reason::BootFail, minutes(120), 0, 120),
        (Reason::BootFail, minutes(120), 3, 120),
        (Reason::LaunchFailed, minutes(0), 3, 0),
        (Reason::Dependency, None, 2, 4),
    ] {
        let rule = RetryRule {
            delay,
            ..RetryRule::default()
        };
        let rules = RetryRules {
            max_infrastructure: 2000,
            ..rules(&[(reason, rule)])
        };
        let mut row = failed(reason);
        if is_infrastructure(reason) {
            row.retry.infrastructure = before;
        } else {
            row.retry.retries = before;
        }
        let outlook_of = |now| outlook(Some(&rules), &row, Some(1), now);
        assert_eq!(
            outlook_of(after(due)),
            Outlook::Now,
            "{reason} {delay:?} {before}"
        );
        if due > 0 {
            let before_due = after(due) - TimeDelta::seconds(1);
            assert_eq!(outlook_of(before_due), Outlook::At(after(due)), "{reason}");
            // Without an end the row's last change counts, without both it is due.
            row.facts.ended_at = None;
            row.updated_at = Some(after(1));
            let outlook_of = |row: &TaskRow| outlook(Some(&rules), row, Some(1), after(0));
            assert_eq!(outlook_of(&row), Outlook::At(after(due + 1)));
            row.updated_at = None;
            assert_eq!(outlook_of(&row), Outlook::Now);
        }
    }
}

#[test]
fn each_kind_of_failure_has_its_own_budget() {
    let rules = rules(&[
        (Reason::Timeout, RetryRule::default()),
        (Reason::NodeFail, RetryRule::default()),
        (Reason::Dependency, RetryRule::default()),
    ]);
    let spent = |used, allowed, infrastructure| {
        Outlook::Spent(Budget {
            used,
            allowed,
            infrastructure,
        })
    };
    for (reason, retries, infrastructure, expected) in [
        (Reason::Timeout, 1, 5, Outlook::Now),
        (Reason::Timeout, 2, 0, spent(3, 3, false)),
        (Reason::Timeout, 7, 0, spent(8, 3, false)),
        (Reason::NodeFail, 2, 4, Outlook::Now),
        (Reason::NodeFail, 0, 5, spent(5, 5, true)),
        (Reason::Dependency, 2, 0, Outlook::Now),
        (Reason::Dependency, 2, 5, spent(5, 5, true)),
    ] {
        let mut row = failed(reason);
        row.retry.retries = retries;
        row.retry.infrastructure = infrastructure;
        let got = outlook(Some(&rules), &row, Some(1), after(10_000));
        assert_eq!(got, expected, "{reason} {retries} {infrastructure}");
    }
}

#[test]
fn factors_apply_to_slurms_values_up_to_their_maximum() {
    // Slurm says, configured, kept from before, factor, maximum, expected
    for (says, configured, kept, factor, most, expected) in [
        (Some(1000), Some("32G"), None, 1.5, None, Some(1500)),
        (None, Some("32G"), None, 1.5, None, Some(49_152)),
        (Some(0), Some("32G"), None, 2.0, None, Some(65_536)),
        (Some(-5), None, None, 2.0, None, None),
        (None, None, None, 2.0, None, None),
        (None, Some("0"), None, 2.0, None, None),
        (Some(1000), None, None, 1.5, Some("1200M"), Some(1200)),
        (Some(1000), None, None, 1.5, Some("1000M"), None),
        (Some(1000), None, None, 1.5, Some("500M"), None),
        (Some(1000), None, None, 1.5, Some("0"), Some(1500)),
        (Some(1001), None, None, 1.5, None, Some(1502)),
        (Some(1000), None, Some(1000), 1.0, None, Some(1000)),
        (Some(1000), None, Some(1000), 2.0, None, Some(2000)),
        (None, None, Some(1000), 2.0, None, Some(1000)),
        (Some(i64::MAX), None, None, 100.0, Some("1T"), None),
    ] {
        let rule = RetryRule {
            mem_factor: Some(factor),
            mem_max: most.map(mem),
            ..RetryRule::default()
        };
        let mut row = failed(Reason::OutOfMemory);
        row.facts.req_mem_mb = says;
        row.retry.mem_mb = kept;
        let configured = Resources {
            mem: configured.map(mem),
            ..Resources::default()
        };
        let next = next(&rules(&[(Reason::OutOfMemory, rule)]), &row, &configured);
        assert_eq!(next.mem_mb, expected, "{says:?} {kept:?} {factor} {most:?}");
        assert_eq!((next.retries, next.infrastructure), (1, 0));
    }
    let rule = RetryRule {
        time_factor: Some(2.0),
        time_max: Some(TimeLimit::parse("3-0").unwrap()),
        ..RetryRule::default()
    };
    let rules = rules(&[(Reason::Timeout, rule)]);
    for (says, configured, expected) in [
        (Some(3600), Some("9:00:00"), Some(7200)),
        (Some(200_000), None, Some(259_200)),
        (None, Some("UNLIMITED"), None),
        (None, Some("0"), None),
        (None, None, None),
    ] {
        let mut row = failed(Reason::Timeout);
        row.facts.time_limit_s = says;
        let configured = Resources {
            time: configured.map(|text| TimeLimit::parse(text).unwrap()),
            ..Resources::default()
        };
        assert_eq!(next(&rules, &row, &configured).time_s, expected, "{says:?}");
    }
}

#[test]
fn the_newest_failed_nodes_are_excluded_up_to_a_limit() {
    let rule = RetryRule {
        exclude_node: true,
        ..RetryRule::default()
    };
    let rules = rules(&[
        (Reason::NodeFail, rule),
        (Reason::Preempted, RetryRule::default()),
    ]);
    let mut state = RetryState::default();
    let fail = |state: &mut RetryState, reason, node: &str| {
        let mut row = failed(reason);
        row.retry = state.clone();
        row.facts.node_list = Some(node.into());
        *state = next(&rules, &row, &Resources::default());
    };
    for node in ["n1", "n[2-3]", "None assigned", "", "n1\nrm", "n 4", "n1"] {
        fail(&mut state, Reason::NodeFail, node);
    }
    assert_eq!(state.exclude, ["n[2-3]", "n1"]);
    fail(&mut state, Reason::Preempted, "n9");
    assert_eq!(state.exclude, ["n[2-3]", "n1"], "other retries keep them");
    for node in 10..20 {
        fail(&mut state, Reason::NodeFail, &format!("n{node}"));
    }
    assert_eq!(state.exclude.len(), MAX_EXCLUDED);
    assert_eq!(state.exclude.last().unwrap(), "n19");
    assert_eq!(state.infrastructure, 18);
}

/// One failure of a random life.
#[derive(Debug, Clone)]
struct Failure {
    reason: usize,
    code: u8,
    node: u8,
    by: u32,
    minutes: i64,
}

fn failures() -> impl Strategy<Value = Vec<Failure>> {
    prop::collection::vec(
        (0usize..40, 0u8..4, 0u8..30, 0u32..3, 0i64..200).prop_map(
            |(reason, code, node, by, minutes)| Failure {
                reason,
                code,
                node,
                by,
                minutes,
            },
        ),
        1..60,
    )
}

fn any_rule() -> impl Strategy<Value = RetryRule> {
    (
        prop::option::of(1.0f64..4.0),
        prop::option::of(1u64..100_000),
        prop::option::of(1.0f64..4.0),
        prop::option::of(1u64..1_000_000),
        any::<bool>(),
        prop::collection::vec(1u8..4, 0..3),
        prop::option::of(0u64..10_000),
    )
        .prop_map(
            |(mem_factor, mem_max, time_factor, time_max, node, codes, delay)| RetryRule {
                mem_factor,
                mem_max: mem_max.map(MemSize::of_megabytes),
                time_factor,
                time_max: time_max.map(TimeLimit::of_seconds),
                exclude_node: node,
                codes,
                delay: delay.map(Duration::from_secs),
            },
        )
}

fn reasons() -> Vec<Reason> {
    Reason::ALL
        .iter()
        .copied()
        .filter(|reason| reason.fits(TaskStatus::Failed))
        .collect()
}

proptest! {
    /// A task that fails again and again: each job asks for what the rules say, and Slurm says so.
    #[test]
    fn random_failures_stay_within_their_budgets(
        life in failures(),
        rule in prop::collection::vec(prop::option::weighted(0.8, any_rule()), 11),
        max_attempts in 1u32..6,
        max_infrastructure in 0u32..6,
    ) {
        let reasons = reasons();
        let rules = RetryRules {
            max_attempts,
            max_infrastructure,
            on: reasons.iter().zip(&rule)
                .filter_map(|(reason, rule)| Some((*reason, rule.clone()?))).collect(),
        };
        let (mut state, mut asked, mut limit) = (RetryState::default(), 1000u64, 3600u64);
        let (mut own, mut machine) = (1u32, 0u32);
        let mut now = at(0);
        for failure in life {
            let reason = reasons[failure.reason % reasons.len()];
            let mut row = failed(reason);
            row.retry = state.clone();
            row.facts = JobFacts {
                ended_at: Some(now),
                exit_code: Some(format!("{}:0", failure.code).as_str().into()),
                slurm_state: Some(format!("CANCELLED by {}", failure.by).as_str().into()),
                node_list: Some(format!("n{}", failure.node).as_str().into()),
                req_mem_mb: Some(asked as i64),
                time_limit_s: Some(limit as i64),
                ..JobFacts::default()
            };
            prop_assert_eq!(outlook(None, &row, Some(1), now), Outlook::None);
            let mut later = now + TimeDelta::minutes(failure.minutes);
            match outlook(Some(&rules), &row, Some(1), later) {
                // Without a person, the result stays the same forever.
                Outlook::None | Outlook::Spent(_) => {
                    let far = now + TimeDelta::days(1000);
                    prop_assert!(!outlook(Some(&rules), &row, Some(1), far).is_retry());
                    break;
                }
                Outlook::At(at) => {
                    prop_assert!(at > later);
                    let most = rules.on[&reason].delay.unwrap_or_default().max(MAX_BACK_OFF);
                    prop_assert!(at - now <= TimeDelta::from_std(most).unwrap());
                    prop_assert_eq!(outlook(Some(&rules), &row, Some(1), at), Outlook::Now);
                    later = at;
                }
                Outlook::Now => {}
            }
            let carried = next(&rules, &row, &Resources::default());
            let rule = &rules.on[&reason];
            if is_infrastructure(reason) { machine += 1 } else { own += 1 }
            prop_assert!(own <= max_attempts && machine <= max_infrastructure);
            prop_assert_eq!((carried.attempts(), carried.infrastructure), (own, machine));
            prop_assert!(carried.exclude.len() <= MAX_EXCLUDED);
            let mem_max = rule.mem_max.as_ref().map_or(u64::MAX, MemSize::megabytes);
            let time_max = rule.time_max.as_ref().map_or(u64::MAX, |most| most.seconds().unwrap());
            let (before, next_mem) = (asked, carried.mem_mb.unwrap_or(asked));
            prop_assert!(next_mem >= before && (next_mem == before || next_mem <= mem_max));
            let (before, next_time) = (limit, carried.time_s.unwrap_or(limit));
            prop_assert!(next_time >= before && (next_time == before || next_time <= time_max));
            (state, asked, limit, now) = (carried, next_mem, next_time, later);
        }
    }
}
