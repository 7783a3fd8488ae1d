//! Sessions from a CSV or TSV file: subject, session and DICOM path per row.
//!
//! All values are text: read as numbers, `00012` and `12` would silently become one subject, and `1e3` another one.
//! Paths are used as written; the disk is not read.

mod lines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::regular::{error_text, read_regular};
use crate::base::text::{few, plural};
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{Dicom, LONGEST, Session, have_room};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use lines::{Problem, table};

/// Column of the DICOM directories.
const DICOM_COL: &str = "dicom_path";
/// The defaults of `subject_col` and `session_col`, which columns of BIDS can replace.
const SUBJECT_COL: &str = "UID";
const SESSION_COL: &str = "ScanID";
/// Column of the subjects in `participants.tsv` of BIDS and in nipoppy's manifest.
const PARTICIPANT_COL: &str = "participant_id";
const SESSION_ID_COL: &str = "session_id";
/// Column of the planned visits in nipoppy's manifest: a visit without imaging has no session.
const VISIT_COL: &str = "visit_id";
/// The number of lines of a kind in a message.
const SHOWN: usize = 3;

/// The digits of padded labels.
const SUBJECT_WIDTH: usize = 4;
const SESSION_WIDTH: usize = 12;

/// The words that pandas reads as missing values (`pandas.read_csv`, `na_values`).
const NA_WORDS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Why a sessions file cannot be used. Lines count from 1, the header's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sessions_file {}{problem}", .file.display())]
pub struct CsvError {
    file: PathBuf,
    /// The text after the file's name: ` is empty`, `, line 3: not UTF-8`.
    problem: String,
    pub hint: String,
}

/// # Errors
/// A file that cannot be read, is not a table, lacks a column, or contains invalid labels.
pub fn read(
    config: &Config,
    file: &Path,
    subject_col: &str,
    session_col: &str,
) -> Result<Discovery, CsvError> {
    let bytes = read_regular(file).map_err(|error| CsvError {
        file: file.to_owned(),
        problem: format!(" cannot be read: {}", error_text(&error)),
        hint: "correct 'sessions_file' in the configuration".to_owned(),
    })?;
    from_bytes(config, file, &bytes, [subject_col, session_col])
}

fn from_bytes(
    config: &Config,
    file: &Path,
    bytes: &[u8],
    cols: [&str; 2],
) -> Result<Discovery, CsvError> {
    let failed = |(problem, hint): Problem| CsvError {
        file: file.to_owned(),
        problem,
        hint: hint.to_owned(),
    };
    let is_tsv = file.extension().is_some_and(|end| end == "tsv");
    let (header, records) = table(bytes, is_tsv).map_err(failed)?;
    let columns = Columns::find(&header, cols).map_err(failed)?;
    let value_at = |record: usize, column: Option<usize>| {
        let values = records.get(record).map(|(_, values)| values);
        let value = column.and_then(|column| values?.get(column));
        value.map_or("", String::as_str)
    };
    // The Python program also decided by column.
    let padding = |width, column: Option<usize>| {
        let mut ids = (0..records.len()).filter_map(|record| value(value_at(record, column)));
        let is_number = ids.all(|id| whole_number(id).is_some());
        config.pad_ids.then_some((width, is_number))
    };
    let mut rows = Rows {
        subject_padding: padding(SUBJECT_WIDTH, Some(columns.subject)),
        session_padding: padding(SESSION_WIDTH, columns.session),
        has_plans: columns.has_plans,
        ..Rows::default()
    };
    for (record, (line, _)) in records.iter().enumerate() {
        let subject = value_at(record, Some(columns.subject));
        let session = columns.session.map(|_| value_at(record, columns.session));
        rows.add(*line, subject, session, value_at(record, columns.dicom));
    }
    let root = columns.dicom.is_none().then_some(&*config.dicom_root);
    rows.finish(file, root)
}

/// The relevant columns.
struct Columns {
    subject: usize,
    /// `None` if the file lists subjects, each of which is one session without label.
    session: Option<usize>,
    /// `None` if DICOM directories are below `dicom_root`.
    dicom: Option<usize>,
    /// A row without session is a planned visit.
    has_plans: bool,
}

impl Columns {
    /// Columns of BIDS only replace the defaults: a column that the configuration names must exist.
    fn find(header: &[String], [subject_col, session_col]: [&str; 2]) -> Result<Self, Problem> {
        let place = |wanted: &str| header.iter().position(|name| name == wanted);
        let has = |name: &str| place(name).is_some();
        let may_be_other = |wanted, default| wanted == default && !has(wanted);
        let subject_col = match may_be_other(subject_col, SUBJECT_COL) && has(PARTICIPANT_COL) {
            true => PARTICIPANT_COL,
            false => subject_col,
        };
        let is_bids = subject_col == PARTICIPANT_COL;
        let session_col = match is_bids && may_be_other(session_col, SESSION_COL) {
            true => [SESSION_ID_COL, VISIT_COL]
                .into_iter()
                .find(|name| has(name)),
            false => Some(session_col),
        };
        let dicom_col = Some(DICOM_COL).filter(|name| !is_bids || has(name));
        let wanted = [Some(subject_col), session_col, dicom_col]
            .into_iter()
            .flatten();
        let missing: Vec<&str> = wanted.filter(|name| !has(name)).collect();
        match place(subject_col).filter(|_| missing.is_empty()) {
            Some(subject) => Ok(Self {
                subject,
                session: session_col.and_then(place),
                dicom: dicom_col.and_then(place),
                has_plans: session_col == Some(SESSION_ID_COL) && has(VISIT_COL),
            }),
            None => Err((
                format!(
                    " has no column '{}' (found: '{}')",
                    missing.join("', '"),
                    header.join("', '")
                ),
                "separate columns by commas, in a .tsv file by tabs; 'subject_col' and 'session_col' of the \
                 configuration name two of them",
            )),
        }
    }
}

/// An id as written in the file, and its line.
type Written<'a> = (&'a str, usize);

/// The sessions and problems found so far.
#[derive(Default)]
struct Rows<'a> {
    /// The digits of a label and whether the column contains only numbers; `None` if ids are used as written.
    subject_padding: Option<(usize, bool)>,
    session_padding: Option<(usize, bool)>,
    has_plans: bool,
    /// With the id and the path of the first row.
    sessions: BTreeMap<(SubjectLabel, SessionLabel), (Written<'a>, Option<&'a str>)>,
    subjects: BTreeMap<SubjectLabel, Written<'a>>,
    problems: Vec<String>,
    without_id: Vec<String>,
    other_ids: Vec<String>,
    other_paths: Vec<String>,
}

impl<'a> Rows<'a> {
    fn add(&mut self, line: usize, subject: &'a str, session: Option<&'a str>, dicom: &'a str) {
        let ids = (value(subject), session.map_or(Some(""), value));
        let (Some(subject_id), Some(session_id)) = ids else {
            if !self.has_plans || value(subject).is_none() {
                self.without_id.push(line.to_string());
            }
            return;
        };
        let subject = label(subject_id, SubjectLabel::PREFIX, self.subject_padding);
        let subject = SubjectLabel::new(&subject);
        let session = match session_id {
            "" => Ok(SessionLabel::none()),
            id => SessionLabel::new(&label(id, SessionLabel::PREFIX, self.session_padding)),
        };
        let mut problem = |text: String| self.problems.push(format!("line {line}: {text}"));
        let (subject, session) = match (subject, session) {
            (Ok(subject), Ok(session)) => (subject, session),
            (subject, session) => {
                let bad = |what, id| format!("{id:?} is not a valid {what} label");
                if subject.is_err() {
                    problem(bad("subject", subject_id));
                }
                if session.is_err() {
                    problem(bad("session", session_id));
                }
                return;
            }
        };
        if !have_room(subject.as_str(), session.as_str()) {
            return problem(format!(
                "{subject} and {session} together have more than {LONGEST} letters, which is too long for the names of \
                 jobs and logs"
            ));
        }
        let dicom = value(dicom).map(|_| dicom);
        if dicom.is_some_and(|path| path.contains('\0')) {
            return problem(format!("{DICOM_COL} contains a NUL"));
        }
        let written = (subject_id, line);
        let first = *self.subjects.entry(subject.clone()).or_insert(written);
        self.compare_ids(first, written, subject.as_str());
        let written = (session_id, line);
        let (place, what) = (
            format!("{subject} {session}"),
            format!("{session} of {subject}"),
        );
        // The first row of a session counts.
        let first = self.sessions.entry((subject, session));
        let (first, path) = *first.or_insert((written, dicom));
        self.compare_ids(first, written, &what);
        if path != dicom {
            self.other_paths.push(format!(
                "{place} (line {} is used, line {line} ignored)",
                first.1
            ));
        }
    }

    /// Reports two ids that give the same label.
    fn compare_ids(&mut self, first: Written<'_>, other: Written<'_>, what: &str) {
        if first.0 != other.0 {
            let text = |(id, line): Written<'_>| format!("'{id}' (line {line})");
            let (first, other) = (text(first), text(other));
            self.other_ids
                .push(format!("{first} and {other} are both {what}"));
        }
    }

    /// `root` is given if the file has no column of paths.
    fn finish(self, file: &Path, root: Option<&Path>) -> Result<Discovery, CsvError> {
        if !self.problems.is_empty() {
            return Err(CsvError {
                file: file.to_owned(),
                problem: format!(": {}", few(&self.problems, SHOWN)),
                hint: format!(
                    "use letters, digits and '+', at most {LONGEST} for subject and session together (spaces, '-' and \
                     '_' are removed unless the id has a prefix or 'pad_ids: no' is set)"
                ),
            });
        }
        let rows = |list: &[String]| plural(list.len(), "row");
        let (without_id, other_paths) = (rows(&self.without_id), rows(&self.other_paths));
        let notes = [
            (
                format!("skipped {without_id} without subject or session: line"),
                &self.without_id,
            ),
            (
                "different ids for the same label:".to_owned(),
                &self.other_ids,
            ),
            (
                format!("ignored {other_paths} with another dicom_path:"),
                &self.other_paths,
            ),
        ];
        let notes = notes.into_iter().filter(|(_, list)| !list.is_empty());
        let notes = notes
            .map(|(what, list)| format!("{}: {what} {}", file.display(), few(list, SHOWN)))
            .collect();
        let sessions = self.sessions.into_iter();
        Ok(Discovery {
            sessions: sessions
                .map(|((subject, session), (_, dicom))| Session {
                    dicom: match (root.map(|root| root.join(&subject)), dicom) {
                        (Some(path), _) if session.is_none() => Dicom::At(path.into()),
                        (Some(path), _) => Dicom::At(path.join(&session).into()),
                        (None, Some(path)) => Dicom::At(Path::new(path).into()),
                        (None, None) => Dicom::Missing,
                    },
                    subject,
                    session,
                })
                .collect(),
            notes,
            ..Discovery::default()
        })
    }
}

/// `None` for pandas' NA words and blank text.
fn value(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !NA_WORDS.contains(&text)).then_some(text)
}

/// A number's digits without a zero fraction (`12.0`).
fn whole_number(id: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = id.split_once('.').unwrap_or((id, ""));
    (is_number(whole) && fraction.bytes().all(|b| b == b'0')).then_some(whole)
}

/// The label of an id, which may be invalid. An id with the prefix already is a label.
///
/// Padding removes spaces, `-` and `_`, which labels cannot contain. In a column of numbers, an id loses its leading
/// zeros; in a column of texts they are part of the id.
fn label(id: &str, prefix: &str, padding: Option<(usize, bool)>) -> String {
    let Some((width, is_number)) = padding.filter(|_| !id.starts_with(prefix)) else {
        return format!("{}{id}", if id.starts_with(prefix) { "" } else { prefix });
    };
    let bare: String = match whole_number(id).filter(|_| is_number) {
        Some(whole) => whole.trim_start_matches('0').to_owned(),
        None => id
            .chars()
            .filter(|c| !matches!(c, '-' | '_') && !c.is_whitespace())
            .collect(),
    };
    format!("{prefix}{bare:0>width$}")
}

#[cfg(test)]
mod tests;
