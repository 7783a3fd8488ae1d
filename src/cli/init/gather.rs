//! From options, looks and questions to the answers that the files are made of.
//!
//! Each value is the option's; else what the person says who is asked; else a default that is sound; else missing.

mod jobs;
mod places;
mod procedures;

use std::path::{Path, PathBuf};

use super::ask::{Asker, Rejected};
use super::is_there;
use crate::base::sys;
use crate::cli::args::{Global, InitArgs};
use crate::cli::error::Failure;
use crate::cli::output::Printer;
use crate::config::paths;
use crate::setup::catalogue::App;
use crate::setup::init::look::Data;
use crate::setup::init::{Answers, InitError, Sessions, look};

/// Holds what answers are gathered from.
pub struct Gatherer<'a> {
    pub global: &'a Global,
    pub args: &'a InitArgs,
    pub cwd: &'a Path,
    /// The directory of the study.
    pub dir: &'a Path,
    /// None: nobody is asked.
    pub asker: Option<&'a Asker>,
    pub apps: &'a [App],
    pub printer: &'a mut Printer,
}

/// Holds what was gathered.
pub struct Gathered {
    pub answers: Answers,
    /// Directories that are missing and are to be made.
    pub to_make: Vec<PathBuf>,
}

/// So many converted sessions tell what kinds of data there are, even if others are still to come.
const ENOUGH: usize = 10;

const LISTED: [(&str, &str); 3] = [
    ("dicom", "directories of DICOM files, sub-*/ses-* or sub-*"),
    ("bids", "a BIDS dataset that arrives converted"),
    ("list", "a CSV file, for DICOM files in any other layout"),
];

impl Gatherer<'_> {
    /// Gathers everything.
    pub fn answers(mut self) -> Result<Gathered, Failure> {
        let mut to_make = Vec::new();
        let (sessions, source) = self.sessions()?;
        let (bids_root, data) = self.bids_root(&sessions, source, &mut to_make)?;
        let derivatives_root = self.derivatives_root(&bids_root, &mut to_make)?;
        let apps = self.procedures(&sessions, &data)?;
        let describes = self.describes(&sessions, &bids_root, &apps)?;
        let jobs = self.jobs()?;
        let args = self.args;
        let own = |gatherer: &Self, option, given: Option<&PathBuf>, default: &str| match given {
            Some(given) => path(option, given, gatherer.cwd),
            None => Ok(gatherer.dir.join(default)),
        };
        let state_file = own(
            &self,
            "--state-file",
            args.state_file.as_ref(),
            "state/scheduler_state.parquet",
        )?;
        let log_dir = args.log_dir.as_ref().or(self.global.slurm_log_dir.as_ref());
        let is_log_dir_given = log_dir.is_some();
        let log_dir = own(&self, "--log-dir", log_dir, "logs")?;
        let answers = Answers {
            sessions,
            bids_root,
            derivatives_root,
            describes,
            state_file,
            log_dir,
            project: args.project.clone(),
            jobs,
            mem: self.global.slurm_mem.clone(),
            cpus: self.global.slurm_cpus,
            apps,
        };
        self.check_places(&answers, args.state_file.is_some(), is_log_dir_given)?;
        self.own_directories(&answers, &mut to_make)?;
        Ok(Gathered { answers, to_make })
    }

    /// Finds out where sessions come from, and looks at them.
    fn sessions(&mut self) -> Result<(Sessions, Option<Data>), Failure> {
        let args = self.args;
        let given = |option, path_: &Option<PathBuf>| {
            let given = path_.as_ref().map(|given| path(option, given, self.cwd));
            given.transpose()
        };
        let file = given("--sessions-file", &args.sessions_file)?;
        let root = given("--dicom-root", &args.dicom_root)?;
        if file.is_none() && root.is_none() && args.bids_root.is_none() {
            if let Some(asker) = self.asker {
                return self.ask_for_sessions(asker);
            }
            // A study that lies beside its configuration.
            let beside = |name: &str| Some(self.dir.join(name)).filter(|path| is_there(path));
            if let Some(root) = beside("dicom") {
                self.printer
                    .note(&format!("sessions are those below {}", root.display()));
                return self.dicom(root);
            }
            if beside("bids").is_none() {
                return Err(InitError::Missing("--dicom-root or --bids-root").into());
            }
        }
        match (file, root) {
            (Some(file), root) => self.list(file, root),
            (None, Some(root)) => self.dicom(root),
            (None, None) => Ok((Sessions::Bids, None)),
        }
    }

    fn ask_for_sessions(&mut self, asker: &Asker) -> Result<(Sessions, Option<Data>), Failure> {
        self.printer.talk("Where do sessions come from?");
        for (number, (word, meaning)) in (1..).zip(LISTED) {
            self.printer
                .talk(&format!("  {number}  {word:<6} {meaning}"));
        }
        let beside = |name: &str| is_there(&self.dir.join(name));
        let default = if beside("bids") && !beside("dicom") {
            "bids"
        } else {
            "dicom"
        };
        let words = LISTED.map(|(word, _)| word);
        let word = asker.one_of("Sessions", &words, default)?;
        let cwd = self.cwd;
        match word.as_str() {
            "dicom" => {
                let default = self.dir.join("dicom");
                let default = default.to_str().filter(|_| is_there(&default));
                let check = |answer: &str| {
                    let root = typed("--dicom-root", answer, cwd)?;
                    look::dicom(&root).map(drop).map_err(told)
                };
                let answer = asker.text("Directory of the DICOM files", default, check)?;
                self.dicom(path("--dicom-root", Path::new(&answer), cwd)?)
            }
            "list" => {
                let args = self.args;
                let check = |answer: &str| {
                    let file = typed("--sessions-file", answer, cwd)?;
                    look::list(&file, &args.subject_col, &args.session_col)
                        .map(drop)
                        .map_err(|error| Rejected::from(format!("{error} ({})", error.hint())))
                };
                let question = format!(
                    "CSV file with the columns {}, {} and dicom_path",
                    args.subject_col, args.session_col
                );
                let answer = asker.text(&question, None, check)?;
                self.list(path("--sessions-file", Path::new(&answer), cwd)?, None)
            }
            _ => Ok((Sessions::Bids, None)),
        }
    }

    fn dicom(&mut self, root: PathBuf) -> Result<(Sessions, Option<Data>), Failure> {
        let data = look::dicom(&root)?;
        self.tell_data(&data, &root);
        let sessionless = data.is_sessionless;
        if sessionless {
            self.printer.note(
                "subjects have no ses-* directories: each is one session without label (sessionless: yes)",
            );
        }
        Ok((Sessions::Dicom { root, sessionless }, Some(data)))
    }

    fn list(
        &mut self,
        file: PathBuf,
        dicom_root: Option<PathBuf>,
    ) -> Result<(Sessions, Option<Data>), Failure> {
        let (subject_col, session_col) = (&self.args.subject_col, &self.args.session_col);
        let data = look::list(&file, subject_col, session_col)?;
        self.tell_data(&data, &file);
        if let Some(root) = &dicom_root {
            look::source("--dicom-root", root)?;
        }
        let sessions = Sessions::List {
            file,
            subject_col: subject_col.clone(),
            session_col: session_col.clone(),
            dicom_root,
        };
        Ok((sessions, Some(data)))
    }

    fn tell_data(&mut self, data: &Data, place: &Path) {
        for note in &data.notes {
            self.printer.note(note);
        }
        if data.sessions > 0 {
            let (sessions, subjects) = (data.sessions, data.subjects);
            let s = |count| if count == 1 { "" } else { "s" };
            self.printer.talk(&format!(
                "found {sessions} session{} of {subjects} subject{} in {}",
                s(sessions),
                s(subjects),
                place.display()
            ));
        }
    }

    /// Finds out where the dataset is, or is to be made. Returns what is known of the data, too.
    fn bids_root(
        &mut self,
        sessions: &Sessions,
        source: Option<Data>,
        to_make: &mut Vec<PathBuf>,
    ) -> Result<(PathBuf, Data), Failure> {
        const OPTION: &str = "--bids-root";
        let (cwd, is_source) = (self.cwd, *sessions == Sessions::Bids);
        let root = if let Some(given) = &self.args.bids_root {
            path(OPTION, given, cwd)?
        } else {
            let beside_dicom = match sessions {
                Sessions::Dicom { root, .. } => root.with_file_name("bids"),
                _ => self.dir.join("bids"),
            };
            let own = self.dir.join("bids");
            let default = [&own, &beside_dicom]
                .into_iter()
                .find(|path| is_there(path))
                .or_else(|| beside_dicom.starts_with(self.dir).then_some(&own));
            let default = default.or((!is_source).then_some(&beside_dicom));
            match (self.asker, default) {
                (Some(asker), default) => {
                    let check = |answer: &str| {
                        let root = typed(OPTION, answer, cwd)?;
                        look::bids(&root, is_source).map(drop).map_err(told)
                    };
                    let question = if is_source {
                        "The BIDS dataset"
                    } else {
                        "The BIDS dataset that is made of them"
                    };
                    let default = default.and_then(|path| path.to_str());
                    path(
                        OPTION,
                        Path::new(&asker.text(question, default, check)?),
                        cwd,
                    )?
                }
                (None, Some(default)) => {
                    self.printer
                        .note(&format!("the BIDS dataset is {}", default.display()));
                    default.clone()
                }
                (None, None) => return Err(InitError::Missing(OPTION).into()),
            }
        };
        let mut found = look::bids(&root, is_source)?;
        let sessions = source.as_ref().map_or(0, |data| data.sessions);
        if found.looked_at < sessions.min(ENOUGH) {
            // The few that are converted need not be like the others.
            found.looked_at = 0;
        }
        if !is_there(&root) {
            to_make.push(root.clone());
        }
        if is_source {
            self.tell_data(&found, &root);
        }
        let data = Data {
            datatypes: found.datatypes.clone(),
            looked_at: found.looked_at,
            ..source.unwrap_or(found)
        };
        Ok((root, data))
    }

    fn derivatives_root(
        &mut self,
        bids_root: &Path,
        to_make: &mut Vec<PathBuf>,
    ) -> Result<PathBuf, Failure> {
        const OPTION: &str = "--derivatives-root";
        let cwd = self.cwd;
        let check = |root: &Path| match look::target(OPTION, root) {
            // It lies in a root that is made, too.
            Err(InitError::ParentMissing { first, .. }) if bids_root.starts_with(&first) => {
                Ok(true)
            }
            outcome => outcome,
        };
        let root = if let Some(given) = &self.args.derivatives_root {
            path(OPTION, given, cwd)?
        } else {
            let within = bids_root.join("derivatives");
            let default = if is_there(&within) {
                within
            } else {
                bids_root.with_file_name("derivatives")
            };
            match (self.asker, default.to_str()) {
                (Some(asker), Some(text)) => {
                    let check = |answer: &str| {
                        let root = typed(OPTION, answer, cwd)?;
                        check(&root).map(drop).map_err(told)
                    };
                    let question = "Where procedures write their outputs";
                    path(
                        OPTION,
                        Path::new(&asker.text(question, Some(text), check)?),
                        cwd,
                    )?
                }
                _ => default,
            }
        };
        if check(&root)? {
            to_make.push(root.clone());
        }
        Ok(root)
    }
}

/// Reads a path as the configuration does: `~` and `${VAR}` are expanded, a relative one belongs to the working
/// directory.
pub fn path(option: &'static str, given: &Path, cwd: &Path) -> Result<PathBuf, InitError> {
    let value = |why: String, hint: Option<String>| InitError::Value {
        option,
        value: given.display().to_string(),
        why,
        hint: hint.unwrap_or_else(|| "give a path".to_owned()),
    };
    if given.as_os_str().is_empty() {
        return Err(value("is empty".to_owned(), None));
    }
    let Some(text) = given.to_str() else {
        return Err(InitError::NotUtf8 {
            key: option,
            path: given.to_owned(),
        });
    };
    let expanded =
        paths::expand(text, &sys::env).map_err(|error| value(error.to_string(), error.hint()))?;
    Ok(paths::absolute(cwd, &expanded))
}

/// Reads a path that somebody types.
fn typed(option: &'static str, answer: &str, cwd: &Path) -> Result<PathBuf, Rejected> {
    path(option, Path::new(answer), cwd).map_err(told)
}

/// What is wrong with an answer, to somebody who typed no option.
fn told(error: InitError) -> Rejected {
    Rejected {
        why: error.in_dialogue(),
        instead: error.meant(),
    }
}
