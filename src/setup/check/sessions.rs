//! Discovery: are there sessions, and names that were meant to be some.

use std::path::Path;

use super::{Findings, Site, few};
use crate::gather::sessions::discover::{DiscoverError, Discovery, discover_by};
use crate::gather::sessions::lists;
use crate::model::bids::{Dicom, SessionSource};
use crate::setup::place;

const TOPIC: &str = "sessions";
/// Of a sessions file, so many paths are looked at.
const DICOM_SAMPLE: usize = 200;

/// What there is to see of the sessions.
struct Seen<'a> {
    /// Where they come from: a root or a file.
    place: &'a Path,
    found: &'a Result<Discovery, DiscoverError>,
    /// Of sessions whose file names a DICOM directory: how many were looked at, and those that are not there.
    dicom: (usize, Vec<String>),
    /// Entries of `include` and `exclude` that match nothing.
    unmatched: Vec<String>,
    /// Why the cohort cannot be read, and the way out.
    cohort: Option<(String, String)>,
}

/// Looks for the sessions; what came of it is judged by [`check`].
pub fn read(site: &Site, _: &mut Findings) {
    let found = discover_by(&site.reader, &site.config.search());
    let _ = site.found.set(found);
}

pub fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let Some(discovery) = site.found.get() else {
        return;
    };
    let (place, is_listed) = match &config.sessions {
        SessionSource::Dicom => (&config.dicom_root, false),
        SessionSource::Bids => (&config.bids_root, false),
        SessionSource::Csv { file, .. } => (file, true),
    };
    let found = discovery.as_ref().ok();
    let sessions = found.into_iter().flat_map(|found| &found.sessions);
    let listed = sessions.filter(|_| is_listed);
    let paths = listed.filter_map(|session| match &session.dicom {
        Dicom::At(path) => Some(&**path),
        Dicom::Missing | Dicom::NotNeeded => None,
    });
    let paths: Vec<&Path> = paths.collect();
    let chosen: Vec<&&Path> = place::sample(&paths, DICOM_SAMPLE).collect();
    let missing = chosen.iter().filter(|path| path.metadata().is_err());
    let missing = missing.map(|path| path.display().to_string()).collect();
    let cohort = lists::load(&config.cohort);
    let unmatched = match (&cohort, found) {
        // What could not be read may hold their sessions.
        (Ok(cohort), Some(found)) if found.unreadable.is_empty() && !found.sessions.is_empty() => {
            let entries = cohort.unmatched(&found.sessions);
            entries.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    let seen = Seen {
        place,
        found: discovery,
        dicom: (chosen.len(), missing),
        unmatched,
        cohort: cohort.err().map(|error| (error.to_string(), error.hint())),
    };
    judge(&seen, findings);
}

fn judge(seen: &Seen<'_>, findings: &mut Findings) {
    findings.about(TOPIC, seen.place.display());
    match seen.found {
        Err(error) => findings.error(error.to_string(), error.hint()),
        Ok(found) if found.sessions.is_empty() => findings.warning(
            "no session is found",
            "sessions are directories sub-<label>/ses-<label> (letters and digits), or lines of sessions_file",
        ),
        Ok(found) => findings.ok(format!("sessions: {}", found.sessions.len())),
    }
    findings.about(TOPIC, "");
    let found = seen.found.iter();
    for note in found.clone().flat_map(|found| &found.notes) {
        findings.warning(
            note,
            "do as the note says if these are sessions; otherwise nothing has to be done",
        );
    }
    let unreadable = found.clone().flat_map(|found| &found.unreadable);
    let unreadable: Vec<String> = unreadable
        .map(|what| format!("{} ({})", what.path.display(), what.error))
        .collect();
    if !unreadable.is_empty() {
        let unreadable = few(&unreadable);
        findings.warning(
            format!("cannot be read: {unreadable}; the sessions there are not worked on"),
            "the user who runs this needs read and search permission there",
        );
    }
    let near = found.flat_map(|found| &found.misspelt);
    let near: Vec<String> = near
        .map(|(name, meant)| format!("{} ({meant}?)", seen.place.join(name).display()))
        .collect();
    if !near.is_empty() {
        findings.warning(
            format!("nearly a BIDS name, and left alone: {}", few(&near)),
            "rename the directories: sub- and ses- in small letters, then letters and digits only",
        );
    }
    let (looked, missing) = &seen.dicom;
    if !missing.is_empty() {
        let (count, paths) = (missing.len(), few(missing));
        findings.warning(
            format!("dicom_path is not there for {count} of {looked} sessions that were looked at: {paths}"),
            "see that its file system is mounted; sessions without DICOM files are held",
        );
    }
    if let Some((message, hint)) = &seen.cohort {
        findings.error(message, hint);
    }
    if !seen.unmatched.is_empty() {
        findings.warning(
            format!("matches no session: {}", few(&seen.unmatched)),
            "correct the entries, or take them out",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;
    use crate::gather::disk::Unreadable;
    use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};

    fn seen(found: &Result<Discovery, DiscoverError>) -> Seen<'_> {
        Seen {
            place: Path::new("/dicom"),
            found,
            dicom: (0, Vec::new()),
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

    fn judged(seen: &Seen<'_>) -> Vec<Finding> {
        testing::judged(|out| judge(seen, out))
    }

    #[test]
    fn sessions_without_trouble_are_one_line() {
        let found = Ok(one());
        let findings = judged(&seen(&found));
        assert_eq!(findings, [testing::ok("sessions", "/dicom", "sessions: 1")]);
        let complete = Seen {
            dicom: (50, Vec::new()),
            ..seen(&found)
        };
        assert_eq!(judged(&complete).len(), 1);
    }

    #[test]
    fn each_trouble_is_a_finding() {
        let none = Ok(Discovery::default());
        assert_eq!(judged(&seen(&none))[0].level, Level::Warning);
        let failed = Err(DiscoverError::RootMissing {
            key: "dicom_root",
            path: "/dicom".into(),
        });
        assert_eq!(judged(&seen(&failed))[0].level, Level::Error);

        let mut found = one();
        found.notes.push("2 entries were skipped".to_owned());
        found.unreadable.push(Unreadable {
            path: "/dicom/sub-02".into(),
            error: "Permission denied".to_owned(),
        });
        found
            .misspelt
            .push(("Sub-03".to_owned(), "sub-03".to_owned()));
        let found = Ok(found);
        let troubled = Seen {
            dicom: (2, vec!["/gone".into()]),
            unmatched: vec!["sub-9*".to_owned()],
            cohort: Some(("cannot read the list".into(), "correct it".into())),
            ..seen(&found)
        };
        let findings = judged(&troubled);
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
