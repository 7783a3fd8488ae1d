//! Why a path may seem absent although it is not: a dangling link, a DataLad subdataset that is not installed, a file
//! of git-annex whose content is elsewhere.
//!
//! Checked only after a call found nothing or an empty directory, so paths that exist cost no extra call. Results for
//! directories are cached, since many absent paths share them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Stat, readlinkat, statat};
use rustix::io::Errno;

use super::{File, Reader, attempt, classify, list, unreadable};
use crate::base::text::FastMap;
use crate::gather::disk::{Unreadable, is_absence};
use crate::model::annex::{self, Annex, Elsewhere};

/// Bounds a `.gitmodules`: some 100,000 subdatasets.
const MAX_MODULES: usize = 32 << 20;

/// Cached results, for all threads.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// By parent directory of an absent path.
    directories: Mutex<FastMap<PathBuf, Result<(), Unreadable>>>,
    /// The paths in the `.gitmodules` of a directory; `None` if it does not have that file.
    modules: Mutex<FastMap<PathBuf, Option<Arc<Modules>>>>,
}

type Modules = HashSet<PathBuf>;

impl Reader {
    /// Confirms that a path is absent after a call found nothing, or that nothing below a directory exists. `Some` for a
    /// file of git-annex.
    ///
    /// # Errors
    /// The path may exist: a link on the way is dangling, or a subdataset is not installed.
    pub(super) fn confirm_absent(
        &self,
        path: &Path,
        is_above: bool,
    ) -> Result<Option<Elsewhere>, Unreadable> {
        match readlinkat(CWD, path, Vec::new()) {
            Ok(target) => match annex::elsewhere(target.as_bytes()) {
                Some(file) => Ok(Some(file)),
                None => leads_somewhere(path, target.as_bytes()).map(|()| None),
            },
            // Not a link.
            Err(Errno::INVAL) if is_above => self.check_installed(path).map(|()| None),
            Err(Errno::INVAL) => Ok(None),
            Err(errno) if is_absence(errno) => {
                let Some(parent) = path.parent() else {
                    return Ok(None);
                };
                cached(&self.hidden.directories, parent, || {
                    Ok(self.confirm_absent(parent, true).map(drop))
                })?
                .map(|()| None)
            }
            Err(errno) => Err(unreadable(path, errno)),
        }
    }

    /// Fails if an empty directory is a subdataset that is not installed.
    pub(super) fn check_empty(&self, dir: &Path) -> Result<(), Unreadable> {
        if self.annex == Annex::Present && self.is_module(dir)? {
            return Err(not_installed(dir));
        }
        Ok(())
    }

    fn check_installed(&self, dir: &Path) -> Result<(), Unreadable> {
        if self.annex != Annex::Present || !self.is_module(dir)? {
            return Ok(());
        }
        match list(dir) {
            Ok(listing) if listing.is_empty() => Err(not_installed(dir)),
            _ => Ok(()),
        }
    }

    /// True if the nearest dataset above a directory lists it as a submodule.
    fn is_module(&self, dir: &Path) -> Result<bool, Unreadable> {
        for above in dir.ancestors().skip(1) {
            if let Some(modules) = self.modules_of(above)? {
                let below = dir.strip_prefix(above).unwrap_or(dir);
                return Ok(modules.contains(below));
            }
        }
        Ok(false)
    }

    fn modules_of(&self, dataset: &Path) -> Result<Option<Arc<Modules>>, Unreadable> {
        cached(&self.hidden.modules, dataset, || {
            let path = dataset.join(".gitmodules");
            match read(&path) {
                Ok(text) => Ok(Some(Arc::new(paths(&text)))),
                Err(errno) if is_absence(errno) => Ok(None),
                Err(errno) => Err(unreadable(&path, errno)),
            }
        })
    }

    /// The [`Self::stat`] of a file of git-annex whose content is elsewhere.
    pub(super) fn elsewhere(
        &self,
        path: &Path,
        file: Elsewhere,
    ) -> Result<Option<Stat>, Unreadable> {
        let stat = attempt(path, || statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW));
        let size = file.size.and_then(|size| i64::try_from(size).ok());
        Ok(classify(path, stat)?.map(|mut stat| {
            stat.st_mode = FileType::RegularFile.as_raw_mode() | 0o444;
            stat.st_size = size.unwrap_or(i64::MAX);
            stat
        }))
    }

    pub(super) fn classify_text<T>(
        &self,
        path: &Path,
        text: Result<T, Errno>,
    ) -> Result<Option<T>, Unreadable> {
        match text {
            Err(errno) if is_absence(errno) => match self.confirm_absent(path, false)? {
                Some(_) if self.annex == Annex::Present => Err(Unreadable {
                    path: path.to_owned(),
                    error: "its content is not on this machine (git-annex)".to_owned(),
                }),
                _ => Ok(None),
            },
            other => classify(path, other),
        }
    }
}

/// Not locked while the value is computed.
fn cached<V: Clone>(
    cache: &Mutex<FastMap<PathBuf, V>>,
    path: &Path,
    compute: impl FnOnce() -> Result<V, Unreadable>,
) -> Result<V, Unreadable> {
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(path) {
        return Ok(known.clone());
    }
    let value = compute()?;
    lock().insert(path.to_owned(), value.clone());
    Ok(value)
}

fn leads_somewhere(link: &Path, target: &[u8]) -> Result<(), Unreadable> {
    match statat(CWD, link, AtFlags::empty()) {
        Ok(_) => Ok(()),
        Err(errno) if is_absence(errno) => Err(Unreadable {
            path: link.to_owned(),
            error: format!(
                "dangling link (to {})",
                Path::new(OsStr::from_bytes(target)).display()
            ),
        }),
        Err(errno) => Err(unreadable(link, errno)),
    }
}

fn not_installed(dir: &Path) -> Unreadable {
    Unreadable {
        path: dir.to_owned(),
        error: "the DataLad subdataset is not installed (`datalad get -n` installs it)".to_owned(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let file = File::open(path)?;
    let mut text = Vec::new();
    while text.len() < MAX_MODULES && file.read_more(&mut text, 64 * 1024)? {}
    Ok(text)
}

/// The paths in a `.gitmodules` (git-config's format: `path = sub-01`).
fn paths(text: &[u8]) -> Modules {
    text.split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let rest = line.trim_ascii().strip_prefix(b"path")?.trim_ascii_start();
            let path = rest.strip_prefix(b"=")?.trim_ascii();
            let path = path
                .strip_prefix(b"\"")
                .and_then(|path| path.strip_suffix(b"\""))
                .unwrap_or(path);
            Some(PathBuf::from(OsStr::from_bytes(path)))
        })
        .collect()
}
