//! The parts of a check: each gathers in a thread of its own and is waited for within limits.

pub mod gather;
pub mod slurm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::base::sys;
use crate::cli::args::{CheckArgs, Global};
use crate::decide::request;
use crate::executor::ExecutorError;
use crate::executor::script::find_script;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::{DiscoverError, Discovery, discover_by};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::state::{State, TaskRow};
use crate::setup::check::{Finding, environment, look, settings, state};
use crate::store::lock::Lock;
use crate::store::sources::{Found, Sources};
use crate::store::state_file::{Store, check_owner};
use crate::store::verify;

/// For what looks at file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// For what asks Slurm, all together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

/// Is the site under check, shared by all threads.
pub struct Site {
    pub config: Config,
    pub cron: bool,
    pub reader: Reader,
    /// Instead of `/proc/self/mountinfo`.
    pub mountinfo: Option<PathBuf>,
}

impl Site {
    pub fn new(config: Config, args: &CheckArgs) -> Self {
        Self {
            reader: Reader::default().counting(config.annex),
            config,
            cron: args.cron,
            mountinfo: args.mountinfo_for_tests.clone(),
        }
    }

    pub fn is_slurm(&self) -> bool {
        self.config.executor == ExecutorKind::Slurm
    }

    /// Looks for a script as the executor does, with another `PATH`.
    pub fn find_script(
        &self,
        script: &str,
        path: Option<&OsString>,
    ) -> Result<PathBuf, ExecutorError> {
        let dirs = self.config.script_dir.iter().cloned();
        let dirs: Vec<PathBuf> = dirs
            .chain(self.config.base_dir().map(Path::to_owned))
            .collect();
        find_script(script, &dirs, path.map(OsString::as_os_str))
    }
}

/// Is a part at work.
struct Part<T> {
    topic: &'static str,
    about: &'static str,
    limit: Duration,
    since: Instant,
    done: Receiver<T>,
}

impl<T: Send + 'static> Part<T> {
    fn start(
        (topic, about): (&'static str, &'static str),
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Self {
        let (sender, done) = mpsc::channel();
        // Nobody listens any more after the limit. A thread that hangs ends with the process. Where there is no thread
        // to be had, the part is missing and says so.
        let _ = std::thread::Builder::new().spawn(move || sender.send(work()));
        Self {
            topic,
            about,
            limit,
            since: Instant::now(),
            done,
        }
    }

    /// Waits for the result. An error is the finding that there is none.
    fn finish(self) -> Result<T, Box<Finding>> {
        let left = self.limit.saturating_sub(self.since.elapsed());
        self.done.recv_timeout(left).map_err(|error| {
            let text = match error {
                RecvTimeoutError::Timeout => {
                    format!("was not done within {} s", self.limit.as_secs())
                }
                RecvTimeoutError::Disconnected => "could not be done: there was no thread to be had, or the program has a fault there".to_owned(),
            };
            Box::new(Finding::error(
                self.topic,
                self.about,
                text,
                "is a file system, the name service or a server hung? `ls`, `df` and `squeue` in a shell tell which",
            ))
        })
    }
}

/// Holds what was read of the state.
pub struct StateLook {
    pub state: State,
    attempts: Vec<TaskRow>,
    verified: Vec<verify::Finding>,
    other_owner: Option<(String, String)>,
    journal_entries: usize,
    pub store: Store,
}

/// Looks at all parts and returns what they find.
pub fn look(site: &Arc<Site>, global: &Global) -> Vec<Finding> {
    let on = |about: (&'static str, &'static str), work: fn(&Site) -> Vec<Finding>| {
        let site = Arc::clone(site);
        Part::start(about, LIMIT, move || work(&site))
    };
    // What others need first.
    let discovery = {
        let site = Arc::clone(site);
        Part::start(("sessions", ""), LIMIT, move || {
            discover_by(&site.reader, &site.config.search())
        })
    };
    let state = {
        let site = Arc::clone(site);
        Part::start(("state", ""), LIMIT, move || read_state(&site))
    };
    let mut running = vec![
        on(("script", ""), gather::scripts),
        on(("state_file", ""), gather::own_places),
        on(("notify", ""), gather::who_is_told),
    ];
    let mut findings = settings::judge(&site.config);
    findings.extend(environment::judge(
        &site.config,
        &|name| Some(sys::env(name)?.to_string_lossy().into_owned()),
        &|path| path.symlink_metadata().is_ok(),
    ));
    let discovery = match discovery.finish() {
        Ok(discovery) => Some(Arc::new(discovery)),
        Err(finding) => {
            findings.push(*finding);
            None
        }
    };
    let state = match state.finish() {
        Ok(Ok(state)) => Some(Arc::new(state)),
        Ok(Err(finding)) | Err(finding) => {
            findings.push(*finding);
            None
        }
    };
    for key in ["dicom_root", "bids_root", "derivatives_root"] {
        let (site, state) = (Arc::clone(site), state.clone());
        running.push(Part::start((key, ""), LIMIT, move || {
            gather::root(&site, key, state.as_deref())
        }));
    }
    if let Some(discovery) = &discovery {
        let (of_sessions, found) = (Arc::clone(site), Arc::clone(discovery));
        running.push(Part::start(("sessions", ""), LIMIT, move || {
            gather::of_all_sessions(&of_sessions, &found)
        }));
        let (site, found, state) = (Arc::clone(site), Arc::clone(discovery), state.clone());
        running.push(Part::start(("markers", ""), LIMIT, move || {
            gather::markers(&site, &found, state.as_deref())
        }));
    }
    running.extend(slurm_or_cron(
        site,
        global,
        discovery.clone(),
        state.clone(),
    ));
    if let Some(state) = &state {
        let found = discovery.as_deref().and_then(|found| found.as_ref().ok());
        findings.extend(judge_state(site, state, found));
    }
    for part in running {
        match part.finish() {
            Ok(found) => findings.extend(found),
            Err(finding) => findings.push(*finding),
        }
    }
    findings
}

/// Starts the part about Slurm; without it, the one about the crontab if that is asked for.
fn slurm_or_cron(
    site: &Arc<Site>,
    global: &Global,
    discovery: Option<Arc<Result<Discovery, DiscoverError>>>,
    state: Option<Arc<StateLook>>,
) -> Option<Part<Vec<Finding>>> {
    let cron = slurm::cron_config(site, global);
    let site = Arc::clone(site);
    if !site.is_slurm() {
        let cron = cron?;
        return Some(Part::start(("cron", ""), LIMIT, move || {
            slurm::look_at_cron_only(&site, cron)
        }));
    }
    // Twice under --cron, and each may take its time.
    let limit = if site.cron {
        SLURM_LIMIT * 2
    } else {
        SLURM_LIMIT
    };
    Some(Part::start(("slurm", ""), limit, move || {
        let found = discovery.as_deref().and_then(|found| found.as_ref().ok());
        slurm::look(&site, found, state.as_deref(), SLURM_LIMIT, cron)
    }))
}

fn read_state(site: &Site) -> Result<StateLook, Box<Finding>> {
    let unusable = |error: &crate::store::state_file::StateError| {
        let hint = error.hint().unwrap_or_default();
        Box::new(Finding::error("state", "", error.to_string(), hint))
    };
    let store = Store::at(&site.config.state_file).map_err(|error| unusable(&error))?;
    let project = request::study_word(site.config.project.clone(), &store.paths.state);
    let sources = Sources::read(&store, &site.config.log_file).of_study(&project);
    let verified = verify::verify(&sources);
    // What cannot be read was told by the line before.
    let state = store.read().unwrap_or_default();
    let other_owner = check_owner(&store.paths, &state.meta, sys::effective_uid())
        .err()
        .map(|error| (error.to_string(), error.hint().unwrap_or_default()));
    Ok(StateLook {
        attempts: store.read_attempts().unwrap_or_default(),
        journal_entries: match &sources.journal {
            Found::Read(salvaged) => salvaged.entries.len(),
            _ => 0,
        },
        verified,
        other_owner,
        state,
        store,
    })
}

fn judge_state(site: &Site, look: &StateLook, found: Option<&Discovery>) -> Vec<Finding> {
    let path = &look.store.paths.state;
    let dir = path.parent().unwrap_or(Path::new("/"));
    // With a part that could not be read, sessions are unknown, not gone.
    let whole = found.filter(|found| found.unreadable.is_empty());
    state::judge(&state::Facts {
        path,
        verified: look.verified.clone(),
        other_owner: look.other_owner.clone(),
        modes: (look::mode(path), look::mode(dir)),
        umask: look::umask(),
        lock: Lock::standing(&look.store.paths.lock, sys::now()).ok(),
        journal_entries: look.journal_entries,
        meta: look.state.meta.clone(),
        rows: look.state.rows(),
        attempts: &look.attempts,
        procedures: &site.config.procedures,
        executor: site.config.executor,
        sessions: whole.map(|found| {
            let sessions = found.sessions.iter();
            sessions
                .map(|session| (session.subject.as_str(), session.session.as_str()))
                .collect()
        }),
    })
}
