//! Places of a study's own files: beside its data, not in it.

use super::Gatherer;
use crate::cli::error::Failure;
use crate::setup::init;
use crate::setup::init::error::shown;
use crate::setup::init::{Answers, InitError, look};
use crate::setup::place::{self, Place};

impl Gatherer<'_> {
    /// Keeps a study's own files out of its data. `are_given`: options name state file and log directory.
    pub(super) fn check_places(
        &mut self,
        answers: &Answers,
        are_given: [bool; 2],
    ) -> Result<(), Failure> {
        const STATE_FILE: &str = "--state-file";
        let [is_state_given, is_log_dir_given] = are_given;
        // BIDS provides a directory for it.
        let is_code = self.dir.starts_with(answers.bids_root.join("code"));
        let (config, state) = (self.dir.join(init::CONFIG), &answers.state_file);
        let log_dir = &answers.log_dir;
        for (what, option, path, is_on_purpose) in [
            ("configuration", "DIR", &config, is_code),
            ("state file", STATE_FILE, state, is_state_given),
            ("log directory", "--log-dir", log_dir, is_log_dir_given),
        ] {
            let Some((key, root)) = init::root_around(answers, path) else {
                continue;
            };
            let path = shown(path);
            if !is_on_purpose {
                let elsewhere = match option {
                    "DIR" => {
                        format!("elsewhere: snbb-scheduler init DIR (the {what} is beside it)")
                    }
                    option => format!(
                        "in another directory (snbb-scheduler init DIR), or choose the path: {option} PATH"
                    ),
                };
                let root = shown(root);
                return Err(InitError::wrong(
                    "",
                    format!("{what} {path} would be in {key} {root}, where the program writes no files of its own"),
                    format!("set the study up {elsewhere}"),
                )
                .into());
            }
            if option != "DIR" {
                let text = format!("the {what} {path} is in {key}, among the data");
                self.printer.warning(&text);
            }
        }
        match place::look(state) {
            Place::Missing => {}
            Place::Directory => {
                let text = format!("{} is a directory", shown(state));
                return Err(InitError::wrong(STATE_FILE, text, "give the name of a file").into());
            }
            _ => self.printer.note(&format!(
                "the state file {} exists already: continuing its study",
                state.display()
            )),
        }
        Ok(())
    }

    /// Notes the directories of state and logs to create, if missing.
    pub(super) fn own_directories(&mut self, answers: &Answers) -> Result<(), Failure> {
        for (option, path) in [
            ("--state-file", place::parent(&answers.state_file)),
            ("--log-dir", answers.log_dir.clone()),
        ] {
            // The directory of the study is created, too.
            let is_own = path.starts_with(self.dir) && !place::is_there(&path);
            if is_own || look::target(option, &path)? {
                self.to_make.push(path);
            }
        }
        Ok(())
    }
}
