//! Checks of the inputs of jobs: DICOM directories and job scripts.

use std::io::ErrorKind;
use std::path::PathBuf;
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
    let mut finding = DicomFinding {
        subject: session.subject.shared(),
        session: session.session.shared(),
        problem: DicomProblem::Missing,
        path: None,
        files: None,
        error: None,
    };
    let path = match &session.dicom {
        bids::Dicom::NotNeeded => return None,
        bids::Dicom::Missing => return Some(finding),
        bids::Dicom::At(path) => path,
    };
    finding.path = Some(path.to_string_lossy().into_owned());
    finding.error = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            match dicom::count_files(&Reader::default(), path, min_files) {
                Ok(files) if files >= min_files => return None,
                Ok(files) => {
                    finding.problem = DicomProblem::FewFiles;
                    finding.files = Some(files);
                    None
                }
                Err(what) => Some(format!("{}: {}", what.path.display(), what.error)),
            }
        }
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        Err(error) => Some(error_text(&error)),
    };
    if finding.error.is_some() {
        finding.problem = DicomProblem::Unreadable;
    }
    Some(finding)
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
            Ok(script) => {
                let ignored = ignored_directives(&script.text).into_iter();
                let lines = ignored.map(|(number, text)| ScriptLine { number, text });
                found.lines = lines.collect();
                if !directives || found.lines.is_empty() {
                    return None;
                }
                found.problem = ScriptProblem::IgnoredLines;
                let lines = plural(found.lines.len(), "#SBATCH line");
                found.text = format!("Slurm ignores {lines} after the first command");
            }
        }
        Some(found)
    };
    procedures.filter_map(finding).collect()
}
