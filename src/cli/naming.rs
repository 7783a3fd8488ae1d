//! The words that name a task, a session or a subject for `explain`, `logs` and `history`.
//!
//! They may come in any order, with or without prefixes, so that the output of other commands can be copied.

use super::error::{Failure, Result};
use crate::model::bids::{SessionLabel, SubjectLabel, suggest};
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
        if subject.is_none() {
            subject = rest.next().map(|label| format!("sub-{label}"));
        }
        if session.is_none() {
            session = rest.next().map(|label| format!("ses-{label}"));
        }
        if let Some(word) = rest.next() {
            let message = format!(
                "no procedure '{word}' (available: {})",
                procedures.join(", ")
            );
            return Err(match suggest::nearest(word, procedures.iter().copied()) {
                Some(name) => Failure::usage(message, format!("did you mean {name}?")),
                None => usage(message),
            });
        }
        let Some(subject) = subject else {
            return Err(usage("missing subject".to_owned()));
        };
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
        *key.subject == *self.subject
            && self
                .session
                .as_ref()
                .is_none_or(|session| key.session.is_empty() || *key.session == **session)
            && self
                .procedure
                .as_ref()
                .is_none_or(|procedure| *key.procedure == **procedure)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &str) -> String {
        match Named::new(words.split(' '), &["bids", "qsiprep", "01"]) {
            Ok(named) => format!(
                "{} {} {}",
                named.subject,
                named.session.as_deref().unwrap_or("-"),
                named.procedure.as_deref().unwrap_or("-")
            ),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn words_are_understood_in_any_order_with_or_without_prefix() {
        for (words, expected) in [
            ("sub-1", "sub-1 - -"),
            ("1", "sub-1 - -"),
            ("1 a", "sub-1 ses-a -"),
            ("1 - bids", "sub-1 - bids"),
            ("1 a bids", "sub-1 ses-a bids"),
            ("1 bids", "sub-1 - bids"),
            ("bids sub-1 ses-a", "sub-1 ses-a bids"),
            ("bids sub-1", "sub-1 - bids"),
            ("ses-a bids 1", "sub-1 ses-a bids"),
            ("bids", "sub-bids - -"),
            ("sub-1 01", "sub-1 - 01"),
            ("01 01", "sub-01 - 01"),
            ("01 02 01", "sub-01 ses-02 01"),
            (
                "1 a bidz",
                "no procedure 'bidz' (available: bids, qsiprep, 01)",
            ),
            ("sub-1 sub-2", "both 'sub-1' and 'sub-2' are given"),
            ("ses-1", "missing subject"),
        ] {
            assert_eq!(named(words), expected, "{words}");
        }
    }
}
