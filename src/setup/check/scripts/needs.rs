//! Finds the files that a script requires, such as images and licences.

use std::path::PathBuf;

/// Endings of names of shell variables whose values are files.
const FILES: [&str; 7] = [
    "IMAGE",
    "SIF",
    "CONTAINER",
    "LICENSE",
    "LICENCE",
    "HEURISTIC",
    "CONFIG",
];

/// The files that a script requires, each with the variable that a site can set for it. `env` contains the job's
/// variables.
pub(super) fn files(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if !name.chars().all(is_name) || !FILES.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let (variable, value) = assigned(name, value, env);
        // Values that contain variables or are not paths (docker://...) cannot be checked here.
        if value.starts_with('/') && !value.contains('$') {
            files.push((variable.to_owned(), value.into()));
        }
    }
    files
}

/// The variable that determines an assignment, and its value.
fn assigned<'a>(
    name: &'a str,
    value: &'a str,
    env: &dyn Fn(&str) -> Option<String>,
) -> (&'a str, String) {
    let inner = value
        .strip_prefix("${")
        .and_then(|rest| rest.trim_end().strip_suffix('}'));
    let Some((variable, default)) = inner.and_then(|inner| inner.split_once('-')) else {
        return (name, unquoted(value));
    };
    let variable = variable.trim_end_matches(':');
    let set = env(variable).filter(|value| !value.is_empty());
    (variable, set.unwrap_or_else(|| unquoted(default)))
}

/// A word without surrounding quotes; other quotes remain.
fn unquoted(word: &str) -> String {
    let word = word.trim_end();
    for quote in ['\'', '"'] {
        let inner = word
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.replace(r"'\''", "'");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::catalogue::{app, apps};

    fn shown(text: &str, set: &[(&str, &str)]) -> String {
        let env = |name: &str| {
            let mut set = set.iter();
            set.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let files = files(text, &env).into_iter();
        let files = files.map(|(variable, path)| format!("{variable}={}", path.display()));
        files.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn images_and_licences_of_the_catalogue_are_found() {
        for app in apps() {
            let found = shown(app.script, &[]);
            assert!(found.contains("_IMAGE=/opt/containers/"), "{found}");
        }
        assert_eq!(
            shown(app("fmriprep").unwrap().script, &[]),
            "SNBB_FMRIPREP_IMAGE=/opt/containers/fmriprep.sif SNBB_FS_LICENSE=/opt/freesurfer/license.txt"
        );
        let set = [("SNBB_HEUDICONV_IMAGE", "/i.sif"), ("SNBB_HEURISTIC", "")];
        assert_eq!(
            shown(app("heudiconv").unwrap().script, &set),
            "SNBB_HEUDICONV_IMAGE=/i.sif SNBB_HEURISTIC=/opt/snbb/heuristic.py"
        );
    }

    #[test]
    fn files_of_other_scripts_are_found_where_possible() {
        for (text, expected) in [
            ("export FS_LICENSE=\"/l x.txt\"\n", "FS_LICENSE=/l x.txt"),
            ("X_CONFIG=${A:-'/it'\\''s'}\n", "A=/it's"),
            ("IMAGE=docker://x/y\nsingularity run $IMAGE\n", ""),
            ("IMAGE=$HOME/x.sif\nOTHER=/x\n", ""),
        ] {
            assert_eq!(shown(text, &[]), expected, "{text}");
        }
    }
}
