//! Sudden drops: fewer sessions or fewer complete tasks than before.
//!
//! Only tasks whose outputs were checked count, not those that wait or cannot be read. The baseline of sessions is their
//! largest number ever; the baseline of a procedure's complete tasks decreases when the program itself replaces outputs.
//! Losses of one day add up, including those that earlier runs have resubmitted.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use itertools::Itertools as _;

use super::{Baselines, SafetyStop};
use crate::base::text::hash_of;
use crate::decide::manifest::{Decision, Due, Manifest, Skip};
use crate::gather::sessions::discover::Discovery;
use crate::model::config::Config;
use crate::model::procedure::marker::{Marker, Required};
use crate::model::procedure::{Procedure, ProcedureDag};
use crate::model::state::{State, TaskKey, TaskRow};

/// A smaller drop does not count, unless nothing is left.
const LEAST: u64 = 5;

/// The smallest number of results whose complete loss counts.
const LEAST_OF_ALL: u64 = 2;

/// Losses within this time add up.
const WINDOW: TimeDelta = TimeDelta::days(1);

const SESSIONS: &str = "sessions";
const ROOTS: &str = "roots";

/// The current figures of a study.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// `None` if some directories could not be read.
    pub sessions: Option<u64>,
    /// In the order of the configuration.
    pub procedures: Vec<Figures>,
}

/// The figures of one procedure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub tasks: u64,
    /// Complete on disk.
    pub complete: u64,
    /// Incomplete on disk, and therefore about to be submitted.
    pub incomplete: u64,
    /// Incomplete on disk, but complete by their rows.
    pub gone: u64,
    /// Not incomplete now, but submitted within the last day because their outputs were lost.
    pub lately: u64,
    /// In flight, failed or about to be retried, by an attempt that replaces nothing.
    pub begun: u64,
    /// In flight, failed, or about to be retried or replaced: incomplete because of the program itself.
    pub ours: u64,
    /// Complete by rows of this program.
    pub known: u64,
}

impl Counts {
    /// Counts the tasks of a manifest before limits. `attempts` are the earlier ones, needed only if a task is due.
    pub fn of(
        dag: &ProcedureDag,
        manifest: &Manifest,
        state: &State,
        attempts: &[TaskRow],
        now: DateTime<Utc>,
    ) -> Self {
        let mut procedures = vec![Figures::default(); dag.len()];
        let mut gone: HashSet<&TaskKey> = HashSet::new();
        for task in &manifest.tasks {
            if task.decision == Decision::Submit(Due::OutputsGone) {
                gone.insert(&task.key);
            }
            if let Some(figures) = procedures.get_mut(task.procedure.index()) {
                figures.add(&task.decision, || {
                    let row = state.get(&task.key);
                    row.is_none_or(|row| row.replaces_outputs != Some(false))
                });
            }
        }
        let index = |row: &TaskRow| dag.find(&row.key.procedure).map(|id| id.index());
        for row in state.rows().iter().filter(|row| is_proven(row)) {
            if let Some(figures) = index(row).and_then(|index| procedures.get_mut(index)) {
                figures.known += 1;
            }
        }
        let earlier = || state.superseded().iter().chain(attempts);
        let proven: HashSet<(&TaskKey, i32)> = earlier()
            .filter(|row| is_proven(row))
            .filter_map(|row| Some((&row.key, row.attempt?)))
            .collect();
        for row in state.rows().iter().chain(earlier()) {
            let is_new = row.submitted_at.is_some_and(|at| at >= now - WINDOW);
            let before = row.attempt.map_or(0, |attempt| attempt - 1);
            if is_new
                && row.replaces_outputs == Some(false)
                && proven.contains(&(&row.key, before))
                && gone.insert(&row.key)
                && let Some(figures) = index(row).and_then(|index| procedures.get_mut(index))
            {
                figures.lately += 1;
            }
        }
        Self {
            sessions: None,
            procedures,
        }
    }

    /// Sets the number of all sessions that were found, whichever were selected; `None` if some could not be read.
    pub fn count_sessions(&mut self, found: &Discovery) {
        let count = found.sessions.len() as u64;
        self.sessions = found.unreadable.is_empty().then_some(count);
    }
}

impl Figures {
    /// `replaces` is true if the newest attempt replaces complete outputs.
    fn add(&mut self, decision: &Decision, replaces: impl Fn() -> bool) {
        self.tasks += 1;
        match decision {
            Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::LateInput) => self.complete += 1,
            Decision::Skip(Skip::InFlight { .. } | Skip::Renamed(_) | Skip::Failed { .. }) => {
                match replaces() {
                    true => self.ours += 1,
                    false => self.begun += 1,
                }
            }
            Decision::Submit(
                Due::Stale
                | Due::LateInput
                | Due::Forced { .. }
                | Due::FailedBefore { .. }
                | Due::Retry { .. },
            ) => self.ours += 1,
            Decision::Submit(due) => {
                self.incomplete += 1;
                self.gone += u64::from(*due == Due::OutputsGone);
            }
            Decision::Skip(_) => {}
        }
    }

    /// The tasks that are no longer complete. Rows give an exact number; losses without rows only count if the remaining
    /// tasks cannot make up for them.
    fn lost(&self, baseline: u64) -> u64 {
        self.gone.max(self.missing(baseline, self.incomplete))
    }

    /// The same, including losses that runs of the last day have resubmitted.
    fn lost_lately(&self, baseline: u64) -> u64 {
        let missing = self.missing(baseline, self.incomplete + self.begun);
        (self.gone + self.lately).max(missing)
    }

    /// The number of `baseline` tasks that cannot be complete if `incomplete` tasks are not.
    fn missing(&self, baseline: u64, incomplete: u64) -> u64 {
        let possible = self.tasks.saturating_sub(incomplete);
        baseline.saturating_sub(possible).min(incomplete)
    }
}

/// True for a complete row of this program. Rows of the Python program have no reason: it trusted Slurm alone, so there
/// may never have been outputs.
fn is_proven(row: &TaskRow) -> bool {
    row.is_proven_complete() && row.reason.is_some()
}

/// A stop for each number that fell by more than the configuration allows.
pub fn safety_stops(config: &Config, counts: &Counts, baselines: &Baselines) -> Vec<SafetyStop> {
    let percent = config.safety.max_drop;
    let is_sudden = |lost: u64, before: u64| {
        // Far below 2^52.
        let is_all = lost >= LEAST_OF_ALL && lost >= before;
        (lost >= LEAST || is_all) && lost as f64 * 100.0 > percent * before as f64
    };
    let changed = match is_other(baselines, ROOTS, roots_mark(config)) {
        true => "; a root in the configuration has changed since then",
        false => "",
    };
    let mut stops = Vec::new();
    let mut stop = |name: String, figure: u64, message: String, hint: &str| {
        stops.push(SafetyStop {
            name,
            figure,
            message,
            hint: hint.to_owned(),
            can_be_accepted: true,
        });
    };
    let sudden = |message: String| format!("{message} (more than max_drop, {percent}%{changed})");
    let check = "check that all data is mounted and intact; if the numbers are right, accept them with \
                 'snbb-scheduler run --accept-drop'";
    if let Some(now) = counts.sessions {
        let before = known(baselines, SESSIONS);
        let lost = before.saturating_sub(now);
        if lost >= LEAST && is_sudden(lost, before) {
            let message = format!("there are {now} sessions, but there were {before}");
            stop(SESSIONS.to_owned(), now, sudden(message), check);
        }
    }
    let (mut all_lost, mut all_before, mut is_reported) = (0, 0, false);
    for ((_, procedure), figures) in config.procedures.iter().zip(&counts.procedures) {
        let name = &procedure.name;
        let baseline = known(baselines, &name_of("complete", name));
        let accepted = known(baselines, &name_of("accepted", name));
        let lost = figures.lost_lately(baseline).saturating_sub(accepted);
        let before = baseline.max(figures.known);
        all_lost += lost;
        all_before += before;
        let fresh = figures.lost(baseline).saturating_sub(accepted);
        if fresh > 0
            && is_other(
                baselines,
                &name_of("rule", name),
                rule_mark(config, procedure),
            )
        {
            // Tasks that would only run again because the configuration now requires other outputs.
            is_reported = true;
            let message = format!(
                "the completion rule of {name} was changed in the configuration, and {fresh} of {before} complete \
                 tasks do not satisfy the new rule"
            );
            let hint =
                "undo the change, or rerun these tasks with 'snbb-scheduler run --accept-drop'";
            stop(name_of("complete", name), fresh, message, hint);
        } else if is_sudden(lost, before) {
            is_reported = true;
            let message =
                format!("{lost} of {before} complete tasks of {name} have lost their outputs");
            stop(name_of("complete", name), lost, sudden(message), check);
        }
    }
    if !is_reported && all_lost >= LEAST && is_sudden(all_lost, all_before) {
        let message = format!("{all_lost} of {all_before} complete tasks have lost their outputs");
        stop("complete".to_owned(), all_lost, sudden(message), check);
    }
    stops
}

/// Updates the baselines in a run without a stop. With `accepts`, also lowers them.
pub fn settle(config: &Config, counts: &Counts, baselines: &mut Baselines, accepts: bool) {
    if let Some(now) = counts.sessions {
        let before = baselines.get(SESSIONS).filter(|_| !accepts);
        let most = before.map_or(now, |before| now.max(*before));
        baselines.insert(SESSIONS.to_owned(), most);
    }
    baselines.insert(ROOTS.to_owned(), roots_mark(config));
    let is_here = |name: &str| config.procedures.find(name).is_some();
    // A removed procedure is not a drop.
    baselines.retain(|name, _| match name.split_once('/') {
        Some(("complete" | "rule", procedure)) => is_here(procedure),
        Some(("accepted", procedure)) => procedure.contains('/') || is_here(procedure),
        _ => true,
    });
    for ((_, procedure), figures) in config.procedures.iter().zip(&counts.procedures) {
        let name = &procedure.name;
        let before = match accepts {
            true => 0,
            false => known(baselines, &name_of("complete", name)),
        };
        let before = before.min(figures.tasks - figures.ours);
        baselines.insert(name_of("complete", name), figures.complete.max(before));
        baselines.insert(name_of("rule", name), rule_mark(config, procedure));
        // An accepted loss does not count while its tasks wait to be rerun.
        let lost = figures.gone + figures.lately;
        let most = match accepts {
            true => lost,
            false => known(baselines, &name_of("accepted", name)),
        };
        match lost.min(most) {
            0 => baselines.remove(&name_of("accepted", name)),
            count => baselines.insert(name_of("accepted", name), count),
        };
    }
}

/// Sets the baseline of sessions in a rebuilt state from its rows.
pub fn restore_session_count(state: &mut State) {
    if state.meta.baselines.contains_key(SESSIONS) {
        return;
    }
    let rows = state.rows().iter();
    let of_sessions = rows.filter(|row| !row.key.session.is_empty());
    let sessions = of_sessions.map(|row| (&row.key.subject, &row.key.session));
    let count = sessions.unique().count() as u64;
    if count > 0 {
        state.meta.baselines.insert(SESSIONS.to_owned(), count);
    }
}

/// True while an accepted loss must be compared with the losses of the last day, for which earlier attempts are needed.
pub fn needs_attempts(baselines: &Baselines) -> bool {
    let mut accepted = baselines
        .keys()
        .filter_map(|name| name.strip_prefix("accepted/"));
    accepted.any(|name| !name.contains('/'))
}

/// The name of a procedure's baseline of one kind.
fn name_of(kind: &str, procedure: &str) -> String {
    format!("{kind}/{procedure}")
}

/// A baseline; 0 if it is unknown.
fn known(baselines: &Baselines, name: &str) -> u64 {
    baselines.get(name).copied().unwrap_or(0)
}

fn is_other(baselines: &Baselines, name: &str, mark: u64) -> bool {
    baselines.get(name).is_some_and(|before| *before != mark)
}

/// Identifies the configured roots.
pub(super) fn roots_mark(config: &Config) -> u64 {
    let roots = config.roots();
    mark(roots.map(|(_, root)| root.to_string_lossy().into_owned()))
}

/// Identifies a procedure's completion rule.
pub(super) fn rule_mark(config: &Config, procedure: &Procedure) -> u64 {
    let mut parts = vec![
        procedure.output_dir.to_string_lossy().into_owned(),
        procedure.scope.to_string(),
        format!("{:?}", procedure.check),
        format!("{:?}", config.qsirecon_spec),
    ];
    if let Required::Markers(markers) = &procedure.completion.required {
        parts.extend(markers.iter().flat_map(Marker::parts));
    }
    let forbidden = procedure.completion.forbid.iter();
    parts.extend(forbidden.map(|pattern| format!("not {}", pattern.as_str())));
    mark(parts)
}

/// 32 bits of a hash, which every JSON parser represents exactly.
pub(super) fn mark(parts: impl IntoIterator<Item = String>) -> u64 {
    let [a, b, c, d, ..] = hash_of(parts);
    u32::from_be_bytes([a, b, c, d]).into()
}

#[cfg(test)]
mod tests;
