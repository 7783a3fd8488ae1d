//! The safety stop: reasons not to trust what the disk shows, judged before anything is submitted.
//!
//! A file system that is not mounted looks like a study in which everything is still to do. What
//! was there before stands in the metadata of the state, as counts by name; so it travels with the
//! file. Pure but for [`roots::look`], [`space::look`], [`Trust::look`] and [`before_submission`].

pub mod drop;
pub mod recheck;
pub mod roots;
pub mod space;

use std::collections::BTreeMap;

use crate::gather::completion::{Completion, Completions, SubjectCompletions};
use crate::gather::disk::Unreadable;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::ProcedureId;
use crate::model::state::State;

pub use drop::Counts;
pub use recheck::Trust;

/// Holds the counts that are kept in the state's metadata, by name.
pub type Baselines = BTreeMap<String, u64>;

/// Names what a run that was stopped saw, so that the next one says it once.
const STOPPED: &str = "stopped/";

/// Is one reason to submit nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SafetyStop {
    /// Names it in the metadata: `sessions`, `complete/qsiprep`, `root/bids_root`, `space/log_file`.
    pub name: String,
    /// The figure that tells whether it is the same as before.
    pub figure: u64,
    /// One sentence with the numbers.
    pub message: String,
    pub hint: String,
    /// True if `--accept-drop` goes on.
    pub can_be_accepted: bool,
}

/// Judges what is known only when everything has been decided: room, and sudden drops. The roots are judged before the
/// scan, by [`roots::judge`].
pub fn before_submission(config: &Config, counts: &Counts, state: &State) -> Vec<SafetyStop> {
    let mut stops = space::judge(config, &space::look(config));
    stops.extend(drop::judge(config, counts, &state.meta.baselines));
    stops
}

/// Puts several stops into one sentence.
pub fn message(stops: &[SafetyStop]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = stops
        .iter()
        .take(SHOWN)
        .map(|stop| stop.message.as_str())
        .collect();
    let mut text = shown.join("; ");
    match stops.len().saturating_sub(SHOWN) {
        0 => {}
        more => text.push_str(&format!("; and {more} more")),
    }
    text
}

/// Returns the ways out, each once.
pub fn hints(stops: &[SafetyStop]) -> String {
    let mut hints: Vec<&str> = Vec::new();
    for stop in stops {
        if !hints.contains(&stop.hint.as_str()) {
            hints.push(&stop.hint);
        }
    }
    hints.join("; ")
}

/// Notes what stopped a run. Returns whether that is news: the same stop is told once. Until a run goes on, all outputs
/// are looked at.
pub fn note_stops(state: &mut State, stops: &[SafetyStop]) -> bool {
    let now: Baselines = stops
        .iter()
        .map(|stop| (format!("{STOPPED}{}", stop.name), stop.figure))
        .collect();
    let baselines = &mut state.meta.baselines;
    let forgets = !stops.is_empty() && recheck::forget(baselines);
    let before: Baselines = baselines
        .iter()
        .filter(|(name, _)| name.starts_with(STOPPED))
        .map(|(name, figure)| (name.clone(), *figure))
        .collect();
    if before == now {
        if forgets {
            state.mark_changed();
        }
        return false;
    }
    baselines.retain(|name, _| !name.starts_with(STOPPED));
    baselines.extend(now);
    state.mark_changed();
    true
}

/// Names what stopped the last run, if one was stopped.
pub fn stopped_by(baselines: &Baselines) -> Vec<String> {
    let names = baselines
        .keys()
        .filter_map(|name| name.strip_prefix(STOPPED));
    names
        .map(|name| match name.split_once('/') {
            Some(("complete", procedure)) => format!("complete tasks of {procedure}"),
            Some(("root", key)) => key.to_owned(),
            Some(("space", key)) => format!("space for {key}"),
            _ => name.to_owned(),
        })
        .collect()
}

/// Returns a stop of the last run that only a look at the whole study can take back: lost outputs.
pub fn remembered(baselines: &Baselines) -> Option<SafetyStop> {
    let names = baselines
        .keys()
        .filter_map(|name| name.strip_prefix(STOPPED))
        .filter_map(|name| name.strip_prefix("complete"));
    let names: Vec<&str> = names.map(|name| name.trim_start_matches('/')).collect();
    let of = match names.iter().any(|name| name.is_empty()) {
        true => String::new(),
        false => format!(" of {}", names.join(", ")),
    };
    (!names.is_empty()).then(|| SafetyStop {
        name: "complete".to_owned(),
        figure: 0,
        message: format!("too many complete tasks{of} had lost their outputs at the last run"),
        hint: "'snbb-scheduler run --dry-run' says whether that is still so, and changes nothing"
            .to_owned(),
        can_be_accepted: true,
    })
}

/// Shows nothing of outputs, where a root is not there: neither presence nor absence.
#[derive(Debug, Clone)]
pub struct Blind {
    pub because: Unreadable,
}

impl Blind {
    pub fn because(stops: &[SafetyStop]) -> Self {
        Self {
            because: Unreadable {
                path: Default::default(),
                error: message(stops),
            },
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

    fn newest_output(
        &self,
        _: ProcedureId,
        _: &SessionLabel,
    ) -> Option<chrono::DateTime<chrono::Utc>> {
        None
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
    fn a_stop_is_news_once() {
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
            "too many complete tasks of qc had lost their outputs at the last run"
        );
        assert!(note_stops(&mut state, &[]));
        assert!(state.meta.baselines.is_empty());
    }

    #[test]
    fn several_stops_are_one_line() {
        let stops = ["a", "b", "c", "d", "e"].map(|name| stop(name, 1));
        assert_eq!(message(&stops), "a 1; b 1; c 1; and 2 more");
        assert_eq!(hints(&stops), "mount it");
    }
}
