//! Sessions from directories: `sub-*/ses-*` below a root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::{DiscoverError, Discovery, Problem, Problems, is_archive_alone};
use crate::base::parallel;
use crate::base::regular::error_text;
use crate::base::text::printable;
use crate::gather::disk::reader::{Reader, is_directory};
use crate::gather::disk::{Dir, EntryKind, Unreadable};
use crate::model::bids::{
    Dicom, LabelError, Session, SessionLabel, SessionSource, SubjectLabel, have_room, suggest,
};
use crate::model::config::Config;

/// Directories of a subject that hold data of one kind (BIDS specification 1.10, "Datatypes").
const DATATYPES: [&str; 14] = [
    "anat", "func", "dwi", "fmap", "perf", "meg", "eeg", "ieeg", "beh", "pet", "micr", "motion",
    "mrs", "nirs",
];

/// A tree to scan.
struct Tree<'a> {
    reader: &'a Reader,
    root: &'a Path,
    /// The session directories contain the DICOM files.
    is_source: bool,
    /// Each subject is one session.
    sessionless: bool,
}

/// Scans the root, then the subjects in parallel.
pub(super) fn scan(reader: &Reader, config: &Config) -> Result<Discovery, DiscoverError> {
    let (key, root) = config.sessions_place();
    let path = root.to_owned();
    match reader.raw_stat(root) {
        Ok(stat) if is_directory(&stat) => {}
        Ok(_) => return Err(root_error(key, path, Errno::NOTDIR)),
        Err(errno) => return Err(root_error(key, path, errno)),
    }
    let mut top = match children(reader, root, SubjectLabel::PREFIX, &[root]) {
        Ok(children) => children.ok_or(DiscoverError::RootMissing { key, path })?,
        Err(what) => {
            let problem = format!("cannot be read: {}", what.error);
            return Err(DiscoverError::Root { key, path, problem });
        }
    };
    let has_room = |label: &SubjectLabel| have_room(label.as_str(), "");
    let subjects = top.labels(SubjectLabel::new, has_room);
    let mut discovery = top.found;
    let tree = Tree {
        reader,
        root,
        is_source: config.sessions == SessionSource::Dicom,
        sessionless: config.sessionless,
    };
    let mut problems = Problems::default();
    let found = parallel::map(&subjects, config.scan_threads, |subject| {
        sessions(&tree, subject)
    });
    for (found, own_problems) in found {
        discovery.sessions.extend(found.sessions);
        discovery.unreadable.extend(found.unreadable);
        discovery.misspelt.extend(found.misspelt);
        problems.extend(own_problems);
    }
    let mut notes = top.problems.notes(root, "subject");
    notes.extend(problems.notes(root, "session"));
    if subjects.is_empty() && top.has_others {
        notes.push(format!(
            "nothing below {} is named sub-<label>, so there are no subjects",
            root.display()
        ));
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
fn sessions(tree: &Tree<'_>, subject: &SubjectLabel) -> (Discovery, Problems) {
    let dir = tree.root.join(subject);
    let mut children = match children(tree.reader, &dir, SessionLabel::PREFIX, &[tree.root, &dir]) {
        Ok(Some(children)) => children,
        // Removed since the root was read.
        Ok(None) => return Default::default(),
        Err(unreadable) => {
            let mut found = Discovery::default();
            found.unreadable.push(unreadable);
            return (found, Problems::default());
        }
    };
    let has_room = |label: &SessionLabel| have_room(subject.as_str(), label.as_str());
    let mut labels = children.labels(SessionLabel::new, has_room);
    let (mut found, mut problems) = (children.found, children.problems);
    if children.has_level
        && let Some(datatype) = children.datatype
    {
        problems.add(Problem::Beside, datatype.to_owned());
    }
    // A misspelt or packed session is reported instead.
    let is_bare = found.misspelt.is_empty() && !problems.0.contains_key(&Problem::Hollow);
    problems = problems.below(subject.as_str());
    if children.is_empty {
        problems.add(Problem::Hollow, subject.to_string());
    }
    for (name, _) in &mut found.misspelt {
        *name = format!("{subject}/{name}");
    }
    let is_one_session = match tree.is_source {
        true => tree.sessionless && children.has_others,
        false => children.datatype.is_some(),
    };
    if is_one_session && !children.has_level {
        labels.push(SessionLabel::none());
    }
    if tree.is_source && !tree.sessionless && is_bare && !children.has_level && children.has_others
    {
        problems.add(Problem::NoSessions, subject.to_string());
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
    (found, problems)
}

/// The entries of one directory.
#[derive(Default)]
struct Children {
    /// Directories with the wanted prefix, including links to directories.
    directories: Vec<String>,
    problems: Problems,
    /// What is misspelt or unreadable.
    found: Discovery,
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
                children.found.misspelt.push((shown(name), meant));
            }
            continue;
        }
        let path = dir.join(name);
        let found = match entry.kind {
            EntryKind::Directory => Ok(None),
            EntryKind::Link => follow(reader, &path, above),
            EntryKind::File if text.is_some_and(|name| is_archive_alone(name, listing)) => {
                Ok(Some(Problem::Hollow))
            }
            EntryKind::File | EntryKind::Other => Ok(Some(Problem::NotADirectory)),
        };
        let is_file = matches!(found, Ok(Some(Problem::NotADirectory | Problem::Hollow)));
        match (datatype, found) {
            (Some(datatype), Ok(None)) => {
                children.datatype.get_or_insert(datatype);
                continue;
            }
            (Some(_), Ok(Some(_))) => continue,
            (None, Ok(None)) => children.directories.push(shown(name)),
            (None, Ok(Some(kind))) => children.problems.add(kind, shown(name)),
            (_, Err(what)) => children.found.unreadable.push(what),
        }
        children.has_level |= !is_file;
    }
    children.found.misspelt.sort_unstable();
    Ok(Some(children))
}

impl Children {
    /// The sorted labels of the directories; the others become problems.
    fn labels<L: Ord + ToString>(
        &mut self,
        new: impl Fn(&str) -> Result<L, LabelError>,
        has_room: impl Fn(&L) -> bool,
    ) -> Vec<L> {
        let mut labels = Vec::new();
        for name in std::mem::take(&mut self.directories) {
            match new(&name) {
                Ok(label) if has_room(&label) => labels.push(label),
                Ok(_) => self.problems.add(Problem::TooLong, name),
                Err(_) => self.problems.add(Problem::Invalid, name),
            }
        }
        labels.sort_unstable();
        self.problems
            .add_twins(labels.iter().map(ToString::to_string));
        labels
    }
}

/// Why a link does not lead to a directory.
fn follow(reader: &Reader, link: &Path, above: &[&Path]) -> Result<Option<Problem>, Unreadable> {
    let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
    match reader.raw_stat(link) {
        Ok(target) if !is_directory(&target) => Ok(Some(Problem::NotADirectory)),
        Ok(target) => {
            let is_target = |dir: &Stat| identity(dir) == identity(&target);
            let mut all = above.iter();
            let leads_back = all.any(|dir| reader.raw_stat(dir).is_ok_and(|dir| is_target(&dir)));
            Ok(leads_back.then_some(Problem::Loop))
        }
        Err(Errno::LOOP) => Ok(Some(Problem::Loop)),
        // A file of git-annex, or removed meanwhile.
        Err(_) => reader.stat(link).map(|_| Some(Problem::NotADirectory)),
    }
}

/// A name as printable text.
fn shown(name: &OsStr) -> String {
    printable(&name.to_string_lossy()).into_owned()
}
