//! Sessions from directories: `sub-*/ses-*` below a root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::{Dicom, DiscoverError, Discovery, Session};
use crate::bids::labels::{LONGEST, have_room};
use crate::bids::{SessionLabel, SubjectLabel, near};
use crate::disk::Unreadable;
use crate::disk::listing::{self, Dir};
use crate::disk::reader::is_directory;
use crate::disk::reader::{Reader, words};
use crate::parallel;

/// Directories of a subject that hold data of one kind (BIDS specification 1.10, "Datatypes").
const DATATYPES: [&str; 14] = [
    "anat", "func", "dwi", "fmap", "perf", "meg", "eeg", "ieeg", "beh", "pet", "micr", "motion",
    "mrs", "nirs",
];

/// So many names of a kind are shown in a note.
const SHOWN: usize = 3;

/// Says what to scan, and how.
pub(super) struct Tree<'a> {
    /// The root's key in the configuration, for messages.
    pub key: &'static str,
    pub root: &'a Path,
    pub level: SessionLevel,
    /// The session directories hold the DICOM files.
    pub is_source: bool,
    pub threads: usize,
    pub reader: &'a Reader,
}

/// Says what a subject without `ses-*` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLevel {
    /// Nothing yet.
    Required,
    /// One session with the empty label, unless its directory is empty.
    Optional,
    /// The same, if it has datatype directories.
    OrDatatypes,
}

/// Scans a tree: the root, then the subjects, several at a time.
pub(super) fn scan(tree: &Tree<'_>) -> Result<Discovery, DiscoverError> {
    let key = tree.key;
    let path = tree.root.to_owned();
    match tree.reader.raw_stat(tree.root) {
        Ok(root) if is_directory(&root) => {}
        Ok(_) => return Err(DiscoverError::RootNotADirectory { key, path }),
        Err(errno) => return Err(root_error(key, path, errno)),
    }
    let top = match children(tree.reader, tree.root, SubjectLabel::PREFIX, &[tree.root]) {
        Ok(Some(children)) => children,
        Ok(None) => return Err(DiscoverError::RootMissing { key, path }),
        Err(Unreadable { error, .. }) => {
            return Err(DiscoverError::RootUnreadable { key, path, error });
        }
    };
    let mut skipped = top.skipped;
    let mut subjects = Vec::new();
    for name in top.directories {
        match SubjectLabel::new(&name) {
            Ok(label) if have_room(label.as_str(), "") => subjects.push(label),
            Ok(_) => skipped.add(Kind::TooLong, name),
            Err(_) => skipped.add(Kind::Invalid, name),
        }
    }
    subjects.sort_unstable();

    let mut discovery = Discovery {
        unreadable: top.unreadable,
        near: top.near,
        ..Discovery::default()
    };
    let mut skipped_sessions = Skipped::default();
    let mut without_sessions = Vec::new();
    for found in parallel::map(&subjects, tree.threads, |subject| sessions(tree, subject)) {
        discovery.sessions.extend(found.sessions);
        discovery.unreadable.extend(found.unreadable);
        discovery.near.extend(found.near);
        skipped_sessions.extend(found.skipped);
        without_sessions.extend(found.without_sessions);
    }
    discovery.notes = skipped.notes(tree.root, "subject");
    discovery
        .notes
        .extend(skipped_sessions.notes(tree.root, "session"));
    if subjects.is_empty() && top.has_others {
        discovery.notes.push(format!(
            "nothing below {} is named sub-<label>, so there are no subjects",
            tree.root.display()
        ));
    }
    if !without_sessions.is_empty() {
        discovery.notes.push(no_sessions(tree, &without_sessions));
    }
    Ok(discovery)
}

fn root_error(key: &'static str, path: PathBuf, errno: Errno) -> DiscoverError {
    match errno {
        Errno::NOENT | Errno::LOOP => DiscoverError::RootMissing { key, path },
        Errno::NOTDIR => DiscoverError::RootNotADirectory { key, path },
        _ => DiscoverError::RootUnreadable {
            key,
            path,
            error: words(&errno.into()),
        },
    }
}

/// Holds what one subject's directory showed.
#[derive(Default)]
struct Found {
    sessions: Vec<Session>,
    skipped: Skipped,
    unreadable: Vec<Unreadable>,
    near: Vec<(String, String)>,
    /// The subject, if it has data and no session.
    without_sessions: Option<SubjectLabel>,
}

fn no_sessions(tree: &Tree<'_>, subjects: &[SubjectLabel]) -> String {
    let names: Vec<&str> = subjects.iter().take(SHOWN).map(|s| s.as_str()).collect();
    let more = if subjects.len() > SHOWN { ", ..." } else { "" };
    let (count, have) = match subjects.len() {
        1 => ("1 subject".to_owned(), "has"),
        many => (format!("{many} subjects"), "have"),
    };
    format!(
        "{count} below {} {have} no directory named ses-<label>: {}{more}; \
         `sessionless: yes` takes each as one session",
        tree.root.display(),
        names.join(", ")
    )
}

fn sessions(tree: &Tree<'_>, subject: &SubjectLabel) -> Found {
    let dir = tree.root.join(subject);
    let mut found = Found::default();
    let children = match children(tree.reader, &dir, SessionLabel::PREFIX, &[tree.root, &dir]) {
        Ok(Some(children)) => children,
        // Gone since the root was read.
        Ok(None) => return found,
        Err(unreadable) => {
            found.unreadable.push(unreadable);
            return found;
        }
    };
    found.skipped = children.skipped.below(subject.as_str());
    found.unreadable = children.unreadable;
    let has_near = !children.near.is_empty();
    let near = children.near.into_iter();
    let near = near.map(|(name, meant)| (format!("{subject}/{name}"), meant));
    found.near = near.collect();
    let mut labels = Vec::new();
    for name in children.directories {
        match SessionLabel::new(&name) {
            Ok(label) if have_room(subject.as_str(), label.as_str()) => labels.push(label),
            Ok(_) => found
                .skipped
                .add(Kind::TooLong, format!("{subject}/{name}")),
            Err(_) => found
                .skipped
                .add(Kind::Invalid, format!("{subject}/{name}")),
        }
    }
    labels.sort_unstable();
    let is_one_session = match tree.level {
        SessionLevel::Required => false,
        SessionLevel::Optional => children.has_others,
        SessionLevel::OrDatatypes => children.has_datatypes,
    };
    if is_one_session && !children.has_level {
        labels.push(SessionLabel::none());
    }
    // What is nearly a session says more.
    let has_none = !children.has_level && !has_near && children.has_others;
    if tree.level == SessionLevel::Required && has_none {
        found.without_sessions = Some(subject.clone());
    }
    found.sessions = labels
        .into_iter()
        .map(|session| Session {
            subject: subject.clone(),
            dicom: match (tree.is_source, session.is_none()) {
                (false, _) => Dicom::NotNeeded,
                (true, true) => Dicom::At(Arc::from(dir.as_path())),
                (true, false) => Dicom::At(Arc::from(dir.join(&session))),
            },
            session,
        })
        .collect();
    found
}

/// Holds the entries of one directory.
#[derive(Default)]
struct Children {
    /// Directories with the wanted prefix, links to directories among them.
    directories: Vec<String>,
    skipped: Skipped,
    unreadable: Vec<Unreadable>,
    /// Names of directories, and what they were meant to be.
    near: Vec<(String, String)>,
    /// There is something with the prefix that is, or may be, a directory.
    has_level: bool,
    has_datatypes: bool,
    /// There is something without the prefix that is not hidden.
    has_others: bool,
}

/// Reads a directory in one go; none if it is not there. `above` are the directories that a link
/// may not lead back to.
fn children(
    reader: &Reader,
    dir: &Path,
    prefix: &str,
    above: &[&Path],
) -> Result<Option<Children>, Unreadable> {
    let there = reader.dir_for_later(dir);
    let listing = match &*there {
        Dir::There(listing) => listing,
        Dir::Absent => return Ok(None),
        Dir::Failed(unreadable) => return Err(unreadable.clone()),
    };
    let mut children = Children::default();
    for entry in listing.iter() {
        let name = entry.name;
        let is_level = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        let is_datatype = !is_level && name.to_str().is_some_and(|name| DATATYPES.contains(&name));
        children.has_others |= !is_level && !name.as_encoded_bytes().starts_with(b".");
        if !is_level && !is_datatype {
            let may_be_directory =
                matches!(entry.kind, listing::Kind::Directory | listing::Kind::Link);
            if may_be_directory
                && let Some(meant) = name.to_str().and_then(|name| near::meant(name, prefix))
            {
                children.near.push((shown(name), meant));
            }
            continue;
        }
        let path = dir.join(name);
        let found = match entry.kind {
            listing::Kind::Directory => Entry::Directory,
            listing::Kind::Link => follow(reader, &path, above),
            listing::Kind::File | listing::Kind::Other => Entry::Skipped(Kind::NotADirectory),
        };
        if is_datatype {
            children.has_datatypes |= matches!(found, Entry::Directory);
        } else {
            children.add(&path, found);
        }
    }
    children.near.sort_unstable();
    Ok(Some(children))
}

enum Entry {
    Directory,
    Skipped(Kind),
    Unreadable(Errno),
}

impl Children {
    fn add(&mut self, path: &Path, entry: Entry) {
        let name = path.file_name().unwrap_or_default();
        self.has_level |= !matches!(entry, Entry::Skipped(Kind::NotADirectory));
        match entry {
            Entry::Directory => self.directories.push(shown(name)),
            Entry::Skipped(kind) => self.skipped.add(kind, shown(name)),
            Entry::Unreadable(errno) => self.unreadable.push(Unreadable {
                path: path.to_owned(),
                error: words(&errno.into()),
            }),
        }
    }
}

/// Looks where a link leads; not back to one of the directories above it.
fn follow(reader: &Reader, link: &Path, above: &[&Path]) -> Entry {
    let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
    match reader.raw_stat(link) {
        Ok(target) if !is_directory(&target) => Entry::Skipped(Kind::NotADirectory),
        Ok(target) => {
            let leads_back = above.iter().any(|dir| {
                reader
                    .raw_stat(dir)
                    .is_ok_and(|dir| identity(&dir) == identity(&target))
            });
            if leads_back {
                Entry::Skipped(Kind::Loop)
            } else {
                Entry::Directory
            }
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Entry::Skipped(Kind::Dangling),
        Err(Errno::LOOP) => Entry::Skipped(Kind::Loop),
        Err(errno) => Entry::Unreadable(errno),
    }
}

/// Makes a name fit for a line of text.
fn shown(name: &OsStr) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.to_string_lossy().chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Says why an entry was skipped. In the order of the notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Invalid,
    TooLong,
    NotADirectory,
    Dangling,
    Loop,
}

/// Holds the names of what was skipped.
#[derive(Debug, Default)]
struct Skipped(BTreeMap<Kind, Vec<String>>);

impl Skipped {
    /// Notes a name. Files are of interest only where they take a subject's or session's name:
    /// `sub-01.html` beside `sub-01/` is nothing unusual.
    fn add(&mut self, kind: Kind, name: String) {
        let is_label = || SubjectLabel::new(&name).is_ok() || SessionLabel::new(&name).is_ok();
        if kind != Kind::NotADirectory || is_label() {
            self.0.entry(kind).or_default().push(name);
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
        self.0
            .into_iter()
            .map(|(kind, mut names)| {
                names.sort_unstable();
                note(kind, &names, root, what)
            })
            .collect()
    }
}

fn note(kind: Kind, names: &[String], root: &Path, what: &str) -> String {
    let one = names.len() == 1;
    let (entries, were) = if one {
        ("entry", "was")
    } else {
        ("entries", "were")
    };
    let too_long = format!(
        "{what}'s name that is too long for the names of jobs and logs ({LONGEST} letters for subject and session together)"
    );
    let fault = match (kind, one) {
        (Kind::Invalid, true) => format!("is not a valid BIDS {what}"),
        (Kind::Invalid, false) => format!("are not valid BIDS {what}s"),
        (Kind::TooLong, true) => format!("has a {too_long}"),
        (Kind::TooLong, false) => format!("have {too_long}s"),
        (Kind::NotADirectory, true) => format!("has a {what}'s name but is not a directory"),
        (Kind::NotADirectory, false) => format!("have {what}s' names but are not directories"),
        (Kind::Dangling, true) => "is a link to nothing".to_owned(),
        (Kind::Dangling, false) => "are links to nothing".to_owned(),
        (Kind::Loop, true) => "is a link that leads back to itself or above".to_owned(),
        (Kind::Loop, false) => "are links that lead back to themselves or above".to_owned(),
    };
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    let first: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    format!(
        "{} {entries} below {} {fault} and {were} skipped: {}{more}",
        names.len(),
        root.display(),
        first.join(", "),
    )
}
