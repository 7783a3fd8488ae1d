//! Path values: expands `~`, `${VAR}` and `${VAR:-default}`, and makes paths absolute.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Replaces a leading `~` and every `${...}`. An empty variable counts as unset, like
/// `:-` in a shell. Any other `$` is kept.
pub(crate) fn expand(
    text: &str,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<OsString, String> {
    let mut out = Vec::new();
    let mut rest = home(text, env, &mut out)?;
    while let Some((before, from)) = rest.split_once("${") {
        out.extend_from_slice(before.as_bytes());
        let (inside, after) = from.split_once('}').ok_or("'${' has no closing '}'")?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_variable_name(name) {
            return Err(format!(
                "'{inside}' is not the name of an environment variable"
            ));
        }
        match (env(name).filter(|value| !value.is_empty()), default) {
            (Some(value), _) => out.extend_from_slice(value.as_bytes()),
            (None, Some(default)) if out.is_empty() => {
                let rest = home(default, env, &mut out)?;
                out.extend_from_slice(rest.as_bytes());
            }
            (None, Some(default)) => out.extend_from_slice(default.as_bytes()),
            (None, None) => {
                return Err(format!(
                    "the environment variable {name} is not set: set it in the shell and for cron, or write ${{{name}:-default}}"
                ));
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(OsString::from_vec(out))
}

/// The variables in a text that are set, and so contribute to its expansion.
pub(super) fn variables(text: &str, env: &dyn Fn(&str) -> Option<OsString>) -> Vec<String> {
    let inside = text.split("${").skip(1);
    let inside = inside.filter_map(|rest| Some(rest.split_once('}')?.0));
    let names = inside.map(|text| text.split_once(":-").map_or(text, |(name, _)| name));
    let is_set = |name: &&str| env(name).is_some_and(|value| !value.is_empty());
    names.filter(is_set).map(str::to_owned).collect()
}

pub(super) fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Strips a leading `~` and appends the home directory to `out`.
fn home<'a>(
    text: &'a str,
    env: &dyn Fn(&str) -> Option<OsString>,
    out: &mut Vec<u8>,
) -> Result<&'a str, String> {
    let Some(rest) = text.strip_prefix('~') else {
        return Ok(text);
    };
    if !rest.is_empty() && !rest.starts_with('/') {
        let user = text.split('/').next().unwrap_or(text);
        return Err(format!(
            "home directories of other users ('{user}') are not supported: write the path in full"
        ));
    }
    let home = env("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or("cannot expand '~': the environment variable HOME is not set")?;
    out.extend_from_slice(home.as_bytes());
    Ok(rest)
}

/// Makes a path absolute and removes `.`, and `..` where the directory before it is not a symbolic
/// link (removing it would change the path's meaning).
pub(crate) fn absolute(base: &Path, path: &OsStr) -> PathBuf {
    let mut result = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::ParentDir
                if result.file_name().is_some()
                    && std::fs::symlink_metadata(&result).is_ok_and(|found| found.is_dir()) =>
            {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<OsString> {
        match name {
            "HOME" => Some("/home/u".into()),
            "DATA" => Some("/mnt/data".into()),
            "TILDE" => Some("~/x".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }
    }

    #[test]
    fn home_and_variables_are_expanded() {
        for (text, expected) in [
            ("/a/b", "/a/b"),
            ("~", "/home/u"),
            ("~/a", "/home/u/a"),
            ("a~", "a~"),
            ("/a/~", "/a/~"),
            ("${DATA}/x", "/mnt/data/x"),
            ("/a${DATA}${DATA}", "/a/mnt/data/mnt/data"),
            ("${NONE:-/fall/back}/x", "/fall/back/x"),
            ("${NONE:-}x", "x"),
            ("${EMPTY:-y}", "y"),
            ("${NONE:-~/d}/e", "/home/u/d/e"),
            ("/a/${NONE:-~}", "/a/~"),
            ("${TILDE}", "~/x"),
            ("$DATA/$x$", "$DATA/$x$"),
            ("é/${DATA}", "é//mnt/data"),
        ] {
            assert_eq!(expand(text, &env), Ok(expected.into()), "{text}");
        }
    }

    #[test]
    fn a_failed_expansion_explains_why() {
        for (text, error) in [
            ("${NONE}/x", "NONE is not set"),
            ("${EMPTY}", "EMPTY is not set"),
            ("${", "no closing"),
            ("${DATA", "no closing"),
            ("${}", "'' is not the name"),
            ("${1A}", "'1A' is not the name"),
            ("${A B}", "'A B' is not the name"),
            ("${A:+b}", "'A:+b' is not the name"),
            ("~other/x", "('~other')"),
        ] {
            let found = expand(text, &env).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        assert!(expand("~/x", &|_| None).unwrap_err().contains("HOME"));
    }

    #[test]
    fn a_parent_is_removed_only_if_it_is_not_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::os::unix::fs::symlink(root.join("real/deep"), root.join("link")).unwrap();
        let at = |base: &str, path: &str| absolute(&root.join(base), OsStr::new(path));
        assert_eq!(at("real", "./x//y"), root.join("real/x/y"));
        assert_eq!(at("real", "../x"), root.join("x"));
        assert_eq!(at("real/deep", "../../x"), root.join("x"));
        assert_eq!(at("link", "../x"), root.join("link/../x"));
        assert_eq!(at("missing", "../x"), root.join("missing/../x"));
        assert_eq!(at("real", "/abs/x"), PathBuf::from("/abs/x"));
        assert_eq!(at("real", ".."), root);
        assert_eq!(
            absolute(Path::new("/"), OsStr::new("../x")),
            PathBuf::from("/../x")
        );
    }
}
