//! Removes old logs: only files with given names directly in `<log dir>/<procedure>`. Follows no
//! links, and removes nothing below the data roots.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::base::regular::FileError;
use chrono::{DateTime, Utc};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// The old logs of one directory, which is held open so that a link cannot take its place.
#[derive(Debug)]
pub struct OldLogs {
    pub directory: PathBuf,
    opened: OwnedFd,
    /// Sorted, with sizes.
    pub files: Vec<(String, u64)>,
}

/// Why logs are not removed.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("{} is inside {root} ({}), where nothing is ever removed", .directory.display(), .path.display())]
    BelowData {
        directory: PathBuf,
        root: &'static str,
        path: PathBuf,
    },
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Finds logs by name that were not written since `before`; none in a directory that is missing or a
/// link.
pub fn find(
    log_dir: &Path,
    names: &BTreeMap<String, HashSet<String>>,
    roots: &[(&'static str, &Path)],
    before: DateTime<Utc>,
) -> Result<Vec<OldLogs>, LogsError> {
    let log_dir = match std::fs::canonicalize(log_dir) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed("follow", log_dir, source)),
    };
    let roots: Vec<(&'static str, PathBuf)> = roots
        .iter()
        .filter_map(|(name, path)| Some((*name, std::fs::canonicalize(path).ok()?)))
        .collect();
    let mut found = Vec::new();
    for (procedure, names) in names {
        // Rows that other programs wrote may contain any text.
        if procedure.contains('/') || ["", ".", ".."].contains(&procedure.as_str()) {
            continue;
        }
        let directory = log_dir.join(procedure);
        if let Some((root, path)) = roots.iter().find(|(_, root)| directory.starts_with(root)) {
            return Err(LogsError::BelowData {
                directory,
                root,
                path: path.clone(),
            });
        }
        if let Some(old) = old_of(directory, names, before)? {
            found.push(old);
        }
    }
    Ok(found)
}

impl OldLogs {
    /// Removes the files; one that is already gone is no error.
    pub fn remove(&self) -> Result<(), LogsError> {
        for (name, _) in &self.files {
            match rustix::fs::unlinkat(&self.opened, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => {
                    return Err(failed("remove", &self.directory.join(name), errno.into()));
                }
            }
        }
        Ok(())
    }

    /// Total bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }
}

fn old_of(
    directory: PathBuf,
    names: &HashSet<String>,
    before: DateTime<Utc>,
) -> Result<Option<OldLogs>, LogsError> {
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(CWD, &directory, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(failed("read", &directory, errno.into())),
    };
    let read = |errno: Errno| failed("read", &directory, errno.into());
    let mut files = Vec::new();
    for entry in Dir::read_from(&opened).map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let Some(name) = name.to_str().filter(|name| names.contains(*name)) else {
            continue;
        };
        let stat = match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(read(errno)),
        };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_mtime < before.timestamp() {
            files.push((name.to_owned(), u64::try_from(stat.st_size).unwrap_or(0)));
        }
    }
    files.sort();
    Ok(Some(OldLogs {
        directory,
        opened,
        files,
    }))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> LogsError {
    FileError::of(action, path)(source).into()
}
