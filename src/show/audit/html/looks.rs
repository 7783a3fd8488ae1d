//! How a decision looks: a symbol and a colour, so that colour never speaks alone.

use crate::show::audit::report::{Count, count_of};
use crate::show::tables::words::WORDS;

/// Puts decisions together that a person reads as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Also the class in `page.css`.
    pub name: &'static str,
    pub title: &'static str,
    pub symbol: &'static str,
    pub words: &'static [&'static str],
    /// Is shown even with nothing in it.
    pub always: bool,
}

/// Each of [`WORDS`] is in one group.
pub const GROUPS: [Group; 9] = [
    group("complete", "Complete", "✓", &["complete"], true),
    group(
        "flight",
        "In flight",
        "▶",
        &["running", "pending", "foreign-job"],
        true,
    ),
    group("ready", "Due", "○", &["due", "limit", "settling"], true),
    group("waiting", "Waiting", "…", &["waiting", "paused"], true),
    group("blocked", "Blocked", "⊘", &["blocked"], true),
    group("failed", "Failed", "✕", &["failed"], true),
    group("unreadable", "Unreadable", "?", &["unreadable"], false),
    group(
        "lacking",
        "Lack input",
        "∅",
        &["no-dicom", "few-dicom"],
        false,
    ),
    group(
        "out",
        "Left out",
        "–",
        &["not-applicable", "excluded", "not-selected"],
        false,
    ),
];

const fn group(
    name: &'static str,
    title: &'static str,
    symbol: &'static str,
    words: &'static [&'static str],
    always: bool,
) -> Group {
    Group {
        name,
        title,
        symbol,
        words,
        always,
    }
}

impl Group {
    pub fn count(&self, counts: &[Count]) -> usize {
        self.words.iter().map(|word| count_of(counts, word)).sum()
    }
}

/// Returns the number in [`GROUPS`] of a word.
pub fn group_of(word: &str) -> usize {
    let found = GROUPS.iter().position(|group| group.words.contains(&word));
    found.unwrap_or(GROUPS.len() - 1)
}

/// Returns the number in [`WORDS`].
pub fn word_number(word: &str) -> Option<usize> {
    WORDS.iter().position(|other| *other == word)
}

/// Returns the symbol of a word: its own where a group has several.
pub fn symbol(word: &str) -> &'static str {
    match word {
        "pending" => "◷",
        "foreign-job" => "⇄",
        "limit" => "≡",
        "settling" => "~",
        "paused" => "‖",
        "few-dicom" => "△",
        _ => GROUPS.get(group_of(word)).map_or("", |group| group.symbol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_in_one_group_and_looks_unlike_the_others() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|g| g.words).copied().collect();
        assert_eq!(grouped.len(), WORDS.len());
        for word in WORDS {
            assert!(grouped.contains(&word), "{word}");
        }
        let kept = WORDS.iter().filter(|word| group_of(word) < 8);
        let mut symbols: Vec<&str> = kept.map(|word| symbol(word)).collect();
        let all = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), all);
    }
}
