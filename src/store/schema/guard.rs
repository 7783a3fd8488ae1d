//! Reading bytes that may be anything: a panic of the reader becomes an error.

use super::ReadError;
use crate::base::threads::caught;

/// Turns a panic into an error, and keeps it from being printed.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    caught(work)
        .unwrap_or_else(|_| Err(ReadError::Damaged("its pages cannot be decoded".to_owned())))
}
