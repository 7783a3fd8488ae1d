//! A mail server of a few lines, with the manners that real ones have on bad days.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Is a server that listens until the process ends.
pub struct MailServer {
    pub port: u16,
    /// What a client must trust, as PEM.
    pub certificate: String,
    received: Arc<Mutex<Vec<Received>>>,
}

/// Is a mail that was taken.
#[derive(Debug, Clone, Default)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    pub data: String,
    /// The credentials as they came.
    pub login: Option<String>,
    pub was_encrypted: bool,
}

/// Says how a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manner {
    #[default]
    Kind,
    /// Offers STARTTLS.
    StartTls,
    /// Speaks TLS from the start.
    Tls,
    /// Takes a connection and says nothing.
    Silent,
    /// Sends a byte now and then, and never a whole line.
    Dripping,
    /// Says what no mail server says.
    Garbled,
    /// Ends the connection when this command comes.
    ClosesAt(&'static str),
    /// Answers this command with this line.
    Answers(&'static str, &'static str),
    /// Refuses every login and repeats what it was sent.
    Repeats,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl MailServer {
    pub fn start(manner: Manner) -> Self {
        Self::listen("127.0.0.1:0", manner).unwrap()
    }

    pub fn listen(address: &str, manner: Manner) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let port = listener.local_addr()?.port();
        let names = ["localhost", "127.0.0.1", "127.77.0.1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = made.cert.pem();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let tls = Arc::new(tls);
        let received = Arc::default();
        let to = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, to) = (Arc::clone(&tls), Arc::clone(&to));
                std::thread::spawn(move || serve(stream, manner, &tls, &to));
            }
        });
        Ok(Self {
            port,
            certificate,
            received,
        })
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn encrypted(stream: TcpStream, tls: &Arc<ServerConfig>) -> Box<dyn Stream> {
    let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
    Box::new(StreamOwned::new(connection, stream))
}

/// Talks to one client until it goes, or the manner says otherwise.
fn serve(
    stream: TcpStream,
    manner: Manner,
    tls: &Arc<ServerConfig>,
    to: &Mutex<Vec<Received>>,
) -> Option<()> {
    let mut is_encrypted = manner == Manner::Tls;
    let mut talk: Box<dyn Stream> = if is_encrypted {
        encrypted(stream.try_clone().ok()?, tls)
    } else {
        Box::new(stream.try_clone().ok()?)
    };
    match manner {
        Manner::Silent => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        Manner::Dripping => loop {
            talk.write_all(b"2").ok()?;
            std::thread::sleep(Duration::from_millis(20));
        },
        Manner::Garbled => say(&mut talk, "HTTP/1.1 400 Bad Request")?,
        _ => say(&mut talk, "220 test ESMTP")?,
    }
    let mut mail = Received::default();
    loop {
        let line = line(&mut talk)?;
        let word = line.split(' ').next().unwrap_or_default().to_uppercase();
        match manner {
            Manner::ClosesAt(command) if command == word => return None,
            Manner::Answers(command, answer) if command == word => {
                say(&mut talk, answer)?;
                continue;
            }
            Manner::Repeats if word == "AUTH" => {
                say(&mut talk, &format!("535 5.7.8 I do not like '{line}'"))?;
                continue;
            }
            _ => {}
        }
        match &*word {
            "EHLO" => {
                let offers = match manner {
                    Manner::StartTls if !is_encrypted => "250-STARTTLS\r\n",
                    _ => "",
                };
                say(
                    &mut talk,
                    &format!("250-test\r\n{offers}250-AUTH PLAIN LOGIN\r\n250 8BITMIME"),
                )?;
            }
            "STARTTLS" => {
                say(&mut talk, "220 go ahead")?;
                talk = encrypted(stream.try_clone().ok()?, tls);
                is_encrypted = true;
            }
            "AUTH" => {
                mail.login = Some(line);
                say(&mut talk, "235 welcome")?;
            }
            "MAIL" => {
                mail.from = line;
                say(&mut talk, "250 ok")?;
            }
            "RCPT" => {
                mail.to.push(line);
                say(&mut talk, "250 ok")?;
            }
            "DATA" => {
                say(&mut talk, "354 go on")?;
                mail.data = data(&mut talk)?;
                mail.was_encrypted = is_encrypted;
                to.lock().unwrap().push(std::mem::take(&mut mail));
                say(&mut talk, "250 taken")?;
            }
            "QUIT" => return say(&mut talk, "221 bye"),
            _ => say(&mut talk, "250 ok")?,
        }
    }
}

fn say(to: &mut Box<dyn Stream>, text: &str) -> Option<()> {
    to.write_all(format!("{text}\r\n").as_bytes()).ok()?;
    to.flush().ok()
}

fn line(from: &mut Box<dyn Stream>) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n") {
        if from.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    bytes.truncate(bytes.len() - 2);
    String::from_utf8(bytes).ok()
}

fn data(from: &mut Box<dyn Stream>) -> Option<String> {
    let mut text = String::new();
    loop {
        match line(from)?.as_str() {
            "." => return Some(text),
            line => text.push_str(&format!("{}\n", line.strip_prefix('.').unwrap_or(line))),
        }
    }
}
