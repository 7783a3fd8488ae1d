//! Known error patterns in the logs of jobs: which line tells most, what it means, what to do.
//!
//! Only the end of a log is looked at, whatever its size, and any bytes will do. The table of patterns
//! stands in [`table`]; the configuration may add some (`audit.log_patterns`), which come first.

mod table;
mod tail;

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use regex::bytes::{Regex, RegexSet};

use crate::base::printable::printable;
use crate::config::log_patterns;
use crate::gather::logs::without_colors;
use crate::model::config::{Config, LogPattern};

pub use tail::{Tail, read_tail};

/// Letters of a line that are shown.
const SHOWN: usize = 300;

/// Says what a match of a pattern means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    pub name: Arc<str>,
    /// What happened, in a few words.
    pub meaning: Arc<str>,
    /// What to do.
    pub hint: Arc<str>,
    rank: Rank,
}

/// Orders what lines say: of a log's lines the one of the highest rank tells most, and of several of one
/// rank the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Of the configuration: the site knows its own logs.
    Site,
    /// The system ended the job.
    System,
    /// The job's surroundings were not as it needs them.
    Surroundings,
    /// The program says that it failed.
    Program,
    /// Worth counting, but no reason to fail.
    Note,
}

/// Holds patterns, ready to search.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    set: RegexSet,
    /// What is taken out of a line before the built-in patterns judge it.
    success: Option<Regex>,
    /// In the order of the set.
    meanings: Vec<Meaning>,
}

/// Is the last line of a log that matches one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'p> {
    /// None: no pattern matches, and this is the last line with any text.
    pub meaning: Option<&'p Meaning>,
    pub line: String,
    /// From 1; none if the log is longer than the part that was read.
    pub number: Option<u64>,
    /// Place in the part that was read.
    at: usize,
}

impl Found<'_> {
    /// True if the line is worth counting, but no reason to fail.
    pub fn is_note(&self) -> bool {
        self.meaning
            .is_some_and(|meaning| meaning.rank == Rank::Note)
    }

    /// The least of the lines of one log tells most: that of the highest rank, and of several the last.
    pub fn weight(&self) -> (Rank, Reverse<usize>) {
        let rank = self.meaning.map_or(Rank::Program, |meaning| meaning.rank);
        (rank, Reverse(self.at))
    }
}

impl Patterns {
    /// Returns the built-in patterns.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Patterns> =
            LazyLock::new(|| Patterns::new(&[]).unwrap_or_default());
        &BUILTIN
    }

    /// Patterns of the configuration, each of which compiles, and the built-in ones.
    pub fn of(config: &Config) -> Self {
        let all = Self::new(&config.audit.log_patterns);
        all.unwrap_or_else(|_| Self::builtin().clone())
    }

    fn new(of_site: &[LogPattern]) -> Result<Self, String> {
        let site = of_site.iter().map(|pattern| {
            let meaning = Meaning {
                name: pattern.name.as_str().into(),
                meaning: pattern.name.as_str().into(),
                hint: pattern.hint.as_deref().unwrap_or_default().into(),
                rank: Rank::Site,
            };
            (pattern.regex.as_str(), meaning)
        });
        let (expressions, meanings): (Vec<&str>, Vec<Meaning>) =
            site.chain(table::patterns()).unzip();
        Ok(Self {
            set: log_patterns::compile(&expressions)?,
            success: Regex::new(table::SUCCESS).ok(),
            meanings,
        })
    }

    /// The first pattern that matches a line. Success in the words of a failure ("without error") is none, except to a
    /// pattern of the site.
    fn first(&self, line: &[u8]) -> Option<usize> {
        let first = self.set.matches(line).iter().next()?;
        let is_of_site = |at: usize| self.meanings.get(at).is_some_and(|m| m.rank == Rank::Site);
        match &self.success {
            Some(success) if !is_of_site(first) && success.is_match(line) => {
                let rest = success.replace_all(line, &b""[..]);
                self.set.matches(&rest).iter().find(|at| !is_of_site(*at))
            }
            _ => Some(first),
        }
    }

    /// Finds the last line of each pattern. A line counts for the first pattern that matches it.
    pub fn scan(&self, tail: &Tail) -> Vec<Found<'_>> {
        let mut last: Vec<Option<(usize, &[u8])>> = vec![None; self.meanings.len()];
        for (at, line) in tail.lines() {
            if let Some(first) = self.first(line)
                && let Some(slot) = last.get_mut(first)
            {
                *slot = Some((at, line));
            }
        }
        last.into_iter()
            .zip(&self.meanings)
            .filter_map(|(found, meaning)| {
                let (at, line) = found?;
                Some(Found {
                    meaning: Some(meaning),
                    line: shown(line),
                    number: tail.number(at),
                    at,
                })
            })
            .collect()
    }

    /// Chooses the line of a failed job's log that tells most; without any match the last line with text.
    pub fn telling(&self, tail: &Tail) -> Option<Found<'_>> {
        let mut found = self.scan(tail);
        found.retain(|found| !found.is_note());
        found.into_iter().min_by_key(Found::weight).or_else(|| {
            let mut lines = tail.lines().collect::<Vec<_>>().into_iter().rev();
            let (at, line) = lines.find(|(_, line)| !line.trim_ascii().is_empty())?;
            Some(Found {
                meaning: None,
                line: shown(line),
                number: tail.number(at),
                at,
            })
        })
    }

    pub fn meanings(&self) -> &[Meaning] {
        &self.meanings
    }
}

/// Compares the telling lines of two logs of one job: true if `a` says at least as much as `b`.
pub fn tells_more(a: &Found<'_>, b: &Found<'_>) -> bool {
    let rank = |found: &Found<'_>| {
        found
            .meaning
            .map_or((1, Rank::Program), |meaning| (0, meaning.rank))
    };
    rank(a) <= rank(b)
}

/// Makes a line fit to be shown: no colours and control characters, not too long, one letter for bad bytes.
pub fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    // Colours are for terminals.
    let text = without_colors(&text);
    let text = text.trim().replace('\t', " ");
    let safe: String = text.chars().take(SHOWN).collect();
    let end = if safe.len() < text.len() { "…" } else { "" };
    format!("{}{end}", printable(&safe))
}

#[cfg(test)]
mod tests;
