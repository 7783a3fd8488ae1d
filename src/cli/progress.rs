//! Progress bars for work that takes longer than a second, on terminals.
//!
//! They are drawn on stderr and disappear at the end. Nothing depends on them: without a terminal or a thread
//! there are none.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::TaskState;
use crate::show::tables::Tally;

/// Delay of the bar: shorter work gets none.
pub const DELAY: Duration = Duration::from_secs(1);

/// Starts counting; the bar appears on `target` after `delay`.
pub fn start(
    target: ProgressDrawTarget,
    total: Option<u64>,
    message: &str,
    delay: Duration,
) -> ProgressBar {
    let style = style_of(match total {
        Some(_) => "{msg} [{wide_bar}] {pos}/{len} {elapsed}",
        None => "{spinner} {msg} {pos} {elapsed}",
    });
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
        .with_style(style)
        .with_message(message.to_owned())
        // After an error, the end of the program removes it.
        .with_finish(ProgressFinish::AndClear);
    let shown = bar.clone();
    // Without a thread, the bar stays hidden.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(delay);
        if !shown.is_finished() {
            shown.set_draw_target(target);
            shown.enable_steady_tick(Duration::from_millis(200));
        }
    });
    bar
}

/// A spinner below the lines of watched procedures. Drawn only on request, because the cursor moves after Ctrl-C.
pub fn watching(target: ProgressDrawTarget) -> ProgressBar {
    let template = "{msg}{spinner} {elapsed} so far; Ctrl-C stops watching, jobs continue";
    ProgressBar::with_draw_target(None, target).with_style(style_of(template))
}

/// A line with a bar per procedure.
pub fn lines(tallies: &[Tally]) -> String {
    const WIDTH: usize = 20;
    let names = tallies.iter().map(|tally| tally.procedure.chars().count());
    let width = names.max().unwrap_or_default();
    let lines = tallies.iter().map(|tally| {
        let (name, done) = (&tally.procedure, tally.count(TaskState::Complete));
        let bar = "=".repeat(WIDTH * done / tally.all().max(1));
        let (all, text) = (tally.all(), tally.text());
        format!("{name:width$} [{bar:WIDTH$}] {done}/{all} {text}\n")
    });
    lines.collect()
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
    use std::sync::mpsc::{Receiver, Sender, channel};

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
        let progress = start(target, Some(7), "reading", Duration::ZERO);
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
        let progress = start(target, None, "reading", Duration::from_millis(300));
        progress.inc(2);
        progress.finish_and_clear();
        drop(progress);
        // The target goes after the delay, so that this ends.
        assert_eq!(drawn.iter().collect::<String>(), "");
    }
}
