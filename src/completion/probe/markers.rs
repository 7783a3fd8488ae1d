//! What each rule of completion found, one by one, for people.
//!
//! Judges as the probe does, but does not stop at the first rule that is not met: a task is complete
//! when every result here is found or excused.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Probe, SubjectProbe, weigh};
use crate::bids::{SessionLabel, SubjectLabel};
use crate::completion::listing::Dir;
use crate::completion::marker::{Component, Marker, Pattern, Required};
use crate::completion::{Unreadable, find, freesurfer, qsirecon};
use crate::procedure::{Check, Procedure, ProcedureId};

/// Says what one rule of completion found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkerResult {
    /// The pattern as configured, `<directory>` for a procedure without any, or the file of a built-in
    /// check below the procedure's own directory.
    pub marker: String,
    pub state: MarkerState,
    /// A file that matched, else the nearest directory that is there.
    pub path: Option<String>,
    /// What keeps a match from counting, or the system's words about what cannot be read.
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkerState {
    Found,
    Missing,
    /// Not asked for: nothing matches its `when`.
    Excused,
    /// A file that must not be there is there.
    Forbidden,
    Unreadable,
}

/// Names a file of a built-in check and says whether it is good.
pub(in crate::completion) type Mark = (String, Result<bool, Unreadable>);

/// Tells of the markers of one subject's tasks; reads nothing twice.
pub struct Markers<'a>(SubjectProbe<'a>);

impl Probe {
    /// Returns what tells of a subject's markers one by one.
    pub fn markers<'a>(&'a self, subject: &'a SubjectLabel) -> Markers<'a> {
        Markers(self.subject(subject, false))
    }
}

impl Markers<'_> {
    /// Judges each marker of a task, in the order of the configuration; then the forbidden files that
    /// are there. `session` is [`SessionLabel::none`] for subject scope.
    pub fn of(&self, procedure: ProcedureId, session: &SessionLabel) -> Vec<MarkerResult> {
        let subject = &self.0;
        let procedure = subject.probe.procedures.get(procedure);
        let output = subject.output(procedure, session);
        let mut results = match procedure.check {
            Check::Freesurfer => checked(
                freesurfer::marks(subject, procedure),
                &subject.derivatives(procedure),
            ),
            Check::Qsirecon => checked(
                Ok(qsirecon::reports(subject, procedure, session)),
                &subject.derivatives(procedure),
            ),
            Check::Markers => match &procedure.completion.required {
                Required::NonEmptyDirectory => vec![self.directory(&output)],
                Required::Markers(markers) => markers
                    .iter()
                    .map(|marker| self.marker(marker, procedure, session, &output))
                    .collect(),
            },
        };
        let forbid = procedure.completion.forbid.iter();
        results.extend(forbid.filter_map(|pattern| self.forbidden(pattern, &output)));
        results
    }

    fn directory(&self, output: &Path) -> MarkerResult {
        let (state, note) = match self.0.is_not_empty(output) {
            Ok(true) => (MarkerState::Found, None),
            Ok(false) => (MarkerState::Missing, None),
            Err(unreadable) => (MarkerState::Unreadable, Some(unreadable.error)),
        };
        MarkerResult {
            marker: "<directory>".to_owned(),
            state,
            path: self.nearest(output, &[]),
            note,
        }
    }

    fn marker(
        &self,
        marker: &Marker,
        procedure: &Procedure,
        session: &SessionLabel,
        output: &Path,
    ) -> MarkerResult {
        let result = |state, path: Option<String>, note| MarkerResult {
            marker: marker.pattern.as_str().to_owned(),
            state,
            path,
            note,
        };
        match self.0.is_excused(marker, procedure, session) {
            Ok(false) => {}
            Ok(true) => {
                let when = marker.when.as_ref().map_or("", Pattern::as_str);
                let note = format!("nothing matches '{when}'");
                return result(MarkerState::Excused, None, Some(note));
            }
            Err(unreadable) => return unread(marker.pattern.as_str(), unreadable),
        }
        let (mut hit, mut miss) = (None, None);
        let found = find::find(
            &self.0.listings,
            output,
            &marker.pattern,
            &mut |path, kind| {
                let counts = weigh(self.0.reader(), marker, path, kind)?.counts();
                let place = if counts { &mut hit } else { &mut miss };
                place.get_or_insert_with(|| path.to_owned());
                Ok(counts)
            },
        );
        match (found, hit, miss) {
            (Err(unreadable), None, _) => unread(marker.pattern.as_str(), unreadable),
            (_, Some(path), _) => result(MarkerState::Found, Some(lossy(&path)), None),
            (_, None, Some(path)) => {
                let note = why_not(marker, &path);
                result(MarkerState::Missing, Some(lossy(&path)), Some(note))
            }
            (Ok(_), None, None) => {
                let nearest = self.nearest(output, marker.pattern.components());
                result(MarkerState::Missing, nearest, None)
            }
        }
    }

    fn forbidden(&self, pattern: &Pattern, output: &Path) -> Option<MarkerResult> {
        let mut hit = None;
        let found = find::find(&self.0.listings, output, pattern, &mut |path, kind| {
            let is_there = find::is_there(self.0.reader(), path, kind)?;
            if is_there {
                hit = Some(path.to_owned());
            }
            Ok(is_there)
        });
        match (found, hit) {
            (_, Some(path)) => Some(MarkerResult {
                marker: pattern.as_str().to_owned(),
                state: MarkerState::Forbidden,
                path: Some(lossy(&path)),
                note: None,
            }),
            (Err(unreadable), None) => Some(unread(pattern.as_str(), unreadable)),
            (Ok(_), None) => None,
        }
    }

    /// Returns the deepest directory that is there: on the pattern's way down, or above the output.
    fn nearest(&self, output: &Path, components: &[Component]) -> Option<String> {
        let is_there = |dir: &Path| matches!(&*self.0.listings.get(dir), Dir::There(_));
        let mut deepest: Option<PathBuf> = output
            .ancestors()
            .take(3)
            .find(|dir| is_there(dir))
            .map(Path::to_owned);
        if deepest.as_deref() == Some(output) {
            let mut dir = output.to_owned();
            for component in components {
                let Component::Literal(name) = component else {
                    break;
                };
                dir.push(name);
                if !is_there(&dir) {
                    break;
                }
                deepest = Some(dir.clone());
            }
        }
        deepest.map(|dir| lossy(&dir))
    }
}

/// Turns the marks of a built-in check into results; `base` is what their names are below.
fn checked(marks: Result<Vec<Mark>, Unreadable>, base: &Path) -> Vec<MarkerResult> {
    let marks = match marks {
        Ok(marks) => marks,
        Err(unreadable) => return vec![unread("<check>", unreadable)],
    };
    let results = marks.into_iter().map(|(marker, good)| match good {
        Ok(good) => MarkerResult {
            state: if good {
                MarkerState::Found
            } else {
                MarkerState::Missing
            },
            path: good.then(|| lossy(&base.join(&marker))),
            marker,
            note: None,
        },
        Err(unreadable) => unread(&marker, unreadable),
    });
    results.collect()
}

fn unread(marker: &str, unreadable: Unreadable) -> MarkerResult {
    MarkerResult {
        marker: marker.to_owned(),
        state: MarkerState::Unreadable,
        path: Some(lossy(&unreadable.path)),
        note: Some(unreadable.error),
    }
}

fn why_not(marker: &Marker, path: &Path) -> String {
    match std::fs::metadata(path) {
        Err(_) => "is a link that leads nowhere".to_owned(),
        Ok(metadata) if metadata.is_file() && metadata.len() < marker.min_size => format!(
            "has {} bytes, at least {} are needed",
            metadata.len(),
            marker.min_size
        ),
        Ok(_) => match (&marker.contains, &marker.not_contains) {
            (Some(wanted), None) => format!("does not hold the text '{wanted}'"),
            (None, Some(unwanted)) => format!("holds the text '{unwanted}'"),
            _ => "its text is not as it must be".to_owned(),
        },
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::{Completion, Completions as _};
    use crate::procedure::testing::procedure;
    use crate::procedure::{ProcedureDag, Scope};

    /// Judges a procedure with these files below its output directory; also that both ways agree.
    fn judged(
        files: &[(&str, &str)],
        change: impl FnOnce(&mut Procedure),
    ) -> (tempfile::TempDir, Vec<MarkerResult>) {
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
        let results = probe.markers(&subject).of(id, &session);
        let met = |result: &MarkerResult| {
            matches!(result.state, MarkerState::Found | MarkerState::Excused)
        };
        let completion = probe.for_subject(&subject).completion(id, &session);
        assert_eq!(
            results.iter().all(met),
            matches!(completion, Completion::Complete | Completion::NotApplicable),
            "{completion:?} {results:?}"
        );
        (tmp, results)
    }

    fn markers(list: &[&str]) -> Required {
        let parse = |text: &&str| Marker::new(Pattern::parse(text).unwrap());
        Required::Markers(list.iter().map(parse).collect())
    }

    #[test]
    fn each_marker_says_what_it_found_or_how_near_it_came() {
        let files = [
            ("out/p/sub-01/ses-01/anat/a_T1w.nii.gz", "x"),
            ("out/p/sub-01/ses-01/anat/empty.json", ""),
            ("out/p/sub-01/ses-01/crash-1.txt", ""),
        ];
        let (tmp, results) = judged(&files, |step| {
            step.completion.required = markers(&[
                "anat/*_T1w.nii.gz",
                "anat/*.json",
                "anat/deep/x.nii.gz",
                "done",
            ]);
            step.completion.forbid = vec![
                Pattern::parse("crash-*").unwrap(),
                Pattern::parse("core.*").unwrap(),
            ];
        });
        let root = tmp.path().join("out/p/sub-01/ses-01");
        let seen: Vec<_> = results
            .iter()
            .map(|r| {
                let path = r.path.as_deref().unwrap();
                let path = Path::new(path).strip_prefix(&root).unwrap();
                (
                    r.marker.as_str(),
                    r.state,
                    path.to_str().unwrap(),
                    r.note.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (
                    "anat/*_T1w.nii.gz",
                    MarkerState::Found,
                    "anat/a_T1w.nii.gz",
                    None
                ),
                (
                    "anat/*.json",
                    MarkerState::Missing,
                    "anat/empty.json",
                    Some("has 0 bytes, at least 1 are needed")
                ),
                ("anat/deep/x.nii.gz", MarkerState::Missing, "anat", None),
                ("done", MarkerState::Missing, "", None),
                ("crash-*", MarkerState::Forbidden, "crash-1.txt", None),
            ]
        );
    }

    #[test]
    fn a_directory_that_is_not_there_names_the_one_above() {
        let (tmp, results) = judged(&[("out/p/sub-02/x", "x")], |_| {});
        assert_eq!(results[0].state, MarkerState::Missing);
        assert_eq!(results[0].path, Some(lossy(&tmp.path().join("out/p"))));
        let (_tmp, results) = judged(&[("out/p/sub-01/ses-01/x", "x")], |_| {});
        assert_eq!(results[0].state, MarkerState::Found);
    }

    #[test]
    fn what_is_excused_says_why() {
        let (_tmp, results) = judged(&[("bids/sub-01/ses-01/anat/x", "x")], |step| {
            let mut marker = Marker::new(Pattern::parse("func/*.html").unwrap());
            marker.when = Some(Pattern::parse("func/*").unwrap());
            step.completion.required = Required::Markers(vec![marker]);
        });
        assert_eq!(results[0].state, MarkerState::Excused);
        assert_eq!(results[0].note.as_deref(), Some("nothing matches 'func/*'"));
    }

    #[test]
    fn the_marks_of_freesurfer_are_listed_one_by_one() {
        let good = ("out/p/sub-01_ses-01/scripts/recon-all.done", "------\n");
        let bad = ("out/p/sub-01_ses-02/scripts/recon-all.done", "1\n");
        let files = [
            ("bids/sub-01/ses-01/anat/a_T1w.nii.gz", "x"),
            ("bids/sub-01/ses-02/anat/a_T1w.nii.gz", "x"),
            good,
            bad,
        ];
        let (_tmp, results) = judged(&files, |step| step.check = Check::Freesurfer);
        let seen: Vec<_> = results
            .iter()
            .map(|r| (r.marker.as_str(), r.state))
            .collect();
        use MarkerState::{Found, Missing};
        assert_eq!(
            seen,
            [
                ("sub-01_ses-01/scripts/recon-all.done", Found),
                ("sub-01_ses-02/scripts/recon-all.done", Missing),
                ("sub-01/scripts/recon-all.done", Missing),
                ("sub-01/base-tps", Missing),
                ("sub-01_ses-01.long.sub-01/scripts/recon-all.done", Missing),
                ("sub-01_ses-02.long.sub-01/scripts/recon-all.done", Missing),
            ]
        );
        let (_tmp, results) = judged(&[], |step| step.check = Check::Freesurfer);
        assert_eq!(results[0].marker, "a T1w image below bids_root");
    }

    #[test]
    fn the_reports_of_qsirecon_are_listed() {
        let files = [("out/p/derivatives/qsirecon-A/sub-01_ses-01.html", "x")];
        let (_tmp, results) = judged(&files, |step| step.check = Check::Qsirecon);
        assert_eq!(results[0].marker, "derivatives/*/sub-01_ses-01.html");
        assert_eq!(results[0].state, MarkerState::Found);
    }
}
