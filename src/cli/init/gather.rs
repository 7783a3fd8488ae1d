//! From options, data and questions to the answers from which the files are generated.
//!
//! Each value comes from the option, else from the user's answer, else from a safe default; else it is missing.

mod jobs;
mod procedures;

use std::path::{Path, PathBuf};

use super::absolute;
use super::ask::Asker;
use crate::base::text::plural;
use crate::cli::args::{Global, InitArgs};
use crate::cli::error::Result;
use crate::cli::output::Printer;
use crate::model::bids::SessionSource;
use crate::setup::init;
use crate::setup::init::error::shown;
use crate::setup::init::survey::Data;
use crate::setup::init::{Answers, InitError, survey};
use crate::setup::place::{self, Place};

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
    /// Missing directories to create.
    pub to_make: Vec<PathBuf>,
}

const SOURCES: [(&str, &str); 3] = [
    (
        "dicom",
        "directories of DICOM files, as sub-*/ses-* or sub-*",
    ),
    ("bids", "a BIDS dataset that arrives converted"),
    (
        "list",
        "a CSV or TSV file, for DICOM files in any other layout",
    ),
];

/// The source of the sessions, the directory of their DICOM files, and what is known of the data.
type Source = (SessionSource, Option<PathBuf>, Option<Data>);

impl Gatherer<'_> {
    /// All answers, and the directories to create.
    pub(super) fn answers(mut self) -> Result<(Answers, Vec<PathBuf>)> {
        let (sessions, dicom_root, source) = self.sessions()?;
        let beside = dicom_root
            .as_deref()
            .filter(|_| sessions == SessionSource::Dicom);
        let (bids_root, found) = self.bids_root(sessions == SessionSource::Bids, beside)?;
        let data = source.unwrap_or(found);
        let derivatives_root = self.derivatives_root(&bids_root)?;
        let roots = [bids_root.as_path(), derivatives_root.as_path()];
        let apps = self.procedures(&sessions, &data.cohort, roots)?;
        let describes = self.describes(&sessions, &bids_root, &apps)?;
        let jobs = self.jobs()?;
        let args = self.args;
        let state_file = self.given("--state-file", &args.state_file)?;
        let log_dir = args.log_dir.as_ref().or(self.global.slurm_log_dir.as_ref());
        let log_dir = self.given("--log-dir", &log_dir.cloned())?;
        let are_given = [state_file.is_some(), log_dir.is_some()];
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
        self.check_places(&answers, are_given)?;
        self.own_directories(&answers)?;
        Ok((answers, self.to_make))
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
    fn path(
        &self,
        option: &'static str,
        given: &Option<PathBuf>,
        question: &str,
        default: Option<PathBuf>,
        check: impl Fn(&Path) -> Result<(), InitError>,
    ) -> Result<Option<PathBuf>> {
        let Some(asker) = self.asker.filter(|_| given.is_none()) else {
            return Ok(self.given(option, given)?.or(default));
        };
        let read = |answer: &str| absolute(option, Path::new(answer), self.cwd);
        let default = default.as_deref().and_then(Path::to_str);
        let answer = asker.text(question, default, |answer| {
            read(answer).and_then(|path| check(&path))
        })?;
        Ok(Some(read(&answer)?))
    }

    /// Shows choices with their numbers.
    fn menu(&mut self, title: &str, choices: &[String]) {
        if choices.is_empty() {
            return;
        }
        self.printer.info(title);
        let width = choices.len().to_string().len();
        for (number, choice) in (1..).zip(choices) {
            self.printer.info(&format!("  {number:>width$}  {choice}"));
        }
    }

    /// A path in the directory of the study, if it exists.
    fn beside(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.join(name)).filter(|path| place::is_there(path))
    }

    /// Determines the source of the sessions and examines them.
    fn sessions(&mut self) -> Result<Source> {
        const BIDS: Source = (SessionSource::Bids, None, None);
        let args = self.args;
        if args.sessions_file.is_some() {
            return self.list();
        }
        if args.dicom_root.is_some() {
            return self.dicom();
        }
        if args.bids_root.is_some() {
            return Ok(BIDS);
        }
        let (dicom, bids) = (self.beside("dicom"), self.beside("bids"));
        if let Some(asker) = self.asker {
            let choices = SOURCES.map(|(word, meaning)| format!("{word:<6} {meaning}"));
            self.menu("Where do sessions come from?", &choices);
            let is_bids = bids.is_some() && dicom.is_none();
            let default = if is_bids { "bids" } else { "dicom" };
            let words = SOURCES.map(|(word, _)| word);
            return match asker.one_of("Sessions", &words, default)?.as_str() {
                "dicom" => self.dicom(),
                "list" => self.list(),
                _ => Ok(BIDS),
            };
        }
        // The data is beside the configuration.
        match (dicom, bids) {
            (Some(root), _) => {
                let note = format!("using the sessions below {}", root.display());
                self.printer.note(&note);
                self.dicom()
            }
            (None, Some(_)) => Ok(BIDS),
            (None, None) => Err(InitError::missing("--dicom-root or --bids-root").into()),
        }
    }

    fn dicom(&mut self) -> Result<Source> {
        let (given, question) = (&self.args.dicom_root, "Directory of the DICOM files");
        let check = |root: &Path| survey::dicom(root).map(drop);
        let root = self.path("--dicom-root", given, question, self.beside("dicom"), check)?;
        let root = root.unwrap_or_default();
        let data = survey::dicom(&root)?;
        self.report_data(&data, &root);
        if data.is_sessionless {
            self.printer.note(
                "subjects have no ses-* directories: each is one session without label (sessionless: yes)",
            );
        }
        Ok((SessionSource::Dicom, Some(root), Some(data)))
    }

    fn list(&mut self) -> Result<Source> {
        let args = self.args;
        let (subject_col, session_col) = (&args.subject_col, &args.session_col);
        let question =
            format!("CSV or TSV file with the columns {subject_col}, {session_col} and dicom_path");
        let check = |file: &Path| survey::list(file, subject_col, session_col).map(drop);
        let given = &args.sessions_file;
        let file = self.path("--sessions-file", given, &question, None, check)?;
        let file = file.unwrap_or_default();
        let data = survey::list(&file, subject_col, session_col)?;
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

    fn report_data(&mut self, data: &Data, place: &Path) {
        for note in &data.notes {
            self.printer.note(note);
        }
        if data.sessions > 0 {
            let sessions = plural(data.sessions, "session");
            let subjects = plural(data.subjects, "subject");
            self.printer.info(&format!(
                "found {sessions} of {subjects} in {}",
                place.display()
            ));
        }
    }

    /// Determines the place of the dataset and examines it. `is_source`: its sessions are those of the study.
    fn bids_root(&mut self, is_source: bool, dicom_root: Option<&Path>) -> Result<(PathBuf, Data)> {
        const OPTION: &str = "--bids-root";
        let own = self.dir.join("bids");
        let beside_dicom = dicom_root.map_or(own.clone(), |root| root.with_file_name("bids"));
        let default = match (place::is_there(&own), place::is_there(&beside_dicom)) {
            (false, true) => Some(beside_dicom),
            (true, _) => Some(own),
            _ if beside_dicom.starts_with(self.dir) => Some(own),
            _ => (!is_source).then_some(beside_dicom),
        };
        let question = match is_source {
            true => "BIDS dataset",
            false => "BIDS dataset to create from them",
        };
        let given = &self.args.bids_root;
        let check = |root: &Path| survey::bids(root, is_source).map(drop);
        let root = self.path(OPTION, given, question, default, check)?;
        let root = root.ok_or(InitError::missing(OPTION))?;
        if given.is_none() && self.asker.is_none() {
            let note = format!("using the BIDS dataset {}", root.display());
            self.printer.note(&note);
        }
        let found = survey::bids(&root, is_source)?;
        if !place::is_there(&root) {
            self.to_make.push(root.clone());
        }
        if is_source {
            self.report_data(&found, &root);
        }
        Ok((root, found))
    }

    fn derivatives_root(&mut self, bids_root: &Path) -> Result<PathBuf> {
        const OPTION: &str = "--derivatives-root";
        // It may be in a root that is created, too.
        let is_new = |root: &Path| match bids_root.starts_with(survey::first_missing(root)) {
            true if !place::is_there(root) => Ok(true),
            _ => survey::target(OPTION, root),
        };
        let within = bids_root.join("derivatives");
        let default = match place::is_there(&within) {
            true => within,
            false => bids_root.with_file_name("derivatives"),
        };
        let (given, question) = (&self.args.derivatives_root, "Directory for outputs");
        let check = |root: &Path| is_new(root).map(drop);
        let root = self.path(OPTION, given, question, Some(default), check)?;
        let root = root.unwrap_or_default();
        if is_new(&root)? {
            self.to_make.push(root.clone());
        }
        Ok(root)
    }

    /// Keeps a study's own files out of its data. `are_given`: options name state file and log directory.
    fn check_places(&mut self, answers: &Answers, are_given: [bool; 2]) -> Result<()> {
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
                let root = shown(root);
                return Err(InitError::wrong(
                    "",
                    format!("{what} {path} would be in {key} {root}, where the program writes no files of its own"),
                    "set the study up in another directory (snbb-scheduler init DIR); --state-file and --log-dir choose \
                     other paths for state and logs",
                )
                .into());
            }
            if option != "DIR" {
                let text = format!("the {what} {path} is in {key}, among the data");
                self.printer.warning(&text);
            }
        }
        match place::inspect(state) {
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
    fn own_directories(&mut self, answers: &Answers) -> Result<()> {
        for (option, path) in [
            ("--state-file", place::parent(&answers.state_file)),
            ("--log-dir", answers.log_dir.clone()),
        ] {
            // The directory of the study is created, too.
            let is_own = path.starts_with(self.dir) && !place::is_there(&path);
            if is_own || survey::target(option, &path)? {
                self.to_make.push(path);
            }
        }
        Ok(())
    }
}
