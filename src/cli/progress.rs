//! Progress bars for work that takes longer than a second, on terminals.
//!
//! They are drawn on stderr and disappear at the end. Nothing depends on them: without a terminal or a thread
//! there are none.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::show::tables::{Tally, TaskState};

/// Delay of the bar: shorter work gets none.
pub const DELAY: Duration = Duration::from_secs(1);

/// A bar, perhaps hidden. Dropping it removes it.
pub struct Progress {
    bar: ProgressBar,
    /// Ends the thread that waits for the delay.
    _timer: Option<Sender<()>>,
}

impl Progress {
    pub fn hidden() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            _timer: None,
        }
    }

    /// Starts counting; the bar appears on `target` after `delay`.
    pub fn start(
        target: ProgressDrawTarget,
        total: Option<u64>,
        message: &str,
        delay: Duration,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
            .with_style(style(total.is_some()))
            .with_message(message.to_owned());
        let (timer, ended) = channel::<()>();
        let shown = bar.clone();
        let thread = std::thread::Builder::new().name("progress".to_owned());
        // Without a thread, the bar stays hidden.
        let _ = thread.spawn(move || {
            if ended.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) && !shown.is_finished() {
                shown.set_draw_target(target);
                shown.enable_steady_tick(Duration::from_millis(200));
            }
        });
        Self {
            bar,
            _timer: Some(timer),
        }
    }

    pub fn inc(&self, steps: u64) {
        self.bar.inc(steps);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// For the printer, which must write beside the bar.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// How the progress of each procedure is shown.
pub enum View {
    Live(Lines),
    /// The last printed state.
    Plain(Vec<Tally>),
}

/// A live line per procedure and a status line below.
pub struct Lines {
    all: MultiProgress,
    bars: Vec<(Arc<str>, ProgressBar)>,
    last: ProgressBar,
}

impl Lines {
    /// Draws only on request, because the cursor moves after Ctrl-C.
    pub fn start(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        let style = style_of("{spinner} {elapsed} so far; Ctrl-C stops watching, jobs continue");
        let last = all.add(ProgressBar::new_spinner().with_style(style));
        let bars = Vec::new();
        Self { all, bars, last }
    }

    pub fn update(&mut self, tallies: &[Tally]) {
        let names = tallies.iter().map(|tally| &tally.procedure);
        if !names.eq(self.bars.iter().map(|(name, _)| name)) {
            self.rebuild(tallies);
        }
        for (tally, (_, bar)) in tallies.iter().zip(&self.bars) {
            bar.set_length(tally.all() as u64);
            bar.set_position(tally.count(TaskState::Complete) as u64);
            bar.set_message(tally.text());
        }
    }

    /// The configuration is read for each pass, so the procedures may change.
    fn rebuild(&mut self, tallies: &[Tally]) {
        for (_, bar) in self.bars.drain(..) {
            self.all.remove(&bar);
        }
        let widths = tallies.iter().map(|tally| tally.procedure.chars().count());
        let width = widths.max().unwrap_or_default();
        let style = style_of("{prefix} [{bar:20}] {pos}/{len} {msg}");
        for tally in tallies {
            let name = &tally.procedure;
            let bar = ProgressBar::no_length()
                .with_style(style.clone())
                .with_prefix(format!("{name:width$}"));
            let bar = self.all.insert_before(&self.last, bar);
            self.bars.push((Arc::clone(name), bar));
        }
    }

    /// Ends the display; the procedures' lines stay on the screen. After Ctrl-C nothing more is drawn.
    pub fn finish(&self, is_interrupted: bool) {
        if is_interrupted {
            self.all.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.last.finish_and_clear();
        for (_, bar) in &self.bars {
            bar.abandon();
        }
    }

    /// The bar to redraw, and to write beside.
    pub(super) fn bar(&self) -> ProgressBar {
        self.last.clone()
    }
}

fn style(has_total: bool) -> ProgressStyle {
    style_of(if has_total {
        "{msg} [{wide_bar}] {pos}/{len} {elapsed}"
    } else {
        "{spinner} {msg} {pos} {elapsed}"
    })
}

fn style_of(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;

    /// A terminal that forwards what is drawn.
    #[derive(Debug)]
    struct Screen(Mutex<Sender<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            60
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            let _ = self.0.lock().unwrap().send(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen() -> (ProgressDrawTarget, Receiver<String>) {
        let (sender, drawn) = channel();
        let screen = Box::new(Screen(Mutex::new(sender)));
        (ProgressDrawTarget::term_like(screen), drawn)
    }

    #[test]
    fn long_work_gets_a_bar() {
        let (target, drawn) = screen();
        let progress = Progress::start(target, Some(7), "reading", Duration::ZERO);
        progress.inc(3);
        let mut text = String::new();
        while !text.contains("3/7") {
            text.push_str(&drawn.recv().unwrap());
        }
        assert!(text.contains("reading ["), "{text}");
    }

    #[test]
    fn short_work_gets_none() {
        let (target, drawn) = screen();
        let progress = Progress::start(target, None, "reading", Duration::from_secs(3600));
        progress.inc(2);
        progress.finish();
        drop(progress);
        // The target goes with the bar, so that this ends.
        assert_eq!(drawn.iter().collect::<String>(), "");
    }
}
