//! What is left of a state whose file is not there: a study that begins is not one that was lost. Reads only.

use std::path::{Path, PathBuf};

use super::audit_log::{self, EventKind, Record, project_of};
use crate::model::job::is_same_study;
use crate::store::state_file::Store;

/// Names the first file that an earlier state has left, with what it is. `is_known` says whether the configuration
/// has a procedure, `project` marks this study's jobs: an audit log may be that of several studies.
pub fn of(
    store: &Store,
    log: &Path,
    project: &str,
    is_known: &dyn Fn(&str) -> bool,
) -> Option<(&'static str, PathBuf)> {
    let paths = &store.paths;
    let files = [
        ("a copy of it", &paths.backup),
        ("the file of its earlier attempts", &paths.attempts),
        ("its journal", &paths.journal),
    ];
    let beside = files.into_iter().find(|(_, path)| is_file(path));
    if let Some((what, path)) = beside {
        return Some((what, path.clone()));
    }
    // What cannot be read is told by `state verify`.
    let contents = audit_log::read(log).ok()??;
    let is_ours = |record: &Record| {
        matches!(record.kind, EventKind::Submitted | EventKind::Adopted)
            && is_known(&record.key.procedure)
            && project_of(record).is_none_or(|of| is_same_study(&of, project))
    };
    let is_told = contents.records.iter().any(is_ours);
    is_told.then(|| ("an audit log with its jobs", log.to_owned()))
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
