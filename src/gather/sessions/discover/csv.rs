//! Sessions from a CSV file: subject, session and DICOM path per row.
//!
//! All values are read as text: a number reading would make `00012` and `12` one subject without a
//! word, and `1e3` another. The paths are used as they stand; the disk is not looked at.

mod ids;
mod lines;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polars::prelude::{ChunkedArray, DataFrame, PolarsError, StringType};
use polars_io::SerReader;
use polars_io::csv::read::CsvReadOptions;

use crate::base::regular::{read_regular, words};
use crate::base::threads::with_threads;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::labels::{LONGEST, have_room};
use crate::model::bids::session::{Dicom, Session};
use crate::model::bids::{SessionLabel, SubjectLabel};
use ids::{SESSION_WIDTH, SUBJECT_WIDTH, are_numbers, bare, value};

/// Column of the DICOM directories.
const DICOM_COL: &str = "dicom_path";
/// So many lines of a kind are shown in a message.
const SHOWN: usize = 3;

/// Says why a sessions file cannot be used. Lines count from 1, the header's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    #[error("sessions_file {} cannot be read: {error}", .file.display())]
    Unreadable { file: PathBuf, error: String },
    #[error("sessions_file {} is empty", .file.display())]
    Empty { file: PathBuf },
    #[error("sessions_file {}, line {line}: not UTF-8", .file.display())]
    NotUtf8 { file: PathBuf, line: usize },
    #[error("sessions_file {}, line {line}: a quotation mark is never closed", .file.display())]
    OpenQuote { file: PathBuf, line: usize },
    #[error("sessions_file {}, line {line}: {found} values where the header names {expected} columns", .file.display())]
    ValueCount {
        file: PathBuf,
        line: usize,
        found: usize,
        expected: usize,
    },
    #[error("sessions_file {} has no column {} (found: {})", .file.display(), quoted(.missing), quoted(.found))]
    MissingColumns {
        file: PathBuf,
        missing: Vec<String>,
        found: Vec<String>,
    },
    #[error("sessions_file {}: {}", .file.display(), first(.problems, "; "))]
    Values {
        file: PathBuf,
        /// A sentence per line, with its number.
        problems: Vec<String>,
    },
    #[error("sessions_file {} is not a table: {error}", .file.display())]
    Table { file: PathBuf, error: String },
}

impl CsvError {
    /// Says what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { .. } => "correct 'sessions_file' in the configuration".to_owned(),
            Self::Empty { .. } => {
                "the first line names the columns; a file with that line alone has no sessions"
                    .to_owned()
            }
            Self::NotUtf8 { .. } => "save the file as CSV in UTF-8".to_owned(),
            Self::ValueCount { found, expected, .. } if found < expected => {
                "the last line seems to be cut off: write the file again, elsewhere, and move it into place".to_owned()
            }
            Self::OpenQuote { .. } | Self::ValueCount { .. } | Self::Table { .. } => {
                "values with commas, quotation marks or line ends stand in \"...\"".to_owned()
            }
            Self::MissingColumns { .. } => {
                "columns are separated by commas; 'subject_col' and 'session_col' of the configuration name two of them".to_owned()
            }
            Self::Values { .. } => {
                format!(
                    "labels are letters, digits and '+' (blanks, '-' and '_' are removed), at most {LONGEST} for \
                     subject and session together"
                )
            }
        }
    }
}

/// Reads a sessions file.
///
/// # Errors
/// A file that cannot be read or is no table, lacks a column, or holds values that are no labels.
pub fn read(file: &Path, subject_col: &str, session_col: &str) -> Result<Discovery, CsvError> {
    let bytes = read_regular(file).map_err(|error| CsvError::Unreadable {
        file: file.to_owned(),
        error: words(&error),
    })?;
    from_bytes(file, &bytes, subject_col, session_col)
}

fn from_bytes(
    file: &Path,
    bytes: &[u8],
    subject_col: &str,
    session_col: &str,
) -> Result<Discovery, CsvError> {
    let records = lines::records(file, bytes)?;
    let found = records.header.clone();
    let missing: Vec<String> = [subject_col, session_col, DICOM_COL]
        .into_iter()
        .filter(|wanted| !found.iter().any(|name| name == wanted))
        .map(str::to_owned)
        .collect();
    if !missing.is_empty() {
        return Err(CsvError::MissingColumns {
            file: file.to_owned(),
            missing,
            found,
        });
    }
    if records.lines.is_empty() {
        return Ok(Discovery::default());
    }
    let not_a_table = |error: String| CsvError::Table {
        file: file.to_owned(),
        error,
    };
    let table = with_threads(|| table(records.text))
        .map_err(|error| CsvError::Unreadable {
            file: file.to_owned(),
            error,
        })?
        .map_err(|error| not_a_table(error.to_string()))?;
    if table.height() != records.lines.len() {
        return Err(not_a_table(format!(
            "{} rows where {} were expected",
            table.height(),
            records.lines.len()
        )));
    }
    let column = |name: &str| column(&table, name).map_err(|error| not_a_table(error.to_string()));
    let (subjects, sessions) = (column(subject_col)?, column(session_col)?);
    let mut rows = Rows {
        subjects_are_numbers: are_numbers(subjects),
        sessions_are_numbers: are_numbers(sessions),
        ..Rows::default()
    };
    let values = subjects
        .iter()
        .zip(sessions.iter())
        .zip(column(DICOM_COL)?.iter());
    for (((subject, session), dicom), line) in values.zip(records.lines) {
        rows.add(line, subject, session, dicom);
    }
    rows.finish(file)
}

/// Reads all columns as text.
fn table(text: Vec<u8>) -> Result<DataFrame, PolarsError> {
    CsvReadOptions::default()
        .with_has_header(true)
        .with_infer_schema_length(Some(0))
        .with_n_threads(Some(1))
        .into_reader_with_file_handle(Cursor::new(text))
        .finish()
}

fn column<'a>(
    table: &'a DataFrame,
    name: &str,
) -> Result<&'a ChunkedArray<StringType>, PolarsError> {
    table.column(name)?.str()
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
    fn add(
        &mut self,
        line: usize,
        subject: Option<&str>,
        session: Option<&str>,
        dicom: Option<&str>,
    ) {
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
        let dicom = dicom.filter(|path| value(Some(path)).is_some());
        let dicom = dicom.map(str::to_owned);
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
            return Err(CsvError::Values {
                file: file.to_owned(),
                problems: self.problems,
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

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
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
