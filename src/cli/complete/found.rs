//! Candidates from the study: procedures, subjects and sessions, from the data and from the rows.
//!
//! Never waits long: slow or broken sources yield nothing.

use std::collections::BTreeSet;
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

/// Time limit, so that a hanging file system does not block the terminal.
const TIME_LIMIT: Duration = Duration::from_millis(1500);

/// The study of the line. Everything is read at most once, and only if needed.
pub struct Study {
    pub line: Line,
    working_dir: Option<PathBuf>,
    begin: Instant,
    config: OnceLock<Option<Arc<Config>>>,
    subjects: OnceLock<BTreeSet<String>>,
    sessions: OnceLock<BTreeSet<String>>,
}

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

    pub fn subjects(&self) -> &BTreeSet<String> {
        self.subjects.get_or_init(|| self.search(subjects))
    }

    /// Sessions of the subjects on the line, if any, else all.
    pub fn sessions(&self) -> &BTreeSet<String> {
        self.sessions.get_or_init(|| self.search(sessions))
    }

    pub fn procedures(&self) -> BTreeSet<String> {
        let config = self.config().into_iter();
        let procedures = config.flat_map(|config| config.procedures.iter());
        procedures.map(|(_, one)| one.name.to_string()).collect()
    }

    /// True if a procedure is on the line, apart from the command.
    pub fn names_procedure(&self) -> bool {
        let words = self.line.words.get(1..).unwrap_or_default();
        self.procedures().iter().any(|name| words.contains(name))
    }

    fn config(&self) -> Option<&Arc<Config>> {
        let load = || {
            // The shell has not expanded `~` yet.
            let home = |path: PathBuf| match (path.strip_prefix("~"), sys::env("HOME")) {
                (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
                _ => path,
            };
            let source = Source::choose(self.line.config.clone().map(home), &sys::env);
            let dir = self.working_dir.clone().unwrap_or_else(|| "/".into());
            let load = move || config::load(&source, &sys::env, &Overrides::default(), &dir);
            Some(Arc::new(self.in_time(load)?.ok()?))
        };
        self.config.get_or_init(load).as_ref()
    }

    fn search(&self, labels: fn(&Config, &[String]) -> BTreeSet<String>) -> BTreeSet<String> {
        let found = self.config().and_then(|config| {
            let (config, subjects) = (Arc::clone(config), self.line.subjects.clone());
            self.in_time(move || labels(&config, &subjects))
        });
        found.unwrap_or_default()
    }

    /// Does the work in a thread, and gives up after the time limit.
    fn in_time<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(work()));
        let left = TIME_LIMIT.saturating_sub(self.begin.elapsed());
        receiver.recv_timeout(left).ok()
    }
}

fn subjects(config: &Config, _: &[String]) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = rows(config)
        .into_iter()
        .map(|(subject, _)| subject)
        .collect();
    match root(config) {
        Some(root) => all.extend(names(root, |name| SubjectLabel::new(name).is_ok())),
        None => all.extend(discovered(config).map(|(subject, _)| subject)),
    }
    all
}

fn sessions(config: &Config, subjects: &[String]) -> BTreeSet<String> {
    let is_meant = |subject: &String| subjects.is_empty() || subjects.contains(subject);
    let session = |(subject, session)| is_meant(&subject).then_some(session);
    let mut all: BTreeSet<String> = rows(config).into_iter().filter_map(session).collect();
    match root(config) {
        Some(root) if !subjects.is_empty() => {
            let subjects = subjects
                .iter()
                .filter(|name| SubjectLabel::new(name).is_ok());
            let is_label = |name: &str| SessionLabel::new(name).is_ok();
            all.extend(subjects.flat_map(|subject| names(&root.join(subject), is_label)));
        }
        _ => all.extend(discovered(config).filter_map(session)),
    }
    all.remove("");
    all
}

/// The directory whose entries are subjects, if there is one.
fn root(config: &Config) -> Option<&Path> {
    match &config.sessions {
        SessionSource::Dicom => Some(&config.dicom_root),
        SessionSource::Bids => Some(&config.bids_root),
        SessionSource::Csv { .. } => None,
    }
}

fn discovered(config: &Config) -> impl Iterator<Item = (String, String)> {
    let found = discover(&config.search()).unwrap_or_default().sessions;
    let found = found.into_iter();
    found.map(|session| (session.subject.to_string(), session.session.to_string()))
}

fn rows(config: &Config) -> Vec<(String, String)> {
    let state = Store::at(&config.state_file).and_then(|store| store.read());
    let state = state.unwrap_or_default();
    let keys = state.rows().iter().map(|row| &row.key);
    keys.map(|key| (key.subject.to_string(), key.session.to_string()))
        .collect()
}

/// The wanted names in a directory; none if it cannot be read.
fn names(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = walkdir::WalkDir::new(dir).min_depth(1).max_depth(1);
    let entries = entries.follow_root_links(true).into_iter();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().map(str::to_owned));
    names.filter(|name| is_wanted(name)).collect()
}
