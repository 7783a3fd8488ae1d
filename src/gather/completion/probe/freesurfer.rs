//! FreeSurfer's built-in check: `recon-all.done` of every session, of the template, and of every longitudinal run.
//!
//! recon-all writes `scripts/recon-all.done` at its end, with the exit code as first line if it
//! failed; `-base` writes the time points of a template into `base-tps` (recon-all's script).

use std::collections::BTreeSet;
use std::path::Path;

use super::{Apply, Rule, Search, SubjectProbe, Task};
use crate::gather::completion::find;
use crate::gather::disk::Unreadable;
use crate::model::bids::SessionLabel;
use crate::model::procedure::marker::Pattern;

/// Written at the end of a run, in its directory.
pub(crate) const DONE: &str = "scripts/recon-all.done";
/// Lists the runs from which a template was made.
pub(crate) const TIME_POINTS: &str = "base-tps";
/// More than enough for the first line of [`DONE`] and for [`TIME_POINTS`].
const HEAD: usize = 64 * 1024;

/// Requires all runs of the subject, whatever the procedure's scope.
pub(super) fn rules(subject: &SubjectProbe<'_>, apply: &mut Apply<'_>) {
    let name = subject.subject.as_str();
    let sessions = match scanned(subject) {
        Ok(Some(sessions)) => sessions,
        without => {
            apply(Rule::Images(without.err()));
            return;
        }
    };
    let several = sessions.iter().filter(|_| sessions.len() > 1);
    let runs: Vec<String> = several.map(|session| format!("{name}_{session}")).collect();
    let template = Rule::TimePoints {
        template: name,
        runs: &runs,
    };
    let _ = runs.iter().all(|run| apply(Rule::Run(run)))
        && apply(Rule::Run(name))
        && !runs.is_empty()
        && apply(template)
        && runs
            .iter()
            .all(|run| apply(Rule::Run(&format!("{run}.long.{name}"))));
}

/// The sessions with a T1w image. Empty if the subject has its own `anat/`; `None` if there are no images.
///
/// Checks names only: a git-annex link without content is an image too, or the subject would seem to need fewer runs.
fn scanned(subject: &SubjectProbe<'_>) -> Result<Option<BTreeSet<SessionLabel>>, Unreadable> {
    let bids = subject.bids();
    let find = |pattern: &str, visit: &mut find::Visit<'_>| match Pattern::parse(pattern) {
        Ok(pattern) => find::find((&subject.listings, None), &bids, &pattern, visit),
        Err(_) => Ok(false),
    };
    let session = |path: &Path| {
        let first = path.strip_prefix(&bids).ok()?.iter().next()?.to_str();
        SessionLabel::new(first?).ok()
    };
    let is_image = |path: &Path| !path.to_string_lossy().contains("defaced");
    let mut sessions = BTreeSet::new();
    find("ses-*/anat/*_T1w.nii.gz", &mut |path, _| {
        let name = path.file_name().unwrap_or_default();
        sessions.extend(session(path).filter(|_| is_image(name.as_ref())));
        Ok(false)
    })?;
    let has_image = !sessions.is_empty()
        || !find("ses-*/", &mut |path, _| Ok(session(path).is_some()))?
            && find("anat/*_T1w.nii.gz", &mut |path, _| {
                Ok(is_image(path.file_name().unwrap_or_default().as_ref()))
            })?;
    Ok(has_image.then_some(sessions))
}

/// Found if the run ended successfully.
pub(super) fn run(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    run: &str,
    search: &mut Search<'_>,
) -> Result<(), Unreadable> {
    let mark = subject.top(task).join(run).join(DONE);
    judge(subject, &mark, search, |text| {
        match text.lines().next().unwrap_or_default().trim() {
            line if says_success(line) => None,
            "" => Some("it is empty".to_owned()),
            line => Some(format!("recon-all ended with exit code {line}")),
        }
    })
}

/// A file counts unless `why_not` says why its text does not satisfy the rule.
fn judge(
    subject: &SubjectProbe<'_>,
    path: &Path,
    search: &mut Search<'_>,
    why_not: impl Fn(&str) -> Option<String>,
) -> Result<(), Unreadable> {
    if let Some(text) = subject.reader().head(path, HEAD, path.ends_with(DONE))? {
        search.note = why_not(&String::from_utf8_lossy(&text));
        if search.note.is_none() {
            search.matched(path);
        }
    }
    Ok(())
}

/// True if the first line is neither empty nor an integer as Python parses it.
fn says_success(line: &str) -> bool {
    let digits = line.strip_prefix(['+', '-']).unwrap_or(line);
    let is_number = |part: &str| !part.is_empty() && part.chars().all(char::is_numeric);
    !line.is_empty() && !digits.split('_').all(is_number)
}

/// Found if the template was made from all of these runs.
pub(super) fn time_points(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    template: &str,
    runs: &[String],
    search: &mut Search<'_>,
) -> Result<(), Unreadable> {
    let path = subject.top(task).join(template).join(TIME_POINTS);
    judge(subject, &path, search, |text| {
        let named: Vec<&str> = text.split_whitespace().collect();
        let runs = runs.iter().map(String::as_str);
        let missing: Vec<&str> = runs.filter(|run| !named.contains(run)).collect();
        let missing = Some(missing.join(", ")).filter(|missing| !missing.is_empty())?;
        Some(format!("the template was made without {missing}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_that_is_empty_or_an_exit_code_is_a_failure() {
        for (text, expected) in [
            (
                &b"------------------------------\nSUBJECT sub-01\n"[..],
                true,
            ),
            (b"done", true),
            (b"1.0\n", true),
            (b"0x1\n", true),
            (b"1 2\n", true),
            (b"_1\n", true),
            (b"\xff\xfe\n", true),
            (b"", false),
            (b"\n", false),
            (b"  \t\nSUBJECT\n", false),
            (b"0\n", false),
            (b"1", false),
            (b"+5\n", false),
            (b"-1\n", false),
            (b"  1  \r\n", false),
            (b"1_000\n", false),
            ("\u{0661}\n".as_bytes(), false),
        ] {
            let text = String::from_utf8_lossy(text);
            let line = text.lines().next().unwrap_or_default().trim();
            assert_eq!(says_success(line), expected, "{text:?}");
        }
    }
}
