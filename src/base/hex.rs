//! Hashes, and bytes as hexadecimal digits.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// [`hex`] of the first `count` bytes.
pub fn hex_of_first(count: usize, bytes: &[u8]) -> String {
    hex(bytes.get(..count).unwrap_or(bytes))
}

/// A hash of a list of texts.
pub fn hash_of(texts: impl IntoIterator<Item: AsRef<str>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_ref().as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}
