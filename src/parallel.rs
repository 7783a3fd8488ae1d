//! Work on a few threads at a time, for what waits on the file system; and the work of libraries that start
//! threads of their own.
//!
//! A system that gives no thread (a login node's limit on processes) makes our own work slower, nothing else;
//! that of others ends with an error.

use std::any::Any;
use std::cell::Cell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once, OnceLock};
use std::thread::{Builder, available_parallelism, scope};

/// Runs `work` over all items on up to so many threads, this one included, and returns the results in
/// the items' order, whatever the number of threads. A panic of a thread goes on in the caller.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // A thread is started in the time of a few reads of a local disk.
    const ITEMS_PER_THREAD: usize = 2;
    let threads = threads.min(items.len() / ITEMS_PER_THREAD);
    if threads <= 1 {
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
        // The first error says that there are no more threads to be had.
        let workers: Vec<_> = (1..threads)
            .map_while(|_| Builder::new().spawn_scoped(scope, take).ok())
            .collect();
        let mut parts = take();
        for worker in workers {
            match worker.join() {
                Ok(done) => parts.extend(done),
                Err(panic) => resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().map(|(_, result)| result).collect()
}

/// Turns a panic of a library into its text, and keeps it from being printed.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| text(panic.as_ref()))
}

/// Does the work of polars, which starts threads of its own: where the system does not give as many,
/// it would panic, or wait for ever.
pub fn with_threads<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static ENOUGH: OnceLock<Result<(), String>> = OnceLock::new();
    ENOUGH.get_or_init(|| {
        // Two pools of a thread per processor, and a few more.
        let processors = available_parallelism().map_or(1, NonZero::get);
        let wanted = 2 * processors + 2;
        have_threads(wanted).map_err(|error| {
            format!("the system gives no {wanted} threads ({error}): is there a limit on processes (ulimit -u)?")
        })
    })
    .clone()?;
    caught(work)
}

/// Starts so many threads at once, and ends them.
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
        .unwrap_or("a part of it gave up")
        .to_owned()
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Keeps panics of this thread off standard error while it works.
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
    fn a_panic_becomes_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(
            caught(|| panic!("no {}", "thread")),
            Err::<(), _>("no thread".to_owned())
        );
        assert_eq!(caught(|| panic!("none")), Err::<(), _>("none".to_owned()));
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 2, 16, 5000] {
            let found = map(&items, threads, |item| item * 2);
            assert!(found.iter().enumerate().all(|(at, item)| at * 2 == *item));
            assert_eq!(found.len(), 1000);
        }
        assert_eq!(map(&[], 4, |item: &u8| *item), [0u8; 0]);
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_is_not_swallowed() {
        let items: Vec<usize> = (0..100).collect();
        map(&items, 4, |item| assert!(*item != 7, "seven"));
    }
}
