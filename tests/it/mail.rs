//! Mail by a real SMTP conversation: what is sent, what a server may do, and what a person then reads.

pub mod server;

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use snbb_scheduler::config::{Overrides, load};
use snbb_scheduler::model::config::AuditConfig;
use snbb_scheduler::show::mail;
use snbb_scheduler::show::mail::{Limits, MailError, Message};

use crate::harness::Study;
use crate::pretty::messages;
use server::{MailServer, Manner};

const LIMITS: Limits = Limits {
    step: Duration::from_secs(10),
    total: Duration::from_secs(30),
};

/// Makes the settings of a site with this mail server.
fn settings(port: u16, more: &str) -> AuditConfig {
    let text = format!(
        "audit:\n  email_recipients: [ada@example.org, grace@example.org]\n  email_from: sched@example.org\n  \
         smtp_host: 127.0.0.1\n  smtp_port: {port}\n{more}"
    );
    let (cwd, overrides) = (Path::new("/"), Overrides::default());
    load::interpret(text.as_bytes(), None, false, &|_| None, &overrides, cwd)
        .unwrap()
        .audit
}

fn message() -> Message {
    Message {
        subject: "3 tasks failed".to_owned(),
        text: "plain\n.dot\n<b>\n".to_owned(),
    }
}

/// Sends to a server of some manner, and returns what went wrong.
fn problem(manner: Manner, more: &str, limits: Limits) -> (String, MailError, MailServer) {
    let server = MailServer::start(manner);
    let error = mail::send(&settings(server.port, more), &message(), limits).unwrap_err();
    let said = error.to_string();
    let start = format!("the mail server 127.0.0.1:{} ", server.port);
    let problem = said.strip_prefix(&start).unwrap();
    let problem = problem.split(':').next().unwrap().to_owned();
    assert_eq!(error.key, None, "no setting is to blame");
    assert!(!error.hint.is_empty());
    (problem, error, server)
}

#[test]
fn text_and_html_arrive_with_whole_headers() {
    let server = MailServer::start(Manner::Kind);
    mail::send(&settings(server.port, ""), &message(), mail::LIMITS).unwrap();
    let got = &server.received()[0];
    assert!(got.from.starts_with("MAIL FROM:<sched@example.org>"));
    assert_eq!(
        got.to,
        ["RCPT TO:<ada@example.org>", "RCPT TO:<grace@example.org>"]
    );
    assert_eq!((got.login.as_ref(), got.was_encrypted), (None, false));
    let (head, body) = got.data.split_once("\n\n").unwrap();
    for line in [
        "From: sched@example.org",
        "To: ada@example.org, grace@example.org",
        "Subject: 3 tasks failed",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
    ] {
        assert!(head.lines().any(|other| other == line), "{line}\n{head}");
    }
    for part in [
        "Date: ",
        "Message-ID: <",
        "Content-Type: multipart/alternative;",
    ] {
        assert!(head.contains(part), "{part}\n{head}");
    }
    for part in ["text/plain", "text/html", "plain\n.dot\n<b>\n", "&lt;b&gt;"] {
        assert!(body.contains(part), "{part}\n{body}");
    }
}

#[test]
fn a_mail_may_be_in_any_language() {
    let server = MailServer::start(Manner::Kind);
    let message = Message {
        subject: "Größe: 数".to_owned(),
        text: "Größe\n".to_owned(),
    };
    mail::send(&settings(server.port, ""), &message, mail::LIMITS).unwrap();
    let data = server.received()[0].data.clone();
    assert!(data.contains("Content-Type: text/plain; charset=utf-8"));
    assert!(data.contains("Subject: =?utf-8?b?"), "{data}");
    assert!(data.is_ascii(), "{data}");
}

#[test]
fn nothing_can_be_slipped_into_the_headers() {
    let server = MailServer::start(Manner::Kind);
    let good = settings(server.port, "");
    for subject in ["a\r\nBcc: x@y.z", "a\nb", "a\0", "a\u{7f}", "a\u{85}b"] {
        let message = Message {
            subject: subject.to_owned(),
            ..message()
        };
        let error = mail::send(&good, &message, mail::LIMITS).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&format!("{subject:?}")), "{said}");
        assert!(!said.contains('\n'));
    }
    for address in [
        "ada@example.org\r\nBcc: x@y.z",
        "ada@example.org>\nRCPT TO:<x@y.z",
        "",
        "@",
        "a b@example.org",
        "ada@example.org, x@y.z",
    ] {
        let mut to = good.clone();
        to.email_recipients = vec![address.to_owned()];
        let mut from = good.clone();
        from.email_from = address.to_owned();
        for (settings, key) in [(to, "email_recipients"), (from, "email_from")] {
            let error = mail::send(&settings, &message(), mail::LIMITS).unwrap_err();
            let said = error.to_string();
            let expected = format!("({key}) is not an e-mail address");
            assert!(said.contains(&expected) && error.key.is_some(), "{said}");
            assert!(!error.to_string().contains(char::is_control), "{error}");
            assert_eq!(mail::check(&settings), Err(error));
        }
    }
    assert_eq!(server.received().len(), 0);
    let mut nobody = good;
    nobody.email_recipients.clear();
    let error = mail::check(&nobody).unwrap_err();
    assert_eq!(error.key, Some("audit.email_recipients"));
}

#[test]
fn c10_local_and_named_addresses_are_valid() {
    let mut config = settings(25, "");
    config.email_recipients = vec!["root".to_owned(), "PI <a@b.org>".to_owned()];
    config.email_from = "scheduler".to_owned();
    assert_eq!(mail::check(&config), Ok(()));
}

#[test]
fn a_server_that_is_not_there_or_says_nothing_is_told_from_one_that_refuses() {
    let short = Limits {
        step: Duration::from_millis(200),
        total: Duration::from_secs(20),
    };
    let timed_out = "did not respond in time";
    assert_eq!(problem(Manner::Silent, "", short).0, timed_out);
    let drip = Limits {
        step: Duration::from_secs(20),
        total: Duration::from_millis(300),
    };
    assert_eq!(problem(Manner::Dripping, "", drip).0, timed_out);
    let broken = "closed the connection or violated SMTP";
    for command in ["EHLO", "MAIL", "RCPT", "DATA"] {
        let (found, error, _) = problem(Manner::ClosesAt(command), "", LIMITS);
        assert_eq!(found, broken, "{command}: {error}");
    }
    let (found, error, _) = problem(Manner::Garbled, "", LIMITS);
    assert_eq!(found, broken, "{error}");
    // Bound, then let go: nobody listens.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let error = mail::send(&settings(port, ""), &message(), LIMITS).unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert!(error.hint.contains("smtp_host"));
}

#[test]
fn refusals_say_what_the_server_said() {
    let answer = "550 5.1.1 no such person";
    let refused = Manner::Answers("RCPT", answer);
    let (found, error, server) = problem(refused, "", LIMITS);
    assert_eq!(found, "rejected the e-mail");
    assert!(error.to_string().contains(&answer[10..]), "{error}");
    assert_eq!(server.received().len(), 0);
    let later = Manner::Answers("MAIL", "451 4.7.1 greylisted");
    let (found, error, _) = problem(later, "", LIMITS);
    assert_eq!(found, "cannot accept the e-mail now");
    assert!(error.to_string().contains("greylisted"), "{error}");
    let wants = Manner::Answers("MAIL", "530 5.7.0 Authentication required");
    let (found, error, _) = problem(wants, "", LIMITS);
    assert_eq!(found, "requires a valid login", "{error}");
    assert!(error.hint.contains("smtp_username"));
    let (found, error, _) = problem(Manner::Kind, "  smtp_tls: yes\n", LIMITS);
    assert_eq!(found, "could not establish TLS", "{error}");
}

#[test]
fn the_password_goes_to_the_server_and_nowhere_else() {
    let login = "  smtp_username: ada\n  smtp_password: hunter2\n";
    let server = MailServer::start(Manner::Kind);
    mail::send(&settings(server.port, login), &message(), mail::LIMITS).unwrap();
    let plain = STANDARD.encode("\0ada\0hunter2");
    assert_eq!(
        server.received()[0].login.as_deref(),
        Some(&*format!("AUTH PLAIN {plain}"))
    );

    let (found, error, _) = problem(Manner::Repeats, login, LIMITS);
    assert_eq!(found, "requires a valid login");
    let said = format!("{error} {error:?} {found:?}");
    assert!(said.contains("(secret)"), "{said}");
    assert!(
        !said.contains("hunter2") && !said.contains(&plain),
        "{said}"
    );
    assert!(!format!("{:?}", settings(1, login)).contains("hunter2"));

    // Unencrypted, it leaves this machine only if nobody can read it on the way.
    let mut far = settings(25, login);
    far.smtp_host = "mail.example.org".to_owned();
    let error = mail::send(&far, &message(), mail::LIMITS).unwrap_err();
    assert!(error.to_string().starts_with("refusing to send"), "{error}");
    assert!(error.key.is_some() && error.hint.contains("smtp_tls"));
    let no_password = settings(25, "  smtp_username: ada\n");
    let error = mail::check(&no_password).unwrap_err();
    assert_eq!(error.key, Some("audit.smtp_password_env"), "{error}");
}

/// Makes a study whose audit report goes to a server.
fn study(server: &MailServer, host: &str, more: &str) -> Study {
    let mut study = Study::new();
    study.write("authority.pem", &server.certificate);
    let file = study.at("authority.pem").display().to_string();
    study.env.push(("SSL_CERT_FILE".to_owned(), file));
    study.configure(&format!(
        "executor: local\naudit:\n  email_recipients: [ada@example.org]\n  smtp_host: {host}\n  \
         smtp_port: {}\n{more}",
        server.port
    ));
    study
}

#[test]
fn the_audit_report_is_sent_with_starttls_and_a_login() {
    let server = MailServer::start(Manner::StartTls);
    let mut study = study(
        &server,
        "localhost",
        "  smtp_tls: yes\n  smtp_username: ada\n  smtp_password_env: MAIL_PASSWORD\n",
    );
    // Without the variable: told before any work.
    let said = study.call(&["audit", "--email"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(said.out, "");
    study
        .env
        .push(("MAIL_PASSWORD".to_owned(), "hunter2".to_owned()));
    let said = study.ok(&["audit", "--email"]);
    assert!(said.err.contains("ada@example.org"), "{}", said.err);
    let got = &server.received()[0];
    assert_eq!(got.to, ["RCPT TO:<ada@example.org>"]);
    assert!(got.was_encrypted);
    assert!(got.login.is_some());
    for part in [
        "Subject: [snbb-scheduler] audit of ",
        "text/plain",
        "text/html",
        "<pre>Audit of ",
    ] {
        assert!(got.data.contains(part), "{part}\n{}", got.data);
    }
}

#[test]
fn a_certificate_of_nobodys_authority_is_refused() {
    let server = MailServer::start(Manner::StartTls);
    let other = MailServer::start(Manner::StartTls);
    let study = study(&server, "localhost", "  smtp_tls: yes\n");
    study.write("authority.pem", &other.certificate);
    let said = study.call(&["audit", "--email"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("SSL_CERT_FILE"), "{}", said.err);
    assert_eq!(server.received().len(), 0);
}

#[test]
fn port_465_is_tls_from_the_start() {
    // An address of the loopback network that nobody else uses.
    let Ok(server) = MailServer::listen("127.77.0.1:465", Manner::Tls) else {
        eprintln!("SKIPPED: port 465 is taken, or this user may not listen there");
        return;
    };
    study(&server, "127.77.0.1", "").ok(&["audit", "--email"]);
    assert!(server.received()[0].was_encrypted);
}
