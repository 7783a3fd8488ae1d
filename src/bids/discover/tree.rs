//! Sessions from directories: `sub-*/ses-*` below a root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::io::Errno;
use walkdir::WalkDir;

use super::{Dicom, DiscoverError, Discovery, Session};
use crate::bids::{SessionLabel, SubjectLabel};
use crate::completion::Unreadable;
use crate::completion::listing::words;

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
    let path = || tree.root.to_owned();
    let error = |error: std::io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::LOOP) => DiscoverError::RootMissing { key, path: path() },
        Some(Errno::NOTDIR) => DiscoverError::RootNotADirectory { key, path: path() },
        _ => DiscoverError::RootUnreadable {
            key,
            path: path(),
            error: words(&error),
        },
    };
    if !std::fs::metadata(tree.root).map_err(error)?.is_dir() {
        return Err(DiscoverError::RootNotADirectory { key, path: path() });
    }
    let top = children(tree.root, SubjectLabel::PREFIX, &[tree.root]).map_err(error)?;
    let mut skipped = top.skipped;
    let mut subjects = Vec::new();
    for name in top.directories {
        match SubjectLabel::new(&name) {
            Ok(label) => subjects.push(label),
            Err(_) => skipped.add(Kind::Invalid, name),
        }
    }
    subjects.sort_unstable();

    let mut discovery = Discovery {
        unreadable: top.unreadable,
        ..Discovery::default()
    };
    let mut skipped_sessions = Skipped::default();
    for found in in_parallel(&subjects, tree.threads, |subject| sessions(tree, subject)) {
        discovery.sessions.extend(found.sessions);
        discovery.unreadable.extend(found.unreadable);
        skipped_sessions.extend(found.skipped);
    }
    discovery.notes = skipped.notes(tree.root, "subject");
    discovery
        .notes
        .extend(skipped_sessions.notes(tree.root, "session"));
    Ok(discovery)
}

/// Holds what one subject's directory showed.
#[derive(Default)]
struct Found {
    sessions: Vec<Session>,
    skipped: Skipped,
    unreadable: Vec<Unreadable>,
}

fn sessions(tree: &Tree<'_>, subject: &SubjectLabel) -> Found {
    let dir = tree.root.join(subject);
    let mut found = Found::default();
    let children = match children(&dir, SessionLabel::PREFIX, &[tree.root, &dir]) {
        Ok(children) => children,
        // Gone since the root was read.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => {
            found.unreadable.push(unreadable(&dir, &error));
            return found;
        }
    };
    found.skipped = children.skipped.below(subject.as_str());
    found.unreadable = children.unreadable;
    let mut labels = Vec::new();
    for name in children.directories {
        match SessionLabel::new(&name) {
            Ok(label) => labels.push(label),
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
    /// There is something with the prefix that is, or may be, a directory.
    has_level: bool,
    has_datatypes: bool,
    /// There is something without the prefix that is not hidden.
    has_others: bool,
}

/// Reads a directory; tries once more after a stale handle, with the parent opened anew.
/// `above` are the directories that a link may not lead back to.
fn children(dir: &Path, prefix: &str, above: &[&Path]) -> std::io::Result<Children> {
    match read(dir, prefix, above) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::STALE) => {
            drop(dir.parent().map(std::fs::File::open));
            read(dir, prefix, above)
        }
        result => result,
    }
}

fn read(dir: &Path, prefix: &str, above: &[&Path]) -> std::io::Result<Children> {
    let mut children = Children::default();
    let walk = WalkDir::new(dir)
        .min_depth(1)
        .max_depth(1)
        .follow_links(true);
    for entry in walk {
        match entry {
            Ok(entry) => {
                let kind = if !entry.file_type().is_dir() {
                    Entry::Skipped(Kind::NotADirectory)
                } else if entry.path_is_symlink() && leads_back(entry.path(), above) {
                    Entry::Skipped(Kind::Loop)
                } else {
                    Entry::Directory
                };
                children.add(entry.path(), prefix, kind);
            }
            Err(error) => {
                let is_loop = error.loop_ancestor().is_some();
                let path = error.path().filter(|path| *path != dir).map(Path::to_owned);
                let cause = error.into_io_error();
                let errno = cause.as_ref().and_then(Errno::from_io_error);
                match (path, cause) {
                    (Some(path), _) if is_loop || errno == Some(Errno::LOOP) => {
                        children.add(&path, prefix, Entry::Skipped(Kind::Loop));
                    }
                    (Some(path), _) if matches!(errno, Some(Errno::NOENT | Errno::NOTDIR)) => {
                        children.add(&path, prefix, Entry::Skipped(Kind::Dangling));
                    }
                    (Some(path), Some(cause)) => {
                        children.add(&path, prefix, Entry::Unreadable(cause));
                    }
                    (_, cause) => return Err(cause.unwrap_or_else(|| Errno::IO.into())),
                }
            }
        }
    }
    Ok(children)
}

enum Entry {
    Directory,
    Skipped(Kind),
    Unreadable(std::io::Error),
}

impl Children {
    fn add(&mut self, path: &Path, prefix: &str, entry: Entry) {
        let name = path.file_name().unwrap_or_default();
        let is_directory = matches!(entry, Entry::Directory);
        if !name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
            self.has_others |= !name.as_encoded_bytes().starts_with(b".");
            self.has_datatypes |=
                is_directory && name.to_str().is_some_and(|name| DATATYPES.contains(&name));
            return;
        }
        self.has_level |= !matches!(entry, Entry::Skipped(Kind::NotADirectory));
        match entry {
            Entry::Directory => self.directories.push(shown(name)),
            Entry::Skipped(kind) => self.skipped.add(kind, shown(name)),
            Entry::Unreadable(error) => self.unreadable.push(unreadable(path, &error)),
        }
    }
}

/// True if a link leads to one of the directories above it.
fn leads_back(link: &Path, above: &[&Path]) -> bool {
    let identity = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let target = identity(link);
    target.is_some() && above.iter().any(|dir| identity(dir) == target)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Unreadable {
    Unreadable {
        path: path.to_owned(),
        error: words(error),
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
    let fault = match (kind, one) {
        (Kind::Invalid, true) => format!("is not a valid BIDS {what}"),
        (Kind::Invalid, false) => format!("are not valid BIDS {what}s"),
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

/// Maps over subjects with several threads, since the time goes into waiting for the file system.
/// The result is in the subjects' order whatever the number of threads.
fn in_parallel(
    subjects: &[SubjectLabel],
    threads: usize,
    work: impl Fn(&SubjectLabel) -> Found + Sync,
) -> Vec<Found> {
    /// A thread is not worth its start for less.
    const SUBJECTS_PER_THREAD: usize = 32;
    let threads = threads.min(subjects.len() / SUBJECTS_PER_THREAD);
    if threads < 2 {
        return subjects.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut mine = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(subject) = subjects.get(index) else {
                return mine;
            };
            mine.push((index, work(subject)));
        }
    };
    let mut all: Vec<(usize, Found)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        handles
            .into_iter()
            .flat_map(|handle| match handle.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, found)| found).collect()
}
