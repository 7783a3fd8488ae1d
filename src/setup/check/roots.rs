//! The three roots: are they there, can they be read, can jobs write to them.

use std::path::{Path, PathBuf};

use super::{Findings, Site, few};
use crate::base::regular::error_text;
use crate::base::shell;
use crate::decide::safety;
use crate::model::bids::SessionSource;
use crate::model::procedure::Procedure;
use crate::setup::catalogue;
use crate::setup::place::{self, Place};

/// A root as it was seen.
struct Root<'a> {
    key: &'static str,
    path: &'a Path,
    /// Sessions are looked for here.
    is_source: bool,
    /// Jobs of some procedure write here.
    takes_outputs: bool,
    place: Place,
    is_empty: bool,
    /// Output directories, or the root itself, in which this user may make nothing.
    unwritable: Vec<PathBuf>,
    /// Why `run` would stop over this root, and the way out.
    stop: Option<(String, String)>,
    /// Procedures that need the description of a dataset that has none.
    undescribed: Vec<String>,
}

pub fn check(site: &Site, key: &'static str, findings: &mut Findings) {
    let config = &site.config;
    let (path, source) = match key {
        "dicom_root" => (&config.dicom_root, Some(SessionSource::Dicom)),
        "bids_root" => (&config.bids_root, Some(SessionSource::Bids)),
        _ => (&config.derivatives_root, None),
    };
    let writes_here = |procedure: &&Procedure| match procedure.is_below_bids() {
        true => key == "bids_root",
        false => key == "derivatives_root",
    };
    let outputs = site.procedures().filter(writes_here);
    let outputs: Vec<PathBuf> = outputs.map(|p| path.join(&p.output_dir)).collect();
    let mut place = place::look(path);
    let mut is_empty = false;
    if place == Place::Directory {
        match place::is_empty(path) {
            Ok(found) => is_empty = found,
            Err(error) => place = Place::Unreadable(error_text(&error)),
        }
    }
    let stops = site
        .state()
        .map(|state| safety::roots::safety_stops(config, state, safety::roots::observe));
    let mut stops = stops.into_iter().flatten();
    let stop = stops.find(|stop| stop.name == format!("root/{key}"));
    // One that is empty is still to be filled, by a converter that writes the description. A link whose content is not
    // here (git-annex) is enough.
    let is_described = key != "bids_root"
        || is_empty
        || path.join(catalogue::DESCRIPTION).symlink_metadata().is_ok();
    let needs_description = |procedure: &&Procedure| {
        let app = catalogue::app(&procedure.name);
        !is_described && app.is_some_and(|app| app.needs_description())
    };
    let needing = site.procedures().filter(needs_description);
    let root = Root {
        key,
        path,
        is_source: source.is_some_and(|source| config.sessions == source),
        takes_outputs: !outputs.is_empty(),
        place,
        is_empty,
        unwritable: unwritable(path, outputs),
        stop: stop.map(|stop| (stop.message, stop.hint)),
        undescribed: needing
            .map(|procedure| procedure.name.to_string())
            .collect(),
    };
    judge(&root, findings);
}

/// Returns the output directories, or their root, in which this user may make nothing.
fn unwritable(root: &Path, outputs: Vec<PathBuf>) -> Vec<PathBuf> {
    let places = outputs.into_iter().map(|dir| match place::mode(&dir) {
        Some(_) => dir,
        None => root.to_owned(),
    });
    let mut found: Vec<PathBuf> = places.filter(|dir| !place::is_writable(dir)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn judge(root: &Root<'_>, findings: &mut Findings) {
    let key = root.key;
    findings.about(key, root.path.display());
    if let Some((message, hint)) = &root.stop {
        findings.error(
            format!("{message}; `run` would submit nothing (safety stop)"),
            hint,
        );
        return;
    }
    let mounted = format!(
        "see that its file system is mounted, and that '{key}' in the configuration is right"
    );
    let is_used = root.is_source || root.takes_outputs;
    match &root.place {
        place if !is_used && *place != Place::Directory => {
            findings.ok("is not used by this configuration");
        }
        Place::Missing if root.is_source => {
            findings.error("does not exist, so there are no sessions", mounted);
        }
        Place::Missing => findings.warning(
            "does not exist; the job scripts would have to make it",
            format!("{mounted}; for a new study, make the directory"),
        ),
        Place::Other => findings.error(
            "is not a directory",
            format!("correct '{key}' in the configuration"),
        ),
        Place::Unreadable(error) => findings.error(
            format!("cannot be read: {error}"),
            "the user who runs this needs read and search permission on it",
        ),
        Place::Directory if root.is_empty && root.is_source => findings.warning(
            "is empty, so there are no sessions",
            format!("{mounted}; for a new study, wait for the first data"),
        ),
        Place::Directory if root.is_empty => findings.ok("is empty: nothing is done yet"),
        Place::Directory => findings.ok("is there and can be read"),
    }
    if root.place != Place::Directory {
        return;
    }
    if !root.undescribed.is_empty() {
        let file = root.path.join(catalogue::DESCRIPTION);
        let name = root.path.file_name().unwrap_or_default().to_string_lossy();
        findings.warning(
            format!(
                "has no {}, without which it is no BIDS dataset to {}",
                catalogue::DESCRIPTION,
                few(&root.undescribed)
            ),
            format!(
                "the catalogue's heudiconv and dcm2bids write one; otherwise: echo {} >{}",
                shell::quote(&catalogue::description(&name)),
                shell::quote(&file.to_string_lossy())
            ),
        );
    }
    let paths = root.unwritable.iter();
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    if !paths.is_empty() {
        findings.about(key, few(&paths)).warning(
            "this user may make nothing in it from this host, and jobs run as this user",
            "give the user write permission, or call the program as the user whose jobs may write there",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;

    fn root(place: Place, is_empty: bool) -> Root<'static> {
        Root {
            key: "bids_root",
            path: Path::new("/b"),
            is_source: false,
            takes_outputs: true,
            place,
            is_empty,
            unwritable: Vec::new(),
            stop: None,
            undescribed: Vec::new(),
        }
    }

    fn judged(root: &Root<'_>) -> Vec<Finding> {
        testing::judged(|out| judge(root, out))
    }

    #[test]
    fn each_sight_of_a_root_has_its_level() {
        let unreadable = Place::Unreadable("Permission denied".to_owned());
        for (place, is_empty, source, outputs) in [
            (Place::Directory, false, Level::Ok, Level::Ok),
            (Place::Directory, true, Level::Warning, Level::Ok),
            (Place::Missing, false, Level::Error, Level::Warning),
            (Place::Other, false, Level::Error, Level::Error),
            (unreadable, false, Level::Error, Level::Error),
        ] {
            for (is_source, takes_outputs, expected) in [
                (true, false, source),
                (false, true, outputs),
                (false, false, Level::Ok),
            ] {
                let findings = judged(&Root {
                    is_source,
                    takes_outputs,
                    ..root(place.clone(), is_empty)
                });
                assert_eq!(findings.len(), 1);
                assert_eq!(findings[0].level, expected, "{place:?} {is_source}");
                assert_eq!(findings[0].advice.is_none(), expected == Level::Ok);
            }
        }
    }

    #[test]
    fn a_root_that_would_stop_a_run_says_so_and_no_more() {
        let stopped = Root {
            stop: Some((
                "it is empty although 3 were there".into(),
                "mount it".into(),
            )),
            ..root(Place::Directory, true)
        };
        let findings = judged(&stopped);
        assert_eq!(findings.len(), 1);
        testing::one(&findings, Level::Error, "safety stop");
    }

    #[test]
    fn a_directory_that_jobs_cannot_write_to_is_a_warning() {
        let findings = judged(&Root {
            unwritable: vec!["/b/qc".into()],
            ..root(Place::Directory, false)
        });
        testing::one(&findings, Level::Warning, "may make nothing");
        assert_eq!(findings[1].about, "/b/qc");
    }
}
