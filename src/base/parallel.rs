//! A parallel map for work that mostly waits for a file system.
//!
//! Where the system refuses threads (a login node's limit on processes), it is slower but still works.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

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
    let mut parts: Vec<(usize, R)> = std::thread::scope(|scope| {
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
}
