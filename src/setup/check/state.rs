//! The state: is it sound, this user's, readable for those who are meant to read it, and does the configuration know
//! its rows.

use std::collections::{BTreeMap, HashSet};

use super::site::Study;
use super::{Findings, Level, Site, few};
use crate::base::sys;
use crate::decide::{request, safety};
use crate::executor::OtherExecutor;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::setup::place;
use crate::store::sources::Sources;
use crate::store::state_file::{StateError, Store, check_owner};
use crate::store::verify;

const TOPIC: &str = "state";
/// Jobs that ended well without outputs, before anything is said of a procedure.
const LEAST: usize = 3;

/// Reads the state; what is in it is judged by [`check`].
pub fn read(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let store = match Store::at(&config.state_file) {
        Ok(store) => store,
        Err(error) => {
            let (message, hint) = told(&error);
            return findings.about(TOPIC, "").error(message, hint);
        }
    };
    let project = request::study_word(config.project.clone(), &store.paths.state);
    let sources = Sources::read(&store, &config.log_file).of_study(&project);
    let study = Study {
        // What cannot be read is told by what `state verify` finds.
        state: store.read().unwrap_or_default(),
        attempts: store.read_attempts().unwrap_or_default(),
        verified: verify::verify(&sources),
        store,
    };
    let _ = site.study.set(study);
}

/// An error and the way out.
fn told(error: &StateError) -> (String, String) {
    (error.to_string(), error.hint().unwrap_or_default())
}

pub fn check(site: &Site, findings: &mut Findings) {
    let Some(study) = site.study.get() else {
        return;
    };
    let paths = &study.store.paths;
    // With a part that could not be read, sessions are unknown, not gone.
    let found = site.discovery().filter(|found| found.unreadable.is_empty());
    let owner = check_owner(paths, &study.state.meta, sys::effective_uid());
    let seen = Seen {
        config: &site.config,
        study,
        other_owner: owner.err().map(|error| told(&error)),
        modes: (
            place::mode(&paths.state),
            place::mode(&place::parent(&paths.state)),
        ),
        sessions: found.map(|found| {
            let sessions = found.sessions.iter();
            sessions
                .map(|session| (session.subject.as_str(), session.session.as_str()))
                .collect()
        }),
    };
    judge(&seen, findings);
}

/// What there is to see of the state.
struct Seen<'a> {
    config: &'a Config,
    study: &'a Study,
    /// Why this user may not write it, and the way out.
    other_owner: Option<(String, String)>,
    /// Permission bits of the file, if there is one, and of its directory.
    modes: (Option<u32>, Option<u32>),
    /// Subject and session of all sessions; none: not known.
    sessions: Option<HashSet<(&'a str, &'a str)>>,
}

fn judge(seen: &Seen<'_>, findings: &mut Findings) {
    findings.about(TOPIC, seen.study.store.paths.state.display());
    verified(seen, findings);
    if let Some((message, hint)) = &seen.other_owner {
        findings.error(message, hint);
    }
    access(seen, findings);
    let stopped = safety::stopped_by(&seen.study.state.meta.baselines);
    if !stopped.is_empty() {
        findings.error(
            format!("the last run was stopped (safety stop): {}", few(&stopped)),
            "`snbb-scheduler run --dry-run` says why; `run --accept-drop` goes on if the numbers are right",
        );
    }
    of_other_executor(seen, findings);
    unknown_rows(seen, findings);
    never_complete(seen, findings);
}

/// Reports what `state verify` finds.
fn verified(seen: &Seen<'_>, findings: &mut Findings) {
    for found in &seen.study.verified {
        if found.level == Level::Ok {
            continue;
        }
        let todo = found.todo.as_deref();
        let advice = todo.unwrap_or("`snbb-scheduler state verify` tells more");
        findings.add(
            found.level,
            format!("{}: {}", found.part, found.text),
            advice,
        );
    }
    if findings.list.len() == findings.before {
        let mut parts = seen.study.verified.iter();
        let file = parts.find(|found| found.part == "state file");
        let about = format!("{} ", seen.study.store.paths.state.display());
        findings.ok(match file.map(|found| found.text.strip_prefix(&about)) {
            Some(Some(rest)) => rest.to_owned(),
            Some(None) => format!("is sound: {}", file.map_or("", |found| &found.text)),
            None => "is sound".to_owned(),
        });
    }
}

fn access(seen: &Seen<'_>, findings: &mut Findings) {
    let about = seen.study.store.paths.state.display();
    let (Some(file), Some(dir)) = seen.modes else {
        return;
    };
    // Whoever may not enter the directory is not meant to read the file.
    if file & 0o040 == 0 && dir & 0o050 == 0o050 {
        findings.warning(
            "the group can enter its directory and cannot read it",
            format!("chmod g+r {about}, if the group is to read it (pandas, `status`); the mode stays from then on"),
        );
    }
    if file & 0o002 != 0 {
        let advice = format!("chmod o-w {about}");
        findings.warning("every user of the machine can change it", advice);
    }
}

/// Jobs that nothing can be learned about: the first one is told, and how many there are.
fn of_other_executor(seen: &Seen<'_>, findings: &mut Findings) {
    let rows = seen.study.state.rows().iter();
    let mut others = rows.filter_map(|row| OtherExecutor::of(row, seen.config.executor));
    if let Some(first) = others.next() {
        let about = match others.count() {
            0 => first.name(),
            count => format!("{} and {count} more", first.name()),
        };
        let (text, remedy) = (first.to_string(), first.remedy());
        findings.about(TOPIC, about).warning(text, remedy);
    }
}

/// Rows that today's configuration or the sessions of today do not know.
fn unknown_rows(seen: &Seen<'_>, findings: &mut Findings) {
    findings.about(TOPIC, "rows");
    let mut gone: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut without_session = Vec::new();
    let sessions = seen.sessions.iter().flatten();
    let subjects: HashSet<&str> = sessions.map(|(subject, _)| *subject).collect();
    for row in seen.study.state.rows() {
        let key = &row.key;
        if seen.config.procedures.find(&key.procedure).is_none() {
            let counts = gone.entry(&key.procedure).or_default();
            counts.0 += 1;
            counts.1 += usize::from(row.is_in_flight());
            continue;
        }
        let is_known = seen.sessions.as_ref().is_none_or(|sessions| {
            sessions.contains(&(&*key.subject, &*key.session))
                || key.session.is_empty() && subjects.contains(&*key.subject)
        });
        if !is_known {
            without_session.push(key.to_string());
        }
    }
    if !gone.is_empty() {
        let names = gone.iter().map(|(name, (rows, live))| match live {
            0 => format!("{name} ({rows})"),
            live => format!("{name} ({rows}, {live} in flight)"),
        });
        let names = few(&names.collect::<Vec<_>>());
        findings.warning(
            format!("rows of procedures that are not in the configuration: {names}"),
            "correct the name in the configuration if it is a slip; `snbb-scheduler clean --rows --older-than 90d` puts old ones aside",
        );
    }
    let count = without_session.len();
    if count > 0 {
        let tasks = few(&without_session);
        findings.warning(
            format!("{count} row(s) of sessions that are not found: {tasks}"),
            "see that all data is mounted; `snbb-scheduler clean --rows --older-than 90d` puts old ones aside",
        );
    }
}

/// Procedures whose jobs end well and whose outputs are never what the markers say.
fn never_complete(seen: &Seen<'_>, findings: &mut Findings) {
    let is_without = |row: &TaskRow| row.reason == Some(Reason::NoOutput);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in seen.study.state.rows().iter().chain(&seen.study.attempts) {
        let counts = counts.entry(&row.key.procedure).or_default();
        counts.0 += usize::from(row.status == TaskStatus::Complete);
        counts.1 += usize::from(is_without(row));
    }
    counts.retain(|name, (complete, without)| {
        *complete == 0 && *without >= LEAST && seen.config.procedures.find(name).is_some()
    });
    for (name, (_, without)) in counts {
        let mut rows = seen.study.state.rows().iter();
        let one = rows.find(|row| &*row.key.procedure == name && is_without(row));
        let one = one.map_or_else(String::new, |row| {
            let task = row.key.words();
            format!(", `snbb-scheduler explain {task}` what is there instead")
        });
        findings.about("procedure", name).warning(
            format!("{without} jobs ended well without the outputs that prove it, and none ever had them"),
            format!(
                "its markers or its output_dir are wrong, or the script hides its errors (set -euo pipefail); `snbb-scheduler status --failed --procedure {name}` names what is missing{one}"
            ),
        );
    }
}

#[cfg(test)]
mod tests;
