//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

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
