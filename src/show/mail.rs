//! Delivers a message: by SMTP (plain, with STARTTLS, or with implicit TLS on port 465), or to a program.
//!
//! Never shows the password, never sends it unencrypted to another machine, and never waits longer than its limits.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that starts the program of `notify.command`"
)]

use std::fs::File;
use std::io::{self, ErrorKind, Seek as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{SmtpTransport, Transport as _};
use maud::{DOCTYPE, html};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::base::run::{End, run};
use crate::base::sys;
use crate::base::text::maybe;
use crate::model::config::AuditConfig;

/// The content of an e-mail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// One line.
    pub subject: String,
    /// E-mails contain it as HTML, too, which keeps its columns.
    pub text: String,
}

/// Time limits for a mail server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the connection and for each answer.
    pub step: Duration,
    /// In total, including the lookup of the host name.
    pub total: Duration,
}

pub const LIMITS: Limits = Limits {
    step: Duration::from_secs(20),
    total: Duration::from_secs(60),
};

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct MailError {
    text: String,
    pub hint: &'static str,
    /// The key with the wrong value, if the configuration is wrong.
    pub key: Option<&'static str>,
}

/// A problem with a mail server, and its remedy.
type Problem = (&'static str, &'static str);

const UNREACHABLE: Problem = ("cannot be reached", CHECK_SERVER);
const TIMED_OUT: Problem = ("did not respond in time", CHECK_SERVER);
const CHECK_SERVER: &str =
    "check audit.smtp_host and audit.smtp_port; this machine must be able to reach the server";
const BROKEN: Problem = (
    "closed the connection or violated SMTP",
    "check audit.smtp_port: 465 always uses TLS, other ports only with audit.smtp_tls: yes",
);
const NO_TLS: Problem = (
    "could not establish TLS",
    "the server needs a certificate for audit.smtp_host that this machine trusts (see SSL_CERT_FILE); \
     for a server without STARTTLS, set audit.smtp_tls: no",
);
const LOGIN: Problem = (
    "requires a valid login",
    "check audit.smtp_username and audit.smtp_password_env; a login requires audit.smtp_tls: yes",
);
const REFUSED: Problem = (
    "rejected the e-mail",
    "check audit.email_from and audit.email_recipients: the server must accept the sender and all recipients",
);
const NOT_NOW: Problem = ("cannot accept the e-mail now", "try again later");

const CHECK_ADDRESSES: &str =
    "check audit.email_recipients and audit.email_from in the configuration";

const IMPLICIT_TLS: u16 = 465;

/// Characters of a program's stderr that are quoted.
const STDERR_SHOWN: usize = 300;
/// Bytes that a program may print.
const MAX_OUTPUT: usize = 64 << 20;

impl MailError {
    fn new(text: String, hint: &'static str) -> Self {
        let key = None;
        Self { text, hint, key }
    }

    fn setting(key: &'static str, text: impl Into<String>, hint: &'static str) -> Self {
        let (text, key) = (text.into(), Some(key));
        Self { text, hint, key }
    }

    fn server(config: &AuditConfig, (text, hint): Problem, details: Option<String>) -> Self {
        let (host, port) = (&config.smtp_host, config.smtp_port);
        let details = maybe(": ", details, "");
        Self::new(
            format!("the mail server {host}:{port} {text}{details}"),
            hint,
        )
    }
}

/// Checks the settings without contacting the server.
///
/// # Errors
/// A setting is wrong or missing.
pub fn check(config: &AuditConfig) -> Result<(), MailError> {
    compose(config, &Message::default())?;
    transport(config, LIMITS).map(|_| ())
}

/// Sends an e-mail to all recipients of the configuration.
///
/// # Errors
/// As far as is known, no recipient received it.
pub fn send(config: &AuditConfig, message: &Message, limits: Limits) -> Result<(), MailError> {
    let mail = compose(config, message)?;
    let transport = transport(config, limits)?;
    let (done, outcome) = mpsc::channel();
    let settings = config.clone();
    let work = move || {
        let sent = transport.send(&mail).map(drop);
        // After the time limit, the receiver is gone.
        let _ = done.send(sent.map_err(|error| explain(&settings, &error)));
    };
    // A thread, because neither a name lookup nor a slow but active server has a time limit.
    // It ends with the process.
    let thread = std::thread::Builder::new().name("mail".to_owned());
    thread.spawn(work).map_err(|error| {
        let details = format!("cannot start a thread: {error}");
        MailError::server(config, UNREACHABLE, Some(details))
    })?;
    let late = |_| Err(MailError::server(config, TIMED_OUT, None));
    outcome.recv_timeout(limits.total).unwrap_or_else(late)
}

/// Creates the e-mail. Headers contain only checked values.
fn compose(config: &AuditConfig, message: &Message) -> Result<lettre::Message, MailError> {
    let Message { subject, text } = message;
    let failed = |text: String| MailError::new(text, CHECK_ADDRESSES);
    if config.email_recipients.is_empty() {
        let (key, hint) = ("audit.email_recipients", "set audit.email_recipients");
        let text = "the e-mail has no recipients";
        return Err(MailError::setting(key, text, hint));
    }
    if subject.chars().any(char::is_control) {
        let text = "the subject of the e-mail contains a control character";
        return Err(failed(format!("{text}: {subject:?}")));
    }
    let id = format!(
        "<{:016x}.{}@{}>",
        sys::random(),
        std::process::id(),
        host_name().unwrap_or_else(|| "localhost".to_owned())
    );
    let mut mail = lettre::Message::builder()
        .from(mailbox("email_from", &config.email_from)?)
        .subject(subject.as_str())
        .message_id(Some(id));
    for recipient in &config.email_recipients {
        mail = mail.to(mailbox("email_recipients", recipient)?);
    }
    // Mail programs show plain text in a font that breaks columns.
    let html = html! { (DOCTYPE) html { body { pre { (text) } } } };
    let parts = MultiPart::alternative_plain_html(text.clone(), html.into_string());
    let mail = mail.multipart(parts);
    let mut mail = mail.map_err(|error| failed(format!("cannot create the e-mail: {error}")))?;
    // RFC 3834: suppresses automatic replies.
    mail.headers_mut().insert_raw(HeaderValue::new(
        HeaderName::new_from_ascii_str("Auto-Submitted"),
        "auto-generated".to_owned(),
    ));
    Ok(mail)
}

fn mailbox(key: &str, value: &str) -> Result<Mailbox, MailError> {
    // A name such as `root` is a user of the mail server.
    let is_local = !value.is_empty() && !value.contains(['@', '<', '>', ' ']);
    let host = if is_local { "@localhost" } else { "" };
    let mailbox = format!("{value}{host}").parse::<Mailbox>();
    let mailbox = mailbox.map_err(|error| error.to_string());
    let control = "it contains a control character".to_owned();
    let is_plain = !value.chars().any(char::is_control);
    mailbox
        .and_then(|mailbox| is_plain.then_some(mailbox).ok_or(control))
        .map_err(|why| {
            let value = value.escape_debug();
            let text = format!("'{value}' ({key}) is not an e-mail address: {why}");
            MailError::setting("audit", text, CHECK_ADDRESSES)
        })
}

fn transport(config: &AuditConfig, limits: Limits) -> Result<SmtpTransport, MailError> {
    let (host, port) = (&config.smtp_host, config.smtp_port);
    let parameters = || {
        let parameters = TlsParameters::new(host.clone());
        parameters.map_err(|error| MailError::server(config, NO_TLS, Some(error.to_string())))
    };
    let tls = match (port, config.smtp_tls) {
        (IMPLICIT_TLS, _) => Tls::Wrapper(parameters()?),
        (_, true) => Tls::Required(parameters()?),
        (_, false) => Tls::None,
    };
    let is_plain = matches!(tls, Tls::None);
    let mut builder = SmtpTransport::builder_dangerous(host)
        .port(port)
        .tls(tls)
        .timeout(Some(limits.step));
    if let Some(name) = host_name() {
        builder = builder.hello_name(ClientId::Domain(name));
    }
    if let Some(user) = &config.smtp_username {
        let Some(password) = &config.smtp_password else {
            return Err(MailError::setting(
                "audit.smtp_password_env",
                format!("no password for smtp_username '{user}'"),
                "set the environment variable that audit.smtp_password_env names (for example in the crontab), \
                 or remove audit.smtp_username",
            ));
        };
        if is_plain && !is_this_machine(host) {
            return Err(MailError::setting(
                "audit",
                format!("refusing to send the password unencrypted to {host}:{port}"),
                "set audit.smtp_tls: yes (STARTTLS), or audit.smtp_port: 465 (implicit TLS)",
            ));
        }
        builder = builder.credentials(Credentials::new(user.clone(), password.0.clone()));
    }
    Ok(builder.build())
}

fn is_this_machine(host: &str) -> bool {
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// The host name for the greeting, if it is valid there.
fn host_name() -> Option<String> {
    let name = sys::host_name();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

/// The problem behind an error of the mail server.
fn explain(config: &AuditConfig, error: &lettre::transport::smtp::Error) -> MailError {
    let details = without_secrets(config, error.to_string());
    let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let mut io = sources.filter_map(|error| error.downcast_ref::<io::Error>());
    let io = io.next().map(io::Error::kind);
    let problem = match error.status().map(u16::from) {
        Some(530 | 534 | 535 | 538) => LOGIN,
        Some(400..500) => NOT_NOW,
        Some(_) => REFUSED,
        None if matches!(io, Some(ErrorKind::TimedOut | ErrorKind::WouldBlock)) => TIMED_OUT,
        None if error.is_tls() || io == Some(ErrorKind::InvalidData) => NO_TLS,
        // lettre's message if the server has no STARTTLS.
        None if error.is_client() && details.contains("STARTTLS") => NO_TLS,
        None if error.is_client() => REFUSED,
        None if error.is_response() => BROKEN,
        None => match io {
            Some(
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof,
            ) => BROKEN,
            _ => UNREACHABLE,
        },
    };
    MailError::server(config, problem, Some(details))
}

/// Removes secrets, which a server may repeat.
fn without_secrets(config: &AuditConfig, mut text: String) -> String {
    if let Some(password) = config.smtp_password.as_ref().map(|secret| &secret.0)
        && !password.is_empty()
    {
        let user = config.smtp_username.as_deref().unwrap_or_default();
        let login = STANDARD.encode(format!("\0{user}\0{password}"));
        for secret in [&login, &STANDARD.encode(password), password] {
            text = text.replace(secret, "(secret)");
        }
    }
    text
}

/// Runs a program with a message on its standard input and the subject as `SNBB_MESSAGE_SUBJECT`, without a shell.
///
/// # Errors
/// It did not start, did not finish in time, or did not end with exit code 0.
pub fn run_program(path: &Path, message: &Message, limit: Duration) -> Result<(), MailError> {
    let start = |error: io::Error| {
        let hint = "set notify.command to an executable file; a script must begin with '#!' and its interpreter";
        MailError::new(format!("cannot start {}: {error}", path.display()), hint)
    };
    let subject = message.subject.replace('\0', " ");
    let mut command = Command::new(path);
    command
        .env("SNBB_MESSAGE_SUBJECT", &subject)
        // The old name, for one release: in other places SNBB_SUBJECT is the participant.
        .env("SNBB_SUBJECT", &subject)
        .current_dir("/")
        .stdin(in_memory(message.text.as_bytes()).map_err(start)?);
    let ended = run(command, limit, MAX_OUTPUT).map_err(start)?;
    if ended.end == End::Exit(0) {
        return Ok(());
    }
    let stderr: String = ended.stderr.chars().take(STDERR_SHOWN).collect();
    let stderr = Some(stderr.trim().replace('\n', " ")).filter(|stderr| !stderr.is_empty());
    let text = ended.end.text(&path.to_string_lossy()) + &maybe(": ", stderr, "");
    let hint = "run it in a shell with some text on its standard input";
    Err(MailError::new(text, hint))
}

/// A file in memory. A pipe could block either side, and a message may report a full disk.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("snbb-scheduler", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
