//! Where files that a person names may be written: outside the data, and not over the program's own files.

use std::path::{Path, PathBuf};

use crate::config::Config;

/// Returns the data root that a path lies below, links followed as far as there is something.
pub fn root_above<'a>(config: &'a Config, path: &Path) -> Option<(&'static str, &'a Path)> {
    let path = real(&absolute(path));
    let roots = [
        ("dicom_root", &config.dicom_root),
        ("bids_root", &config.bids_root),
        ("derivatives_root", &config.derivatives_root),
    ];
    let mut roots = roots.into_iter();
    roots
        .find(|(_, root)| path.starts_with(real(root)))
        .map(|(key, root)| (key, root.as_path()))
}

/// True if a path is that of the state file, of a file beside it that bears its name, or of the audit log, whether
/// they are there already or not.
pub fn is_own(config: &Config, path: &Path) -> bool {
    let path = real(&absolute(path));
    let state = real(&config.state_file);
    let is_beside = path.parent() == state.parent();
    let begins_alike = match (path.file_name(), state.file_stem()) {
        (Some(name), Some(stem)) => name
            .as_encoded_bytes()
            .strip_prefix(stem.as_encoded_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b".")),
        _ => false,
    };
    is_beside && begins_alike || path == real(&config.log_file)
}

fn absolute(path: &Path) -> PathBuf {
    let working_dir = std::env::current_dir().unwrap_or_else(|_| "/".into());
    working_dir.join(path)
}

fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}
