//! Checks the state: its files are intact and belong to this user, permissions are right, and its rows belong to the
//! configuration.

use std::collections::{BTreeMap, HashSet};

use super::{
    Config, Findings, Level, Site, State, Store, Study, TaskRow, few, maybe, plural, sys, verify,
};
use crate::base::text::and_more;
use crate::decide::{request, safety};
use crate::executor::OtherExecutor;
use crate::model::bids::Session;
use crate::model::state::{Reason, TaskKey, TaskStatus};
use crate::setup::place;
use crate::store::sources::Sources;
use crate::store::state_file::{StateError, check_owner};

const TOPIC: &str = "state";
/// Number of successful jobs without outputs before a procedure is reported.
const LEAST: usize = 3;

/// Reads the state; [`check`] reports on its content.
pub(super) fn read(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let store = match Store::at(&config.state_file) {
        Ok(store) => store,
        Err(error) => return report(&error, findings),
    };
    let project = request::study_word(config.project.clone(), &store.paths.state);
    let sources = Sources::read(&store, &config.log_file).of_study(&project);
    let study = Study {
        // `state verify` reports files that cannot be read.
        state: store.read().unwrap_or_default(),
        attempts: store.read_attempts().unwrap_or_default(),
        verified: verify::verify(&sources),
        store,
    };
    let _ = site.study.set(study);
}

fn report(error: &StateError, findings: &mut Findings) {
    findings.error(error.to_string(), error.hint().unwrap_or_default());
}

pub(super) fn check(site: &Site, findings: &mut Findings) {
    let Some(study) = site.study.get() else {
        return;
    };
    let paths = &study.store.paths;
    findings.about(TOPIC, paths.state.display());
    verified(study, findings);
    if let Err(error) = check_owner(paths, &study.state.meta, sys::effective_uid()) {
        report(&error, findings);
    }
    let mode = place::mode(&paths.state);
    findings.writable_by_all(&paths.state, mode, "change it");
    // If a directory could not be read, its sessions are unknown, not removed.
    let found = site.discovery().filter(|found| found.unreadable.is_empty());
    let sessions = found.map(|found| found.sessions.as_slice());
    judge(&site.config, study, sessions, findings);
}

/// `sessions` is `None` if they are unknown.
fn judge(config: &Config, study: &Study, sessions: Option<&[Session]>, findings: &mut Findings) {
    let stopped = safety::stopped_by(&study.state.meta.baselines);
    if !stopped.is_empty() {
        findings.error(
            format!("the last run made a safety stop because of {}", few(&stopped)),
            "run `snbb-scheduler run --dry-run`: if it reports no safety stop, the next `run` continues; otherwise, only if the data was removed on purpose, use `run --accept-drop`",
        );
    }
    let rows = study.state.rows().iter();
    let mut others = rows.filter_map(|row| OtherExecutor::of(row, config.executor));
    if let Some(first) = others.next() {
        let about = first.name() + &and_more(others.count(), 0);
        let (text, remedy) = (first.to_string(), first.remedy());
        findings.about(TOPIC, about).warning(text, remedy);
    }
    findings.about(TOPIC, "rows");
    let removed = removed_procedures(config, &study.state);
    findings.warn_of(
            "rows of procedures that are not in the configuration:",
            &removed,
            "if a name in the configuration is wrong, correct it; `snbb-scheduler clean --rows --older-than 90d` moves old rows away",
        );
    // Procedures whose jobs succeed, but whose outputs never match the markers.
    let is_without = |row: &TaskRow| row.reason == Some(Reason::NoOutput);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in study.state.rows().iter().chain(&study.attempts) {
        let counts = counts.entry(&row.key.procedure).or_default();
        counts.0 += usize::from(row.status == TaskStatus::Complete);
        counts.1 += usize::from(is_without(row));
    }
    counts.retain(|name, (complete, without)| {
        *complete == 0 && *without >= LEAST && config.procedures.find(name).is_some()
    });
    for (name, (_, without)) in counts {
        let mut rows = study.state.rows().iter();
        let one = rows.find(|row| &*row.key.procedure == name && is_without(row));
        let explained = maybe(
            ", and `snbb-scheduler explain ",
            one.map(|row| row.key.words()),
            "` shows what exists instead",
        );
        findings.about("procedure", name).warning(
            format!("{without} jobs ended without an error, but none of them produced complete outputs"),
            format!(
                "correct its markers or output_dir, or make the script report its errors (set -euo pipefail); `snbb-scheduler status --failed --procedure {name}` shows what is missing{explained}"
            ),
        );
    }
    findings.about(TOPIC, "rows");
    let Some(sessions) = sessions else { return };
    let without_session = without_session(config, &study.state, sessions);
    let without_session: Vec<String> = without_session.map(ToString::to_string).collect();
    let rows = plural(without_session.len(), "row");
    findings.warn_of(
        format!("{rows} of sessions that do not exist:"),
        &without_session,
        "check that all data is mounted; `snbb-scheduler clean --rows --older-than 90d` moves old rows away",
    );
}

/// Reports the findings of `state verify`.
fn verified(study: &Study, findings: &mut Findings) {
    for found in study
        .verified
        .iter()
        .filter(|found| found.level != Level::Ok)
    {
        let remedy = found.todo.as_deref();
        findings.add(
            found.level,
            format!("{}: {}", found.part, found.text),
            remedy.unwrap_or("`snbb-scheduler state verify` shows details"),
        );
    }
    let mut parts = study.verified.iter();
    let file = parts.find(|found| found.part == "state file");
    findings.or_ok(format!(
        "is intact{}",
        maybe(": ", file.map(|found| &found.text), "")
    ));
}

/// The tasks of configured procedures that have rows, but no session any more.
pub fn without_session<'a>(
    config: &'a Config,
    state: &'a State,
    sessions: &'a [Session],
) -> impl Iterator<Item = &'a TaskKey> {
    let keys = state.rows().iter().map(|row| &row.key);
    let keys = keys.filter(|key| config.procedures.find(&key.procedure).is_some());
    let mut places: HashSet<_> = keys
        .clone()
        .map(|key| (&*key.subject, &*key.session))
        .collect();
    for session in sessions {
        places.remove(&(session.subject.as_str(), session.session.as_str()));
        // The row of a subject-scoped task.
        places.remove(&(session.subject.as_str(), ""));
    }
    keys.filter(move |key| places.contains(&(&*key.subject, &*key.session)))
}

/// The procedures that have rows but are not in the configuration, with the number of their rows.
pub fn removed_procedures(config: &Config, state: &State) -> Vec<String> {
    let mut removed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in state.rows() {
        let name = &*row.key.procedure;
        if config.procedures.find(name).is_none() {
            let (rows, live) = removed.entry(name).or_default();
            *rows += 1;
            *live += usize::from(row.is_in_flight());
        }
    }
    let names = removed.iter().map(|(name, (rows, live))| match live {
        0 => format!("{name} ({rows})"),
        live => format!("{name} ({rows}, {live} in flight)"),
    });
    names.collect()
}

#[cfg(test)]
mod tests;
