//! How far a pattern that matches nothing gets: the last directory that is there, and what it holds.

use std::cmp::Reverse;
use std::path::Path;

use serde::Serialize;

use crate::gather::disk::cached::Listings;
use crate::gather::disk::listing::{Dir, Kind, Listing};
use crate::model::procedure::marker::{Component, Pattern};

/// So many names of a directory are shown.
const NAMES: usize = 4;
/// So many names are compared with what is looked for.
const COMPARED: usize = 2000;
/// So many directories that match one component are followed.
const FOLLOWED: usize = 50;
/// So far above an output that is not there another directory is looked for.
const ABOVE: usize = 4;

/// Describes the last directory on a pattern's way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nearest {
    pub directory: String,
    /// The component of the path or pattern that nothing in the directory matches; empty: anything
    /// would do.
    pub fails_at: String,
    /// How many entries the directory has.
    pub entries: usize,
    /// Some of them, those most like `fails_at` first.
    pub names: Vec<String>,
}

/// Finds how far `pattern` gets below `output`.
pub(super) fn of(listings: &Listings<'_>, output: &Path, pattern: &Pattern) -> Option<Nearest> {
    let parts = parts(pattern);
    match &*listings.get(output) {
        Dir::There(_) => {
            deepest(listings, output, pattern.components(), &parts).map(|(_, found)| found)
        }
        Dir::Absent => above(listings, output),
        Dir::Failed(_) => None,
    }
}

/// Describes a directory that must not be empty.
pub(super) fn of_directory(listings: &Listings<'_>, output: &Path) -> Option<Nearest> {
    match &*listings.get(output) {
        Dir::There(listing) => Some(describe(output, listing, "")),
        Dir::Absent => above(listings, output),
        Dir::Failed(_) => None,
    }
}

/// Finds the first directory above one that is not there.
fn above(listings: &Listings<'_>, missing: &Path) -> Option<Nearest> {
    let mut below = missing;
    for dir in missing.ancestors().skip(1).take(ABOVE) {
        match &*listings.get(dir) {
            Dir::There(listing) => {
                let name = below.file_name()?.to_string_lossy();
                return Some(describe(dir, listing, &name));
            }
            Dir::Absent => below = dir,
            Dir::Failed(_) => return None,
        }
    }
    None
}

/// Follows the pattern; returns how many components were met, and the last directory.
fn deepest(
    listings: &Listings<'_>,
    dir: &Path,
    components: &[Component],
    parts: &[&str],
) -> Option<(usize, Nearest)> {
    let dir_there = listings.get(dir);
    let Dir::There(listing) = &*dir_there else {
        return None;
    };
    let (first, rest) = components.split_first()?;
    let (part, parts_below) = parts.split_first()?;
    let below = match first {
        _ if rest.is_empty() => None,
        Component::AnyDepth => {
            let wanted = parts_below.join("/");
            return Some((0, describe(dir, listing, &wanted)));
        }
        Component::Literal(name) => deepest(listings, &dir.join(name), rest, parts_below),
        Component::Glob(glob) => listing
            .iter()
            .filter(|entry| matches!(entry.kind, Kind::Directory | Kind::Link))
            .filter(|entry| glob.matches(entry.name))
            .take(FOLLOWED)
            .filter_map(|entry| deepest(listings, &dir.join(entry.name), rest, parts_below))
            .max_by_key(|(depth, _)| *depth),
    };
    Some(match below {
        Some((depth, found)) => (depth + 1, found),
        None => (0, describe(dir, listing, part)),
    })
}

fn describe(dir: &Path, listing: &Listing, wanted: &str) -> Nearest {
    let plain: String = wanted
        .chars()
        .filter(|c| !matches!(c, '*' | '?' | '[' | ']'))
        .collect();
    let mut names: Vec<String> = listing
        .iter()
        .take(COMPARED)
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .collect();
    // Stable: names that are equally like it stay in their order.
    names.sort_by_cached_key(|name| Reverse(common_end(name, &plain)));
    names.truncate(NAMES);
    Nearest {
        directory: dir.to_string_lossy().into_owned(),
        fails_at: wanted.to_owned(),
        entries: listing.len(),
        names,
    }
}

/// Counts the letters that two names have in common at their ends: what names of one kind share.
fn common_end(a: &str, b: &str) -> usize {
    let end = a.chars().rev().zip(b.chars().rev());
    let end = end.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let start = a.chars().zip(b.chars());
    end.max(start.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count())
}

/// Returns the text of each component.
fn parts(pattern: &Pattern) -> Vec<&str> {
    let mut parts: Vec<&str> = pattern
        .as_str()
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.dedup_by(|a, b| *a == "**" && *b == "**");
    parts
}
