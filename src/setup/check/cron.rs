//! The same with the surroundings that cron gives: what works in a shell and not there, and what to write into the
//! crontab.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::site::roots;
use super::slurm::Inquiry;
use super::{Finding, Findings, Level, Site, few};
use crate::base::sys;
use crate::executor::slurm::KEPT;
use crate::executor::slurm::inspect::Report;
use crate::model::config::Config;
use crate::setup::place::CRON_PATH;

const TOPIC: &str = "cron";

/// What the configuration says under cron.
pub struct UnderCron {
    env: Vec<(OsString, OsString)>,
    /// The file was named by `SNBB_CONFIG`, which cron does not have.
    by_variable: bool,
    config: Result<Config, String>,
}

impl UnderCron {
    /// `read`: reads the configuration with the variables that it is given.
    pub fn new(
        config: &Config,
        by_variable: bool,
        read: impl FnOnce(&dyn Fn(&str) -> Option<OsString>) -> Result<Config, String>,
    ) -> Self {
        let env = environment(sys::env("HOME"), &sys::user_name());
        let file = config.file.clone();
        let get = |name: &str| {
            let set = env.iter().find(|(known, _)| known == name);
            let value = set.map(|(_, value)| value.clone());
            // A crontab names the file by --config.
            let file = || file.clone().filter(|_| name == "SNBB_CONFIG");
            value.or_else(|| file().map(Into::into))
        };
        let config = read(&get);
        Self {
            env,
            by_variable: by_variable && file.is_some(),
            config,
        }
    }
}

/// What Slurm was asked here, what it said, and what that was found to mean.
pub type Here<'a> = (&'a Inquiry, &'a Report, &'a [Finding]);

/// Looks at what cron changes. `here`: none without Slurm. `limit`: for Slurm's answers.
pub fn check(
    site: &Site,
    cron: &UnderCron,
    here: Option<Here<'_>>,
    limit: Duration,
    findings: &mut Findings,
) {
    let config_problems = match &cron.config {
        Err(error) => vec![error.clone()],
        Ok(there) => differences(&site.config, there),
    };
    let search_path = cron.env.iter().find(|(name, _)| name == "PATH");
    let search_path = search_path.map(|(_, value)| value);
    let own_path = sys::env("PATH");
    let scripts = site.procedures().filter_map(|procedure| {
        // What is not found here either was told.
        site.find_script(&procedure.script, own_path.as_ref())
            .ok()?;
        let error = site.find_script(&procedure.script, search_path).err()?;
        Some((procedure.name.to_string(), error.to_string()))
    });
    let mut facts = Differences {
        config_file: site.config.file.as_deref().filter(|_| cron.by_variable),
        config_problems,
        scripts: scripts.collect(),
        ..Differences::default()
    };
    if let Some((inquiry, report, here)) = here {
        let config = cron.config.as_ref().unwrap_or(&site.config);
        let there = inquiry.ask(config, cron.env.clone(), limit, true);
        facts.sbatch = sbatch(report).filter(|_| sbatch(&there).is_none());
        let mut under_cron = Findings::default();
        inquiry.judge(&site.config, &there, &mut under_cron);
        (facts.here, facts.there) = (here, under_cron.list);
        facts.variables = helpers()
            .filter_map(|name| Some((name, sys::env(name)?.to_string_lossy().into_owned())))
            .collect();
    }
    judge(&facts, findings);
}

/// Names the paths that come out differently, and what is warned about only there (a password that is not set).
fn differences(here: &Config, there: &Config) -> Vec<String> {
    let differing = paths(here)
        .zip(paths(there))
        .filter(|(here, there)| here != there);
    let paths = differing.map(|((key, here), (_, there))| {
        format!("{key} is {}, not {}", there.display(), here.display())
    });
    let warnings = there.warnings.iter().cloned();
    let new = warnings.filter(|warning| !here.warnings.contains(warning));
    paths.chain(new).collect()
}

fn paths(config: &Config) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let own = [
        ("state_file", &config.state_file),
        ("log_file", &config.log_file),
    ];
    roots(config).into_iter().chain(own)
}

fn sbatch(report: &Report) -> Option<PathBuf> {
    let mut programs = report.programs.iter();
    let (_, place) = programs.find(|(name, _)| *name == "sbatch")?;
    place.as_ref().ok().cloned()
}

/// Returns the variables that help Slurm's commands to their cluster and libraries.
fn helpers() -> impl Iterator<Item = &'static str> {
    KEPT.into_iter().chain(["LD_LIBRARY_PATH", "TZ"])
}

/// Returns the environment that cron gives (crontab(5)).
fn environment(home: Option<OsString>, user: &str) -> Vec<(OsString, OsString)> {
    let set = [("PATH", CRON_PATH), ("SHELL", "/bin/sh"), ("LOGNAME", user)];
    let set = set.map(|(name, value)| (name.into(), value.into()));
    let home = home.map(|home| ("HOME".into(), home));
    set.into_iter().chain(home).collect()
}

/// What differs between this shell and cron.
#[derive(Default)]
struct Differences<'a> {
    /// The file that only a variable names.
    config_file: Option<&'a Path>,
    /// Why the configuration cannot be used there, or what it then says differently.
    config_problems: Vec<String>,
    /// Scripts that are not found there: procedure and message.
    scripts: Vec<(String, String)>,
    /// What Slurm's part found here, and there.
    here: &'a [Finding],
    there: Vec<Finding>,
    /// Where sbatch is here, if it is nowhere there.
    sbatch: Option<PathBuf>,
    /// Of [`helpers`], those that are set here, with their values.
    variables: Vec<(&'static str, String)>,
}

fn judge(facts: &Differences<'_>, findings: &mut Findings) {
    let before = findings.list.len();
    if let Some(file) = facts.config_file {
        let file = file.display();
        findings.about(TOPIC, "SNBB_CONFIG").warning(
            "the configuration is named by a variable that cron does not have",
            format!("write `snbb-scheduler --config {file} -q run` into the crontab"),
        );
    }
    for problem in &facts.config_problems {
        findings.about(TOPIC, "config").error(
            format!("under cron: {problem}"),
            "set the variable in the crontab (a line NAME=value above the others), or write the value itself into the configuration",
        );
    }
    for (procedure, message) in &facts.scripts {
        findings.about(TOPIC, procedure).error(
            format!("under cron: {message}"),
            "set script_dir, or give the script's absolute path",
        );
    }
    let advice = crontab(facts);
    let news = facts.there.iter();
    for news in news.filter(|finding| is_news(finding, facts.here)) {
        let about = match news.about.as_str() {
            "" => news.topic,
            about => about,
        };
        let text = format!("under cron: {}", news.text);
        let advice = advice.as_ref().or(news.advice.as_ref());
        let out = findings.about(TOPIC, about);
        out.add(news.level, text, advice.cloned().unwrap_or_default());
    }
    if findings.list.len() > before {
        return;
    }
    let works = facts
        .there
        .iter()
        .filter(|finding| finding.level == Level::Ok);
    let mut topics: Vec<&str> = works.map(|finding| finding.topic).collect();
    topics.dedup();
    findings.about(TOPIC, "").ok(match topics.as_slice() {
        [] => "nothing is worse under cron".to_owned(),
        topics => format!(
            "works with the surroundings of cron too: {}",
            topics.join(", ")
        ),
    });
}

/// True if a finding is worse than what is said of the same thing here.
fn is_news(finding: &Finding, here: &[Finding]) -> bool {
    let known = here.iter();
    let known =
        known.filter(|known| (known.topic, &known.about) == (finding.topic, &finding.about));
    finding.level > known.map(|known| known.level).max().unwrap_or(Level::Ok)
}

/// Returns what helps, as far as it can be told from what is set here.
fn crontab(facts: &Differences<'_>) -> Option<String> {
    let mut lines = Vec::new();
    if let Some(dir) = facts.sbatch.as_deref().and_then(Path::parent) {
        let dir = dir.display();
        lines.push(format!(
            "set slurm_bin_dir: {dir} in the configuration, or write the line PATH={dir}:{CRON_PATH} into the crontab"
        ));
    }
    let variables = facts.variables.iter().map(|(name, value)| match *name {
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

    fn facts<'a>(here: &'a [Finding], there: Vec<Finding>) -> Differences<'a> {
        Differences {
            here,
            there,
            ..Differences::default()
        }
    }

    fn judged(facts: &Differences<'_>) -> Vec<Finding> {
        testing::judged(|out| judge(facts, out))
    }

    #[test]
    fn what_is_the_same_in_both_is_no_news() {
        let here = [
            testing::ok("queue", "", "answers"),
            testing::error("submission", "prep", "refused", "x"),
        ];
        let there = here.to_vec();
        let findings = judged(&facts(&here, there));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        assert!(findings[0].text.ends_with("too: queue"), "{findings:?}");
    }

    #[test]
    fn a4_what_fails_there_only_comes_with_lines_for_the_crontab() {
        let here = [
            testing::ok("slurm", "", "commands"),
            testing::ok("queue", "", "answers"),
        ];
        let there = vec![
            testing::error("slurm", "sbatch", "sbatch was not found", "x"),
            testing::error("queue", "", "does not answer", "see whether it runs"),
        ];
        let plain = judged(&facts(&here, there.clone()));
        assert_eq!(plain.len(), 2);
        assert!(
            plain
                .iter()
                .all(|f| f.topic == "cron" && f.level == Level::Error)
        );
        assert_eq!(plain[1].about, "queue");
        assert_eq!(plain[1].advice.as_deref(), Some("see whether it runs"));
        let known = judged(&Differences {
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
        let findings = judged(&Differences {
            config_file: Some(Path::new("/s/config.yaml")),
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
        assert!(env.contains(&("PATH".into(), CRON_PATH.into())));
        assert_eq!(environment(None, "a").len(), 3);
    }
}
