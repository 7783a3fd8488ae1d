//! Who is told: mail, the site's own program, heartbeat, metrics, reports.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use super::{Findings, Site};
use crate::base::regular::error_text;
use crate::model::config::Config;
use crate::setup::place::{self, Place};
use crate::show::mail;
use crate::show::mail::MailError;

const TOPIC: &str = "notify";
/// For a mail server's answer.
const MAIL_LIMIT: Duration = Duration::from_secs(5);

/// What was seen of it.
#[derive(Debug, Default)]
struct Seen {
    /// Why the mail server cannot be reached; none: it can, or nobody asked.
    unreachable: Option<String>,
    /// Whether `notify.command` can be executed, or why it cannot be used.
    command: Option<(PathBuf, Result<bool, String>)>,
    /// Directories of files that are written: the key, the directory, what stands there, whether this user may write.
    dirs: Vec<(&'static str, PathBuf, Place, bool)>,
}

pub fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let audit = &config.audit;
    let parent = |file: &PathBuf| place::parent(file);
    let dirs = [
        ("heartbeat_file", config.heartbeat_file.as_ref().map(parent)),
        ("metrics_file", config.metrics_file.as_ref().map(parent)),
        ("audit.report_dir", audit.report_dir.clone()),
    ];
    let dirs = dirs.into_iter().filter_map(|(key, dir)| {
        let dir = dir?;
        let (seen, is_writable) = (
            place::look(&dir),
            place::is_writable(&place::existing(&dir)),
        );
        Some((key, dir, seen, is_writable))
    });
    let is_mail_sound = sends_mail(config) && mail::check(audit).is_ok();
    let command = config.notify.command.clone();
    let seen = Seen {
        unreachable: match is_mail_sound {
            true => reach(&audit.smtp_host, audit.smtp_port).err(),
            false => None,
        },
        command: command.map(|path| (path.clone(), place::is_program(&path))),
        dirs: dirs.collect(),
    };
    judge(config, &seen, findings);
}

/// True if the site sends mail at all.
fn sends_mail(config: &Config) -> bool {
    config.notify.email || !config.audit.email_recipients.is_empty()
}

/// Tries to reach a server; the error says why not.
fn reach(host: &str, port: u16) -> Result<(), String> {
    let mut last = "its name has no address".to_owned();
    let addresses = (host, port).to_socket_addrs();
    for address in addresses.map_err(|error| error_text(&error))? {
        match TcpStream::connect_timeout(&address, MAIL_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error_text(&error),
        }
    }
    Err(last)
}

fn judge(config: &Config, seen: &Seen, findings: &mut Findings) {
    let before = findings.list.len();
    if sends_mail(config) {
        judge_mail(config, seen, findings);
    }
    if let Some((path, program)) = &seen.command {
        let shown = path.display();
        findings.about(TOPIC, "notify.command");
        match program {
            Ok(true) => findings.ok(format!("{shown} can be executed")),
            Ok(false) => findings.error(
                format!("{shown} is not an executable file"),
                format!("chmod +x {shown}; a script also needs '#!' and an interpreter"),
            ),
            Err(why) => findings.error(
                format!("{shown} cannot be used: {why}"),
                "name the path of an executable file",
            ),
        }
    }
    for (key, dir, seen, is_writable) in &seen.dirs {
        let shown = dir.display();
        findings.about(TOPIC, key);
        let elsewhere = format!("give the user permission there, or set {key} to another place");
        match (seen, is_writable) {
            (Place::Directory, true) => findings.ok(format!("{shown} can be written to")),
            (Place::Missing, _) if *key == "metrics_file" => findings.warning(
                format!("{shown} does not exist"),
                "name a file in the directory that node_exporter's --collector.textfile.directory names",
            ),
            (Place::Missing, true) => findings.ok(format!("{shown} will be made")),
            (Place::Unreadable(error), _) => {
                findings.warning(format!("{shown} cannot be looked at: {error}"), elsewhere);
            }
            _ => {
                let text = format!("nothing can be written to {shown} by this user");
                findings.warning(text, elsewhere);
            }
        }
    }
    if findings.list.len() == before {
        let text = "nobody is told by itself (keys: notify, heartbeat_file, metrics_file)";
        findings.about(TOPIC, "").ok(text);
    }
}

fn judge_mail(config: &Config, seen: &Seen, findings: &mut Findings) {
    let audit = &config.audit;
    let server = format!("{}:{}", audit.smtp_host, audit.smtp_port);
    if let Err(error) = mail::check(audit) {
        let about = match error {
            MailError::NoRecipients => "audit.email_recipients",
            MailError::NoPassword { .. } => "audit.smtp_password_env",
            _ => "audit",
        };
        let text = format!("no mail could be sent: {error}");
        findings.about(TOPIC, about).error(text, error.hint());
        return;
    }
    findings.about(TOPIC, "audit.smtp_host");
    if let Some(why) = &seen.unreachable {
        findings.warning(
            format!("the mail server {server} cannot be reached: {why}"),
            "look at audit.smtp_host and audit.smtp_port; the server must be reachable from this machine",
        );
    }
    findings.or_ok(format!("the mail server {server} can be reached"));
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;

    const MAIL: &str = "notify: {email: yes}\naudit: {email_recipients: [a@example.org], smtp_host: m.example.org}\n";

    fn judged(text: &str, seen: &Seen) -> Vec<Finding> {
        testing::judged(|out| judge(&testing::config(text), seen, out))
    }

    #[test]
    fn a_site_that_tells_nobody_and_one_that_does_are_in_order() {
        let findings = judged("", &Seen::default());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        let seen = Seen {
            command: Some(("/bin/true".into(), Ok(true))),
            dirs: vec![
                ("heartbeat_file", "/s".into(), Place::Directory, true),
                ("metrics_file", "/m".into(), Place::Directory, true),
                ("audit.report_dir", "/r".into(), Place::Missing, true),
            ],
            ..Seen::default()
        };
        let findings = judged(MAIL, &seen);
        assert_eq!(findings.len(), 5);
        assert!(testing::trouble(&findings).is_empty(), "{findings:#?}");
    }

    #[test]
    fn each_trouble_is_told() {
        let password = "audit: {email_recipients: [a@example.org], smtp_host: m.example.org, smtp_username: u, smtp_tls: yes}\n";
        let command = |program| Seen {
            command: Some(("/x".into(), program)),
            ..Seen::default()
        };
        let dir = |key, place, is_writable| Seen {
            dirs: vec![(key, "/d".into(), place, is_writable)],
            ..Seen::default()
        };
        let unreachable = Seen {
            unreachable: Some("refused".to_owned()),
            ..Seen::default()
        };
        let unreadable = Place::Unreadable("x".into());
        for (text, seen, level, about) in [
            (MAIL, unreachable, Level::Warning, "audit.smtp_host"),
            (
                password,
                Seen::default(),
                Level::Error,
                "audit.smtp_password_env",
            ),
            ("", command(Ok(false)), Level::Error, "notify.command"),
            (
                "",
                command(Err("no".into())),
                Level::Error,
                "notify.command",
            ),
            (
                "",
                dir("metrics_file", Place::Missing, true),
                Level::Warning,
                "metrics_file",
            ),
            (
                "",
                dir("heartbeat_file", Place::Directory, false),
                Level::Warning,
                "heartbeat_file",
            ),
            (
                "",
                dir("heartbeat_file", unreadable, false),
                Level::Warning,
                "heartbeat_file",
            ),
        ] {
            let findings = judged(text, &seen);
            testing::one(&findings, level, "");
            assert_eq!(findings[0].about, about);
        }
    }

    #[test]
    fn servers_are_reached_or_not() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(reach("127.0.0.1", port), Ok(()));
        drop(listener);
        assert!(reach("127.0.0.1", port).is_err());
    }
}
