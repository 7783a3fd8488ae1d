//! The same with the surroundings that cron gives: what works in a shell and not there, and what to write into the
//! crontab. The program calls itself as cron would, and what is worse then is told.
#![expect(
    clippy::disallowed_methods,
    reason = "calls the program itself as cron would"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{Finding, Findings, Level, few};
use crate::base::sys;
use crate::executor::script::find_script;
use crate::executor::slurm::KEPT;
use crate::setup::place::CRON_PATH;

const TOPIC: &str = "cron";
/// Topics of which a finding is about a path that the configuration names.
const PATHS: [&str; 6] = [
    "dicom_root",
    "bids_root",
    "derivatives_root",
    "state_file",
    "log_file",
    "log_dir",
];

/// One finding of the call.
#[derive(Debug, Clone, Deserialize)]
struct There {
    level: String,
    topic: String,
    about: String,
    #[serde(rename = "finding")]
    text: String,
    advice: Option<String>,
}

/// What is set here and helps Slurm's commands.
#[derive(Default)]
struct Help {
    sbatch: Option<PathBuf>,
    /// Variables that lead to the cluster and to libraries, with their values.
    variables: Vec<(&'static str, String)>,
}

/// Looks at what cron changes. `by_variable`: the file was named by `SNBB_CONFIG`, which cron does not have.
pub fn check(config: Option<&Path>, by_variable: bool, findings: &mut Findings) {
    let here = findings.list.clone();
    if let Some(file) = config.filter(|_| by_variable) {
        let file = file.display();
        findings.about(TOPIC, "SNBB_CONFIG").warning(
            "the configuration is named by a variable that cron does not have",
            format!("write `snbb-scheduler --config {file} -q run` into the crontab"),
        );
    }
    let variables = KEPT.into_iter().chain(["LD_LIBRARY_PATH", "TZ"]);
    let set = |name| Some((name, sys::env(name)?.to_string_lossy().into_owned()));
    let help = Help {
        sbatch: find_script("sbatch", &[], sys::env("PATH").as_deref()).ok(),
        variables: variables.filter_map(set).collect(),
    };
    match call(config) {
        Ok(there) => judge(&here, &there, &help, findings),
        Err(error) => findings.about(TOPIC, "").error(
            format!("the program could not be called as cron would: {error}"),
            "try it by hand: env -i PATH=/usr/bin:/bin HOME=\"$HOME\" snbb-scheduler check",
        ),
    }
}

/// Calls the program as cron would.
fn call(config: Option<&Path>) -> Result<Vec<There>, String> {
    let file = config
        .into_iter()
        .flat_map(|file| ["--config".as_ref(), file]);
    let output = Command::new("/proc/self/exe")
        .args(["check", "--format", "json"])
        .args(file)
        .env_clear()
        .envs(environment(sys::env("HOME"), &sys::user_name()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let words = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| words())
}

/// Returns the environment that cron gives (crontab(5)).
fn environment(home: Option<OsString>, user: &str) -> Vec<(OsString, OsString)> {
    let set = [("PATH", CRON_PATH), ("SHELL", "/bin/sh"), ("LOGNAME", user)];
    let set = set.map(|(name, value)| (name.into(), value.into()));
    let home = home.map(|home| ("HOME".into(), home));
    set.into_iter().chain(home).collect()
}

fn judge(here: &[Finding], there: &[There], help: &Help, findings: &mut Findings) {
    let before = findings.list.len();
    for topic in PATHS {
        let is_known = |there: &&There| {
            here.iter()
                .any(|here| here.topic == topic && here.about == there.about)
        };
        let mut of_topic = there.iter().filter(|there| there.topic == topic);
        if let Some(other) = of_topic.find(|there| !is_known(there)) {
            findings.about(TOPIC, topic).error(
                format!("under cron: {topic} is {}", other.about),
                IN_CRONTAB,
            );
        }
    }
    let advice = crontab(help, there);
    let mut ok: Vec<&str> = Vec::new();
    for finding in there {
        let level = match finding.level.parse() {
            Ok(Level::Ok) | Err(_) => {
                ok.extend(Some(&*finding.topic).filter(|topic| !ok.contains(topic)));
                continue;
            }
            Ok(level) => level,
        };
        if !is_news(finding, level, here) {
            continue;
        }
        let about = match finding.about.as_str() {
            "" => &finding.topic,
            about => about,
        };
        let advice = match finding.topic.as_str() {
            "config" => Some(IN_CRONTAB.to_owned()),
            "slurm" | "queue" | "accounting" | "partition" | "submission" => advice.clone(),
            _ => None,
        };
        let advice = advice.or_else(|| finding.advice.clone());
        let text = format!("under cron: {}", finding.text);
        findings.about(TOPIC, about);
        findings.add(level, text, advice.unwrap_or_default());
    }
    if findings.list.len() == before {
        findings.about(TOPIC, "").ok(format!(
            "works with the surroundings of cron too: {}",
            ok.join(", ")
        ));
    }
}

const IN_CRONTAB: &str = "set the variable in the crontab (a line NAME=value above the others), or write the value itself into the configuration";

/// True if a finding is worse than what is said of the same thing here.
fn is_news(finding: &There, level: Level, here: &[Finding]) -> bool {
    let known = here
        .iter()
        .filter(|known| known.topic == finding.topic && known.about == finding.about);
    match finding.topic.as_str() {
        "config" => !here.iter().any(|known| known.text == finding.text),
        _ => level > known.map(|known| known.level).max().unwrap_or(Level::Ok),
    }
}

/// Returns what helps Slurm's commands, as far as it can be told from what is set here.
fn crontab(help: &Help, there: &[There]) -> Option<String> {
    let mut lines = Vec::new();
    let is_missing = there
        .iter()
        .any(|there| there.topic == "slurm" && there.about == "sbatch");
    let sbatch = help.sbatch.as_deref().filter(|_| is_missing);
    if let Some(dir) = sbatch.and_then(Path::parent) {
        let dir = dir.display();
        lines.push(format!(
            "set slurm_bin_dir: {dir} in the configuration, or write the line PATH={dir}:{CRON_PATH} into the crontab"
        ));
    }
    let variables = help.variables.iter().map(|(name, value)| match *name {
        // A token is a secret, and ends.
        "SLURM_JWT" => "SLURM_JWT=... (a token that is still valid then)".to_owned(),
        name => format!("{name}={value}"),
    });
    let variables: Vec<String> = variables.collect();
    if !variables.is_empty() {
        let variables = few(&variables);
        lines.push(format!(
            "write into the crontab what is set here: {variables}"
        ));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn there(level: &str, topic: &str, about: &str, text: &str) -> There {
        There {
            level: level.into(),
            topic: topic.into(),
            about: about.into(),
            text: text.into(),
            advice: (level != "ok").then(|| "x".to_owned()),
        }
    }

    fn judged(here: &[Finding], there: &[There], help: &Help) -> Vec<Finding> {
        testing::judged(|out| judge(here, there, help, out))
    }

    #[test]
    fn what_is_the_same_in_both_is_no_news() {
        let here = [
            testing::ok("queue", "", "answers"),
            testing::ok("bids_root", "/b", "is there"),
            testing::error("submission", "prep", "refused", "x"),
        ];
        let there = [
            there("ok", "queue", "", "answers"),
            there("ok", "bids_root", "/b", "is there"),
            there("error", "submission", "prep", "refused"),
        ];
        let findings = judged(&here, &there, &Help::default());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        assert!(
            findings[0].text.ends_with("too: queue, bids_root"),
            "{findings:?}"
        );
    }

    #[test]
    fn a4_what_fails_there_only_comes_with_lines_for_the_crontab() {
        let here = [
            testing::ok("slurm", "", "commands"),
            testing::ok("queue", "", "answers"),
        ];
        let there = [
            there("error", "slurm", "sbatch", "sbatch was not found"),
            there("error", "queue", "", "does not answer"),
        ];
        let plain = judged(&here, &there, &Help::default());
        assert_eq!(plain.len(), 2);
        assert!(
            plain
                .iter()
                .all(|f| f.topic == "cron" && f.level == Level::Error)
        );
        assert_eq!(plain[1].about, "queue");
        assert_eq!(plain[1].advice.as_deref(), Some("x"));
        let help = Help {
            sbatch: Some("/opt/slurm/bin/sbatch".into()),
            variables: vec![
                ("SLURM_CONF_SERVER", "ctl:6817".to_owned()),
                ("SLURM_JWT", "secret".to_owned()),
            ],
        };
        let known = judged(&here, &there, &help);
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
        let here = [
            testing::warning("config", "", "known", "x"),
            testing::ok("script", "prep", "is a job script"),
            testing::ok("bids_root", "/a", "is there"),
        ];
        let there = [
            there("warning", "config", "", "known"),
            there("warning", "config", "", "the password is not set"),
            there("error", "script", "prep", "script 'a.sh' was not found"),
            there("ok", "bids_root", "/b", "is there"),
        ];
        let findings = judged(&here, &there, &Help::default());
        let told: Vec<(Level, &str)> = findings
            .iter()
            .map(|f| (f.level, f.about.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (Level::Error, "bids_root"),
                (Level::Warning, "config"),
                (Level::Error, "prep")
            ]
        );
    }

    #[test]
    fn the_environment_is_short() {
        let env = environment(Some("/home/a".into()), "a");
        assert_eq!(env.len(), 4);
        assert!(env.contains(&("PATH".into(), CRON_PATH.into())));
        assert_eq!(environment(None, "a").len(), 3);
    }
}
