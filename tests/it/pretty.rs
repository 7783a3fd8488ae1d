//! What views print, without what differs from call to call; and a terminal to print it on.
#![expect(clippy::disallowed_methods, reason = "starts the terminal")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

use crate::harness::{Said, Study};

/// Replaces paths of this study, times and marks by words.
pub fn pretty(study: &Study, text: &str) -> String {
    static TIMES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\d{4}-\d\d-\d\d(T| )\d\d:\d\d(:\d\d)?(\.\d+)?(Z| UTC)").unwrap()
    });
    static MARKS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"snbb:[0-9a-f]+:[0-9a-f]+").unwrap());
    static WHO: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"cancelled by (root \(an administrator\)|the user with uid \d+)").unwrap()
    });
    let real = std::fs::canonicalize(study.dir.path()).unwrap();
    let text = text.replace(&*real.to_string_lossy(), "[study]");
    let text = text.replace(&*study.dir.path().to_string_lossy(), "[study]");
    let text = TIMES.replace_all(&text, "[time]");
    let text = WHO.replace_all(&text, "cancelled by [user]");
    MARKS.replace_all(&text, "snbb:[project]:[id]").into_owned()
}

/// The errors, warnings and hints among what a call said, each with its indented lines, as by [`pretty`]; without
/// warnings about the study's configuration.
pub fn problems(study: &Study, err: &str) -> String {
    let text = pretty(study, err);
    let lines = text.lines();
    let lines = lines.filter(|line| !line.starts_with("warning: [study]/config.yaml:"));
    let mut is_part = false;
    let lines = lines.filter(|line| {
        let starts = ["error: ", "warning: ", "hint: "];
        is_part =
            starts.iter().any(|word| line.starts_with(word)) || is_part && line.starts_with(' ');
        is_part
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns all files of a study but what the fake Slurm writes when it is asked.
pub fn files(study: &Study) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = study.snapshot();
    files.retain(|(path, _)| !path.ends_with("fake-slurm/calls"));
    files
}

/// Calls the program on a terminal of so many columns, and returns what that was sent.
pub fn in_terminal(study: &Study, columns: u16, arguments: &[&str]) -> String {
    const TERMINAL: &str = "\
import fcntl, os, pty, struct, sys, termios
os.environ['PATH'] = os.environ.pop('PROGRAMS')
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 50, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
os.waitpid(pid, 0)
";
    let mut path: Vec<PathBuf> = study.path.clone();
    path.extend(["/usr/bin".into(), "/bin".into()]);
    let output = Command::new("python3")
        .args([
            "-c",
            TERMINAL,
            &columns.to_string(),
            env!("CARGO_BIN_EXE_snbb-scheduler"),
        ])
        .args(arguments)
        .env("PROGRAMS", std::env::join_paths(path).unwrap())
        .env("TERM", "xterm-256color")
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .env_remove("NO_COLOR")
        .output()
        .expect("the tests need python3");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .replace("\r\n", "\n")
}

/// The errors, warnings, hints and notes of a call, except those that tests cause by being short: that a state is begun,
/// and that `settle_time` is short.
pub fn messages(study: &Study, said: &Said) -> String {
    let text = pretty(study, &said.err);
    let labels = ["error: ", "warning: ", "hint: ", "note: "];
    let is_message = |line: &&str| labels.iter().any(|label| line.starts_with(label));
    let is_of_tests = |line: &&str| {
        line.starts_with("note: there is no state file") || line.contains(": settle_time: ")
    };
    let lines = text.lines().filter(is_message);
    let lines: Vec<&str> = lines.filter(|line| !is_of_tests(line)).collect();
    lines.join("\n")
}
