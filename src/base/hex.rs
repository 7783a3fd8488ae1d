//! Bytes as hexadecimal digits. Pure.

use std::fmt::Write as _;

/// Writes two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The same for the first `count` bytes.
pub fn hex_of_first(count: usize, bytes: &[u8]) -> String {
    hex(bytes.get(..count).unwrap_or(bytes))
}
