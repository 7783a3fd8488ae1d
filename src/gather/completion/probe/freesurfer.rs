//! FreeSurfer's own check: `recon-all.done` of every session, of the template, and of every
//! longitudinal run.
//!
//! recon-all writes `scripts/recon-all.done` at its end, with the exit code as first line if it
//! failed; `-base` writes the time points of a template into `base-tps` (recon-all's script).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::gather::completion::probe::{Newest, SubjectProbe};
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::{Dir, Kind};
use crate::gather::disk::reader::{Reader, is_directory};
use crate::model::bids::SessionLabel;
use crate::model::procedure::Procedure;

/// A mark's first line is short; a time point's name too.
pub(crate) const HEAD: usize = 64 * 1024;

/// Judges a subject as a whole, whatever the procedure's scope; with `newest` the times of the good
/// marks are noted.
pub(crate) fn complete(
    subject: &SubjectProbe<'_>,
    procedure: &Procedure,
    mut newest: Option<&mut Newest>,
) -> Result<bool, Unreadable> {
    let reader = subject.reader();
    let mut is_good = |dir: &Path| is_good(reader, dir, newest.as_deref_mut());
    let out = subject.top(procedure);
    let name = subject.subject.as_str();
    let sessions = match scanned(subject)? {
        Scanned::Nothing => return Ok(false),
        Scanned::NoSessionLevel => return is_good(&out.join(name)),
        Scanned::Sessions(sessions) => sessions,
    };
    if sessions.len() == 1 {
        return is_good(&out.join(name));
    }
    let runs: Vec<String> = sessions
        .iter()
        .map(|session| format!("{name}_{session}"))
        .collect();
    for run in &runs {
        if !is_good(&out.join(run))? {
            return Ok(false);
        }
    }
    let template = out.join(name);
    if !is_good(&template)? || !names_all(reader, &template.join("base-tps"), &runs)? {
        return Ok(false);
    }
    for run in &runs {
        if !is_good(&out.join(format!("{run}.long.{name}")))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says which sessions have a T1w image.
pub(crate) enum Scanned {
    Nothing,
    /// The subject has an `anat/` of its own.
    NoSessionLevel,
    /// At least one.
    Sessions(Vec<SessionLabel>),
}

pub(crate) fn scanned(subject: &SubjectProbe<'_>) -> Result<Scanned, Unreadable> {
    let bids = subject.bids();
    let top = subject.listings.get(&bids);
    let listing = match &*top {
        Dir::There(listing) => listing,
        Dir::Absent => return Ok(Scanned::Nothing),
        Dir::Failed(unreadable) => return Err(unreadable.clone()),
    };
    let mut sessions = Vec::new();
    let mut has_session_level = false;
    for entry in listing.iter() {
        let Some(label) = entry.name.to_str().map(SessionLabel::new) else {
            continue;
        };
        let Ok(label) = label else { continue };
        let dir = bids.join(&label);
        let is_session = match entry.kind {
            Kind::Directory => true,
            Kind::Link => subject
                .reader()
                .stat(&dir)?
                .is_some_and(|stat| is_directory(&stat)),
            Kind::File | Kind::Other => false,
        };
        if is_session {
            has_session_level = true;
            if has_t1w(subject, &dir)? {
                sessions.push(label);
            }
        }
    }
    Ok(if !sessions.is_empty() {
        Scanned::Sessions(sessions)
    } else if !has_session_level && has_t1w(subject, &bids)? {
        Scanned::NoSessionLevel
    } else {
        Scanned::Nothing
    })
}

/// Looks for a T1w image by name only: a git-annex link without content is an image too, or the
/// subject would seem to need fewer runs.
fn has_t1w(subject: &SubjectProbe<'_>, dir: &Path) -> Result<bool, Unreadable> {
    match &*subject.listings.get(&dir.join("anat")) {
        Dir::There(anat) => Ok(anat.iter().any(|entry| {
            let name = entry.name.as_encoded_bytes();
            name.ends_with(b"_T1w.nii.gz")
                && !name.starts_with(b".")
                && !entry.name.to_string_lossy().contains("defaced")
        })),
        Dir::Absent => Ok(false),
        Dir::Failed(unreadable) => Err(unreadable.clone()),
    }
}

/// True if the run in `dir` has ended well.
pub(crate) fn is_good(
    reader: &Reader,
    dir: &Path,
    newest: Option<&mut Newest>,
) -> Result<bool, Unreadable> {
    let mark = dir.join("scripts/recon-all.done");
    let Some(text) = reader.first_line(&mark, HEAD)? else {
        return Ok(false);
    };
    let good = says_success(&text);
    if let Some(newest) = newest.filter(|_| good) {
        newest.add_file(reader, &mark)?;
    }
    Ok(good)
}

/// True if the first line is neither empty nor an integer, as Python reads integers.
fn says_success(text: &[u8]) -> bool {
    static INTEGER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[+-]?\d+(_\d+)*$").ok());
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    !line.is_empty()
        && INTEGER
            .as_ref()
            .is_some_and(|integer| !integer.is_match(line))
}

/// True if the template was made from all of these runs.
pub(crate) fn names_all(
    reader: &Reader,
    base_tps: &Path,
    runs: &[String],
) -> Result<bool, Unreadable> {
    let Some(text) = reader.head(base_tps, HEAD)? else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&text);
    let time_points: BTreeSet<&str> = text.split_whitespace().collect();
    Ok(runs.iter().all(|run| time_points.contains(run.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_that_is_empty_or_an_exit_code_is_a_failure() {
        for (text, expected) in [
            (
                &b"------------------------------\nSUBJECT sub-01\n"[..],
                true,
            ),
            (b"done", true),
            (b"1.0\n", true),
            (b"0x1\n", true),
            (b"1 2\n", true),
            (b"_1\n", true),
            (b"\xff\xfe\n", true),
            (b"", false),
            (b"\n", false),
            (b"  \t\nSUBJECT\n", false),
            (b"0\n", false),
            (b"1", false),
            (b"+5\n", false),
            (b"-1\n", false),
            (b"  1  \r\n", false),
            (b"1_000\n", false),
            ("\u{0661}\n".as_bytes(), false),
        ] {
            assert_eq!(says_success(text), expected, "{text:?}");
        }
    }
}
