//! Sends e-mail by SMTP: plain, with STARTTLS, or with implicit TLS (port 465).
//!
//! Never shows the password, never sends it unencrypted to another machine, and never waits for a server
//! longer than its limits.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{SmtpTransport, Transport as _};

use crate::base::sys;
use crate::base::text::maybe;
use crate::base::words::words as word_enum;
use crate::model::config::AuditConfig;

/// The content of an e-mail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// One line.
    pub subject: String,
    pub text: String,
    /// The same for programs that show HTML. `None` for a plain-text e-mail.
    pub html: Option<String>,
}

/// Time limits for a mail server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the connection and for each answer.
    pub step: Duration,
    /// In total, including the lookup of the host name.
    pub total: Duration,
}

/// Why an e-mail was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    #[error("the e-mail has no recipients")]
    NoRecipients,
    #[error("'{value}' ({key}) is not an e-mail address: {message}")]
    Address {
        key: &'static str,
        value: String,
        message: String,
    },
    #[error("the subject of the e-mail contains a control character: {0:?}")]
    Subject(String),
    #[error("no password for smtp_username '{user}'")]
    NoPassword { user: String },
    #[error("refusing to send the password unencrypted to {host}:{port}")]
    Unencrypted { host: String, port: u16 },
    #[error("cannot create the e-mail: {0}")]
    Message(String),
    #[error("the mail server {host}:{port} {problem}{}", maybe(": ", details.as_ref(), ""))]
    Server {
        host: String,
        port: u16,
        problem: Problem,
        /// The message of the server or the system.
        details: Option<String>,
    },
}

word_enum! {
    /// A problem with a mail server.
    pub enum Problem {
        Unreachable = "cannot be reached",
        TimedOut = "did not respond in time",
        Broken = "closed the connection or violated SMTP",
        Tls = "could not establish TLS",
        Login = "rejected the login",
        LoginRequired = "requires a login",
        Refused = "rejected the e-mail",
        NotNow = "cannot accept the e-mail now",
    }
}

const IMPLICIT_TLS: u16 = 465;

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: Duration::from_secs(20),
            total: Duration::from_secs(60),
        }
    }
}

impl MailError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoRecipients => "set audit.email_recipients",
            Self::Address { .. } | Self::Subject(_) | Self::Message(_) => {
                "check audit.email_recipients and audit.email_from in the configuration"
            }
            Self::NoPassword { .. } => {
                "set the environment variable that audit.smtp_password_env names (for example in the crontab), \
                 or remove audit.smtp_username"
            }
            Self::Unencrypted { .. } => {
                "set audit.smtp_tls: yes (STARTTLS), or audit.smtp_port: 465 (implicit TLS)"
            }
            Self::Server { problem, .. } => match problem {
                Problem::Unreachable | Problem::TimedOut => {
                    "check audit.smtp_host and audit.smtp_port; this machine must be able to reach the server"
                }
                Problem::Broken => {
                    "check audit.smtp_port: 465 always uses TLS, other ports only with audit.smtp_tls: yes"
                }
                Problem::Tls => {
                    "the server needs a certificate for audit.smtp_host that this machine trusts (see SSL_CERT_FILE); \
                     for a server without STARTTLS, set audit.smtp_tls: no"
                }
                Problem::Login => "check audit.smtp_username and the password",
                Problem::LoginRequired => {
                    "set audit.smtp_username and audit.smtp_password_env, with audit.smtp_tls: yes"
                }
                Problem::Refused => {
                    "check audit.email_from and audit.email_recipients: the server must accept the sender and all recipients"
                }
                Problem::NotNow => "try again later",
            },
        }
    }
}

/// Checks the settings without contacting the server.
///
/// # Errors
/// A setting is wrong or missing.
pub fn check(config: &AuditConfig) -> Result<(), MailError> {
    compose(config, &Message::default())?;
    transport(config, Limits::default()).map(|_| ())
}

/// Sends an e-mail to all recipients of the configuration.
///
/// # Errors
/// As far as is known, no recipient received it.
pub fn send(config: &AuditConfig, message: &Message) -> Result<(), MailError> {
    send_within(config, message, Limits::default())
}

/// As [`send`], with other time limits.
///
/// # Errors
/// As [`send`].
pub fn send_within(
    config: &AuditConfig,
    message: &Message,
    limits: Limits,
) -> Result<(), MailError> {
    let mail = compose(config, message)?;
    let transport = transport(config, limits)?;
    let config = config.clone();
    let (host, port) = (config.smtp_host.clone(), config.smtp_port);
    let (done, outcome) = mpsc::channel();
    let work = move || {
        let sent = transport.send(&mail);
        // After the time limit, the receiver is gone.
        let _ = done.send(sent.map_err(|error| explain(&config, &error)));
    };
    // A thread, because neither a name lookup nor a slow but active server has a time limit.
    // It ends with the process.
    let thread = std::thread::Builder::new().name("mail".to_owned());
    let (problem, details) = match thread.spawn(work) {
        Ok(_) => match outcome.recv_timeout(limits.total) {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err((problem, details))) => (problem, Some(details)),
            Err(_) => (Problem::TimedOut, None),
        },
        Err(error) => (
            Problem::Unreachable,
            Some(format!("cannot start a thread: {error}")),
        ),
    };
    Err(MailError::Server {
        host,
        port,
        problem,
        details,
    })
}

/// Creates the e-mail. Headers contain only checked values.
fn compose(config: &AuditConfig, message: &Message) -> Result<lettre::Message, MailError> {
    if config.email_recipients.is_empty() {
        return Err(MailError::NoRecipients);
    }
    if message.subject.chars().any(char::is_control) {
        return Err(MailError::Subject(message.subject.clone()));
    }
    let id = format!(
        "<{:016x}.{}@{}>",
        sys::random(),
        std::process::id(),
        host_name().unwrap_or_else(|| "localhost".to_owned())
    );
    let mut mail = lettre::Message::builder()
        .from(mailbox("email_from", &config.email_from)?)
        .subject(message.subject.as_str())
        .message_id(Some(id));
    for recipient in &config.email_recipients {
        mail = mail.to(mailbox("email_recipients", recipient)?);
    }
    let failed = |error: lettre::error::Error| MailError::Message(error.to_string());
    let mut mail = match &message.html {
        Some(html) => mail.multipart(MultiPart::alternative_plain_html(
            message.text.clone(),
            html.clone(),
        )),
        None => mail.singlepart(SinglePart::plain(message.text.clone())),
    }
    .map_err(failed)?;
    // RFC 3834: suppresses automatic replies.
    mail.headers_mut().insert_raw(HeaderValue::new(
        HeaderName::new_from_ascii_str("Auto-Submitted"),
        "auto-generated".to_owned(),
    ));
    Ok(mail)
}

fn mailbox(key: &'static str, value: &str) -> Result<Mailbox, MailError> {
    let failed = |message: String| MailError::Address {
        key,
        value: value.escape_debug().to_string(),
        message,
    };
    if value.chars().any(char::is_control) {
        return Err(failed("it contains a control character".to_owned()));
    }
    // A name such as `root` is a user of the mail server.
    let is_local = !value.is_empty() && !value.contains(['@', '<', '>', ' ']);
    let host = if is_local { "@localhost" } else { "" };
    format!("{value}{host}")
        .parse()
        .map_err(|error: lettre::address::AddressError| failed(error.to_string()))
}

fn transport(config: &AuditConfig, limits: Limits) -> Result<SmtpTransport, MailError> {
    let host = &config.smtp_host;
    let port = config.smtp_port;
    let parameters = || {
        TlsParameters::new(host.clone()).map_err(|error| MailError::Server {
            host: host.clone(),
            port,
            problem: Problem::Tls,
            details: Some(error.to_string()),
        })
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
            return Err(MailError::NoPassword { user: user.clone() });
        };
        if is_plain && !is_this_machine(host) {
            return Err(MailError::Unencrypted {
                host: host.clone(),
                port,
            });
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

/// The problem behind an error, and its message.
fn explain(config: &AuditConfig, error: &lettre::transport::smtp::Error) -> (Problem, String) {
    let words = words(config, error);
    let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let io = sources
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .next();
    let is_late = matches!(
        io,
        Some(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    );
    let problem = match error.status().map(u16::from) {
        Some(530) => Problem::LoginRequired,
        Some(432 | 454 | 534 | 535 | 538) if config.smtp_username.is_some() => Problem::Login,
        Some(400..500) => Problem::NotNow,
        Some(_) => Problem::Refused,
        None if is_late => Problem::TimedOut,
        None if error.is_tls() => Problem::Tls,
        // lettre's message if the server has no STARTTLS.
        None if error.is_client() && words.contains("STARTTLS") => Problem::Tls,
        None if error.is_client() => Problem::Refused,
        None if error.is_response() => Problem::Broken,
        None => match io {
            Some(io::ErrorKind::InvalidData) => Problem::Tls,
            Some(
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof,
            ) => Problem::Broken,
            _ => Problem::Unreachable,
        },
    };
    (problem, words)
}

/// The error's message without secrets, which a server may repeat.
fn words(config: &AuditConfig, error: &lettre::transport::smtp::Error) -> String {
    let mut text = error.to_string();
    let password = config
        .smtp_password
        .as_ref()
        .map(|secret| secret.0.as_str());
    if let Some(password) = password.filter(|password| !password.is_empty()) {
        let user = config.smtp_username.as_deref().unwrap_or_default();
        for secret in [
            STANDARD.encode(format!("\0{user}\0{password}")),
            STANDARD.encode(password),
            password.to_owned(),
        ] {
            text = text.replace(&secret, "(secret)");
        }
    }
    text
}
