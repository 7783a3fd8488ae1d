//! The end of a log, read with bounded memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::shown;
use crate::base::regular::error_text;
use crate::gather::disk::Unreadable;

/// So much of a log is read, from its end.
pub const TAIL: u64 = 256 * 1024;

/// Holds the end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    bytes: Vec<u8>,
    /// These are all bytes of the file.
    is_whole: bool,
}

/// Reads the end of a log; none: there is no such file, or it is no plain file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read_tail(path: &Path) -> Result<Option<Tail>, Unreadable> {
    match read(path) {
        Ok(tail) => Ok(tail),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Unreadable {
            path: path.to_owned(),
            error: error_text(&error),
        }),
    }
}

fn read(path: &Path) -> io::Result<Option<Tail>> {
    // A named pipe would wait for its writer, so the type is asked before.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    // By seeking, since the file may grow meanwhile.
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(Some(Tail::new(bytes, start == 0)))
}

impl Tail {
    /// Takes bytes of a log. `is_whole`: all of them; else the first line is one that may be cut, and is
    /// left out unless it is the only one.
    pub fn new(mut bytes: Vec<u8>, is_whole: bool) -> Self {
        if !is_whole
            && let Some(end) = bytes.iter().position(|&byte| byte == b'\n')
            && end + 1 < bytes.len()
        {
            bytes.drain(..=end);
        }
        Self { bytes, is_whole }
    }

    /// Returns the lines with their places. What a progress bar wrote over counts as a line of its own.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = 0;
        self.bytes
            .split(|&byte| matches!(byte, b'\n' | b'\r'))
            .map(move |line| {
                let start = at;
                at += line.len() + 1;
                (start, line)
            })
    }

    /// Returns the number of the line at a place, from 1, as an editor counts; none if only the end of
    /// the log is here.
    pub fn number(&self, at: usize) -> Option<u64> {
        let before = self.bytes.get(..at)?;
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        self.is_whole.then_some(breaks as u64 + 1)
    }

    /// Returns the last lines with text, fit to be shown: at most `most`, and `bytes` in all.
    pub fn last_lines(&self, most: usize, bytes: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut room = bytes;
        for line in self.bytes.rsplit(|&byte| matches!(byte, b'\n' | b'\r')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = shown(line);
            if lines.len() == most || line.len() > room {
                break;
            }
            room -= line.len();
            lines.push(line);
        }
        lines.reverse();
        lines
    }
}
