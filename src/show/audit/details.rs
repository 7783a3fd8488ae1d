//! The details of single tasks: job, log and markers. [`crate::gather::completion::explain`] checks the markers.

use serde::{Serialize, Serializer};

use crate::gather::completion::explain::{ANYTHING, FindingState, Findings};
use crate::model::state::{TaskKey, TaskRow};
use crate::show::tables::{TaskState, row_json};

/// Details of one task that failed, is in flight, is unreadable, lost its outputs, or is due with partial
/// outputs. With `--markers`, of every task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub key: TaskKey,
    pub decision: TaskState,
    pub reason: Option<&'static str>,
    /// A sentence for people.
    pub text: String,
    pub output_dir: String,
    /// In the order of the configuration. Empty if they were not checked.
    pub markers: Vec<MarkerResult>,
    /// The newest attempt.
    pub job: Option<JobDetail>,
    /// The log excerpt of a failed task.
    pub log_line: Option<String>,
    /// The last lines of the log of a failed task, the newest last; at most 4 KiB.
    pub log_tail: Vec<String>,
}

/// The newest job of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobDetail {
    #[serde(flatten, serialize_with = "columns")]
    pub row: TaskRow,
    /// The failure in words.
    pub failure: Option<String>,
    /// The paths of its logs.
    pub output: Option<String>,
    pub error: Option<String>,
}

fn columns<S: Serializer>(row: &TaskRow, serializer: S) -> Result<S::Ok, S::Error> {
    let names = "job_id status attempt slurm_state exit_code submitted_at \
        started_at ended_at elapsed_s time_limit_s max_rss_mb req_mem_mb node_list";
    row_json(row, names).serialize(serializer)
}

/// The result of one marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkerResult {
    /// The configured pattern, `<directory>` for a procedure without any, or the file of a built-in check
    /// relative to the procedure's directory.
    pub marker: String,
    #[serde(serialize_with = "state_word")]
    pub state: FindingState,
    /// A matching file, else the nearest existing directory.
    pub path: Option<String>,
    /// Why a match does not count, or the system's message about an unreadable path.
    pub note: Option<String>,
}

/// The report has its own word for a marker that is not needed.
fn state_word<S: Serializer>(state: &FindingState, serializer: S) -> Result<S::Ok, S::Error> {
    match state {
        FindingState::NotNeeded => serializer.serialize_str("excused"),
        other => other.serialize(serializer),
    }
}

/// The markers in the order of the configuration, then existing forbidden files.
pub fn marker_results(findings: Findings) -> Vec<MarkerResult> {
    let all = findings.required.into_iter().chain(findings.forbidden);
    let all = all.filter(|finding| finding.state != FindingState::Absent);
    all.map(|finding| {
        let first = finding.matches.into_iter().next();
        let problem = first.as_ref().and_then(|found| found.problem.clone());
        let nearest = finding.nearest.map(|nearest| nearest.directory);
        MarkerResult {
            marker: match finding.rule.as_str() {
                ANYTHING => "<directory>".to_owned(),
                _ => finding.rule,
            },
            state: finding.state,
            path: first.map(|found| found.path).or(nearest),
            note: problem.or(finding.note),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::gather::completion::probe::Probe;
    use crate::model::bids::{SessionLabel, SubjectLabel};
    use crate::model::procedure::marker::{Marker, Pattern, Required};
    use crate::model::procedure::testing::procedure;
    use crate::model::procedure::{Check, Procedure, ProcedureDag, Scope};

    /// Results for a procedure with these files: marker, state, path below the study, note.
    fn results(files: &[(&str, &str)], change: impl FnOnce(&mut Procedure)) -> Vec<String> {
        let tmp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tmp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut step = procedure("p", Scope::Session, &[]);
        change(&mut step);
        let dag = ProcedureDag::new(vec![step]).unwrap();
        let id = dag.find("p").unwrap();
        let root = |name: &str| tmp.path().join(name);
        let probe = Probe::of(root("bids"), root("out"), dag, None).unwrap();
        let subject = SubjectLabel::new("sub-01").unwrap();
        let session = SessionLabel::new("ses-01").unwrap();
        let findings = probe.brief_explainer(&subject).findings(id, &session);
        let below = |path: &str| {
            let path = Path::new(path).strip_prefix(tmp.path()).unwrap();
            path.display().to_string()
        };
        let all = marker_results(findings).into_iter();
        let line = |found: MarkerResult| {
            let path = found.path.as_deref().map_or("-".to_owned(), below);
            let note = found.note.map_or_else(String::new, |note| {
                format!(
                    ": {}",
                    note.replace(tmp.path().to_str().unwrap(), "[study]")
                )
            });
            format!("{:?} {} in {path}{note}", found.state, found.marker)
        };
        all.map(line).collect()
    }

    fn markers(list: &[&str]) -> Required {
        let parse = |text: &&str| Marker::new(Pattern::parse(text).unwrap());
        Required::Markers(list.iter().map(parse).collect())
    }

    #[test]
    fn each_marker_has_its_match_or_the_nearest_directory() {
        let files = [
            ("out/p/sub-01/ses-01/anat/a_T1w.nii.gz", "x"),
            ("out/p/sub-01/ses-01/anat/b_T1w.nii.gz", "x"),
            ("out/p/sub-01/ses-01/anat/empty.json", ""),
            ("out/p/sub-01/ses-01/crash-1.txt", ""),
        ];
        let seen = results(&files, |step| {
            step.completion.required = markers(&[
                "anat/*_T1w.nii.gz",
                "anat/*.json",
                "anat/deep/x.nii.gz",
                "done",
            ]);
            let forbid = ["crash-*", "core.*"].map(|text| Pattern::parse(text).unwrap());
            step.completion.forbid = forbid.to_vec();
        });
        assert_eq!(
            seen,
            [
                "Found anat/*_T1w.nii.gz in out/p/sub-01/ses-01/anat/a_T1w.nii.gz",
                "Missing anat/*.json in out/p/sub-01/ses-01/anat/empty.json: is empty",
                "Missing anat/deep/x.nii.gz in out/p/sub-01/ses-01/anat",
                "Missing done in out/p/sub-01/ses-01",
                "Forbidden crash-* in out/p/sub-01/ses-01/crash-1.txt",
            ]
        );
    }

    #[test]
    fn a_procedure_without_markers_checks_its_directory() {
        assert_eq!(
            results(&[("out/p/sub-02/x", "x")], |_| {}),
            ["Missing <directory> in out/p"]
        );
        assert_eq!(
            results(&[("out/p/sub-01/ses-01/x", "x")], |_| {}),
            ["Found <directory> in out/p/sub-01/ses-01/x"]
        );
        assert_eq!(
            results(&[("out/p/sub-01/ses-01", "x")], |_| {}),
            ["Missing <directory> in out/p/sub-01"],
            "a file instead of a directory"
        );
    }

    #[test]
    fn excused_and_unreadable_markers_have_a_note() {
        let files = [("bids/sub-01/ses-01/anat/x", "x")];
        let seen = results(&files, |step| {
            let mut marker = Marker::new(Pattern::parse("func/*.html").unwrap());
            marker.when = vec![Pattern::parse("func/*").unwrap()];
            step.completion.required = Required::Markers(vec![marker]);
        });
        let place = "[study]/bids/sub-01/ses-01";
        assert_eq!(
            seen,
            [format!(
                "NotNeeded func/*.html in -: nothing matches 'func/*' in {place}"
            )]
        );
        let long = "x".repeat(300);
        let files = [("out/other/x", "x")];
        let seen = results(&files, |step| step.output_dir = long.clone().into());
        let place = format!("[study]/out/{long}/sub-01/ses-01");
        assert_eq!(
            seen,
            [format!(
                "Unreadable <directory> in -: {place}: File name too long"
            )]
        );
    }

    #[test]
    fn the_files_of_the_built_in_checks_are_listed_one_by_one() {
        let files = [
            ("bids/sub-01/ses-01/anat/a_T1w.nii.gz", "x"),
            ("bids/sub-01/ses-02/anat/a_T1w.nii.gz", "x"),
            ("out/p/sub-01_ses-01/scripts/recon-all.done", "------\n"),
            ("out/p/sub-01_ses-02/scripts/recon-all.done", "1\n"),
        ];
        let done = "scripts/recon-all.done";
        assert_eq!(
            results(&files, |step| step.check = Check::Freesurfer),
            [
                format!("Found sub-01_ses-01/{done} in out/p/sub-01_ses-01/{done}"),
                format!(
                    "Missing sub-01_ses-02/{done} in out/p/sub-01_ses-02/scripts: recon-all ended with exit code 1"
                ),
                format!("Missing sub-01/{done} in out/p"),
                "Missing sub-01/base-tps in out/p".to_owned(),
                format!("Missing sub-01_ses-01.long.sub-01/{done} in out/p"),
                format!("Missing sub-01_ses-02.long.sub-01/{done} in out/p"),
            ]
        );
        let reports = [("out/p/derivatives/qsirecon-A/sub-01_ses-01.html", "x")];
        let seen = results(&reports, |step| step.check = Check::Qsirecon);
        let html = "sub-01_ses-01.html";
        assert_eq!(
            seen,
            [format!(
                "Found derivatives/*/{html} in out/p/derivatives/qsirecon-A/{html}"
            )]
        );
    }
}
