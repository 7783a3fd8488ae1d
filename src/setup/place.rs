//! What is at a path, and whether this user can write there. Changes nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "this leaf module reads a site's directories"
)]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::base::regular::error_text;
pub use crate::base::regular::resolved;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Directory,
    Other,
    Missing,
    /// With the system's error message.
    Unreadable(String),
}

/// What is at a path, with links followed.
pub fn inspect(path: &Path) -> Place {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Place::Directory,
        Ok(_) => Place::Other,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Place::Missing,
            _ => Place::Unreadable(error_text(&error)),
        },
    }
}

pub fn is_there(path: &Path) -> bool {
    inspect(path) != Place::Missing
}

/// True if this user can create files in a directory.
pub fn is_writable(dir: &Path) -> bool {
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Whether a file can be executed, or why it cannot be accessed.
pub fn is_program(path: &Path) -> Result<bool, String> {
    let metadata = fs::metadata(path).map_err(|error| error_text(&error))?;
    Ok(metadata.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// The path itself or its nearest existing ancestor, with links followed.
pub fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|dir| dir.canonicalize().ok());
    found.unwrap_or_else(|| PathBuf::from("/"))
}

/// The permission bits of a file or directory.
pub fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o7777)
}

/// The directory of a file.
pub fn parent(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

pub fn is_empty(dir: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(dir)?.next().transpose()?.is_none())
}

/// The names in a directory that are not hidden, sorted; empty if it cannot be read.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// Cron's search path (crontab(5)).
pub const CRON_PATH: &str = "/usr/bin:/bin";

pub fn is_on_cron_path(dir: &Path) -> bool {
    CRON_PATH.split(':').any(|known| dir == Path::new(known))
}

/// At most `most` items of a list, evenly spread.
pub fn sample<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    items.iter().step_by(items.len().div_ceil(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        fs::create_dir(at("empty")).unwrap();
        fs::create_dir_all(at("full/sub-01")).unwrap();
        std::os::unix::fs::symlink(at("full"), at("link")).unwrap();
        for (name, expected) in [
            ("file", Place::Other),
            ("empty", Place::Directory),
            ("link", Place::Directory),
            ("none", Place::Missing),
            ("file/below", Place::Missing),
        ] {
            assert_eq!(inspect(&at(name)), expected, "{name}");
        }
        assert!(is_empty(&at("empty")).unwrap() && !is_empty(&at("link")).unwrap());
        assert_eq!(names(&at("full")), ["sub-01"]);
        assert!(names(&at("file")).is_empty());
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(&at("none/deeper")), real);
        assert_eq!(resolved(&at("link/none/x")), real.join("full/none/x"));
        assert_eq!(mode(&at("none")), None);
        assert_eq!(is_program(&at("file")), Ok(false));
        assert!(is_program(&at("none")).is_err());
        assert_eq!(is_program(Path::new("/bin/sh")), Ok(true));
    }

    #[test]
    fn a_sample_is_spread_and_limited() {
        for (len, most) in [(0, 5), (3, 5), (5, 5), (6, 5), (10_000, 500), (501, 500)] {
            let items: Vec<usize> = (0..len).collect();
            let chosen: Vec<&usize> = sample(&items, most).collect();
            assert!(chosen.len() <= most, "{len} {most}");
            assert_eq!(chosen.is_empty(), len == 0);
            assert!(len > most || chosen.len() == len);
        }
    }
}
