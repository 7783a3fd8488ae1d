//! What must hold between `output_dir`, the markers and the scope where a path says by `{subject}` and `{session}`
//! whose it is.

use super::reader::Fields;
use crate::model::procedure::marker::{Base, Marker, Pattern, Required};
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
        .flat_map(|marker| std::iter::once(&marker.pattern).chain(&marker.when));
    let patterns = patterns.chain(&procedure.completion.forbid);
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
    // Below the task's own directory a marker tells sessions apart without saying so.
    let is_own = |marker: &Marker| {
        has_session(marker.pattern.as_str())
            || marker.base == Base::Task && !procedure.has_template()
    };
    let tells_sessions = has_session(&dir)
        || markers.iter().any(is_own)
        || markers.is_empty() && !procedure.has_template();
    if procedure.scope == Scope::Session
        && !tells_sessions
        && let Some(value) = key("completion_marker")
    {
        value.problem_with(
            "no path has {session}: all sessions of a subject would be complete together",
            "write {session} in output_dir or in a marker, or take 'scope: subject'",
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
