//! Caches of directory listings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::listing::{Dir, Dirs};
use super::reader::Reader;

/// The directories that were read for one subject, for one thread at a time.
#[derive(Debug)]
pub struct Listings<'a> {
    pub reader: &'a Reader,
    dirs: RefCell<Dirs>,
}

impl<'a> Listings<'a> {
    pub fn new(reader: &'a Reader, known: Dirs) -> Self {
        Self {
            reader,
            dirs: RefCell::new(known),
        }
    }

    /// Reads a directory unless it is cached.
    pub fn get(&self, path: &Path) -> Arc<Dir> {
        if let Some(dir) = self.dirs.borrow().get(path) {
            return Arc::clone(dir);
        }
        let dir = self.reader.take_dir(path);
        self.dirs
            .borrow_mut()
            .insert(path.to_owned(), Arc::clone(&dir));
        dir
    }

    pub fn take(&self) -> Dirs {
        self.dirs.take()
    }
}

/// The directories above the subjects, for a whole pass and all threads.
#[derive(Debug, Default)]
pub struct SharedListings {
    dirs: Mutex<HashMap<PathBuf, Arc<OnceLock<Arc<Dir>>>>>,
}

impl SharedListings {
    /// Reads a directory unless it is cached. A thread waits only if another one is reading the same directory.
    pub fn get(&self, reader: &Reader, path: &Path) -> Arc<Dir> {
        let cell = {
            let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
            match dirs.get(path) {
                Some(cell) => Arc::clone(cell),
                None => Arc::clone(dirs.entry(path.to_owned()).or_default()),
            }
        };
        Arc::clone(cell.get_or_init(|| Arc::new(reader.dir(path))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::disk::reader::spy;

    #[test]
    fn each_directory_is_read_once() {
        let tmp = tempfile::tempdir().unwrap();
        let reader = Reader::default();
        let listings = Listings::new(&reader, Dirs::default());
        let shared = SharedListings::default();
        spy::calls();
        for _ in 0..3 {
            listings.get(tmp.path());
            listings.get(&tmp.path().join("nothing"));
            shared.get(&reader, tmp.path());
        }
        assert_eq!(spy::calls().len(), 3);
    }
}
