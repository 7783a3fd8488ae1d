//! Files that appear whole or not at all, and lines that are added to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::executor::ExecutorError;

/// Says how far the writing of a file came.
#[derive(Debug)]
pub enum Written {
    /// It stands, and survives a power cut.
    Yes,
    /// Somebody else's file stands under that name.
    Taken,
    /// It stands; whether it survives a power cut is not known.
    Unsynced(io::Error),
}

/// Makes a file appear whole under its name, or not at all, unless the name is taken.
pub(super) fn write_once(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Written> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let dir = path.parent().unwrap_or(Path::new("/"));
    let temporary = dir.join(format!(
        ".tmp-{}-{}-{}",
        crate::base::sys::host_name().replace('/', "_"),
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    ));
    let linked = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::hard_link(&temporary, path));
    let written = match linked {
        Ok(()) => Ok(true),
        // Over NFS an answer can get lost and the request be sent again: then the file is there,
        // and it is this one.
        Err(error) if is_same_file(&temporary, path) => {
            tracing::debug!(%error, path = %path.display(), "linked in spite of an error");
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let _ = std::fs::remove_file(&temporary);
    Ok(match (written?, sync_dir(dir)) {
        (false, _) => Written::Taken,
        (true, Ok(())) => Written::Yes,
        (true, Err(error)) => Written::Unsynced(error),
    })
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::symlink_metadata(a), std::fs::symlink_metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

pub(super) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    // A line that an earlier call could not finish must not swallow the next one.
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

pub(super) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> ExecutorError {
    let path = path.to_owned();
    move |source| ExecutorError::Io {
        action,
        path,
        source,
    }
}

pub(super) fn damaged(path: &Path, what: &str) -> ExecutorError {
    io_error("understand", path)(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what}; if its job is surely gone, move this file away"),
    ))
}
