//! The built-in checks, file by file, in the order in which they are judged.

use std::path::{Path, PathBuf};

use super::super::find;
use super::super::probe::SubjectProbe;
use super::{Finding, FindingState, nearest};
use crate::gather::completion::probe::freesurfer::{HEAD, Scanned};
use crate::gather::completion::probe::{freesurfer, qsirecon};
use crate::gather::disk::Unreadable;
use crate::model::bids::SessionLabel;
use crate::model::procedure::Procedure;
use crate::model::procedure::marker::Pattern;

/// Judges each mark of FreeSurfer's runs.
pub(super) fn freesurfer(subject: &SubjectProbe<'_>, procedure: &Procedure) -> Vec<Finding> {
    let out = subject.top(procedure);
    let name = subject.subject.as_str();
    let run = |run: &str| recon_all(subject, &out, run);
    let sessions = match freesurfer::scanned(subject) {
        Err(unreadable) => {
            let mut finding = Finding::new("anat/*_T1w.nii.gz");
            finding.unread(&unreadable);
            return vec![finding];
        }
        Ok(Scanned::Nothing) => {
            return vec![Finding {
                note: Some(format!("no T1w image below {}", subject.bids().display())),
                ..Finding::new("anat/*_T1w.nii.gz")
            }];
        }
        Ok(Scanned::NoSessionLevel) => return vec![run(name)],
        Ok(Scanned::Sessions(sessions)) if sessions.len() == 1 => return vec![run(name)],
        Ok(Scanned::Sessions(sessions)) => sessions,
    };
    let runs: Vec<String> = sessions
        .iter()
        .map(|session| format!("{name}_{session}"))
        .collect();
    let mut findings: Vec<Finding> = runs.iter().map(|name| run(name)).collect();
    findings.push(run(name));
    findings.push(time_points(subject, &out, name, &runs));
    findings.extend(
        runs.iter()
            .map(|cross| run(&format!("{cross}.long.{name}"))),
    );
    findings
}

fn recon_all(subject: &SubjectProbe<'_>, out: &Path, run: &str) -> Finding {
    let mut finding = Finding::new(&format!("{run}/scripts/recon-all.done"));
    let good = freesurfer::is_good(subject.reader(), &out.join(run), None);
    let path = out.join(&finding.rule);
    settle(subject, out, &path, good, &mut finding);
    if finding.state == FindingState::Missing
        && let Ok(Some(text)) = subject.reader().first_line(&path, HEAD)
    {
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next().unwrap_or_default().trim().to_owned();
        finding.note = Some(if line.is_empty() {
            "it is empty".to_owned()
        } else {
            format!("recon-all has ended with exit code {line}")
        });
    }
    finding
}

fn time_points(subject: &SubjectProbe<'_>, out: &Path, template: &str, runs: &[String]) -> Finding {
    let mut finding = Finding::new(&format!("{template}/base-tps"));
    let path = out.join(&finding.rule);
    let good = freesurfer::names_all(subject.reader(), &path, runs);
    settle(subject, out, &path, good, &mut finding);
    if finding.state == FindingState::Missing
        && let Ok(Some(text)) = subject.reader().head(&path, HEAD)
    {
        let text = String::from_utf8_lossy(&text);
        let named: Vec<&str> = text.split_whitespace().collect();
        let missing = runs.iter().filter(|run| !named.contains(&run.as_str()));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        finding.note = Some(format!(
            "the template was made without {}",
            missing.join(", ")
        ));
    }
    finding
}

/// Judges each report of QSIRecon.
pub(super) fn qsirecon(
    subject: &SubjectProbe<'_>,
    procedure: &Procedure,
    session: &SessionLabel,
) -> Vec<Finding> {
    let out = subject.top(procedure);
    let derivatives = out.join("derivatives");
    let html = qsirecon::html_name(subject, session);
    let suffixes = subject.probe.suffixes();
    if suffixes.is_empty() {
        let mut finding = Finding::new(&format!("derivatives/*/{html}"));
        match qsirecon::any_workflow(subject, &derivatives, &html, None) {
            Err(unreadable) => finding.unread(&unreadable),
            Ok(true) => {
                finding.state = FindingState::Found;
                if let Some(first) = first_match(subject, &out, &finding.rule) {
                    finding.add(subject.reader(), &first, None);
                }
            }
            Ok(false) => fill_nearest(subject, &out, &mut finding),
        }
        return vec![finding];
    }
    let report = |suffix: &String| {
        let mut finding = Finding::new(&format!("derivatives/qsirecon-{suffix}/{html}"));
        let dir = derivatives.join(format!("qsirecon-{suffix}"));
        let good = qsirecon::has_report(subject, &dir, &html, None);
        settle(subject, &out, &dir.join(&html), good, &mut finding);
        finding
    };
    suffixes.iter().map(report).collect()
}

fn first_match(subject: &SubjectProbe<'_>, out: &Path, rule: &str) -> Option<PathBuf> {
    let pattern = Pattern::parse(rule).ok()?;
    let mut first = None;
    let mut visit = |path: &Path, _| {
        first = Some(path.to_owned());
        Ok(true)
    };
    find::find(&subject.listings, out, &pattern, &mut visit).ok()?;
    first
}

/// Fills in what became of one file.
fn settle(
    subject: &SubjectProbe<'_>,
    out: &Path,
    path: &Path,
    good: Result<bool, Unreadable>,
    finding: &mut Finding,
) {
    match good {
        Err(unreadable) => finding.unread(&unreadable),
        Ok(true) => {
            finding.state = FindingState::Found;
            finding.add(subject.reader(), path, None);
        }
        Ok(false) => fill_nearest(subject, out, finding),
    }
}

fn fill_nearest(subject: &SubjectProbe<'_>, out: &Path, finding: &mut Finding) {
    finding.state = FindingState::Missing;
    if let Ok(pattern) = Pattern::parse(&finding.rule) {
        finding.nearest = nearest::of(&subject.listings, out, &pattern);
    }
}
