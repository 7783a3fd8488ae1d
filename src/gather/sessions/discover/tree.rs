//! Sessions from directories: `sub-*/ses-*` below a root.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::notes::{Problem, Problems, is_archive_alone, is_joined, no_sessions};
use super::{DiscoverError, Discovery};
use crate::base::parallel;
use crate::base::printable::printable;
use crate::base::regular::error_text;
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::{Dir, EntryKind};
use crate::gather::disk::reader::{Reader, is_directory};
use crate::model::bids::have_room;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel, suggest};

/// Directories of a subject that hold data of one kind (BIDS specification 1.10, "Datatypes").
const DATATYPES: [&str; 14] = [
    "anat", "func", "dwi", "fmap", "perf", "meg", "eeg", "ieeg", "beh", "pet", "micr", "motion",
    "mrs", "nirs",
];

/// At most this many directories are searched for misplaced subjects.
const MOST_OPENED: usize = 3;

/// A tree to scan.
pub(super) struct Tree<'a> {
    /// The root's key in the configuration, for messages.
    pub key: &'static str,
    pub root: &'a Path,
    pub level: SessionLevel,
    /// The session directories contain the DICOM files.
    pub is_source: bool,
    pub threads: usize,
    pub reader: &'a Reader,
}

/// The meaning of a subject without `ses-*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLevel {
    /// No session yet.
    Required,
    /// One session with the empty label, unless its directory is empty.
    Optional,
    /// The same, if it has datatype directories.
    OrDatatypes,
}

/// Scans the root, then the subjects in parallel.
pub(super) fn scan(tree: &Tree<'_>) -> Result<Discovery, DiscoverError> {
    let (key, path) = (tree.key, tree.root.to_owned());
    match tree.reader.raw_stat(tree.root) {
        Ok(root) if is_directory(&root) => {}
        Ok(_) => return Err(root_error(key, path, Errno::NOTDIR)),
        Err(errno) => return Err(root_error(key, path, errno)),
    }
    let top = match children(tree.reader, tree.root, SubjectLabel::PREFIX, &[tree.root]) {
        Ok(Some(children)) => children,
        Ok(None) => return Err(DiscoverError::RootMissing { key, path }),
        Err(what) => {
            let problem = format!("cannot be read: {}", what.error);
            return Err(DiscoverError::Root { key, path, problem });
        }
    };
    let mut problems = top.problems;
    let mut subjects = Vec::new();
    for name in top.directories {
        match SubjectLabel::new(&name) {
            Ok(label) if have_room(label.as_str(), "") => subjects.push(label),
            Ok(_) => problems.add(Problem::TooLong, name),
            Err(_) if is_joined(&name) => problems.add(Problem::Joined, name),
            Err(_) => problems.add(Problem::Invalid, name),
        }
    }
    subjects.sort_unstable();
    problems.add_twins(subjects.iter().map(SubjectLabel::as_str));
    let (first, misspelt) = session_first(tree, top.misspelt);
    for name in first {
        problems.add(Problem::SessionFirst, name);
    }

    let mut discovery = Discovery {
        unreadable: top.unreadable,
        misspelt,
        ..Discovery::default()
    };
    let mut session_problems = Problems::default();
    let mut without_sessions = Vec::new();
    let found = parallel::map(&subjects, tree.threads, |subject| sessions(tree, subject));
    for (subject, found) in subjects.iter().zip(found) {
        discovery.sessions.extend(found.sessions);
        discovery.unreadable.extend(found.unreadable);
        discovery.misspelt.extend(found.misspelt);
        session_problems.extend(found.problems);
        if found.is_empty {
            problems.add(Problem::Hollow, subject.to_string());
        }
        without_sessions.extend(found.without_sessions);
    }
    // Archives and empty directories of both levels share one note.
    problems.take(Problem::Hollow, &mut session_problems);
    let mut notes = problems.notes(tree.root, "subject");
    notes.extend(session_problems.notes(tree.root, "session"));
    if subjects.is_empty() && top.has_others {
        notes.push(format!(
            "nothing below {} is named sub-<label>, so there are no subjects",
            tree.root.display()
        ));
    }
    if !without_sessions.is_empty() {
        notes.push(no_sessions(tree.root, &without_sessions));
    }
    Ok(Discovery { notes, ..discovery })
}

fn root_error(key: &'static str, path: PathBuf, errno: Errno) -> DiscoverError {
    let problem = match errno {
        Errno::NOENT | Errno::LOOP => return DiscoverError::RootMissing { key, path },
        Errno::NOTDIR => "is not a directory".to_owned(),
        _ => format!("cannot be read: {}", error_text(&errno.into())),
    };
    DiscoverError::Root { key, path, problem }
}

/// The content of one subject's directory.
#[derive(Default)]
struct SubjectDir {
    sessions: Vec<Session>,
    problems: Problems,
    is_empty: bool,
    unreadable: Vec<Unreadable>,
    misspelt: Vec<(String, String)>,
    /// The subject, if it has data but no session.
    without_sessions: Option<SubjectLabel>,
}

fn sessions(tree: &Tree<'_>, subject: &SubjectLabel) -> SubjectDir {
    let dir = tree.root.join(subject);
    let mut found = SubjectDir::default();
    let children = match children(tree.reader, &dir, SessionLabel::PREFIX, &[tree.root, &dir]) {
        Ok(Some(children)) => children,
        // Removed since the root was read.
        Ok(None) => return found,
        Err(unreadable) => {
            found.unreadable.push(unreadable);
            return found;
        }
    };
    let mut problems = children.problems;
    found.is_empty = children.is_empty;
    found.unreadable = children.unreadable;
    let has_misspelt = !children.misspelt.is_empty();
    let misspelt = children.misspelt.into_iter();
    let misspelt = misspelt.map(|(name, meant)| (format!("{subject}/{name}"), meant));
    found.misspelt = misspelt.collect();
    let mut labels = Vec::new();
    for name in children.directories {
        match SessionLabel::new(&name) {
            Ok(label) if have_room(subject.as_str(), label.as_str()) => labels.push(label),
            Ok(_) => problems.add(Problem::TooLong, name),
            Err(_) => problems.add(Problem::Invalid, name),
        }
    }
    labels.sort_unstable();
    problems.add_twins(labels.iter().map(SessionLabel::as_str));
    if children.has_level
        && let Some(datatype) = children.datatype
    {
        problems.add(Problem::Beside, datatype.to_owned());
    }
    let has_hollow = problems.has(Problem::Hollow);
    found.problems = problems.below(subject.as_str());
    let is_one_session = match tree.level {
        SessionLevel::Required => false,
        SessionLevel::Optional => children.has_others,
        SessionLevel::OrDatatypes => children.datatype.is_some(),
    };
    if is_one_session && !children.has_level {
        labels.push(SessionLabel::none());
    }
    // A misspelt or packed session is reported instead.
    let has_none = !children.has_level && !has_misspelt && !has_hollow && children.has_others;
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

/// The entries of one directory.
#[derive(Default)]
struct Children {
    /// Directories with the wanted prefix, including links to directories.
    directories: Vec<String>,
    problems: Problems,
    unreadable: Vec<Unreadable>,
    /// Directories, with their probably intended labels.
    misspelt: Vec<(String, String)>,
    /// An entry with the prefix is, or may be, a directory.
    has_level: bool,
    datatype: Option<&'static str>,
    /// There is an entry without the prefix that is not hidden.
    has_others: bool,
    is_empty: bool,
}

/// `None` if the directory does not exist. A link must not lead back to one of the directories `above`.
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
            let may_be_directory = matches!(entry.kind, EntryKind::Directory | EntryKind::Link);
            if may_be_directory
                && let Some(meant) = text.and_then(|name| suggest::intended_label(name, prefix))
            {
                children.misspelt.push((shown(name), meant));
            }
            continue;
        }
        let path = dir.join(name);
        let found = match entry.kind {
            EntryKind::Directory => Entry::Directory,
            EntryKind::Link => follow(reader, &path, above),
            EntryKind::File if text.is_some_and(|name| is_archive_alone(name, listing)) => {
                Entry::Problem(Problem::Hollow)
            }
            EntryKind::File | EntryKind::Other => Entry::Problem(Problem::NotADirectory),
        };
        match (datatype, found) {
            (Some(datatype), Entry::Directory | Entry::Copy) => {
                children.datatype.get_or_insert(datatype);
            }
            (Some(_), Entry::Problem(_)) => {}
            (_, found) => children.add(&path, found),
        }
    }
    children.misspelt.sort_unstable();
    Ok(Some(children))
}

enum Entry {
    Directory,
    /// A link to a directory of the same tree.
    Copy,
    Problem(Problem),
    Unreadable(Unreadable),
}

impl Children {
    fn add(&mut self, path: &Path, entry: Entry) {
        let name = shown(path.file_name().unwrap_or_default());
        self.has_level |= !matches!(
            entry,
            Entry::Problem(Problem::NotADirectory | Problem::Hollow)
        );
        match entry {
            Entry::Directory => self.directories.push(name),
            Entry::Copy => {
                self.problems.add(Problem::Copy, name.clone());
                self.directories.push(name);
            }
            Entry::Problem(kind) => self.problems.add(kind, name),
            Entry::Unreadable(what) => self.unreadable.push(what),
        }
    }
}

/// Separates sessions above subjects (a date that contains `sub-*`) from misspelt subjects.
fn session_first(
    tree: &Tree<'_>,
    misspelt: Vec<(String, String)>,
) -> (Vec<String>, Vec<(String, String)>) {
    let mut opened = 0;
    let (first, misspelt): (Vec<_>, Vec<_>) = misspelt.into_iter().partition(|(name, _)| {
        let is_date = name.bytes().all(|b| b.is_ascii_digit());
        opened += usize::from(is_date);
        if opened > MOST_OPENED || !is_date {
            return false;
        }
        match tree.reader.dir(&tree.root.join(name)) {
            Dir::There(listing) => listing
                .beginning_with(SubjectLabel::PREFIX)
                .next()
                .is_some(),
            _ => false,
        }
    });
    (first.into_iter().map(|(name, _)| name).collect(), misspelt)
}

/// The kind of a link's target. The first of the directories `above` is the root.
fn follow(reader: &Reader, link: &Path, above: &[&Path]) -> Entry {
    let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
    match reader.raw_stat(link) {
        Ok(target) if !is_directory(&target) => Entry::Problem(Problem::NotADirectory),
        Ok(target) => {
            let is_target = |dir: &Stat| identity(dir) == identity(&target);
            let mut all = above.iter();
            let leads_back = all.any(|dir| reader.raw_stat(dir).is_ok_and(|dir| is_target(&dir)));
            match above.first() {
                _ if leads_back => Entry::Problem(Problem::Loop),
                Some(root) if leads_to_subject(link, root) => Entry::Copy,
                _ => Entry::Directory,
            }
        }
        Err(Errno::LOOP) => Entry::Problem(Problem::Loop),
        Err(_) => match reader.stat(link) {
            // A file of git-annex, or removed meanwhile.
            Ok(_) => Entry::Problem(Problem::NotADirectory),
            Err(what) => Entry::Unreadable(what),
        },
    }
}

/// True if the text of a link leads to a subject of `root` or below one.
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

/// A name as printable text.
fn shown(name: &OsStr) -> String {
    printable(&name.to_string_lossy()).into_owned()
}
