//! The look at what jobs start from: DICOM directories and job scripts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{Dicom, DicomFinding, DicomProblem, ScriptFinding, ScriptLine, ScriptProblem};
use crate::base::parallel;
use crate::base::regular::words;
use crate::executor::ExecutorError;
use crate::executor::script::{Script, ignored_directives};
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::dicom;
use crate::model::bids;
use crate::model::bids::Session;
use crate::model::procedure::Procedure;

/// Looks at the DICOM directories of sessions that need one.
pub fn dicom(
    sessions: &[&Session],
    min_files: u64,
    threads: usize,
    tick: &(dyn Fn() + Sync),
) -> Dicom {
    let needed: Vec<&Session> = sessions
        .iter()
        .copied()
        .filter(|session| session.dicom != bids::Dicom::NotNeeded)
        .collect();
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
    let finding = |problem, path: Option<&Path>| DicomFinding {
        subject: session.subject.shared(),
        session: session.session.shared(),
        problem,
        path: path.map(|path| path.to_string_lossy().into_owned()),
        files: None,
        error: None,
    };
    let path: &Path = match &session.dicom {
        bids::Dicom::NotNeeded => return None,
        bids::Dicom::Missing => return Some(finding(DicomProblem::Missing, None)),
        bids::Dicom::At(path) => path,
    };
    let unreadable = |error: String| DicomFinding {
        error: Some(error),
        ..finding(DicomProblem::Unreadable, Some(path))
    };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Some(finding(DicomProblem::Missing, Some(path))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Some(finding(DicomProblem::Missing, Some(path)));
        }
        Err(error) => return Some(unreadable(words(&error))),
    }
    match dicom::count(&Reader::default(), path, min_files) {
        Ok(files) if files < min_files => Some(DicomFinding {
            files: Some(files),
            ..finding(DicomProblem::FewFiles, Some(path))
        }),
        Ok(_) => None,
        Err(what) => Some(unreadable(format!(
            "{}: {}",
            what.path.display(),
            what.error
        ))),
    }
}

/// Looks at the script of each procedure. `directives`: `#SBATCH` lines mean something (they do not to
/// the local executor).
pub fn scripts<'a>(
    procedures: impl Iterator<Item = &'a Procedure>,
    find: &dyn Fn(&str) -> Result<PathBuf, ExecutorError>,
    directives: bool,
) -> Vec<ScriptFinding> {
    procedures
        .filter_map(|procedure| {
            let unusable = |script: String, text: String| ScriptFinding {
                procedure: Arc::clone(&procedure.name),
                script,
                problem: ScriptProblem::Unusable,
                text,
                lines: Vec::new(),
            };
            let path = match find(&procedure.script) {
                Ok(path) => path,
                Err(error) => return Some(unusable(procedure.script.clone(), error.to_string())),
            };
            let shown = path.to_string_lossy().into_owned();
            let script = match Script::read(&path) {
                Ok(script) => script,
                Err(error) => return Some(unusable(shown, error.to_string())),
            };
            let ignored = ignored_directives(&script.text);
            if ignored.is_empty() || !directives {
                return None;
            }
            let text = match ignored.len() {
                1 => "Slurm ignores an #SBATCH line: it stands after the first command".to_owned(),
                n => format!("Slurm ignores {n} #SBATCH lines: they stand after the first command"),
            };
            let lines = ignored.into_iter();
            Some(ScriptFinding {
                procedure: Arc::clone(&procedure.name),
                script: shown,
                problem: ScriptProblem::IgnoredLines,
                text,
                lines: lines
                    .map(|(number, text)| ScriptLine { number, text })
                    .collect(),
            })
        })
        .collect()
}
