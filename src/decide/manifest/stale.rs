//! Stale tasks of subjects, by the rows alone.
//!
//! For commands that do not read the disk, unlike [`super::plan`]. Finds fewer tasks, because sessions that were
//! processed without this program have no rows, but no wrong ones.

use std::collections::{HashMap, HashSet};

use crate::model::bids::{Cohort, Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::{State, TaskRow, TaskStatus};

/// The rows of complete tasks whose subject has a ready session that they did not process.
pub fn stale_rows<'a>(state: &'a State, dag: &ProcedureDag, cohort: &Cohort) -> Vec<&'a TaskRow> {
    let is_complete = |row: &&TaskRow| row.status == TaskStatus::Complete;
    let candidates: Vec<(&TaskRow, ProcedureId)> = state
        .rows()
        .iter()
        .filter(is_complete)
        .filter(|row| row.input_sessions.is_some())
        .filter_map(|row| Some((row, dag.find(&row.key.procedure)?)))
        .filter(|(_, id)| dag.get(*id).scope == Scope::Subject)
        .collect();
    // The complete procedures of each session of their subjects.
    let mut done: HashMap<&str, HashMap<&str, Vec<ProcedureId>>> = candidates
        .iter()
        .map(|(row, _)| (&*row.key.subject, HashMap::new()))
        .collect();
    for row in state.rows().iter().filter(is_complete) {
        if let Some(sessions) = done.get_mut(&*row.key.subject)
            && let Some(id) = dag.find(&row.key.procedure)
            && dag.get(id).scope == Scope::Session
        {
            sessions.entry(&row.key.session).or_default().push(id);
        }
    }
    let is_stale = |(row, id): &(&TaskRow, ProcedureId)| {
        let known = row.input_sessions.as_deref().unwrap_or_default();
        let known: HashSet<&str> = known.split(' ').collect();
        let needed: Vec<ProcedureId> = dag
            .dependencies(*id)
            .iter()
            .map(|(needed, _)| *needed)
            .filter(|needed| dag.get(*needed).scope == Scope::Session)
            .collect();
        let sessions = done.get(&*row.key.subject).into_iter().flatten();
        sessions
            .filter(|(session, _)| !session.is_empty() && !known.contains(*session))
            .filter(|(_, complete)| needed.iter().all(|needed| complete.contains(needed)))
            .any(|(session, _)| !is_excluded(cohort, &row.key.subject, session))
    };
    let stale = candidates.into_iter().filter(is_stale);
    stale.map(|(row, _)| row).collect()
}

fn is_excluded(cohort: &Cohort, subject: &str, session: &str) -> bool {
    let labels = (SubjectLabel::new(subject), SessionLabel::new(session));
    let (Ok(subject), Ok(session)) = labels else {
        return true;
    };
    cohort.excludes(&Session {
        subject,
        session,
        dicom: Dicom::Missing,
    })
}
