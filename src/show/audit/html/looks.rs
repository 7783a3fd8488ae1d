//! How a decision looks: a symbol and a colour, so that colour never speaks alone.

use crate::show::audit::report::{Count, count_of};

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

/// Each of `tables::words::WORDS` is in one group.
#[rustfmt::skip]
pub const GROUPS: [Group; 9] = [
    Group { name: "complete", title: "Complete", symbol: "✓", words: &["complete"], always: true },
    Group { name: "flight", title: "In flight", symbol: "▶", words: &["running", "pending", "foreign-job"], always: true },
    Group { name: "ready", title: "Due", symbol: "○", words: &["due", "limit", "settling"], always: true },
    Group { name: "waiting", title: "Waiting", symbol: "…", words: &["waiting", "paused"], always: true },
    Group { name: "blocked", title: "Blocked", symbol: "⊘", words: &["blocked"], always: true },
    Group { name: "failed", title: "Failed", symbol: "✕", words: &["failed"], always: true },
    Group { name: "unreadable", title: "Unreadable", symbol: "?", words: &["unreadable"], always: false },
    Group { name: "lacking", title: "Lack input", symbol: "∅", words: &["no-dicom", "few-dicom"], always: false },
    OUT,
];

#[rustfmt::skip]
const OUT: Group =
    Group { name: "out", title: "Left out", symbol: "–", words: &["not-applicable", "excluded", "not-selected"], always: false };

impl Group {
    pub fn count(&self, counts: &[Count]) -> usize {
        self.words.iter().map(|word| count_of(counts, word)).sum()
    }
}

/// Returns the group of a word.
pub fn group_of(word: &str) -> Group {
    let mut groups = GROUPS.iter().filter(|group| group.words.contains(&word));
    groups.next().copied().unwrap_or(OUT)
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
        _ => group_of(word).symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tables::words::WORDS;

    #[test]
    fn every_word_is_in_one_group_and_looks_unlike_the_others() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|g| g.words).copied().collect();
        assert_eq!(grouped.len(), WORDS.len());
        for word in WORDS {
            assert!(grouped.contains(&word), "{word}");
        }
        let kept = WORDS.iter().filter(|word| group_of(word) != OUT);
        let mut symbols: Vec<&str> = kept.map(|word| symbol(word)).collect();
        let all = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), all);
    }
}
