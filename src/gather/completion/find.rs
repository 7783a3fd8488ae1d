//! Looking for what matches a pattern below a directory, over listings that are read once.
//!
//! Knows patterns and directories; what a match is worth is decided by the caller, match by match.

use std::path::Path;

use crate::gather::disk::Unreadable;
use crate::gather::disk::cached::{Listings, SharedListings};
use crate::gather::disk::listing::{Dir, Entry, Kind, Listing};
use crate::gather::disk::reader::{Reader, is_directory};
use crate::model::procedure::marker::{Component, Pattern};

/// Shows one match to the caller: `Ok(true)` ends the search. After an error the search goes on,
/// since another match may make it irrelevant.
pub type Visit<'v> = dyn FnMut(&Path, Kind) -> Result<bool, Unreadable> + 'v;

/// Shows every match of `pattern` below `base` to `visit` until that is content; says whether it
/// was. Links that lead nowhere are shown too: the caller learns that they cannot be read.
///
/// # Errors
/// The first thing that could not be read, if nothing contented `visit`.
pub fn find(
    listings: &Listings<'_>,
    base: &Path,
    pattern: &Pattern,
    visit: &mut Visit<'_>,
) -> Result<bool, Unreadable> {
    find_in((listings, None), base, pattern, visit)
}

/// Does the same for a `base` that holds all subjects: it, and directories below it up to the first
/// component with a label, are read once for all of them.
///
/// # Errors
/// As [`find`].
pub fn find_in(
    (listings, shared): (&Listings<'_>, Option<&SharedListings>),
    base: &Path,
    pattern: &Pattern,
    visit: &mut Visit<'_>,
) -> Result<bool, Unreadable> {
    let own = pattern
        .components()
        .len()
        .saturating_sub(pattern.shared_components());
    let mut search = Search {
        listings,
        shared: shared.map(|shared| (shared, own)),
        directories_only: pattern.directories_only(),
        visit,
        error: None,
    };
    if search.below(base, pattern.components()) {
        return Ok(true);
    }
    search.error.map_or(Ok(false), Err)
}

/// True if something matches.
///
/// # Errors
/// As [`find`]; also if only a link that leads nowhere matches.
pub fn any(listings: &Listings<'_>, base: &Path, pattern: &Pattern) -> Result<bool, Unreadable> {
    find(listings, base, pattern, &mut |path, kind| {
        is_there(listings.reader, path, kind)
    })
}

/// False for a file of git-annex that does not count. A link that leads nowhere is an error.
pub fn is_there(reader: &Reader, path: &Path, kind: Kind) -> Result<bool, Unreadable> {
    Ok(kind != Kind::Link || reader.stat(path)?.is_some())
}

struct Search<'a, 'v> {
    listings: &'a Listings<'a>,
    /// The listings of all subjects, and how many of the last components are of one.
    shared: Option<(&'a SharedListings, usize)>,
    directories_only: bool,
    visit: &'a mut Visit<'v>,
    error: Option<Unreadable>,
}

impl Search<'_, '_> {
    fn below(&mut self, dir: &Path, components: &[Component]) -> bool {
        let Some((first, rest)) = components.split_first() else {
            return false;
        };
        match first {
            Component::Literal(name) if !rest.is_empty() => self.below(&dir.join(name), rest),
            Component::Literal(name) => self.over(dir, components.len(), |search, listing| {
                listing
                    .get(name.as_ref())
                    .is_some_and(|entry| search.show(dir, entry))
            }),
            Component::Glob(glob) => self.over(dir, components.len(), |search, listing| {
                listing
                    .beginning_with(glob.prefix())
                    .filter(|entry| glob.matches(entry.name))
                    .any(|entry| {
                        if rest.is_empty() {
                            search.show(dir, entry)
                        } else {
                            // A link is opened as a directory: no call is needed to know what it is.
                            matches!(entry.kind, Kind::Directory | Kind::Link)
                                && search.below(&dir.join(entry.name), rest)
                        }
                    })
            }),
            Component::AnyDepth => self.at_any_depth(dir, components, rest),
        }
    }

    fn at_any_depth(&mut self, dir: &Path, all: &[Component], rest: &[Component]) -> bool {
        if !rest.is_empty() && self.below(dir, rest) {
            return true;
        }
        self.over(dir, all.len(), |search, listing| {
            let mut visible = listing
                .iter()
                .filter(|entry| !entry.name.as_encoded_bytes().starts_with(b"."));
            visible.any(|entry| {
                (rest.is_empty() && search.show(dir, entry))
                    || (entry.kind == Kind::Directory && search.below(&dir.join(entry.name), all))
            })
        })
    }

    /// `left`: how many components of the pattern begin at `dir`.
    fn over(
        &mut self,
        dir: &Path,
        left: usize,
        judge: impl FnOnce(&mut Self, &Listing) -> bool,
    ) -> bool {
        let listing = match self.shared {
            Some((shared, own)) if left >= own => shared.get(self.listings.reader, dir),
            _ => self.listings.get(dir),
        };
        match &*listing {
            Dir::There(listing) => judge(self, listing),
            Dir::Absent => false,
            Dir::Failed(unreadable) => {
                self.error.get_or_insert_with(|| unreadable.clone());
                false
            }
        }
    }

    fn show(&mut self, dir: &Path, entry: Entry<'_>) -> bool {
        let path = dir.join(entry.name);
        let shown = match (self.directories_only, entry.kind) {
            (false, _) | (true, Kind::Directory) => (self.visit)(&path, entry.kind),
            (true, Kind::Link) => match self.listings.reader.stat(&path) {
                Ok(Some(stat)) if is_directory(&stat) => (self.visit)(&path, entry.kind),
                Ok(_) => Ok(false),
                Err(unreadable) => Err(unreadable),
            },
            (true, Kind::File | Kind::Other) => Ok(false),
        };
        shown.unwrap_or_else(|unreadable| {
            self.error.get_or_insert(unreadable);
            false
        })
    }
}
