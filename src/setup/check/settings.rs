//! Reports settings that are allowed but risky: a safety stop that never applies, failures that never pause, limits that
//! are not enforced.

use std::time::Duration;

use super::{Findings, Site, few};
use crate::gather::completion::probe::Probe;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, Procedure, options};

/// Accounting may be several minutes late.
const SHORT_GRACE: Duration = Duration::from_secs(600);

/// Judges the settings without reading anything else.
pub(super) fn check(config: &Config, findings: &mut Findings) {
    safety(config, findings);
    executor(config, findings);
}

fn safety(config: &Config, findings: &mut Findings) {
    const TOPIC: &str = "safety";
    let mut warn = |about: &str, text: String, remedy: &str| {
        findings.about(TOPIC, about).warning(text, remedy);
    };
    if config.safety.max_drop >= 100.0 {
        warn(
            "safety.max_drop",
            "at 100%, a run never stops, even if a file system is only partly mounted and everything seems to be missing".to_owned(),
            "set it to 10%; `run --accept-drop` continues if a drop is correct",
        );
    }
    if config.safety.min_free == 0 {
        warn(
            "safety.min_free",
            "at 0, jobs are submitted even if the disk of the state is full".to_owned(),
            "set it to 16M or more",
        );
    }
    if config.resubmit_failed {
        warn(
            "resubmit_failed",
            "failed tasks are submitted again in every run, without limit".to_owned(),
            "remove it: `retry` rules repeat what may succeed, and `snbb-scheduler retry` repeats tasks manually",
        );
    }
    if config.lost_grace < SHORT_GRACE && config.executor == ExecutorKind::Slurm {
        let grace = config.lost_grace.as_secs();
        warn(
            "lost_grace",
            format!("a job that accounting does not list yet counts as lost after {grace} s"),
            "set it to 1h: accounting may be several minutes late",
        );
    }
    let never = names_of(config, |procedure| {
        procedure.rules.pause_after_failures.is_none()
    });
    if !never.is_empty() {
        let never = few(&never);
        warn(
            "pause_after_failures",
            format!("repeated failures never pause these procedures: {never}"),
            "remove it to use the default of 10, or set a number",
        );
    }
    let drop = config.safety.max_drop;
    findings.ok_if_none(TOPIC, format!(
        "a run submits nothing if more than {drop}%, and at least 5, of the sessions or of a procedure's complete tasks suddenly disappear, or if the disk is full"
    ));
}

fn names_of(config: &Config, is_one: impl Fn(&Procedure) -> bool) -> Vec<&str> {
    let procedures = config.procedures.iter().map(|(_, procedure)| procedure);
    let chosen = procedures.filter(|procedure| is_one(procedure));
    chosen.map(|procedure| &*procedure.name).collect()
}

/// Reports procedures without completion markers, and errors in the QSIRecon specification.
pub(super) fn markers(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    if let Err(error) = Probe::new(config) {
        let out = findings.about("markers", "qsirecon");
        out.error(error.to_string(), error.hint());
    }
    let takes_anything = |procedure: &Procedure| {
        procedure.check == Check::Markers
            && matches!(procedure.completion.required, Required::NonEmptyDirectory)
    };
    for name in names_of(config, takes_anything) {
        findings.about("markers", name).warning(
            "without completion_marker, any file in its output directory makes a task complete, even one left by a failed job",
            "set completion_marker to the files that the script writes last; otherwise, the script must move its results there at the end",
        );
    }
}

fn executor(config: &Config, findings: &mut Findings) {
    const TOPIC: &str = "executor";
    if config.executor == ExecutorKind::Slurm {
        findings.about(TOPIC, "slurm").ok("jobs run on Slurm");
        return;
    }
    let limited = names_of(config, |procedure| {
        let resources = &procedure.resources;
        options::mem(resources).is_some()
            || options::time(resources).is_some()
            || resources.gres.is_some()
    });
    findings.about(TOPIC, "local");
    if !limited.is_empty() {
        let limited = few(&limited);
        findings.warning(
            format!("the local executor does not enforce mem, time and gres: {limited}"),
            "choose local_jobs so that all jobs fit, and remove the keys",
        );
    }
    let jobs = config.local_jobs;
    findings.or_ok(format!(
        "jobs run on this machine, {jobs} at a time; memory and time limits are not enforced"
    ));
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;

    fn judged(text: &str) -> Vec<Finding> {
        let config = testing::config(&format!(
            "procedures:\n  - {{name: prep, output_dir: prep, script: x.sh, completion_marker: x}}\n{text}"
        ));
        testing::judged(|out| check(&config, out))
    }

    #[test]
    fn the_defaults_and_careful_settings_are_ok() {
        for text in [
            "",
            "executor: local\n",
            "safety: {max_drop: 50%, min_free: 1M}\n",
        ] {
            let findings = judged(text);
            assert!(testing::trouble(&findings).is_empty(), "{findings:?}");
        }
    }

    #[test]
    fn each_risky_setting_is_a_warning() {
        for (text, about) in [
            ("safety: {max_drop: 100%}\n", "safety.max_drop"),
            ("safety: {min_free: 0}\n", "safety.min_free"),
            ("resubmit_failed: yes\n", "resubmit_failed"),
            ("lost_grace: 1m\n", "lost_grace"),
            ("pause_after_failures: 0\n", "pause_after_failures"),
            ("executor: local\nslurm_mem: 8G\n", "local"),
        ] {
            let findings = judged(text);
            testing::one(&findings, Level::Warning, "");
            assert_eq!(testing::trouble(&findings)[0].about, about);
        }
    }
}
