//! Texts of others made safe to look at. Escaping for HTML is `maud`'s.

use std::fmt::Write as _;

use crate::base::text::plural_as;

/// Writes out what has no look of its own or turns the look of others: control characters, marks of
/// direction, characters without width. An empty text stays empty.
pub fn safe(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a text cannot fail.
            let _ = write!(seen, "{}", c.escape_unicode());
        } else {
            seen.push(c);
        }
    }
    seen
}

/// The same set stands in `page.js` (`HIDDEN`).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

pub fn plural(count: usize, word: &str) -> String {
    plural_as(count, thousands(count), word)
}

/// Writes `12 345` with narrow spaces that do not break.
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

/// Makes a word of the report readable: `out_of_memory` becomes `out of memory`.
pub fn spaced(word: &str) -> String {
    safe(&word.replace('_', " "))
}
