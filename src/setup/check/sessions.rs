//! Discovery: are there sessions, and names that were meant to be some. Pure.

use std::path::PathBuf;

use super::{Finding, few};
use crate::gather::sessions::discover::Discovery;

const TOPIC: &str = "sessions";

/// Holds what is known of the sessions.
pub struct Facts<'a> {
    /// Where they come from: a root or a file.
    pub place: String,
    /// Or why there are none, and the way out.
    pub found: Result<&'a Discovery, (String, String)>,
    /// Directories whose names look like misspelt labels, with what was meant.
    pub near: Vec<(PathBuf, String)>,
    /// Of sessions whose file names a DICOM directory: how many were looked at, and those that are not there.
    pub dicom: Option<(usize, Vec<PathBuf>)>,
    /// Entries of `include` and `exclude` that match nothing.
    pub unmatched: Vec<String>,
    /// Why the cohort cannot be read, and the way out.
    pub cohort: Option<(String, String)>,
}

/// Judges them.
pub fn judge(facts: &Facts<'_>) -> Vec<Finding> {
    let place = facts.place.clone();
    let mut findings = Vec::new();
    match &facts.found {
        Err((message, hint)) => findings.push(Finding::error(TOPIC, place, message, hint)),
        Ok(found) => findings.extend(found_sessions(found, place)),
    }
    if !facts.near.is_empty() {
        let names: Vec<String> = facts
            .near
            .iter()
            .map(|(path, meant)| format!("{} ({meant}?)", path.display()))
            .collect();
        findings.push(Finding::warning(
            TOPIC,
            "",
            format!("nearly a BIDS name, and left alone: {}", few(&names)),
            "rename the directories: sub- and ses- in small letters, then letters and digits only",
        ));
    }
    if let Some((looked, missing)) = &facts.dicom
        && !missing.is_empty()
    {
        let paths: Vec<String> = missing
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let text = format!(
            "dicom_path is not there for {} of {looked} sessions that were looked at: {}",
            paths.len(),
            few(&paths)
        );
        let advice = "see that its file system is mounted; sessions without DICOM files are held";
        findings.push(Finding::warning(TOPIC, "", text, advice));
    }
    if let Some((message, hint)) = &facts.cohort {
        findings.push(Finding::error(TOPIC, "", message, hint));
    }
    if !facts.unmatched.is_empty() {
        findings.push(Finding::warning(
            TOPIC,
            "",
            format!("matches no session: {}", few(&facts.unmatched)),
            "correct the entries, or take them out",
        ));
    }
    findings
}

/// Judges what the search found.
fn found_sessions(found: &Discovery, place: String) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = found.sessions.len();
    findings.push(match count {
        0 => Finding::warning(
            TOPIC,
            place,
            "no session is found",
            "sessions are directories sub-<label>/ses-<label> (letters and digits), or lines of sessions_file",
        ),
        _ => Finding::ok(TOPIC, place, format!("sessions: {count}")),
    });
    findings.extend(found.notes.iter().map(|note| {
        Finding::warning(
            TOPIC,
            "",
            note,
            "do as the note says if these are sessions; otherwise nothing has to be done",
        )
    }));
    let unreadable: Vec<String> = found
        .unreadable
        .iter()
        .map(|what| format!("{} ({})", what.path.display(), what.error))
        .collect();
    if !unreadable.is_empty() {
        findings.push(Finding::warning(
            TOPIC,
            "",
            format!(
                "cannot be read: {}; the sessions there are not worked on",
                few(&unreadable)
            ),
            "the user who runs this needs read and search permission there",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::gather::disk::Unreadable;
    use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};

    fn facts(found: Result<&Discovery, (String, String)>) -> Facts<'_> {
        Facts {
            place: "/dicom".to_owned(),
            found,
            near: Vec::new(),
            dicom: None,
            unmatched: Vec::new(),
            cohort: None,
        }
    }

    fn one() -> Discovery {
        Discovery {
            sessions: vec![Session {
                subject: SubjectLabel::new("sub-01").unwrap(),
                session: SessionLabel::new("ses-01").unwrap(),
                dicom: Dicom::NotNeeded,
            }],
            ..Discovery::default()
        }
    }

    #[test]
    fn sessions_without_trouble_are_one_line() {
        let found = one();
        let findings = judge(&facts(Ok(&found)));
        assert_eq!(findings, [Finding::ok("sessions", "/dicom", "sessions: 1")]);
        let complete = Facts {
            dicom: Some((50, Vec::new())),
            ..facts(Ok(&found))
        };
        assert_eq!(judge(&complete).len(), 1);
    }

    #[test]
    fn each_trouble_is_a_finding() {
        let none = Discovery::default();
        assert_eq!(judge(&facts(Ok(&none)))[0].level, Level::Warning);
        let failed = facts(Err(("is not there".into(), "mount it".into())));
        assert_eq!(judge(&failed)[0].level, Level::Error);

        let mut found = one();
        found.notes.push("2 entries were skipped".to_owned());
        found.unreadable.push(Unreadable {
            path: "/dicom/sub-02".into(),
            error: "Permission denied".to_owned(),
        });
        let troubled = Facts {
            near: vec![("/dicom/Sub-03".into(), "sub-03".to_owned())],
            dicom: Some((2, vec!["/gone".into()])),
            unmatched: vec!["sub-9*".to_owned()],
            cohort: Some(("cannot read the list".into(), "correct it".into())),
            ..facts(Ok(&found))
        };
        let findings = judge(&troubled);
        let texts: Vec<&str> = findings.iter().map(|f| f.text.as_str()).collect();
        for part in [
            "2 entries were skipped",
            "/dicom/sub-02 (Permission denied)",
            "left alone: /dicom/Sub-03 (sub-03?)",
            "1 of 2 sessions that were looked at: /gone",
            "matches no session: sub-9*",
            "cannot read the list",
        ] {
            assert!(
                texts.iter().any(|text| text.contains(part)),
                "{part}: {texts:#?}"
            );
        }
        assert!(findings[1..].iter().all(|f| f.advice.is_some()));
    }
}
