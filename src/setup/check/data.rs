//! Checks the data roots (they exist, can be read, and jobs can write to them), the discovery of sessions, and names that
//! look like sessions but are not valid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{DiscoverError, Discovery, Findings, Procedure, Site, few, plural};
use crate::base::regular::error_text;
use crate::base::shell;
use crate::decide::safety;
use crate::gather::sessions::discover::discover_by;
use crate::gather::sessions::lists;
use crate::model::bids::{CohortSource, Dicom, Session, SessionSource};
use crate::setup::catalogue;
use crate::setup::place::{self, Place};

/// Checks the root of the current topic.
pub(super) fn roots(site: &Site, findings: &mut Findings) {
    let (config, key) = (&site.config, findings.topic);
    let mut roots = config.roots().into_iter();
    let Some((_, path)) = roots.find(|(root, _)| *root == key) else {
        return;
    };
    findings.about(key, path.display());
    let state = site.study.get().map(|study| &study.state);
    let stops =
        state.map(|state| safety::roots::safety_stops(config, state, safety::roots::observe));
    let mut stops = stops.into_iter().flatten();
    if let Some(stop) = stops.find(|stop| stop.name == format!("root/{key}")) {
        let text = format!("{}; `run` would submit nothing (safety stop)", stop.message);
        return findings.error(text, stop.hint);
    }
    let root_of = |procedure: &Procedure| match procedure.is_below_bids() {
        true => "bids_root",
        false => "derivatives_root",
    };
    let outputs = site
        .config
        .procedures
        .all()
        .filter(|one| root_of(one) == key);
    let outputs: Vec<PathBuf> = outputs.map(|p| path.join(&p.output_dir)).collect();
    let (mut place, mut is_empty) = (place::inspect(path), false);
    if place == Place::Directory {
        match place::is_empty(path) {
            Ok(found) => is_empty = found,
            Err(error) => place = Place::Unreadable(error_text(&error)),
        }
    }
    let used = (config.sessions_place().0 == key, !outputs.is_empty());
    judge(key, used, &place, is_empty, findings);
    if place != Place::Directory {
        return;
    }
    // The converter that fills an empty dataset writes the description.
    if key == "bids_root" && !is_empty {
        description(site, path, findings);
    }
    let unwritable = unwritable(path, outputs);
    if !unwritable.is_empty() {
        findings.about(key, few(&unwritable)).warning(
            "this user cannot create files in it from this host, and jobs run as this user",
            "give the user write permission, or run the program as the user whose jobs may write there",
        );
    }
}

/// Warns of a missing `dataset_description.json` that an app needs. A git-annex link without content is enough.
fn description(site: &Site, path: &Path, findings: &mut Findings) {
    let file = path.join(catalogue::DESCRIPTION);
    let names = site
        .config
        .procedures
        .all()
        .map(|procedure| &*procedure.name);
    let apps = names.filter(|name| catalogue::app(name).is_some_and(|app| app.needs_description()));
    let apps: Vec<&str> = apps.collect();
    if apps.is_empty() || file.symlink_metadata().is_ok() {
        return;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (missing, apps) = (catalogue::DESCRIPTION, few(&apps));
    findings.warning(
        format!("has no {missing}, which {apps} requires of a BIDS dataset"),
        format!(
            "the catalogue's heudiconv and dcm2bids write one; otherwise run: echo {} >{}",
            shell::quote(&catalogue::description(&name)),
            shell::quote(&file.to_string_lossy())
        ),
    );
}

/// The output directories, or their root, in which this user cannot create files.
fn unwritable(root: &Path, outputs: Vec<PathBuf>) -> Vec<String> {
    let places = outputs.into_iter().map(|dir| match place::mode(&dir) {
        Some(_) => dir,
        None => root.to_owned(),
    });
    let found = places.filter(|dir| !place::is_writable(dir));
    let found: BTreeSet<String> = found.map(|dir| dir.display().to_string()).collect();
    found.into_iter().collect()
}

/// `is_source`: sessions are discovered here. `has_outputs`: jobs of some procedure write here.
fn judge(
    key: &str,
    (is_source, has_outputs): (bool, bool),
    place: &Place,
    is_empty: bool,
    findings: &mut Findings,
) {
    let mounted = format!(
        "check that its file system is mounted and that '{key}' in the configuration is correct"
    );
    match place {
        Place::Directory if is_empty && is_source => findings.warning(
            "is empty, so there are no sessions",
            format!("{mounted}; for a new study, wait for the first data"),
        ),
        Place::Directory if is_empty => findings.ok("empty (nothing processed yet)"),
        Place::Directory => findings.ok("exists and can be read"),
        _ if !is_source && !has_outputs => findings.ok("is not used by this configuration"),
        Place::Missing if is_source => {
            findings.error("does not exist, so there are no sessions", mounted);
        }
        Place::Missing => findings.warning(
            "does not exist; job scripts would have to create it",
            format!("{mounted}; for a new study, create the directory"),
        ),
        Place::Other => findings.error("is not a directory", mounted),
        Place::Unreadable(error) => findings.error(
            format!("cannot be read: {error}"),
            "give the user who runs this command read and search permission on it",
        ),
    }
}

const TOPIC: &str = "sessions";
/// Number of DICOM directories from a sessions file that are checked.
const DICOM_SAMPLE: usize = 200;

/// Discovers the sessions; [`sessions`] reports the result.
pub(super) fn discover(site: &Site, _: &mut Findings) {
    let found = discover_by(&site.reader, &site.config);
    let _ = site.found.set(found);
}

pub(super) fn sessions(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let Some(discovery) = site.found.get() else {
        return;
    };
    let (_, place) = config.sessions_place();
    discovered(place, discovery, findings);
    if let (SessionSource::Csv { .. }, Ok(found)) = (&config.sessions, discovery) {
        dicom_paths(&found.sessions, findings);
    }
    cohort(&config.cohort, discovery.as_ref().ok(), findings);
}

fn discovered(place: &Path, discovery: &Result<Discovery, DiscoverError>, findings: &mut Findings) {
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
    if let Some(ignored) = found.ignored("") {
        findings.warning(
            ignored,
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
    let (count, checked) = (missing.len(), chosen.len());
    findings.warn_of(
        format!("dicom_path does not exist for {count} of {checked} checked sessions:"),
        &missing,
        "check that its file system is mounted; sessions without DICOM files are held back",
    );
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
    let unmatched = cohort.unmatched(&found.sessions).into_iter();
    let entries: Vec<String> = unmatched.map(ToString::to_string).collect();
    let remedy = "correct or remove the entries";
    findings.warn_of("matches no session:", &entries, remedy);
}

#[cfg(test)]
mod session_tests {
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
        testing::judged(|out| discovered(Path::new("/dicom"), &found, out))
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

#[cfg(test)]
mod tests {
    use super::super::{Level, testing};
    use super::*;

    #[test]
    fn each_condition_of_a_root_has_its_level() {
        let unreadable = Place::Unreadable("Permission denied".to_owned());
        for (place, is_empty, source, outputs) in [
            (Place::Directory, false, Level::Ok, Level::Ok),
            (Place::Directory, true, Level::Warning, Level::Ok),
            (Place::Missing, false, Level::Error, Level::Warning),
            (Place::Other, false, Level::Error, Level::Error),
            (unreadable, false, Level::Error, Level::Error),
        ] {
            for (is_source, has_outputs, expected) in [
                (true, false, source),
                (false, true, outputs),
                (false, false, Level::Ok),
            ] {
                let used = (is_source, has_outputs);
                let findings =
                    testing::judged(|out| judge("bids_root", used, &place, is_empty, out));
                assert_eq!(findings.len(), 1);
                assert_eq!(findings[0].level, expected, "{place:?} {is_source}");
                assert_eq!(findings[0].remedy.is_none(), expected == Level::Ok);
            }
        }
    }

    #[test]
    fn outputs_that_jobs_cannot_write_to_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("qc")).unwrap();
        let outputs = |root: &Path| vec![root.join("qc"), root.join("none"), root.join("no")];
        assert!(unwritable(dir.path(), outputs(dir.path())).is_empty());
        // proc is read-only for everyone.
        let proc = Path::new("/proc/self");
        assert_eq!(unwritable(proc, outputs(proc)), ["/proc/self"]);
    }
}
