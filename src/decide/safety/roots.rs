//! Roots that are missing or empty although they contain results by the state.
#![expect(
    clippy::disallowed_methods,
    reason = "checks the roots before any scan"
)]

use std::path::Path;

use super::{Baselines, SafetyStop};
use crate::base::text::plural_of;
use crate::model::bids::SessionSource;
use crate::model::config::Config;
use crate::model::state::{State, TaskRow};

/// The content of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Fine,
    Missing,
    Empty,
    /// It exists, but cannot be read: the scan will report it.
    Unreadable,
}

/// Reads only the first entry.
pub fn observe(path: &Path) -> Root {
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Root::Fine,
            None => Root::Empty,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Root::Missing,
        Err(_) => Root::Unreadable,
    }
}

/// A stop for each root that is missing or empty although it must contain results by the state, unless that was
/// accepted. Reads only such roots.
pub fn safety_stops(
    config: &Config,
    state: &State,
    observe: impl Fn(&Path) -> Root,
) -> Vec<SafetyStop> {
    let mut stops = Vec::new();
    for ((name, path), count) in known(config, state) {
        if count == 0 || state.meta.baselines.contains_key(&accepted(name)) {
            continue;
        }
        let root = observe(path);
        let what = match root {
            Root::Missing => "is missing",
            Root::Empty => "is empty",
            Root::Fine | Root::Unreadable => continue,
        };
        // Sessions cannot be discovered in a missing directory, even if that is accepted.
        let is_scanned = match config.sessions {
            SessionSource::Dicom => name == "dicom_root",
            SessionSource::Bids => name == "bids_root",
            SessionSource::Csv { .. } => false,
        };
        let is_needed = root == Root::Missing && is_scanned;
        let on_purpose = match is_needed {
            true => "removed on purpose, create an empty directory and run",
            false => "emptied on purpose, run",
        };
        stops.push(SafetyStop {
            name: format!("root/{name}"),
            figure: 1,
            message: format!(
                "{name} {} {what}, but the state records {} it",
                path.display(),
                plural_of(count, "task that needs", "tasks that need")
            ),
            hint: format!(
                "check that {} is mounted and that {name} in the configuration is right; if it was \
                 {on_purpose} 'snbb-scheduler run --accept-drop'",
                path.display()
            ),
            can_be_accepted: !is_needed,
        });
    }
    stops
}

/// Records accepted missing or empty roots, until they contain something again.
pub fn settle(
    config: &Config,
    baselines: &mut Baselines,
    observe: impl Fn(&Path) -> Root,
    accepts: bool,
) {
    for (name, path) in config.roots() {
        if !accepts && !baselines.contains_key(&accepted(name)) {
            continue;
        }
        match observe(path) {
            Root::Missing | Root::Empty => {
                baselines.insert(accepted(name), 1);
            }
            Root::Fine => {
                baselines.remove(&accepted(name));
            }
            Root::Unreadable => {}
        }
    }
}

fn accepted(name: &str) -> String {
    format!("accepted/root/{name}")
}

/// Each root with the number of tasks that must have files there by their rows.
fn known<'a>(
    config: &'a Config,
    state: &State,
) -> impl Iterator<Item = ((&'static str, &'a Path), usize)> {
    let complete_in = |is_below_bids: bool| {
        let is_there = |row: &&TaskRow| {
            let procedure = config.procedures.find(&row.key.procedure);
            let is_its = |id| config.procedures.get(id).is_below_bids() == is_below_bids;
            row.is_proven_complete() && procedure.is_some_and(is_its)
        };
        state.rows().iter().filter(is_there).count()
    };
    let (dicom, bids) = match config.sessions {
        SessionSource::Dicom => (state.len(), complete_in(true)),
        SessionSource::Bids => (0, state.len()),
        SessionSource::Csv { .. } => (0, complete_in(true)),
    };
    let counts = [dicom, bids, complete_in(false)];
    config.roots().into_iter().zip(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, load::interpret};
    use crate::model::state::Reason;
    use crate::model::state::TaskStatus;
    use crate::model::state::testing::row;

    #[test]
    fn only_roots_with_recorded_tasks_cause_a_stop() {
        let text = "dicom_root: /d\nbids_root: /b\nderivatives_root: /o\nprocedures:\n  \
                    - {name: a, output_dir: '', script: a.sh}\n  - {name: b, output_dir: b, script: b.sh}\n";
        let cwd = Path::new("/");
        let config = interpret(
            text.as_bytes(),
            None,
            false,
            &|_| None,
            &Overrides::default(),
            cwd,
        );
        let config = config.unwrap();
        let messages = |state: &State, gone: &str, root: Root| {
            let look = |path: &Path| {
                if path == Path::new(gone) {
                    root
                } else {
                    Root::Fine
                }
            };
            let stops = safety_stops(&config, state, look);
            stops
                .into_iter()
                .map(|stop| stop.message)
                .collect::<Vec<_>>()
        };
        let mut state = State::default();
        for gone in ["/d", "/b", "/o"] {
            assert!(
                messages(&state, gone, Root::Missing).is_empty(),
                "nothing is recorded"
            );
        }
        state.put(row("a", TaskStatus::Failed, Reason::Timeout));
        assert_eq!(
            messages(&state, "/d", Root::Empty),
            ["dicom_root /d is empty, but the state records 1 task that needs it"]
        );
        assert!(
            messages(&state, "/b", Root::Empty).is_empty(),
            "a failed task left nothing"
        );
        state.put(row("a", TaskStatus::Complete, Reason::Verified));
        assert_eq!(
            messages(&state, "/b", Root::Missing),
            ["bids_root /b is missing, but the state records 1 task that needs it"]
        );
        assert!(messages(&state, "/o", Root::Missing).is_empty());
        state.put(row("b", TaskStatus::Complete, Reason::Verified));
        assert_eq!(messages(&state, "/o", Root::Missing).len(), 1);
        assert!(
            messages(&state, "/o", Root::Unreadable).is_empty(),
            "the scan will report it"
        );
        // Accepted, until it contains something again.
        settle(&config, &mut state.meta.baselines, |_| Root::Missing, false);
        assert_eq!(messages(&state, "/o", Root::Missing).len(), 1);
        settle(&config, &mut state.meta.baselines, |_| Root::Missing, true);
        assert!(messages(&state, "/o", Root::Missing).is_empty());
        settle(&config, &mut state.meta.baselines, |_| Root::Fine, false);
        assert_eq!(messages(&state, "/o", Root::Missing).len(), 1);
    }
}
