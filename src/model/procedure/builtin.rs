//! The six procedures of a configuration without `procedures`, in their order of priority.
//!
//! Names, scripts and markers are those of the Python program (behaviour table of its defaults),
//! so that a site without a configuration file goes on as it was.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Check, Dependency, Procedure, Resources, Scope, SessionsRule};
use crate::model::procedure::marker::{CompletionRule, Marker, Pattern, Required};

struct Builtin {
    name: &'static str,
    output_dir: &'static str,
    scope: Scope,
    depends_on: &'static [&'static str],
    check: Check,
    markers: &'static [&'static str],
}

const BUILTIN: [Builtin; 6] = [
    Builtin {
        name: "bids",
        output_dir: "",
        scope: Scope::Session,
        depends_on: &[],
        check: Check::Markers,
        markers: &[
            "anat/*_T1w.nii.gz",
            "dwi/*dir-AP*_dwi.nii.gz",
            "dwi/*dir-AP*_dwi.bvec",
            "dwi/*dir-AP*_dwi.bval",
            "dwi/*dir-PA*_dwi.nii.gz",
            "fmap/*acq-func_dir-AP*epi.nii.gz",
            "fmap/*acq-func_dir-PA*epi.nii.gz",
            "func/*task-rest*_bold.nii.gz",
        ],
    },
    Builtin {
        name: "bids_post",
        output_dir: "",
        scope: Scope::Session,
        depends_on: &["bids"],
        check: Check::Markers,
        markers: &["fmap/*acq-dwi*_epi.nii.gz"],
    },
    Builtin {
        name: "defacing",
        output_dir: "",
        scope: Scope::Session,
        depends_on: &["bids_post"],
        check: Check::Markers,
        markers: &["anat/*acq-defaced*_T1w.nii.gz"],
    },
    Builtin {
        name: "qsiprep",
        output_dir: "qsiprep",
        scope: Scope::Session,
        depends_on: &["bids_post"],
        check: Check::Markers,
        markers: &[
            "*.html",
            "dwi/*_dwi_preproc.nii.gz",
            "dwi/*_dwi_preproc.bvec",
            "dwi/*_dwi_preproc.bval",
            "dwi/*desc-image_qc.tsv",
        ],
    },
    Builtin {
        name: "freesurfer",
        output_dir: "freesurfer",
        scope: Scope::Subject,
        depends_on: &["bids_post"],
        check: Check::Freesurfer,
        markers: &[],
    },
    Builtin {
        name: "qsirecon",
        output_dir: "qsirecon",
        scope: Scope::Session,
        depends_on: &["qsiprep", "freesurfer"],
        check: Check::Qsirecon,
        markers: &[],
    },
];

/// Returns the built-in procedures, without any resources.
pub fn procedures() -> Vec<Procedure> {
    BUILTIN.iter().map(procedure).collect()
}

fn procedure(builtin: &Builtin) -> Procedure {
    let dependency = |name: &&str| Dependency {
        procedure: Arc::from(*name),
        sessions: SessionsRule::ByScope,
    };
    // All markers are globs that parse, as the test below shows.
    let markers: Vec<Marker> = builtin
        .markers
        .iter()
        .filter_map(|text| Pattern::parse(text).ok())
        .map(|pattern| Marker {
            pattern,
            min_size: 1,
            contains: None,
            not_contains: None,
            when: None,
        })
        .collect();
    let required = if markers.is_empty() {
        Required::NonEmptyDirectory
    } else {
        Required::Markers(markers)
    };
    Procedure {
        name: Arc::from(builtin.name),
        output_dir: PathBuf::from(builtin.output_dir),
        script: format!("snbb_run_{}.sh", builtin.name),
        scope: builtin.scope,
        depends_on: builtin.depends_on.iter().map(dependency).collect(),
        check: builtin.check,
        completion: CompletionRule {
            required,
            forbid: Vec::new(),
        },
        resources: Resources::default(),
        env: std::collections::BTreeMap::new(),
        output_grace: None,
        rules: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::procedure::ProcedureDag;

    #[test]
    fn the_built_in_procedures_are_a_pipeline_with_all_their_markers() {
        let procedures = procedures();
        for (builtin, procedure) in BUILTIN.iter().zip(&procedures) {
            let markers: Vec<&str> = match &procedure.completion.required {
                Required::NonEmptyDirectory => Vec::new(),
                Required::Markers(markers) => markers
                    .iter()
                    .map(|marker| {
                        assert!(!marker.pattern.is_literal());
                        marker.pattern.as_str()
                    })
                    .collect(),
            };
            assert_eq!(markers, builtin.markers, "{}", builtin.name);
        }
        let dag = ProcedureDag::new(procedures).unwrap();
        let order: Vec<&str> = dag.iter().map(|(_, procedure)| &*procedure.name).collect();
        assert_eq!(
            order,
            [
                "bids",
                "bids_post",
                "defacing",
                "qsiprep",
                "freesurfer",
                "qsirecon"
            ]
        );
        let last = dag.find("qsirecon").unwrap();
        assert_eq!(dag.dependencies(last).len(), 2);
        assert_eq!(dag.get(last).script, "snbb_run_qsirecon.sh");
    }
}
