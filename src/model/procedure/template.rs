//! `{subject}` and `{session}` in paths of outputs.

use std::borrow::Cow;

use crate::model::bids::is_of_label;

const SUBJECT: &str = "{subject}";
const SESSION: &str = "{session}";

/// True if a text contains a placeholder.
pub fn has_any(text: &str) -> bool {
    // Most texts have none, and a single character is found faster.
    text.contains('{') && (text.contains(SUBJECT) || text.contains(SESSION))
}

pub fn has_subject(text: &str) -> bool {
    text.contains(SUBJECT)
}

pub fn has_session(text: &str) -> bool {
    text.contains(SESSION)
}

/// The first brace outside of placeholders, with the text after it.
pub fn stray_brace(text: &str) -> Option<String> {
    let rest = text.replace(SUBJECT, "").replace(SESSION, "");
    let at = rest.find(['{', '}'])?;
    Some(rest.get(at..)?.chars().take(20).collect())
}

/// A placeholder without a separator after it: for `sub-1`, `{subject}*` would match files of `sub-10`.
pub fn open_end(text: &str) -> Option<&'static str> {
    [SUBJECT, SESSION].into_iter().find(|placeholder| {
        let ends = text.match_indices(placeholder);
        let mut after = ends.filter_map(|(at, found)| text.get(at + found.len()..));
        after.any(may_continue_label)
    })
}

fn may_continue_label(rest: &str) -> bool {
    if let Some(class) = rest.strip_prefix('[') {
        // A bracket at the start of a class is a member of it.
        let end = class.char_indices().skip(1).find(|(_, c)| *c == ']');
        let members = class
            .get(..end.map_or(class.len(), |(at, _)| at))
            .unwrap_or_default();
        let is_range = members.trim_matches('-').contains('-');
        return is_range || members.starts_with(['!', '^']) || members.contains(is_of_label);
    }
    rest.starts_with(|next| is_of_label(next) || next == '*' || next == '?')
}

/// Replaces the placeholders in a text. Without a session, the separator next to `{session}` is removed, too:
/// `{subject}_{session}` and `{subject}/{session}` become `sub-01`.
pub fn fill<'t>(text: &'t str, subject: &str, session: &str) -> Cow<'t, str> {
    if !has_any(text) {
        return Cow::Borrowed(text);
    }
    let mut filled = text.replace(SUBJECT, subject);
    if session.is_empty() {
        for tied in ["_{session}", "/{session}", "{session}_", "{session}/"] {
            filled = filled.replace(tied, "");
        }
    }
    Cow::Owned(filled.replace(SESSION, session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_a_missing_session_is_removed() {
        for (text, session, expected) in [
            (
                "freesurfer/{subject}_{session}",
                "ses-1",
                "freesurfer/sub-01_ses-1",
            ),
            ("freesurfer/{subject}_{session}", "", "freesurfer/sub-01"),
            ("{subject}/{session}/anat", "", "sub-01/anat"),
            ("{session}/{subject}", "", "sub-01"),
            (
                "{subject}_{session}_fmriprep-*.zip",
                "",
                "sub-01_fmriprep-*.zip",
            ),
            ("anat/*.json", "ses-1", "anat/*.json"),
        ] {
            assert_eq!(fill(text, "sub-01", session), expected);
        }
        assert_eq!(stray_brace("{subject}_{run}").as_deref(), Some("{run}"));
        assert_eq!(stray_brace("{subject}/{session}"), None);
        assert_eq!(open_end("{subject}*.html"), Some(SUBJECT));
        assert_eq!(open_end("a/{subject}_{session}?"), Some(SESSION));
        for class in [
            "[.-9]",
            "[!.]",
            "[0-9]",
            "[a_]",
            "[[:alnum:]_]",
            "[._+]",
            "[]a]",
            "+",
        ] {
            let pattern = format!("{{subject}}{class}*.html");
            assert_eq!(open_end(&pattern), Some(SUBJECT), "{pattern}");
        }
        for pattern in ["*{subject}[._]*html", "{subject}[_-]*", "{subject}"] {
            assert_eq!(open_end(pattern), None, "{pattern}");
        }
    }
}
