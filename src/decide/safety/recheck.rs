//! How long complete outputs are trusted without a check (`recheck`).
//!
//! Tasks are divided into parts by a hash of their key. Each part has its own time within the period, and is checked by
//! the first run after it. A part counts as checked only if all its complete rows were intact: unresolved problems are
//! checked again. The times are stored in the state's metadata, so that an older or rebuilt state does not bring
//! undeserved trust. Pure except [`Trust::observe`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Baselines;
use super::drop::{mark, roots_mark, rule_mark};
use super::roots::{self, Root};
use crate::decide::manifest::{Decision, Due, Manifest, Policy, Skip, Trusts};
use crate::gather::disk::reader::Reader;
use crate::model::bids::Session;
use crate::model::config::Config;
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};

/// With `recheck: 24h`, an hourly run checks one part.
const PARTS: usize = 24;
const PREFIX: &str = "recheck/";
const RULES: &str = "recheck/rules";

/// The complete rows that are trusted in one pass.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// In seconds; 0 to trust nothing.
    period: i64,
    /// Seconds since 1970.
    now: i64,
    /// Identifies all completion rules.
    rules: u64,
    /// When each part was intact, in seconds since 1970; 0 if unknown.
    checked: [i64; PARTS],
    /// The same after this pass; `None` if it did not check all tasks.
    next: Option<[i64; PARTS]>,
    /// Procedures whose output directory exists.
    present: HashSet<Arc<str>>,
}

impl Trust {
    /// Reads only the directories with the outputs of all subjects.
    pub fn observe(
        config: &Config,
        policy: &Policy,
        (sessions, state): (&[Session], &State),
        reader: &Reader,
        now: DateTime<Utc>,
    ) -> Self {
        if config.recheck.is_zero() {
            return Self::default();
        }
        let spec = config.qsirecon_spec.as_deref();
        let spec = spec.and_then(|spec| reader.stat(spec).ok().flatten());
        let mut parts = vec![
            env!("CARGO_PKG_VERSION").to_owned(),
            format!("{:?} {:?}", config.recheck, config.annex),
            format!("{:?}", spec.map(|spec| (spec.st_size, spec.st_mtime))),
            roots_mark(config).to_string(),
            (policy.away.unwrap_or_else(|| away(policy, sessions, state))).to_string(),
        ];
        let procedures = || config.procedures.iter().map(|(_, procedure)| procedure);
        parts.extend(procedures().map(|one| {
            let rule = rule_mark(config, one);
            format!("{} {rule} {}", one.name, one.rules.rerun_when_stale)
        }));
        let mut trust = Self::of(config.recheck, mark(parts), &state.meta.baselines, now);
        if policy.rechecks_all {
            trust.forget();
        }
        if trust.is_any() {
            let top = |one| config.output_roots().top(one);
            let present = procedures().filter(|one| roots::observe(&top(one)) == Root::Fine);
            trust.present = present.map(|one| Arc::clone(&one.name)).collect();
        }
        trust
    }

    fn of(period: Duration, rules: u64, baselines: &Baselines, now: DateTime<Utc>) -> Self {
        let is_same = baselines.get(RULES) == Some(&rules);
        let seconds = |part| {
            let at = baselines.get(&name(part)).filter(|_| is_same);
            at.and_then(|at| i64::try_from(*at).ok()).unwrap_or(0)
        };
        Self {
            period: u32::try_from(period.as_secs()).unwrap_or(u32::MAX).into(),
            now: now.timestamp(),
            rules,
            checked: std::array::from_fn(seconds),
            ..Self::default()
        }
    }

    /// Decides with few reads. As soon as lost outputs are found, everything is checked, because the safety stop needs
    /// the real numbers.
    pub fn decide(&mut self, plan: impl Fn(Trusts<'_>) -> Manifest) -> Manifest {
        let manifest = plan(&|row| self.covers(row));
        let gone = Decision::Submit(Due::OutputsGone);
        if !self.is_any() || manifest.due().all(|task| task.decision != gone) {
            return manifest;
        }
        self.forget();
        plan(&|_| false)
    }

    /// Records the checks of a pass over all tasks. The manifest must be without pauses and limits.
    pub fn record(&mut self, manifest: &Manifest, rows: &State) {
        let mut next = self.checked;
        for (part, at) in next.iter_mut().enumerate() {
            if !self.is_fresh(part) {
                *at = self.now;
            }
        }
        for task in &manifest.tasks {
            let is_fine = matches!(
                task.decision,
                Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::Excluded)
            );
            if !is_fine
                && rows.get(&task.key).is_some_and(is_verified)
                && let Some(at) = next.get_mut(part(&task.key))
            {
                *at = 0;
            }
        }
        self.next = Some(next);
    }

    /// Stores the times among the baselines.
    pub fn settle(&self, baselines: &mut Baselines) {
        let Some(next) = &self.next else { return };
        forget(baselines);
        if self.period == 0 {
            return;
        }
        baselines.insert(RULES.to_owned(), self.rules);
        for (part, at) in next.iter().enumerate() {
            if let Some(at) = u64::try_from(*at).ok().filter(|at| *at > 0) {
                baselines.insert(name(part), at);
            }
        }
    }

    /// The last and the next check of a trusted row's outputs.
    pub fn check_times(&self, row: &TaskRow) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let part = part(&row.key);
        let last = self.checked.get(part).filter(|_| self.covers(row))?;
        let next = (self.turn(*last, part) + 1) * self.period + self.offset(part);
        let time = |seconds| DateTime::from_timestamp(seconds, 0);
        Some((time(*last)?, time(next)?))
    }

    fn covers(&self, row: &TaskRow) -> bool {
        let part = part(&row.key);
        let checked = self.checked.get(part).copied().unwrap_or(0);
        is_verified(row)
            && self.is_fresh(part)
            // A row that has changed since then is checked until its part's next turn.
            && row.updated_at.is_some_and(|at| at.timestamp() <= checked)
            && self.present.contains(&row.key.procedure)
    }

    fn forget(&mut self) {
        self.checked = [0; PARTS];
    }

    fn is_any(&self) -> bool {
        (0..PARTS).any(|part| self.is_fresh(part))
    }

    /// True if the part's turn has not come since its check. A time in the future does not count.
    fn is_fresh(&self, part: usize) -> bool {
        let checked = self.checked.get(part).copied().unwrap_or(0);
        self.period > 0
            && (1..=self.now).contains(&checked)
            && self.turn(checked, part) == self.turn(self.now, part)
    }

    fn turn(&self, at: i64, part: usize) -> i64 {
        (at - self.offset(part)).div_euclid(self.period)
    }

    fn offset(&self, part: usize) -> i64 {
        self.period * part as i64 / PARTS as i64
    }
}

/// Removes the times, so that everything is checked. True if there were any.
pub fn forget(baselines: &mut Baselines) -> bool {
    let before = baselines.len();
    baselines.retain(|name, _| !name.starts_with(PREFIX));
    baselines.len() < before
}

/// Identifies the verified rows of sessions that are excluded or cannot be found. They are not checked, so everything is
/// checked when one of them comes back.
pub fn away(policy: &Policy, sessions: &[Session], state: &State) -> u64 {
    let here = sessions.iter().filter(|one| !policy.cohort.excludes(one));
    let labels = here.map(|one| (one.subject.as_str(), one.session.as_str()));
    let both = |(subject, session)| [(subject, session), (subject, "")];
    let here: HashSet<(&str, &str)> = labels.flat_map(both).collect();
    let rows = state.rows().iter().filter(|row| is_verified(row));
    let away = rows.filter(|row| !here.contains(&(&*row.key.subject, &*row.key.session)));
    // In any order.
    away.fold(0, |all, row| all ^ hash(&row.key))
}

fn name(part: usize) -> String {
    format!("{PREFIX}{part:02}")
}

/// False for rows of the Python program, and for rows without a completion rule.
fn is_verified(row: &TaskRow) -> bool {
    row.status == TaskStatus::Complete && row.reason == Some(Reason::Verified)
}

/// Distributes tasks evenly, and identically in every pass and on every host (FNV-1a).
fn part(key: &TaskKey) -> usize {
    (hash(key) % PARTS as u64) as usize
}

fn hash(key: &TaskKey) -> u64 {
    let words = [&key.procedure, &key.subject, &key.session];
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
