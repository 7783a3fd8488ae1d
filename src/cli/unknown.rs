//! Refusal of names on the command line that match nothing, with the nearest names, the same in every command.

use std::collections::BTreeSet;

use super::args::SelectArgs;
use super::context::Context;
use super::error::{Failure, Result};
use super::output::Printer;
use crate::base::text::{few, maybe};
use crate::decide::manifest::Selection;
use crate::gather::sessions::discover::{Discovery, invalid_names};
use crate::model::bids::{SessionLabel, SessionSource, SubjectLabel, suggest};
use crate::model::procedure::Scope;
use crate::model::state::{State, TaskKey};

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
        let root = match &self.config.sessions {
            SessionSource::Bids => &self.config.bids_root,
            SessionSource::Dicom | SessionSource::Csv { .. } => &self.config.dicom_root,
        };
        for note in &found.notes {
            printer.note(note);
        }
        if found.misspelt.is_empty() {
            return;
        }
        let names: Vec<String> = found
            .misspelt
            .iter()
            .map(|(name, meant)| format!("{name} (did you mean {meant}?)"))
            .collect();
        printer.note(&format!(
            "ignored {}: {}",
            invalid_names(names.len(), &format!(" below {}", root.display())),
            few(&names, SHOWN)
        ));
    }

    /// Refuses a selection that matches nothing in the data. A study without any session refuses nothing: a new study
    /// may still be without data, and its cron line must not fail.
    pub fn refuse_unknown_in(&self, found: &Discovery, args: &SelectArgs) -> Result<()> {
        Known::in_study(found).refuse((&args.subjects, &args.sessions))
    }

    /// The same for commands about tasks: subject-scoped ones have no session that could be selected.
    pub fn refuse_no_task(
        &self,
        found: &Discovery,
        args: &SelectArgs,
        selection: &Selection,
    ) -> Result<()> {
        self.refuse_unknown_in(found, args)?;
        let any_task = found.sessions.iter().any(|session| {
            self.config.procedures.iter().any(|(_, procedure)| {
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
        let all: Vec<&str> = self.sessions.iter().map(|(subject, _)| *subject).collect();
        for value in subjects {
            let selected = selection(std::slice::from_ref(value), &[]);
            if !all.iter().any(|label| selected.contains_subject(label)) {
                let label = label(value, SubjectLabel::PREFIX);
                return Err(self.nothing("subject", "", &label, &all));
            }
        }
        let of_subjects = selection(subjects, &[]);
        let pairs = self.sessions.iter();
        let pairs = pairs.filter(|(subject, _)| of_subjects.contains_subject(subject));
        let all: BTreeSet<&str> = pairs.map(|(_, session)| *session).collect();
        let all: Vec<&str> = all.into_iter().collect();
        for value in sessions {
            let selected = selection(&[], std::slice::from_ref(value));
            if !all.iter().any(|label| selected.contains_session(label)) {
                let subject = match subjects {
                    [subject] => Some(label(subject, SubjectLabel::PREFIX)),
                    _ => None,
                };
                let label = label(value, SessionLabel::PREFIX);
                return Err(self.nothing("session", &maybe(" of ", subject, ""), &label, &all));
            }
        }
        Ok(())
    }

    fn nothing(&self, what: &str, of: &str, label: &str, known: &[&str]) -> Failure {
        let place = self.place;
        let message = match label.contains(['*', '?', '[', '{']) {
            true => format!("no {what}{of} {place} matches {label}"),
            false => format!("no {what} {label}{of} {place}"),
        };
        let known: Vec<&str> = known.iter().copied().filter(|l| !l.is_empty()).collect();
        let similar = suggest::similar_labels(label, known.iter().copied(), SHOWN);
        let hint = match (similar.is_empty(), known.is_empty(), of.is_empty()) {
            (false, ..) => format!("did you mean {}?", similar.join(", ")),
            (_, true, _) => format!("no {what} is {place}: omit it"),
            (_, _, false) => format!("its sessions are {}", few(&known, SHOWN)),
            _ => format!("`snbb-scheduler session-status` lists the {what}s of the study"),
        };
        Failure::usage(message, hint)
    }
}

fn selection(subjects: &[String], sessions: &[String]) -> Selection {
    Selection::new(subjects, sessions, &[], &[]).unwrap_or_default()
}

/// The label for a value; globs stay as they are.
fn label(value: &str, prefix: &str) -> String {
    match value.starts_with(prefix) || value.starts_with('*') {
        true => value.to_owned(),
        false => format!("{prefix}{value}"),
    }
}

#[cfg(test)]
mod tests;
