//! A parallel map for work that mostly waits for a file system; calls into libraries that panic, or that need more
//! threads than the system may allow.
//!
//! Where the system refuses threads (a login node's limit on processes), the map is slower but still works.

use std::any::Any;
use std::cell::Cell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once, OnceLock};
use std::thread::{Builder, available_parallelism, scope};

/// Runs `work` over all items on at most `threads` threads and returns the results in the items'
/// order, whatever the number of threads. A thread's panic is resumed in the caller.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Starting a thread takes as long as a few reads from a local disk.
    const ITEMS_PER_THREAD: usize = 2;
    let threads = threads.min(items.len() / ITEMS_PER_THREAD);
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            done.push((at, work(item)));
        }
    };
    let mut parts: Vec<(usize, R)> = scope(|scope| {
        // The caller works too; after the first error, no more threads are available.
        let workers: Vec<_> = (1..threads)
            .map_while(|_| Builder::new().spawn_scoped(scope, take).ok())
            .collect();
        let mut parts = take();
        for worker in workers {
            match worker.join() {
                Ok(done) => parts.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().map(|(_, result)| result).collect()
}

/// Turns a library's panic into its text, and does not print it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| text(panic.as_ref()))
}

/// Runs polars, which starts its own threads: where the system does not allow enough of them, it would panic or wait
/// forever.
pub fn with_threads<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static ENOUGH: OnceLock<Result<(), String>> = OnceLock::new();
    ENOUGH.get_or_init(|| {
        // Two pools of a thread per processor, and a few more.
        let processors = available_parallelism().map_or(1, NonZero::get);
        let wanted = 2 * processors + 2;
        have_threads(wanted).map_err(|error| {
            format!("cannot start {wanted} threads ({error}): is there a limit on processes (ulimit -u)?")
        })
    })
    .clone()?;
    caught(work)
}

/// Starts `count` threads at once, and ends them.
fn have_threads(count: usize) -> std::io::Result<()> {
    let (keep, kept) = channel::<()>();
    let kept = Mutex::new(kept);
    scope(|scope| {
        let started: std::io::Result<Vec<_>> = (0..count)
            .map(|_| {
                Builder::new().stack_size(64 << 10).spawn_scoped(scope, || {
                    let _ = kept.lock().map(|kept| kept.recv());
                })
            })
            .collect();
        drop(keep);
        started.map(drop)
    })
}

fn text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked without a message")
        .to_owned()
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Does not print panics of this thread during `work`.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.with(Cell::get) {
                usual(info);
            }
        }));
    });
    let before = QUIET.with(|quiet| quiet.replace(true));
    let outcome = work();
    QUIET.with(|quiet| quiet.set(before));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_items_order() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 2, 16, 5000] {
            assert_eq!(map(&items, threads, |item| item * 2)[999], 1998);
            assert!(map(&items, threads, |item| *item).is_sorted());
            assert!(map(&items[..0], threads, |item| *item).is_empty());
            assert_eq!(map(&items[..3], threads, |item| *item), [0, 1, 2]);
        }
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_is_not_swallowed() {
        let items: Vec<usize> = (0..100).collect();
        map(&items, 4, |item| assert!(*item != 7, "seven"));
    }

    #[test]
    fn a_panic_becomes_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(
            caught(|| panic!("no {}", "thread")),
            Err::<(), _>("no thread".to_owned())
        );
        assert_eq!(caught(|| panic!("none")), Err::<(), _>("none".to_owned()));
    }
}
