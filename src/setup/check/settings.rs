//! Reports problems of the configuration file, settings that are allowed but risky, and environment variables that have
//! no effect.

use std::path::Path;
use std::time::Duration;

use super::{Config, ExecutorKind, Findings, Procedure, Site, few, maybe, plural};
use crate::config::ConfigError;
use crate::gather::completion::probe::Probe;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, Variable, options};

/// Accounting may be several minutes late.
const SHORT_GRACE: Duration = Duration::from_secs(600);

/// Reports each problem of an invalid configuration as a finding.
pub fn unusable(error: &ConfigError, findings: &mut Findings) {
    for problem in &error.problems {
        let mut bare = problem.clone();
        bare.file = None;
        let line = (problem.line > 0).then_some(problem.line);
        let remedy = error.hint.as_deref();
        findings.about("config", shown(problem.file.as_deref()));
        findings.error(
            format!("{}{bare}", maybe("line ", line, ": ")),
            remedy.unwrap_or("correct the file; `snbb-scheduler man config` lists all keys"),
        );
    }
    remarks(&error.warnings, findings);
}

/// Reports on a valid configuration.
pub fn usable(config: &Config, findings: &mut Findings) {
    remarks(&config.warnings, findings);
    let procedures = plural(config.procedures.len(), "procedure");
    findings.about("config", shown(config.file.as_deref()));
    match &config.file {
        Some(_) => findings.ok(format!("valid, {procedures}")),
        None => findings.warning(
            "no configuration file, so the built-in defaults apply",
            "pass a file with --config PATH or SNBB_CONFIG; `snbb-scheduler init` creates one",
        ),
    }
}

fn remarks(warnings: &[String], findings: &mut Findings) {
    for text in warnings {
        let man = "`snbb-scheduler man config` explains the key";
        findings.about("config", "").warning(text, man);
    }
}

fn shown(file: Option<&Path>) -> String {
    maybe("", file.map(Path::display), "")
}

/// Slurm's variables that select where jobs run, and the corresponding key.
const CHOOSERS: [(&str, &str); 8] = [
    ("SBATCH_ACCOUNT", "slurm_account"),
    ("SLURM_ACCOUNT", "slurm_account"),
    ("SBATCH_PARTITION", "slurm_partition"),
    ("SLURM_PARTITION", "slurm_partition"),
    ("SBATCH_QOS", "qos (at a procedure)"),
    ("SBATCH_RESERVATION", "sbatch_args: [--reservation=...]"),
    ("SLURM_CLUSTERS", "sbatch_args: [--clusters=...]"),
    ("SBATCH_CLUSTERS", "sbatch_args: [--clusters=...]"),
];

/// Reports environment variables that users may rely on, but that have no effect.
pub(super) fn environment(
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) {
    // An exported root may belong to another study, and cron does not set it.
    for (variable, key, root) in [
        (Variable::BidsRoot, "bids_root", &config.bids_root),
        (
            Variable::DerivativesRoot,
            "derivatives_root",
            &config.derivatives_root,
        ),
    ] {
        let name = variable.as_str();
        if let Some(value) = env(name).filter(|value| Path::new(value) != root) {
            let root = root.display();
            findings.about("environment", name).warning(
                format!("{name}={value} is set, but jobs get the value of {key} ({root})"),
                "unset it, or set it in the procedure's `env` if the path differs on compute nodes",
            );
        }
    }
    // Inside a job, Slurm sets some of them.
    if config.executor == ExecutorKind::Slurm && env("SLURM_JOB_ID").is_none() {
        for (name, key) in CHOOSERS {
            let Some(value) = env(name) else { continue };
            findings.about("environment", name).warning(
                format!("{name}={value} is set, but is not passed on to sbatch"),
                format!(
                    "set {key} in the configuration instead, so that jobs do not depend on the caller's environment"
                ),
            );
        }
    }
    findings.ok_if_none("environment", "no unexpected Slurm variables are set");
}

/// Judges the settings without reading anything else.
pub(super) fn check(config: &Config, findings: &mut Findings) {
    let never = names_of(config, |one| one.rules.pause_after_failures.is_none());
    let never_pauses = format!(
        "repeated failures never pause these procedures: {}",
        few(&never)
    );
    let is_slurm = config.executor == ExecutorKind::Slurm;
    for (is_risky, key, text, remedy) in [
        (
            config.safety.max_drop >= 100.0,
            "safety.max_drop",
            "at 100%, a run never stops, even if a file system is only partly mounted and everything seems to be missing",
            "set it to 10%; `run --accept-drop` continues if a drop is correct",
        ),
        (
            config.safety.min_free == 0,
            "safety.min_free",
            "at 0, jobs are submitted even if the disk of the state is full",
            "set it to 16M or more",
        ),
        (
            config.resubmit_failed,
            "resubmit_failed",
            "failed tasks are submitted again in every run, without limit",
            "remove it: `retry` rules repeat what may succeed, and `snbb-scheduler retry` repeats tasks manually",
        ),
        (
            config.lost_grace < SHORT_GRACE && is_slurm,
            "lost_grace",
            "below 10m, a job that accounting lists late counts as lost",
            "set it to 1h: accounting may be several minutes late",
        ),
        (
            !never.is_empty(),
            "pause_after_failures",
            &never_pauses,
            "remove it to use the default of 10, or set a number",
        ),
    ] {
        if is_risky {
            findings.about("safety", key).warning(text, remedy);
        }
    }
    let drop = config.safety.max_drop;
    findings.ok_if_none("safety", format!(
        "a run submits nothing if more than {drop}%, and at least 5, of the sessions or of a procedure's complete tasks suddenly disappear, or if the disk is full"
    ));
    if is_slurm {
        findings.about("executor", "slurm").ok("jobs run on Slurm");
        return;
    }
    let limited = names_of(config, |procedure| {
        let resources = &procedure.resources;
        options::mem(resources).is_some()
            || options::time(resources).is_some()
            || resources.gres.is_some()
    });
    findings.about("executor", "local");
    findings.warn_of(
        "the local executor does not enforce mem, time and gres:",
        &limited,
        "choose local_jobs so that all jobs fit, and remove the keys",
    );
    let jobs = config.local_jobs;
    findings.or_ok(format!(
        "jobs run on this machine, {jobs} at a time; memory and time limits are not enforced"
    ));
}

fn names_of(config: &Config, is_one: impl Fn(&Procedure) -> bool) -> Vec<&str> {
    let chosen = config.procedures.all().filter(|one| is_one(one));
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

#[cfg(test)]
mod tests;
