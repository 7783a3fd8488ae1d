//! From options, data and questions to the answers from which the files are generated.
//!
//! Each value comes from the option, else from the user's answer, else from a safe default; else it is missing.

mod choices;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use dialoguer::{Confirm, Input, console::Term, theme::SimpleTheme};

use super::absolute;
use crate::cli::args::{Global, InitArgs};
use crate::cli::{Failure, Printer, Result, plural};
use crate::model::bids::SessionSource;
use crate::setup::init::survey::Data;
use crate::setup::init::{self, Answers, InitError, shown, survey};
use crate::setup::place::{self, Place};

/// Questions at a terminal, on stderr; exists only if there is one.
pub(super) struct Asker;

impl Asker {
    /// `None` unless stdin and stderr are terminals and questions are wanted.
    pub(super) fn new(is_silent: bool) -> Option<Self> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        (is_terminal && !is_silent).then_some(Self)
    }

    /// Repeats a question until `check` accepts the answer, and returns what it makes of it. Without a default, an answer
    /// may be empty.
    fn text<T>(
        &self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<T, InitError>,
    ) -> Result<T> {
        loop {
            let input = Input::<String>::with_theme(&SimpleTheme).with_prompt(question);
            let input = match default {
                Some(default) => input.default(default.to_owned()),
                None => input.allow_empty(true),
            };
            match check(input.interact_text().map_err(ended)?.trim()) {
                Ok(value) => return Ok(value),
                Err(rejected) => {
                    let line = format!("error: {}", rejected.in_dialogue());
                    Term::stderr().write_line(&line).map_err(ended)?;
                }
            }
        }
    }

    /// Asks for one of several words, or its number in the list.
    fn one_of<'a>(&self, question: &str, words: &[&'a str], default: &str) -> Result<&'a str> {
        self.text(question, Some(default), |answer| {
            let mut known = words.iter().copied();
            known
                .find(|word| *word == picked(words, answer))
                .ok_or_else(|| {
                    let hint = format!("choose one of {}", words.join(", "));
                    InitError::wrong("", "unknown answer", hint)
                })
        })
    }

    pub(super) fn agrees(&self, question: &str) -> Result<bool> {
        let confirm = Confirm::with_theme(&SimpleTheme).with_prompt(question);
        let confirm = confirm.default(true).wait_for_newline(true);
        confirm.interact().map_err(ended)
    }
}

fn ended(error: impl std::fmt::Display) -> Failure {
    Failure::usage(
        format!("no answer ({error}); nothing was written"),
        "give the answers as options (snbb-scheduler init --help)",
    )
}

/// The word that a number names, counted from 1; any other answer unchanged.
fn picked<'a>(words: &[&'a str], answer: &'a str) -> &'a str {
    let number = answer.parse::<usize>().ok();
    let at = number.and_then(|number| number.checked_sub(1));
    at.and_then(|at| words.get(at)).copied().unwrap_or(answer)
}

/// Sources of the answers.
pub(super) struct Gatherer<'a> {
    pub global: &'a Global,
    pub args: &'a InitArgs,
    pub cwd: &'a Path,
    /// The directory of the study.
    pub dir: &'a Path,
    /// `None` without questions.
    pub asker: Option<&'a Asker>,
    pub printer: &'a mut Printer,
}

/// The source of the sessions, the directory of their DICOM files, and what is known of the data.
type Source = (SessionSource, Option<PathBuf>, Option<Data>);

impl Gatherer<'_> {
    /// All answers, and the missing directories to create.
    pub(super) fn answers(mut self) -> Result<(Answers, Vec<PathBuf>)> {
        let (sessions, dicom_root, source) = self.sessions()?;
        let beside = dicom_root
            .as_deref()
            .filter(|_| sessions == SessionSource::Dicom);
        let (bids_root, found) = self.bids_root(sessions == SessionSource::Bids, beside)?;
        let data = source.unwrap_or(found);
        let derivatives_root = self.derivatives_root(&bids_root)?;
        let roots = [bids_root.as_path(), derivatives_root.as_path()];
        let apps = self.procedures(&sessions, &data.sessions, roots)?;
        let describes = self.describes(&sessions, &bids_root, &apps)?;
        let jobs = self.jobs()?;
        let args = self.args;
        let state_file = self.given("--state-file", &args.state_file)?;
        let log_dir = args.log_dir.as_ref().or(self.global.slurm_log_dir.as_ref());
        let log_dir = self.given("--log-dir", &log_dir.cloned())?;
        let answers = Answers {
            sessions,
            dicom_root,
            sessionless: data.is_sessionless,
            bids_root,
            derivatives_root,
            describes,
            state_file: state_file
                .unwrap_or_else(|| self.dir.join("state/scheduler_state.parquet")),
            log_dir: log_dir.unwrap_or_else(|| self.dir.join("logs")),
            project: args.project.clone(),
            jobs,
            mem: self.global.slurm_mem.clone(),
            cpus: self.global.slurm_cpus,
            apps,
        };
        let (state_dir, log_dir) = (place::parent(&answers.state_file), answers.log_dir.clone());
        self.check_places(&answers)?;
        for (option, path) in [("--state-file", &state_dir), ("--log-dir", &log_dir)] {
            // The directory of the study is created, too.
            if !path.starts_with(self.dir) || place::is_there(path) {
                survey::target(option, path)?;
            }
        }
        let roots = [answers.bids_root.clone(), answers.derivatives_root.clone()];
        let mut to_make: Vec<PathBuf> = roots.into_iter().chain([state_dir, log_dir]).collect();
        to_make.retain(|path| !place::is_there(path));
        Ok((answers, to_make))
    }

    /// The path of an option.
    fn given(
        &self,
        option: &'static str,
        path: &Option<PathBuf>,
    ) -> Result<Option<PathBuf>, InitError> {
        let path = path.as_ref().map(|path| absolute(option, path, self.cwd));
        path.transpose()
    }

    /// A path from the option, else from the user, who is asked until `check` accepts it; without questions, the default.
    /// Also what the check returns.
    fn path<T>(
        &self,
        option: &'static str,
        given: &Option<PathBuf>,
        question: &str,
        default: Option<PathBuf>,
        check: impl Fn(&Path) -> Result<T, InitError>,
    ) -> Result<(PathBuf, T)> {
        let read = |path: &Path| {
            let path = absolute(option, path, self.cwd)?;
            let value = check(&path)?;
            Ok((path, value))
        };
        if let Some(path) = given {
            return Ok(read(path)?);
        }
        let Some(asker) = self.asker else {
            let path = default.ok_or_else(|| InitError::missing(option))?;
            let value = check(&path)?;
            return Ok((path, value));
        };
        let default = default.as_deref().and_then(Path::to_str);
        asker.text(question, default, |answer| read(Path::new(answer)))
    }

    /// Shows choices with their numbers.
    fn menu(&mut self, title: &str, choices: &[String]) {
        if !choices.is_empty() {
            self.printer.info(title);
        }
        for (number, choice) in (1..).zip(choices) {
            self.printer.info(&format!("  {number:>2}  {choice}"));
        }
    }

    /// Determines the source of the sessions and examines them.
    fn sessions(&mut self) -> Result<Source> {
        let args = self.args;
        let beside = |name| Some(self.dir.join(name)).filter(|path| place::is_there(path));
        let (dicom, has_bids) = (beside("dicom"), beside("bids").is_some());
        let source = if args.sessions_file.is_some() {
            "list"
        } else if args.dicom_root.is_some() {
            "dicom"
        } else if args.bids_root.is_some() {
            "bids"
        } else if let Some(asker) = self.asker {
            let choices = [
                "dicom  directories of DICOM files, as sub-*/ses-* or sub-*",
                "bids   a BIDS dataset that arrives converted",
                "list   a CSV or TSV file, for DICOM files in any other layout",
            ];
            self.menu("Where do sessions come from?", &choices.map(str::to_owned));
            let is_bids = has_bids && dicom.is_none();
            let default = if is_bids { "bids" } else { "dicom" };
            asker.one_of("Sessions", &["dicom", "bids", "list"], default)?
        } else if dicom.is_some() {
            // The data is beside the configuration.
            "dicom"
        } else if has_bids {
            "bids"
        } else {
            return Err(InitError::missing("--dicom-root or --bids-root").into());
        };
        match source {
            "dicom" => {
                let (given, question) = (&self.args.dicom_root, "Directory of the DICOM files");
                let (root, data) =
                    self.path("--dicom-root", given, question, dicom, survey::dicom)?;
                self.report_data(&data, &root);
                Ok((SessionSource::Dicom, Some(root), Some(data)))
            }
            "list" => {
                let (subject_col, session_col) = (&args.subject_col, &args.session_col);
                let question = format!(
                    "CSV or TSV file with the columns {subject_col}, {session_col} and dicom_path"
                );
                let check = |file: &Path| survey::list(file, subject_col, session_col);
                let given = &args.sessions_file;
                let (file, data) = self.path("--sessions-file", given, &question, None, check)?;
                self.report_data(&data, &file);
                let dicom_root = self.given("--dicom-root", &args.dicom_root)?;
                if let Some(root) = &dicom_root {
                    survey::source("--dicom-root", root)?;
                }
                let sessions = SessionSource::Csv {
                    file,
                    subject_col: subject_col.clone(),
                    session_col: session_col.clone(),
                };
                Ok((sessions, dicom_root, Some(data)))
            }
            _ => Ok((SessionSource::Bids, None, None)),
        }
    }

    fn report_data(&mut self, data: &Data, place: &Path) {
        self.printer.notes(&data.notes);
        let subjects = data.sessions.chunk_by(|a, b| a.subject == b.subject);
        if let subjects @ 1.. = subjects.count() {
            let sessions = plural(data.sessions.len(), "session");
            let (subjects, place) = (plural(subjects, "subject"), place.display());
            self.printer
                .info(&format!("found {sessions} of {subjects} in {place}"));
        }
    }

    /// Determines the place of the dataset and examines it. `is_source`: its sessions are those of the study.
    fn bids_root(&mut self, is_source: bool, dicom_root: Option<&Path>) -> Result<(PathBuf, Data)> {
        let own = self.dir.join("bids");
        let beside = dicom_root.map(|root| root.with_file_name("bids"));
        let beside = beside.filter(|beside| {
            !place::is_there(&own) && (place::is_there(beside) || !beside.starts_with(self.dir))
        });
        let question = match is_source {
            true => "BIDS dataset",
            false => "BIDS dataset to create from them",
        };
        let given = &self.args.bids_root;
        let check = |root: &Path| survey::bids(root, is_source);
        let default = beside.or(Some(own));
        let (root, found) = self.path("--bids-root", given, question, default, check)?;
        if given.is_none() && self.asker.is_none() {
            let note = format!("using the BIDS dataset {}", root.display());
            self.printer.note(&note);
        }
        if is_source {
            self.report_data(&found, &root);
        }
        Ok((root, found))
    }

    fn derivatives_root(&mut self, bids_root: &Path) -> Result<PathBuf> {
        const OPTION: &str = "--derivatives-root";
        // It may be in a root that is created, too.
        let check = |root: &Path| match bids_root.starts_with(survey::first_missing(root)) {
            true => Ok(()),
            false => survey::target(OPTION, root),
        };
        let within = bids_root.join("derivatives");
        let default = match place::is_there(&within) {
            true => within,
            false => bids_root.with_file_name("derivatives"),
        };
        let (given, question) = (&self.args.derivatives_root, "Directory for outputs");
        let (root, ()) = self.path(OPTION, given, question, Some(default), check)?;
        Ok(root)
    }

    /// Keeps a study's own files out of its data, unless an option names them.
    fn check_places(&mut self, answers: &Answers) -> Result<()> {
        let is_state_given = self.args.state_file.is_some();
        let is_log_dir_given = self.args.log_dir.is_some() || self.global.slurm_log_dir.is_some();
        // BIDS provides a directory for it.
        let is_code = self.dir.starts_with(answers.bids_root.join("code"));
        let (config, state) = (self.dir.join(init::CONFIG), &answers.state_file);
        for (what, path, is_on_purpose) in [
            ("configuration", &config, is_code),
            ("state file", state, is_state_given),
            ("log directory", &answers.log_dir, is_log_dir_given),
        ] {
            let mut roots = init::roots(answers);
            let Some((key, root)) = roots.find(|(_, root)| path.starts_with(root)) else {
                continue;
            };
            let (path, root) = (shown(path), shown(root));
            if !is_on_purpose {
                return Err(InitError::wrong(
                    "",
                    format!("{what} {path} would be in {key} {root}, where the program writes no files of its own"),
                    "set the study up in another directory (snbb-scheduler init DIR); --state-file and --log-dir choose \
                     other paths for state and logs",
                )
                .into());
            }
            if what != "configuration" {
                let text = format!("the {what} {path} is in {key}, among the data");
                self.printer.warning(&text);
            }
        }
        match place::inspect(state) {
            Place::Missing => {}
            Place::Directory => {
                let text = format!("{} is a directory", shown(state));
                let hint = "give the name of a file";
                return Err(InitError::wrong("--state-file", text, hint).into());
            }
            _ => self.printer.note(&format!(
                "the state file {} exists already: continuing its study",
                state.display()
            )),
        }
        Ok(())
    }
}
