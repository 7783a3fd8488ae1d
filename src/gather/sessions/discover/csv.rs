//! Sessions from a CSV file: subject, session and DICOM path per row.
//!
//! All values are read as text: a number reading would make `00012` and `12` one subject without a
//! word, and `1e3` another. The paths are used as they stand; the disk is not looked at.

mod ids;
mod lines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::regular::{read_regular, words};
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::labels::{LONGEST, have_room};
use crate::model::bids::session::{Dicom, Session};
use crate::model::bids::{SessionLabel, SubjectLabel};
use ids::{SESSION_WIDTH, SUBJECT_WIDTH, are_numbers, bare, value};

/// Column of the DICOM directories.
const DICOM_COL: &str = "dicom_path";
/// So many lines of a kind are shown in a message.
const SHOWN: usize = 3;

/// Why a sessions file cannot be used. Lines count from 1, the header's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sessions_file {}{problem}", .file.display())]
pub struct CsvError {
    file: PathBuf,
    /// What follows the file's name: ` is empty`, `, line 3: not UTF-8`.
    problem: String,
    pub hint: String,
}

/// Reads a sessions file.
///
/// # Errors
/// A file that cannot be read or is no table, lacks a column, or holds values that are no labels.
pub fn read(file: &Path, subject_col: &str, session_col: &str) -> Result<Discovery, CsvError> {
    let bytes = read_regular(file).map_err(|error| CsvError {
        file: file.to_owned(),
        problem: format!(" cannot be read: {}", words(&error)),
        hint: "correct 'sessions_file' in the configuration".to_owned(),
    })?;
    from_bytes(file, &bytes, subject_col, session_col)
}

fn from_bytes(
    file: &Path,
    bytes: &[u8],
    subject_col: &str,
    session_col: &str,
) -> Result<Discovery, CsvError> {
    let failed = |(problem, hint): (String, &str)| CsvError {
        file: file.to_owned(),
        problem,
        hint: hint.to_owned(),
    };
    let table = lines::read(bytes).map_err(failed)?;
    let wanted = [subject_col, session_col, DICOM_COL];
    let places = wanted.map(|wanted| table.header.iter().position(|name| name == wanted));
    let [Some(subject), Some(session), Some(dicom)] = places else {
        let missing = wanted
            .iter()
            .zip(places)
            .filter(|(_, place)| place.is_none());
        return Err(failed((
            format!(
                " has no column {} (found: {})",
                quoted(missing.map(|(name, _)| *name)),
                quoted(table.header.iter().map(String::as_str))
            ),
            "columns are separated by commas; 'subject_col' and 'session_col' of the configuration name two of them",
        )));
    };
    let values = |column: usize| {
        let records = table.records.iter();
        records.map(move |(_, values)| values.get(column).map_or("", String::as_str))
    };
    let mut rows = Rows {
        subjects_are_numbers: are_numbers(values(subject)),
        sessions_are_numbers: are_numbers(values(session)),
        ..Rows::default()
    };
    let ids = values(subject).zip(values(session)).zip(values(dicom));
    for (((subject, session), dicom), (line, _)) in ids.zip(&table.records) {
        rows.add(*line, subject, session, dicom);
    }
    rows.finish(file)
}

/// An id as it is written in the file, and where.
#[derive(Clone, Copy)]
struct Written<'a> {
    text: &'a str,
    line: usize,
}

/// Collects rows into sessions and things to report.
#[derive(Default)]
struct Rows<'a> {
    subjects_are_numbers: bool,
    sessions_are_numbers: bool,
    /// Each with the id and the path of its first row.
    sessions: BTreeMap<(SubjectLabel, SessionLabel), (Written<'a>, Option<&'a str>)>,
    subjects: BTreeMap<SubjectLabel, Written<'a>>,
    problems: Vec<String>,
    without_id: Vec<usize>,
    other_ids: Vec<String>,
    other_paths: Vec<String>,
    /// Ids that carry a prefix, which becomes a part of the label.
    prefixed: Vec<String>,
}

impl<'a> Rows<'a> {
    fn add(&mut self, line: usize, subject: &'a str, session: &'a str, dicom: &'a str) {
        let (Some(subject_id), Some(session_id)) = (value(subject), value(session)) else {
            self.without_id.push(line);
            return;
        };
        let subject = bare(subject_id, self.subjects_are_numbers);
        let session = bare(session_id, self.sessions_are_numbers);
        let subject = format!("{}{subject:0>SUBJECT_WIDTH$}", SubjectLabel::PREFIX);
        let session = format!("{}{session:0>SESSION_WIDTH$}", SessionLabel::PREFIX);
        let (subject, session) = (SubjectLabel::new(&subject), SessionLabel::new(&session));
        let (subject, session) = match (subject, session) {
            (Ok(subject), Ok(session)) => (subject, session),
            (subject, session) => {
                let bad = |what, id| format!("line {line}: {id:?} is no {what} label");
                self.problems
                    .extend(subject.err().map(|_| bad("subject", subject_id)));
                self.problems
                    .extend(session.err().map(|_| bad("session", session_id)));
                return;
            }
        };
        if !have_room(subject.as_str(), session.as_str()) {
            self.problems.push(format!(
                "line {line}: {subject} and {session} have more than {LONGEST} letters together, which is too \
                 long for the names of jobs and logs"
            ));
            return;
        }
        let dicom = value(dicom).map(|_| dicom);
        if dicom.is_some_and(|path| path.contains('\0')) {
            self.problems
                .push(format!("line {line}: {DICOM_COL} holds a NUL"));
            return;
        }
        for (id, label, prefix) in [
            (subject_id, subject.as_str(), SubjectLabel::PREFIX),
            (session_id, session.as_str(), SessionLabel::PREFIX),
        ] {
            if id.starts_with(prefix) {
                self.prefixed
                    .push(format!("'{id}' is {label} (line {line})"));
            }
        }
        let text = subject_id;
        let first = self.subjects.entry(subject.clone());
        let first = *first.or_insert(Written { text, line });
        self.compare_ids(first, Written { text, line }, subject.as_str());
        let (text, what) = (session_id, format!("{session} of {subject}"));
        let place = format!("{subject} {session}");
        // The first row of a session counts.
        let first = self.sessions.entry((subject, session));
        let (first, path) = *first.or_insert((Written { text, line }, dicom));
        self.compare_ids(first, Written { text, line }, &what);
        if path != dicom {
            self.other_paths.push(format!(
                "{place} (line {} counts, line {line} does not)",
                first.line
            ));
        }
    }

    /// Notes two ids that become one label.
    fn compare_ids(&mut self, first: Written<'_>, other: Written<'_>, what: &str) {
        if first.text != other.text {
            self.other_ids.push(format!(
                "'{}' (line {}) and '{}' (line {}) are both {what}",
                first.text, first.line, other.text, other.line
            ));
        }
    }

    fn finish(self, file: &Path) -> Result<Discovery, CsvError> {
        if !self.problems.is_empty() {
            return Err(CsvError {
                file: file.to_owned(),
                problem: format!(": {}", first(&self.problems, "; ")),
                hint: format!(
                    "labels are letters, digits and '+' (blanks, '-' and '_' are removed), at most {LONGEST} for \
                     subject and session together"
                ),
            });
        }
        let mut notes = Vec::new();
        let mut note = |count: usize, one: &str, many: &str, list: String| {
            if count > 0 {
                let what = if count == 1 { one } else { many };
                notes.push(format!("{}: {count} {what}: {list}", file.display()));
            }
        };
        note(
            self.without_id.len(),
            "row has no subject or session and was left out",
            "rows have no subject or session and were left out",
            format!("line {}", first(&self.without_id, ", ")),
        );
        note(
            self.prefixed.len(),
            "id has a prefix already, which became a part of the label",
            "ids have a prefix already, which became a part of the label",
            first(&self.prefixed, "; "),
        );
        note(
            self.other_ids.len(),
            "id is written in two ways",
            "ids are written in two ways",
            first(&self.other_ids, "; "),
        );
        note(
            self.other_paths.len(),
            "row repeats a session with another dicom_path",
            "rows repeat a session with another dicom_path",
            first(&self.other_paths, "; "),
        );
        let sessions = self.sessions.into_iter();
        Ok(Discovery {
            sessions: sessions
                .map(|((subject, session), (_, dicom))| Session {
                    subject,
                    session,
                    dicom: dicom.map_or(Dicom::Missing, |path| Dicom::At(Path::new(path).into())),
                })
                .collect(),
            notes,
            near: Vec::new(),
            unreadable: Vec::new(),
        })
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    names.join(", ")
}

fn first<T: ToString>(items: &[T], separator: &str) -> String {
    let shown: Vec<String> = items.iter().take(SHOWN).map(T::to_string).collect();
    let shown = shown.join(separator);
    match items.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown}{separator}and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests;
