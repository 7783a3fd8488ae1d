//! The nearest existing directory of a pattern that matches nothing, and its entries.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::gather::completion::probe::SubjectProbe;
use crate::gather::disk::{Dir, EntryKind};
use crate::model::procedure::marker::{Component, Pattern};

/// At most this many names are compared with the wanted one.
const COMPARED: usize = 2000;
/// At most this many directories that match one component are followed.
const FOLLOWED: usize = 50;
/// The number of levels above a missing output that are searched for an existing directory.
const ABOVE: usize = 4;

/// The last existing directory along a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nearest {
    pub directory: String,
    /// The component of the path or pattern that nothing in the directory matches; empty if any entry would do.
    pub fails_at: String,
    pub entries: usize,
    /// Some of the entries, the most similar to `fails_at` first.
    pub names: Vec<String>,
}

/// Follows `pattern` below `output` as far as it matches. Without a pattern, `output` must not be empty. If `output` does
/// not exist, the first existing directory above it is the nearest.
pub(super) fn nearest(
    subject: &SubjectProbe<'_>,
    output: &Path,
    pattern: Option<&Pattern>,
    names: usize,
) -> Option<Nearest> {
    let mut missing = None;
    for dir in output.ancestors().take(1 + ABOVE) {
        match (&*listing_of(subject, dir), missing, pattern) {
            (Dir::There(_), Some(name), _) => {
                let name = Path::new(name).to_string_lossy();
                return describe(subject, dir, &name, names);
            }
            (Dir::There(_), None, Some(pattern)) => return deepest(subject, dir, pattern, names),
            (Dir::There(_), None, None) => return describe(subject, dir, "", names),
            (Dir::Absent, ..) => missing = dir.file_name(),
            (Dir::Failed(_), ..) => return None,
        }
    }
    None
}

/// Reads a directory that is not the subject's own once for all subjects: it may hold the outputs of many thousands.
fn listing_of(subject: &SubjectProbe<'_>, dir: &Path) -> Arc<Dir> {
    match dir.to_string_lossy().contains(subject.subject.as_str()) {
        true => subject.listings.get(dir),
        false => subject.probe.shared.get(subject.reader(), dir),
    }
}

/// Follows a pattern level by level, as long as directories match it.
fn deepest(
    subject: &SubjectProbe<'_>,
    output: &Path,
    pattern: &Pattern,
    names: usize,
) -> Option<Nearest> {
    // The text of each component.
    let parts = pattern.as_str().split('/');
    let mut parts: Vec<&str> = parts
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.dedup_by(|a, b| *a == "**" && *b == "**");
    let mut dirs = vec![output.to_owned()];
    for (at, component) in pattern.components.iter().enumerate() {
        let (wanted, below) = parts.split_at_checked(at)?.1.split_first()?;
        let mut next: Vec<PathBuf> = Vec::new();
        match component {
            Component::AnyDepth if !below.is_empty() => {
                return describe(subject, dirs.first()?, &below.join("/"), names);
            }
            Component::AnyDepth => {}
            _ if below.is_empty() => {}
            Component::Literal(name) => next.extend(dirs.iter().map(|dir| dir.join(name))),
            Component::Glob(glob) => {
                for dir in &dirs {
                    if let Dir::There(listing) = &*listing_of(subject, dir) {
                        let is_dir = |kind| matches!(kind, EntryKind::Directory | EntryKind::Link);
                        let matching = listing.iter().filter(|entry| glob.matches(entry.name));
                        let matching = matching.filter(|entry| is_dir(entry.kind));
                        next.extend(matching.map(|entry| dir.join(entry.name)));
                    }
                }
            }
        }
        next.truncate(FOLLOWED);
        next.retain(|dir| matches!(*listing_of(subject, dir), Dir::There(_)));
        if next.is_empty() {
            return describe(subject, dirs.first()?, wanted, names);
        }
        dirs = next;
    }
    None
}

/// `names` is the number of similar names to find, which takes a comparison with each entry.
fn describe(subject: &SubjectProbe<'_>, dir: &Path, wanted: &str, names: usize) -> Option<Nearest> {
    let there = listing_of(subject, dir);
    let Dir::There(listing) = &*there else {
        return None;
    };
    let plain: String = wanted
        .chars()
        .filter(|c| !matches!(c, '*' | '?' | '[' | ']'))
        .collect();
    let compared = if names > 0 { COMPARED } else { 0 };
    let all = listing.iter().take(compared);
    let mut all: Vec<Cow<'_, str>> = all.map(|entry| entry.name.to_string_lossy()).collect();
    all.sort_by_cached_key(|name| Reverse(common_end(name, &plain)));
    all.truncate(names);
    Some(Nearest {
        directory: dir.to_string_lossy().into_owned(),
        fails_at: wanted.to_owned(),
        entries: listing.len(),
        names: all.into_iter().map(Cow::into_owned).collect(),
    })
}

/// The length of the longer of common prefix and common suffix: files of one kind share one of them.
fn common_end(a: &str, b: &str) -> usize {
    let end = a.chars().rev().zip(b.chars().rev());
    let end = end.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let start = a.chars().zip(b.chars());
    end.max(start.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count())
}
