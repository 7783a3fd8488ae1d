//! The variables of the calling shell that a person may count on, and that have no effect. Pure.

use std::path::Path;

use super::Finding;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Variable;

const TOPIC: &str = "environment";

/// Variables of Slurm's that choose where jobs go, and the key that does so here.
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

/// Where time zones lie (tzset(3)).
pub const ZONES: &str = "/usr/share/zoneinfo";

/// Judges an environment. `has_zone`: there is a file of that name below [`ZONES`].
pub fn judge(
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
    has_zone: &dyn Fn(&Path) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_slurm = config.executor == ExecutorKind::Slurm;
    // An exported root may be another study's, and cron does not have it.
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
            findings.push(Finding::warning(
                TOPIC,
                name,
                format!(
                    "{name}={value} is set, and jobs get {key} instead ({})",
                    root.display()
                ),
                format!(
                    "unset it, or set it in the procedure's `env` if compute nodes see {key} there"
                ),
            ));
        }
    }
    // Inside a job Slurm sets some of them by itself.
    if is_slurm && env("SLURM_JOB_ID").is_none() {
        for (name, key) in CHOOSERS {
            if let Some(value) = env(name) {
                findings.push(Finding::warning(
                    TOPIC,
                    name,
                    format!("{name}={value} is set, and is not passed on to sbatch"),
                    format!(
                        "set {key} in the configuration instead: jobs must not depend on who calls"
                    ),
                ));
            }
        }
    }
    if let Some(zone) = env("TZ") {
        let name = zone.trim_start_matches(':');
        // `CET-1CEST` is a rule, not a name.
        if name.contains('/') && !has_zone(&Path::new(ZONES).join(name)) {
            findings.push(Finding::warning(
                TOPIC,
                "TZ",
                format!("TZ={zone} is no time zone of this machine, so that UTC is taken"),
                "correct or unset it: accounting is asked with local times",
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            TOPIC,
            "",
            "no variable is set that would surprise",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn told(executor: &str, set: &[(&str, &str)]) -> Vec<String> {
        let config = crate::config::load::interpret(
            format!("executor: {executor}\nbids_root: /b\n").as_bytes(),
            Some(Path::new("/s/config.yaml")),
            false,
            &|_| None,
            &crate::config::Overrides::default(),
            Path::new("/s"),
        )
        .unwrap();
        let env = |name: &str| {
            let mut set = set.iter();
            set.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let has_zone = |path: &Path| path.ends_with("zoneinfo/Europe/Zurich");
        judge(&config, &env, &has_zone)
            .into_iter()
            .filter(|finding| finding.level != Level::Ok)
            .map(|finding| finding.about)
            .collect()
    }

    #[test]
    fn variables_without_effect_are_told() {
        for (set, expected) in [
            (&[][..], None),
            (&[("SBATCH_ACCOUNT", "x")], Some("SBATCH_ACCOUNT")),
            (&[("SLURM_CLUSTERS", "x")], Some("SLURM_CLUSTERS")),
            (&[("SLURM_CONF", "/x"), ("SLURM_JWT", "x")], None),
            (&[("SLURM_ACCOUNT", "x"), ("SLURM_JOB_ID", "7")], None),
            (&[("TZ", "Europe/Zurich")], None),
            (&[("TZ", ":Europe/Zurich")], None),
            (&[("TZ", "Europe/Zürich")], Some("TZ")),
            (&[("TZ", "CET-1CEST")], None),
            (&[("TZ", "UTC")], None),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(told("slurm", set), expected, "{set:?}");
        }
        assert!(told("local", &[("SBATCH_ACCOUNT", "x")]).is_empty());
    }

    #[test]
    fn c4_a_root_of_the_shell_that_jobs_do_not_get_is_reported() {
        for (value, expected) in [("/b", &[][..]), ("/nodes/b", &["SNBB_BIDS_ROOT"])] {
            assert_eq!(told("local", &[("SNBB_BIDS_ROOT", value)]), expected);
        }
    }
}
