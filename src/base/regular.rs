//! Reading regular files as a whole; anything else is an error at once.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// An error with the file and the action that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", .path.display())]
pub struct FileError {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl FileError {
    pub fn of(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        error.source
    }
}

/// `None` if the file does not exist.
pub fn if_exists<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Device and inode, which identify a file whatever its paths are.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens a regular file for reading. A pipe would wait for its other end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    require_regular(&file)?;
    Ok(file)
}

/// Opens a file for reading and appending, and creates it if needed. Does not check that it is a regular file.
pub fn open_for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fails for anything but a regular file.
pub fn require_regular(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        let kind = io::ErrorKind::IsADirectory;
        Err(io::Error::new(kind, "it is a directory"))
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// True if a file is on a file system of this machine alone, where a read shows what was written last. A client of a
/// network file system can show the earlier size of a file for some seconds after another node has replaced it.
pub fn is_local(path: &Path) -> bool {
    // linux/magic.h: ext, XFS, Btrfs, tmpfs, overlayfs; ZFS.
    const LOCAL: [i64; 6] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0x0102_1994,
        0x794C_7630,
        0x2FC1_2FC1,
    ];
    rustix::fs::statfs(path).is_ok_and(|found| LOCAL.contains(&found.f_type))
}

/// The path with links followed, as far as it exists.
pub fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// The system's message without its number: `Permission denied`.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
