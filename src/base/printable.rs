//! Text from outside, made safe for one line of a terminal.

use std::borrow::Cow;

/// Escapes control characters (escape sequences, line ends).
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let safe = text.chars().map(|c| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(safe.collect())
}
