//! Checks of the inputs of jobs: DICOM directories and job scripts.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::base::parallel;
use crate::base::regular::error_text;
use crate::base::text::plural;
use crate::executor::ExecutorError;
use crate::executor::script::{Script, ignored_directives};
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::dicom::count_files;
use crate::model::bids;
use crate::model::bids::Session;
use crate::model::procedure::Procedure;

/// Results for the DICOM directories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dicom {
    /// `audit.dicom_min_files`.
    pub min_files: u64,
    /// Sessions that need DICOM files, with or without a finding.
    pub checked: usize,
    pub findings: Vec<DicomFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DicomFinding {
    pub subject: Arc<str>,
    pub session: Arc<str>,
    pub problem: DicomProblem,
    /// `None` if the sessions file has none.
    pub path: Option<String>,
    pub files: Option<u64>,
    /// The system's message, if it cannot be read.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DicomProblem {
    /// The directory does not exist.
    Missing,
    /// Fewer files than `audit.dicom_min_files`.
    FewFiles,
    Unreadable,
}

/// A problem of a procedure's job script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptFinding {
    pub procedure: Arc<str>,
    /// The path if it was found, else the configured name.
    pub script: String,
    pub problem: ScriptProblem,
    /// A sentence for people.
    pub text: String,
    /// The lines that Slurm ignores.
    pub lines: Vec<ScriptLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptProblem {
    /// Not found, or not accepted by sbatch.
    Unusable,
    /// `#SBATCH` lines after the first command, which Slurm does not read.
    IgnoredLines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptLine {
    /// From 1.
    pub number: usize,
    pub text: String,
}

/// Checks the DICOM directories of sessions that need one.
pub fn dicom(
    sessions: &[&Session],
    min_files: u64,
    threads: usize,
    tick: &(dyn Fn() + Sync),
) -> Dicom {
    let mut needed = sessions.to_vec();
    needed.retain(|session| session.dicom != bids::Dicom::NotNeeded);
    let found = parallel::map(&needed, threads, |session| {
        let finding = dicom_of(session, min_files);
        tick();
        finding
    });
    Dicom {
        min_files,
        checked: needed.len(),
        findings: found.into_iter().flatten().collect(),
    }
}

fn dicom_of(session: &Session, min_files: u64) -> Option<DicomFinding> {
    let missing = (DicomProblem::Missing, None, None);
    let unreadable = |error: String| (DicomProblem::Unreadable, None, Some(error));
    let path = match &session.dicom {
        bids::Dicom::NotNeeded => return None,
        bids::Dicom::Missing => None,
        bids::Dicom::At(path) => Some(path),
    };
    let (problem, files, error) = match path.map(std::fs::metadata) {
        Some(Ok(metadata)) if metadata.is_dir() => {
            match count_files(&Reader::default(), path?, min_files) {
                Ok(files) if files >= min_files => return None,
                Ok(files) => (DicomProblem::FewFiles, Some(files), None),
                Err(what) => unreadable(format!("{}: {}", what.path.display(), what.error)),
            }
        }
        Some(Err(error))
            if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            unreadable(error_text(&error))
        }
        _ => missing,
    };
    Some(DicomFinding {
        subject: session.subject.shared(),
        session: session.session.shared(),
        problem,
        path: path.map(|path| path.to_string_lossy().into_owned()),
        files,
        error,
    })
}

/// Checks the script of each procedure. `directives` is false for the local executor, which ignores `#SBATCH`.
pub fn scripts<'a>(
    procedures: impl Iterator<Item = &'a Procedure>,
    find: &dyn Fn(&str) -> Result<PathBuf, ExecutorError>,
    directives: bool,
) -> Vec<ScriptFinding> {
    let findings = procedures.filter_map(|procedure| {
        let mut script = procedure.script.clone();
        let read = find(&script).map_err(|error| error.to_string());
        let read = read.and_then(|path| {
            script = path.to_string_lossy().into_owned();
            Script::read(&path).map_err(|error| error.to_string())
        });
        let (problem, text, lines) = match read {
            Err(error) => (ScriptProblem::Unusable, error, Vec::new()),
            Ok(script) => {
                let lines = ignored_directives(&script.text);
                if !directives || lines.is_empty() {
                    return None;
                }
                let count = plural(lines.len(), "#SBATCH line");
                let text = format!("Slurm ignores {count} after the first command");
                (ScriptProblem::IgnoredLines, text, lines)
            }
        };
        let lines = lines.into_iter();
        Some(ScriptFinding {
            procedure: Arc::clone(&procedure.name),
            script,
            problem,
            text,
            lines: lines
                .map(|(number, text)| ScriptLine { number, text })
                .collect(),
        })
    });
    findings.collect()
}
