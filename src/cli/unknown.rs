//! Names on the command line that match nothing: refused with the nearest names, alike in every command.

use std::collections::BTreeSet;

use super::args::SelectArgs;
use super::context::Context;
use super::error::Failure;
use super::naming::Named;
use super::output::Printer;
use crate::base::text::few;
use crate::decide::manifest::Selection;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{SessionLabel, SessionSource, SubjectLabel, near};
use crate::model::config::Config;
use crate::model::procedure::Scope;
use crate::model::state::{State, TaskKey};

/// So many names are shown of many.
const SHOWN: usize = 3;

/// The subjects and sessions that can be named.
pub struct Known<'a> {
    /// In no order, some of them several times.
    sessions: Vec<(&'a str, &'a str)>,
    /// Directories that are nearly labels, and what they were meant to be.
    near: &'a [(String, String)],
    place: &'static str,
    /// There may be others: something is unreadable.
    is_partial: bool,
    /// A word that was read as a session may be a misspelt procedure.
    procedures: Vec<&'a str>,
}

impl Context {
    /// Shows what is odd about the names in the data: for commands that show or work on all sessions.
    pub fn tell_odd_names(&self, found: &Discovery, printer: &mut Printer) {
        let root = match &self.config.sessions {
            SessionSource::Bids => &self.config.bids_root,
            SessionSource::Dicom | SessionSource::Csv { .. } => &self.config.dicom_root,
        };
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
        let (root, few) = (root.display(), few(&names, SHOWN));
        printer.note(&match names.len() {
            1 => {
                format!("1 directory below {root} has nearly a BIDS name and was left alone: {few}")
            }
            count => format!(
                "{count} directories below {root} have nearly BIDS names and were left alone: {few}"
            ),
        });
    }

    /// Refuses a selection that matches nothing in the data. A study without any session refuses nothing: the data of a
    /// new study is still to come, and its cron line must not fail.
    pub fn refuse_unknown_in(&self, found: &Discovery, args: &SelectArgs) -> Result<(), Failure> {
        Known::in_study(found, &self.config).refuse(&args.subjects, &args.sessions)
    }

    /// The same for commands about tasks: those of subject scope have no session that could be selected.
    pub fn refuse_no_task(
        &self,
        found: &Discovery,
        args: &SelectArgs,
        selection: &Selection,
    ) -> Result<(), Failure> {
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
            "procedures of scope `subject` have no session: leave out --session",
        ))
    }

    pub fn refuse_off_record(&self, state: &State, args: &SelectArgs) -> Result<(), Failure> {
        let keys = state.rows().iter().map(|row| &row.key);
        self.refuse_unknown(keys, &args.subjects, &args.sessions)
    }

    /// Refuses names that are neither among these tasks nor in the study, which is read only if they are not.
    fn refuse_unknown<'a>(
        &self,
        keys: impl Iterator<Item = &'a TaskKey>,
        subjects: &[String],
        sessions: &[String],
    ) -> Result<(), Failure> {
        let known = Known {
            sessions: keys.map(|key| (&*key.subject, &*key.session)).collect(),
            near: &[],
            place: "on record",
            is_partial: false,
            procedures: Vec::new(),
        };
        let on_record = known.refuse(subjects, sessions);
        if on_record.is_ok() && !known.sessions.is_empty() {
            return Ok(());
        }
        let Ok(found) = self.find_sessions() else {
            return on_record;
        };
        let mut study = Known::in_study(&found, &self.config);
        study.sessions.extend(known.sessions);
        study.refuse(subjects, sessions)
    }

    /// The same for words that name a task.
    pub fn refuse_unknown_words<'a>(
        &self,
        keys: impl Iterator<Item = &'a TaskKey>,
        named: &Named,
    ) -> Result<(), Failure> {
        self.refuse_unknown(
            keys,
            std::slice::from_ref(&named.subject),
            named.session.as_slice(),
        )
    }
}

impl<'a> Known<'a> {
    pub fn in_study(found: &'a Discovery, config: &'a Config) -> Self {
        let sessions = found.sessions.iter();
        Self {
            sessions: sessions
                .map(|session| (session.subject.as_str(), session.session.as_str()))
                .collect(),
            near: &found.near,
            place: "in the study",
            is_partial: !found.unreadable.is_empty(),
            procedures: config
                .procedures
                .iter()
                .map(|(_, one)| &*one.name)
                .collect(),
        }
    }

    /// Fails for the first value that matches nothing.
    pub fn refuse(&self, subjects: &[String], sessions: &[String]) -> Result<(), Failure> {
        if self.is_partial || self.sessions.is_empty() {
            return Ok(());
        }
        for value in subjects {
            let selected = selection(std::slice::from_ref(value), &[]);
            if !self.any(|subject, _| selected.contains_subject(subject)) {
                return Err(self.no_subject(value));
            }
        }
        let of_subjects = selection(subjects, &[]);
        for value in sessions {
            let selected = selection(&[], std::slice::from_ref(value));
            if !self.any(|subject, session| {
                of_subjects.contains_subject(subject) && selected.contains_session(session)
            }) {
                return Err(self.no_session(value, subjects, &of_subjects));
            }
        }
        Ok(())
    }

    pub fn refuse_words(&self, named: &Named) -> Result<(), Failure> {
        self.refuse(
            std::slice::from_ref(&named.subject),
            named.session.as_slice(),
        )
    }

    fn any(&self, is_meant: impl Fn(&str, &str) -> bool) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|(subject, session)| is_meant(subject, session))
    }

    fn no_subject(&self, value: &str) -> Failure {
        let labels = self.sessions.iter().map(|(subject, _)| *subject);
        let label = label(value, SubjectLabel::PREFIX);
        let hint = self.meant(&label, labels, |_| true);
        Failure::usage(
            self.none("subject", &label, ""),
            hint.unwrap_or_else(|| {
                "`snbb-scheduler session-status` lists the subjects and sessions of the study"
                    .to_owned()
            }),
        )
    }

    fn no_session(&self, value: &str, subjects: &[String], of_subjects: &Selection) -> Failure {
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
        let word = label.trim_start_matches(SessionLabel::PREFIX);
        let procedure = || near::nearest(word, self.procedures.iter().copied());
        let hint = hint.or_else(|| Some(format!("did you mean the procedure {}?", procedure()?)));
        let hint = hint.unwrap_or_else(|| match named.as_slice() {
            [] => format!("no session is {}: leave it out", self.place),
            all if !of.is_empty() => format!("its sessions are {}", few(all, SHOWN)),
            _ => "`snbb-scheduler session-status` lists the sessions of the study".to_owned(),
        });
        Failure::usage(self.none("session", &label, &of), hint)
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
            let is_label = !near::similar(wrong, [meant.as_str()], 1).is_empty();
            let is_own = is_of_level && (is_label || own == written);
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

#[cfg(test)]
mod tests;
