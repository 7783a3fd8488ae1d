//! The orders in which rows and sessions are shown. Pure.

use std::cmp::Reverse;

use crate::base::words::words;
use crate::decide::manifest::Manifest;
use crate::model::bids::Session;
use crate::model::procedure::ProcedureDag;
use crate::model::state::TaskRow;

use super::sessions::places;
use super::task_state::TaskState;

words! {
    /// The orders of rows.
    #[derive(Default)]
    pub enum RowOrder {
        /// Procedure (the configuration's order, then others by name), subject, session.
        #[default]
        Procedure = "procedure",
        /// Subject, session, procedure.
        Subject = "subject",
        /// Session, subject, procedure.
        Session = "session",
        /// Failed, running, pending, complete; within each, the latest change first.
        Status = "status",
        /// Latest submission first.
        Submitted = "submitted",
        /// Latest change first.
        Updated = "updated",
        /// Longest run time first.
        Elapsed = "elapsed",
    }
}

words! {
    /// The orders of sessions.
    #[derive(Default)]
    pub enum SessionOrder {
        /// Subject, session.
        #[default]
        Subject = "subject",
        /// Session, subject.
        Session = "session",
        /// Most urgent first.
        Status = "status",
    }
}

/// Sorts rows. Rows that compare equal are sorted by [`RowOrder::Procedure`], so the result is always the same.
pub fn sort_rows(rows: &mut [&TaskRow], dag: &ProcedureDag, order: RowOrder) {
    rows.sort_by_cached_key(|row| {
        let rank = dag.find(&row.key.procedure);
        let rank = rank.map_or(usize::MAX, |id| id.index());
        let key = &row.key;
        (rank, &*key.procedure, &*key.subject, &*key.session)
    });
    match order {
        RowOrder::Procedure => {}
        RowOrder::Subject => rows.sort_by_key(|row| (&*row.key.subject, &*row.key.session)),
        RowOrder::Session => rows.sort_by_key(|row| (&*row.key.session, &*row.key.subject)),
        RowOrder::Status => {
            let urgency = |row: &TaskRow| TaskState::of_status(row.status).style().urgency;
            rows.sort_by_key(|row| (urgency(row), Reverse(row.updated_at)));
        }
        RowOrder::Submitted => rows.sort_by_key(|row| Reverse(row.submitted_at)),
        RowOrder::Updated => rows.sort_by_key(|row| Reverse(row.updated_at)),
        RowOrder::Elapsed => rows.sort_by_key(|row| Reverse(row.facts.elapsed_s)),
    }
}

/// Sorts sessions, which must already be sorted by subject and session.
pub fn sort_sessions(
    sessions: &mut [Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
    order: SessionOrder,
) {
    match order {
        SessionOrder::Subject => {}
        SessionOrder::Session => sessions.sort_by(|a, b| a.session.cmp(&b.session)),
        SessionOrder::Status => {
            let mut ranks = vec![u8::MAX; sessions.len()];
            for (at, task) in places(sessions, manifest, dag) {
                if let Some(least) = ranks.get_mut(at) {
                    *least = TaskState::of(&task.decision).style().urgency.min(*least);
                }
            }
            let mut ranked: Vec<(u8, Session)> =
                ranks.into_iter().zip(sessions.iter().cloned()).collect();
            ranked.sort_by_key(|(rank, _)| *rank);
            for (place, (_, session)) in sessions.iter_mut().zip(ranked) {
                *place = session;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_names_are_parsed_back() {
        for order in RowOrder::ALL {
            assert_eq!(order.as_str().parse(), Ok(order));
        }
        for order in SessionOrder::ALL {
            assert_eq!(order.as_str().parse(), Ok(order));
        }
        assert!("size".parse::<RowOrder>().is_err());
    }
}
