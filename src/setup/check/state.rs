//! The state: is it sound, this user's, readable for those who are meant to read it, and does the configuration know
//! its rows. Pure.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::{Finding, few};
use crate::decide::safety;
use crate::executor::OtherExecutor;
use crate::model::job::ExecutorKind;
use crate::model::procedure::ProcedureDag;
use crate::model::state::table::Metadata;
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::store::lock::LockStanding;
use crate::store::verify;
use crate::store::verify::Level as Verified;

const TOPIC: &str = "state";
/// Jobs that ended well without outputs, before anything is said of a procedure.
const LEAST: usize = 3;

/// Holds what is known of the state.
pub struct Facts<'a> {
    pub path: &'a Path,
    /// What `state verify` finds.
    pub verified: Vec<verify::Finding>,
    /// Why this user may not write it, and the way out.
    pub other_owner: Option<(String, String)>,
    /// Permission bits of the file, if there is one, and of its directory.
    pub modes: (Option<u32>, Option<u32>),
    pub umask: u32,
    /// None: it cannot be looked at; the trial of the lock tells.
    pub lock: Option<LockStanding>,
    pub journal_entries: usize,
    pub meta: Metadata,
    pub rows: &'a [TaskRow],
    pub attempts: &'a [TaskRow],
    pub procedures: &'a ProcedureDag,
    pub executor: ExecutorKind,
    /// Subject and session of all sessions; none: not known.
    pub sessions: Option<HashSet<(&'a str, &'a str)>>,
}

/// Judges it.
pub fn judge(facts: &Facts<'_>) -> Vec<Finding> {
    let about = facts.path.display().to_string();
    let mut findings: Vec<Finding> = facts
        .verified
        .iter()
        .filter(|finding| finding.level != Verified::Ok)
        .map(|finding| {
            let advice = finding
                .todo
                .clone()
                .unwrap_or_else(|| "`snbb-scheduler state verify` tells more".to_owned());
            let text = format!("{}: {}", finding.part, finding.text);
            match finding.level {
                Verified::Error => Finding::error(TOPIC, about.clone(), text, advice),
                _ => Finding::warning(TOPIC, about.clone(), text, advice),
            }
        })
        .collect();
    if findings.is_empty() {
        let text = match facts
            .verified
            .iter()
            .find(|finding| finding.part == "state file")
        {
            Some(finding) => match finding.text.strip_prefix(&format!("{about} ")) {
                Some(rest) => rest.to_owned(),
                None => format!("is sound: {}", finding.text),
            },
            None => "is sound".to_owned(),
        };
        findings.push(Finding::ok(TOPIC, about.clone(), text));
    }
    if let Some((message, hint)) = &facts.other_owner {
        findings.push(Finding::error(TOPIC, about.clone(), message, hint));
    }
    findings.extend(access(facts, &about));
    findings.extend(left_over(facts));
    let stopped = safety::stopped_by(&facts.meta.baselines);
    if !stopped.is_empty() {
        findings.push(Finding::error(
            TOPIC,
            about.clone(),
            format!("the last run was stopped (safety stop): {}", few(&stopped)),
            "`snbb-scheduler run --dry-run` says why; `run --accept-drop` goes on if the numbers are right",
        ));
    }
    findings.extend(of_other_executor(facts));
    findings.extend(unknown_rows(facts));
    findings.extend(never_complete(facts));
    findings
}

fn access(facts: &Facts<'_>, about: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (file, dir) = facts.modes;
    // Whoever may not enter the directory is not meant to read the file.
    let group_may_enter = dir.is_some_and(|mode| mode & 0o050 == 0o050);
    if file.is_some_and(|mode| mode & 0o040 == 0) && group_may_enter {
        findings.push(Finding::warning(
            TOPIC,
            about,
            "the group can enter its directory and cannot read it",
            format!("chmod g+r {about}, if the group is to read it (pandas, `status`); the mode stays from then on"),
        ));
    }
    let is_shared = dir.is_some_and(|mode| mode & 0o2000 != 0) && group_may_enter;
    if file.is_none() && is_shared && facts.umask & 0o040 != 0 {
        findings.push(Finding::warning(
            TOPIC,
            about,
            format!("will be made with umask {:03o}, so that the group cannot read it", facts.umask),
            "call the first run with umask 027 (a line before it in the crontab's command), or chmod g+r afterwards",
        ));
    }
    if file.is_some_and(|mode| mode & 0o002 != 0) {
        findings.push(Finding::warning(
            TOPIC,
            about,
            "every user of the machine can change it",
            format!("chmod o-w {about}"),
        ));
    }
    findings
}

fn left_over(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_held = match &facts.lock {
        Some(LockStanding::LeftOver(holder)) => {
            findings.push(Finding::warning(
                "lock",
                "",
                format!("a call that has died has left its lock: {holder}"),
                "nothing: the next call takes it over by itself",
            ));
            false
        }
        Some(LockStanding::Held(holder)) => {
            findings.push(Finding::ok(
                "lock",
                "",
                format!("is held at this moment: {holder}"),
            ));
            true
        }
        Some(LockStanding::Free) | None => false,
    };
    if facts.journal_entries > 0 && !is_held {
        findings.push(Finding::warning(
            TOPIC,
            "journal",
            format!(
                "a call was broken off in its work and has left {} entries",
                facts.journal_entries
            ),
            "nothing: the next run or monitor finishes it",
        ));
    }
    findings
}

/// Jobs that nothing can be learned about: the first one is told, and how many there are.
fn of_other_executor(facts: &Facts<'_>) -> Option<Finding> {
    let rows = facts.rows.iter();
    let mut others = rows.filter_map(|row| OtherExecutor::of(row, facts.executor));
    let first = others.next()?;
    let about = match others.count() {
        0 => first.name(),
        count => format!("{} and {count} more", first.name()),
    };
    Some(Finding::warning(
        TOPIC,
        about,
        first.to_string(),
        first.remedy(),
    ))
}

/// Rows that today's configuration or the sessions of today do not know.
fn unknown_rows(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut gone: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut without_session = Vec::new();
    let subjects: Option<HashSet<&str>> = facts
        .sessions
        .as_ref()
        .map(|sessions| sessions.iter().map(|(subject, _)| *subject).collect());
    for row in facts.rows {
        let key = &row.key;
        if facts.procedures.find(&key.procedure).is_none() {
            let counts = gone.entry(&key.procedure).or_default();
            counts.0 += 1;
            counts.1 += usize::from(row.is_in_flight());
            continue;
        }
        let is_known = match (&facts.sessions, &subjects) {
            (Some(sessions), Some(subjects)) if key.session.is_empty() => {
                subjects.contains(&*key.subject) || sessions.contains(&(&*key.subject, ""))
            }
            (Some(sessions), _) => sessions.contains(&(&*key.subject, &*key.session)),
            _ => true,
        };
        if !is_known {
            without_session.push(key.to_string());
        }
    }
    if !gone.is_empty() {
        let names: Vec<String> = gone
            .iter()
            .map(|(name, (rows, live))| match live {
                0 => format!("{name} ({rows})"),
                live => format!("{name} ({rows}, {live} in flight)"),
            })
            .collect();
        findings.push(Finding::warning(
            TOPIC,
            "rows",
            format!("rows of procedures that are not in the configuration: {}", few(&names)),
            "correct the name in the configuration if it is a slip; `snbb-scheduler clean --rows --older-than 90d` puts old ones aside",
        ));
    }
    if !without_session.is_empty() {
        findings.push(Finding::warning(
            TOPIC,
            "rows",
            format!(
                "{} row(s) of sessions that are not found: {}",
                without_session.len(),
                few(&without_session)
            ),
            "see that all data is mounted; `snbb-scheduler clean --rows --older-than 90d` puts old ones aside",
        ));
    }
    findings
}

/// Procedures whose jobs end well and whose outputs are never what the markers say.
fn never_complete(facts: &Facts<'_>) -> Vec<Finding> {
    let mut counts: BTreeMap<&Arc<str>, (usize, usize)> = BTreeMap::new();
    for row in facts.rows.iter().chain(facts.attempts) {
        let counts = counts.entry(&row.key.procedure).or_default();
        counts.0 += usize::from(row.status == TaskStatus::Complete);
        counts.1 += usize::from(row.reason == Some(Reason::NoOutput));
    }
    counts
        .into_iter()
        .filter(|(name, (complete, without))| {
            *complete == 0 && *without >= LEAST && facts.procedures.find(name).is_some()
        })
        .map(|(name, (_, without))| {
            let is_one = |row: &&TaskRow| {
                row.key.procedure == *name && row.reason == Some(Reason::NoOutput)
            };
            let one = facts.rows.iter().find(is_one).map(|row| &row.key);
            let one = one.map_or_else(String::new, |key| {
                format!(", `snbb-scheduler explain {}` what is there instead", key.words())
            });
            Finding::warning(
                "procedure",
                name.to_string(),
                format!("{without} jobs ended well without the outputs that prove it, and none ever had them"),
                format!(
                    "its markers or its output_dir are wrong, or the script hides its errors (set -euo pipefail); `snbb-scheduler status --failed --procedure {name}` names what is missing{one}"
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
