//! Tags that a site has truncated, completed by the submission ids of the rows.

use std::collections::HashSet;

use crate::executor::{Answer, JobReport, Observation};
use crate::model::job::array;
use crate::model::state::State;

/// The number of digits of a submission id that are unique.
const UNAMBIGUOUS: usize = 8;

/// Completes truncated tags.
pub fn complete_tags(observation: &mut Observation, rows: &State) {
    for answer in [&mut observation.queue, &mut observation.accounting] {
        let Answer::Got(jobs) = answer else { continue };
        for job in jobs {
            let cut = job.tag.as_ref().filter(|tag| tag.is_cut());
            let complete = cut.and_then(|tag| complete_id(&tag.submission_id, job, rows));
            if let (Some(tag), Some(complete)) = (&mut job.tag, complete) {
                tag.submission_id = complete;
            }
        }
    }
}

/// For the row with the job's id, any beginning is enough.
fn complete_id(cut: &str, job: &JobReport, rows: &State) -> Option<String> {
    let index = array::split_job_id(&job.id).map(|(_, index)| index);
    let mut found = HashSet::new();
    for row in rows.rows() {
        let Some(id) = row
            .submission_id
            .as_deref()
            .filter(|id| id.starts_with(cut))
        else {
            continue;
        };
        let is_own = row.job_id.as_ref() == Some(&job.id) && row.facts.cluster == job.facts.cluster;
        if is_own {
            return Some(id.to_owned());
        }
        found.insert(array::split_task_id(id).map_or(id, |(array, _)| array));
    }
    let mut found = found.into_iter();
    let digits = cut.trim_start_matches("array-").len();
    let (Some(id), None, true) = (found.next(), found.next(), digits >= UNAMBIGUOUS) else {
        return None;
    };
    Some(match index.filter(|_| array::is_array_id(id)) {
        Some(index) => array::task_id(id, index),
        None => id.to_owned(),
    })
}
