//! Reading on in a log that grows.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::safe_line;

/// So much is read at a time.
const MOST: u64 = 1024 * 1024;

/// Reads on in one log. A file that is not there yet may come, one that was replaced or cut is read
/// from its beginning.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Device and inode of what was read.
    file: Option<(u64, u64)>,
    at: u64,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl Follower {
    /// Begins after `at` bytes, if the file is there.
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

    /// Returns the lines that have come since the last call, safe to be shown.
    ///
    /// # Errors
    /// The file is there and cannot be read.
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
            // What was there already has no line end.
            let fresh = self.rest.get(before..).unwrap_or_default();
            if let Some(end) = fresh.iter().rposition(|&byte| byte == b'\n') {
                let tail = self.rest.split_off(before + end + 1);
                let whole = std::mem::replace(&mut self.rest, tail);
                let whole = whole.strip_suffix(b"\n").unwrap_or(&whole);
                lines.extend(whole.split(|&byte| byte == b'\n').map(safe_line));
            } else if self.rest.len() as u64 > MOST {
                // A line without end: only its last part would be shown anyway.
                let surplus = self.rest.len() - MOST as usize;
                self.rest.drain(..surplus);
            }
        }
    }

    /// Returns the last line, if it has no end.
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
    fn it_reads_on_through_growth_cuts_and_replacement() {
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
