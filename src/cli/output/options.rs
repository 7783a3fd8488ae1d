//! Kinds of output and settings of the printer, from the command line, the terminal and the environment.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use anstyle::AnsiColor;
use clap::{ColorChoice, ValueEnum};

use crate::base::sys;

/// Output formats of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// JSON array of objects
    Json,
}

/// How much is written to stderr. Warnings and errors always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    Quiet,
    #[default]
    Normal,
    /// `-v`
    Verbose,
    /// `-vv`
    Debug,
}

/// Settings of a [`Printer`].
#[derive(Debug, Clone, Copy, Default)]
pub struct PrinterOptions {
    pub verbosity: Verbosity,
    pub out_color: bool,
    pub err_color: bool,
    /// Width of the terminal; `None` if stdout is not one.
    pub width: Option<u16>,
    /// Whether status words get a symbol, which needs a terminal that can show it.
    pub symbols: bool,
    /// Whether a progress bar may be drawn on stderr.
    pub progress: bool,
}

/// Kind of a message: its word and colour.
pub(super) type Label = (&'static str, AnsiColor);

pub(super) const NOTE: Label = ("note", AnsiColor::Cyan);
pub(super) const WARNING: Label = ("warning", AnsiColor::Yellow);
pub(super) const ERROR: Label = ("error", AnsiColor::Red);
pub(super) const HINT: Label = ("hint", AnsiColor::Green);

impl Verbosity {
    /// From `-q` and the number of `-v`. `-q` wins.
    pub fn from_flags(quiet: bool, verbose: u8) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, 1) => Self::Verbose,
            (false, _) => Self::Debug,
        }
    }
}

impl PrinterOptions {
    /// From the process's streams and environment.
    pub fn of_process(color: ColorChoice, verbosity: Verbosity) -> Self {
        let choice = match color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        let (out, err, never) = (&io::stdout(), &io::stderr(), anstream::ColorChoice::Never);
        let is_terminal = out.is_terminal();
        let size = rustix::termios::tcgetwinsize(out).ok();
        let width = size.map(|size| size.ws_col).filter(|width| *width > 0);
        Self {
            verbosity,
            out_color: anstream::AutoStream::choice(out) != never,
            err_color: anstream::AutoStream::choice(err) != never,
            // Some terminals do not report their width.
            width: is_terminal.then(|| width.unwrap_or(80)),
            symbols: is_terminal && shows_symbols(&sys::env),
            progress: err.is_terminal(),
        }
    }
}

/// True if a terminal can show more than ASCII, by the locale's character set (POSIX: the first of three
/// variables that is set) and its kind: the kernel's own console has few characters.
fn shows_symbols(env: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let text = |name| env(name).map(|value| value.to_string_lossy().to_lowercase());
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = set.filter_map(text).find(|value| !value.is_empty());
    let is_utf8 = locale.is_some_and(|name| name.contains("utf-8") || name.contains("utf8"));
    is_utf8 && !matches!(text("TERM").as_deref(), Some("linux" | "dumb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_need_a_terminal_that_has_them() {
        let shows = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            shows_symbols(&|name| {
                let mut set = set.iter();
                set.find(|(known, _)| known == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert!(shows(&[("LANG", "de_CH.UTF-8"), ("TERM", "xterm")]));
        assert!(shows(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!shows(&[("LC_ALL", "C"), ("LANG", "C.utf8")]));
        assert!(!shows(&[("LANG", "C.UTF-8"), ("TERM", "linux")]));
        assert!(!shows(&[]));
    }
}
