//! Batches that one thread makes while another one takes them.

use std::sync::mpsc;
use std::thread::Builder;

use arrow::record_batch::RecordBatch;

use crate::base::threads::caught;

/// Takes a batch. Returns false if no more is wanted.
pub(super) type Take<'a, E> = &'a mut dyn FnMut(&RecordBatch) -> Result<bool, E>;

/// Makes batches from `start` in a second thread while this one takes them; all in this one for a small table, or if
/// the system gives no thread.
pub(super) fn run<S: Send, R: Send, E: Send>(
    is_large: bool,
    start: S,
    make: impl Fn(S, Take<'_, E>) -> Result<R, E> + Sync,
    mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
    panicked: impl FnOnce() -> E,
) -> Result<R, E> {
    let mut take = |batch: &RecordBatch| take(batch).map(|()| true);
    if !is_large {
        return make(start, &mut take);
    }
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(1);
        let (hand_over, handed) = mpsc::channel();
        let make = &make;
        let making = Builder::new().spawn_scoped(scope, move || {
            let mut send = |batch: &RecordBatch| Ok(sender.send(batch.clone()).is_ok());
            caught(|| Some(make(handed.recv().ok()?, &mut send)))
        });
        let Ok(making) = making else {
            return make(start, &mut take);
        };
        // It fails only if the thread has ended, and that is found out below.
        let _ = hand_over.send(start);
        let taken = batches.iter().try_for_each(|batch| take(&batch).map(drop));
        drop(batches);
        let made = making.join().ok().and_then(Result::ok).flatten();
        taken?;
        made.unwrap_or_else(|| Err(panicked()))
    })
}
