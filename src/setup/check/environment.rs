//! Reports environment variables that users may rely on, but that have no effect.

use std::path::Path;

use super::Findings;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Variable;

const TOPIC: &str = "environment";

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

pub(super) fn check(
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
            findings.about(TOPIC, name).warning(
                format!("{name}={value} is set, but jobs get the value of {key} ({root})"),
                "unset it, or set it in the procedure's `env` if the path differs on compute nodes",
            );
        }
    }
    // Inside a job, Slurm sets some of them.
    if config.executor == ExecutorKind::Slurm && env("SLURM_JOB_ID").is_none() {
        for (name, key) in CHOOSERS {
            let Some(value) = env(name) else { continue };
            findings.about(TOPIC, name).warning(
                format!("{name}={value} is set, but is not passed on to sbatch"),
                format!(
                    "set {key} in the configuration instead, so that jobs do not depend on the caller's environment"
                ),
            );
        }
    }
    findings.ok_if_none(TOPIC, "no unexpected Slurm variables are set");
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn reported(executor: &str, set: &[(&str, &str)]) -> Vec<String> {
        let config = testing::config(&format!("executor: {executor}\nbids_root: /b\n"));
        let env = |name: &str| {
            let mut set = set.iter();
            set.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let findings = testing::judged(|out| check(&config, &env, out));
        let trouble = testing::trouble(&findings).into_iter();
        trouble.map(|finding| finding.about.clone()).collect()
    }

    #[test]
    fn variables_without_effect_are_reported() {
        for (set, expected) in [
            (&[][..], None),
            (&[("SBATCH_ACCOUNT", "x")], Some("SBATCH_ACCOUNT")),
            (&[("SLURM_CLUSTERS", "x")], Some("SLURM_CLUSTERS")),
            (&[("SLURM_CONF", "/x"), ("SLURM_JWT", "x")], None),
            (&[("SLURM_ACCOUNT", "x"), ("SLURM_JOB_ID", "7")], None),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(reported("slurm", set), expected, "{set:?}");
        }
        assert!(reported("local", &[("SBATCH_ACCOUNT", "x")]).is_empty());
    }

    #[test]
    fn a_root_variable_that_jobs_do_not_get_is_reported() {
        for (value, expected) in [("/b", &[][..]), ("/nodes/b", &["SNBB_BIDS_ROOT"])] {
            assert_eq!(reported("local", &[("SNBB_BIDS_ROOT", value)]), expected);
        }
    }
}
