//! QSIRecon's built-in check: an HTML report per workflow suffix.
//!
//! Reports are `<output_dir>/derivatives/qsirecon-<suffix>/<sub>_<ses>.html`; the suffixes come from `nodes` in the
//! workflow file (QSIRecon's "Building a custom reconstruction workflow"). All subjects share these directories, so
//! they are read once per pass.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use serde::Deserialize;
use serde_yaml::Value;

use super::rule::{Apply, Outcome, Rule, Search};
use super::{SubjectProbe, Task};
use crate::base::regular::{error_text, read_regular};
use crate::base::text::maybe;
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::{Dir, EntryKind};
use crate::gather::disk::reader::is_regular;
use crate::model::bids::SessionLabel;

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
    #[serde(default)]
    qsirecon_suffix: Value,
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
        let suffix = match node.qsirecon_suffix {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => "/".to_owned(),
        };
        if suffix.contains('/') {
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

/// Requires the report of each workflow.
pub(super) fn rules(subject: &SubjectProbe<'_>, apply: &mut Apply<'_>) {
    let suffixes = &subject.probe.suffixes;
    if suffixes.is_empty() {
        apply(Rule::Report(None));
    }
    (suffixes.iter()).all(|suffix| apply(Rule::Report(Some(suffix))));
}

/// The name of a session's report.
pub(crate) fn html_name(subject: &SubjectProbe<'_>, session: &SessionLabel) -> String {
    let session = Some(session).filter(|session| !session.is_none());
    format!("{}{}.html", subject.subject, maybe("_", session, ""))
}

/// Looks for a session's report in the directory of one workflow, or of every workflow.
pub(super) fn report(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    suffix: Option<&str>,
    mut search: Search<'_>,
) -> Result<Outcome, Unreadable> {
    let derivatives = subject.top(task).join("derivatives");
    let html = html_name(subject, task.session);
    let dirs = match suffix {
        Some(suffix) => vec![derivatives.join(format!("qsirecon-{suffix}"))],
        None => workflows(subject, &derivatives)?,
    };
    for dir in dirs {
        match stat_of(subject, &dir, &html) {
            Ok(Some(stat)) if search.matched(&dir.join(&html), Some(&stat)) => break,
            Ok(_) => {}
            Err(unreadable) => search.unread(unreadable),
        }
    }
    search.outcome()
}

/// Lists `derivatives/*/`.
fn workflows(subject: &SubjectProbe<'_>, derivatives: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let top = read(subject, derivatives)?;
    let Dir::There(listing) = &*top else {
        return Ok(Vec::new());
    };
    let dirs = listing.iter().filter(|entry| {
        !entry.name.as_encoded_bytes().starts_with(b".")
            && matches!(entry.kind, EntryKind::Directory | EntryKind::Link)
    });
    Ok(dirs.map(|entry| derivatives.join(entry.name)).collect())
}

/// `None` unless the report is a regular file with content: a killed job may leave an empty one.
fn stat_of(subject: &SubjectProbe<'_>, dir: &Path, html: &str) -> Result<Option<Stat>, Unreadable> {
    let reports = read(subject, dir)?;
    let Dir::There(listing) = &*reports else {
        return Ok(None);
    };
    if (listing.get(html.as_ref())).is_none_or(|entry| entry.kind == EntryKind::Directory) {
        return Ok(None);
    }
    let stat = subject.reader().stat(&dir.join(html))?;
    Ok(stat.filter(|stat| is_regular(stat) && stat.st_size > 0))
}

fn read(subject: &SubjectProbe<'_>, dir: &Path) -> Result<Arc<Dir>, Unreadable> {
    let dir = subject.probe.shared.get(subject.reader(), dir);
    match &*dir {
        Dir::Failed(unreadable) => Err(unreadable.clone()),
        _ => Ok(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "'qsirecon_suffix' of node 1 cannot be part of a directory name",
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
