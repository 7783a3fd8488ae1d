//! Traces of a lost state, to distinguish a new study from one whose state file is gone. Reads only.

use std::path::{Path, PathBuf};

use super::audit_log::{self, EventKind, Record, project_of};
use crate::model::job::is_same_study;
use crate::store::state_file::Store;

/// The first file that an earlier state left, with a description. `is_known` is true for a configured procedure,
/// `project` marks this study's jobs: several studies may share an audit log.
pub fn find(
    store: &Store,
    log: &Path,
    project: &str,
    is_known: &dyn Fn(&str) -> bool,
) -> Option<(&'static str, PathBuf)> {
    let paths = &store.paths;
    let files = [
        ("its backup", &paths.backup),
        ("its attempts file", &paths.attempts),
        ("its journal", &paths.journal),
    ];
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    if let Some((what, path)) = files.into_iter().find(|(_, path)| exists(path)) {
        return Some((what, path.clone()));
    }
    // `state verify` reports an unreadable log.
    let contents = audit_log::read(log).ok()??;
    let is_ours = |record: &Record| {
        matches!(record.kind, EventKind::Submitted | EventKind::Adopted)
            && is_known(&record.key.procedure)
            && project_of(record).is_none_or(|of| is_same_study(&of, project))
    };
    let has_jobs = contents.records.iter().any(is_ours);
    has_jobs.then(|| ("an audit log with its jobs", log.to_owned()))
}
