//! The directories of job arrays: their task lists, and which to remove.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::executor::array::files;
use crate::executor::{Answer, Observation};
use crate::model::job::array::{is_array_id, split_task_id};
use crate::model::state::{State, TaskKey};

/// Reads the task lists of arrays, each once. An unreadable list counts as gone, since its tasks are unknown.
pub fn listings(arrays: &Path) -> impl Fn(&str) -> Option<Arc<[TaskKey]>> {
    let known: RefCell<HashMap<String, Option<Arc<[TaskKey]>>>> = RefCell::default();
    move |name| {
        if let Some(listing) = known.borrow().get(name) {
            return listing.clone();
        }
        let id = match is_array_id(name) {
            true => Some(name.to_owned()),
            false => files::find(arrays, name),
        };
        let tasks = id.and_then(|id| {
            files::read(arrays, &id).unwrap_or_else(|error| {
                tracing::warn!("{error}");
                None
            })
        });
        let listing = tasks.map(Arc::from);
        known.borrow_mut().insert(name.to_owned(), listing.clone());
        listing
    }
}

/// Removes old array directories that no row in flight and no live job can need.
pub fn clean(arrays: &Path, state: &State, observation: &Observation, now: DateTime<Utc>) {
    let Answer::Got(queue) = &observation.queue else {
        return;
    };
    let of_rows = state
        .rows()
        .iter()
        .filter(|row| row.is_in_flight())
        .filter_map(|row| row.submission_id.as_deref());
    let of_jobs = queue
        .iter()
        .filter(|job| job.phase.is_live())
        .filter_map(|job| Some(job.tag.as_ref()?.submission_id.as_str()));
    let needed: HashSet<String> = of_rows
        .chain(of_jobs)
        .map(|id| split_task_id(id).map_or(id, |(array, _)| array).to_owned())
        .collect();
    let is_old = |metadata: &std::fs::Metadata| {
        metadata.modified().is_ok_and(|modified| {
            let age = (now - DateTime::<Utc>::from(modified)).to_std();
            age.is_ok_and(|age| age > files::KEPT_FOR)
        })
    };
    for (path, error) in files::clean(arrays, &needed, &is_old) {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}
