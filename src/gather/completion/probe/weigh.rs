//! Does a file that matches satisfy its marker: its size and its text.

use std::path::Path;

use chrono::{DateTime, Utc};
use regex::bytes::Regex;
use rustix::fs::Stat;

use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::Kind;
use crate::gather::disk::reader::{Reader, is_directory, is_regular};
use crate::model::procedure::marker::Marker;

/// Collects modification times.
#[derive(Debug, Default)]
pub(crate) struct Newest(Option<DateTime<Utc>>);

impl Newest {
    /// None: there was no file.
    pub(crate) fn time(&self) -> Option<DateTime<Utc>> {
        self.0
    }

    pub(crate) fn add(&mut self, stat: &Stat) {
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        self.0 = self
            .0
            .max(DateTime::from_timestamp(stat.st_mtime, nanoseconds));
    }

    pub(crate) fn add_file(&mut self, reader: &Reader, path: &Path) -> Result<(), Unreadable> {
        if let Some(stat) = reader.stat(path)? {
            self.add(&stat);
        }
        Ok(())
    }
}

/// Says whether a match satisfies its marker, and what was learnt about the file on the way.
pub(crate) enum Weight {
    CountsNot,
    Counts(Option<Stat>),
}

impl Weight {
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::Counts(_))
    }
}

/// Looks at a match as far as its marker asks for it.
pub(crate) fn weigh(
    reader: &Reader,
    marker: &Marker,
    path: &Path,
    kind: Kind,
) -> Result<Weight, Unreadable> {
    let wants_text = marker.contains.is_some() || marker.not_contains.is_some();
    if kind == Kind::Directory {
        return Ok(if wants_text || marker.asks_for_size() {
            Weight::CountsNot
        } else {
            Weight::Counts(None)
        });
    }
    if kind == Kind::File && marker.min_size == 0 && !wants_text {
        return Ok(Weight::Counts(None));
    }
    let Some(stat) = reader.stat(path)? else {
        return Ok(Weight::CountsNot);
    };
    let counts = if is_directory(&stat) {
        !wants_text && !marker.asks_for_size()
    } else {
        (is_regular(&stat) || !wants_text)
            && u64::try_from(stat.st_size).is_ok_and(|size| size >= marker.min_size)
            && (!wants_text || text_fits(reader, marker, path)?)
    };
    Ok(if counts {
        Weight::Counts(Some(stat))
    } else {
        Weight::CountsNot
    })
}

fn text_fits(reader: &Reader, marker: &Marker, path: &Path) -> Result<bool, Unreadable> {
    let search = |part: &Option<String>| {
        let part = part.as_deref()?;
        Some((Regex::new(&regex::escape(part)).ok()?, part.len()))
    };
    let (wanted, unwanted) = (search(&marker.contains), search(&marker.not_contains));
    let longest = [&wanted, &unwanted].into_iter().flatten();
    let longest = longest.map(|(_, len)| *len).max().unwrap_or(0);
    let (mut has_wanted, mut has_unwanted) = (wanted.is_none(), false);
    let is_file = reader.windows(path, longest, &mut |text| {
        let finds = |(expression, _): &(Regex, usize)| expression.is_match(text);
        has_wanted |= wanted.as_ref().is_some_and(finds);
        has_unwanted |= unwanted.as_ref().is_some_and(finds);
        !has_unwanted && (!has_wanted || unwanted.is_some())
    })?;
    Ok(is_file && has_wanted && !has_unwanted)
}
