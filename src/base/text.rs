//! Text for people: counts, lists, optional parts, escaped control characters. Numbers from text, and hashes.

use std::borrow::Cow;
use std::fmt::Display;

use sha2::{Digest as _, Sha256};

/// A hash map for names in a study. The hash of the standard library also resists texts that were made to collide; it
/// took a tenth of the instructions of a scan.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// `1 task`, `3 tasks`.
pub fn plural(count: usize, word: &str) -> String {
    plural_as(count, count, word)
}

/// [`plural`] for a word whose plural is not formed with `s`.
pub fn plural_of(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// [`plural`] with the number shown as `shown`.
pub fn plural_as(count: usize, shown: impl Display, word: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{shown} {word}{end}")
}

/// `a, b, c and 2 more`.
pub fn few<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    format!("{}{}", shown.join(", "), and_more(names.len(), most))
}

/// ` and 2 more`, or an empty text.
pub fn and_more(count: usize, shown: usize) -> String {
    let more = count.checked_sub(shown).filter(|more| *more > 0);
    maybe(" and ", more, " more")
}

/// A value between two texts, or an empty text.
pub fn maybe(before: &str, value: Option<impl Display>, after: &str) -> String {
    value.map_or_else(String::new, |value| format!("{before}{value}{after}"))
}

/// A text with its first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Parses a number that is written in digits only, without a sign.
pub fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// A number of bytes: `17 bytes`, `4.2 MB` (powers of 1000, as `ls -h --si` and disk makers count).
pub fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return plural(usize::try_from(bytes).unwrap_or(usize::MAX), "byte");
    }
    let amount = |power: i32| bytes as f64 / 1000_f64.powi(power);
    let mut units = ["kB", "MB", "GB", "TB", "PB"].into_iter().zip(1..);
    let fitting = units.find(|(_, power)| amount(*power) < 999.95);
    let (unit, power) = fitting.unwrap_or(("PB", 5));
    format!("{:.1} {unit}", amount(power))
}

/// Escapes control characters (escape sequences, line ends) of a text from outside.
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

/// Two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// [`hex`] of the first `count` bytes.
pub fn hex_of_first(count: usize, bytes: &[u8]) -> String {
    hex(bytes.get(..count).unwrap_or(bytes))
}

/// The hexadecimal SHA-256 of a content.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_counts_read_as_sentences() {
        assert_eq!(few(&["a", "b"], 2), "a, b");
        assert_eq!(few(&["a", "b", "c"], 1), "a and 2 more");
        assert_eq!(
            (plural(1, "task"), plural(0, "task")),
            ("1 task".into(), "0 tasks".into())
        );
        assert_eq!(
            maybe(" (", Some(3), ")") + &maybe("x", None::<u8>, "y"),
            " (3)"
        );
        assert_eq!(capital("été") + &capital("tasks"), "étéTasks");
    }
    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (12_345_678, "12.3 MB"),
            (2 << 30, "2.1 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
