//! Sudden drops: fewer sessions, or fewer complete tasks, than there were.
//!
//! Only what was judged on disk counts: a task that waits, runs or cannot be read is neither. The
//! number of sessions is kept as the most there ever were; the number of complete tasks of a
//! procedure falls with those that the program itself works on anew.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::{Baselines, SafetyStop};
use crate::bids::Discovery;
use crate::config::Config;
use crate::manifest::{Decision, Due, Manifest, Skip};
use crate::procedure::marker::{Marker, Required};
use crate::procedure::{Procedure, ProcedureDag};
use crate::state::State;

/// A drop of fewer than this is no alarm, whatever part it is.
const LEAST: u64 = 5;

const SESSIONS: &str = "sessions";
const ROOTS: &str = "roots";

/// Holds the figures of one look at a study.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// None: some directories could not be read, nobody knows.
    pub sessions: Option<u64>,
    /// In the order of the configuration.
    pub procedures: Vec<Figures>,
}

/// Holds the figures of one procedure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub tasks: u64,
    /// Found complete on disk.
    pub complete: u64,
    /// Found incomplete on disk, and about to be submitted for that.
    pub incomplete: u64,
    /// Of the incomplete ones, those whose row says complete.
    pub gone: u64,
    /// In flight, failed, about to be tried again or replaced: not complete by the program's own
    /// doing.
    pub ours: u64,
    /// Rows that say complete.
    pub known: u64,
}

impl Counts {
    /// Counts the tasks of a manifest that no limit was applied to yet. `sessions`: how many there
    /// are, if all could be read.
    pub fn of(
        dag: &ProcedureDag,
        manifest: &Manifest,
        state: &State,
        sessions: Option<usize>,
    ) -> Self {
        let mut procedures = vec![Figures::default(); dag.len()];
        for task in &manifest.tasks {
            if let Some(figures) = procedures.get_mut(task.procedure.index()) {
                figures.add(&task.decision);
            }
        }
        for row in state.rows() {
            if row.is_proven_complete()
                && let Some(id) = dag.find(&row.key.procedure)
                && let Some(figures) = procedures.get_mut(id.index())
            {
                figures.known += 1;
            }
        }
        Self {
            sessions: sessions.map(|count| count as u64),
            procedures,
        }
    }

    /// Takes the number of sessions from a search, whatever part of them was decided about; none if some could not be
    /// read.
    pub fn count_sessions(&mut self, found: &Discovery) {
        self.sessions = found
            .unreadable
            .is_empty()
            .then_some(found.sessions.len() as u64);
    }
}

impl Figures {
    fn add(&mut self, decision: &Decision) {
        self.tasks += 1;
        match decision {
            Decision::Skip(Skip::Complete | Skip::Stale(_)) => self.complete += 1,
            Decision::Skip(Skip::InFlight { .. } | Skip::Renamed(_) | Skip::Failed { .. })
            | Decision::Submit(
                Due::Stale | Due::Forced { .. } | Due::FailedBefore | Due::Retry { .. },
            ) => self.ours += 1,
            Decision::Submit(due) => {
                self.incomplete += 1;
                self.gone += u64::from(*due == Due::OutputsGone);
            }
            Decision::Skip(_) => {}
        }
    }

    /// Counts the tasks that were complete and are not any more. Rows tell it exactly; what was
    /// complete without a row is missed only if the rest cannot make up for it.
    fn lost(&self, baseline: u64) -> u64 {
        let possible = self.tasks - self.incomplete;
        let vanished = baseline.saturating_sub(possible).min(self.incomplete);
        self.gone.max(vanished)
    }
}

/// Returns a stop for each number that fell by more than the configuration allows.
pub fn judge(config: &Config, counts: &Counts, baselines: &Baselines) -> Vec<SafetyStop> {
    let percent = config.safety.max_drop;
    let known = |name: &str| baselines.get(name).copied().unwrap_or(0);
    let is_sudden = |lost: u64, before: u64| {
        // Far below 2^52.
        lost >= LEAST && lost as f64 * 100.0 > percent * before as f64
    };
    let roots_changed = is_other(baselines, ROOTS, roots_mark(config));
    let mut stops = Vec::new();
    let mut stop = |name: String, figure: u64, message: String, changed: Option<String>| {
        let changed = changed.map_or_else(String::new, |what| format!("; {what} since then"));
        stops.push(SafetyStop {
            name,
            figure,
            message: format!("{message} (more than max_drop, {percent}%{changed})"),
            hint: "see that everything is mounted and whole; if the numbers are right, \
                   'snbb-scheduler run --accept-drop' goes on and takes them as the new ones"
                .to_owned(),
            can_be_accepted: true,
        });
    };
    let of_roots = || roots_changed.then(|| "a root in the configuration has changed".to_owned());
    if let Some(now) = counts.sessions {
        let before = known(SESSIONS);
        if is_sudden(before.saturating_sub(now), before) {
            let message = format!("there are {now} sessions where there were {before}");
            stop(SESSIONS.to_owned(), now, message, of_roots());
        }
    }
    let (mut all_lost, mut all_before, mut is_told) = (0, 0, false);
    for ((_, procedure), figures) in config.procedures.iter().zip(&counts.procedures) {
        let name = &procedure.name;
        let baseline = known(&complete(name));
        let lost = figures
            .lost(baseline)
            .saturating_sub(known(&accepted(name)));
        let before = baseline.max(figures.known);
        all_lost += lost;
        all_before += before;
        if is_sudden(lost, before) {
            is_told = true;
            let rule = is_other(baselines, &rule(name), rule_mark(config, procedure));
            let changed = rule
                .then(|| format!("what makes {name} complete has changed"))
                .or_else(of_roots);
            let message =
                format!("{lost} of {before} complete tasks of {name} have lost their outputs");
            stop(complete(name), lost, message, changed);
        }
    }
    if !is_told && is_sudden(all_lost, all_before) {
        let message = format!("{all_lost} of {all_before} complete tasks have lost their outputs");
        stop("complete".to_owned(), all_lost, message, of_roots());
    }
    stops
}

/// Takes the figures of a run that goes on. `accepts`: as they are, also where they are lower.
pub fn settle(config: &Config, counts: &Counts, baselines: &mut Baselines, accepts: bool) {
    if let Some(now) = counts.sessions {
        let before = baselines.get(SESSIONS).copied().unwrap_or(0);
        baselines.insert(
            SESSIONS.to_owned(),
            if accepts { now } else { before.max(now) },
        );
    }
    baselines.insert(ROOTS.to_owned(), roots_mark(config));
    let is_here = |name: &str| config.procedures.find(name).is_some();
    // A procedure that left the configuration is no drop.
    baselines.retain(|name, _| match name.split_once('/') {
        Some(("complete" | "rule", procedure)) => is_here(procedure),
        Some(("accepted", procedure)) => procedure.contains('/') || is_here(procedure),
        _ => true,
    });
    for ((_, procedure), figures) in config.procedures.iter().zip(&counts.procedures) {
        let name = &procedure.name;
        let before = baselines.get(&complete(name)).copied().unwrap_or(0);
        let most = figures.tasks - figures.ours;
        let now = if accepts {
            figures.complete
        } else {
            figures.complete.max(before.min(most))
        };
        baselines.insert(complete(name), now);
        baselines.insert(rule(name), rule_mark(config, procedure));
        // What was accepted once is no alarm while it waits for its turn.
        let accepted_before = baselines.get(&accepted(name)).copied().unwrap_or(0);
        let still = if accepts {
            figures.gone
        } else {
            accepted_before.min(figures.gone)
        };
        match still {
            0 => baselines.remove(&accepted(name)),
            count => baselines.insert(accepted(name), count),
        };
    }
}

/// Gives a state that was rebuilt without its counts the number of sessions that its rows know.
pub fn derive(state: &mut State) {
    if state.meta.baselines.contains_key(SESSIONS) {
        return;
    }
    let sessions: HashSet<_> = state
        .rows()
        .iter()
        .filter(|row| !row.key.session.is_empty())
        .map(|row| (&row.key.subject, &row.key.session))
        .collect();
    let count = sessions.len() as u64;
    if count > 0 {
        state.meta.baselines.insert(SESSIONS.to_owned(), count);
    }
}

fn complete(procedure: &str) -> String {
    format!("complete/{procedure}")
}

fn rule(procedure: &str) -> String {
    format!("rule/{procedure}")
}

fn accepted(procedure: &str) -> String {
    format!("accepted/{procedure}")
}

fn is_other(baselines: &Baselines, name: &str, mark: u64) -> bool {
    baselines.get(name).is_some_and(|before| *before != mark)
}

/// Tells other roots from these.
fn roots_mark(config: &Config) -> u64 {
    let roots = [
        &config.dicom_root,
        &config.bids_root,
        &config.derivatives_root,
    ];
    mark(roots.map(|root| root.to_string_lossy().into_owned()))
}

/// Tells another rule of completion from this one.
fn rule_mark(config: &Config, procedure: &Procedure) -> u64 {
    let mut parts = vec![
        procedure.output_dir.to_string_lossy().into_owned(),
        procedure.scope.to_string(),
        format!("{:?}", procedure.check),
        format!("{:?}", config.qsirecon_spec),
    ];
    if let Required::Markers(markers) = &procedure.completion.required {
        for Marker {
            pattern,
            min_size,
            contains,
            not_contains,
            when,
        } in markers
        {
            parts.extend([
                pattern.as_str().to_owned(),
                min_size.to_string(),
                format!("{contains:?} {not_contains:?}"),
                format!("{:?}", when.as_ref().map(|when| when.as_str())),
            ]);
        }
    }
    let forbidden = procedure.completion.forbid.iter();
    parts.extend(forbidden.map(|pattern| format!("not {}", pattern.as_str())));
    mark(parts)
}

/// 32 bits of a hash: every reader of JSON takes them as they are.
fn mark(parts: impl IntoIterator<Item = String>) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(4)
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests;
