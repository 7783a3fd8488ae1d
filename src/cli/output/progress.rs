//! How far a command is: a bar while it works, lines for what is watched.

use std::io::Write as _;

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::Printer;
use crate::base::sys;
use crate::cli::progress::{DELAY, Lines, Progress, View};
use crate::show::tables::Tally;

impl Printer {
    /// Starts to show progress, if stderr is a terminal and there is no `-q`.
    pub fn progress(&mut self, total: Option<u64>, message: &str) -> Progress {
        if self.view.is_some() {
            return Progress::default();
        }
        let progress = if self.options.progress && !self.is_quiet() {
            Progress::start(ProgressDrawTarget::stderr(), total, message, DELAY)
        } else {
            Progress::default()
        };
        self.bar = progress.bar();
        progress
    }

    /// From now on, [`Self::show_progress`] shows how far each procedure is: where progress can be drawn by live lines,
    /// which take the place of bars, else by a line whenever one has come further.
    /// Returns what is to be drawn again while nothing else happens.
    pub fn watch(&mut self) -> Option<ProgressBar> {
        let lines = (self.options.progress && !self.is_quiet())
            .then(|| Lines::start(ProgressDrawTarget::stderr_with_hz(2)));
        self.bar = lines.as_ref().map(Lines::bar);
        self.view = Some(lines.map_or_else(View::default, View::Live));
        self.bar.clone()
    }

    /// Shows how far each procedure is, if it is watched.
    pub fn show_progress(&mut self, tallies: impl FnOnce() -> Vec<Tally>) {
        match &mut self.view {
            None => {}
            Some(View::Live(_)) if sys::is_interrupted() => {}
            Some(View::Live(lines)) => lines.update(&tallies()),
            Some(View::Plain(shown)) => {
                let tallies = tallies();
                let before = std::mem::replace(shown, tallies.clone());
                let time = sys::local_time(sys::now());
                for tally in tallies.iter().filter(|tally| !before.contains(tally)) {
                    self.talk(&format!("{time} {tally}"));
                }
            }
        }
    }

    /// Ends what [`Self::watch`] began; the last lines stay on the screen.
    pub fn stop_watching(&mut self, is_interrupted: bool) {
        if let Some(View::Live(lines)) = self.view.take() {
            lines.finish(is_interrupted);
            if is_interrupted {
                let _ = self.err.write_all(b"\n");
            }
            // What is written from now on follows them.
            self.bar = None;
        }
    }
}
