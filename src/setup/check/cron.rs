//! The same with the surroundings that cron gives: what works in a shell and not there, and what to write into the
//! crontab. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Finding, Level, few};
use crate::executor::slurm::KEPT;

const TOPIC: &str = "cron";
/// What cron sets (crontab(5)).
pub const PATH: &str = "/usr/bin:/bin";

/// Returns the variables that help Slurm's commands to their cluster and libraries.
pub fn helpers() -> impl Iterator<Item = &'static str> {
    KEPT.into_iter().chain(["LD_LIBRARY_PATH", "TZ"])
}

/// Holds what differs between this shell and cron.
pub struct Facts<'a> {
    pub config_file: Option<&'a Path>,
    /// The file was named by `SNBB_CONFIG`, which cron does not have.
    pub by_variable: bool,
    /// Why the configuration cannot be used there, or what it then says differently.
    pub config_problems: Vec<String>,
    /// Scripts that are not found there: procedure and message.
    pub scripts: Vec<(String, String)>,
    /// What Slurm's part found here, and there.
    pub here: &'a [Finding],
    pub there: Vec<Finding>,
    /// Where sbatch is here, if it is nowhere there.
    pub sbatch: Option<PathBuf>,
    /// Of [`helpers`], those that are set here, with their values.
    pub variables: Vec<(&'static str, String)>,
}

/// Returns the environment that cron gives.
pub fn environment(home: Option<OsString>, user: &str) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> =
        [("PATH", PATH), ("SHELL", "/bin/sh"), ("LOGNAME", user)]
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
    env.extend(home.map(|home| ("HOME".into(), home)));
    env
}

/// Judges the difference.
pub fn judge(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.by_variable
        && let Some(file) = facts.config_file
    {
        findings.push(Finding::warning(
            TOPIC,
            "SNBB_CONFIG",
            "the configuration is named by a variable that cron does not have",
            format!(
                "write `snbb-scheduler --config {} -q run` into the crontab",
                file.display()
            ),
        ));
    }
    for problem in &facts.config_problems {
        findings.push(Finding::error(
            TOPIC,
            "config",
            format!("under cron: {problem}"),
            "set the variable in the crontab (a line NAME=value above the others), or write the value itself into the configuration",
        ));
    }
    for (procedure, message) in &facts.scripts {
        findings.push(Finding::error(
            TOPIC,
            procedure.clone(),
            format!("under cron: {message}"),
            "set script_dir, or give the script's absolute path",
        ));
    }
    let news: Vec<&Finding> = facts
        .there
        .iter()
        .filter(|finding| is_news(finding, facts.here))
        .collect();
    let advice = crontab(facts);
    findings.extend(news.iter().map(|finding| {
        let about = match finding.about.as_str() {
            "" => finding.topic.to_owned(),
            about => about.to_owned(),
        };
        let advice = match &advice {
            Some(lines) => lines.clone(),
            None => finding.advice.clone().unwrap_or_default(),
        };
        Finding {
            topic: TOPIC,
            about,
            text: format!("under cron: {}", finding.text),
            advice: Some(advice),
            ..(*finding).clone()
        }
    }));
    if findings.is_empty() {
        let checked: Vec<&str> = facts
            .there
            .iter()
            .filter(|finding| finding.level == Level::Ok)
            .map(|finding| finding.topic)
            .fold(Vec::new(), |mut topics, topic| {
                if !topics.contains(&topic) {
                    topics.push(topic);
                }
                topics
            });
        let text = match checked.as_slice() {
            [] => "nothing is worse under cron".to_owned(),
            topics => format!(
                "works with the surroundings of cron too: {}",
                topics.join(", ")
            ),
        };
        findings.push(Finding::ok(TOPIC, "", text));
    }
    findings
}

/// True if a finding is worse than what is said of the same thing here.
fn is_news(finding: &Finding, here: &[Finding]) -> bool {
    let known = here
        .iter()
        .filter(|known| known.topic == finding.topic && known.about == finding.about)
        .map(|known| known.level)
        .max();
    finding.level > known.unwrap_or(Level::Ok)
}

/// Returns what helps, as far as it can be told from what is set here.
fn crontab(facts: &Facts<'_>) -> Option<String> {
    let mut lines = Vec::new();
    if let Some(dir) = facts.sbatch.as_deref().and_then(Path::parent) {
        let dir = dir.display();
        lines.push(format!(
            "set slurm_bin_dir: {dir} in the configuration, or write the line PATH={dir}:{PATH} into the crontab"
        ));
    }
    let variables: Vec<String> = facts
        .variables
        .iter()
        .map(|(name, value)| match *name {
            // A token is a secret, and ends.
            "SLURM_JWT" => "SLURM_JWT=... (a token that is still valid then)".to_owned(),
            name => format!("{name}={value}"),
        })
        .collect();
    if !variables.is_empty() {
        lines.push(format!(
            "write into the crontab what is set here: {}",
            few(&variables)
        ));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(here: &'a [Finding], there: Vec<Finding>) -> Facts<'a> {
        Facts {
            config_file: Some(Path::new("/s/config.yaml")),
            by_variable: false,
            config_problems: Vec::new(),
            scripts: Vec::new(),
            here,
            there,
            sbatch: None,
            variables: Vec::new(),
        }
    }

    #[test]
    fn what_is_the_same_in_both_is_no_news() {
        let here = [
            Finding::ok("queue", "", "answers"),
            Finding::error("submission", "prep", "refused", "x"),
        ];
        let there = here.to_vec();
        let findings = judge(&facts(&here, there));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        assert!(findings[0].text.ends_with("too: queue"), "{findings:?}");
    }

    #[test]
    fn a4_what_fails_there_only_comes_with_lines_for_the_crontab() {
        let here = [
            Finding::ok("slurm", "", "commands"),
            Finding::ok("queue", "", "answers"),
        ];
        let there = vec![
            Finding::error("slurm", "sbatch", "sbatch was not found", "x"),
            Finding::error("queue", "", "does not answer", "see whether it runs"),
        ];
        let plain = judge(&facts(&here, there.clone()));
        assert_eq!(plain.len(), 2);
        assert!(
            plain
                .iter()
                .all(|f| f.topic == "cron" && f.level == Level::Error)
        );
        assert_eq!(plain[1].about, "queue");
        assert_eq!(plain[1].advice.as_deref(), Some("see whether it runs"));
        let known = judge(&Facts {
            sbatch: Some("/opt/slurm/bin/sbatch".into()),
            variables: vec![
                ("SLURM_CONF_SERVER", "ctl:6817".to_owned()),
                ("SLURM_JWT", "secret".to_owned()),
            ],
            ..facts(&here, there)
        });
        let advice = known[0].advice.as_ref().unwrap();
        assert!(advice.contains("slurm_bin_dir: /opt/slurm/bin"), "{advice}");
        assert!(
            advice.contains("PATH=/opt/slurm/bin:/usr/bin:/bin"),
            "{advice}"
        );
        assert!(advice.contains("SLURM_CONF_SERVER=ctl:6817"), "{advice}");
        assert!(!advice.contains("secret"), "{advice}");
    }

    #[test]
    fn configuration_and_scripts_that_need_a_shell_are_told() {
        let findings = judge(&Facts {
            by_variable: true,
            config_problems: vec!["${STUDY} is not set".to_owned()],
            scripts: vec![("prep".to_owned(), "script 'a.sh' was not found".to_owned())],
            ..facts(&[], Vec::new())
        });
        let told: Vec<(Level, &str)> = findings
            .iter()
            .map(|f| (f.level, f.about.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (Level::Warning, "SNBB_CONFIG"),
                (Level::Error, "config"),
                (Level::Error, "prep")
            ]
        );
        assert!(
            findings[0]
                .advice
                .as_ref()
                .unwrap()
                .contains("--config /s/config.yaml")
        );
    }

    #[test]
    fn the_environment_is_short() {
        let env = environment(Some("/home/a".into()), "a");
        assert_eq!(env.len(), 4);
        assert!(env.contains(&("PATH".into(), PATH.into())));
        assert_eq!(environment(None, "a").len(), 3);
    }
}
