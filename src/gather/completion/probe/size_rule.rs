//! Does a file that matches satisfy its marker: its size and its text. How new are those that do.

use std::path::Path;

use chrono::{DateTime, Utc};
use regex::bytes::Regex;
use rustix::fs::Stat;

use super::rule::Observer;
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::Kind;
use crate::gather::disk::reader::{Reader, is_directory, is_regular};
use crate::model::procedure::marker::Marker;

/// Collects the modification times of what satisfies a task's rules.
#[derive(Debug, Default)]
pub(super) struct Newest {
    time: Option<DateTime<Utc>>,
    is_unreadable: bool,
}

impl Newest {
    /// None: there was no file, or something could not be read.
    pub(super) fn time(&self) -> Option<DateTime<Utc>> {
        self.time.filter(|_| !self.is_unreadable)
    }
}

impl Observer for Newest {
    fn matched(
        &mut self,
        reader: &Reader,
        path: &Path,
        stat: Option<&Stat>,
    ) -> Result<bool, Unreadable> {
        let time = match stat {
            Some(stat) => modified(stat),
            None => reader.stat(path)?.as_ref().and_then(modified),
        };
        self.time = self.time.max(time);
        Ok(false)
    }

    fn unread(&mut self, _: &Unreadable) {
        self.is_unreadable = true;
    }

    fn is_thorough(&self) -> bool {
        true
    }
}

pub(crate) fn modified(stat: &Stat) -> Option<DateTime<Utc>> {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    DateTime::from_timestamp(stat.st_mtime, nanoseconds)
}

/// Says whether a match satisfies its marker, and what was learnt about the file on the way.
pub(super) enum Weight {
    CountsNot,
    Counts(Option<Stat>),
}

/// Looks at a match as far as its marker asks for it.
pub(super) fn size_rule(
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

/// Says why a match does not satisfy its marker.
pub(crate) fn why_not(marker: &Marker, stat: Option<&Stat>) -> String {
    let Some(stat) = stat else {
        return "is a link that leads nowhere".to_owned();
    };
    let Some(size) = size(stat) else {
        return "is a directory".to_owned();
    };
    if !is_regular(stat) {
        return "is no regular file".to_owned();
    }
    if size < marker.min_size {
        return match (size, marker.min_size) {
            (0, _) => "is empty".to_owned(),
            (_, least) => format!("has {size} bytes, {least} are needed"),
        };
    }
    match (&marker.contains, &marker.not_contains) {
        (Some(wanted), None) => format!("does not hold '{wanted}'"),
        (None, Some(unwanted)) => format!("holds '{unwanted}'"),
        (Some(wanted), Some(unwanted)) => {
            format!("does not hold '{wanted}', or holds '{unwanted}'")
        }
        (None, None) => "does not count".to_owned(),
    }
}

/// None: it is a directory.
pub(crate) fn size(stat: &Stat) -> Option<u64> {
    let size = u64::try_from(stat.st_size).ok();
    size.filter(|_| !is_directory(stat))
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
