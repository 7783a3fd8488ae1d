//! Removes one subject from the log and its archives.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::archive;
use crate::base::durable;
use crate::model::bids::{SubjectLabel, is_of_label};
use crate::store::state_file::StateError;

/// A log or an archive, with its contents without the subject.
#[derive(Debug)]
pub(crate) struct Rewritten {
    path: PathBuf,
    is_archive: bool,
    before: Vec<u8>,
    after: Vec<u8>,
    /// The number of lines to remove or change.
    pub events: usize,
}

/// The log and its archives, except those that do not contain the subject.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn without(log: &Path, subject: &SubjectLabel) -> Result<Vec<Rewritten>, StateError> {
    let archives =
        archive::archives_of(log).map_err(StateError::io("list the archives of", log))?;
    let log = std::fs::canonicalize(log).unwrap_or_else(|_| log.to_owned());
    let mut found = Vec::new();
    let mut files = vec![(log, false)];
    files.extend(archives.into_iter().map(|path| (path, true)));
    for (path, is_archive) in files {
        let Some(before) = durable::read(&path).map_err(StateError::io("read", &path))? else {
            continue;
        };
        let text = match is_archive {
            true => archive::unpack(&before).map_err(StateError::io("unpack", &path))?,
            false => before.clone(),
        };
        let mut after = Vec::with_capacity(text.len());
        let mut events = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            match without_label(line, subject) {
                None => after.extend_from_slice(line),
                Some(other) => {
                    events += 1;
                    // A line about another subject is kept, without this subject's label.
                    let event: Option<Value> = serde_json::from_slice(line).ok();
                    let named = event
                        .as_ref()
                        .and_then(|event| event.get("subject")?.as_str());
                    if named != Some(subject.as_str()) {
                        after.extend(other);
                    }
                }
            }
        }
        if events > 0 {
            found.push(Rewritten {
                path,
                is_archive,
                before,
                after,
                events,
            });
        }
    }
    Ok(found)
}

impl Rewritten {
    /// Writes the new contents. Removes an archive that would be empty.
    ///
    /// # Errors
    /// It was changed meanwhile, or cannot be written.
    pub(crate) fn write(&self) -> Result<(), StateError> {
        let path = &self.path;
        if !self.is_archive {
            return archive::rewrite(path, &self.before, &self.after);
        }
        if self.after.is_empty() {
            return std::fs::remove_file(path).map_err(StateError::io("remove", path));
        }
        let bytes = archive::pack(&self.after).map_err(StateError::io("write", path))?;
        durable::replace(path, &bytes, Some(&self.before)).map_err(StateError::from)
    }
}

/// The text with a subject's label masked: `sub-0001` becomes `sub-xxxx`. `None` if the label is not in the text.
/// Longer labels that contain it are not masked.
pub(crate) fn without_label(text: &[u8], subject: &SubjectLabel) -> Option<Vec<u8>> {
    let label = subject.as_str().as_bytes();
    let is_letter = |at: Option<&u8>| at.is_some_and(|&at| is_of_label(at.into()));
    let pattern = regex::bytes::Regex::new(&regex::escape(subject.as_str())).ok()?;
    let places: Vec<usize> = pattern
        .find_iter(text)
        .map(|found| found.start())
        .filter(|&at| {
            let before = at.checked_sub(1).and_then(|at| text.get(at));
            !is_letter(before) && !is_letter(text.get(at + label.len()))
        })
        .collect();
    if places.is_empty() {
        return None;
    }
    let mut after = text.to_vec();
    for at in places {
        let own = at + SubjectLabel::PREFIX.len()..at + label.len();
        after.get_mut(own)?.fill(b'x');
    }
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_label_is_masked() {
        let subject = SubjectLabel::new("sub-01").unwrap();
        let without = |text: &str| {
            without_label(text.as_bytes(), &subject).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            without("fmriprep_sub-01_ses-2 /bids/sub-01/x sub-01,sub-01").unwrap(),
            "fmriprep_sub-xx_ses-2 /bids/sub-xx/x sub-xx,sub-xx"
        );
        assert_eq!(without("sub-010 xsub-01 sub-0 sub-01+2 01"), None);
    }
}
