//! A progress bar on stderr, for work that takes more than a second.
//!
//! The handle can be shared between threads; where no bar is wanted, all it does is nothing.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less than this gets no bar.
pub const DELAY: Duration = Duration::from_secs(1);

/// Counts steps of a piece of work. Clones count the same work; the last one to go takes the bar away.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Running>>);

struct Running {
    bar: ProgressBar,
    /// False once the work has ended: a late timer must not bring the bar back.
    wanted: Arc<Mutex<bool>>,
    /// Its end ends the thread that waits to show the bar.
    _timer: Sender<()>,
}

impl Progress {
    /// Makes a handle that shows nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Starts to count towards `total` (none: it is not known yet). The bar appears on `target`
    /// after `delay`, also if no step ends in the meantime.
    pub fn start(
        target: ProgressDrawTarget,
        total: Option<u64>,
        message: &str,
        delay: Duration,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
            .with_style(style(total.is_some()))
            .with_message(message.to_owned());
        let wanted = Arc::new(Mutex::new(true));
        let (timer, ended) = channel::<()>();
        let (shown, still_wanted) = (bar.clone(), Arc::clone(&wanted));
        let started = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                if ended.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    let wanted = still_wanted.lock().unwrap_or_else(PoisonError::into_inner);
                    if *wanted {
                        shown.set_draw_target(target);
                        shown.enable_steady_tick(Duration::from_millis(200));
                    }
                }
            });
        // Without a thread there is no bar; the work itself goes on.
        match started {
            Ok(_) => Self(Some(Arc::new(Running {
                bar,
                wanted,
                _timer: timer,
            }))),
            Err(_) => Self::none(),
        }
    }

    /// Counts `steps` as done.
    pub fn inc(&self, steps: u64) {
        if let Some(running) = &self.0 {
            running.bar.inc(steps);
        }
    }

    /// Says how many steps there are, once it is known.
    pub fn set_total(&self, total: u64) {
        if let Some(running) = &self.0 {
            running.bar.set_style(style(true));
            running.bar.set_length(total);
        }
    }

    /// Says what is being done: `reading outputs`.
    pub fn set_message(&self, message: &str) {
        if let Some(running) = &self.0 {
            running.bar.set_message(message.to_owned());
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(running) = &self.0 {
            running.finish();
        }
    }

    /// Gives the printer what it needs to write while the bar stands.
    pub(super) fn bar(&self) -> Option<ProgressBar> {
        self.0.as_ref().map(|running| running.bar.clone())
    }
}

impl Running {
    fn finish(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.bar.finish_and_clear();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(has_total: bool) -> ProgressStyle {
    let template = if has_total {
        "{msg} [{wide_bar}] {pos}/{len} {elapsed}"
    } else {
        "{spinner} {msg} {pos} {elapsed}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::mpsc::Receiver;

    /// A terminal that hands on what is drawn.
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
        progress.set_total(2);
        progress.inc(2);
        progress.set_message("writing");
        progress.clone().finish();
        drop(progress);
        // The target goes with the bar, so that this ends.
        assert_eq!(drawn.iter().collect::<String>(), "");
    }

    #[test]
    fn no_bar_does_nothing() {
        let progress = Progress::none();
        progress.inc(1);
        progress.finish();
        assert!(progress.bar().is_none());
    }
}
