//! What is odd about the entries of a data tree: one note per kind, which counts and names them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use crate::gather::disk::listing::Listing;
use crate::model::bids::labels::LONGEST;
use crate::model::bids::{SessionLabel, SubjectLabel};

/// The number of names of a kind that a note shows.
const SHOWN: usize = 3;

/// How files are called that sessions are packed into.
const ARCHIVES: [&str; 11] = [
    "tar", "tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "txz", "tar.zst", "zip", "7z", "rar",
];

/// What is odd about an entry, in the order of the notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Invalid,
    TooLong,
    NotADirectory,
    Loop,
    /// `sub-01_ses-01`
    Joined,
    /// `20240711/sub-01`, `ses-01` beside the subjects.
    SessionFirst,
    /// An archive or an empty directory in the place of a subject or session.
    Hollow,
    /// Labels that differ in case or leading zeros only.
    Twin,
    /// A link to another subject or session of the same tree.
    Copy,
    /// A datatype directory beside sessions.
    Beside,
}

/// The names of odd entries.
#[derive(Debug, Default)]
pub(super) struct Odd(BTreeMap<Kind, Vec<String>>);

impl Odd {
    /// Adds a name. Files are of interest only where they take a subject's or session's name:
    /// `sub-01.html` beside `sub-01/` is nothing unusual.
    pub fn add(&mut self, kind: Kind, name: String) {
        let is_label = || SubjectLabel::new(&name).is_ok() || SessionLabel::new(&name).is_ok();
        if kind != Kind::NotADirectory || is_label() {
            self.0.entry(kind).or_default().push(name);
        }
    }

    /// Adds labels that differ in case or leading zeros only. `labels` are all those of one directory.
    pub fn add_twins<'a>(&mut self, labels: impl Iterator<Item = &'a str>) {
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
            self.add(Kind::Twin, twins.join(" and "));
        }
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.0.contains_key(&kind)
    }

    /// Takes the names of one kind over from another.
    pub fn take(&mut self, kind: Kind, from: &mut Self) {
        if let Some(names) = from.0.remove(&kind) {
            self.0.entry(kind).or_default().extend(names);
        }
    }

    pub fn below(mut self, parent: &str) -> Self {
        for name in self.0.values_mut().flatten() {
            *name = format!("{parent}/{name}");
        }
        self
    }

    pub fn extend(&mut self, other: Self) {
        for (kind, names) in other.0 {
            self.0.entry(kind).or_default().extend(names);
        }
    }

    pub fn notes(self, root: &Path, what: &str) -> Vec<String> {
        let note = |(kind, mut names): (Kind, Vec<String>)| {
            names.sort_unstable();
            note(kind, &names, root, what)
        };
        self.0.into_iter().map(note).collect()
    }
}

fn note(kind: Kind, names: &[String], root: &Path, what: &str) -> String {
    let one = names.len() == 1;
    let forms = |singular, plural| if one { singular } else { plural };
    let skipped = forms("and was skipped", "and were skipped");
    let too_long = format!(
        "{what}'s name that is too long for the names of jobs and logs ({LONGEST} letters for subject and session together)"
    );
    let fault = match (kind, one) {
        (Kind::Invalid, true) => format!("is not a valid BIDS {what} {skipped}"),
        (Kind::Invalid, false) => format!("are not valid BIDS {what}s {skipped}"),
        (Kind::TooLong, true) => format!("has a {too_long} {skipped}"),
        (Kind::TooLong, false) => format!("have {too_long}s {skipped}"),
        (Kind::NotADirectory, true) => {
            format!("has a {what}'s name but is not a directory {skipped}")
        }
        (Kind::NotADirectory, false) => {
            format!("have {what}s' names but are not directories {skipped}")
        }
        (Kind::Loop, true) => format!("is a link that leads back to itself or above {skipped}"),
        (Kind::Loop, false) => {
            format!("are links that lead back to themselves or above {skipped}")
        }
        (Kind::Joined, _) => {
            let names = forms("names", "name");
            format!("{names} subject and session together {skipped}")
        }
        (Kind::SessionFirst, true) => format!("is a session above its subjects {skipped}"),
        (Kind::SessionFirst, false) => format!("are sessions above their subjects {skipped}"),
        (Kind::Hollow, true) => format!("is an archive or an empty directory {skipped}"),
        (Kind::Hollow, false) => format!("are archives or empty directories {skipped}"),
        (Kind::Twin, true) => "differs in case or leading zeros only".to_owned(),
        (Kind::Twin, false) => "differ in case or leading zeros only".to_owned(),
        (Kind::Copy, true) => format!("is a link to another {what} of the study"),
        (Kind::Copy, false) => format!("are links to other {what}s of the study"),
        (Kind::Beside, true) => "lies beside sessions and belongs to none".to_owned(),
        (Kind::Beside, false) => "lie beside sessions and belong to none".to_owned(),
    };
    let counted = match kind {
        Kind::Twin => forms("pair of labels", "groups of labels"),
        _ => forms("entry", "entries"),
    };
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    let first: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    format!(
        "{} {counted} below {} {fault}: {}{more}{}",
        names.len(),
        root.display(),
        first.join(", "),
        remedy(kind),
    )
}

fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid | Kind::TooLong | Kind::NotADirectory | Kind::Loop => "",
        Kind::Joined => "; make it sub-<label>/ses-<label>",
        Kind::SessionFirst => "; sort the data as sub-<label>/ses-<label>",
        Kind::Hollow => "; unpack archives as sub-<label>/ses-<label>",
        Kind::Twin => "; each is worked on by itself: if they are the same, merge them",
        Kind::Copy => "; its data is worked on twice: remove the link, or name it in `exclude`",
        Kind::Beside => "; data belongs into a session",
    }
}

/// Notes subjects that have data and no session.
pub(super) fn no_sessions(root: &Path, subjects: &[SubjectLabel]) -> String {
    let names: Vec<&str> = subjects.iter().take(SHOWN).map(|s| s.as_str()).collect();
    let more = if subjects.len() > SHOWN { ", ..." } else { "" };
    let (count, have) = match subjects.len() {
        1 => ("1 subject".to_owned(), "has"),
        many => (format!("{many} subjects"), "have"),
    };
    format!(
        "{count} below {} {have} no directory named ses-<label>: {}{more}; \
         `sessionless: yes` takes each as one session",
        root.display(),
        names.join(", ")
    )
}

/// True for a packed session or subject without its directory.
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
