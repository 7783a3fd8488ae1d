//! Checks the discovery of sessions, and names that look like sessions but are not valid.

use std::path::Path;

use super::{DiscoverError, Discovery, Findings, Site, few, plural};
use crate::gather::sessions::discover::{discover_by, invalid_names};
use crate::gather::sessions::lists;
use crate::model::bids::{CohortSource, Dicom, Session, SessionSource};
use crate::setup::place;

const TOPIC: &str = "sessions";
/// Number of DICOM directories from a sessions file that are checked.
const DICOM_SAMPLE: usize = 200;

/// Discovers the sessions; [`check`] reports the result.
pub(super) fn discover(site: &Site, _: &mut Findings) {
    let found = discover_by(&site.reader, &site.config.search());
    let _ = site.found.set(found);
}

pub(super) fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let Some(discovery) = site.found.get() else {
        return;
    };
    let place = match &config.sessions {
        SessionSource::Dicom => &config.dicom_root,
        SessionSource::Bids => &config.bids_root,
        SessionSource::Csv { file, .. } => file,
    };
    judge(place, discovery, findings);
    if let (SessionSource::Csv { .. }, Ok(found)) = (&config.sessions, discovery) {
        dicom_paths(&found.sessions, findings);
    }
    cohort(&config.cohort, discovery.as_ref().ok(), findings);
}

fn judge(place: &Path, discovery: &Result<Discovery, DiscoverError>, findings: &mut Findings) {
    findings.about(TOPIC, place.display());
    let found = match discovery {
        Ok(found) => found,
        Err(error) => return findings.error(error.to_string(), error.hint()),
    };
    match found.sessions.len() {
        0 => findings.warning(
            "no sessions found",
            "sessions are directories named sub-<label>/ses-<label> (letters and digits), or lines of sessions_file",
        ),
        count => findings.ok(format!("{} found", plural(count, "session"))),
    }
    let similar = found.misspelt.iter();
    let similar: Vec<String> = similar
        .map(|(name, meant)| format!("{name} (did you mean {meant}?)"))
        .collect();
    if !similar.is_empty() {
        let (what, similar) = (invalid_names(similar.len(), ""), few(&similar));
        findings.warning(
            format!("ignored {what}: {similar}"),
            "rename the directories: lower-case sub- and ses-, followed by letters and digits only",
        );
    }
    findings.about(TOPIC, "");
    for note in &found.notes {
        findings.warning(
            note,
            "if these are sessions, follow the note; otherwise ignore it",
        );
    }
    let unreadable = found.unreadable.iter();
    let unreadable: Vec<String> = unreadable
        .map(|what| format!("{} ({})", what.path.display(), what.error))
        .collect();
    if !unreadable.is_empty() {
        let unreadable = few(&unreadable);
        findings.warning(
            format!("cannot read {unreadable}; sessions there are not processed"),
            "give the user who runs this command read and search permission there",
        );
    }
}

/// Checks a sample of the DICOM directories in a sessions file.
fn dicom_paths(sessions: &[Session], findings: &mut Findings) {
    findings.about(TOPIC, "");
    let paths = sessions.iter().filter_map(|session| match &session.dicom {
        Dicom::At(path) => Some(&**path),
        Dicom::Missing | Dicom::NotNeeded => None,
    });
    let paths: Vec<&Path> = paths.collect();
    let chosen: Vec<&&Path> = place::sample(&paths, DICOM_SAMPLE).collect();
    let missing = chosen.iter().filter(|path| path.metadata().is_err());
    let missing: Vec<String> = missing.map(|path| path.display().to_string()).collect();
    if !missing.is_empty() {
        let (count, checked, paths) = (missing.len(), chosen.len(), few(&missing));
        findings.warning(
            format!("dicom_path does not exist for {count} of {checked} checked sessions: {paths}"),
            "check that its file system is mounted; sessions without DICOM files are held back",
        );
    }
}

/// Checks `include` and `exclude`.
fn cohort(source: &CohortSource, found: Option<&Discovery>, findings: &mut Findings) {
    findings.about(TOPIC, "");
    let cohort = match lists::load(source) {
        Ok(cohort) => cohort,
        Err(error) => return findings.error(error.to_string(), error.hint),
    };
    // Unreadable directories may contain the missing sessions.
    let is_complete =
        |found: &&Discovery| found.unreadable.is_empty() && !found.sessions.is_empty();
    let Some(found) = found.filter(is_complete) else {
        return;
    };
    let unmatched = cohort.unmatched(&found.sessions);
    if !unmatched.is_empty() {
        let entries: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
        findings.warning(
            format!("matches no session: {}", few(&entries)),
            "correct or remove the entries",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;
    use crate::gather::disk::Unreadable;
    use crate::model::bids::{SessionLabel, SubjectLabel};

    fn one(dicom: Dicom) -> Discovery {
        Discovery {
            sessions: vec![Session {
                subject: SubjectLabel::new("sub-01").unwrap(),
                session: SessionLabel::new("ses-01").unwrap(),
                dicom,
            }],
            ..Discovery::default()
        }
    }

    fn judged(found: Result<Discovery, DiscoverError>) -> Vec<Finding> {
        testing::judged(|out| judge(Path::new("/dicom"), &found, out))
    }

    fn texts(findings: &[Finding]) -> Vec<&str> {
        assert!(findings.iter().all(|finding| finding.remedy.is_some()));
        findings.iter().map(|f| f.text.as_str()).collect()
    }

    #[test]
    fn valid_sessions_are_one_line() {
        let findings = judged(Ok(one(Dicom::NotNeeded)));
        assert_eq!(
            findings,
            [testing::ok("sessions", "/dicom", "1 session found")]
        );
        let there = one(Dicom::At(Path::new("/").into()));
        assert!(testing::judged(|out| dicom_paths(&there.sessions, out)).is_empty());
    }

    #[test]
    fn each_problem_is_a_finding() {
        assert_eq!(judged(Ok(Discovery::default()))[0].level, Level::Warning);
        let failed = Err(DiscoverError::RootMissing {
            key: "dicom_root",
            path: "/dicom".into(),
        });
        assert_eq!(judged(failed)[0].level, Level::Error);

        let mut found = one(Dicom::At(Path::new("/nowhere/x").into()));
        found.notes.push("2 entries were skipped".to_owned());
        found.unreadable.push(Unreadable {
            path: "/dicom/sub-02".into(),
            error: "Permission denied".to_owned(),
        });
        found
            .misspelt
            .push(("Sub-03".to_owned(), "sub-03".to_owned()));
        let missing = testing::judged(|out| dicom_paths(&found.sessions, out));
        assert_eq!(
            texts(&missing),
            ["dicom_path does not exist for 1 of 1 checked sessions: /nowhere/x"]
        );
        let findings = judged(Ok(found));
        let texts = texts(&findings[1..]);
        for (text, part) in texts.iter().zip([
            "not valid BIDS: Sub-03 (did you mean sub-03?)",
            "2 entries were skipped",
            "/dicom/sub-02 (Permission denied)",
        ]) {
            assert!(text.contains(part), "{part}: {texts:#?}");
        }
        assert_eq!(texts.len(), 3);
    }

    #[test]
    fn entries_without_sessions_and_unreadable_lists_are_findings() {
        let found = one(Dicom::NotNeeded);
        for (config, level, part) in [
            (
                "exclude: [sub-9*]\n",
                Level::Warning,
                "matches no session: exclude: sub-9*",
            ),
            ("exclude: /nowhere/list\n", Level::Error, "/nowhere/list"),
        ] {
            let config = testing::config(config);
            let findings = testing::judged(|out| cohort(&config.cohort, Some(&found), out));
            testing::one(&findings, level, part);
        }
    }
}
