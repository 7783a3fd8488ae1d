//! The conditions of a marker on size and text of a file, and the newest file that satisfies them.

use std::path::Path;

use chrono::{DateTime, Utc};
use regex::bytes::Regex;
use rustix::fs::Stat;

use super::rule::Observer;
use crate::base::text::plural;
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::EntryKind;
use crate::gather::disk::reader::{Reader, is_directory, is_regular, modified};
use crate::model::procedure::marker::Marker;

/// Collects the modification times of the files that satisfy a task's rules.
#[derive(Debug, Default)]
pub(super) struct Newest {
    time: Option<DateTime<Utc>>,
    is_unreadable: bool,
}

impl Newest {
    /// `None` if there was no file, or a path could not be read.
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

/// Whether a match satisfies its marker, with the file's `stat` if it was needed.
pub(super) enum Checked {
    Rejected,
    Counts(Option<Stat>),
}

/// Reads no more of a file than its marker requires.
pub(super) fn check_file(
    reader: &Reader,
    marker: &Marker,
    path: &Path,
    kind: EntryKind,
) -> Result<Checked, Unreadable> {
    let wants_text = marker.contains.is_some() || marker.not_contains.is_some();
    let takes_directories = !wants_text && !marker.asks_for_size();
    if kind == EntryKind::Directory {
        return Ok(match takes_directories {
            true => Checked::Counts(None),
            false => Checked::Rejected,
        });
    }
    if kind == EntryKind::File && marker.min_size == 0 && !wants_text {
        return Ok(Checked::Counts(None));
    }
    let Some(stat) = reader.stat(path)? else {
        return Ok(Checked::Rejected);
    };
    let counts = if is_directory(&stat) {
        takes_directories
    } else {
        (is_regular(&stat) || !wants_text)
            && u64::try_from(stat.st_size).is_ok_and(|size| size >= marker.min_size)
            && (!wants_text || text_fits(reader, marker, path)?)
    };
    Ok(match counts {
        true => Checked::Counts(Some(stat)),
        false => Checked::Rejected,
    })
}

/// Why a match does not satisfy its marker.
pub(crate) fn why_not(marker: &Marker, stat: Option<&Stat>) -> String {
    let Some(stat) = stat else {
        return "is a dangling link".to_owned();
    };
    let Some(size) = size(stat) else {
        return "is a directory".to_owned();
    };
    if !is_regular(stat) {
        return "is not a regular file".to_owned();
    }
    if size < marker.min_size {
        let least = marker.min_size;
        return match size {
            0 => "is empty".to_owned(),
            _ => format!(
                "has {}, at least {least} are required",
                plural(size as usize, "byte")
            ),
        };
    }
    match (&marker.contains, &marker.not_contains) {
        (Some(wanted), None) => format!("does not contain '{wanted}'"),
        (None, Some(unwanted)) => format!("contains '{unwanted}'"),
        (Some(wanted), Some(unwanted)) => {
            format!("does not contain '{wanted}', or contains '{unwanted}'")
        }
        (None, None) => "does not count".to_owned(),
    }
}

/// `None` for a directory.
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
