//! Who is told: mail, the site's own program, heartbeat, metrics, reports. Pure.

use std::path::{Path, PathBuf};

use super::Finding;
use super::places::Look;
use crate::model::config::Config;
use crate::show::mail;
use crate::show::mail::MailError;

const TOPIC: &str = "notify";

/// Holds what was seen of it.
#[derive(Debug, Default)]
pub struct Facts {
    /// Why the mail server cannot be reached; none: it can, or nobody asked.
    pub unreachable: Option<String>,
    pub command: Option<(PathBuf, Program)>,
    /// Directories of files that are written: the key, the directory, what stands there.
    pub dirs: Vec<(&'static str, PathBuf, Look)>,
    /// Permission bits of a configuration file that holds a password.
    pub password_mode: Option<u32>,
}

/// Says what stands at the path of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Executable,
    NotExecutable,
    /// The system's words.
    Missing(String),
}

/// True if the site sends mail at all.
pub fn sends_mail(config: &Config) -> bool {
    config.notify.email || !config.audit.email_recipients.is_empty()
}

/// Judges it.
pub fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if sends_mail(config) {
        findings.push(mail(config, facts));
    }
    if facts.password_mode.is_some_and(|mode| mode & 0o040 != 0) {
        findings.push(Finding::warning(
            TOPIC,
            "audit.smtp_password",
            "it stands in a file that the whole group can read",
            "chmod g-r the configuration, or name a variable as audit.smtp_password_env",
        ));
    }
    if let Some((path, program)) = &facts.command {
        findings.push(command(path, program));
    }
    for (key, dir, look) in &facts.dirs {
        let about = *key;
        let shown = dir.display();
        let is_metrics = *key == "metrics_file";
        findings.push(match look {
            Look::Writable => Finding::ok(TOPIC, about, format!("{shown} can be written to")),
            Look::Missing { in_writable: true } if !is_metrics => {
                Finding::ok(TOPIC, about, format!("{shown} will be made"))
            }
            Look::Missing { .. } if is_metrics => Finding::warning(
                TOPIC,
                about,
                format!("{shown} does not exist"),
                "name a file in the directory that node_exporter's --collector.textfile.directory names",
            ),
            Look::Missing { .. } | Look::Unwritable | Look::NotADirectory => Finding::warning(
                TOPIC,
                about,
                format!("nothing can be written to {shown} by this user"),
                format!("give the user write permission there, or set {key} to another place"),
            ),
            Look::Unreadable(error) => Finding::warning(
                TOPIC,
                about,
                format!("{shown} cannot be looked at: {error}"),
                format!("give the user permission there, or set {key} to another place"),
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            TOPIC,
            "",
            "nobody is told by itself (keys: notify, heartbeat_file, metrics_file)",
        ));
    }
    findings
}

fn mail(config: &Config, facts: &Facts) -> Finding {
    let audit = &config.audit;
    let server = format!("{}:{}", audit.smtp_host, audit.smtp_port);
    let about = "audit.smtp_host";
    match (mail::check(audit), &facts.unreachable) {
        (Err(error), _) => {
            let about = match error {
                MailError::NoRecipients => "audit.email_recipients",
                MailError::NoPassword { .. } => "audit.smtp_password_env",
                _ => "audit",
            };
            Finding::error(
                TOPIC,
                about,
                format!("no mail could be sent: {error}"),
                error.hint(),
            )
        }
        (Ok(()), Some(why)) => Finding::warning(
            TOPIC,
            about,
            format!("the mail server {server} cannot be reached: {why}"),
            "look at audit.smtp_host and audit.smtp_port; the server must be reachable from this machine",
        ),
        (Ok(()), None) => Finding::ok(
            TOPIC,
            about,
            format!("the mail server {server} can be reached"),
        ),
    }
}

fn command(path: &Path, program: &Program) -> Finding {
    let about = "notify.command";
    let shown = path.display();
    match program {
        Program::Executable => Finding::ok(TOPIC, about, format!("{shown} can be executed")),
        Program::NotExecutable => Finding::error(
            TOPIC,
            about,
            format!("{shown} is not an executable file"),
            format!("chmod +x {shown}; a script also needs '#!' and an interpreter"),
        ),
        Program::Missing(why) => Finding::error(
            TOPIC,
            about,
            format!("{shown} cannot be used: {why}"),
            "name the path of an executable file",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::config::{Overrides, load::interpret};

    fn config(text: &str) -> Config {
        let file = Some(Path::new("/c.yaml"));
        // Nothing at all is an error.
        let text = if text.is_empty() { "{}" } else { text };
        interpret(
            text.as_bytes(),
            file,
            false,
            &|_| None,
            &Overrides::default(),
            Path::new("/"),
        )
        .unwrap()
    }

    const MAIL: &str = "notify: {email: yes}\naudit: {email_recipients: [a@example.org], smtp_host: m.example.org}\n";

    #[test]
    fn a_site_that_tells_nobody_and_one_that_does_are_in_order() {
        let findings = judge(&config(""), &Facts::default());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        let facts = Facts {
            command: Some(("/bin/true".into(), Program::Executable)),
            dirs: vec![
                ("heartbeat_file", "/s".into(), Look::Writable),
                ("metrics_file", "/m".into(), Look::Writable),
                (
                    "audit.report_dir",
                    "/r".into(),
                    Look::Missing { in_writable: true },
                ),
            ],
            password_mode: Some(0o600),
            ..Facts::default()
        };
        let findings = judge(&config(MAIL), &facts);
        assert_eq!(findings.len(), 5);
        assert!(
            findings.iter().all(|f| f.level == Level::Ok),
            "{findings:#?}"
        );
    }

    #[test]
    fn each_trouble_is_told() {
        let facts = |unreachable: Option<&str>,
                     command: Option<Program>,
                     look: Option<(&'static str, Look)>| Facts {
            unreachable: unreachable.map(str::to_owned),
            command: command.map(|program| ("/x".into(), program)),
            dirs: look
                .into_iter()
                .map(|(key, look)| (key, "/d".into(), look))
                .collect(),
            password_mode: None,
        };
        let password = "audit: {email_recipients: [a@example.org], smtp_host: m.example.org, smtp_username: u, smtp_tls: yes}\n";
        let missing = || Look::Missing { in_writable: true };
        for (text, facts, level, about) in [
            (
                MAIL,
                facts(Some("refused"), None, None),
                Level::Warning,
                "audit.smtp_host",
            ),
            (
                password,
                facts(None, None, None),
                Level::Error,
                "audit.smtp_password_env",
            ),
            (
                "",
                facts(None, Some(Program::NotExecutable), None),
                Level::Error,
                "notify.command",
            ),
            (
                "",
                facts(None, Some(Program::Missing("no".into())), None),
                Level::Error,
                "notify.command",
            ),
            (
                "",
                facts(None, None, Some(("metrics_file", missing()))),
                Level::Warning,
                "metrics_file",
            ),
            (
                "",
                facts(None, None, Some(("heartbeat_file", Look::Unwritable))),
                Level::Warning,
                "heartbeat_file",
            ),
            (
                "",
                facts(
                    None,
                    None,
                    Some(("heartbeat_file", Look::Unreadable("x".into()))),
                ),
                Level::Warning,
                "heartbeat_file",
            ),
        ] {
            let findings = judge(&config(text), &facts);
            assert_eq!(findings.len(), 1, "{findings:#?}");
            assert_eq!(
                (findings[0].level, findings[0].about.as_str()),
                (level, about)
            );
        }
        let group = Facts {
            password_mode: Some(0o640),
            ..Facts::default()
        };
        assert_eq!(judge(&config(""), &group)[0].about, "audit.smtp_password");
    }
}
