//! Sessions from directories: `sub-*/ses-*` below a root.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::notes::{Kind, Odd, is_archive_alone, is_joined, no_sessions};
use super::{DiscoverError, Discovery};
use crate::base::parallel;
use crate::base::printable::printable;
use crate::base::regular::words;
use crate::gather::disk::listing::Dir;
use crate::gather::disk::reader::{Reader, is_directory};
use crate::gather::disk::{Unreadable, listing};
use crate::model::bids::labels::have_room;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel, suggest};

/// Directories of a subject that hold data of one kind (BIDS specification 1.10, "Datatypes").
const DATATYPES: [&str; 14] = [
    "anat", "func", "dwi", "fmap", "perf", "meg", "eeg", "ieeg", "beh", "pet", "micr", "motion",
    "mrs", "nirs",
];

/// The number of directories that are looked into for subjects in the wrong place.
const LOOKED_INTO: usize = 3;

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
    let mut odd = top.odd;
    let mut subjects = Vec::new();
    for name in top.directories {
        match SubjectLabel::new(&name) {
            Ok(label) if have_room(label.as_str(), "") => subjects.push(label),
            Ok(_) => odd.add(Kind::TooLong, name),
            Err(_) if is_joined(&name) => odd.add(Kind::Joined, name),
            Err(_) => odd.add(Kind::Invalid, name),
        }
    }
    subjects.sort_unstable();
    odd.add_twins(subjects.iter().map(SubjectLabel::as_str));
    let (first, near) = session_first(tree, top.near);
    first
        .into_iter()
        .for_each(|name| odd.add(Kind::SessionFirst, name));

    let mut discovery = Discovery {
        unreadable: top.unreadable,
        near,
        ..Discovery::default()
    };
    let mut odd_sessions = Odd::default();
    let mut without_sessions = Vec::new();
    let found = parallel::map(&subjects, tree.threads, |subject| sessions(tree, subject));
    for (subject, found) in subjects.iter().zip(found) {
        discovery.sessions.extend(found.sessions);
        discovery.unreadable.extend(found.unreadable);
        discovery.near.extend(found.near);
        odd_sessions.extend(found.odd);
        if found.is_empty {
            odd.add(Kind::Hollow, subject.to_string());
        }
        without_sessions.extend(found.without_sessions);
    }
    // Archives and empty directories of both levels are one note.
    odd.take(Kind::Hollow, &mut odd_sessions);
    discovery.notes = odd.notes(tree.root, "subject");
    discovery
        .notes
        .extend(odd_sessions.notes(tree.root, "session"));
    if subjects.is_empty() && top.has_others {
        discovery.notes.push(format!(
            "nothing below {} is named sub-<label>, so there are no subjects",
            tree.root.display()
        ));
    }
    if !without_sessions.is_empty() {
        discovery
            .notes
            .push(no_sessions(tree.root, &without_sessions));
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
    odd: Odd,
    /// The directory holds nothing.
    is_empty: bool,
    unreadable: Vec<Unreadable>,
    near: Vec<(String, String)>,
    /// The subject, if it has data and no session.
    without_sessions: Option<SubjectLabel>,
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
    let mut odd = children.odd;
    found.is_empty = children.is_empty;
    found.unreadable = children.unreadable;
    let has_near = !children.near.is_empty();
    let near = children.near.into_iter();
    let near = near.map(|(name, meant)| (format!("{subject}/{name}"), meant));
    found.near = near.collect();
    let mut labels = Vec::new();
    for name in children.directories {
        match SessionLabel::new(&name) {
            Ok(label) if have_room(subject.as_str(), label.as_str()) => labels.push(label),
            Ok(_) => odd.add(Kind::TooLong, name),
            Err(_) => odd.add(Kind::Invalid, name),
        }
    }
    labels.sort_unstable();
    odd.add_twins(labels.iter().map(SessionLabel::as_str));
    if children.has_level
        && let Some(datatype) = children.datatype
    {
        odd.add(Kind::Beside, datatype.to_owned());
    }
    let has_hollow = odd.has(Kind::Hollow);
    found.odd = odd.below(subject.as_str());
    let is_one_session = match tree.level {
        SessionLevel::Required => false,
        SessionLevel::Optional => children.has_others,
        SessionLevel::OrDatatypes => children.datatype.is_some(),
    };
    if is_one_session && !children.has_level {
        labels.push(SessionLabel::none());
    }
    // What is nearly a session says more.
    let has_none = !children.has_level && !has_near && !has_hollow && children.has_others;
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
    odd: Odd,
    unreadable: Vec<Unreadable>,
    /// Names of directories, and what they were meant to be.
    near: Vec<(String, String)>,
    /// There is something with the prefix that is, or may be, a directory.
    has_level: bool,
    datatype: Option<&'static str>,
    /// There is something without the prefix that is not hidden.
    has_others: bool,
    is_empty: bool,
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
    let mut children = Children {
        is_empty: listing.is_empty(),
        ..Children::default()
    };
    for entry in listing.iter() {
        let name = entry.name;
        let is_level = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        let text = name.to_str();
        let datatype = DATATYPES
            .into_iter()
            .find(|datatype| !is_level && text == Some(datatype));
        children.has_others |= !is_level && !name.as_encoded_bytes().starts_with(b".");
        if !is_level && datatype.is_none() {
            let may_be_directory =
                matches!(entry.kind, listing::Kind::Directory | listing::Kind::Link);
            if may_be_directory
                && let Some(meant) = text.and_then(|name| suggest::intended_label(name, prefix))
            {
                children.near.push((shown(name), meant));
            }
            continue;
        }
        let path = dir.join(name);
        let found = match entry.kind {
            listing::Kind::Directory => Entry::Directory,
            listing::Kind::Link => follow(reader, &path, above),
            listing::Kind::File if text.is_some_and(|name| is_archive_alone(name, listing)) => {
                Entry::Odd(Kind::Hollow)
            }
            listing::Kind::File | listing::Kind::Other => Entry::Odd(Kind::NotADirectory),
        };
        match (datatype, found) {
            (Some(datatype), Entry::Directory | Entry::Copy) => {
                children.datatype.get_or_insert(datatype);
            }
            (Some(_), Entry::Odd(_)) => {}
            (_, found) => children.add(&path, found),
        }
    }
    children.near.sort_unstable();
    Ok(Some(children))
}

enum Entry {
    Directory,
    /// A link to a directory of the same tree.
    Copy,
    Odd(Kind),
    Unreadable(Unreadable),
}

impl Children {
    fn add(&mut self, path: &Path, entry: Entry) {
        let name = shown(path.file_name().unwrap_or_default());
        self.has_level |= !matches!(entry, Entry::Odd(Kind::NotADirectory | Kind::Hollow));
        match entry {
            Entry::Directory => self.directories.push(name),
            Entry::Copy => {
                self.odd.add(Kind::Copy, name.clone());
                self.directories.push(name);
            }
            Entry::Odd(kind) => self.odd.add(kind, name),
            Entry::Unreadable(what) => self.unreadable.push(what),
        }
    }
}

/// Takes directories out of `near` that are no misspelt subjects but sessions above them: a date that holds `sub-*`.
fn session_first(
    tree: &Tree<'_>,
    near: Vec<(String, String)>,
) -> (Vec<String>, Vec<(String, String)>) {
    let mut looked = 0;
    let (first, near): (Vec<_>, Vec<_>) = near.into_iter().partition(|(name, _)| {
        looked += usize::from(name.bytes().all(|b| b.is_ascii_digit()));
        if looked > LOOKED_INTO || !name.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        let Dir::There(listing) = tree.reader.dir(&tree.root.join(name)) else {
            return false;
        };
        listing.iter().any(|entry| {
            let name = entry.name.as_encoded_bytes();
            name.starts_with(SubjectLabel::PREFIX.as_bytes())
        })
    });
    (first.into_iter().map(|(name, _)| name).collect(), near)
}

/// Looks where a link leads; not back to one of the directories above it, of which the first is the root.
fn follow(reader: &Reader, link: &Path, above: &[&Path]) -> Entry {
    let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
    match reader.raw_stat(link) {
        Ok(target) if !is_directory(&target) => Entry::Odd(Kind::NotADirectory),
        Ok(target) => {
            let leads_back = above.iter().any(|dir| {
                reader
                    .raw_stat(dir)
                    .is_ok_and(|dir| identity(&dir) == identity(&target))
            });
            if leads_back {
                Entry::Odd(Kind::Loop)
            } else if above
                .first()
                .is_some_and(|root| leads_to_subject(link, root))
            {
                Entry::Copy
            } else {
                Entry::Directory
            }
        }
        Err(Errno::LOOP) => Entry::Odd(Kind::Loop),
        Err(_) => match reader.stat(link) {
            // A file of git-annex, or gone since.
            Ok(_) => Entry::Odd(Kind::NotADirectory),
            Err(what) => Entry::Unreadable(what),
        },
    }
}

/// True if the text of a link leads to a subject of `root`, or below one.
fn leads_to_subject(link: &Path, root: &Path) -> bool {
    let Ok(target) = link.read_link() else {
        return false;
    };
    let mut path = link.parent().unwrap_or(root).to_owned();
    for component in target.components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    let below = path.strip_prefix(root).ok();
    let first = below.and_then(|below| below.iter().next()?.to_str());
    first.is_some_and(|name| SubjectLabel::new(name).is_ok())
}

/// Makes a name fit for a line of text.
fn shown(name: &OsStr) -> String {
    printable(&name.to_string_lossy()).into_owned()
}
