//! Discovery of sessions from directories or from a CSV or TSV file.
//!
//! Lists subjects and sessions, but does not read session directories. Unreadable directories and invalid names are
//! reported and do not end the scan; only an unreadable root is an error.

pub mod csv;
mod tree;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::base::text::{few, plural, plural_of};
use crate::gather::disk::reader::Reader;
use crate::gather::disk::{Listing, Unreadable};
use crate::gather::sessions::discover::csv::CsvError;
use crate::model::bids::{LONGEST, Session, SessionLabel, SessionSource, SubjectLabel};
use crate::model::config::Config;

/// The sessions that were found, sorted by subject and session, without duplicates.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    pub sessions: Vec<Session>,
    /// Skipped entries and other problems, one line per kind.
    pub notes: Vec<String>,
    /// Directories below the root that were ignored, with their probably intended labels: `sub-07/ses_1` and `ses-1`.
    pub misspelt: Vec<(String, String)>,
    /// Paths that could not be read. Sessions below them are unknown, not absent.
    pub unreadable: Vec<Unreadable>,
}

impl Discovery {
    /// `ignored 1 directory below /data whose name is not valid BIDS: Sub-1 (did you mean sub-1?)`, with `place`
    /// ` below /data` or empty.
    pub fn ignored(&self, place: &str) -> Option<String> {
        let (directories, names) = match self.misspelt.len() {
            0 => return None,
            1 => ("1 directory".to_owned(), "whose name is not valid BIDS"),
            count => (
                format!("{count} directories"),
                "whose names are not valid BIDS",
            ),
        };
        let similar = self.misspelt.iter();
        let similar = similar.map(|(name, meant)| format!("{name} (did you mean {meant}?)"));
        let similar = few(&similar.collect::<Vec<_>>(), SHOWN);
        Some(format!("ignored {directories}{place} {names}: {similar}"))
    }
}

/// Why the sessions are unknown.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{key} {} does not exist", .path.display())]
    RootMissing { key: &'static str, path: PathBuf },
    #[error("{key} {} {problem}", .path.display())]
    Root {
        key: &'static str,
        path: PathBuf,
        /// `is not a directory`, `cannot be read: Permission denied`
        problem: String,
    },
    #[error(transparent)]
    Csv(#[from] CsvError),
}

impl DiscoverError {
    pub fn hint(&self) -> String {
        match self {
            Self::RootMissing { key, .. } => {
                format!("mount its file system, or correct '{key}' in the configuration")
            }
            Self::Root { key, .. } => {
                format!("'{key}' must be a directory that this user may read and search")
            }
            Self::Csv(error) => error.hint.clone(),
        }
    }
}

/// # Errors
/// A root that is missing or cannot be read; an invalid sessions file.
pub fn discover(config: &Config) -> Result<Discovery, DiscoverError> {
    discover_by(&Reader::default(), config)
}

/// [`discover`] with a reader that keeps what it has read.
///
/// # Errors
/// As [`discover`].
pub fn discover_by(reader: &Reader, config: &Config) -> Result<Discovery, DiscoverError> {
    match &config.sessions {
        SessionSource::Dicom | SessionSource::Bids => tree::scan(reader, config),
        SessionSource::Csv {
            file,
            subject_col,
            session_col,
        } => Ok(csv::read(config, file, subject_col, session_col)?),
    }
}

/// The number of names in a note, and of lines of a kind.
const SHOWN: usize = 3;

/// Extensions of files into which sessions are packed.
const ARCHIVES: [&str; 11] = [
    "tar", "tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "txz", "tar.zst", "zip", "7z", "rar",
];

/// A kind of problem with an entry, in the order of the notes. Entries with the kinds before `Twin` are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Problem {
    Invalid,
    TooLong,
    NotADirectory,
    Loop,
    /// An archive or an empty directory instead of a subject or session.
    Hollow,
    /// Labels that differ only in case or leading zeros.
    Twin,
    /// A datatype directory beside sessions.
    Beside,
    /// A subject with data, but without sessions.
    NoSessions,
}

/// The names of problematic entries.
#[derive(Debug, Default)]
struct Problems(BTreeMap<Problem, Vec<String>>);

impl Problems {
    /// Adds a name. A file counts only if its name is a subject's or session's label: `sub-01.html` beside `sub-01/` is
    /// usual.
    fn add(&mut self, kind: Problem, name: String) {
        let is_label = || SubjectLabel::new(&name).is_ok() || SessionLabel::new(&name).is_ok();
        if kind != Problem::NotADirectory || is_label() {
            self.0.entry(kind).or_default().push(name);
        }
    }

    /// Adds labels that differ only in case or leading zeros. `labels` are all labels of one directory.
    fn add_twins(&mut self, labels: impl Iterator<Item = String>) {
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for label in labels {
            let bare = label.split_once('-').map_or(&*label, |(_, bare)| bare);
            let key = match bare.bytes().all(|b| b.is_ascii_digit()) {
                true => bare.trim_start_matches('0').to_owned(),
                false => bare.to_ascii_lowercase(),
            };
            alike.entry(key).or_default().push(label);
        }
        for twins in alike.into_values().filter(|twins| twins.len() > 1) {
            self.add(Problem::Twin, twins.join(" and "));
        }
    }

    fn below(mut self, parent: &str) -> Self {
        for name in self.0.values_mut().flatten() {
            *name = format!("{parent}/{name}");
        }
        self
    }

    fn extend(&mut self, other: Self) {
        for (kind, names) in other.0 {
            self.0.entry(kind).or_default().extend(names);
        }
    }

    fn notes(self, root: &Path, what: &str) -> Vec<String> {
        let note = |(kind, mut names): (Problem, Vec<String>)| {
            names.sort_unstable();
            note(kind, &names, root, what)
        };
        self.0.into_iter().map(note).collect()
    }
}

fn note(kind: Problem, names: &[String], root: &Path, what: &str) -> String {
    let (reason, remedy) = match kind {
        Problem::Invalid => ("not a valid BIDS {what} label", ""),
        Problem::TooLong => (
            "too long for the names of jobs and logs: at most {most} letters for subject and session together",
            "",
        ),
        Problem::NotADirectory => ("a {what}'s label, but not a directory", ""),
        Problem::Loop => ("a link back to itself or to a directory above it", ""),
        Problem::Hollow => (
            "an archive or an empty directory",
            "; unpack archives as sub-<label>/ses-<label>",
        ),
        Problem::Twin => (
            "labels that differ only in case or leading zeros",
            "; each is processed separately: merge them if they are the same",
        ),
        Problem::Beside => (
            "beside sessions, but in none of them",
            "; move the data into a session",
        ),
        Problem::NoSessions => {
            let (count, root) = (plural(names.len(), "subject"), root.display());
            return format!(
                "{count} below {root} without a directory ses-<label>: {}; set `sessionless: yes` to process each as one session",
                few(names, SHOWN)
            );
        }
    };
    let reason = reason.replace("{what}", what);
    let reason = reason.replace("{most}", &LONGEST.to_string());
    let verb = match kind < Problem::Twin {
        true => "skipped",
        false => "found",
    };
    let count = plural_of(names.len(), "entry", "entries");
    let (root, names) = (root.display(), few(names, SHOWN));
    format!("{verb} {count} below {root} ({reason}): {names}{remedy}")
}

/// True for a packed session or subject that is not unpacked beside it.
fn is_archive_alone(name: &str, listing: &Listing) -> bool {
    name.split_once('.').is_some_and(|(label, end)| {
        let end = end.to_ascii_lowercase();
        ARCHIVES.contains(&end.as_str()) && listing.get(OsStr::new(label)).is_none()
    })
}
