//! What must hold between `output_dir`, the markers and the scope where a path says by `{subject}` and `{session}`
//! whose it is.

use super::reader::Fields;
use crate::model::procedure::marker::{Marker, Pattern, Required};
use crate::model::procedure::template::{has_session, has_subject};
use crate::model::procedure::{Check, Procedure, Scope};

pub(super) fn check(fields: &Fields<'_>, procedure: &Procedure) {
    let dir = procedure.output_dir.to_string_lossy();
    let markers: &[Marker] = match &procedure.completion.required {
        Required::Markers(markers) => markers,
        Required::NonEmptyDirectory => &[],
    };
    let patterns = markers
        .iter()
        .flat_map(|marker| [Some(&marker.pattern), marker.when.as_ref()]);
    let patterns = patterns.flatten().chain(&procedure.completion.forbid);
    let mut texts = std::iter::once(&*dir).chain(patterns.map(Pattern::as_str));
    let key = |name: &str| fields.get(name).or_else(|| fields.get("output_dir"));
    if procedure.scope == Scope::Subject
        && texts.any(has_session)
        && let Some(value) = key("scope")
    {
        value.problem_with(
            "{session} stands in a path, and a task of a subject has no session",
            "write '*' or 'ses-*' instead, or take 'scope: session'",
        );
    }
    if !procedure.has_template() {
        return;
    }
    let Some(value) = key("output_dir") else {
        return;
    };
    if !has_subject(&dir) {
        value.problem_with(
            "names sessions and no subject: the subjects would share it",
            "write {subject} in it as well, such as 'freesurfer/{subject}_{session}'",
        );
    }
    let is_own = |marker: &Marker| has_session(marker.pattern.as_str());
    let tells_sessions = has_session(&dir) || !markers.is_empty() && markers.iter().all(is_own);
    if procedure.scope == Scope::Session && !tells_sessions {
        value.problem_with(
            "has no {session}: all sessions of a subject would be complete together",
            "write {session} in it or in each marker, or take 'scope: subject'",
        );
    }
    if procedure.check != Check::Markers {
        value.problem_with(
            format!(
                "the {} check looks below its own names, and knows no placeholders",
                procedure.check
            ),
            "write 'check: markers', and the files that must be there in completion_marker",
        );
    }
}
