//! The safety stop: reasons not to trust what the disk shows, judged before anything is submitted.
//!
//! A root that is not mounted looks like a study in which everything is still to do.
#![expect(
    clippy::disallowed_methods,
    reason = "the roots are looked at here, before any scan"
)]

use std::path::Path;

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

/// Returns the message and the hint of a stop, if a root is gone although the state knows results
/// that must lie there.
pub fn judge(config: &Config, roots: &Roots, state: &State) -> Option<(String, String)> {
    let known = |below_bids: Option<bool>| {
        state
            .rows()
            .iter()
            .filter(|row| match below_bids {
                None => true,
                Some(below_bids) => {
                    row.status == TaskStatus::Complete
                        && config
                            .procedures
                            .find(&row.key.procedure)
                            .is_some_and(|id| {
                                let dir = &config.procedures.get(id).output_dir;
                                dir.as_os_str().is_empty() == below_bids
                            })
                }
            })
            .count()
    };
    let scanned = config.sessions == SessionSource::Dicom;
    let discovered_in_bids = config.sessions == SessionSource::Bids;
    [
        (
            "dicom_root",
            &config.dicom_root,
            roots.dicom,
            if scanned { known(None) } else { 0 },
        ),
        (
            "bids_root",
            &config.bids_root,
            roots.bids,
            if discovered_in_bids {
                known(None)
            } else {
                known(Some(true))
            },
        ),
        (
            "derivatives_root",
            &config.derivatives_root,
            roots.derivatives,
            known(Some(false)),
        ),
    ]
    .into_iter()
    .find_map(|(name, path, root, count)| {
        let what = match root {
            Root::Missing => "is missing",
            Root::Empty => "is empty",
            Root::Fine | Root::Unreadable => return None,
        };
        (count > 0).then(|| {
            (
                format!(
                    "{name} {} {what} although the state knows {count} task(s) there",
                    path.display()
                ),
                format!(
                    "see that {} is mounted, and that {name} in the configuration is right",
                    path.display()
                ),
            )
        })
    })
}
