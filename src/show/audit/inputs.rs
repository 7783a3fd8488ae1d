//! Checks of the inputs of jobs: DICOM directories and job scripts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{Dicom, DicomFinding, DicomProblem, ScriptFinding, ScriptLine, ScriptProblem};
use crate::base::parallel;
use crate::base::regular::error_text;
use crate::base::text::plural;
use crate::executor::ExecutorError;
use crate::executor::script::{Script, ignored_directives};
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::dicom;
use crate::model::bids;
use crate::model::bids::Session;
use crate::model::procedure::Procedure;

/// Checks the DICOM directories of sessions that need one.
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
    let absent = (DicomProblem::Missing, None, None);
    let path: Option<&Path> = match &session.dicom {
        bids::Dicom::NotNeeded => return None,
        bids::Dicom::Missing => None,
        bids::Dicom::At(path) => Some(path),
    };
    let (problem, files, error) = match path.map(std::fs::metadata) {
        None => absent,
        Some(Ok(metadata)) if metadata.is_dir() => {
            match dicom::count_files(&Reader::default(), path?, min_files) {
                Ok(files) if files >= min_files => return None,
                Ok(files) => (DicomProblem::FewFiles, Some(files), None),
                Err(what) => {
                    let error = format!("{}: {}", what.path.display(), what.error);
                    (DicomProblem::Unreadable, None, Some(error))
                }
            }
        }
        Some(Ok(_)) => absent,
        Some(Err(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            absent
        }
        Some(Err(error)) => (DicomProblem::Unreadable, None, Some(error_text(&error))),
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
    let finding = |procedure: &'a Procedure| {
        let mut found = ScriptFinding {
            procedure: Arc::clone(&procedure.name),
            script: procedure.script.clone(),
            problem: ScriptProblem::Unusable,
            text: String::new(),
            lines: Vec::new(),
        };
        let path = find(&procedure.script).map_err(|error| error.to_string());
        let script = path.and_then(|path| {
            found.script = path.to_string_lossy().into_owned();
            Script::read(&path).map_err(|error| error.to_string())
        });
        match script {
            Err(error) => found.text = error,
            Ok(_) if !directives => return None,
            Ok(script) => {
                let ignored = ignored_directives(&script.text).into_iter();
                let lines = ignored.map(|(number, text)| ScriptLine { number, text });
                found.lines = lines.collect();
                found.problem = ScriptProblem::IgnoredLines;
                found.text = match found.lines.len() {
                    0 => return None,
                    n => format!(
                        "Slurm ignores {} after the first command",
                        plural(n, "#SBATCH line")
                    ),
                };
            }
        }
        Some(found)
    };
    procedures.filter_map(finding).collect()
}
