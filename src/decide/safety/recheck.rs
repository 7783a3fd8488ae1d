//! How long complete outputs are believed without a look (`recheck`).
//!
//! Tasks are spread over parts by a hash of their key. Each part has a time of its own within the period, and is looked
//! at by the first run after it. A part counts as looked at only if all its complete rows were in order: what was
//! found, and not dealt with yet, is looked at again. The times are kept in the state's metadata, so that an older copy
//! of the state, or one that was rebuilt, brings no trust that it did not have. Pure but for [`Trust::look`].

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

/// An hourly run looks at one part with `recheck: 24h`.
const PARTS: usize = 24;
const PREFIX: &str = "recheck/";
const RULES: &str = "recheck/rules";

/// Which complete rows are believed at one pass.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// In seconds. 0: nothing is trusted.
    period: i64,
    /// Seconds since 1970.
    now: i64,
    /// Tells other rules of completion from these.
    rules: u64,
    /// When each part was in order, seconds since 1970. 0: not known.
    looked: [i64; PARTS],
    /// The same after this pass. None: it did not look at all tasks.
    next: Option<[i64; PARTS]>,
    /// Procedures whose directory of outputs is there.
    present: HashSet<Arc<str>>,
}

impl Trust {
    /// Finds out which rows may be trusted. Of the trees, only the directories that hold the outputs of all subjects
    /// are looked at.
    pub fn look(
        config: &Config,
        policy: &Policy,
        (sessions, state): (&[Session], &State),
        reader: &Reader,
        now: DateTime<Utc>,
    ) -> Self {
        if policy.recheck.is_zero() {
            return Self::default();
        }
        let spec = config.qsirecon_spec.as_deref();
        let spec = spec.and_then(|spec| reader.stat(spec).ok().flatten());
        let mut parts = vec![
            env!("CARGO_PKG_VERSION").to_owned(),
            format!("{:?} {:?}", policy.recheck, config.annex),
            format!("{:?}", spec.map(|spec| (spec.st_size, spec.st_mtime))),
            roots_mark(config).to_string(),
            policy
                .away
                .unwrap_or_else(|| away(policy, sessions, state))
                .to_string(),
        ];
        let procedures = config.procedures.iter();
        parts.extend(procedures.map(|(_, one)| {
            let rule = rule_mark(config, one);
            format!("{} {rule} {}", one.name, one.rules.rerun_when_stale)
        }));
        let mut trust = Self::of(policy.recheck, mark(parts), &state.meta.baselines, now);
        if policy.looks_at_all {
            trust.forget();
        }
        if trust.is_any() {
            let roots = config.output_roots();
            let procedures = config.procedures.iter().map(|(_, procedure)| procedure);
            trust.present = procedures
                .filter(|procedure| roots::look(&roots.top(procedure)) == Root::Fine)
                .map(|procedure| Arc::clone(&procedure.name))
                .collect();
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
            looked: std::array::from_fn(seconds),
            ..Self::default()
        }
    }

    /// Decides with few looks at the disk. As soon as one shows that outputs have gone, everything is looked at: the
    /// safety stop needs the real numbers.
    pub fn decide(&mut self, plan: impl Fn(Trusts<'_>) -> Manifest) -> Manifest {
        let manifest = plan(&|row| self.covers(row));
        let is_gone = |decision: &Decision| *decision == Decision::Submit(Due::OutputsGone);
        if !self.is_any() || !manifest.due().any(|task| is_gone(&task.decision)) {
            return manifest;
        }
        self.forget();
        plan(&|_| false)
    }

    /// Notes what a pass over all tasks has looked at: a manifest without pauses and limits.
    pub fn note(&mut self, manifest: &Manifest, rows: &State) {
        let mut in_order = [true; PARTS];
        for task in &manifest.tasks {
            let is_fine = matches!(
                task.decision,
                Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::Excluded)
            );
            if !is_fine
                && rows.get(&task.key).is_some_and(is_verified)
                && let Some(part) = in_order.get_mut(part(&task.key))
            {
                *part = false;
            }
        }
        let mut next = self.looked;
        for (part, at) in next.iter_mut().enumerate() {
            *at = match in_order.get(part) {
                Some(true) if self.is_fresh(part) => *at,
                Some(true) => self.now,
                _ => 0,
            };
        }
        self.next = Some(next);
    }

    /// Puts the times of the next passes' comparison among the counts.
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

    /// When the outputs of a row that is trusted were looked at, and when they will be.
    pub fn looks(&self, row: &TaskRow) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let part = part(&row.key);
        let last = self.looked.get(part).filter(|_| self.covers(row))?;
        let next = (self.turn(*last, part) + 1) * self.period + self.offset(part);
        let time = |seconds| DateTime::from_timestamp(seconds, 0);
        Some((time(*last)?, time(next)?))
    }

    fn covers(&self, row: &TaskRow) -> bool {
        let part = part(&row.key);
        let looked = self.looked.get(part).copied().unwrap_or(0);
        is_verified(row)
            && self.is_fresh(part)
            // A row that has changed since then is looked at until its part's next turn.
            && row.updated_at.is_some_and(|at| at.timestamp() <= looked)
            && self.present.contains(&row.key.procedure)
    }

    fn forget(&mut self) {
        self.looked = [0; PARTS];
    }

    fn is_any(&self) -> bool {
        (0..PARTS).any(|part| self.is_fresh(part))
    }

    /// True if the part's turn has not come since it was looked at. A time in the future proves nothing.
    fn is_fresh(&self, part: usize) -> bool {
        let looked = self.looked.get(part).copied().unwrap_or(0);
        self.period > 0
            && (1..=self.now).contains(&looked)
            && self.turn(looked, part) == self.turn(self.now, part)
    }

    fn turn(&self, at: i64, part: usize) -> i64 {
        (at - self.offset(part)).div_euclid(self.period)
    }

    fn offset(&self, part: usize) -> i64 {
        self.period * part as i64 / PARTS as i64
    }
}

/// Takes the times away, so that everything is looked at. True if there were any.
pub fn forget(baselines: &mut Baselines) -> bool {
    let before = baselines.len();
    baselines.retain(|name, _| !name.starts_with(PREFIX));
    baselines.len() < before
}

/// A mark of the verified rows of sessions that are excluded or cannot be found: nobody looks at them, so everything is
/// looked at when one of them comes back.
pub fn away(policy: &Policy, sessions: &[Session], state: &State) -> u64 {
    let here = sessions.iter().filter(|one| !policy.cohort.excludes(one));
    let here: HashSet<(&str, &str)> = here
        .flat_map(|one| {
            [
                (one.subject.as_str(), one.session.as_str()),
                (one.subject.as_str(), ""),
            ]
        })
        .collect();
    let rows = state.rows().iter().filter(|row| is_verified(row));
    let away = rows.filter(|row| !here.contains(&(&*row.key.subject, &*row.key.session)));
    // In any order.
    away.fold(0, |all, row| all ^ hash(&row.key))
}

fn name(part: usize) -> String {
    format!("{PREFIX}{part:02}")
}

/// The Python program's rows, and those that no rule could judge, prove nothing.
fn is_verified(row: &TaskRow) -> bool {
    row.status == TaskStatus::Complete && row.reason == Some(Reason::Verified)
}

/// Spreads tasks evenly, the same at every pass and on every host (FNV-1a).
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
