//! Texts of others made safe to look at. Escaping for HTML is `maud`'s.

use std::fmt::Write as _;

use crate::show::tables::plural_as;

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

/// Keeps JSON from ending the element that it stands in. The value stays the same.
pub fn json_in_html(json: &str) -> String {
    let mut safe = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(safe, "\\u{:04x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
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

/// Writes `31.8 GB` (of 2^30 bytes), or `900 MB`; as `memory` in `page.js`.
pub fn memory(mb: i64) -> String {
    match mb {
        1024.. => format!("{:.1} GB", mb as f64 / 1024.0),
        _ => format!("{mb} MB"),
    }
}

/// Makes a word of the report readable: `out_of_memory` becomes `out of memory`.
pub fn spaced(word: &str) -> String {
    safe(&word.replace('_', " "))
}
