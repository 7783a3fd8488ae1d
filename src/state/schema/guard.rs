//! Reading bytes that may be anything: a panic of the reader becomes an error.

use std::cell::Cell;
use std::sync::Once;

use super::ReadError;

/// Turns a panic into an error, and keeps it from being printed.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    quietly(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)))
        .unwrap_or_else(|_| Err(ReadError::Damaged("its pages cannot be decoded".to_owned())))
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
