//! The printer: data goes to stdout, talk to stderr, and only here is decided how it looks.
//!
//! A reader that goes away (`... | head`) never stops a command, least of all one that submits
//! jobs: what is left of the data is dropped, the work goes on, and the exit code is the
//! command's own. Any other error of stdout is kept for [`Printer::finish`].

mod options;
mod progress;

use std::collections::HashSet;
use std::io::{self, ErrorKind, Write};
use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use polars::prelude::DataFrame;
use regex::{Captures, Regex};

pub use clap::ColorChoice;
pub use options::{Format, PrinterOptions, Verbosity};

use super::layout::{Layout, least_width_of, render, width_of};
use super::progress::View;
use crate::base::printable::printable;
use crate::base::sys;
use crate::base::text::{maybe, plural};
use crate::show::tables::{TableError, to_csv, to_json};

/// Says what a line of talk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Note,
    Warning,
    Error,
    Hint,
}

/// Prints data and talk of one command.
pub struct Printer {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    options: PrinterOptions,
    bar: Option<ProgressBar>,
    /// Of what is watched.
    view: Option<View>,
    /// What was told already, if nothing is to be told twice.
    told: Option<HashSet<String>>,
    /// What an earlier call has said lately.
    known: HashSet<String>,
    /// Warnings of this call, those among `known` too.
    warned: Vec<String>,
    /// What is said or dropped once `known` is there. None: it is there, or does not matter.
    held: Option<Vec<(Label, String)>>,
    /// True if a hint belongs to something that was not said.
    drops_hint: bool,
    /// The first error of stdout; nothing more is written after it.
    failure: Option<io::Error>,
}

impl Printer {
    /// Prints to the process's stdout and stderr. `Auto` colours a terminal unless the
    /// environment says otherwise (`NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM=dumb`).
    pub fn stdio(color: ColorChoice, verbosity: Verbosity) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let options = PrinterOptions::of_process(&out, &err, color, verbosity);
        Self::new(Box::new(out), Box::new(err), options)
    }

    pub fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        options: PrinterOptions,
    ) -> Self {
        Self {
            out,
            err,
            options,
            bar: None,
            view: None,
            told: None,
            known: HashSet::new(),
            warned: Vec::new(),
            held: None,
            drops_hint: false,
            failure: None,
        }
    }

    pub fn verbosity(&self) -> Verbosity {
        self.options.verbosity
    }

    /// Returns the width of the terminal that stdout is; none: it is no terminal.
    pub fn width(&self) -> Option<u16> {
        self.options.width
    }

    /// True if data may be coloured.
    pub fn is_colored(&self) -> bool {
        self.options.out_color
    }

    /// True if a symbol may stand before a word.
    pub fn has_symbols(&self) -> bool {
        self.options.symbols
    }

    pub fn is_quiet(&self) -> bool {
        self.options.verbosity == Verbosity::Quiet
    }

    /// Writes data as it stands.
    pub fn data(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            let out = &mut self.out;
            let write = || out.write_all(bytes).and_then(|()| out.flush());
            self.failure = beside(self.bar.as_ref(), write).err();
        }
    }

    /// Writes one line of data.
    pub fn line(&mut self, text: &str) {
        self.data(format!("{text}\n").as_bytes());
    }

    /// Writes a frame in the wanted format. `painted` names the columns of status words;
    /// `optional` those that a narrow terminal does without, the least important first.
    pub fn frame(
        &mut self,
        frame: &DataFrame,
        format: Format,
        painted: &[&str],
        optional: &[&str],
    ) -> Result<(), TableError> {
        let bytes = match format {
            Format::Table => render(frame, self.layout(painted, optional)).into_bytes(),
            Format::Csv => to_csv(frame)?,
            Format::Json => to_json(frame)?,
        };
        self.data(&bytes);
        Ok(())
    }

    /// True if a frame can be shown without wrapped cells.
    pub fn fits(&self, frame: &DataFrame) -> bool {
        self.options
            .width
            .is_none_or(|width| width_of(frame) <= usize::from(width))
    }

    /// True if a frame can be shown without wrapped cells if its columns move together.
    pub fn fits_closely(&self, frame: &DataFrame) -> bool {
        self.options
            .width
            .is_none_or(|width| least_width_of(frame) <= usize::from(width))
    }

    /// True if stdout is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.options.width.is_some()
    }

    fn layout<'a>(&self, painted: &'a [&'a str], optional: &'a [&'a str]) -> Layout<'a> {
        Layout {
            width: self.options.width,
            color: self.options.out_color,
            symbols: self.options.symbols,
            painted,
            optional,
        }
    }

    /// Tells something; not with `-q`.
    pub fn talk(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Normal {
            self.write_err(None, text);
        }
    }

    /// Tells a detail; only with `-v`.
    pub fn detail(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Verbose {
            self.write_err(None, text);
        }
    }

    /// Writes a line of data that only `-v` asks for.
    pub fn data_detail(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Verbose {
            self.line(&printable(text));
        }
    }

    /// Tells something that is worth knowing and needs no action; not with `-q`.
    pub fn note(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Normal {
            self.write_err(Some(Label::Note), text);
        }
    }

    /// Tells something that a person should look at.
    pub fn warning(&mut self, text: &str) {
        self.remark(Label::Warning, text);
    }

    /// Tells what this call is the first to see, such as failures: always, unlike a warning that stands
    /// and has been said before.
    pub fn news(&mut self, text: &str) {
        self.drops_hint = false;
        self.put(Some(Label::Warning), text);
    }

    /// Tells why the command could not do its work.
    pub fn error(&mut self, text: &str) {
        self.remark(Label::Error, text);
    }

    pub fn hints(&mut self, hint: impl IntoIterator<Item = String>) {
        for hint in hint {
            self.hint(&hint);
        }
    }

    /// Warns of the first of several, and of how many more there are.
    pub fn warnings_of(&mut self, texts: &[String], what: &str) {
        const SHOWN: usize = 10;
        for text in texts.iter().take(SHOWN) {
            self.warning(text);
        }
        if let more @ 1.. = texts.len().saturating_sub(SHOWN) {
            self.warning(&format!("and {}", plural(more, what)));
        }
    }

    /// Tells the way out of the error or warning before it.
    pub fn hint(&mut self, text: &str) {
        self.remark(Label::Hint, text);
    }

    /// Keeps warnings, errors and hints until it is known which of them are new.
    pub fn hold_back(&mut self) {
        self.warned.clear();
        self.held.get_or_insert_default();
    }

    /// Says what was held back, and from now on no warning that is known, nor its hint.
    pub fn say_what_is_new(&mut self, known: HashSet<String>) {
        self.known = known;
        for (label, text) in self.held.take().into_iter().flatten() {
            self.remark(label, &text);
        }
    }

    /// Returns the warnings of this call, also those that were known, and whether each was.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, bool)> {
        self.warned
            .iter()
            .map(|text| (text.as_str(), self.known.contains(text)))
    }

    fn remark(&mut self, label: Label, text: &str) {
        let text = &in_plain_words(text, sys::file_size_limit());
        if let Some(held) = &mut self.held {
            held.push((label, text.to_owned()));
            return;
        }
        match label {
            Label::Warning => {
                self.drops_hint = self.known.contains(text);
                self.warned.push(text.to_owned());
                if self.drops_hint {
                    return;
                }
            }
            Label::Hint if self.drops_hint => return,
            _ => self.drops_hint = false,
        }
        self.write_err(Some(label), text);
    }

    /// From now on, the same note, warning or hint is told once: for commands that look again and again.
    pub fn tell_once(&mut self) {
        self.told.get_or_insert_default();
    }

    fn write_err(&mut self, label: Option<Label>, text: &str) {
        if label.is_some()
            && let Some(told) = &mut self.told
            && !told.insert(text.to_owned())
        {
            return;
        }
        self.put(label, text);
    }

    fn put(&mut self, label: Option<Label>, text: &str) {
        let mut message = String::new();
        if let Some(label) = label {
            let (word, color) = label.word();
            let style = if self.options.err_color {
                Style::new().bold().fg_color(Some(color.into()))
            } else {
                Style::new()
            };
            message.push_str(&format!("{style}{word}:{style:#} "));
        }
        for line in text.trim_end_matches('\n').split('\n') {
            message.push_str(&printable(line));
            message.push('\n');
        }
        let err = &mut self.err;
        // There is nobody left to tell of an error here.
        let _ = beside(self.bar.as_ref(), || err.write_all(message.as_bytes()));
    }

    /// True if stdout is a terminal that can be cleared between two looks.
    pub fn clears_screen(&self) -> bool {
        self.options.width.is_some()
    }

    /// Clears the terminal (ECMA-48: erase the display, cursor home).
    pub fn clear_screen(&mut self) {
        self.data(b"\x1b[2J\x1b[H");
    }

    /// True if the reader of stdout has gone: a command that only prints may stop.
    pub fn is_closed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns the error that kept data from being written, if any. A reader that went away is none.
    pub fn finish(mut self) -> io::Result<()> {
        if self.failure.is_none() {
            self.failure = self.out.flush().err();
        }
        match self.failure {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

impl Label {
    fn word(self) -> (&'static str, AnsiColor) {
        match self {
            Self::Note => ("note", AnsiColor::Cyan),
            Self::Warning => ("warning", AnsiColor::Yellow),
            Self::Error => ("error", AnsiColor::Red),
            Self::Hint => ("hint", AnsiColor::Green),
        }
    }
}

/// Writes while a progress bar may stand on the same terminal.
fn beside<T>(bar: Option<&ProgressBar>, write: impl FnOnce() -> T) -> T {
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// The error number of a file that would exceed its limit.
const EFBIG: i32 = rustix::io::Errno::FBIG.raw_os_error();

/// Takes the numbers of system errors out of a text; how large a file may be is said instead, where that is the reason.
pub(super) fn in_plain_words(text: &str, limit: Option<u64>) -> String {
    static NUMBER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r" \(os error (\d+)\)").ok());
    let said = |found: &Captures<'_>| {
        let is_size = found.get(1).and_then(|n| n.as_str().parse().ok()) == Some(EFBIG);
        maybe(" (ulimit -f: ", limit.filter(|_| is_size), " bytes)")
    };
    match &*NUMBER {
        Some(number) => number.replace_all(text, said).into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
