//! The built-in checks for FreeSurfer and QSIRecon.
//!
//! FreeSurfer: `recon-all.done` of every session, of the template, and of every longitudinal run. recon-all writes
//! `scripts/recon-all.done` at its end, with the exit code as first line if it failed; `-base` writes the time points of a
//! template into `base-tps` (recon-all's script).
//!
//! QSIRecon: an HTML report per workflow suffix, `<output_dir>/derivatives/qsirecon-<suffix>/<sub>_<ses>.html`. The
//! suffixes come from `nodes` in the workflow file (QSIRecon's "Building a custom reconstruction workflow").

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Apply, Rule, Search, SubjectProbe, Task};
use crate::base::regular::{error_text, read_regular};
use crate::gather::completion::find;
use crate::gather::disk::Unreadable;
use crate::model::bids::SessionLabel;
use crate::model::procedure::marker::{Base, Marker, Pattern};

/// Written at the end of a run, in its directory.
pub(crate) const DONE: &str = "scripts/recon-all.done";
/// Lists the runs from which a template was made.
pub(crate) const TIME_POINTS: &str = "base-tps";
/// More than enough for the first line of [`DONE`] and for [`TIME_POINTS`].
const HEAD: usize = 64 * 1024;

/// Requires all runs of the subject, whatever the procedure's scope.
pub(super) fn freesurfer(subject: &SubjectProbe<'_>, apply: &mut Apply<'_>) {
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

/// T1w images of sessions, sessions, and T1w images of a subject without sessions.
static IMAGES: LazyLock<[Option<Pattern>; 3]> = LazyLock::new(|| {
    let patterns = ["ses-*/anat/*_T1w.nii.gz", "ses-*/", "anat/*_T1w.nii.gz"];
    patterns.map(|text| Pattern::parse(text).ok())
});

/// The sessions with a T1w image. Empty if the subject has its own `anat/`; `None` if there are no images.
///
/// Checks names only: a git-annex link without content is an image too, or the subject would seem to need fewer runs.
fn scanned(subject: &SubjectProbe<'_>) -> Result<Option<BTreeSet<SessionLabel>>, Unreadable> {
    let bids = subject.bids();
    let [in_sessions, all_sessions, without_sessions] = &*IMAGES;
    let find = |pattern: &Option<Pattern>, visit: &mut find::Visit<'_>| {
        let pattern = pattern.as_ref();
        pattern.map_or(Ok(false), |pattern| {
            find::find((&subject.listings, None), &bids, pattern, visit)
        })
    };
    let session = |path: &Path| {
        let first = path.strip_prefix(&bids).ok()?.iter().next()?.to_str();
        SessionLabel::new(first?).ok()
    };
    let is_image = |path: &Path| !path.to_string_lossy().contains("defaced");
    let mut sessions = BTreeSet::new();
    find(in_sessions, &mut |path, _| {
        let name = path.file_name().unwrap_or_default();
        sessions.extend(session(path).filter(|_| is_image(name.as_ref())));
        Ok(false)
    })?;
    let has_image = !sessions.is_empty()
        || !find(all_sessions, &mut |path, _| Ok(session(path).is_some()))?
            && find(without_sessions, &mut |path, _| {
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

/// Why the suffixes of a QSIRecon workflow file are unknown. A file without suffixes is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("qsirecon_spec {}{problem}", .file.display())]
pub struct SpecError {
    file: PathBuf,
    /// The text after the file's name.
    problem: String,
}

impl SpecError {
    pub fn hint(&self) -> &'static str {
        "set 'qsirecon_spec' to a QSIRecon workflow file (a mapping with a list 'nodes'), or remove it to accept the \
         report of any workflow"
    }
}

/// The relevant part of a workflow file.
#[derive(Deserialize)]
#[serde(expecting = "a mapping with a list 'nodes'")]
struct Spec {
    nodes: Option<Vec<SpecNode>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a mapping")]
struct SpecNode {
    qsirecon_suffix: Option<String>,
}

/// Reads the distinct `qsirecon_suffix` values of a workflow file, in their order.
pub fn suffixes(file: &Path) -> Result<Vec<String>, SpecError> {
    let failed = |problem| SpecError {
        file: file.to_owned(),
        problem,
    };
    let text = read_regular(file)
        .map_err(|error| failed(format!(" cannot be read: {}", error_text(&error))))?;
    let spec = serde_yaml::from_slice(&text).map_err(|error| error.to_string());
    spec.and_then(from_spec)
        .map_err(|problem| failed(format!(": {problem}")))
}

fn from_spec(spec: Spec) -> Result<Vec<String>, String> {
    let nodes = spec.nodes.ok_or("it has no list 'nodes'")?;
    let mut suffixes = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let suffix = node.qsirecon_suffix.unwrap_or_default();
        if suffix.contains(['/', '*', '?', '[', '{', '}']) {
            return Err(format!(
                "'qsirecon_suffix' of node {} cannot be part of a directory name",
                index + 1
            ));
        }
        if !suffix.is_empty() && !suffixes.contains(&suffix) {
            suffixes.push(suffix);
        }
    }
    Ok(suffixes)
}

/// The reports of a task without and with a session.
pub(super) type Reports = (Vec<Marker>, Vec<Marker>);

/// Requires the report of each workflow; without suffixes, of any workflow. A killed job may leave an empty one.
pub(super) fn reports(suffixes: &[String]) -> Reports {
    let suffixes = suffixes.iter().map(|suffix| format!("qsirecon-{suffix}"));
    let mut directories: Vec<String> = suffixes.collect();
    if directories.is_empty() {
        directories.push("*".to_owned());
    }
    let named = |html: &str| {
        let patterns = directories
            .iter()
            .map(|dir| Pattern::parse(&format!("derivatives/{dir}/{html}")));
        let marker = |pattern| Marker {
            base: Base::Procedure,
            min_size: 1,
            ..Marker::new(pattern)
        };
        // `from_spec` accepts only suffixes that are part of a name.
        patterns.flatten().map(marker).collect()
    };
    (named("{subject}.html"), named("{subject}_{session}.html"))
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

    fn read_text(text: &str) -> Result<Vec<String>, SpecError> {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("spec.yaml");
        std::fs::write(&file, text).unwrap();
        suffixes(&file)
    }

    #[test]
    fn suffixes_are_distinct_and_in_order() {
        let spec = "name: x\nnodes:\n- {name: a, qsirecon_suffix: MRtrix3}\n- {name: b}\n\
                    - {name: c, qsirecon_suffix: ''}\n- {name: d, qsirecon_suffix: null}\n\
                    - {name: e, qsirecon_suffix: AMICO}\n- {name: f, qsirecon_suffix: MRtrix3}\n";
        assert_eq!(read_text(spec).unwrap(), ["MRtrix3", "AMICO"]);
        assert_eq!(read_text("nodes: []\n").unwrap(), Vec::<String>::new());
        assert_eq!(
            read_text("nodes: [{name: a}]").unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_spec_that_cannot_be_understood_is_an_error() {
        for (text, expected) in [
            ("", "nodes"),
            ("- a\n", "expected a mapping with a list 'nodes'"),
            ("name: x\n", "it has no list 'nodes'"),
            ("nodes:\n", "it has no list 'nodes'"),
            ("nodes: [a]\n", "nodes[0]: invalid type"),
            (
                "nodes: [{qsirecon_suffix: [a]}]\n",
                "nodes[0].qsirecon_suffix: invalid type: sequence, expected a string",
            ),
            (
                "nodes: [{}, {qsirecon_suffix: ../x}]\n",
                "'qsirecon_suffix' of node 2 cannot be part of a directory name",
            ),
            ("nodes: [\n", "line 2 column 1"),
        ] {
            match read_text(text) {
                Err(SpecError { problem, .. }) => {
                    assert!(problem.contains(expected), "{text:?}: {problem}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        let error = suffixes(Path::new("/nonexistent/spec.yaml")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "qsirecon_spec /nonexistent/spec.yaml cannot be read: No such file or directory"
        );
    }
}
