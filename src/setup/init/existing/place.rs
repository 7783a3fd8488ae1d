//! A directory with results, and the app that created them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::base::text::few;
use crate::base::{parallel, regular};
use crate::model::bids::Session;
use crate::model::bids::suggest::fold;
use crate::model::config::Config;
use crate::setup::catalogue::{self, App};
use crate::setup::place;

/// A directory with results of several subjects.
pub(super) struct Place {
    /// Relative to `derivatives_root`.
    pub(super) path: String,
    /// Names that start with `sub-`.
    pub(super) names: Vec<String>,
    /// The session directory around the subjects (nipoppy's layout for FreeSurfer), or empty.
    pub(super) session: String,
}

/// The program that created the results of a place.
#[derive(Default)]
pub(super) struct Maker {
    pub(super) name: Option<String>,
    pub(super) version: String,
    /// Names of the results in zip files.
    pub(super) zips: Vec<String>,
    pub(super) apps: Vec<&'static App>,
}

impl Place {
    /// True if there are separate results for each session.
    pub(super) fn has_sessions(&self) -> bool {
        self.names.iter().any(|name| {
            let name = name.strip_suffix(".html").or(name.strip_suffix(".zip"));
            let name = name.unwrap_or_default();
            match zip(name) {
                Some(_) => name.contains("_ses-"),
                None => name.split_once('_').is_some_and(|(_, session)| {
                    session.starts_with("ses-") && !session.contains('_')
                }),
            }
        })
    }

    /// Sessions without a directory although other sessions of the subject have one.
    pub(super) fn missing_sessions(&self, config: &Config, sessions: &[Session]) -> Vec<String> {
        let root = config.derivatives_root.join(&self.path);
        let subjects: Vec<&[Session]> = sessions.chunk_by(|a, b| a.subject == b.subject).collect();
        let missing: Vec<Vec<String>> = parallel::map(&subjects, config.scan_threads, |sessions| {
            let subject = sessions.first().map_or("", |first| first.subject.as_str());
            let names = names(&root.join(subject));
            let has_any = names.iter().any(|name| name.starts_with("ses-"));
            let lacks = |session: &&Session| {
                has_any && !names.iter().any(|name| *name == *session.session.as_str())
            };
            let missing = sessions.iter().filter(lacks);
            missing
                .map(|session| format!("{subject} {}", session.session))
                .collect()
        });
        missing.concat()
    }

    pub(super) fn maker(&self, derivatives_root: &Path) -> Maker {
        let root = derivatives_root.join(&self.path).join(&self.session);
        let zips = self
            .names
            .iter()
            .filter_map(|name| zip(name.strip_suffix(".zip")?));
        let zips: BTreeSet<(&str, &str)> = zips.collect();
        if !zips.is_empty() {
            let names: BTreeSet<&str> = zips.iter().map(|(name, _)| *name).collect();
            let apps = names.iter();
            let apps = apps.filter_map(|name| named(name, |name, app| name.starts_with(app)));
            let versions = zips.iter().map(|(_, version)| version.replace('-', "."));
            let versions = Vec::from_iter(versions.collect::<BTreeSet<String>>());
            return Maker {
                name: names.first().map(|name| (*name).to_owned()),
                version: format!(" {}", few(&versions, 3)),
                zips: names.iter().map(|name| (*name).to_owned()).collect(),
                // The other apps create FreeSurfer's results, too.
                apps: Vec::from_iter(apps.min_by_key(|app| app.name == "freesurfer")),
            };
        }
        let of_path = self
            .path
            .rsplit('/')
            .find_map(|part| named(part, |part, app| part.contains(app)));
        let is_freesurfer = |name: &String| {
            let parts = names(&root.join(name));
            let has = |part: &str| parts.iter().any(|name| name == part);
            has("scripts") && has("surf")
        };
        if self.names.iter().take(super::SAMPLE).any(is_freesurfer) {
            let is_long = self.names.iter().any(|name| name.contains(".long."));
            let apps: &[&str] = match of_path.map(|app| app.name) {
                Some("fastsurfer") => &["fastsurfer"],
                _ if is_long => &["freesurfer", "freesurfer_long"],
                _ => &["freesurfer"],
            };
            let apps = apps.iter().filter_map(|name| catalogue::app(name));
            return Maker {
                apps: apps.collect(),
                ..Maker::default()
            };
        }
        let text = regular::read_regular(&root.join(catalogue::DESCRIPTION)).unwrap_or_default();
        let described: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        // The name before BIDS 1.4 was `PipelineDescription`.
        let by = described.get("GeneratedBy").and_then(|by| by.get(0));
        let by = by.or(described.get("PipelineDescription"));
        let word = |key: &str| Some(by?.get(key)?.as_str()?.to_owned());
        let name = word("Name");
        let app = match &name {
            Some(name) => named(name, |name, app| name.starts_with(app)),
            None => of_path,
        };
        Maker {
            name,
            version: word("Version").map_or(String::new(), |version| format!(" {version}")),
            apps: app.into_iter().collect(),
            zips: Vec::new(),
        }
    }
}

/// The app with a similar name.
fn named(name: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<&'static App> {
    let folded = fold(name);
    let apps = catalogue::apps().iter().filter(|app| !app.reads_dicom());
    apps.filter(|app| is_it(&folded, &fold(app.name)))
        .max_by_key(|app| app.name.len())
}

/// Name and version in a zip file's name by BABS: `sub-01_ses-1_fmriprep-25-0-0`.
fn zip(stem: &str) -> Option<(&str, &str)> {
    let mut rest = stem.strip_prefix("sub-")?.split_once('_')?.1;
    if rest.starts_with("ses-") {
        rest = rest.split_once('_')?.1;
    }
    rest.split_once('-')
}

/// The names in a directory that are not hidden; empty if it cannot be read.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let paths = place::entries(dir).unwrap_or_default();
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    names
        .filter(|name| !name.starts_with('.'))
        .map(str::to_owned)
        .collect()
}
