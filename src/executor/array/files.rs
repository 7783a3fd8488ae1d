//! The directories of arrays: written once before sbatch, read when a job of an array has no row, and removed when
//! no longer needed.
#![expect(clippy::disallowed_methods, reason = "lists the directories of arrays")]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::list;
use super::wrapper::{self, File};
use crate::base::durable::{self, create, make_directory_of, sync_directory_of};
use crate::base::regular::FileError;
use crate::model::job::array::is_array_id;
use crate::model::state::TaskKey;

/// The minimum age of an array's directory for removal.
pub const KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 3600);

/// Writes the files of an array and syncs them and their directories. Existing files are an error unless they have
/// the same contents.
pub fn write(dir: &Path, files: &[File]) -> Result<(), FileError> {
    // The directory above may also be new.
    make_directory_of(dir).map_err(FileError::of("create the directory of", dir))?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(FileError::of("create", dir)(error));
        }
        _ => {}
    }
    for file in files {
        let path = dir.join(file.name);
        let is_new = create(&path, &file.bytes, 0o444).map_err(FileError::of("write", &path))?;
        if !is_new && fs::read(&path).map_err(FileError::of("read", &path))? != file.bytes {
            let problem = io::Error::other("it already exists with different contents");
            return Err(FileError::of("write", &path)(problem));
        }
    }
    sync_directory_of(&dir.join(wrapper::WRAPPER)).map_err(FileError::of("sync", dir))?;
    sync_directory_of(dir).map_err(FileError::of("sync the directory of", dir))
}

/// Removes the files of an array that was certainly not accepted.
pub fn remove(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir) {
        tracing::debug!("cannot remove {}: {error}", dir.display());
    }
}

/// The tasks of an array by index; `None` if there is no such list.
pub fn read(arrays: &Path, submission_id: &str) -> Result<Option<Vec<TaskKey>>, FileError> {
    if !is_array_id(submission_id) {
        return Ok(None);
    }
    let path = arrays.join(submission_id).join(wrapper::LIST);
    let text = durable::read(&path).map_err(FileError::of("read", &path))?;
    let Some(text) = text else { return Ok(None) };
    list::parse(&text, submission_id)
        .map(Some)
        .map_err(|problem| FileError::of("use the task list", &path)(io::Error::other(problem)))
}

/// The array whose submission id has this beginning, if there is exactly one.
pub fn find(arrays: &Path, beginning: &str) -> Option<String> {
    let mut found = ids(arrays).filter(|id| id.starts_with(beginning));
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// Removes the old directories of arrays except those whose submission ids are `needed`. Returns the ones that
/// could not be removed.
pub fn clean(
    arrays: &Path,
    needed: &HashSet<String>,
    is_old: &dyn Fn(&fs::Metadata) -> bool,
) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    for id in ids(arrays).filter(|id| !needed.contains(id)) {
        let path = arrays.join(id);
        let removed = fs::symlink_metadata(&path).and_then(|metadata| {
            if metadata.is_dir() && is_old(&metadata) {
                fs::remove_dir_all(&path)?;
            }
            Ok(())
        });
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            failed.push((path, error));
        }
    }
    failed
}

/// Entries with other names are not ours.
fn ids(arrays: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(arrays)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_array_id(name))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const ID: &str = "array-0123456789abcdef";

    fn file(bytes: &[u8]) -> File {
        File {
            name: wrapper::LIST,
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn a_written_array_is_never_changed() {
        let home = tempfile::tempdir().unwrap();
        let arrays = home.path().join("state.arrays");
        let dir = arrays.join(ID);
        write(&dir, &[file(b"a")]).unwrap();
        write(&dir, &[file(b"a")]).unwrap();
        let error = write(&dir, &[file(b"b")]).unwrap_err();
        assert!(error.to_string().contains("different contents"), "{error}");
        assert_eq!(fs::read(dir.join(wrapper::LIST)).unwrap(), b"a");
        assert!(read(&arrays, ID).is_err());
        assert!(read(&arrays, "array-0000000000000000").unwrap().is_none());
        assert!(read(&arrays, "../x").unwrap().is_none());
        assert_eq!(find(&arrays, "array-01234567").as_deref(), Some(ID));
        assert_eq!(find(&arrays, "array-11234567"), None);
    }

    #[test]
    fn only_old_arrays_that_are_not_needed_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let arrays = home.path();
        let old = "array-00000000000000aa";
        let needed = "array-00000000000000bb";
        let young = "array-00000000000000cc";
        for name in [old, needed, young, "other", "array-x"] {
            fs::create_dir(arrays.join(name)).unwrap();
            let age = if name == young { 13 } else { 15 };
            let time = SystemTime::now() - Duration::from_secs(age * 24 * 3600);
            fs::File::open(arrays.join(name))
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let is_old =
            |metadata: &fs::Metadata| metadata.modified().unwrap() < SystemTime::now() - KEPT_FOR;
        let failed = clean(arrays, &HashSet::from([needed.to_owned()]), &is_old);
        assert!(failed.is_empty(), "{failed:?}");
        let mut left: Vec<String> = fs::read_dir(arrays)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "array-00000000000000bb",
                "array-00000000000000cc",
                "array-x",
                "other"
            ]
        );
        assert!(clean(&arrays.join("nowhere"), &HashSet::new(), &is_old).is_empty());
    }
}
