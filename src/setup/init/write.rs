//! Writes new files: all of them or none, and never over an existing file.

use std::io;
use std::path::{Path, PathBuf};

use super::{InitError, NewFile};
use crate::base::durable::{Temporary, sync_directory_of};
use crate::setup::place::{self, Place};

/// Checks that a file does not exist, not even as a broken link.
///
/// # Errors
/// It exists, or that is unknown.
pub fn check_new(path: &Path) -> Result<(), InitError> {
    match path.symlink_metadata() {
        Ok(_) => Err(InitError::exists(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(InitError::io("access", path, &error)),
    }
}

/// Creates the directories and writes the files into `dir`. After an error, none of them remains.
///
/// # Errors
/// A file already exists or cannot be written.
pub fn write(files: &[NewFile], directories: &[PathBuf], dir: &Path) -> Result<(), InitError> {
    let paths: Vec<PathBuf> = files.iter().map(|file| dir.join(&file.path)).collect();
    paths.iter().try_for_each(|path| check_new(path))?;
    let mut created = Created::default();
    let parents = paths.iter().map(|path| place::parent(path));
    for directory in parents.chain(directories.iter().cloned()) {
        created.directory(&directory)?;
    }
    // All are on disk before the first gets its name, so that a full disk leaves nothing.
    let mut ready: Vec<(Temporary, PathBuf)> = Vec::new();
    for (file, path) in files.iter().zip(paths) {
        let mode = if file.is_executable { 0o777 } else { 0o666 };
        let temporary = Temporary::new(&path, file.text.as_bytes(), mode, None)
            .map_err(|error| InitError::io("write", &path, &error.source))?;
        ready.push((temporary, path));
    }
    for (temporary, path) in ready {
        match temporary.put(&path) {
            Ok(true) => created.files.push(path),
            Ok(false) => return Err(InitError::exists(&path)),
            Err(error) => return Err(InitError::io("write", &path, &error)),
        }
    }
    for path in created.files.iter().chain(&created.directories) {
        let synced = sync_directory_of(path);
        synced.map_err(|error| InitError::io("sync the directory of", path, &error))?;
    }
    // Keeps them.
    created.files.clear();
    created.directories.clear();
    Ok(())
}

/// Created files and directories, which are removed again after an error.
#[derive(Default)]
struct Created {
    files: Vec<PathBuf>,
    /// Parents come first.
    directories: Vec<PathBuf>,
}

impl Created {
    /// Creates a directory and its missing parents.
    fn directory(&mut self, path: &Path) -> Result<(), InitError> {
        let mut parts: Vec<&Path> = path.ancestors().collect();
        parts.reverse();
        for part in parts {
            match std::fs::create_dir(part) {
                Ok(()) => self.directories.push(part.to_owned()),
                Err(_) if place::inspect(part) == Place::Directory => {}
                Err(_) if place::inspect(part) == Place::Other => {
                    let error = io::ErrorKind::NotADirectory.into();
                    return Err(InitError::io("create", part, &error));
                }
                Err(error) => return Err(InitError::io("create", part, &error)),
            }
        }
        Ok(())
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // A failure means that the directory was not empty or is no longer writable.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for directory in self.directories.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(path: &str, is_executable: bool) -> NewFile {
        NewFile {
            path: path.into(),
            text: format!("text of {path}\n"),
            is_executable,
        }
    }

    fn all(dir: &Path) -> Vec<String> {
        let walk = walkdir::WalkDir::new(dir).min_depth(1).sort_by_file_name();
        walk.into_iter()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().strip_prefix(dir).unwrap();
                path.to_string_lossy().into_owned()
            })
            .collect()
    }

    #[test]
    fn all_files_are_written() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("a/b");
        let log = tmp.path().join("log/x");
        write(
            &[file("c.yaml", false), file("s/x.sh", true)],
            std::slice::from_ref(&log),
            &dir,
        )
        .unwrap();
        assert_eq!(
            all(tmp.path()),
            [
                "a",
                "a/b",
                "a/b/c.yaml",
                "a/b/s",
                "a/b/s/x.sh",
                "log",
                "log/x"
            ]
        );
        let mode = |path: &str| dir.join(path).metadata().unwrap().permissions().mode() & 0o111;
        assert_eq!(mode("c.yaml"), 0);
        assert_ne!(mode("s/x.sh") & 0o100, 0);
    }

    #[test]
    fn existing_files_prevent_all_changes() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::create_dir(tmp.path().join("s")).unwrap();
        std::os::unix::fs::symlink("nowhere", tmp.path().join("s/x.sh")).unwrap();
        let before = all(tmp.path());
        let files = [
            file("c.yaml", false),
            file("s/x.sh", true),
            file("t/y.sh", true),
        ];
        let error = write(&files, &[tmp.path().join("log")], tmp.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("s/x.sh already exists; nothing was written")
        );
        assert_eq!(all(tmp.path()), before);
    }

    #[test]
    fn files_created_before_a_failure_are_removed() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::write(tmp.path().join("file"), "").unwrap();
        let files = [file("d/c.yaml", false)];
        let error = write(&files, &[tmp.path().join("file/log")], tmp.path()).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
        assert_eq!(all(tmp.path()), ["file"]);
        // A name that is too long fails only when the file is renamed.
        let files = [file("d/c.yaml", false), file(&"x".repeat(300), false)];
        assert!(write(&files, &[], tmp.path()).is_err());
        assert_eq!(all(tmp.path()), ["file"]);
    }
}
