//! Safety stops: reasons not to trust the disk, checked before anything is submitted.
//!
//! A file system that is not mounted looks like a study without any results. The earlier counts are stored by name in
//! the state's metadata, so they move with the file. Pure except [`roots::observe`], [`space::observe`],
//! [`Trust::observe`] and [`before_submission`].

pub mod drop;
pub mod recheck;
pub mod roots;
pub mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::base::text::and_more;
use crate::gather::completion::{Completion, Completions, SubjectCompletions};
use crate::gather::disk::Unreadable;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::ProcedureId;
use crate::model::state::State;

pub use drop::Counts;
pub use recheck::Trust;

/// The counts in the state's metadata, by name.
pub type Baselines = BTreeMap<String, u64>;

/// Prefix of the stops of the last run, so that the next one does not repeat them.
const STOPPED: &str = "stopped/";

/// One reason to submit nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SafetyStop {
    /// Its name in the metadata: `sessions`, `complete/qsiprep`, `root/bids_root`, `space/log_file`.
    pub name: String,
    /// Differs if the stop is not the same as before.
    pub figure: u64,
    /// One sentence with the numbers.
    pub message: String,
    pub hint: String,
    /// True if `--accept-drop` overrides it.
    pub can_be_accepted: bool,
}

/// Checks disk space and sudden drops, after all decisions. [`roots::safety_stops`] checks the roots before the scan.
pub fn before_submission(config: &Config, counts: &Counts, state: &State) -> Vec<SafetyStop> {
    let mut stops = space::safety_stops(config, &space::observe(config));
    stops.extend(drop::safety_stops(config, counts, &state.meta.baselines));
    stops
}

/// All stops in one sentence.
pub fn message(stops: &[SafetyStop]) -> String {
    let messages: Vec<&str> = stops.iter().map(|stop| stop.message.as_str()).collect();
    let shown = messages.get(..3).unwrap_or(&messages);
    format!("{}{}", shown.join("; "), and_more(messages.len(), 3))
}

/// The hints without duplicates.
pub fn hints(stops: &[SafetyStop]) -> String {
    let hints: BTreeSet<&str> = stops.iter().map(|stop| stop.hint.as_str()).collect();
    Vec::from_iter(hints).join("; ")
}

/// Records the stops of a run; true if they are new, because each stop is reported only once. All outputs are checked
/// until a run continues.
pub fn note_stops(state: &mut State, stops: &[SafetyStop]) -> bool {
    let now: Baselines = stops
        .iter()
        .map(|stop| (format!("{STOPPED}{}", stop.name), stop.figure))
        .collect();
    let baselines = &mut state.meta.baselines;
    let forgets = !stops.is_empty() && recheck::forget(baselines);
    let is_stop = |(name, _): &(&String, &u64)| name.starts_with(STOPPED);
    let is_new = !baselines.iter().filter(is_stop).eq(&now);
    if is_new {
        baselines.retain(|name, _| !name.starts_with(STOPPED));
        baselines.extend(now);
    }
    if is_new || forgets {
        state.mark_changed();
    }
    is_new
}

/// What stopped the last run, for people.
pub fn stopped_by(baselines: &Baselines) -> Vec<String> {
    let text = |name: &str| match name.split_once('/') {
        Some(("complete", procedure)) => format!("complete tasks of {procedure}"),
        Some(("root", key)) => key.to_owned(),
        Some(("space", key)) => format!("space for {key}"),
        _ => name.to_owned(),
    };
    stop_names(baselines).map(text).collect()
}

fn stop_names(baselines: &Baselines) -> impl Iterator<Item = &str> {
    baselines
        .keys()
        .filter_map(|name| name.strip_prefix(STOPPED))
}

/// The stop of the last run because of lost outputs, which only a check of the whole study can lift.
pub fn remembered(baselines: &Baselines) -> Option<SafetyStop> {
    let names = stop_names(baselines).filter_map(|name| name.strip_prefix("complete"));
    let names: Vec<&str> = names.map(|name| name.trim_start_matches('/')).collect();
    let of = match names.contains(&"") {
        true => String::new(),
        false => format!(" of {}", names.join(", ")),
    };
    (!names.is_empty()).then(|| SafetyStop {
        name: "complete".to_owned(),
        figure: 0,
        message: format!("in the last run, too many complete tasks{of} had lost their outputs"),
        hint: "run 'snbb-scheduler run --dry-run' to check whether this is still the case"
            .to_owned(),
        can_be_accepted: true,
    })
}

/// Outputs below a missing root, which are neither present nor absent.
#[derive(Debug, Clone)]
pub struct Blind {
    pub because: Unreadable,
}

impl Blind {
    pub fn because(stops: &[SafetyStop]) -> Self {
        let (path, error) = (PathBuf::new(), message(stops));
        Self {
            because: Unreadable { path, error },
        }
    }
}

impl Completions for Blind {
    fn for_subject<'a>(&'a self, _: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(self.clone())
    }
}

impl SubjectCompletions for Blind {
    fn completion(&self, _: ProcedureId, _: &SessionLabel) -> Completion {
        Completion::Unreadable(Box::new(self.because.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(name: &str, figure: u64) -> SafetyStop {
        SafetyStop {
            name: name.to_owned(),
            figure,
            message: format!("{name} {figure}"),
            hint: "mount it".to_owned(),
            can_be_accepted: true,
        }
    }

    #[test]
    fn each_stop_is_reported_once() {
        let mut state = State::default();
        assert!(!note_stops(&mut state, &[]));
        assert!(!state.is_changed());
        assert!(note_stops(&mut state, &[stop("sessions", 5)]));
        assert!(!note_stops(&mut state, &[stop("sessions", 5)]));
        assert!(note_stops(&mut state, &[stop("sessions", 4)]));
        assert!(note_stops(
            &mut state,
            &[stop("sessions", 4), stop("complete/qc", 1)]
        ));
        assert_eq!(
            stopped_by(&state.meta.baselines),
            ["complete tasks of qc", "sessions"]
        );
        let remembered = remembered(&state.meta.baselines).unwrap();
        assert_eq!(
            remembered.message,
            "in the last run, too many complete tasks of qc had lost their outputs"
        );
        assert!(note_stops(&mut state, &[]));
        assert!(state.meta.baselines.is_empty());
    }

    #[test]
    fn several_stops_share_one_line() {
        let stops = ["a", "b", "c", "d", "e"].map(|name| stop(name, 1));
        assert_eq!(message(&stops), "a 1; b 1; c 1 and 2 more");
        assert_eq!(hints(&stops), "mount it");
    }
}
