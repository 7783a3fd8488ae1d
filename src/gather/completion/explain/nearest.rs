//! The nearest existing directory of a pattern that matches nothing, and its entries.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::gather::completion::probe::SubjectProbe;
use crate::gather::disk::listing::{Dir, EntryKind, Listing};
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

/// Follows `pattern` below `output` as far as it matches. Without a pattern, `output` must not be empty.
pub(super) fn nearest(
    subject: &SubjectProbe<'_>,
    output: &Path,
    pattern: Option<&Pattern>,
    names: usize,
) -> Option<Nearest> {
    match (&*listing_of(subject, output), pattern) {
        (Dir::There(listing), None) => Some(describe(output, listing, "", names)),
        (Dir::There(_), Some(pattern)) => {
            let parts = parts(pattern);
            deepest(subject, output, &pattern.components, &parts, names).map(|(_, found)| found)
        }
        (Dir::Absent, _) => above(subject, output, names),
        (Dir::Failed(_), _) => None,
    }
}

/// Reads a directory that is not the subject's own once for all subjects: it may hold the outputs of many thousands.
fn listing_of(subject: &SubjectProbe<'_>, dir: &Path) -> Arc<Dir> {
    match dir.to_string_lossy().contains(subject.subject.as_str()) {
        true => subject.listings.get(dir),
        false => subject.probe.shared.get(subject.reader(), dir),
    }
}

/// Finds the first existing directory above a missing one.
fn above(subject: &SubjectProbe<'_>, missing: &Path, names: usize) -> Option<Nearest> {
    let mut below = missing;
    for dir in missing.ancestors().skip(1).take(ABOVE) {
        match &*listing_of(subject, dir) {
            Dir::There(listing) => {
                let name = below.file_name()?.to_string_lossy();
                return Some(describe(dir, listing, &name, names));
            }
            Dir::Absent => below = dir,
            Dir::Failed(_) => return None,
        }
    }
    None
}

/// Follows the pattern; returns the number of matching components, and the last directory.
fn deepest(
    subject: &SubjectProbe<'_>,
    dir: &Path,
    components: &[Component],
    parts: &[&str],
    names: usize,
) -> Option<(usize, Nearest)> {
    let dir_there = listing_of(subject, dir);
    let Dir::There(listing) = &*dir_there else {
        return None;
    };
    let (first, rest) = components.split_first()?;
    let (part, parts_below) = parts.split_first()?;
    let below = match first {
        _ if rest.is_empty() => None,
        Component::AnyDepth => {
            let wanted = parts_below.join("/");
            return Some((0, describe(dir, listing, &wanted, names)));
        }
        Component::Literal(name) => deepest(subject, &dir.join(name), rest, parts_below, names),
        Component::Glob(glob) => listing
            .iter()
            .filter(|entry| matches!(entry.kind, EntryKind::Directory | EntryKind::Link))
            .filter(|entry| glob.matches(entry.name))
            .take(FOLLOWED)
            .filter_map(|entry| deepest(subject, &dir.join(entry.name), rest, parts_below, names))
            .max_by_key(|(depth, _)| *depth),
    };
    Some(match below {
        Some((depth, found)) => (depth + 1, found),
        None => (0, describe(dir, listing, part, names)),
    })
}

/// `names` is the number of similar names to find, which takes a comparison with each entry.
fn describe(dir: &Path, listing: &Listing, wanted: &str, names: usize) -> Nearest {
    let plain: String = wanted
        .chars()
        .filter(|c| !matches!(c, '*' | '?' | '[' | ']'))
        .collect();
    let compared = if names > 0 { COMPARED } else { 0 };
    let all = listing.iter().take(compared);
    let mut all: Vec<Cow<'_, str>> = all.map(|entry| entry.name.to_string_lossy()).collect();
    all.sort_by_cached_key(|name| Reverse(common_end(name, &plain)));
    all.truncate(names);
    Nearest {
        directory: dir.to_string_lossy().into_owned(),
        fails_at: wanted.to_owned(),
        entries: listing.len(),
        names: all.into_iter().map(Cow::into_owned).collect(),
    }
}

/// The length of the longer of common prefix and common suffix: files of one kind share one of them.
fn common_end(a: &str, b: &str) -> usize {
    let end = a.chars().rev().zip(b.chars().rev());
    let end = end.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let start = a.chars().zip(b.chars());
    end.max(start.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count())
}

/// The text of each component.
fn parts(pattern: &Pattern) -> Vec<&str> {
    let mut parts: Vec<&str> = pattern
        .as_str()
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.dedup_by(|a, b| *a == "**" && *b == "**");
    parts
}
