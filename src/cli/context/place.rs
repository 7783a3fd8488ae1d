//! Places of files: whether a new state may start there, warnings about a lost or new one, and refusals of output files
//! among the data or over files of others.

use std::path::{Path, PathBuf};

use super::Context;
use crate::base::durable;
use crate::base::regular::FileError;
use crate::base::shell::quote;
use crate::cli::{Config, Failure, Printer, Result, State, sys};
use crate::config::{file_of_study, root_above};
use crate::decide::safety::{self, SafetyStop};
use crate::gather::sessions::discover::DiscoverError;
use crate::model::bids::SessionSource;
use crate::store::sources::find_traces;

impl Context {
    /// Refuses to create a state where neither its directory nor the root of the sessions exists, or behind a link to a
    /// file system that is not mounted.
    pub fn check_place(&self) -> Result<()> {
        let (config, state) = (&self.config, &self.store.paths.state);
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if state.parent().is_none_or(is_there) {
            return Ok(());
        }
        let link = config.state_file.symlink_metadata();
        if link.is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Failure::not_found(
                format!(
                    "{} is a link to {}, whose directory does not exist: not creating a new state there",
                    config.state_file.display(),
                    state.display()
                ),
                "mount its file system; if the state has moved, correct the link",
            ));
        }
        let (key, root) = config.sessions_place();
        let is_list = matches!(config.sessions, SessionSource::Csv { .. });
        match root.symlink_metadata() {
            Err(error) if !is_list && error.kind() == std::io::ErrorKind::NotFound => {
                let path = root.to_owned();
                Err(self.no_sessions(DiscoverError::RootMissing { key, path }))
            }
            _ => Ok(()),
        }
    }

    /// Without a configuration, a missing root suggests that one was forgotten.
    pub(super) fn no_sessions(&self, error: DiscoverError) -> Failure {
        if self.config.file.is_some() || !matches!(error, DiscoverError::RootMissing { .. }) {
            return error.into();
        }
        Failure::usage(
            format!(
                "no configuration file, and the built-in defaults do not match this site: {error}"
            ),
            "name the file with --config or SNBB_CONFIG; `snbb-scheduler init` creates one",
        )
    }

    /// Reports a missing state file, which for an old study means that it was lost.
    pub(super) fn report_new_state(&self, command: &str, state: &State, printer: &mut Printer) {
        // A pause may precede the first `run`.
        let needs_none = state.is_stored() || ["pause", "resume"].contains(&command);
        if needs_none || self.warn_if_lost(state, printer) {
            return;
        }
        let what_next = match command {
            "run" => ": starting a new one",
            _ => "; the first `run` creates it",
        };
        let path = self.store.paths.state.display();
        let text = format!("there is no state file {path} yet{what_next}");
        // Happens once in a study's life; if it happens again, someone should see it in cron's mail.
        match printer.is_quiet() && command == "run" {
            true => printer.new_warning(&text),
            false => printer.note(&text),
        }
    }

    /// Warns if the state file is missing although traces of it exist; true if so.
    pub(super) fn warn_if_lost(&self, state: &State, printer: &mut Printer) -> bool {
        let Some((what, path)) = self.traces(state) else {
            return false;
        };
        printer.warning(&format!(
            "the state file {} is missing although {what} exists ({}); running jobs will be found again, but until \
             the state is repaired, failed tasks may be submitted again",
            self.store.paths.state.display(),
            path.display()
        ));
        printer.hint("`snbb-scheduler state repair` rebuilds the state from the remaining files");
        true
    }

    /// A trace of an earlier state, if the state file is missing.
    pub(super) fn traces(&self, state: &State) -> Option<(&'static str, PathBuf)> {
        let is_known = |name: &str| self.config.procedures.find(name).is_some();
        let find = || {
            let project = self.project(state);
            find_traces(&self.store, &self.config.log_file, &project, &is_known)
        };
        (!state.is_stored()).then(find).flatten()
    }
}

pub(super) fn print_warnings(state: &State, printer: &mut Printer) {
    printer.warnings(&state.warnings);
    let begun = state.meta.begun_anew;
    if let Some(at) = begun.filter(|_| state.is_stored()) {
        let at = i64::try_from(at).ok();
        let at = at.and_then(|at| chrono::DateTime::from_timestamp(at, 0));
        let at = sys::local_time(at.unwrap_or_default());
        printer.warning(&format!(
            "the state was started anew on {at} because its file was lost: earlier failures and attempts are missing"
        ));
        printer.hint(
            "`snbb-scheduler state repair` shows what can be recovered; with --yes it recovers that, and this warning ends",
        );
    }
}

/// Refuses a configuration that is reached by a link from another directory, if its relative `state_file` exists
/// beside the target and not beside the link: a new state would run everything twice.
pub(super) fn refuse_ambiguous_link(config: &Config) -> Result<()> {
    let file = config.file.as_deref();
    let Some((file, link_dir)) = file.and_then(|file| Some((file, file.parent()?))) else {
        return Ok(());
    };
    let (Ok(target), Ok(real_dir), Ok(below)) = (
        std::fs::canonicalize(file),
        std::fs::canonicalize(link_dir),
        config.state_file.strip_prefix(link_dir),
    ) else {
        return Ok(());
    };
    let Some(target_dir) = target.parent().filter(|dir| *dir != real_dir) else {
        return Ok(());
    };
    let theirs = target_dir.join(below);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if is_there(&config.state_file) || !is_there(&theirs) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "{} is a link to {}: beside the target, the state is {}; beside the link, it is {}, which does not exist",
            file.display(),
            target.display(),
            theirs.display(),
            config.state_file.display()
        ),
        format!(
            "use --config {}, or write `state_file` and the roots as absolute paths",
            quote(&target.display().to_string())
        ),
    ))
}

/// Warns of the reasons for which `run` would stop.
pub fn warn_stops(stops: &[SafetyStop], printer: &mut Printer) {
    if !stops.is_empty() {
        let message = safety::message(stops);
        printer.warning(&format!(
            "{message}; `run` would submit nothing (safety stop)"
        ));
        printer.hint(&safety::hints(stops));
    }
}

/// Refuses a path below a data root, and a file of the study other than the one of the key `but`.
pub fn refuse_data(config: &Config, path: &Path, but: &str) -> Result<()> {
    let shown = path.display();
    if let Some((key, root)) = root_above(config, path) {
        let root = root.display();
        return Err(Failure::usage(
            format!("{shown} is below {key} ({root}), where nothing is written"),
            "choose a path outside the data",
        ));
    }
    match file_of_study(config, path) {
        Some((key, what)) if key != but => Err(Failure::usage(
            format!("{shown} is a file of the study: {what}"),
            "choose another file",
        )),
        _ => Ok(()),
    }
}

/// Refuses an existing file without the mark of this program, even if it is empty.
pub fn refuse_foreign(path: &Path, mark: &str) -> Result<()> {
    let checked = match durable::refuse_foreign(path, mark) {
        Ok(Some(file)) if file.metadata().is_ok_and(|there| there.len() == 0) => {
            Err(durable::foreign())
        }
        checked => checked.map(drop),
    };
    Ok(checked.map_err(FileError::of("write", path))?)
}
