//! Finding the matches of a pattern below a directory, with cached listings.
//!
//! The caller decides about each match.

use std::path::Path;

use crate::gather::disk::reader::{Reader, is_directory};
use crate::gather::disk::{Dir, Entry, EntryKind, Listing, Listings, SharedListings, Unreadable};
use crate::model::procedure::marker::{Component, Pattern};

/// Called for each match: `Ok(true)` ends the search. After an error the search continues, since another match may
/// make it irrelevant.
pub type Visit<'v> = dyn FnMut(&Path, EntryKind) -> Result<bool, Unreadable> + 'v;

/// Calls `visit` for every match of `pattern` below `base`, until it returns true; true if it did. Dangling links are
/// visited too, so that the caller can report them as unreadable. With shared listings, `base` is read once for all
/// subjects, with the directories below it up to the first component with a label.
///
/// # Errors
/// The first path that could not be read, if `visit` never returned true.
pub fn find(
    (listings, shared): (&Listings<'_>, Option<&SharedListings>),
    base: &Path,
    pattern: &Pattern,
    visit: &mut Visit<'_>,
) -> Result<bool, Unreadable> {
    let mut search = Search {
        listings,
        shared: shared.map(|shared| (shared, pattern.own_components())),
        directories_only: pattern.directories_only,
        visit,
        error: None,
    };
    if search.below(base, &pattern.components) {
        return Ok(true);
    }
    search.error.map_or(Ok(false), Err)
}

/// False for a file of git-annex that counts as absent. A dangling link is an error.
pub fn is_there(reader: &Reader, path: &Path, kind: EntryKind) -> Result<bool, Unreadable> {
    Ok(kind != EntryKind::Link || reader.stat(path)?.is_some())
}

struct Search<'a, 'v> {
    listings: &'a Listings<'a>,
    /// The listings shared by all subjects, and how many of the last components belong to one subject.
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
            Component::Literal(name) => {
                self.in_listing(dir, components.len(), |search, listing| {
                    listing
                        .get(name.as_ref())
                        .is_some_and(|entry| search.show(dir, entry))
                })
            }
            Component::Glob(glob) => self.in_listing(dir, components.len(), |search, listing| {
                listing
                    .beginning_with(glob.prefix())
                    .filter(|entry| glob.matches(entry.name))
                    .any(|entry| {
                        if rest.is_empty() {
                            search.show(dir, entry)
                        } else {
                            // A link is opened as a directory, which saves a call to find out its type.
                            matches!(entry.kind, EntryKind::Directory | EntryKind::Link)
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
        self.in_listing(dir, all.len(), |search, listing| {
            let mut visible = listing
                .iter()
                .filter(|entry| !entry.name.as_encoded_bytes().starts_with(b"."));
            visible.any(|entry| {
                (rest.is_empty() && search.show(dir, entry))
                    || (entry.kind == EntryKind::Directory
                        && search.below(&dir.join(entry.name), all))
            })
        })
    }

    /// `left` is the number of components of the pattern from `dir` on.
    fn in_listing(
        &mut self,
        dir: &Path,
        left: usize,
        see: impl FnOnce(&mut Self, &Listing) -> bool,
    ) -> bool {
        let listing = match self.shared {
            Some((shared, own)) if left >= own => shared.get(self.listings.reader, dir),
            _ => self.listings.get(dir),
        };
        match &*listing {
            Dir::There(listing) => see(self, listing),
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
            (false, _) | (true, EntryKind::Directory) => (self.visit)(&path, entry.kind),
            (true, EntryKind::Link) => match self.listings.reader.stat(&path) {
                Ok(Some(stat)) if is_directory(&stat) => (self.visit)(&path, entry.kind),
                Ok(_) => Ok(false),
                Err(unreadable) => Err(unreadable),
            },
            (true, EntryKind::File | EntryKind::Other) => Ok(false),
        };
        shown.unwrap_or_else(|unreadable| {
            self.error.get_or_insert(unreadable);
            false
        })
    }
}
