//! Records which paths this thread's tests touch, and makes chosen ones fail.

use std::cell::RefCell;
use std::path::PathBuf;

use super::*;

thread_local! {
    static CALLS: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    static FAULTS: RefCell<Vec<(PathBuf, Errno, usize)>> = const { RefCell::new(Vec::new()) };
}

/// Lets the next `times` calls on `path` fail.
pub fn fail(path: impl Into<PathBuf>, errno: Errno, times: usize) {
    FAULTS.with_borrow_mut(|faults| faults.push((path.into(), errno, times)));
}

/// Removes all faults.
pub fn forget() {
    FAULTS.take();
}

/// The paths that were touched since the last call, in order.
pub fn calls() -> Vec<PathBuf> {
    CALLS.take()
}

pub(super) fn note(path: &Path) -> Option<Errno> {
    CALLS.with_borrow_mut(|calls| calls.push(path.to_owned()));
    FAULTS.with_borrow_mut(|faults| {
        let (_, errno, times) = faults
            .iter_mut()
            .find(|(at, _, times)| at == path && *times > 0)?;
        *times -= 1;
        Some(*errno)
    })
}
