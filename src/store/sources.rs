//! All files of a state, each read separately: the sources of `state verify` and `state repair`.
//!
//! Changes nothing and takes no lock. An unreadable file is a value here, not an error.

use std::path::{Path, PathBuf};

use super::audit_log::{self, EventKind, Record, project_of};
use super::control::Control;
use super::journal::{self, Salvaged};
use super::schema::{Contents, file};
use crate::base::durable;
use crate::model::job::is_same_study;
use crate::model::state::table::Identity;
use crate::store::state_file::{StateError, StatePaths, Store, TRIES};

/// The contents of all files.
#[derive(Debug)]
pub struct Sources {
    pub paths: StatePaths,
    pub state: Found<Contents>,
    pub backup: Found<Contents>,
    pub attempts: Found<Contents>,
    pub journal: Found<Salvaged>,
    /// Inode and length of the journal.
    pub journal_mark: Option<(u64, u64)>,
    pub audit: Found<audit_log::Contents>,
    pub control: Found<Control>,
    pub audit_path: PathBuf,
    /// The studies whose events were removed from the audit log.
    pub other_studies: Option<audit_log::OtherStudies>,
    /// Temporary files of processes that are writing now or were killed.
    pub temporary: Vec<PathBuf>,
}

/// The contents of a file, or why there are none.
#[derive(Debug)]
pub enum Found<T> {
    Missing,
    Read(T),
    /// The file is damaged. `identity` distinguishes it from any other contents.
    Damaged {
        error: StateError,
        identity: Option<Identity>,
    },
    /// The file cannot be accessed, or is intact but not understood, so its contents are unknown.
    Unusable(StateError),
}

impl<T> Found<T> {
    /// `None` is a missing file.
    fn of(outcome: Result<Option<T>, StateError>) -> Self {
        match outcome {
            Ok(Some(value)) => Self::Read(value),
            Ok(None) => Self::Missing,
            Err(error) => Self::Unusable(error),
        }
    }

    pub fn read(&self) -> Option<&T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Missing | Self::Damaged { .. } | Self::Unusable(_) => None,
        }
    }

    fn usable(self) -> Result<Self, StateError> {
        match self {
            Self::Unusable(error) => Err(error),
            found => Ok(found),
        }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl Found<Contents> {
    /// Distinguishes the file from any other contents, if it is accessible.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Read(contents) => Some(&contents.identity),
            Self::Damaged { identity, .. } => identity.as_ref(),
            Self::Missing | Self::Unusable(_) => None,
        }
    }
}

impl Sources {
    /// Reads all files. A writer appends to the audit log, then to the journal, then replaces the
    /// attempts and the state; read in that order (the attempts last), nothing is missed.
    pub fn read(store: &Store, audit_path: &Path) -> Self {
        let mut sources = Self::read_once(store, audit_path);
        for _ in 1..TRIES {
            let is_same = matches!(sources.state, Found::Unusable(_))
                || identity_of(&store.paths.state).as_ref() == sources.state.identity();
            if is_same {
                break;
            }
            sources = Self::read_once(store, audit_path);
        }
        sources
    }

    /// Removes the events of other studies that write to the same log. `project` is this study's word if no file
    /// has it. A log without that word is kept as it is, since it may be all that is left.
    pub fn of_study(mut self, project: &str) -> Self {
        let meta = |file: &Found<Contents>| file.read()?.meta.project.clone();
        let files = [&self.state, &self.backup, &self.attempts];
        let known = files.into_iter().find_map(meta);
        let Found::Read(contents) = &mut self.audit else {
            return self;
        };
        let projects = contents.projects();
        if known.is_some() || projects.iter().any(|word| is_same_study(word, project)) {
            let own = known.as_deref().unwrap_or(project);
            self.other_studies = contents.remove_other_studies(own);
        }
        self
    }

    fn read_once(store: &Store, audit_path: &Path) -> Self {
        let paths = &store.paths;
        let audit = audit_log::read(audit_path).map_err(StateError::io("read", audit_path));
        let (journal, journal_mark) = read_journal(store);
        let (temporary, _) = durable::list_leftovers(&[
            &paths.state,
            &paths.backup,
            &paths.attempts,
            &paths.journal,
            &paths.control,
        ]);
        let exists = |_: &Control| paths.control.symlink_metadata().is_ok();
        let control = store.read_control().map(|read| Some(read).filter(exists));
        Self {
            other_studies: None,
            audit: Found::of(audit),
            control: Found::of(control),
            journal,
            journal_mark,
            state: load(store, &paths.state),
            backup: load(store, &paths.backup),
            attempts: load(store, &paths.attempts),
            paths: paths.clone(),
            audit_path: audit_path.to_owned(),
            temporary,
        }
    }

    /// The state file and its backup, if the backup is newer: then an older state file was put in place.
    pub fn rolled_back(&self) -> Option<(&Contents, &Contents)> {
        let both = self.state.read().zip(self.backup.read());
        both.filter(|(state, backup)| {
            let are_ours = state.meta.format_version > 0 && backup.meta.format_version > 0;
            are_ours
                && backup.meta.generation >= state.meta.generation
                && backup.identity != state.identity
        })
    }

    /// The damaged files, to keep under another name.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let paths = &self.paths;
        let journal = self.journal.read();
        let files = [
            (self.state.is_damaged(), &paths.state),
            (self.backup.is_damaged(), &paths.backup),
            (self.attempts.is_damaged(), &paths.attempts),
            (
                journal.is_some_and(|found| !found.damaged.is_empty()),
                &paths.journal,
            ),
        ];
        let damaged = files.into_iter().filter(|(is_damaged, _)| *is_damaged);
        damaged.map(|(_, path)| path.clone()).collect()
    }

    /// Refuses sources with unknown contents: a rebuilt state could lack their rows.
    pub fn require_usable(mut self) -> Result<Self, StateError> {
        self.state = self.state.usable()?;
        self.attempts = self.attempts.usable()?;
        self.journal = self.journal.usable()?;
        self.audit = self.audit.usable()?;
        // A backup that is intact but not understood is ignored; there may be better sources.
        if !matches!(
            self.backup,
            Found::Unusable(StateError::NotUnderstood { .. })
        ) {
            self.backup = self.backup.usable()?;
        }
        Ok(self)
    }
}

/// The first file that an earlier state left, with a description. `is_known` is true for a configured procedure,
/// `project` marks this study's jobs: several studies may share an audit log.
pub fn find_traces(
    store: &Store,
    log: &Path,
    project: &str,
    is_known: &dyn Fn(&str) -> bool,
) -> Option<(&'static str, PathBuf)> {
    let paths = &store.paths;
    let files = [
        ("its backup", &paths.backup),
        ("its attempts file", &paths.attempts),
        ("its journal", &paths.journal),
    ];
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    if let Some((what, path)) = files.into_iter().find(|(_, path)| exists(path)) {
        return Some((what, path.clone()));
    }
    // `state verify` reports an unreadable log.
    let contents = audit_log::read(log).ok()??;
    let is_ours = |record: &Record| {
        matches!(record.kind, EventKind::Submitted | EventKind::Adopted)
            && is_known(&record.key.procedure)
            && project_of(record).is_none_or(|of| is_same_study(&of, project))
    };
    let has_jobs = contents.records.iter().any(is_ours);
    has_jobs.then(|| ("an audit log with its jobs", log.to_owned()))
}

fn load(store: &Store, path: &Path) -> Found<Contents> {
    match store.load(path) {
        Err(error @ StateError::Damaged { .. }) => Found::Damaged {
            error,
            identity: identity_of(path),
        },
        outcome => Found::of(outcome),
    }
}

fn identity_of(path: &Path) -> Option<Identity> {
    durable::open_again(path)
        .and_then(|file| file::identify(&file))
        .ok()
}

fn read_journal(store: &Store) -> (Found<Salvaged>, Option<(u64, u64)>) {
    let read = || {
        let mark = store.journal_mark()?;
        Ok((journal::salvage(&store.paths.journal)?, mark))
    };
    match read() {
        Ok((salvaged, mark)) => (Found::of(Ok(salvaged)), mark),
        Err(error) => (Found::Unusable(error), None),
    }
}
