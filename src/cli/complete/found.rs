//! What the study of the line holds: subjects, sessions and procedures, as far as they are found in time.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use super::line::Line;
use crate::base::sys;
use crate::config;
use crate::config::{Overrides, Source};
use crate::gather::sessions::discover::discover;
use crate::model::bids::{SessionLabel, SessionSource, SubjectLabel};
use crate::model::config::Config;
use crate::store::state_file::Store;

/// A person waits for the answer, perhaps at a file server that does not.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Finds things when they are asked for, each at most once.
pub struct Study {
    pub line: Line,
    working_dir: Option<PathBuf>,
    begin: Instant,
    config: OnceLock<Option<Arc<Config>>>,
    subjects: OnceLock<Vec<String>>,
    sessions: OnceLock<Vec<String>>,
}

/// Is a search that may take long.
type Search = fn(&Config, &[String]) -> Vec<String>;

impl Study {
    pub fn new(line: Line, working_dir: Option<PathBuf>) -> Self {
        Self {
            line,
            working_dir,
            begin: Instant::now(),
            config: OnceLock::new(),
            subjects: OnceLock::new(),
            sessions: OnceLock::new(),
        }
    }

    pub fn subjects(&self) -> &[String] {
        let search = || self.search(&[subjects_on_disk, subjects_of_state]);
        self.subjects.get_or_init(search)
    }

    /// Returns the sessions of the subjects that the line names, else all.
    pub fn sessions(&self) -> &[String] {
        let search = || self.search(&[sessions_on_disk, sessions_of_state]);
        self.sessions.get_or_init(search)
    }

    /// Returns the procedures in the order of the configuration.
    pub fn procedures(&self) -> Vec<String> {
        let procedures = self
            .config()
            .into_iter()
            .flat_map(|config| config.procedures.iter());
        procedures
            .map(|(_, procedure)| procedure.name.to_string())
            .collect()
    }

    pub fn names_procedure(&self) -> bool {
        let words = self.line.words.get(1..).unwrap_or_default();
        self.procedures().iter().any(|name| words.contains(name))
    }

    /// Returns none if there is anything wrong with it.
    fn config(&self) -> Option<&Arc<Config>> {
        let load = || {
            let home = |path: PathBuf| match (path.strip_prefix("~"), sys::env("HOME")) {
                (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
                _ => path,
            };
            let source = Source::choose(self.line.config.clone().map(home), &sys::env);
            let working_dir = self
                .working_dir
                .clone()
                .unwrap_or_else(|| PathBuf::from("/"));
            let (sender, receiver) = mpsc::channel();
            // Also the configuration may lie on a file server that hangs.
            std::thread::spawn(move || {
                let loaded = config::load(&source, &sys::env, &Overrides::default(), &working_dir);
                // Nobody listens any more when it is late.
                let _ = sender.send(loaded.ok().map(Arc::new));
            });
            receiver.recv_timeout(self.left()).ok().flatten()
        };
        self.config.get_or_init(load).as_ref()
    }

    /// Puts together what several searches find; those that are late count as empty, and end with the process.
    fn search(&self, searches: &[Search]) -> Vec<String> {
        let Some(config) = self.config() else {
            return Vec::new();
        };
        let (sender, receiver) = mpsc::channel();
        for search in searches {
            let (sender, config, subjects) = (
                sender.clone(),
                Arc::clone(config),
                self.line.subjects.clone(),
            );
            let search = *search;
            std::thread::spawn(move || {
                let _ = sender.send(search(&config, &subjects));
            });
        }
        drop(sender);
        let mut all = BTreeSet::new();
        while let Ok(found) = receiver.recv_timeout(self.left()) {
            all.extend(found);
        }
        all.into_iter().collect()
    }

    /// Returns how long the person may still wait.
    fn left(&self) -> Duration {
        PATIENCE.saturating_sub(self.begin.elapsed())
    }
}

fn subjects_on_disk(config: &Config, _: &[String]) -> Vec<String> {
    let root = match &config.sessions {
        SessionSource::Dicom => &config.dicom_root,
        SessionSource::Bids => &config.bids_root,
        SessionSource::Csv { .. } => {
            let found = discover(&config.search()).unwrap_or_default();
            return found
                .sessions
                .iter()
                .map(|session| session.subject.to_string())
                .collect();
        }
    };
    // One read of a directory, whatever the number of sessions.
    names(root, |name| SubjectLabel::new(name).is_ok())
}

fn sessions_on_disk(config: &Config, subjects: &[String]) -> Vec<String> {
    let root = match &config.sessions {
        SessionSource::Dicom => Some(&config.dicom_root),
        SessionSource::Bids => Some(&config.bids_root),
        SessionSource::Csv { .. } => None,
    };
    match root {
        Some(root) if !subjects.is_empty() => subjects
            .iter()
            .filter(|subject| SubjectLabel::new(subject).is_ok())
            .flat_map(|subject| names(&root.join(subject), |name| SessionLabel::new(name).is_ok()))
            .collect(),
        _ => {
            let found = discover(&config.search()).unwrap_or_default();
            let sessions = found.sessions.iter();
            sessions
                .filter(|session| {
                    subjects.is_empty() || subjects.iter().any(|s| s == session.subject.as_str())
                })
                .map(|session| session.session.to_string())
                .filter(|session| !session.is_empty())
                .collect()
        }
    }
}

fn subjects_of_state(config: &Config, _: &[String]) -> Vec<String> {
    of_state(config, |subject, _| Some(subject))
}

fn sessions_of_state(config: &Config, subjects: &[String]) -> Vec<String> {
    of_state(config, |subject, session| {
        let is_asked_for = subjects.is_empty() || subjects.iter().any(|s| s == subject);
        (is_asked_for && !session.is_empty()).then_some(session)
    })
}

fn of_state(
    config: &Config,
    pick: impl for<'a> Fn(&'a str, &'a str) -> Option<&'a str>,
) -> Vec<String> {
    let state = Store::at(&config.state_file).and_then(|store| store.read());
    let Ok(state) = state else { return Vec::new() };
    let picked = state
        .rows()
        .iter()
        .filter_map(|row| pick(&row.key.subject, &row.key.session))
        .map(str::to_owned);
    picked.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the names in a directory that are wanted; none if it cannot be read.
fn names(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = walkdir::WalkDir::new(dir)
        .min_depth(1)
        .max_depth(1)
        .follow_root_links(true);
    entries
        .into_iter()
        .filter_map(Result::ok)
        .map(|entry| OsString::from(entry.file_name()))
        .filter_map(|name| name.into_string().ok())
        .filter(|name| is_wanted(name))
        .collect()
}
