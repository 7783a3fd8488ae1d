//! Finds existing results in `derivatives_root` and adapts entries of the catalogue to them.
//!
//! A place is a directory with `sub-*`. The app that created it is identified by `dataset_description.json`, by the
//! names of zip files, or by its path. The variants of that app's entry are tested on some subjects with the program's
//! completion code, and the variant with most complete results is proposed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use crate::base::text::{few, plural};
use crate::base::{parallel, regular};
use crate::gather::completion::probe::Probe;
use crate::gather::completion::{Completion, Completions as _};
use crate::model::bids::suggest::fold;
use crate::model::bids::{Session, SessionLabel};
use crate::model::config::Config;
use crate::model::procedure::Scope;
use crate::setup::catalogue::{self, App};
use crate::setup::place::{self, names};

/// Maximum depth of places in `derivatives_root`: `<pipeline>/<version>/output` of nipoppy.
const DEPTH: usize = 3;
/// Maximum number of directories to read.
const MOST_PLACES: usize = 1000;
/// Number of subjects on which the variants of an entry are tested.
const SAMPLE: usize = 50;

/// Existing results.
#[derive(Debug, Default)]
pub struct Existing {
    /// In the order of the catalogue, at most one per app.
    pub found: Vec<AppResults>,
    /// One line for each place without a proposal.
    pub notes: Vec<String>,
}

/// Results of one app.
#[derive(Debug)]
pub struct AppResults {
    /// The catalogue's app with an adapted entry.
    pub app: App,
    /// `fmriprep 21.0.2 in fmriprep: 3 of 3 subjects complete`
    pub text: String,
    complete: usize,
    place: String,
}

impl Existing {
    /// Finds results of a study with these sessions, optionally only of the apps in `only`.
    pub fn find(config: &Config, sessions: &[Session], only: Option<&[String]>) -> Self {
        let mut all = Self::default();
        for place in all.places(&config.derivatives_root) {
            let maker = place.maker(&config.derivatives_root);
            if maker.apps.is_empty() && only.is_none() {
                let (path, name) = (&place.path, maker.name.as_deref());
                let name = name.unwrap_or("an app");
                all.notes.push(format!(
                    "found {path}, results of {name}, which is not in the catalogue; docs/adopting.md explains how to write a procedure for them"
                ));
            }
            let is_wanted =
                |app: &&&App| only.is_none_or(|names| names.iter().any(|name| name == app.name));
            for app in maker.apps.iter().filter(is_wanted) {
                all.add(app, (&place, &maker), (config, sessions));
            }
        }
        let apps = catalogue::apps();
        let order = |found: &AppResults| apps.iter().position(|app| app.name == found.app.name);
        let Self { found, notes } = &mut all;
        // The place with most complete results of an app comes first.
        found.sort_by_key(|found| (order(found), Reverse(found.complete)));
        found.dedup_by(|other, first| {
            let is_same = other.app.name == first.app.name;
            if is_same {
                let (text, place) = (&other.text, &first.place);
                notes.push(format!("{text}, in addition to those in {place}"));
            }
            is_same
        });
        // fMRIPrep creates FreeSurfer's results in its own directory, so FreeSurfer must run after it.
        let mut found = all.found.iter();
        let fmriprep = found.find(|found| found.app.name == "fmriprep");
        if let Some(around) = fmriprep.map(|found| format!("{}/", found.place)) {
            let inner = all.found.iter_mut();
            for found in inner.filter(|found| found.place.starts_with(&around)) {
                found.app.needs = &[&["fmriprep"]];
            }
        }
        all
    }

    /// An app by name, with its adapted entry.
    pub fn app(&self, name: &str) -> Option<&App> {
        let found = self.found.iter().find(|found| found.app.name == name);
        found.map(|found| &found.app).or(catalogue::app(name))
    }

    /// The catalogue with adapted entries.
    pub fn catalogue(&self) -> Vec<App> {
        let apps = catalogue::apps().iter();
        apps.filter_map(|app| self.app(app.name).cloned()).collect()
    }

    /// Adds the results of an app in a place, or a note.
    fn add(
        &mut self,
        app: &App,
        (place, maker): (&Place, &Maker),
        (config, sessions): (&Config, &[Session]),
    ) {
        let by_session = place.has_sessions();
        let forms = match maker.zips.as_slice() {
            [] => app.forms(&place.path, by_session),
            // Some zip files may exist only for a few subjects.
            zips => {
                let mut own = zips.to_vec();
                own.retain(|name| fold(name).starts_with(&fold(app.name)));
                let sets = [zips, own.as_slice()].into_iter();
                sets.filter(|names| !names.is_empty())
                    .map(|names| app.zipped(&place.path, names, by_session))
                    .collect()
            }
        };
        let subjects: Vec<&[Session]> = sessions.chunk_by(|a, b| a.subject == b.subject).collect();
        let sample = place::sample(&subjects, SAMPLE).copied();
        let sample: Vec<&[Session]> = sample.collect();
        // The first of equal ones.
        let rated = forms.iter().rev();
        let best = rated.max_by_key(|form| count(form, config, &sample).0);
        let Some(app) = best else { return };
        let (complete, possible, scope) = count(app, config, &subjects);
        let (name, version, path) = (app.name, &maker.version, &place.path);
        let text = format!(
            "{name}{version} in {path}: {complete} of {} complete",
            plural(possible, scope.as_str())
        );
        if scope == Scope::Subject && complete > 0 {
            let missing = place.missing_sessions(config, &subjects);
            if let Some(first) = missing.first() {
                let sessions = plural(missing.len(), "session");
                self.notes.push(format!(
                    "{sessions} of complete subjects without a directory in {path}, such as {first}: to process them, move the \
                     subject's results away",
                ));
            }
        }
        if complete == 0 {
            self.notes.push(format!(
                "{text} with the catalogue's entry, so it is not proposed; `init --add {name}` adds it, and `explain` shows what is missing"
            ));
            return;
        }
        self.found.push(AppResults {
            app: app.remarked(&format!("Existing results: {text}.")),
            text,
            complete,
            place: path.clone(),
        });
    }

    /// The directories with results, the nearest first.
    fn places(&mut self, root: &Path) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        let mut queue = VecDeque::from([(String::new(), 0)]);
        let mut read_count = 0;
        while let Some((path, depth)) = queue.pop_front() {
            read_count += 1;
            if depth == DEPTH + 3 || read_count > MOST_PLACES {
                break;
            }
            let (mut subjects, others): (Vec<String>, Vec<String>) = names(&root.join(&path))
                .into_iter()
                .partition(|name| name.starts_with("sub-"));
            let mut session = others.iter().find(|name| name.starts_with("ses-")).cloned();
            let is_place = !subjects.is_empty() && !path.is_empty();
            if is_place || path.is_empty() {
                session = None;
            }
            if let Some(session) = &session {
                subjects = names(&root.join(&path).join(session));
                subjects.retain(|name| name.starts_with("sub-"));
            } else {
                // fMRIPrep contains FreeSurfer's results, and QSIRecon contains each workflow's results.
                let is_inner = |name: &str| ["sourcedata", "derivatives"].contains(&name);
                let is_wanted = |name: &&String| match path.ends_with("sourcedata") {
                    true => true,
                    false if is_place => is_inner(name),
                    false => depth < DEPTH,
                };
                let below = others.iter().filter(is_wanted);
                let below = below.map(|name| format!("{path}/{name}"));
                queue
                    .extend(below.map(|path| (path.trim_start_matches('/').to_owned(), depth + 1)));
            }
            if !subjects.is_empty() && !path.is_empty() {
                let session = session.unwrap_or_default();
                places.push(Place {
                    path,
                    names: subjects,
                    session,
                });
            }
        }
        for place in &mut places {
            // QSIRecon's entry includes `derivatives` in its patterns.
            if let Some((outer, _)) = place.path.split_once("/derivatives/qsirecon-") {
                place.path = outer.to_owned();
            }
        }
        places.dedup_by(|a, b| a.path == b.path);
        // The configuration would interpret them as placeholders or variables.
        places.retain(|place| !place.path.contains(['{', '}', '$', '\\']));
        places
    }
}

/// The numbers of complete and of applicable tasks of an app's entry.
fn count(app: &App, config: &Config, subjects: &[&[Session]]) -> (usize, usize, Scope) {
    let text = format!("procedures:\n{}", app.entry_for(&[], None));
    let Ok(Config { procedures, .. }) = super::survey::built_in(&text) else {
        return Default::default();
    };
    let config = Config {
        procedures,
        ..config.clone()
    };
    let first = config.procedures.iter().next();
    let (Some((id, procedure)), Ok(probe)) = (first, Probe::new(&config)) else {
        return Default::default();
    };
    let counts = parallel::map(subjects, config.scan_threads, |sessions| {
        let Some(first) = sessions.first() else {
            return (0, 0);
        };
        let none = SessionLabel::none();
        let labels: Vec<&SessionLabel> = match procedure.scope {
            Scope::Subject => vec![&none],
            Scope::Session => sessions.iter().map(|session| &session.session).collect(),
        };
        let subject = probe.for_subject(&first.subject);
        let answers = labels.iter().map(|label| subject.completion(id, label));
        let mut answers: Vec<Completion> = answers.collect();
        answers.retain(|answer| *answer != Completion::NotApplicable);
        let complete = answers
            .iter()
            .filter(|answer| **answer == Completion::Complete);
        (complete.count(), answers.len())
    });
    let (complete, possible): (Vec<usize>, Vec<usize>) = counts.into_iter().unzip();
    (
        complete.iter().sum(),
        possible.iter().sum(),
        procedure.scope,
    )
}

/// A directory with results of several subjects.
struct Place {
    /// Relative to `derivatives_root`.
    path: String,
    /// Names that start with `sub-`.
    names: Vec<String>,
    /// The session directory around the subjects (nipoppy's layout for FreeSurfer), or empty.
    session: String,
}

/// The program that created the results of a place.
#[derive(Default)]
struct Maker {
    name: Option<String>,
    version: String,
    /// Names of the results in zip files.
    zips: Vec<String>,
    apps: Vec<&'static App>,
}

impl Place {
    /// True if there are separate results for each session.
    fn has_sessions(&self) -> bool {
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
    fn missing_sessions(&self, config: &Config, subjects: &[&[Session]]) -> Vec<String> {
        let root = config.derivatives_root.join(&self.path);
        let missing: Vec<Vec<String>> = parallel::map(subjects, config.scan_threads, |sessions| {
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

    fn maker(&self, derivatives_root: &Path) -> Maker {
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
        if self.names.iter().take(SAMPLE).any(is_freesurfer) {
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
