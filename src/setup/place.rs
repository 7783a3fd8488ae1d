//! What stands at a path, and whether this user may write there. Changes nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that looks at the places of a site"
)]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::base::regular::error_text;
pub use crate::base::regular::resolved;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Directory,
    /// Something else.
    Other,
    Missing,
    /// The system's words.
    Unreadable(String),
}

/// Looks at a path, through links.
pub fn look(path: &Path) -> Place {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Place::Directory,
        Ok(_) => Place::Other,
        Err(error) if is_missing(&error) => Place::Missing,
        Err(error) => Place::Unreadable(error_text(&error)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::NotFound || kind == io::ErrorKind::NotADirectory
}

pub fn is_there(path: &Path) -> bool {
    look(path) != Place::Missing
}

/// True if this user may make files in a directory.
pub fn is_writable(dir: &Path) -> bool {
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns whether a file can be executed; an error says why it cannot be used at all.
pub fn is_program(path: &Path) -> Result<bool, String> {
    let metadata = fs::metadata(path).map_err(|error| error_text(&error))?;
    Ok(metadata.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Returns the nearest directory above that is there, or the path itself, with links followed.
pub fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|dir| dir.canonicalize().ok());
    found.unwrap_or_else(|| PathBuf::from("/"))
}

/// Returns the permission bits of a file or directory.
pub fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o7777)
}

/// Returns the directory of a file.
pub fn parent(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

/// True if a directory can be read and holds nothing.
pub fn is_empty(dir: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(dir)?.next().transpose()?.is_none())
}

/// Returns the paths in a directory, sorted.
pub fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Where cron looks for commands (crontab(5)).
pub const CRON_PATH: &str = "/usr/bin:/bin";

/// True if cron finds the programs of a directory by itself.
pub fn is_on_cron_path(dir: &Path) -> bool {
    CRON_PATH.split(':').any(|known| dir == Path::new(known))
}

/// Takes some of a list, evenly spread.
pub fn sample<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    items.iter().step_by(items.len().div_ceil(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_seen_as_they_are() {
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
            assert_eq!(look(&at(name)), expected, "{name}");
        }
        assert!(is_empty(&at("empty")).unwrap() && !is_empty(&at("link")).unwrap());
        assert_eq!(entries(&at("full")).unwrap(), [at("full/sub-01")]);
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(&at("none/deeper")), real);
        assert_eq!(resolved(&at("link/none/x")), real.join("full/none/x"));
        assert_eq!(mode(&at("none")), None);
        assert_eq!(is_program(&at("file")), Ok(false));
        assert!(is_program(&at("none")).is_err());
        assert_eq!(is_program(Path::new("/bin/sh")), Ok(true));
    }

    #[test]
    fn a_sample_is_spread_and_never_too_large() {
        for (len, most) in [(0, 5), (3, 5), (5, 5), (6, 5), (10_000, 500), (501, 500)] {
            let items: Vec<usize> = (0..len).collect();
            let chosen: Vec<&usize> = sample(&items, most).collect();
            assert!(chosen.len() <= most, "{len} {most}");
            assert_eq!(chosen.is_empty(), len == 0);
            assert!(len > most || chosen.len() == len);
        }
    }
}
