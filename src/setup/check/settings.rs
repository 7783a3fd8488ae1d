//! Settings that are allowed and dear: a safety stop that never stops, retries without a bound, limits that nobody
//! enforces. Pure.

use std::time::Duration;

use super::{Finding, few};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, Procedure, RetryRule, options};

/// Attempts beyond this are no retry but a habit.
const MANY_ATTEMPTS: u32 = 10;
/// So many times what was asked for first may be asked for without a bound by name.
const MUCH_GROWTH: f64 = 8.0;
/// A pass of a study looks at all its directories.
const SHORT_DEADLINE: Duration = Duration::from_secs(60);
/// Accounting may lag behind for minutes.
const SHORT_GRACE: Duration = Duration::from_secs(600);

/// Judges the settings that need no look at the world.
pub fn judge(config: &Config) -> Vec<Finding> {
    let mut findings = safety(config);
    findings.extend(without_markers(config));
    findings.extend(retries(config));
    findings.push(executor(config));
    findings
}

fn safety(config: &Config) -> Vec<Finding> {
    let topic = "safety";
    let mut findings = Vec::new();
    let mut warn = |about: &str, text: String, advice: &str| {
        findings.push(Finding::warning(topic, about, text, advice));
    };
    if config.safety.max_drop >= 100.0 {
        warn(
            "safety.max_drop",
            "at 100% a run never stops, also when a file system is half mounted and everything looks undone".to_owned(),
            "set it to 10%; `run --accept-drop` goes on where a drop is right",
        );
    }
    if config.safety.min_free == 0 {
        warn(
            "safety.min_free",
            "at 0 jobs are submitted also when the disk of the state is full".to_owned(),
            "set it to 16M or more",
        );
    }
    if config.resubmit_failed {
        warn(
            "resubmit_failed",
            "failed tasks are submitted again at every run, for ever".to_owned(),
            "take it out: `retry` rules try again what may succeed, `snbb-scheduler retry` does it by hand",
        );
    }
    if config.deadline < SHORT_DEADLINE {
        warn(
            "deadline",
            format!(
                "a call ends after {} s, whatever is left to do",
                config.deadline.as_secs()
            ),
            "set it to 10m: a slow file system or Slurm needs minutes",
        );
    }
    if config.lost_grace < SHORT_GRACE && config.executor == ExecutorKind::Slurm {
        warn(
            "lost_grace",
            format!(
                "a job that accounting does not know yet counts as lost after {} s",
                config.lost_grace.as_secs()
            ),
            "set it to 1h: accounting may lag behind for minutes",
        );
    }
    let never: Vec<&str> = config
        .procedures
        .iter()
        .filter(|(_, procedure)| procedure.rules.pause_after_failures.is_none())
        .map(|(_, procedure)| &*procedure.name)
        .collect();
    if !never.is_empty() {
        warn(
            "pause_after_failures",
            format!(
                "jobs that fail one after the other never pause: {}",
                few(&never)
            ),
            "take it out (10 holds then), or set a number",
        );
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            topic,
            "",
            format!(
                "a run stops when more than {}% of sessions or results are suddenly gone, or the disk is full",
                config.safety.max_drop
            ),
        ));
    }
    findings
}

/// Names procedures of which any file is taken for the whole result.
fn without_markers(config: &Config) -> Vec<Finding> {
    let takes_anything = |procedure: &Procedure| {
        procedure.check == Check::Markers
            && matches!(procedure.completion.required, Required::NonEmptyDirectory)
    };
    let procedures = config.procedures.iter().map(|(_, procedure)| procedure);
    procedures
        .filter(|procedure| takes_anything(procedure))
        .map(|procedure| {
            Finding::warning(
                "markers",
                procedure.name.to_string(),
                "without completion_marker any file in its output directory makes a task complete, also what a job \
                 that failed left behind",
                "name the files that its script writes last as completion_marker; without them only a script that \
                 moves its results there at the end is safe",
            )
        })
        .collect()
}

fn retries(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, procedure) in config.procedures.iter() {
        let Some(rules) = &procedure.rules.retry else {
            continue;
        };
        let about = format!("{} retry", procedure.name);
        let attempts = rules.max_attempts.saturating_add(rules.max_infrastructure);
        if rules.max_attempts > MANY_ATTEMPTS {
            findings.push(Finding::warning(
                "safety",
                about.clone(),
                format!("a task may be tried {attempts} times, each time at its full cost"),
                "set max_attempts to 3: what fails three times needs a person",
            ));
        }
        let mut dear: Vec<String> = Vec::new();
        for (reason, rule) in &rules.on {
            if let Some(times) = unbounded(config, rule, rules.max_attempts) {
                dear.push(format!("{} (up to {times} times)", reason.as_str()));
            }
        }
        if !dear.is_empty() {
            findings.push(Finding::warning(
                "safety",
                about,
                format!(
                    "memory or time grow without a bound by name: {}",
                    few(&dear)
                ),
                "set mem_max and time_max in the rule, or max_mem and max_time for the site",
            ));
        }
    }
    findings
}

/// Returns how many times what was asked for first the last attempt asks for, if that is much and nothing bounds it.
fn unbounded(config: &Config, rule: &RetryRule, attempts: u32) -> Option<u64> {
    let power = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
    let mem = rule
        .mem_factor
        .filter(|_| rule.mem_max.is_none() && config.ceiling.mem.is_none());
    let time = rule
        .time_factor
        .filter(|_| rule.time_max.is_none() && config.ceiling.time.is_none());
    let growth = [mem, time]
        .into_iter()
        .flatten()
        .map(|factor| factor.powi(power))
        .fold(1.0, f64::max);
    // A figure for people; a cast of something greater than any number of ours ends at the greatest.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 8"
    )]
    (growth >= MUCH_GROWTH).then_some(growth as u64)
}

fn executor(config: &Config) -> Finding {
    let topic = "executor";
    if config.executor == ExecutorKind::Slurm {
        return Finding::ok(topic, "slurm", "jobs run on Slurm");
    }
    let asks = |procedure: &Procedure| {
        let resources = &procedure.resources;
        options::mem(resources).is_some()
            || options::time(resources).is_some()
            || resources.gres.is_some()
    };
    let limited: Vec<&str> = config
        .procedures
        .iter()
        .filter(|(_, procedure)| asks(procedure))
        .map(|(_, procedure)| &*procedure.name)
        .collect();
    if limited.is_empty() {
        return Finding::ok(
            topic,
            "local",
            format!(
                "jobs run on this machine, {} at a time; limits of memory and time are not enforced",
                config.local_jobs
            ),
        );
    }
    Finding::warning(
        topic,
        "local",
        format!(
            "mem, time and gres are not enforced by the local executor: {}",
            few(&limited)
        ),
        "choose local_jobs so that all fit, and take the keys out",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Level;
    use super::*;
    use crate::config::{Overrides, load::interpret};

    fn warnings(text: &str) -> Vec<String> {
        let text = format!(
            "procedures:\n  - {{name: prep, output_dir: prep, script: x.sh, completion_marker: x{}}}\n{}",
            if text.starts_with(',') { text } else { "" },
            if text.starts_with(',') { "" } else { text }
        );
        let config = interpret(
            text.as_bytes(),
            Some(Path::new("/c.yaml")),
            false,
            &|_| None,
            &Overrides::default(),
            Path::new("/"),
        );
        let findings = judge(&config.unwrap());
        assert!(findings.iter().all(|f| f.level != Level::Error));
        let warnings = findings.iter().filter(|f| f.level == Level::Warning);
        warnings
            .map(|f| format!("{}: {}", f.about, f.text))
            .collect()
    }

    #[test]
    fn the_defaults_and_careful_settings_are_in_order() {
        for text in [
            "",
            "executor: local\n",
            "safety: {max_drop: 50%, min_free: 1M}\n",
            ", retry: {on: {timeout: {time_factor: 2}, out_of_memory: {mem_factor: 2, mem_max: 64G}}}",
            ", retry: {max_attempts: 8, on: {out_of_memory: {mem_factor: 2, mem_max: 64G}}}",
        ] {
            assert_eq!(warnings(text), [] as [String; 0], "{text}");
        }
        let bounded =
            "max_mem: 256G\nretry: {max_attempts: 8, on: {out_of_memory: {mem_factor: 2}}}\n";
        assert_eq!(warnings(bounded), [] as [String; 0]);
    }

    #[test]
    fn each_dear_setting_is_a_warning() {
        for (text, part) in [
            ("safety: {max_drop: 100%}\n", "safety.max_drop"),
            ("safety: {min_free: 0}\n", "safety.min_free"),
            ("resubmit_failed: yes\n", "resubmit_failed"),
            ("deadline: 30s\n", "deadline"),
            ("lost_grace: 1m\n", "lost_grace"),
            ("pause_after_failures: 0\n", "pause_after_failures"),
            (
                ", retry: {max_attempts: 5, on: {out_of_memory: {mem_factor: 2}}}",
                "out_of_memory (up to 16 times)",
            ),
            (
                ", retry: {max_attempts: 11, on: {timeout: {}}}",
                "may be tried 16 times",
            ),
            ("executor: local\nslurm_mem: 8G\n", "not enforced"),
        ] {
            let found = warnings(text);
            assert_eq!(found.len(), 1, "{text}: {found:#?}");
            assert!(found[0].contains(part), "{part}: {found:?}");
        }
    }
}
