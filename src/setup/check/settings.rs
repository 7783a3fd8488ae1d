//! Settings that are allowed and dear: a safety stop that never stops, failures that never pause, limits that nobody
//! enforces.

use std::time::Duration;

use super::{Findings, Site, few};
use crate::gather::completion::probe::Probe;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, Procedure, options};

/// Accounting may lag behind for minutes.
const SHORT_GRACE: Duration = Duration::from_secs(600);

/// Judges the settings that need no look at the world.
pub fn judge(config: &Config, findings: &mut Findings) {
    safety(config, findings);
    executor(config, findings);
}

fn safety(config: &Config, findings: &mut Findings) {
    const TOPIC: &str = "safety";
    let before = findings.list.len();
    let mut warn = |about: &str, text: String, advice: &str| {
        findings.about(TOPIC, about).warning(text, advice);
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
    if config.lost_grace < SHORT_GRACE && config.executor == ExecutorKind::Slurm {
        let grace = config.lost_grace.as_secs();
        warn(
            "lost_grace",
            format!("a job that accounting does not know yet counts as lost after {grace} s"),
            "set it to 1h: accounting may lag behind for minutes",
        );
    }
    let never = names_of(config, |procedure| {
        procedure.rules.pause_after_failures.is_none()
    });
    if !never.is_empty() {
        let never = few(&never);
        warn(
            "pause_after_failures",
            format!("jobs that fail one after the other never pause: {never}"),
            "take it out (10 holds then), or set a number",
        );
    }
    if findings.list.len() == before {
        let drop = config.safety.max_drop;
        findings.about(TOPIC, "").ok(format!(
            "a run stops when more than {drop}% of sessions or results are suddenly gone, or the disk is full"
        ));
    }
}

fn names_of(config: &Config, is_one: impl Fn(&Procedure) -> bool) -> Vec<&str> {
    let procedures = config.procedures.iter().map(|(_, procedure)| procedure);
    let chosen = procedures.filter(|procedure| is_one(procedure));
    chosen.map(|procedure| &*procedure.name).collect()
}

/// Names procedures of which any file is taken for the whole result, and reads the specification of QSIRecon.
pub fn markers(site: &Site, findings: &mut Findings) {
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
            "without completion_marker any file in its output directory makes a task complete, also what a job \
             that failed left behind",
            "name the files that its script writes last as completion_marker; without them only a script that \
             moves its results there at the end is safe",
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
            format!("mem, time and gres are not enforced by the local executor: {limited}"),
            "choose local_jobs so that all fit, and take the keys out",
        );
    }
    let jobs = config.local_jobs;
    findings.or_ok(format!(
        "jobs run on this machine, {jobs} at a time; limits of memory and time are not enforced"
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
        testing::judged(|out| judge(&config, out))
    }

    #[test]
    fn the_defaults_and_careful_settings_are_in_order() {
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
    fn each_dear_setting_is_a_warning() {
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
