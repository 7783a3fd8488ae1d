//! The attempts file: replaced and cleared rows, so that no attempt is lost.

use std::collections::HashMap;
use std::io;

use super::{Store, encode, refuse_newer, replace};
use crate::model::state::table::{Identity, Metadata};
use crate::model::state::{AttemptId, State, TaskRow};
use crate::store::schema::{Contents, FORMAT_VERSION, other_columns};
use crate::store::state_file::StateError;

/// Adds the superseded rows of a state. Replaces an attempt that is already there, because a save was
/// interrupted after this file.
pub(super) fn save(store: &Store, state: &State) -> Result<(), StateError> {
    if state.superseded().is_empty() && state.overtaken.is_empty() {
        return Ok(());
    }
    let before = store.load(&store.paths.attempts)?;
    let identity = before.as_ref().map(|contents| contents.identity.clone());
    add(store, state, before, identity.as_ref())
}

/// Adds the superseded rows to `before`; `identity` is the file that they replace.
pub(super) fn add(
    store: &Store,
    state: &State,
    before: Option<Contents>,
    identity: Option<&Identity>,
) -> Result<(), StateError> {
    let path = &store.paths.attempts;
    let (mut rows, others_before, mut meta) = match before {
        Some(contents) => (contents.rows, contents.other_columns, contents.meta),
        None => (Vec::new(), None, Metadata::default()),
    };
    refuse_newer(path, &meta)?;
    let (other_columns, shift) =
        other_columns::join(others_before.as_ref(), state.other_columns.as_ref())
            .map_err(|error| StateError::io("write", path)(io::Error::other(error)))?;
    let mut known: HashMap<AttemptId, usize> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (AttemptId::of(row), at))
        .collect();
    for row in state.superseded() {
        let mut row = row.clone();
        row.other_columns = row.other_columns.map(|line| line + shift);
        match known
            .get(&AttemptId::of(&row))
            .and_then(|&at| rows.get_mut(at))
        {
            Some(there) => *there = row,
            None => {
                known.insert(AttemptId::of(&row), rows.len());
                rows.push(row);
            }
        }
    }
    let mut is_new = !state.superseded().is_empty();
    for row in &state.overtaken {
        if let std::collections::hash_map::Entry::Vacant(free) = known.entry(AttemptId::of(row)) {
            free.insert(rows.len());
            rows.push(row.clone());
            is_new = true;
        }
    }
    if !is_new {
        return Ok(());
    }
    meta.format_version = FORMAT_VERSION;
    meta.generation += 1;
    meta.project.clone_from(&state.meta.project);
    meta.cluster.clone_from(&state.meta.cluster);
    meta.path = store.paths.real_path();
    meta.owner_uid = meta
        .owner_uid
        .or(state.meta.owner_uid)
        .or_else(|| Some(crate::base::sys::effective_uid()));
    let all: Vec<&TaskRow> = rows.iter().collect();
    let (bytes, after) = encode(path, &all, other_columns.as_ref(), &meta)?;
    replace(path, None, &bytes, identity, &after).map_err(StateError::from)
}

/// Removes attempts permanently.
pub(super) fn forget(store: &Store, is_its: &dyn Fn(&TaskRow) -> bool) -> Result<(), StateError> {
    let path = &store.paths.attempts;
    let Some(mut before) = store.load(path)? else {
        return Ok(());
    };
    let count = before.rows.len();
    before.rows.retain(|row| !is_its(row));
    if before.rows.len() == count {
        return Ok(());
    }
    refuse_newer(path, &before.meta)?;
    before.meta.generation += 1;
    let rows: Vec<&TaskRow> = before.rows.iter().collect();
    let (bytes, after) = encode(path, &rows, before.other_columns.as_ref(), &before.meta)?;
    replace(path, None, &bytes, Some(&before.identity), &after).map_err(StateError::from)
}
