//! Checks notifications: mail, the notification command, heartbeat, metrics and reports.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Findings, Level, Site, places};
use crate::base::regular::error_text;
use crate::model::config::AuditConfig;
use crate::setup::place::{self, Place};
use crate::show::mail;

const TOPIC: &str = "notify";
/// Time limit for connecting to the mail server.
const MAIL_LIMIT: Duration = Duration::from_secs(5);

pub(super) fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let audit = &config.audit;
    if config.notify.email || !audit.email_recipients.is_empty() {
        mail_server(audit, reach, findings);
    }
    if let Some(path) = &config.notify.command {
        command(path, place::is_program(path), findings);
    }
    let parent = |file: &Option<PathBuf>| file.as_deref().map(place::parent);
    for (key, dir) in [
        ("heartbeat_file", parent(&config.heartbeat_file)),
        ("metrics_file", parent(&config.metrics_file)),
        ("audit.report_dir", audit.report_dir.clone()),
    ] {
        let Some(dir) = dir else { continue };
        let place = place::inspect(&dir);
        let what = format!("{} ", dir.display());
        findings.about(TOPIC, key);
        if key == "metrics_file" && place == Place::Missing {
            findings.warning(
                format!("{what}does not exist"),
                "set it to a file in the directory of node_exporter's --collector.textfile.directory",
            );
            continue;
        }
        let is_writable = place::is_writable(&place::existing(&dir));
        places::directory(Level::Warning, (key, &what), place, is_writable, findings);
    }
    let text = "no notifications are configured (keys: notify, heartbeat_file, metrics_file)";
    findings.ok_if_none(TOPIC, text);
}

/// Tries to connect to a server. The error is the reason for a failure.
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

fn mail_server(
    audit: &AuditConfig,
    reach: impl Fn(&str, u16) -> Result<(), String>,
    findings: &mut Findings,
) {
    if let Err(error) = mail::check(audit) {
        let text = format!("mail cannot be sent: {error}");
        let about = error.key.unwrap_or("audit");
        findings.about(TOPIC, about).error(text, error.hint);
        return;
    }
    let (host, port) = (&audit.smtp_host, audit.smtp_port);
    findings.about(TOPIC, "audit.smtp_host");
    match reach(host, port) {
        Ok(()) => findings.ok(format!("the mail server {host}:{port} can be reached")),
        Err(why) => findings.warning(
            format!("the mail server {host}:{port} cannot be reached: {why}"),
            "check audit.smtp_host and audit.smtp_port; the server must be reachable from this machine",
        ),
    }
}

/// Reports whether `notify.command` is executable, or why that is unknown.
fn command(path: &Path, is_program: Result<bool, String>, findings: &mut Findings) {
    let path = path.display();
    findings.about(TOPIC, "notify.command");
    match is_program {
        Ok(true) => findings.ok(format!("{path} can be executed")),
        Ok(false) => findings.error(
            format!("{path} is not an executable file"),
            format!("run chmod +x {path}; a script also needs '#!' and an interpreter"),
        ),
        Err(why) => findings.error(
            format!("{path} cannot be used: {why}"),
            "set it to the path of an executable file",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, testing};
    use super::*;

    fn mail(rest: &str, server: Result<(), String>) -> Vec<Finding> {
        let text = format!(
            "audit: {{email_recipients: [a@example.org], smtp_host: m.example.org{rest}}}\n"
        );
        let config = testing::config(&text);
        let server = |_: &str, _| server.clone();
        testing::judged(|out| mail_server(&config.audit, server, out))
    }

    #[test]
    fn working_notifications_and_none_at_all_are_in_order() {
        let site = Site::new(testing::config("{}"));
        let findings = testing::judged(|out| check(&site, out));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Ok);
        let findings = testing::judged(|out| {
            command(Path::new("/bin/true"), Ok(true), out);
            out.list.extend(mail("", Ok(())));
            let dir = std::env::temp_dir();
            let keys = format!(
                "metrics_file: {0}/x.prom\naudit: {{report_dir: {0}/none}}\n",
                dir.display()
            );
            check(&Site::new(testing::config(&keys)), out);
        });
        assert_eq!(findings.len(), 4);
        assert!(testing::trouble(&findings).is_empty(), "{findings:#?}");
    }

    #[test]
    fn each_problem_is_a_finding() {
        let run = |program| testing::judged(|out| command(Path::new("/x"), program, out));
        let configured = |keys: &str| {
            let site = Site::new(testing::config(keys));
            testing::judged(|out| check(&site, out))
        };
        for (findings, level, about) in [
            (
                mail("", Err("refused".into())),
                Level::Warning,
                "audit.smtp_host",
            ),
            (
                mail(", smtp_username: u, smtp_tls: yes", Ok(())),
                Level::Error,
                "audit.smtp_password_env",
            ),
            (run(Ok(false)), Level::Error, "notify.command"),
            (run(Err("no".into())), Level::Error, "notify.command"),
            (
                configured("metrics_file: /nowhere/x.prom\n"),
                Level::Warning,
                "metrics_file",
            ),
            // proc is read-only for everyone.
            (
                configured("heartbeat_file: /proc/self/beat.json\n"),
                Level::Warning,
                "heartbeat_file",
            ),
        ] {
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
