//! What commands share: configuration, state, executor, access to the data trees.

mod place;

use place::{print_warnings, refuse_ambiguous_link};
pub use place::{refuse_data, refuse_foreign, warn_stops};

use super::args::{Global, SelectArgs, WriteArgs};
use super::{Config, Exit, Failure, Printer, Result, Selection, State, TaskRow, sys};
use crate::act::pass::{Looked, Pass, newest_submission};
use crate::base::regular::FileError;
use crate::config;
use crate::config::load::choose;
use crate::config::{ConfigError, Overrides, Setting};
use crate::decide::safety::{Blind, roots};
use crate::decide::{request, safety};
use crate::executor::local::{LocalExecutor, LocalSettings};
use crate::executor::slurm::{SlurmExecutor, SlurmSettings};
use crate::executor::{Executor, accounting_hint};
use crate::gather::completion::Completions;
use crate::gather::completion::probe::Probe;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::{DiscoverError, Discovery, discover_by};
use crate::model::bids::SessionSource;
use crate::model::job::ExecutorKind;
use crate::store::audit_log::{AuditLog, text};
use crate::store::lock::{Lock, LockError};
use crate::store::state_file::{LockedStore, StateError, Store, check_original, check_owner};

/// Everything loaded for one invocation.
pub struct Context {
    pub config: Config,
    pub store: Store,
    /// Part of every event of this invocation.
    pub run_id: String,
    reader: Reader,
    is_lock_useless: bool,
}

/// Whether an executor may write its own records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Context {
    pub fn load(global: &Global) -> Result<Self> {
        let (config, _) = read_config(global)?;
        refuse_ambiguous_link(&config)?;
        let store = Store::at(&config.state_file)?;
        let reader = Reader::default().with_annex(config.annex);
        let reader = match config.sessions {
            SessionSource::Bids => reader.with_shared_listings(),
            _ => reader,
        };
        let (now, pid) = (sys::now().format("%Y%m%dT%H%M%SZ"), std::process::id());
        Ok(Self {
            run_id: format!("{now}-{pid}-{:08x}", sys::random() >> 32),
            config,
            store,
            reader,
            is_lock_useless: global.grants_every_lock(),
        })
    }

    /// Prints the warnings of the configuration, or that there is none.
    pub fn report_configuration(&self, printer: &mut Printer) {
        printer.warnings(&self.config.warnings);
        if self.config.file.is_none() {
            let state = self.config.state_file.display();
            // A user may expect it to be read.
            let beside = match std::fs::symlink_metadata("config.yaml") {
                Ok(_) => "; config.yaml in this directory is not read automatically",
                Err(_) => "",
            };
            printer.note(&format!(
                "no configuration file (--config or SNBB_CONFIG): using the built-in defaults, with the state in {state}{beside}"
            ));
        }
    }

    /// Reads the state without a lock.
    pub fn read_state(&self, printer: &mut Printer) -> Result<State> {
        let state = self.store.read()?;
        print_warnings(&state, printer);
        self.warn_if_lost(&state, printer);
        Ok(state)
    }

    /// The rows on record and the selection of them; refuses names that match nothing.
    pub fn select_rows(
        &self,
        args: &SelectArgs,
        printer: &mut Printer,
    ) -> Result<(State, Selection)> {
        let state = self.read_state(printer)?;
        let selection = self.selection_among(args, Some(&state))?;
        self.refuse_off_record(&state, args)?;
        Ok((state, selection))
    }

    /// Takes the lock and reads the state, but a dry run only reads the state.
    pub fn lock_or_read_state(
        &self,
        command: &str,
        is_dry_run: bool,
        args: &WriteArgs,
        printer: &mut Printer,
    ) -> Result<(Option<LockedStore>, State)> {
        if is_dry_run {
            return Ok((None, self.read_state(printer)?));
        }
        let (locked, state) = self.lock_state(command, args, printer)?;
        Ok((Some(locked), state))
    }

    /// Takes the lock and reads the state, for a command that writes.
    pub fn lock_state(
        &self,
        command: &str,
        args: &WriteArgs,
        printer: &mut Printer,
    ) -> Result<(LockedStore, State)> {
        let timeout = args.lock_timeout.unwrap_or(self.config.lock_timeout);
        self.check_place()?;
        let store = self.store.clone();
        let locked = match self.is_lock_useless {
            true => store.locked_by(Lock::unlocked()),
            false => store
                .lock(command, timeout)
                .map_err(|error| self.explain_no_lock(error, args))?,
        };
        let mut state = locked.read()?;
        print_warnings(&state, printer);
        self.check_ours(&state, args)?;
        if self.traces(&state).is_some() {
            let now = u64::try_from(sys::now().timestamp()).unwrap_or_default();
            state.meta.begun_anew = Some(now);
        }
        if (state.meta.project.is_none() || !state.is_stored())
            && let Some(copy) = self.store.meta_of_copies()
        {
            state.meta.project = state.meta.project.or(copy.project);
            state.meta.cluster = state.meta.cluster.or(copy.cluster);
        }
        let project = self.project(&state);
        if !state.is_stored() && state.meta.cluster.is_none() {
            let newest = newest_submission(&self.config, &project);
            let cluster = newest
                .as_ref()
                .and_then(|record| text(record, "home_cluster"));
            state.meta.cluster = cluster.map(str::to_owned);
        }
        state.meta.project = Some(project);
        // A later copy of the state must find this study.
        if state.meta.path.is_some() && state.meta.path != self.store.paths.real_path() {
            state.mark_changed();
        }
        self.report_new_state(command, &state, printer);
        Ok((locked, state))
    }

    /// Refuses to write a state that belongs to another user, or that is a copy of one in use elsewhere.
    pub fn check_ours(&self, state: &State, args: &WriteArgs) -> Result<(), StateError> {
        if !args.as_owner {
            check_owner(&self.store.paths, &state.meta, sys::effective_uid())?;
        }
        check_original(&self.store, &state.meta)
    }

    /// If this user may not even create a lock, another owner of the state is the better explanation.
    fn explain_no_lock(&self, error: LockError, args: &WriteArgs) -> Failure {
        let is_denied = matches!(&error, LockError::Io(FileError { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied);
        if is_denied
            && !args.as_owner
            && let Ok(state) = self.store.read()
            && let Err(owner) = check_owner(&self.store.paths, &state.meta, sys::effective_uid())
        {
            return owner.into();
        }
        error.into()
    }

    /// The name that distinguishes this study's jobs from other jobs.
    pub fn project(&self, state: &State) -> String {
        let stored = state.meta.project.clone();
        let stored = stored.or_else(|| self.store.meta_of_copies()?.project);
        let known = stored.or_else(|| self.config.project.clone());
        request::study_word(known, &self.store.paths.state)
    }

    /// The same for a study without a state.
    pub fn default_project(&self) -> String {
        request::study_word(self.config.project.clone(), &self.store.paths.state)
    }

    /// The executor, which queries the jobs of the state's owner.
    pub fn executor(&self, access: Access, state: &State) -> Result<Box<dyn Executor>> {
        Ok(match self.config.executor {
            ExecutorKind::Slurm => {
                let settings = SlurmSettings::from_config(&self.config, &state.meta);
                Box::new(SlurmExecutor::new(settings))
            }
            ExecutorKind::Local => {
                let mut settings =
                    LocalSettings::from_config(&self.config, &self.store.paths.local, &state.meta);
                settings.read_only = access == Access::ReadOnly;
                Box::new(LocalExecutor::new(settings)?)
            }
        })
    }

    /// A pass over the real world.
    pub fn pass<'a>(
        &'a self,
        executor: &'a mut dyn Executor,
        completions: &'a dyn Completions,
        project: &'a str,
    ) -> Pass<'a> {
        Pass {
            config: &self.config,
            project,
            run_id: &self.run_id,
            executor,
            completions,
            clock: &sys::now,
            pause: &std::thread::sleep,
        }
    }

    pub fn find_sessions(&self) -> Result<Discovery, DiscoverError> {
        discover_by(&self.reader, &self.config)
    }

    /// Finds the sessions and warns of unreadable directories.
    pub fn discover(&self, printer: &mut Printer) -> Result<Discovery> {
        let found = self.find_sessions();
        let found = found.map_err(|error| self.no_sessions(error))?;
        for what in &found.unreadable {
            printer.warning(&format!("{what}; its sessions stay as they are"));
        }
        Ok(found)
    }

    /// Opens the audit log for writing.
    pub fn open_audit(&self) -> Result<AuditLog> {
        Ok(AuditLog::open(&self.config.log_file, &self.run_id)?)
    }

    /// The check of outputs that rows depend on. It reports nothing if a root with results is missing, because jobs would
    /// then seem to have left no outputs.
    pub fn outputs(&self, state: &State, printer: &mut Printer) -> Result<Box<dyn Completions>> {
        let stops = roots::safety_stops(&self.config, state, roots::observe);
        if stops.is_empty() {
            return Ok(Box::new(self.probe()?));
        }
        let message = safety::message(&stops);
        printer.warning(&format!("{message}; outputs are not checked"));
        Ok(Box::new(Blind::because(&stops)))
    }

    pub fn probe(&self) -> Result<Probe> {
        Ok(Probe::new(&self.config)?.with_reader(self.reader.clone()))
    }

    pub fn selection(&self, args: &SelectArgs) -> Result<Selection> {
        self.selection_among(args, None)
    }

    /// A selection that may also name procedures that only the state knows.
    pub fn selection_among(&self, args: &SelectArgs, state: Option<&State>) -> Result<Selection> {
        Ok(Selection::new(
            &args.subjects,
            &args.sessions,
            &args.procedures,
            &self.procedure_names(state),
        )?)
    }

    /// The procedures of the configuration, then those that only the state knows.
    pub fn procedure_names<'a>(&'a self, state: Option<&'a State>) -> Vec<&'a str> {
        let configured = self.config.procedures.iter();
        let mut names: Vec<&str> = configured.map(|(_, procedure)| &*procedure.name).collect();
        for row in state.into_iter().flat_map(State::rows) {
            if !names.contains(&&*row.key.procedure) {
                names.push(&row.key.procedure);
            }
        }
        names
    }
}

/// All attempts, from the attempts file and the state.
pub fn all_attempts<'a>(
    earlier: &'a [TaskRow],
    state: &'a State,
) -> impl Iterator<Item = &'a TaskRow> + Clone {
    let superseded = earlier.iter().chain(state.superseded());
    superseded.chain(state.rows())
}

/// The exit code after queue and accounting were asked.
pub(super) fn exit_of(looked: &Looked) -> Exit {
    let is_silent = looked.queue_failed.is_some() || looked.accounting_failed.is_some();
    Exit::Done.unless(is_silent, Exit::Unreachable)
}

/// Warns if queue or accounting is not responding.
pub(super) fn warn_silence(looked: &Looked, printer: &mut Printer) {
    if let Some(message) = &looked.queue_failed {
        printer.warning(&format!(
            "the queue is not responding: {message}; the status of jobs stays as recorded, and nothing is submitted"
        ));
    } else if let Some(message) = &looked.accounting_failed {
        printer.warning(&format!(
            "accounting is not responding: {message}; ended jobs stay as recorded"
        ));
        printer.hint(accounting_hint(message));
    }
}

/// Reads the configuration that the command line and the environment name, with its settings.
pub fn read_config(global: &Global) -> Result<(Config, Vec<Setting>), ConfigError> {
    let overrides = Overrides {
        slurm_mem: global.slurm_mem.clone(),
        slurm_cpus: global.slurm_cpus,
        slurm_log_dir: global.slurm_log_dir.clone(),
    };
    let working_dir = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let file = choose(global.config.clone(), &sys::env);
    config::load(file.as_deref(), &sys::env, &overrides, &working_dir)
}
