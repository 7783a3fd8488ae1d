//! Makes foreign texts safe to show. `maud` escapes HTML.

use std::fmt::Write as _;

use crate::base::text::plural_as;

/// Escapes invisible characters: control characters, direction marks, zero-width characters.
pub fn safe(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a `String` cannot fail.
            let _ = write!(seen, "{}", c.escape_unicode());
        } else {
            seen.push(c);
        }
    }
    seen
}

/// Must equal `HIDDEN` in `page.js`.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

pub fn plural(count: usize, word: &str) -> String {
    plural_as(count, thousands(count), word)
}

/// `12 345` with narrow no-break spaces.
pub fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A readable word: `out_of_memory` becomes `out of memory`.
pub fn spaced(word: &str) -> String {
    safe(&word.replace('_', " "))
}
