//! Notes about problematic entries of a data tree, one per kind, with count and names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use crate::base::text::{few, plural, plural_of};
use crate::gather::disk::listing::Listing;
use crate::model::bids::LONGEST;
use crate::model::bids::{SessionLabel, SubjectLabel};

/// The number of names in a note.
const SHOWN: usize = 3;

/// Extensions of files into which sessions are packed.
const ARCHIVES: [&str; 11] = [
    "tar", "tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "txz", "tar.zst", "zip", "7z", "rar",
];

/// A kind of problem with an entry, in the order of the notes. Entries with the kinds before `Twin` are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    Invalid,
    TooLong,
    NotADirectory,
    Loop,
    /// `sub-01_ses-01`
    Joined,
    /// `20240711/sub-01`, `ses-01` beside the subjects.
    SessionFirst,
    /// An archive or an empty directory instead of a subject or session.
    Hollow,
    /// Labels that differ only in case or leading zeros.
    Twin,
    /// A link to another subject or session of the same tree.
    Copy,
    /// A datatype directory beside sessions.
    Beside,
}

/// The names of problematic entries.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeMap<Problem, Vec<String>>);

impl Problems {
    /// Adds a name. A file counts only if its name is a subject's or session's label: `sub-01.html` beside `sub-01/` is
    /// usual.
    pub(super) fn add(&mut self, kind: Problem, name: String) {
        let is_label = || SubjectLabel::new(&name).is_ok() || SessionLabel::new(&name).is_ok();
        if kind != Problem::NotADirectory || is_label() {
            self.0.entry(kind).or_default().push(name);
        }
    }

    /// Adds labels that differ only in case or leading zeros. `labels` are all labels of one directory.
    pub(super) fn add_twins<'a>(&mut self, labels: impl Iterator<Item = &'a str>) {
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for label in labels {
            let bare = label.split_once('-').map_or(label, |(_, bare)| bare);
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

    pub(super) fn has(&self, kind: Problem) -> bool {
        self.0.contains_key(&kind)
    }

    /// Moves the names of one kind from `from`.
    pub(super) fn take(&mut self, kind: Problem, from: &mut Self) {
        if let Some(names) = from.0.remove(&kind) {
            self.0.entry(kind).or_default().extend(names);
        }
    }

    pub(super) fn below(mut self, parent: &str) -> Self {
        for name in self.0.values_mut().flatten() {
            *name = format!("{parent}/{name}");
        }
        self
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (kind, names) in other.0 {
            self.0.entry(kind).or_default().extend(names);
        }
    }

    pub(super) fn notes(self, root: &Path, what: &str) -> Vec<String> {
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
        Problem::Joined => (
            "subject and session in one name",
            "; rename to sub-<label>/ses-<label>",
        ),
        Problem::SessionFirst => (
            "a session above its subjects",
            "; rearrange as sub-<label>/ses-<label>",
        ),
        Problem::Hollow => (
            "an archive or an empty directory",
            "; unpack archives as sub-<label>/ses-<label>",
        ),
        Problem::Twin => (
            "labels that differ only in case or leading zeros",
            "; each is processed separately: merge them if they are the same",
        ),
        Problem::Copy => (
            "a link to another {what} of the study",
            "; its data is processed twice: remove the link, or list it in `exclude`",
        ),
        Problem::Beside => (
            "beside sessions, but in none of them",
            "; move the data into a session",
        ),
    };
    let reason = reason.replace("{what}", what);
    let reason = reason.replace("{most}", &LONGEST.to_string());
    let verb = match kind < Problem::Twin {
        true => "skipped",
        false => "found",
    };
    let count = match kind {
        Problem::Twin => plural(names.len(), "group"),
        _ => plural_of(names.len(), "entry", "entries"),
    };
    let (root, names) = (root.display(), few(names, SHOWN));
    format!("{verb} {count} below {root} ({reason}): {names}{remedy}")
}

/// The note about subjects with data but without sessions.
pub(super) fn no_sessions(root: &Path, subjects: &[SubjectLabel]) -> String {
    let (count, root) = (plural(subjects.len(), "subject"), root.display());
    let names: Vec<&str> = subjects.iter().map(SubjectLabel::as_str).collect();
    format!(
        "{count} below {root} without a directory ses-<label>: {}; set `sessionless: yes` to process each as one session",
        few(&names, SHOWN)
    )
}

/// True for a packed session or subject that is not unpacked beside it.
pub(super) fn is_archive_alone(name: &str, listing: &Listing) -> bool {
    name.split_once('.').is_some_and(|(label, end)| {
        let end = end.to_ascii_lowercase();
        ARCHIVES.contains(&end.as_str()) && listing.get(OsStr::new(label)).is_none()
    })
}

/// True for `sub-01_ses-01`.
pub(super) fn is_joined(name: &str) -> bool {
    name.split_once('_').is_some_and(|(subject, session)| {
        SubjectLabel::new(subject).is_ok() && SessionLabel::new(session).is_ok()
    })
}
