//! The words that name tasks, and the refusal of names that match nothing, with the nearest names, the same in every
//! command.
//!
//! For `explain`, `logs` and `history`, the words may come in any order, with or without prefixes, so that the output of
//! other commands can be copied.

use std::collections::BTreeSet;

use super::args::SelectArgs;
use super::{Context, Failure, Printer, Result, Selection, State, few, maybe};
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{SessionLabel, SubjectLabel, suggest, with_prefix};
use crate::model::procedure::Scope;
use crate::model::state::TaskKey;

/// Shown in tables where there is no session.
const NO_SESSION: &str = "-";

/// Tasks named on the command line; `None` means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub subject: String,
    pub session: Option<String>,
    pub procedure: Option<String>,
}

impl Named {
    /// Parses the words of the command line. `procedures`: all known names.
    pub fn new<'a>(words: impl Iterator<Item = &'a str>, procedures: &[&str]) -> Result<Self> {
        let (mut subject, mut session, mut procedure) = (None, None, None);
        let mut rest: Vec<&str> = Vec::new();
        for word in words.filter(|word| !["", NO_SESSION].contains(word)) {
            let place = if word.starts_with(SubjectLabel::PREFIX) {
                &mut subject
            } else if word.starts_with(SessionLabel::PREFIX) {
                &mut session
            } else {
                rest.push(word);
                continue;
            };
            if let Some(first) = place.replace(word.to_owned()) {
                return Err(usage(format!("both '{first}' and '{word}' are given")));
            }
        }
        // A word without prefix may be a label or a procedure: the last one that names a procedure is taken as one.
        let may_be_label = usize::from(subject.is_none());
        if rest.len() > may_be_label
            && let Some(at) = rest.iter().rposition(|word| procedures.contains(word))
        {
            procedure = Some(rest.remove(at).to_owned());
        }
        let mut rest = rest.into_iter();
        let subject = subject.or_else(|| rest.next().map(|label| format!("sub-{label}")));
        let session = session.or_else(|| rest.next().map(|label| format!("ses-{label}")));
        if let Some(word) = rest.next() {
            let known = procedures.join(", ");
            let message = format!("no procedure '{word}' (available: {known})");
            return Err(match suggest::nearest(word, procedures.iter().copied()) {
                Some(name) => Failure::usage(message, format!("did you mean {name}?")),
                None => usage(message),
            });
        }
        let subject = subject.ok_or_else(|| usage("missing subject".to_owned()))?;
        Ok(Self {
            subject,
            session,
            procedure,
        })
    }

    /// The named subject and session, as lists.
    pub fn labels(&self) -> (&[String], &[String]) {
        (std::slice::from_ref(&self.subject), self.session.as_slice())
    }

    /// True for the named tasks. Subject-scoped tasks belong to every session.
    pub fn contains(&self, key: &TaskKey) -> bool {
        let (session, procedure) = (self.session.as_deref(), self.procedure.as_deref());
        *key.subject == *self.subject
            && (key.session.is_empty() || session.is_none_or(|name| *key.session == *name))
            && procedure.is_none_or(|name| *key.procedure == *name)
    }
}

/// The words in the order of a command's usage: `sub-0001 ses-01 qsiprep`.
impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = [&self.session, &self.procedure].into_iter().flatten();
        f.write_str(&self.subject)?;
        rest.try_for_each(|word| write!(f, " {word}"))
    }
}

fn usage(message: String) -> Failure {
    Failure::usage(
        message,
        "give SUBJECT [SESSION] [PROCEDURE]; for a procedure with `scope: subject`, write `-` as the session",
    )
}

/// Number of names shown of a long list.
const SHOWN: usize = 3;

/// The subjects and sessions that can be named.
pub(super) struct Known<'a> {
    /// Unsorted, with duplicates.
    sessions: Vec<(&'a str, &'a str)>,
    place: &'static str,
    /// Whether there may be others because something is unreadable.
    is_partial: bool,
}

impl Context {
    /// Notes unusual names in the data, for commands that show or process all sessions.
    pub fn report_unusual_names(&self, found: &Discovery, printer: &mut Printer) {
        let (_, place) = self.config.sessions_place();
        let ignored = found.ignored(&format!(" below {}", place.display()));
        printer.notes(found.notes.iter().chain(&ignored));
    }

    /// The tasks that the words of the command line name, also of procedures that only the state knows.
    pub fn named<'a>(&self, words: impl Iterator<Item = &'a str>, state: &State) -> Result<Named> {
        Named::new(words, &self.procedure_names(Some(state)))
    }

    /// Refuses a selection that matches nothing in the data. A study without any session refuses nothing: a new study
    /// may still be without data, and its cron line must not fail.
    pub fn refuse_unknown_in(&self, found: &Discovery, args: &SelectArgs) -> Result<()> {
        Known::in_study(found).refuse((&args.subjects, &args.sessions))
    }

    /// The same for commands about tasks: subject-scoped ones have no session that could be selected.
    pub fn refuse_no_task(&self, found: &Discovery, args: &SelectArgs) -> Result<()> {
        self.refuse_unknown_in(found, args)?;
        let selection = self.selection(args)?;
        let procedures = || self.config.procedures.iter();
        let any_task = found.sessions.iter().any(|session| {
            procedures().any(|(_, procedure)| {
                let label = match procedure.scope {
                    Scope::Session => session.session.as_str(),
                    Scope::Subject => "",
                };
                selection.contains(session.subject.as_str(), label, &procedure.name)
            })
        });
        if any_task || found.sessions.is_empty() || !found.unreadable.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(
            "no task of the study matches the selection",
            "procedures with `scope: subject` have no session: omit --session",
        ))
    }

    pub fn refuse_off_record(&self, state: &State, args: &SelectArgs) -> Result<()> {
        let keys = state.rows().iter().map(|row| &row.key);
        self.refuse_unknown(keys, (&args.subjects, &args.sessions))
    }

    /// Refuses names that are neither in these rows nor in the study, which is read only if they are not in the rows.
    pub fn refuse_unknown<'a>(
        &self,
        keys: impl Iterator<Item = &'a TaskKey>,
        labels: (&[String], &[String]),
    ) -> Result<()> {
        let known = Known {
            sessions: keys.map(|key| (&*key.subject, &*key.session)).collect(),
            place: "on record",
            is_partial: false,
        };
        let on_record = known.refuse(labels);
        if on_record.is_ok() && !known.sessions.is_empty() {
            return Ok(());
        }
        let Ok(found) = self.find_sessions() else {
            return on_record;
        };
        let mut study = Known::in_study(&found);
        study.sessions.extend(known.sessions);
        study.refuse(labels)
    }
}

impl<'a> Known<'a> {
    pub(super) fn in_study(found: &'a Discovery) -> Self {
        let sessions = found.sessions.iter();
        Self {
            sessions: sessions
                .map(|session| (session.subject.as_str(), session.session.as_str()))
                .collect(),
            place: "in the study",
            is_partial: !found.unreadable.is_empty(),
        }
    }

    /// Refuses values that match nothing, subjects first, unless the list of known names may be incomplete.
    pub(super) fn refuse(&self, (subjects, sessions): (&[String], &[String])) -> Result<()> {
        if self.is_partial || self.sessions.is_empty() {
            return Ok(());
        }
        let all = self.sessions.iter().map(|(subject, _)| *subject);
        for value in subjects {
            let selected = selection(std::slice::from_ref(value), &[]);
            if !all.clone().any(|label| selected.contains_subject(label)) {
                let label = with_prefix(value, SubjectLabel::PREFIX);
                return Err(self.nothing("subject", "", &label, all));
            }
        }
        let of_subjects = selection(subjects, &[]);
        let pairs = self.sessions.iter();
        let pairs = pairs.filter(|(subject, _)| of_subjects.contains_subject(subject));
        let all: BTreeSet<&str> = pairs.map(|(_, session)| *session).collect();
        for value in sessions {
            let selected = selection(&[], std::slice::from_ref(value));
            if !all.iter().any(|label| selected.contains_session(label)) {
                let subject = match subjects {
                    [subject] => Some(with_prefix(subject, SubjectLabel::PREFIX)),
                    _ => None,
                };
                let of = maybe(" of ", subject, "");
                let label = with_prefix(value, SessionLabel::PREFIX);
                return Err(self.nothing("session", &of, &label, all.into_iter()));
            }
        }
        Ok(())
    }

    fn nothing<'b>(
        &self,
        what: &str,
        of: &str,
        label: &str,
        known: impl Iterator<Item = &'b str>,
    ) -> Failure {
        let place = self.place;
        let message = match label.contains(['*', '?', '[', '{']) {
            true => format!("no {what}{of} {place} matches {label}"),
            false => format!("no {what} {label}{of} {place}"),
        };
        let known: BTreeSet<&str> = known.filter(|label| !label.is_empty()).collect();
        let similar = suggest::similar_labels(label, known.iter().copied(), SHOWN);
        let hint = match (similar.is_empty(), known.is_empty()) {
            (false, _) => format!("did you mean {}?", similar.join(", ")),
            (_, true) => format!("no {what} is {place}: omit it"),
            _ => format!("available: {}", few(&Vec::from_iter(known), SHOWN)),
        };
        Failure::usage(message, hint)
    }
}

fn selection(subjects: &[String], sessions: &[String]) -> Selection {
    Selection::new(subjects, sessions, &[], &[]).unwrap_or_default()
}

#[cfg(test)]
mod tests;
