//! Roots that are missing or empty although results are known to lie there.
#![expect(
    clippy::disallowed_methods,
    reason = "the roots are looked at here, before any scan"
)]

use std::path::Path;

use super::{Baselines, SafetyStop};
use crate::model::bids::SessionSource;
use crate::model::config::Config;
use crate::model::state::State;

/// Says what stands at a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Fine,
    Missing,
    Empty,
    /// It exists, and its content cannot be seen: the scan will tell.
    Unreadable,
}

/// Looks at a root: one read of the first entry.
pub fn look(path: &Path) -> Root {
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
/// unless that was accepted. Only such roots are looked at.
pub fn judge(config: &Config, state: &State, look: impl Fn(&Path) -> Root) -> Vec<SafetyStop> {
    let mut stops = Vec::new();
    for (name, path, count) in known(config, state) {
        if count == 0 || state.meta.baselines.contains_key(&accepted(name)) {
            continue;
        }
        let root = look(path);
        let what = match root {
            Root::Missing => "is missing",
            Root::Empty => "is empty",
            Root::Fine | Root::Unreadable => continue,
        };
        // Without a directory there is nothing to find sessions in, whoever accepts that.
        let is_scanned = match config.sessions {
            SessionSource::Dicom => name == "dicom_root",
            SessionSource::Bids => name == "bids_root",
            SessionSource::Csv { .. } => false,
        };
        let is_needed = root == Root::Missing && is_scanned;
        let on_purpose = if is_needed {
            "removed on purpose: make an empty directory in its place, then"
        } else {
            "emptied on purpose:"
        };
        stops.push(SafetyStop {
            name: format!("root/{name}"),
            figure: 1,
            message: format!(
                "{name} {} {what} although the state knows {count} task(s) there",
                path.display()
            ),
            hint: format!(
                "see that {} is mounted, and that {name} in the configuration is right; if it was \
                 {on_purpose} snbb-scheduler run --accept-drop",
                path.display()
            ),
            can_be_accepted: !is_needed,
        });
    }
    stops
}

/// Notes which roots a person says are gone on purpose, until they hold something again.
pub fn settle(
    config: &Config,
    baselines: &mut Baselines,
    look: impl Fn(&Path) -> Root,
    accepts: bool,
) {
    for (name, path) in config.roots() {
        if !accepts && !baselines.contains_key(&accepted(name)) {
            continue;
        }
        match look(path) {
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

/// Adds to each root the number of tasks whose rows say that something lies there.
fn known<'a>(config: &'a Config, state: &State) -> [(&'static str, &'a Path, usize); 3] {
    let complete_in = |is_below_bids: bool| {
        let rows = state.rows().iter();
        rows.filter(|row| {
            let procedure = config.procedures.find(&row.key.procedure);
            row.is_proven_complete()
                && procedure
                    .is_some_and(|id| config.procedures.get(id).is_below_bids() == is_below_bids)
        })
        .count()
    };
    let sessions_in = |source: &SessionSource| match config.sessions == *source {
        true => state.len(),
        false => 0,
    };
    let [dicom, bids, derivatives] = config.roots();
    let in_bids = sessions_in(&SessionSource::Bids).max(complete_in(true));
    [
        (dicom.0, dicom.1, sessions_in(&SessionSource::Dicom)),
        (bids.0, bids.1, in_bids),
        (derivatives.0, derivatives.1, complete_in(false)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, load::interpret};
    use crate::model::state::Reason;
    use crate::model::state::TaskStatus;
    use crate::model::state::testing::row;

    #[test]
    fn only_a_root_that_the_state_knows_something_in_is_missed() {
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
        let told = |state: &State, gone: &str, root: Root| {
            let look = |path: &Path| {
                if path == Path::new(gone) {
                    root
                } else {
                    Root::Fine
                }
            };
            let stops = judge(&config, state, look);
            stops
                .into_iter()
                .map(|stop| stop.message)
                .collect::<Vec<_>>()
        };
        let mut state = State::default();
        for gone in ["/d", "/b", "/o"] {
            assert!(
                told(&state, gone, Root::Missing).is_empty(),
                "nothing is known"
            );
        }
        state.put(row("a", TaskStatus::Failed, Reason::Timeout));
        assert_eq!(
            told(&state, "/d", Root::Empty),
            ["dicom_root /d is empty although the state knows 1 task(s) there"]
        );
        assert!(
            told(&state, "/b", Root::Empty).is_empty(),
            "a failed task left nothing"
        );
        state.put(row("a", TaskStatus::Complete, Reason::Verified));
        assert_eq!(
            told(&state, "/b", Root::Missing),
            ["bids_root /b is missing although the state knows 1 task(s) there"]
        );
        assert!(told(&state, "/o", Root::Missing).is_empty());
        state.put(row("b", TaskStatus::Complete, Reason::Verified));
        assert_eq!(told(&state, "/o", Root::Missing).len(), 1);
        assert!(
            told(&state, "/o", Root::Unreadable).is_empty(),
            "the scan will tell"
        );
        // Accepted, until it holds something again.
        settle(&config, &mut state.meta.baselines, |_| Root::Missing, false);
        assert_eq!(told(&state, "/o", Root::Missing).len(), 1);
        settle(&config, &mut state.meta.baselines, |_| Root::Missing, true);
        assert!(told(&state, "/o", Root::Missing).is_empty());
        settle(&config, &mut state.meta.baselines, |_| Root::Fine, false);
        assert_eq!(told(&state, "/o", Root::Missing).len(), 1);
    }
}
