//! The cohort: the sessions to process, by `include` and `exclude`.
//!
//! [`crate::gather::sessions::lists`] reads the lists. Unlike the cohort, a selection on the command line never
//! reduces the sessions that a subject's task depends on.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use globset::{Glob, GlobSet};

use super::{Session, SessionLabel, SubjectLabel, is_of_label, with_prefix};

/// The lists in the configuration. The default includes every session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CohortSource {
    pub include: Option<ListSource>,
    pub exclude: Option<ListSource>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListSource {
    /// Entries in the configuration.
    Entries(Vec<Entry>),
    /// A file with one entry per line.
    File(PathBuf),
}

/// The parsed lists. The default includes every session.
#[derive(Debug, Clone, Default)]
pub struct Cohort {
    /// `None` includes everything.
    include: Option<List>,
    exclude: List,
}

/// A list with one matcher for all its entries, so that checking a session is fast with thousands of them.
#[derive(Debug, Clone, Default)]
struct List {
    entries: Vec<Entry>,
    globs: GlobSet,
}

/// One entry of a list: a subject or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    text: String,
    /// `include` or `exclude`.
    key: &'static str,
    /// Its file and line, or its line in the configuration.
    place: String,
    /// Matches `<subject>/<session>`.
    glob: Glob,
}

/// The remedy for an entry that is not valid.
pub const ENTRY_HINT: &str = "write sub-0001 for a subject, sub-0001/ses-01 for a session, or */ses-01 for this session of every \
     subject; '*' and '?' are wildcards";

impl Cohort {
    /// Without `include`, everything is included.
    ///
    /// # Errors
    /// The patterns are too many or too complex.
    pub fn new(include: Option<Vec<Entry>>, exclude: Vec<Entry>) -> Result<Self, String> {
        Ok(Self {
            include: include.map(List::new).transpose()?,
            exclude: List::new(exclude)?,
        })
    }

    pub fn excludes(&self, session: &Session) -> bool {
        if self.include.is_none() && self.exclude.entries.is_empty() {
            return false;
        }
        let name = name(session);
        let include = self.include.as_ref();
        include.is_some_and(|list| !list.globs.is_match(&name)) || self.exclude.globs.is_match(name)
    }

    /// The entries that match no session, in order.
    pub fn unmatched(&self, sessions: &[Session]) -> Vec<&Entry> {
        let lists = self.include.iter().chain([&self.exclude]);
        lists.flat_map(|list| list.unmatched(sessions)).collect()
    }
}

fn name(session: &Session) -> String {
    format!("{}/{}", session.subject, session.session)
}

impl List {
    fn new(entries: Vec<Entry>) -> Result<Self, String> {
        let mut globs = GlobSet::builder();
        for entry in &entries {
            globs.add(entry.glob.clone());
        }
        let globs = globs.build().map_err(|error| error.to_string())?;
        Ok(Self { entries, globs })
    }

    fn unmatched(&self, sessions: &[Session]) -> Vec<&Entry> {
        let hits = sessions.iter().flat_map(|s| self.globs.matches(name(s)));
        let hits: HashSet<usize> = hits.collect();
        let entries = self.entries.iter().enumerate();
        let unmatched = entries.filter(|(at, _)| !hits.contains(at));
        unmatched.map(|(_, entry)| entry).collect()
    }
}

impl Entry {
    /// Parses `sub-0001`, `0001`, `sub-0001/ses-01` or `0001/01`, also with wildcards.
    ///
    /// # Errors
    /// A text that cannot match any label.
    pub fn parse(key: &'static str, text: &str, place: String) -> Result<Self, String> {
        let (subject, session) = match text.split_once('/') {
            Some((subject, session)) => (subject, Some(session)),
            None => (text, None),
        };
        if text.is_empty() {
            return Err("the entry is empty".to_owned());
        }
        if subject.starts_with(SessionLabel::PREFIX) {
            return Err(format!("'{text}' is a session without a subject"));
        }
        if subject.is_empty() || session.is_some_and(|s| s.is_empty() || s.contains('/')) {
            return Err(not_an_entry(text));
        }
        let subject = part(text, subject, SubjectLabel::PREFIX)?;
        let session = match session {
            Some(session) => part(text, session, SessionLabel::PREFIX)?,
            None => "*".to_owned(),
        };
        Ok(Self {
            text: text.to_owned(),
            key,
            place,
            glob: glob(text, &format!("{subject}/{session}"))?,
        })
    }
}

/// An entry with its source: `exclude: sub-0001 (/site/excluded.txt:3)`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.key, self.text, self.place)
    }
}

/// Parses a label with or without prefix, or a pattern, as on the command line.
fn part(text: &str, part: &str, prefix: &str) -> Result<String, String> {
    const WILD: &[char] = &['*', '?', '[', ']', '{', '}', '!', ',', '-'];
    let bare = part.strip_prefix(prefix).unwrap_or(part);
    let is_wild = bare.contains(['*', '?', '[', '{']);
    let bad = bare
        .chars()
        .find(|c| !(is_of_label(*c) || (is_wild && WILD.contains(c))));
    if let Some(bad) = bad {
        let bad = bad.escape_default();
        return Err(format!(
            "'{text}' contains '{bad}', which is not allowed in BIDS labels"
        ));
    }
    if bare.is_empty() {
        return Err(not_an_entry(text));
    }
    let whole = with_prefix(part, prefix);
    // Each part is valid for itself: a class does not continue in the other one.
    glob(text, &whole).map(|_| whole)
}

fn glob(text: &str, glob: &str) -> Result<Glob, String> {
    Glob::new(glob).map_err(|error| format!("'{text}' is not a valid pattern: {}", error.kind()))
}

fn not_an_entry(text: &str) -> String {
    format!("'{text}' is neither a subject nor a session")
}

#[cfg(test)]
mod tests;
