//! Roots that are missing or empty although results are known to lie there.
#![expect(
    clippy::disallowed_methods,
    reason = "the roots are looked at here, before any scan"
)]

use std::path::Path;

use super::{Baselines, Stop};
use crate::config::{Config, SessionSource};
use crate::state::{State, TaskStatus};

/// Says what stands at a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Fine,
    Missing,
    Empty,
    /// It exists, and its content cannot be seen: the scan will tell.
    Unreadable,
}

/// Holds what stands at the three roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roots {
    pub dicom: Root,
    pub bids: Root,
    pub derivatives: Root,
}

/// Looks at the roots: one read of the first entry each.
pub fn look(config: &Config) -> Roots {
    Roots {
        dicom: root(&config.dicom_root),
        bids: root(&config.bids_root),
        derivatives: root(&config.derivatives_root),
    }
}

fn root(path: &Path) -> Root {
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Root::Fine,
            None => Root::Empty,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Root::Missing,
        Err(_) => Root::Unreadable,
    }
}

/// Returns a stop for each root that is gone although the state knows results that must lie there,
/// unless that was accepted.
pub fn judge(config: &Config, roots: &Roots, state: &State) -> Vec<Stop> {
    let mut stops = Vec::new();
    for (name, path, root, count) in known(config, roots, state) {
        let what = match root {
            Root::Missing => "is missing",
            Root::Empty => "is empty",
            Root::Fine | Root::Unreadable => continue,
        };
        if count == 0 || state.meta.baselines.contains_key(&accepted(name)) {
            continue;
        }
        stops.push(Stop {
            name: format!("root/{name}"),
            figure: 1,
            message: format!(
                "{name} {} {what} although the state knows {count} task(s) there",
                path.display()
            ),
            hint: format!(
                "see that {} is mounted, and that {name} in the configuration is right; if it was \
                 emptied on purpose: snbb-scheduler run --accept-drop",
                path.display()
            ),
            can_be_accepted: true,
        });
    }
    stops
}

/// Notes which roots a person says are gone for good, until they hold something again.
pub fn settle(baselines: &mut Baselines, roots: &Roots, accepts: bool) {
    for (name, root) in names(roots) {
        match root {
            Root::Missing | Root::Empty if accepts => {
                baselines.insert(accepted(name), 1);
            }
            Root::Fine => {
                baselines.remove(&accepted(name));
            }
            _ => {}
        }
    }
}

fn accepted(name: &str) -> String {
    format!("accepted/root/{name}")
}

fn names(roots: &Roots) -> [(&'static str, Root); 3] {
    [
        ("dicom_root", roots.dicom),
        ("bids_root", roots.bids),
        ("derivatives_root", roots.derivatives),
    ]
}

/// Pairs each root with the number of tasks whose rows say that something lies there.
fn known<'a>(
    config: &'a Config,
    roots: &Roots,
    state: &State,
) -> [(&'static str, &'a Path, Root, usize); 3] {
    let complete_in = |is_below_bids: bool| {
        let rows = state.rows().iter();
        rows.filter(|row| {
            let procedure = config.procedures.find(&row.key.procedure);
            row.status == TaskStatus::Complete
                && procedure.is_some_and(|id| {
                    let dir = &config.procedures.get(id).output_dir;
                    dir.as_os_str().is_empty() == is_below_bids
                })
        })
        .count()
    };
    let sessions_in = |source: &SessionSource| match config.sessions == *source {
        true => state.len(),
        false => 0,
    };
    let [dicom, bids, derivatives] = names(roots);
    [
        (
            dicom.0,
            &config.dicom_root,
            dicom.1,
            sessions_in(&SessionSource::Dicom),
        ),
        (
            bids.0,
            &config.bids_root,
            bids.1,
            sessions_in(&SessionSource::Bids).max(complete_in(true)),
        ),
        (
            derivatives.0,
            &config.derivatives_root,
            derivatives.1,
            complete_in(false),
        ),
    ]
}
