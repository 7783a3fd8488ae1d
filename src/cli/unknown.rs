//! What is said of subjects, sessions and procedures that are named and are not there: the same in every command.

use std::collections::BTreeSet;

use super::args::SelectArgs;
use super::error::Failure;
use super::naming::Named;
use super::output::Printer;
use crate::bids::{Discovery, SessionLabel, SubjectLabel, near};
use crate::manifest::Selection;
use crate::manifest::selection::SelectionError;
use crate::state::{State, TaskKey};

/// So many names are shown of many.
const SHOWN: usize = 3;

/// Holds the subjects and sessions that a command knows of.
pub struct Known<'a> {
    /// Some of them several times, in no order: of most calls nothing more is wanted than this list.
    sessions: Vec<(&'a str, &'a str)>,
    /// Directories that are nearly labels, and what they were meant to be.
    near: &'a [(String, String)],
    place: &'static str,
    /// False: there may be others.
    is_all: bool,
}

/// Says that something is not there, and what may have been meant.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    pub message: String,
    pub hint: String,
}

impl<'a> Known<'a> {
    /// For commands that look at the data.
    pub fn in_study(found: &'a Discovery) -> Self {
        let sessions = found.sessions.iter();
        Self {
            sessions: sessions
                .map(|session| (session.subject.as_str(), session.session.as_str()))
                .collect(),
            near: &found.near,
            place: "in the study",
            // What could not be read may hold them.
            is_all: found.unreadable.is_empty(),
        }
    }

    /// For commands that look at rows only.
    pub fn on_record(state: &'a State) -> Self {
        Self::among(state.rows().iter().map(|row| &row.key))
    }

    /// For commands that look at what was.
    pub fn among(keys: impl IntoIterator<Item = &'a TaskKey>) -> Self {
        let sessions = keys.into_iter().map(|key| (&*key.subject, &*key.session));
        let sessions: Vec<_> = sessions.collect();
        Self {
            near: &[],
            place: "on record",
            // Before the first job nobody is on record.
            is_all: !sessions.is_empty(),
            sessions,
        }
    }

    /// Returns what a selection names and nobody knows.
    pub fn unknown(&self, subjects: &[String], sessions: &[String]) -> Vec<Unknown> {
        if !self.is_all {
            return Vec::new();
        }
        let mut unknown: Vec<Unknown> = subjects
            .iter()
            .filter(|value| {
                let selected = selection(std::slice::from_ref(value), &[]);
                !self.any(|subject, _| selected.contains_subject(subject))
            })
            .map(|value| self.no_subject(value))
            .collect();
        if !unknown.is_empty() {
            return unknown;
        }
        let of_subjects = selection(subjects, &[]);
        unknown.extend(
            sessions
                .iter()
                .filter(|value| {
                    let selected = selection(&[], std::slice::from_ref(value));
                    !self.any(|subject, session| {
                        of_subjects.contains_subject(subject) && selected.contains_session(session)
                    })
                })
                .map(|value| self.no_session(value, subjects, &of_subjects)),
        );
        unknown
    }

    /// The same of words that name a task.
    pub fn unknown_of(&self, named: &Named) -> Option<Unknown> {
        let session: Vec<String> = named.session.iter().cloned().collect();
        let unknown = self.unknown(std::slice::from_ref(&named.subject), &session);
        unknown.into_iter().next()
    }

    fn any(&self, is_meant: impl Fn(&str, &str) -> bool) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|(subject, session)| is_meant(subject, session))
    }

    fn no_subject(&self, value: &str) -> Unknown {
        let labels = self.sessions.iter().map(|(subject, _)| *subject);
        let label = label(value, SubjectLabel::PREFIX);
        let hint = self.meant(&label, labels, |_| true);
        Unknown {
            message: self.none("subject", &label, ""),
            hint: hint.unwrap_or_else(|| {
                "`snbb-scheduler session-status` lists the subjects and sessions of the study"
                    .to_owned()
            }),
        }
    }

    fn no_session(&self, value: &str, subjects: &[String], of_subjects: &Selection) -> Unknown {
        let sessions = self.sessions.iter();
        let sessions = sessions.filter(|(subject, _)| of_subjects.contains_subject(subject));
        let labels: BTreeSet<&str> = sessions.map(|(_, session)| *session).collect();
        let label = label(value, SessionLabel::PREFIX);
        let of = match subjects {
            [subject] => format!(" of {}", self::label(subject, SubjectLabel::PREFIX)),
            _ => String::new(),
        };
        let named: Vec<&str> = labels.iter().copied().filter(|l| !l.is_empty()).collect();
        let hint = self.meant(&label, named.iter().copied(), |subject| {
            of_subjects.contains_subject(subject)
        });
        let hint = hint.unwrap_or_else(|| match named.as_slice() {
            [] => format!("no session is {}: leave it out", self.place),
            all if !of.is_empty() => format!("its sessions are {}", few(all)),
            _ => "`snbb-scheduler session-status` lists the sessions of the study".to_owned(),
        });
        Unknown {
            message: self.none("session", &label, &of),
            hint,
        }
    }

    fn none(&self, what: &str, label: &str, of: &str) -> String {
        let place = self.place;
        if is_pattern(label) {
            return format!("no {what}{of} {place} matches {label}");
        }
        format!("there is no {what} {label}{of} {place}")
    }

    /// `is_meant` says of which subjects a directory may be that was left alone.
    fn meant<'b>(
        &self,
        wrong: &str,
        labels: impl Iterator<Item = &'b str>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Option<String> {
        // As written: `ses_1` is read as `ses-ses_1`.
        let (level, written) = wrong.split_once('-').unwrap_or(("", wrong));
        let left_alone = self.near.iter().find(|(name, meant)| {
            let (above, own) = match name.split_once('/') {
                Some((above, own)) => (Some(above), own),
                None => (None, name.as_str()),
            };
            let is_of_level = meant.split_once('-').is_some_and(|(of, _)| of == level);
            let is_own = is_of_level && (meant == wrong || own == written);
            // A subject whose sessions are all nearly so is none.
            above.is_none_or(&is_meant) && (is_own || above == Some(wrong))
        });
        if let Some((name, meant)) = left_alone {
            return Some(format!(
                "the directory {name} was left alone: rename it, if it is {meant}"
            ));
        }
        let similar = near::similar(wrong, labels, SHOWN);
        (!similar.is_empty()).then(|| format!("did you mean {}?", similar.join(", ")))
    }
}

/// Tells which subjects and sessions of a selection there are not. True if there was something to tell.
pub fn tell(known: &Known<'_>, select: &SelectArgs, printer: &mut Printer) -> bool {
    let unknown = known.unknown(&select.subjects, &select.sessions);
    for Unknown { message, hint } in &unknown {
        printer.warning(message);
        printer.hint(hint);
    }
    !unknown.is_empty()
}

/// Tells what is odd about the names in the data: for commands that show or work on all sessions.
pub fn tell_odd_names(found: &Discovery, root: &std::path::Path, printer: &mut Printer) {
    for note in &found.notes {
        printer.note(note);
    }
    if found.near.is_empty() {
        return;
    }
    let names: Vec<String> = found
        .near
        .iter()
        .map(|(name, meant)| format!("{name} ({meant}?)"))
        .collect();
    let (root, few) = (root.display(), few(&names));
    printer.note(&match names.len() {
        1 => format!("1 directory below {root} has nearly a BIDS name and was left alone: {few}"),
        count => format!(
            "{count} directories below {root} have nearly BIDS names and were left alone: {few}"
        ),
    });
}

/// Says what is known of a procedure that is selected and is not in the configuration.
pub fn removed(error: SelectionError, state: &State) -> Failure {
    let SelectionError::UnknownProcedure { value, .. } = &error else {
        return error.into();
    };
    let selected = Selection::new(
        &[],
        &[],
        std::slice::from_ref(value),
        std::slice::from_ref(&value.as_str()),
    );
    let Ok(selected) = selected else {
        return error.into();
    };
    let rows = state.rows().iter();
    let rows = rows.filter(|row| selected.contains_procedure(&row.key.procedure));
    match rows.count() {
        0 => error.into(),
        count => Failure::Usage {
            message: error.to_string(),
            hint: removed_hint(value, count),
        },
    }
}

/// Says what can be done about rows of a procedure that left the configuration.
fn removed_hint(procedure: &str, rows: usize) -> String {
    let stand = match rows {
        1 => "1 row of it stands".to_owned(),
        rows => format!("{rows} rows of it stand"),
    };
    format!(
        "{stand} in the state, from before it left the configuration: `snbb-scheduler status --procedure '{procedure}'` \
         shows them, `snbb-scheduler clean --rows --older-than 90d` puts old ones aside; to work with it again, put it back"
    )
}

fn selection(subjects: &[String], sessions: &[String]) -> Selection {
    // The whole selection was read before: a value that cannot be one did not come so far.
    Selection::new(subjects, sessions, &[], &[]).unwrap_or_default()
}

fn label(value: &str, prefix: &str) -> String {
    match value.starts_with(prefix) || value.starts_with('*') {
        true => value.to_owned(),
        false => format!("{prefix}{value}"),
    }
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

fn few<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<'a>(near: &'a [(String, String)]) -> Known<'a> {
        Known {
            sessions: [
                ("sub-0001", "ses-01"),
                ("sub-0001", "ses-02"),
                ("sub-0002", "ses-01"),
            ]
            .into(),
            near,
            place: "in the study",
            is_all: true,
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_what_may_have_been_meant() {
        let near = [
            ("0003".to_owned(), "sub-0003".to_owned()),
            ("sub-0002/ses_5".to_owned(), "ses-5".to_owned()),
        ];
        for (subjects, sessions, message, hint) in [
            (
                "99",
                "",
                "there is no subject sub-99 in the study",
                "`snbb-scheduler session-status`",
            ),
            (
                "sub-1",
                "",
                "there is no subject sub-1 in the study",
                "did you mean sub-0001?",
            ),
            (
                "9*",
                "",
                "no subject in the study matches sub-9*",
                "session-status",
            ),
            (
                "1",
                "77",
                "there is no subject sub-1 in the study",
                "did you mean sub-0001?",
            ),
            (
                "0001",
                "03",
                "there is no session ses-03 of sub-0001 in the study",
                "its sessions are ses-01, ses-02",
            ),
            (
                "0002",
                "02",
                "there is no session ses-02 of sub-0002 in the study",
                "its sessions are ses-01",
            ),
            (
                "0002",
                "5",
                "there is no session ses-5 of sub-0002 in the study",
                "the directory sub-0002/ses_5 was left alone",
            ),
            (
                "0002",
                "ses_5",
                "there is no session ses-ses_5 of sub-0002 in the study",
                "the directory sub-0002/ses_5 was left alone",
            ),
            (
                "0001",
                "5",
                "there is no session ses-5 of sub-0001 in the study",
                "its sessions are ses-01, ses-02",
            ),
            (
                "0002",
                "0003",
                "there is no session ses-0003 of sub-0002 in the study",
                "its sessions are ses-01",
            ),
            (
                "",
                "1",
                "there is no session ses-1 in the study",
                "did you mean ses-01?",
            ),
            (
                "",
                "9",
                "there is no session ses-9 in the study",
                "lists the sessions",
            ),
        ] {
            let values = |text: &str| -> Vec<String> {
                (!text.is_empty())
                    .then(|| text.to_owned())
                    .into_iter()
                    .collect()
            };
            let unknown = known(&near).unknown(&values(subjects), &values(sessions));
            assert_eq!(unknown.len(), 1, "{subjects} {sessions}: {unknown:?}");
            assert_eq!(unknown[0].message, message);
            assert!(unknown[0].hint.contains(hint), "{}", unknown[0].hint);
        }
    }

    #[test]
    fn what_is_there_or_may_be_is_not_told() {
        let values = |text: &str| vec![text.to_owned()];
        let all = known(&[]);
        assert_eq!(all.unknown(&[], &[]), []);
        assert_eq!(all.unknown(&values("0001"), &values("02")), []);
        assert_eq!(all.unknown(&values("*"), &values("0*")), []);
        let some = Known {
            is_all: false,
            ..all
        };
        assert_eq!(some.unknown(&values("99"), &[]), []);
        assert_eq!(Known::among([]).unknown(&values("99"), &[]), []);
    }
}
