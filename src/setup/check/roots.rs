//! Checks the data roots: they exist, can be read, and jobs can write to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Findings, Procedure, Site, few};
use crate::base::regular::error_text;
use crate::base::shell;
use crate::decide::safety;
use crate::model::bids::SessionSource;
use crate::setup::catalogue;
use crate::setup::place::{self, Place};

/// Checks the root of the current topic.
pub(super) fn check(site: &Site, findings: &mut Findings) {
    let (config, key) = (&site.config, findings.topic);
    let (path, source) = match key {
        "dicom_root" => (&config.dicom_root, Some(SessionSource::Dicom)),
        "bids_root" => (&config.bids_root, Some(SessionSource::Bids)),
        _ => (&config.derivatives_root, None),
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
    let outputs = site.procedures().filter(|one| root_of(one) == key);
    let outputs: Vec<PathBuf> = outputs.map(|p| path.join(&p.output_dir)).collect();
    let (mut place, mut is_empty) = (place::inspect(path), false);
    if place == Place::Directory {
        match place::is_empty(path) {
            Ok(found) => is_empty = found,
            Err(error) => place = Place::Unreadable(error_text(&error)),
        }
    }
    let used = (
        source.as_ref() == Some(&config.sessions),
        !outputs.is_empty(),
    );
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
    let names = site.procedures().map(|procedure| &*procedure.name);
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
