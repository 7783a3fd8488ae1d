//! `include` and `exclude`: entries in the configuration, or the path of a file of entries.
//!
//! The file itself is read by [`crate::model::bids::cohort`], when sessions are looked for.

use super::reader::{Fields, Value};
use crate::model::bids::cohort::{Entry, ListSource};
use crate::model::bids::{CohortSource, SubjectLabel};

pub(super) fn read(top: &Fields<'_>) -> CohortSource {
    let include = top.maybe("include", |value| list("include", value));
    if let Some(ListSource::Entries(entries)) = &include
        && entries.is_empty()
        && let Some(value) = top.get("include")
    {
        value.problem_with(
            "names no session: nothing would ever be submitted",
            "leave the key out to include everything",
        );
    }
    CohortSource {
        include,
        exclude: top.maybe("exclude", |value| list("exclude", value)),
    }
}

/// A single text is a path, unless it begins as a subject does.
fn list(key: &'static str, value: &Value<'_>) -> Option<ListSource> {
    let is_path = value.is_scalar()
        && !value
            .raw("an entry or a path")?
            .starts_with(SubjectLabel::PREFIX);
    if is_path {
        return value.path().map(ListSource::File);
    }
    let entries = value.one_or_more();
    let read = entries.iter().filter_map(|entry| {
        let text = entry.raw("a subject such as sub-0001, or a session such as sub-0001/ses-01")?;
        match Entry::parse(key, text) {
            Ok(_) => Some((text.to_owned(), entry.at.line)),
            Err(error) => {
                entry.problem_with(error.to_string(), error.hint());
                None
            }
        }
    });
    let read: Vec<_> = read.collect();
    // What is wrong with an entry has been told.
    (read.len() == entries.len()).then_some(ListSource::Entries(read))
}
