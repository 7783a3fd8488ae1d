//! Repeats the checks in cron's environment: runs the program as cron would, reports what works only in a shell, and
//! suggests lines for the crontab.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the program itself, as cron would"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{Finding, Findings, Level, few, sys};
use crate::executor::script::find_on_path;
use crate::executor::slurm::KEPT;
use crate::setup::place::CRON_PATH;

const TOPIC: &str = "cron";
/// A finding under cron.
#[derive(Debug, Clone, Deserialize)]
struct CronFinding {
    level: String,
    topic: String,
    about: String,
    #[serde(rename = "finding")]
    text: String,
    #[serde(rename = "todo")]
    remedy: Option<String>,
}

/// Settings of the current environment that Slurm's commands need.
#[derive(Default)]
struct Help {
    sbatch: Option<PathBuf>,
    /// Variables that locate the cluster and libraries, with their values.
    variables: Vec<(&'static str, String)>,
}

/// Checks the effects of cron. `by_variable` means that `SNBB_CONFIG` named the file, which cron does not set.
pub fn check(config: Option<&Path>, by_variable: bool, findings: &mut Findings) {
    let here = findings.list.clone();
    if let Some(file) = config.filter(|_| by_variable) {
        let file = file.display();
        findings.about(TOPIC, "SNBB_CONFIG").warning(
            "the configuration comes from a variable that cron does not set",
            format!("use `snbb-scheduler --config {file} -q run` in the crontab"),
        );
    }
    let variables = KEPT.into_iter().chain(["LD_LIBRARY_PATH", "TZ"]);
    let set = |name| Some((name, sys::env(name)?.to_string_lossy().into_owned()));
    let help = Help {
        sbatch: find_on_path("sbatch", &[]).ok(),
        variables: variables.filter_map(set).collect(),
    };
    let file = config.map_or(Vec::new(), |file| vec![Path::new("--config"), file]);
    let output = Command::new("/proc/self/exe")
        .args(["check", "--format", "json"])
        .args(file)
        .env_clear()
        .envs(environment(sys::env("HOME"), &sys::user_name()))
        .stdin(Stdio::null())
        .output();
    let there = match output {
        Ok(output) => serde_json::from_slice::<Vec<CronFinding>>(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    match there {
        Ok(there) => judge(&here, &there, &help, findings),
        Err(error) => findings.about(TOPIC, "").error(
            format!("cannot run the program as cron would: {error}"),
            "run it manually: env -i PATH=/usr/bin:/bin HOME=\"$HOME\" snbb-scheduler check",
        ),
    }
}

/// Cron's environment (crontab(5)).
fn environment(home: Option<OsString>, user: &str) -> Vec<(OsString, OsString)> {
    let set = [("PATH", CRON_PATH), ("SHELL", "/bin/sh"), ("LOGNAME", user)];
    let set = set.map(|(name, value)| (name.into(), value.into()));
    let home = home.map(|home| ("HOME".into(), home));
    set.into_iter().chain(home).collect()
}

fn judge(here: &[Finding], there: &[CronFinding], help: &Help, findings: &mut Findings) {
    findings.about(TOPIC, "");
    let before = findings.before;
    let is_path = |topic: &str| {
        matches!(topic, "state_file" | "log_file" | "log_dir") || topic.ends_with("_root")
    };
    let is_known = |other: &CronFinding| {
        let mut here = here.iter();
        here.any(|known| (known.topic, &known.about) == (&*other.topic, &other.about))
    };
    let moved = there
        .iter()
        .filter(|other| is_path(&other.topic) && !is_known(other));
    let moved: BTreeMap<&str, &str> = moved.map(|other| (&*other.topic, &*other.about)).collect();
    for (topic, path) in moved {
        let text = format!("under cron: {topic} is {path}");
        findings.about(TOPIC, topic).error(text, SET_IN_CRONTAB);
    }
    let crontab = crontab(help, there);
    for finding in there {
        let Some(level) = worse(finding, here) else {
            continue;
        };
        let remedy = match finding.topic.as_str() {
            "config" => Some(SET_IN_CRONTAB),
            "slurm" | "queue" | "accounting" | "partition" | "submission" => crontab.as_deref(),
            _ => None,
        };
        let remedy = remedy.or(finding.remedy.as_deref()).unwrap_or_default();
        let about = match finding.about.as_str() {
            "" => &finding.topic,
            about => about,
        };
        let text = format!("under cron: {}", finding.text);
        findings.about(TOPIC, about).add(level, text, remedy);
    }
    if findings.list.len() == before {
        let passed = there.iter().filter(|finding| finding.level == "ok");
        let mut passed: Vec<&str> = passed.map(|finding| &*finding.topic).collect();
        passed.dedup();
        let text = format!("also works under cron: {}", passed.join(", "));
        findings.about(TOPIC, "").ok(text);
    }
}

const SET_IN_CRONTAB: &str = "set the variable in the crontab (a line NAME=value above the others), or put its value into the configuration";

/// The level of a finding under cron that is worse than the current one.
fn worse(finding: &CronFinding, here: &[Finding]) -> Option<Level> {
    let level: Level = finding.level.parse().ok()?;
    let is_known = here.iter().any(|known| match finding.topic.as_str() {
        "config" => known.text == finding.text,
        topic => (known.topic, &known.about) == (topic, &finding.about) && known.level >= level,
    });
    (level > Level::Ok && !is_known).then_some(level)
}

/// A remedy for Slurm's commands, derived from the current environment.
fn crontab(help: &Help, there: &[CronFinding]) -> Option<String> {
    let mut lines = Vec::new();
    let mut missing = there.iter().filter(|there| there.topic == "slurm");
    let is_missing = missing.any(|there| there.about == "sbatch");
    let sbatch = help.sbatch.as_deref().filter(|_| is_missing);
    if let Some(dir) = sbatch.and_then(Path::parent) {
        let dir = dir.display();
        lines.push(format!(
            "set slurm_bin_dir: {dir} in the configuration, or add the line PATH={dir}:{CRON_PATH} to the crontab"
        ));
    }
    let variables = help.variables.iter().map(|(name, value)| match *name {
        // A token is secret and expires.
        "SLURM_JWT" => "SLURM_JWT=... (a token that is still valid at that time)".to_owned(),
        name => format!("{name}={value}"),
    });
    let variables: Vec<String> = variables.collect();
    if !variables.is_empty() {
        let variables = few(&variables);
        lines.push(format!(
            "add the current settings to the crontab: {variables}"
        ));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn there(level: &str, topic: &str, about: &str, text: &str) -> CronFinding {
        CronFinding {
            level: level.into(),
            topic: topic.into(),
            about: about.into(),
            text: text.into(),
            remedy: (level != "ok").then(|| "x".to_owned()),
        }
    }

    fn judged(here: &[Finding], there: &[CronFinding], help: &Help) -> Vec<Finding> {
        testing::judged(|out| judge(here, there, help, out))
    }

    #[test]
    fn equal_findings_are_not_repeated() {
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
            findings[0].text.ends_with("cron: queue, bids_root"),
            "{findings:?}"
        );
    }

    #[test]
    fn failures_only_under_cron_suggest_crontab_lines() {
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
        assert_eq!(plain[1].remedy.as_deref(), Some("x"));
        let help = Help {
            sbatch: Some("/opt/slurm/bin/sbatch".into()),
            variables: vec![
                ("SLURM_CONF_SERVER", "ctl:6817".to_owned()),
                ("SLURM_JWT", "secret".to_owned()),
            ],
        };
        let known = judged(&here, &there, &help);
        let remedy = known[0].remedy.as_ref().unwrap();
        assert!(remedy.contains("slurm_bin_dir: /opt/slurm/bin"), "{remedy}");
        assert!(
            remedy.contains("PATH=/opt/slurm/bin:/usr/bin:/bin"),
            "{remedy}"
        );
        assert!(remedy.contains("SLURM_CONF_SERVER=ctl:6817"), "{remedy}");
        assert!(!remedy.contains("secret"), "{remedy}");
    }

    #[test]
    fn configuration_and_scripts_that_need_a_shell_are_reported() {
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
        let found: Vec<(Level, &str)> = findings
            .iter()
            .map(|f| (f.level, f.about.as_str()))
            .collect();
        assert_eq!(
            found,
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
