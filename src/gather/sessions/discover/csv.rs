//! Sessions from a CSV file: subject, session and DICOM path per row.
//!
//! All values are read as text: a number reading would make `00012` and `12` one subject without a
//! word, and `1e3` another. The paths are used as they stand; the disk is not looked at.

mod ids;
mod lines;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Holds an id as it stands in the file, and where.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    line: usize,
}

impl Written {
    fn new(text: &str, line: usize) -> Self {
        Self {
            text: text.to_owned(),
            line,
        }
    }
}

/// Holds what was taken over of the first row of a pair.
#[derive(Debug)]
struct First {
    written_session: Written,
    dicom: Option<String>,
}

/// Collects rows into sessions and things to report.
#[derive(Debug, Default)]
struct Rows {
    subjects_are_numbers: bool,
    sessions_are_numbers: bool,
    sessions: BTreeMap<(SubjectLabel, SessionLabel), First>,
    subjects: BTreeMap<SubjectLabel, Written>,
    problems: Vec<String>,
    without_id: Vec<usize>,
    other_ids: Vec<String>,
    other_paths: Vec<String>,
    /// Ids that carry a prefix, which becomes a part of the label.
    prefixed: Vec<String>,
}

impl Rows {
    fn add(&mut self, line: usize, subject: &str, session: &str, dicom: &str) {
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
        let dicom = value(dicom).map(|_| dicom.to_owned());
        if dicom.as_ref().is_some_and(|path| path.contains('\0')) {
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
        self.add_subject(&subject, Written::new(subject_id, line));
        self.add_session((subject, session), Written::new(session_id, line), dicom);
    }

    /// Two ids of one subject are told.
    fn add_subject(&mut self, subject: &SubjectLabel, written: Written) {
        match self.subjects.entry(subject.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(written);
            }
            Entry::Occupied(entry) if entry.get().text != written.text => {
                let other = entry.get();
                self.other_ids.push(format!(
                    "'{}' (line {}) and '{}' (line {}) are both {subject}",
                    other.text, other.line, written.text, written.line
                ));
            }
            Entry::Occupied(_) => {}
        }
    }

    /// The first row of a session counts; where a later one differs is told.
    fn add_session(
        &mut self,
        session: (SubjectLabel, SessionLabel),
        written: Written,
        dicom: Option<String>,
    ) {
        match self.sessions.entry(session) {
            Entry::Vacant(entry) => {
                entry.insert(First {
                    written_session: written,
                    dicom,
                });
            }
            Entry::Occupied(entry) => {
                let (subject, session) = entry.key();
                let first = entry.get();
                let other = &first.written_session;
                let line = written.line;
                if other.text != written.text {
                    self.other_ids.push(format!(
                        "'{}' (line {}) and '{}' (line {line}) are both {session} of {subject}",
                        other.text, other.line, written.text
                    ));
                }
                if first.dicom != dicom {
                    self.other_paths.push(format!(
                        "{subject} {session} (line {} counts, line {line} does not)",
                        other.line
                    ));
                }
            }
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
                .map(|((subject, session), first)| Session {
                    subject,
                    session,
                    dicom: match first.dicom {
                        Some(path) => Dicom::At(Arc::from(Path::new(&path))),
                        None => Dicom::Missing,
                    },
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
