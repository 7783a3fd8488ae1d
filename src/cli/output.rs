//! The printer: data goes to stdout, messages to stderr. Only here is their appearance decided.
//!
//! A closed stdout (`... | head`) never stops a command, least of all one that submits jobs: the rest
//! of the data is dropped, the work continues, and the exit code is the command's own. Any other error
//! of stdout is kept for [`Printer::finish`].

mod options;

use std::collections::HashSet;
use std::io::{self, ErrorKind, Write};
use std::sync::LazyLock;

use anstyle::Style;
pub use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget};
use options::{ERROR, HINT, Label, NOTE, WARNING};
pub use options::{Format, PrinterOptions, Verbosity};
use polars::prelude::DataFrame;
use regex::{Captures, Regex};

use super::progress::{DELAY, lines, start, watching};
use super::{TableError, maybe, plural, sys};
use crate::base::text::printable;
use crate::show::layout::{Layout, render, width_of};
use crate::show::tables::{Tally, to_csv, to_json};

/// Printer of the data and messages of one command.
pub struct Printer {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    options: PrinterOptions,
    bar: ProgressBar,
    /// The last shown progress of watched procedures.
    watched: Option<Vec<Tally>>,
    /// Messages printed so far, if repeats are suppressed.
    printed: Option<HashSet<String>>,
    /// Warnings that an earlier invocation printed recently.
    known: HashSet<String>,
    /// Warnings of this invocation, including those in `known`.
    warned: Vec<String>,
    /// Whether the next hint belongs to a suppressed message.
    drops_hint: bool,
    /// The first error of stdout; nothing more is written after it.
    failure: Option<io::Error>,
}

impl Printer {
    /// A printer to the process's stdout and stderr. `Auto` colours a terminal unless the
    /// environment says otherwise (`NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM=dumb`).
    pub fn stdio(color: ColorChoice, verbosity: Verbosity) -> Self {
        let options = PrinterOptions::of_process(color, verbosity);
        Self::new(Box::new(io::stdout()), Box::new(io::stderr()), options)
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
            bar: ProgressBar::hidden(),
            watched: None,
            printed: None,
            known: HashSet::new(),
            warned: Vec::new(),
            drops_hint: false,
            failure: None,
        }
    }

    pub fn verbosity(&self) -> Verbosity {
        self.options.verbosity
    }

    pub fn options(&self) -> PrinterOptions {
        self.options
    }

    pub fn is_quiet(&self) -> bool {
        self.options.verbosity == Verbosity::Quiet
    }

    /// Writes data unchanged.
    pub fn data(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            let out = &mut self.out;
            let write = || out.write_all(bytes).and_then(|()| out.flush());
            self.failure = self.bar.suspend(write).err();
        }
    }

    /// Writes one line of data.
    pub fn line(&mut self, text: &str) {
        self.data(format!("{text}\n").as_bytes());
    }

    /// Writes a frame in a format. `painted` names the columns of status words, `optional` those that a narrow
    /// terminal omits, the least important first.
    pub fn frame(
        &mut self,
        frame: &DataFrame,
        format: Format,
        painted: &[&str],
        optional: &[&str],
    ) -> Result<(), TableError> {
        let layout = Layout {
            width: self.options.width,
            color: self.options.out_color,
            symbols: self.options.symbols,
            painted,
            optional,
        };
        let bytes = match format {
            Format::Table => render(frame, layout).into_bytes(),
            Format::Csv => to_csv(frame)?,
            Format::Json => to_json(frame)?,
        };
        self.data(&bytes);
        Ok(())
    }

    /// True if a frame fits without wrapped cells, perhaps with its columns closer together.
    pub fn fits(&self, frame: &DataFrame, is_close: bool) -> bool {
        let width = self.options.width.map(usize::from);
        width.is_none_or(|width| width_of(frame, is_close) <= width)
    }

    pub fn is_terminal(&self) -> bool {
        self.options.width.is_some()
    }

    /// Prints a message; not with `-q`.
    pub fn info(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Normal {
            self.write_err(None, text);
        }
    }

    /// Prints a message only with `-v`.
    pub fn detail(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Verbose {
            self.write_err(None, text);
        }
    }

    /// Writes a line of data only with `-v`.
    pub fn detail_line(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Verbose {
            self.line(&printable(text));
        }
    }

    /// Prints something worth knowing that needs no action; not with `-q`.
    pub fn note(&mut self, text: &str) {
        if self.options.verbosity >= Verbosity::Normal {
            self.write_err(Some(NOTE), text);
        }
    }

    /// Prints something that needs attention.
    pub fn warning(&mut self, text: &str) {
        self.remark(WARNING, text);
    }

    /// Prints a warning that is never suppressed as known, such as a failure that this invocation is the first to see.
    pub fn new_warning(&mut self, text: &str) {
        self.drops_hint = false;
        self.put(Some(WARNING), text);
    }

    /// Prints why the command failed.
    pub fn error(&mut self, text: &str) {
        self.remark(ERROR, text);
    }

    pub fn warnings(&mut self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        for text in texts {
            self.warning(text.as_ref());
        }
    }

    pub fn notes(&mut self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        for text in texts {
            self.note(text.as_ref());
        }
    }

    pub fn hints(&mut self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        for text in texts {
            self.hint(text.as_ref());
        }
    }

    /// Warns of the first of several unreadable paths, with the number of the others.
    pub fn warn_unreadable(&mut self, texts: &[String]) {
        const SHOWN: usize = 10;
        self.warnings(texts.iter().take(SHOWN));
        if let more @ 1.. = texts.len().saturating_sub(SHOWN) {
            self.warning(&format!("and {}", plural(more, "more path")));
        }
    }

    /// Prints the remedy for the previous error or warning.
    pub fn hint(&mut self, text: &str) {
        self.remark(HINT, text);
    }

    /// From now on, suppresses known warnings and their hints.
    pub fn suppress_known(&mut self, known: HashSet<String>) {
        self.warned.clear();
        self.known = known;
    }

    /// The warnings of this invocation, and whether each was known.
    pub fn warned(&self) -> impl Iterator<Item = (&str, bool)> {
        self.warned
            .iter()
            .map(|text| (text.as_str(), self.known.contains(text)))
    }

    fn remark(&mut self, label: Label, text: &str) {
        let text = &without_error_numbers(text, sys::file_size_limit());
        if label == WARNING {
            self.drops_hint = self.known.contains(text);
            self.warned.push(text.to_owned());
        } else if label != HINT {
            self.drops_hint = false;
        }
        if self.drops_hint {
            return;
        }
        self.write_err(Some(label), text);
    }

    /// From now on, prints the same note, warning or hint only once: for commands that repeat their work.
    pub fn suppress_repeats(&mut self) {
        self.printed.get_or_insert_default();
    }

    fn write_err(&mut self, label: Option<Label>, text: &str) {
        if label.is_some()
            && let Some(printed) = &mut self.printed
            && !printed.insert(text.to_owned())
        {
            return;
        }
        self.put(label, text);
    }

    fn put(&mut self, label: Option<Label>, text: &str) {
        let mut message = String::new();
        if let Some((word, color)) = label {
            let style = match self.options.err_color {
                true => Style::new().bold().fg_color(Some(color.into())),
                false => Style::new(),
            };
            message.push_str(&format!("{style}{word}:{style:#} "));
        }
        for line in text.trim_end_matches('\n').split('\n') {
            message.push_str(&printable(line));
            message.push('\n');
        }
        let err = &mut self.err;
        // An error of stderr cannot be reported anywhere.
        let _ = self.bar.suspend(|| err.write_all(message.as_bytes()));
    }

    /// True if stdout is closed: a command that only prints may stop.
    pub fn is_closed(&self) -> bool {
        self.failure.is_some()
    }

    /// Shows progress if stderr is a terminal, unless with `-q`.
    pub fn progress(&mut self, total: Option<u64>, message: &str) -> ProgressBar {
        if self.watched.is_some() || !self.options.progress || self.is_quiet() {
            return ProgressBar::hidden();
        }
        self.bar = start(ProgressDrawTarget::stderr(), total, message, DELAY);
        self.bar.clone()
    }

    /// From now on, [`Self::show_progress`] shows the progress of each procedure: by live lines, which replace bars, where
    /// they can be drawn, else by a line per change. Returns what must be redrawn during pauses.
    pub fn watch(&mut self) -> ProgressBar {
        self.bar = match self.options.progress && !self.is_quiet() {
            true => watching(ProgressDrawTarget::stderr_with_hz(2)),
            false => ProgressBar::hidden(),
        };
        self.watched = Some(Vec::new());
        self.bar.clone()
    }

    /// Shows the progress of each procedure, if watched. After Ctrl-C nothing more is drawn.
    pub fn show_progress(&mut self, tallies: impl FnOnce() -> Vec<Tally>) {
        if self.watched.is_none() || sys::is_interrupted() {
            return;
        }
        let tallies = tallies();
        let before = self.watched.replace(tallies.clone()).unwrap_or_default();
        if !self.bar.is_hidden() {
            self.bar.set_message(lines(&tallies));
            return;
        }
        let time = sys::local_time(sys::now());
        for tally in tallies.iter().filter(|tally| !before.contains(tally)) {
            self.info(&format!("{time} {tally}"));
        }
    }

    /// Ends [`Self::watch`]; the last lines stay on the screen.
    pub fn stop_watching(&mut self, is_interrupted: bool) {
        let last = self.watched.take().unwrap_or_default();
        // Later output goes below these lines.
        let bar = std::mem::replace(&mut self.bar, ProgressBar::hidden());
        if bar.is_hidden() {
            return;
        }
        if is_interrupted {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            let _ = self.err.write_all(b"\n");
        } else {
            bar.finish_and_clear();
            for line in lines(&last).lines() {
                self.info(line);
            }
        }
    }

    /// The error of writing data, if any. A closed pipe is not one.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failure.or_else(|| self.out.flush().err()) {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Error number for a file that exceeds its size limit.
const EFBIG: i32 = rustix::io::Errno::FBIG.raw_os_error();

/// Removes the numbers of system errors from a text. For an exceeded size limit, shows the limit instead.
pub(super) fn without_error_numbers(text: &str, limit: Option<u64>) -> String {
    static NUMBER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r" \(os error (\d+)\)").ok());
    let replacement = |found: &Captures<'_>| {
        let is_size = found.get(1).and_then(|n| n.as_str().parse().ok()) == Some(EFBIG);
        maybe(" (ulimit -f: ", limit.filter(|_| is_size), " bytes)")
    };
    match &*NUMBER {
        Some(number) => number.replace_all(text, replacement).into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
