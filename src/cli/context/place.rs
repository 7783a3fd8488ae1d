//! Where the state is, whether it may be begun there, and what is said when it is lost or new.

use std::path::PathBuf;

use super::{Context, config_beside};
use crate::base::shell::quote;
use crate::base::sys;
use crate::cli::error::Failure;
use crate::cli::output::Printer;
use crate::decide::safety;
use crate::decide::safety::SafetyStop;
use crate::gather::sessions::discover::DiscoverError;
use crate::model::bids::SessionSource;
use crate::model::config::Config;
use crate::model::state::State;
use crate::store::traces;

impl Context {
    /// Makes nothing where nothing of the study is: neither the state's directory nor the root of its sessions. And
    /// nothing behind a link to a file system that is not mounted.
    pub fn check_place(&self) -> Result<(), Failure> {
        let directory = self.store.paths.state.parent();
        let is_link = |path: &std::path::Path| {
            path.symlink_metadata()
                .is_ok_and(|metadata| metadata.is_symlink())
        };
        if is_link(&self.config.state_file)
            && directory.is_some_and(|directory| directory.symlink_metadata().is_err())
        {
            return Err(Failure::not_found(
                format!(
                    "{} is a link to {}, whose directory does not exist: nothing new is made there",
                    self.config.state_file.display(),
                    self.store.paths.state.display()
                ),
                "is its file system mounted? If the state has gone elsewhere, correct the link",
            ));
        }
        if directory.is_none_or(|directory| directory.symlink_metadata().is_ok()) {
            return Ok(());
        }
        let (key, root) = match self.config.sessions {
            SessionSource::Dicom => ("dicom_root", &self.config.dicom_root),
            SessionSource::Bids => ("bids_root", &self.config.bids_root),
            SessionSource::Csv { .. } => return Ok(()),
        };
        match root.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.no_sessions(DiscoverError::RootMissing {
                    key,
                    path: root.clone(),
                }))
            }
            _ => Ok(()),
        }
    }

    /// Without a configuration, a root that is missing says that one was forgotten.
    pub(super) fn no_sessions(&self, error: DiscoverError) -> Failure {
        if self.config.file.is_some() || !matches!(error, DiscoverError::RootMissing { .. }) {
            return error.into();
        }
        let here = match config_beside() {
            Some(file) => format!("{} is not read by itself", file.display()),
            None => "`snbb-scheduler init` makes one".to_owned(),
        };
        Failure::usage(
            format!("no configuration, and the built-in defaults do not fit: {error}"),
            format!("name it with --config or SNBB_CONFIG; {here}"),
        )
    }

    /// Says that there is no state file yet, which for an old study means that it was lost.
    pub(super) fn tell_first(&self, command: &str, state: &State, printer: &mut Printer) {
        if !state.is_stored() && !self.tell_lost(state, printer) {
            let text = format!(
                "there is no state file {} yet: a new one is started",
                self.store.paths.state.display()
            );
            // Once in a study's life; if it is not, cron's mail is where somebody sees it.
            match printer.is_quiet() && command == "run" {
                true => printer.news(&text),
                false => printer.note(&text),
            }
        }
    }

    /// Says that there is no state file although there was one; true if so.
    pub(super) fn tell_lost(&self, state: &State, printer: &mut Printer) -> bool {
        let Some((what, path)) = self.traces(state) else {
            return false;
        };
        printer.warning(&format!(
            "the state file {} is missing although {what} is there, {}; living jobs are found again, \
             failures of before are forgotten",
            self.store.paths.state.display(),
            path.display()
        ));
        printer.hint("`snbb-scheduler state repair` rebuilds it from what is left");
        true
    }

    /// Names what an earlier state has left, if the file is not there.
    pub(super) fn traces(&self, state: &State) -> Option<(&'static str, PathBuf)> {
        if state.is_stored() {
            return None;
        }
        traces::find(
            &self.store,
            &self.config.log_file,
            &self.project(state),
            &|name| self.config.procedures.find(name).is_some(),
        )
    }
}

pub(super) fn tell_warnings(state: &State, printer: &mut Printer) {
    for warning in state.warnings() {
        printer.warning(warning);
    }
    let begun = state.meta.begun_anew;
    if let Some(at) = begun.filter(|_| state.is_stored()) {
        let at = i64::try_from(at).ok();
        let at = at.and_then(|at| chrono::DateTime::from_timestamp(at, 0));
        let at = sys::local_time(at.unwrap_or_default());
        printer.warning(&format!(
            "the state was begun anew on {at}, after its file was lost: failures and attempts of before are forgotten"
        ));
        printer.hint(
            "`snbb-scheduler state repair` shows what is left of them; with --yes it brings them back, and this warning ends",
        );
    }
}

/// Refuses a configuration that is reached by a link in another directory, if its relative `state_file` names an
/// existing state from where the file lies and none from where the link lies: a new state would double what lives.
pub(super) fn refuse_ambiguous_link(config: &Config) -> Result<(), Failure> {
    let Some((file, link_dir)) = config
        .file
        .as_deref()
        .and_then(|file| Some((file, file.parent()?)))
    else {
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
    let is_there = |path: &std::path::Path| path.symlink_metadata().is_ok();
    if is_there(&config.state_file) || !is_there(&theirs) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "{} is a link to {}: from there, the state is {}, and from here {}, which does not exist",
            file.display(),
            target.display(),
            theirs.display(),
            config.state_file.display()
        ),
        format!(
            "call it with --config {}, or write 'state_file' (and the roots) as absolute paths",
            quote(&target.display().to_string())
        ),
    ))
}

/// Warns of what `run` would stop at.
pub fn tell_stops(stops: &[SafetyStop], printer: &mut Printer) {
    if !stops.is_empty() {
        printer.warning(&format!(
            "{}; 'run' would submit nothing (safety stop)",
            safety::message(stops)
        ));
        printer.hint(&safety::hints(stops));
    }
}
