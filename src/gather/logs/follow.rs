//! Following a log that grows.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::safe_line;

/// The size of one read, and the longest unfinished line that is kept.
const MOST: u64 = 1024 * 1024;

/// Follows one log. The file may appear later; after a replacement or truncation it is read from its beginning.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Device and inode of the file that was read.
    file: Option<(u64, u64)>,
    at: u64,
    /// The beginning of an unfinished line.
    rest: Vec<u8>,
}

impl Follower {
    /// Begins after `at` bytes if the file exists.
    pub fn new(path: &Path, at: u64) -> Self {
        let identity = std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        Self {
            path: path.to_owned(),
            file: identity,
            at: if identity.is_some() { at } else { 0 },
            rest: Vec::new(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines that were added since the last call, safe to print.
    ///
    /// # Errors
    /// A file that exists and cannot be read.
    pub fn next_lines(&mut self) -> io::Result<Vec<String>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if self.file != Some(identity) || metadata.len() < self.at {
            self.file = Some(identity);
            self.at = 0;
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut lines = Vec::new();
        loop {
            let before = self.rest.len();
            let read = file.by_ref().take(MOST).read_to_end(&mut self.rest)?;
            self.at += read as u64;
            if read == 0 {
                return Ok(lines);
            }
            // The unfinished line has no line end.
            let fresh = self.rest.get(before..).unwrap_or_default();
            if let Some(end) = fresh.iter().rposition(|&byte| byte == b'\n') {
                let tail = self.rest.split_off(before + end + 1);
                let complete = std::mem::replace(&mut self.rest, tail);
                let complete = complete.strip_suffix(b"\n").unwrap_or(&complete);
                lines.extend(complete.split(|&byte| byte == b'\n').map(safe_line));
            } else if self.rest.len() as u64 > MOST {
                // Only the last part of an endless line would be shown anyway.
                let surplus = self.rest.len() - MOST as usize;
                self.rest.drain(..surplus);
            }
        }
    }

    /// The unfinished last line, if there is one.
    pub fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| safe_line(&rest))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_log_is_followed_through_growth_truncation_and_replacement() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("log");
        let mut follower = Follower::new(&path, 5);
        assert_eq!(follower.next_lines().unwrap(), Vec::<String>::new());
        let add = |text: &str| {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path);
            file.unwrap().write_all(text.as_bytes()).unwrap();
        };
        add("one\ntw");
        assert_eq!(follower.next_lines().unwrap(), ["one"]);
        add("o\nthree\n");
        assert_eq!(follower.next_lines().unwrap(), ["two", "three"]);
        std::fs::write(&path, "cut\n").unwrap();
        assert_eq!(follower.next_lines().unwrap(), ["cut"]);
        std::fs::write(tmp.path().join("other"), "replaced and longer\nend").unwrap();
        std::fs::rename(tmp.path().join("other"), &path).unwrap();
        assert_eq!(follower.next_lines().unwrap(), ["replaced and longer"]);
        assert_eq!(follower.finish().as_deref(), Some("end"));
        assert_eq!(follower.finish(), None);
        let mut later = Follower::new(&path, 20);
        assert_eq!(later.next_lines().unwrap(), Vec::<String>::new());
        assert_eq!(later.finish().as_deref(), Some("end"));
    }
}
