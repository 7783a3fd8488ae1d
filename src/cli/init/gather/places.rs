//! Where a study's own files are: beside its data, not in it.

use std::path::PathBuf;

use super::Gatherer;
use crate::cli::error::Failure;
use crate::cli::init::is_there;
use crate::setup::init;
use crate::setup::init::{Answers, InitError, look};

impl Gatherer<'_> {
    /// Keeps a study's own files out of its data.
    pub(super) fn check_places(
        &mut self,
        answers: &Answers,
        is_state_given: bool,
        is_log_dir_given: bool,
    ) -> Result<(), Failure> {
        // BIDS has a place for it.
        let is_code = self.dir.starts_with(answers.bids_root.join("code"));
        let config = self.dir.join(init::CONFIG);
        for (what, option, path, is_on_purpose) in [
            ("configuration", "DIR", &config, is_code),
            (
                "state file",
                "--state-file",
                &answers.state_file,
                is_state_given,
            ),
            (
                "log directory",
                "--log-dir",
                &answers.log_dir,
                is_log_dir_given,
            ),
        ] {
            let Some((key, root)) = init::root_around(answers, path) else {
                continue;
            };
            if !is_on_purpose {
                return Err(InitError::InsideRoot {
                    what,
                    option,
                    path: path.clone(),
                    key,
                    root: root.to_owned(),
                }
                .into());
            }
            if option != "DIR" {
                self.printer.warning(&format!(
                    "the {what} {} lies in {key}, beside data",
                    path.display()
                ));
            }
        }
        if is_there(&answers.state_file) {
            if look::place(&answers.state_file) == look::Place::Directory {
                return Err(InitError::IsADirectory {
                    option: "--state-file",
                    path: answers.state_file.clone(),
                }
                .into());
            }
            self.printer.note(&format!(
                "there is a state file {} already: the study that it knows goes on",
                answers.state_file.display()
            ));
        }
        Ok(())
    }

    /// Notes the directories of state and logs, unless they are there.
    pub(super) fn own_directories(
        &self,
        answers: &Answers,
        to_make: &mut Vec<PathBuf>,
    ) -> Result<(), Failure> {
        let state_dir = answers.state_file.parent().unwrap_or(self.dir);
        for (option, path) in [
            ("--state-file", state_dir),
            ("--log-dir", answers.log_dir.as_path()),
        ] {
            let is_missing = if path.starts_with(self.dir) {
                match look::place(path) {
                    look::Place::Missing => true,
                    _ => look::target(option, path)?,
                }
            } else {
                look::target(option, path)?
            };
            if is_missing {
                to_make.push(path.to_owned());
            }
        }
        Ok(())
    }
}
