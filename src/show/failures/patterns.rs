//! Known error patterns in the logs of jobs, their meanings and remedies.
//!
//! Only the end of a log is read, with bounded memory, and any bytes are accepted. Patterns of the configuration
//! (`audit.log_patterns`) come before those of [`table`].

mod table;

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::bytes::{Regex, RegexSet};

use crate::base::regular::error_text;
use crate::config::compile_patterns;
use crate::gather::disk::Unreadable;
use crate::gather::logs;
use crate::model::config::{Config, LogPattern};
use crate::model::job::ExecutorKind;

/// Characters of a line that are shown.
const SHOWN: usize = 300;

/// Bytes that are read from the end of a log.
pub const TAIL: u64 = 256 * 1024;

/// The meaning of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    pub name: Arc<str>,
    /// What happened, in a few words.
    pub meaning: Arc<str>,
    /// The remedy.
    pub hint: Arc<str>,
    rank: Rank,
}

/// The importance of a line. The log excerpt is the last line of the highest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A pattern of the configuration, because the site knows its logs best.
    Site,
    /// The system ended the job.
    System,
    /// The environment lacked something that the job needs.
    Environment,
    /// The program reported a failure.
    Program,
    /// Counted, but does not explain a failure.
    Note,
}

/// Compiled patterns.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    set: RegexSet,
    /// Phrases that are removed from a line before the built-in patterns are matched.
    success: Option<Regex>,
    /// In the order of the set.
    meanings: Vec<Meaning>,
}

/// The last line of a log that matches one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'p> {
    /// `None` if no pattern matches, and this is the last line with text.
    pub meaning: Option<&'p Meaning>,
    pub line: String,
    /// From 1. `None` if the log is longer than the part that was read.
    pub number: Option<u64>,
    /// Offset in the part that was read.
    at: usize,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    bytes: Vec<u8>,
    /// True if these are all bytes of the file.
    is_complete: bool,
}

impl Found<'_> {
    pub fn is_note(&self) -> bool {
        self.meaning
            .is_some_and(|meaning| meaning.rank == Rank::Note)
    }

    /// The log excerpt has the smallest weight: the highest rank, and the last of several lines.
    pub fn weight(&self) -> (Rank, Reverse<usize>) {
        let rank = self.meaning.map_or(Rank::Program, |meaning| meaning.rank);
        (rank, Reverse(self.at))
    }
}

impl Patterns {
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Patterns> =
            LazyLock::new(|| Patterns::new(&[]).unwrap_or_default());
        &BUILTIN
    }

    /// Patterns of the configuration, which are known to compile, and the built-in ones.
    pub fn for_config(config: &Config) -> Self {
        // Compiling takes time, so the built-in ones are compiled once.
        let site = Some(&config.audit.log_patterns).filter(|site| !site.is_empty());
        let all = site.and_then(|site| Self::new(site).ok());
        let mut all = all.unwrap_or_else(|| Self::builtin().clone());
        if config.executor == ExecutorKind::Local {
            let mut meanings = all.meanings.iter_mut();
            if let Some(found) =
                meanings.find(|one| one.rank != Rank::Site && &*one.name == "out_of_memory")
            {
                found.hint = table::LOCAL_MEMORY.into();
            }
        }
        all
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
            set: compile_patterns(&expressions)?,
            success: Regex::new(table::SUCCESS).ok(),
            meanings,
        })
    }

    /// The first pattern that matches a line. Phrases of success such as "without error" do not match, except for
    /// patterns of the site.
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

    /// The last line of each pattern. A line counts for the first pattern that matches it.
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

    /// The log excerpt of a failed job: the most important match, else the last line with text.
    pub fn excerpt(&self, tail: &Tail) -> Option<Found<'_>> {
        let mut found = self.scan(tail);
        found.retain(|found| !found.is_note());
        found.into_iter().min_by_key(Found::weight).or_else(|| {
            let lines = tail.lines();
            let (at, line) = lines
                .filter(|(_, line)| !line.trim_ascii().is_empty())
                .last()?;
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

/// Reads the end of a log. `None` if the path is not an existing regular file.
///
/// # Errors
/// The file exists, but cannot be read.
pub fn read_tail(path: &Path) -> Result<Option<Tail>, Unreadable> {
    match logs::end_of(path, TAIL) {
        Ok(end) => Ok(end.map(|(bytes, size)| {
            let is_complete = bytes.len() as u64 == size;
            Tail::new(bytes, is_complete)
        })),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(Unreadable {
            path: path.to_owned(),
            error: error_text(&error),
        }),
    }
}

impl Tail {
    /// If the bytes are not complete, the first line may be cut. It is removed unless it is the only one.
    pub fn new(mut bytes: Vec<u8>, is_complete: bool) -> Self {
        if !is_complete
            && let Some(end) = bytes.iter().position(|&byte| byte == b'\n')
            && end + 1 < bytes.len()
        {
            bytes.drain(..=end);
        }
        Self { bytes, is_complete }
    }

    /// The lines with their offsets. Text that a progress bar overwrites counts as a line.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = 0;
        self.bytes
            .split(|&byte| matches!(byte, b'\n' | b'\r'))
            .map(move |line| {
                let start = at;
                at += line.len() + 1;
                (start, line)
            })
    }

    /// The line number at an offset, from 1. `None` if only the end of the log was read.
    pub fn number(&self, at: usize) -> Option<u64> {
        let before = self.bytes.get(..at)?;
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        self.is_complete.then_some(breaks as u64 + 1)
    }

    /// The last lines with text, made safe to show: at most `most` lines and `bytes` bytes.
    pub fn last_lines(&self, most: usize, bytes: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut room = bytes;
        for line in self.bytes.rsplit(|&byte| matches!(byte, b'\n' | b'\r')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = shown(line);
            if lines.len() == most || line.len() > room {
                break;
            }
            room -= line.len();
            lines.push(line);
        }
        lines.reverse();
        lines
    }
}

/// Makes a line safe to show: without colours and control characters, shortened.
pub fn shown(line: &[u8]) -> String {
    logs::safe(line.trim_ascii(), SHOWN)
}

#[cfg(test)]
mod tests;
