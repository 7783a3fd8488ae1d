//! Rows that the state lacks because its file was deleted or replaced by an older one.

use crate::decide::request::study_word;
use crate::executor::OtherExecutor;
use crate::model::config::Config;
use crate::model::job::is_same_study;
use crate::model::state::{State, TaskRow, TaskStatus};
use crate::store::audit_log::{EventKind, Record, newest, project_of, text};
use crate::store::repair;
use crate::store::sources::Sources;
use crate::store::state_file::Store;

/// True if jobs of the study may have no row: the state is empty, or lacks the newest submission of the audit log.
pub(super) fn may_lack_rows(config: &Config, state: &State) -> bool {
    if state.is_empty() {
        return true;
    }
    let Some(project) = &state.meta.project else {
        return false;
    };
    newest_submission(config, project).is_some_and(|record| {
        let id = text(&record, "submission_id");
        let mut rows = state.rows().iter();
        !rows.any(|row| row.submission_id.as_deref() == id)
    })
}

/// The newest submission of a study in the audit log.
pub fn newest_submission(config: &Config, project: &str) -> Option<Record> {
    newest(&config.log_file, |record| {
        // A submission in doubt is logged as an error.
        matches!(record.kind, EventKind::Submitted | EventKind::Error)
            && record.new_status == Some(TaskStatus::Pending)
            && text(record, "submission_id").is_some()
            && project_of(record).is_some_and(|of| is_same_study(&of, project))
    })
}

/// Brings back the rows of jobs that only another executor can show, from the files beside the state.
pub(super) fn restore(config: &Config, store: &Store, state: &mut State) {
    for row in rows(config, store, state) {
        let is_free = state.get(&row.key).is_none_or(|own| !own.is_in_flight());
        if is_free && OtherExecutor::of(&row, config.executor).is_some() {
            state.put(TaskRow {
                other_columns: None,
                ..row
            });
        }
    }
}

/// All attempts in the files beside the state.
pub(super) fn rows(config: &Config, store: &Store, state: &State) -> Vec<TaskRow> {
    let project = state.meta.project.clone();
    let project = study_word(
        project.or_else(|| config.project.clone()),
        &store.paths.state,
    );
    let sources = Sources::read(store, &config.log_file);
    // A new study may write to the log of others.
    let projects = sources.audit.read().map(|log| log.projects());
    let projects = projects.unwrap_or_default();
    let is_new = sources.backup.is_missing() && sources.attempts.is_missing();
    if is_new && !projects.is_empty() && !projects.iter().any(|one| is_same_study(one, &project)) {
        return Vec::new();
    }
    let state = repair::rebuild(&sources.of_study(&project)).state;
    [state.rows(), state.superseded()].concat()
}
