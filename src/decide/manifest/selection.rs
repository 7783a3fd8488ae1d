//! The selections of the command line: `--subject`, `--session`, `--procedure`.

use globset::{GlobBuilder, GlobMatcher};

use crate::model::bids::{SessionLabel, SubjectLabel, suggest, with_prefix};
use crate::model::state::TaskKey;

/// The selected tasks; all tasks if no option is given.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    subjects: Vec<GlobMatcher>,
    sessions: Vec<GlobMatcher>,
    procedures: Vec<GlobMatcher>,
}

/// Why a selection is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct SelectionError {
    problem: String,
    /// A known procedure with a similar name.
    pub hint: Option<String>,
}

impl Selection {
    /// Parses the options' values: names with or without `sub-`/`ses-`, or globs. An unknown procedure is an error, so
    /// that a typing error does not look like "nothing to do".
    pub fn new(
        subjects: &[String],
        sessions: &[String],
        procedures: &[String],
        known_procedures: &[&str],
    ) -> Result<Self, SelectionError> {
        let selection = Self {
            subjects: matchers("--subject", subjects, SubjectLabel::PREFIX)?,
            sessions: matchers("--session", sessions, SessionLabel::PREFIX)?,
            procedures: matchers("--procedure", procedures, "")?,
        };
        for (value, matcher) in procedures.iter().zip(&selection.procedures) {
            if !known_procedures.iter().any(|name| matcher.is_match(name)) {
                let known = known_procedures.join(", ");
                let nearest = suggest::nearest(value, known_procedures.iter().copied());
                return Err(SelectionError {
                    problem: format!(
                        "--procedure '{value}' matches none of the procedures ({known})"
                    ),
                    hint: nearest.map(|name| format!("did you mean {name}?")),
                });
            }
        }
        Ok(selection)
    }

    /// True if nothing was selected, which means everything.
    pub fn is_everything(&self) -> bool {
        self.subjects.is_empty() && self.sessions.is_empty() && self.procedures.is_empty()
    }

    pub fn contains_key(&self, key: &TaskKey) -> bool {
        self.contains(&key.subject, &key.session, &key.procedure)
    }

    /// With `--session`, tasks without a session (subject scope) are not selected.
    pub fn contains(&self, subject: &str, session: &str, procedure: &str) -> bool {
        self.contains_subject(subject)
            && any(&self.sessions, session)
            && self.contains_procedure(procedure)
    }

    pub fn contains_subject(&self, subject: &str) -> bool {
        any(&self.subjects, subject)
    }

    pub fn contains_session(&self, session: &str) -> bool {
        any(&self.sessions, session)
    }

    pub fn contains_procedure(&self, procedure: &str) -> bool {
        any(&self.procedures, procedure)
    }
}

fn any(matchers: &[GlobMatcher], text: &str) -> bool {
    matchers.is_empty() || matchers.iter().any(|matcher| matcher.is_match(text))
}

fn matchers(
    option: &'static str,
    values: &[String],
    prefix: &str,
) -> Result<Vec<GlobMatcher>, SelectionError> {
    values
        .iter()
        .map(|value| {
            let error = |error: &str| SelectionError {
                problem: format!("'{value}' is not a name or a pattern for {option}: {error}"),
                hint: None,
            };
            if value.is_empty() {
                return Err(error("it is empty"));
            }
            // It could match nothing, which would look like "nothing to do".
            if value.contains('/') {
                return Err(error(
                    "labels do not contain '/'; use --subject 01 --session 02 for a session of a subject",
                ));
            }
            GlobBuilder::new(&with_prefix(value, prefix))
                .literal_separator(false)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|e| error(&e.kind().to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(subjects: &[&str], sessions: &[&str], procedures: &[&str]) -> Selection {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Selection::new(
            &own(subjects),
            &own(sessions),
            &own(procedures),
            &["bids", "qc"],
        )
        .unwrap()
    }

    #[test]
    fn values_that_cannot_match_are_errors() {
        for (subjects, sessions) in [
            ("", "a"),
            ("sub-01/ses-01", "a"),
            ("01", "sub-01/ses-01"),
            ("01", "["),
        ] {
            let selected = Selection::new(&[subjects.to_owned()], &[sessions.to_owned()], &[], &[]);
            assert!(selected.is_err(), "{subjects} {sessions}");
        }
    }

    #[test]
    fn prefixes_are_optional_and_globs_work() {
        for given in ["sub-01", "01", "0*", "sub-0?", "*01"] {
            let selection = select(&[given], &[], &[]);
            assert!(selection.contains("sub-01", "ses-a", "bids"), "{given}");
            assert!(!selection.contains("sub-11x", "ses-a", "bids"), "{given}");
        }
        assert!(!select(&["01"], &[], &[]).contains("sub-001", "", "bids"));
        assert!(select(&[], &["a"], &["b*"]).contains("sub-01", "ses-a", "bids"));
        assert!(!select(&[], &["a"], &[]).contains("sub-01", "", "bids"));
        assert!(select(&[], &[], &[]).is_everything());
    }

    #[test]
    fn an_unknown_procedure_is_an_error_that_lists_the_known_ones() {
        let error = Selection::new(&[], &[], &["bidz".to_owned()], &["bids"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--procedure 'bidz' matches none of the procedures (bids)"
        );
    }
}
