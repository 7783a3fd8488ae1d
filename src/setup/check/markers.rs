//! Markers that can never match: no output directory of the whole study has the directory that they name first.

use std::collections::HashSet;
use std::ffi::OsStr;

use super::{Findings, Site, few};
use crate::gather::completion::probe::Probe;
use crate::gather::disk::listing::Dir;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::SessionLabel;
use crate::model::procedure::marker::{Base, Component, Pattern, Required};
use crate::model::procedure::{Check, Procedure, Scope, template};
use crate::model::state::{State, TaskKey};
use crate::setup::place;

const TOPIC: &str = "markers";
/// So many results must lie there before anything is said of all of them.
const LEAST: usize = 3;
/// So many output directories of a procedure are looked at, if it takes that many.
const SAMPLE: usize = 2000;

/// What was seen of the outputs of one procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outputs {
    procedure: String,
    /// Output directories that there could be.
    possible: usize,
    /// Those that were looked for: a sample.
    looked_for: usize,
    /// Of these, those that are there, hold anything, and belong to no job in flight.
    there: usize,
    /// Patterns whose first directory none of them has.
    never: Vec<String>,
}

pub fn check(site: &Site, findings: &mut Findings) {
    let Some(found) = site.discovery() else {
        return;
    };
    if let Err(error) = Probe::new(&site.config) {
        let out = findings.about(TOPIC, "qsirecon");
        out.error(error.to_string(), error.hint());
    }
    let rows = site.state().into_iter().flat_map(State::rows);
    let in_flight = rows.filter(|row| row.is_in_flight());
    let busy: HashSet<&TaskKey> = in_flight.map(|row| &row.key).collect();
    for procedure in site.procedures() {
        if let Some(outputs) = outputs(site, procedure, found, &busy) {
            judge(&outputs, findings);
        }
    }
}

/// Looks for the first directories of a procedure's markers in its outputs. None: its markers name no directories.
fn outputs(
    site: &Site,
    procedure: &Procedure,
    found: &Discovery,
    busy: &HashSet<&TaskKey>,
) -> Option<Outputs> {
    let Required::Markers(markers) = &procedure.completion.required else {
        return None;
    };
    let always = markers
        .iter()
        .filter(|marker| marker.when.is_empty() && marker.base == Base::Task);
    let patterns = always.map(|marker| &marker.pattern);
    let mut open: Vec<(&Pattern, &OsStr)> = patterns
        .filter_map(|pattern| Some((pattern, first_directory(pattern)?)))
        .collect();
    if procedure.check != Check::Markers || open.is_empty() {
        return None;
    }
    let sessions = found.sessions.iter();
    let none = SessionLabel::none();
    let mut tasks: Vec<TaskKey> = sessions
        .map(|session| match procedure.scope {
            Scope::Session => (&session.subject, &session.session),
            Scope::Subject => (&session.subject, &none),
        })
        .map(|(subject, session)| TaskKey::new(subject.as_str(), session.as_str(), &procedure.name))
        .collect();
    tasks.dedup();
    let chosen: Vec<&TaskKey> = place::sample(&tasks, SAMPLE).collect();
    let roots = site.config.output_roots();
    let mut there = 0;
    for key in chosen.iter().filter(|key| !busy.contains(**key)) {
        let dir = roots.output(procedure, &key.subject, &key.session);
        let Dir::There(listing) = site.reader.dir(&dir) else {
            continue;
        };
        if listing.is_empty() {
            continue;
        }
        there += 1;
        open.retain(|(_, name)| listing.get(name).is_none());
        if open.is_empty() {
            // All that there were to find was found early: enough to say so.
            there = LEAST;
            break;
        }
    }
    let never = open.iter().map(|(pattern, _)| pattern.as_str().to_owned());
    Some(Outputs {
        procedure: procedure.name.to_string(),
        possible: tasks.len(),
        looked_for: chosen.len(),
        there,
        never: never.collect(),
    })
}

/// Returns the first directory that a pattern names as it stands.
fn first_directory(pattern: &Pattern) -> Option<&OsStr> {
    match pattern.components() {
        [Component::Literal(name), _, ..] if !template::has_any(name) => Some(OsStr::new(name)),
        _ => None,
    }
}

/// Judges one procedure; nothing if there is nothing to say.
fn judge(outputs: &Outputs, findings: &mut Findings) {
    let there = outputs.there;
    if there < LEAST {
        return;
    }
    let (looked_for, possible) = (outputs.looked_for, outputs.possible);
    let (what, sample) = match looked_for < possible {
        true => (
            "matches nowhere that was looked at",
            format!(" (a sample of {looked_for} of {possible})"),
        ),
        false => ("can never match", String::new()),
    };
    findings.about(TOPIC, &outputs.procedure);
    if !outputs.never.is_empty() {
        let never = few(&outputs.never);
        findings.warning(
            format!("{what}: {never}; none of {there} output directories has the first directory of it{sample}"),
            "take the marker out, or give it a `when` if only some sessions have such data; `snbb-scheduler explain SUBJECT` shows the markers of its tasks",
        );
    }
    findings.or_ok(format!(
        "the directories that its markers name are there{sample}"
    ));
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;

    fn outputs(there: usize, never: &[&str]) -> Outputs {
        Outputs {
            procedure: "bids".to_owned(),
            possible: 100,
            looked_for: 100,
            there,
            never: never.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    fn judged(outputs: &Outputs) -> Option<Finding> {
        testing::judged(|out| judge(outputs, out)).pop()
    }

    #[test]
    fn a_directory_that_is_nowhere_is_a_warning_once_there_is_enough_to_tell() {
        assert_eq!(judged(&outputs(2, &["dwi/*_dwi.nii.gz"])), None);
        assert_eq!(judged(&outputs(2, &[])), None);
        assert_eq!(judged(&outputs(3, &[])).unwrap().level, Level::Ok);
        let warned = judged(&outputs(3, &["dwi/*_dwi.nii.gz"])).unwrap();
        assert_eq!(warned.level, Level::Warning);
        assert!(
            warned.text.contains("dwi/*_dwi.nii.gz; none of 3 output"),
            "{warned:?}"
        );
        let sample = judged(&Outputs {
            possible: 10_000,
            ..outputs(50, &["dwi/x"])
        });
        let text = sample.unwrap().text;
        assert!(
            text.starts_with("matches nowhere that was looked at: dwi/x"),
            "{text}"
        );
        assert!(text.ends_with("(a sample of 100 of 10000)"), "{text}");
    }
}
