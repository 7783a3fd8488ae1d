//! The built-in pipeline, written down anew as a second source.

use std::sync::Arc;

use snbb_scheduler::model::procedure::marker::{CompletionRule, Marker, Pattern, Required};
use snbb_scheduler::model::procedure::{
    Check, Dependency, Procedure, ProcedureDag, Resources, Scope, SessionsRule,
};

/// The six steps, by priority.
pub fn pipeline() -> ProcedureDag {
    let steps = vec![
        step(
            "bids",
            "",
            &[],
            &[
                "anat/*_T1w.nii.gz",
                "dwi/*dir-AP*_dwi.nii.gz",
                "dwi/*dir-AP*_dwi.bvec",
                "dwi/*dir-AP*_dwi.bval",
                "dwi/*dir-PA*_dwi.nii.gz",
                "fmap/*acq-func_dir-AP*epi.nii.gz",
                "fmap/*acq-func_dir-PA*epi.nii.gz",
                "func/*task-rest_bold.nii.gz",
            ],
        ),
        step("bids_post", "", &["bids"], &["fmap/*acq-dwi*_epi.nii.gz"]),
        step(
            "defacing",
            "",
            &["bids_post"],
            &["anat/*acq-defaced*_T1w.nii.gz"],
        ),
        step(
            "qsiprep",
            "qsiprep",
            &["bids_post"],
            &[
                "*.html",
                "dwi/*_dwi_preproc.nii.gz",
                "dwi/*_dwi_preproc.bvec",
                "dwi/*_dwi_preproc.bval",
                "dwi/*desc-image_qc.tsv",
            ],
        ),
        Procedure {
            scope: Scope::Subject,
            check: Check::Freesurfer,
            ..step("freesurfer", "freesurfer", &["bids_post"], &[])
        },
        Procedure {
            check: Check::Qsirecon,
            ..step("qsirecon", "qsirecon", &["qsiprep", "freesurfer"], &[])
        },
    ];
    ProcedureDag::new(steps).unwrap()
}

pub fn step(name: &str, output_dir: &str, needs: &[&str], markers: &[&str]) -> Procedure {
    let markers: Vec<Marker> = markers
        .iter()
        .map(|text| Marker::new(Pattern::parse(text).unwrap()))
        .collect();
    Procedure {
        name: Arc::from(name),
        output_dir: output_dir.into(),
        script: format!("snbb_run_{name}.sh"),
        scope: Scope::Session,
        depends_on: needs
            .iter()
            .map(|name| Dependency {
                procedure: Arc::from(*name),
                sessions: SessionsRule::ByScope,
            })
            .collect(),
        check: Check::Markers,
        completion: CompletionRule {
            required: if markers.is_empty() {
                Required::NonEmptyDirectory
            } else {
                Required::Markers(markers)
            },
            forbid: Vec::new(),
        },
        resources: Resources::default(),
        env: Default::default(),
        output_grace: None,
        rules: Default::default(),
    }
}
