//! Progress of a command: a bar, or one line per watched procedure.

use std::io::Write as _;

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::Printer;
use crate::base::sys;
use crate::cli::progress::{DELAY, Lines, Progress, View};
use crate::show::tables::Tally;

impl Printer {
    /// Shows progress if stderr is a terminal, unless with `-q`.
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

    /// From now on, [`Self::show_progress`] shows the progress of each procedure: by live lines, which replace bars, where
    /// they can be drawn, else by a line per change. Returns what must be redrawn during pauses.
    pub fn watch(&mut self) -> Option<ProgressBar> {
        let lines = (self.options.progress && !self.is_quiet())
            .then(|| Lines::start(ProgressDrawTarget::stderr_with_hz(2)));
        self.bar = lines.as_ref().map(Lines::bar);
        self.view = Some(lines.map_or_else(View::default, View::Live));
        self.bar.clone()
    }

    /// Shows the progress of each procedure, if watched.
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
                    self.info(&format!("{time} {tally}"));
                }
            }
        }
    }

    /// Ends [`Self::watch`]; the last lines stay on the screen.
    pub fn stop_watching(&mut self, is_interrupted: bool) {
        if let Some(View::Live(lines)) = self.view.take() {
            lines.finish(is_interrupted);
            if is_interrupted {
                let _ = self.err.write_all(b"\n");
            }
            // Later output goes below these lines.
            self.bar = None;
        }
    }
}
