//! Hashes, and bytes as hexadecimal digits.

use sha2::{Digest as _, Sha256};

/// Two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
