//! QSIRecon's built-in check: an HTML report per workflow suffix.
//!
//! Reports are `<output_dir>/derivatives/qsirecon-<suffix>/<sub>_<ses>.html`; the suffixes come from `nodes` in the
//! workflow file (QSIRecon's "Building a custom reconstruction workflow"). All subjects share these directories, so
//! they are read once per pass.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Apply, Rule, SubjectProbe};
use crate::base::regular::{error_text, read_regular};
use crate::model::bids::SessionLabel;
use crate::model::procedure::marker::{Base, Marker, Pattern};

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

/// Requires the report of each workflow, or of any workflow. A killed job may leave an empty one.
pub(super) fn rules(subject: &SubjectProbe<'_>, session: &SessionLabel, apply: &mut Apply<'_>) {
    let html = match session.is_none() {
        true => "{subject}.html",
        false => "{subject}_{session}.html",
    };
    let suffixes = subject.probe.suffixes.iter();
    let mut directories: Vec<String> = suffixes
        .map(|suffix| format!("qsirecon-{suffix}"))
        .collect();
    if directories.is_empty() {
        directories.push("*".to_owned());
    }
    let patterns = directories
        .iter()
        .map(|dir| format!("derivatives/{dir}/{html}"));
    patterns
        .filter_map(|text| Pattern::parse(&text).ok())
        .all(|pattern| {
            apply(Rule::Marker(&Marker {
                base: Base::Procedure,
                // More than the default, so that a directory of this name does not count.
                min_size: 2,
                ..Marker::new(pattern)
            }))
        });
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
