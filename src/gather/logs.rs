//! The logs of jobs: their paths, and their last lines, safe to print.
//!
//! Logs may be huge and contain any bytes: they are read from the end, and control characters are escaped.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::base::regular::identity;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::job::array::split_task_id;
use crate::model::state::TaskRow;
use crate::store::state_file::Store;

/// The most that is read of a log in total, and per requested line.
const MOST: u64 = 64 * 1024 * 1024;
const MOST_PER_LINE: u64 = 16 * 1024;
const LEAST: u64 = 1024 * 1024;
/// Characters of a line that are shown.
const LONGEST: usize = 2000;

/// The paths of one job's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    pub output: PathBuf,
    pub error: PathBuf,
}

impl LogFiles {
    /// Both, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        [("output", &*self.output), ("error", &*self.error)].into_iter()
    }
}

/// The last lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Safe to print.
    pub lines: Vec<String>,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// There are lines above these.
    pub is_cut: bool,
}

/// The path of a job's output: `<log dir>/<procedure>/<job name>_<job id>.out`. Rows of the Python program have no job
/// name; it is formed from the same parts. So is the name of an array's task, because all tasks of an array share one
/// job name.
pub fn log_path(row: &TaskRow, log_dir: &str) -> Option<String> {
    let id = row.job_id.as_ref()?;
    let key = &row.key;
    let is_of_array = (row.submission_id.as_deref())
        .and_then(split_task_id)
        .is_some();
    let name = match &row.job_name {
        Some(name) if !is_of_array => name.to_string(),
        _ => key.job_name(),
    };
    let procedure = &key.procedure;
    Some(format!("{log_dir}/{procedure}/{name}_{id}.out"))
}

/// The paths of an attempt's logs; `None` if it has no job or the path is unknown.
pub fn files_of(config: &Config, store: &Store, row: &TaskRow) -> Option<LogFiles> {
    let output = match (&config.slurm.log_dir, row.job_id.as_ref()?.executor()) {
        (Some(dir), _) => PathBuf::from(log_path(row, &dir.to_string_lossy())?),
        (None, ExecutorKind::Local) => {
            let dir = store.paths.local.join("logs");
            let path = log_path(row, &dir.to_string_lossy())?;
            // The executor's own directory is flat.
            dir.join(Path::new(&path).file_name()?)
        }
        (None, ExecutorKind::Slurm) => return None,
    };
    Some(LogFiles {
        error: output.with_extension("err"),
        output,
    })
}

/// Reads the last lines of a log; `None` if it does not exist.
///
/// # Errors
/// A file that exists and cannot be read.
pub fn tail(path: &Path, lines: usize) -> io::Result<Option<Tail>> {
    let most = (lines as u64)
        .saturating_mul(MOST_PER_LINE)
        .clamp(LEAST, MOST);
    let Some((bytes, size)) = end_of(path, most)? else {
        return Ok(None);
    };
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let parts = text.rsplit(|&byte| byte == b'\n');
    let mut all: Vec<&[u8]> = parts.take(lines.saturating_add(1)).collect();
    let is_cut = (bytes.len() as u64) < size || all.len() > lines;
    all.truncate(lines);
    all.reverse();
    if text.is_empty() && size <= 1 {
        all.clear();
    }
    Ok(Some(Tail {
        lines: all.into_iter().map(safe_line).collect(),
        size,
        is_cut,
    }))
}

/// The last bytes of a file, at most `most`, and its size; `None` if it does not exist.
///
/// # Errors
/// A file that exists and cannot be read; `InvalidInput` if it is not a regular file.
pub fn end_of(path: &Path, most: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    let read = || {
        // Opening a named pipe would wait for its writer, so its type is checked first.
        if !std::fs::metadata(path)?.is_file() {
            let text = "it is not a regular file";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut file = File::open(path)?;
        // The size comes from seeking, because the file may grow.
        let size = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(size.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(size.min(most)).read_to_end(&mut bytes)?;
        Ok(Some((bytes, size)))
    };
    read().or_else(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
        _ => Err(error),
    })
}

/// A line as a terminal would show it, but safe: without text that a progress bar has overwritten and without colours;
/// other control characters are escaped, and bytes that are not UTF-8 replaced.
pub fn safe_line(line: &[u8]) -> String {
    safe(line, LONGEST)
}

/// [`safe_line`] with at most `longest` characters.
pub fn safe(line: &[u8], longest: usize) -> String {
    // Terminal colours (ECMA-48 control sequences).
    static COLORS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("\x1b\\[[0-?]*[ -/]*[@-~]").ok());
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.rsplit(|&byte| byte == b'\r').next().unwrap_or(line);
    // Enough for the characters that are shown and their colours.
    let line = line.get(..longest * 8).unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let plain = COLORS.as_ref().map(|colors| colors.replace_all(&text, ""));
    let text = plain.as_deref().unwrap_or(&text);
    let mut safe = String::with_capacity(text.len());
    for (count, c) in text.chars().enumerate() {
        if count >= longest {
            safe.push('…');
            break;
        }
        match c {
            '\t' => safe.push_str("    "),
            // Not only in ASCII: marks that change the text's direction can disguise it.
            _ if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) => {
                safe.extend(c.escape_default());
            }
            _ => safe.push(c),
        }
    }
    safe
}

/// The size of one read, and the longest unfinished line that is kept.
const PART: u64 = 1024 * 1024;

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
        let file = std::fs::metadata(path).ok().map(|found| identity(&found));
        Self {
            path: path.to_owned(),
            file,
            at: if file.is_some() { at } else { 0 },
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
        let file_now = Some(identity(&metadata));
        if self.file != file_now || metadata.len() < self.at {
            self.file = file_now;
            self.at = 0;
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut lines = Vec::new();
        loop {
            let before = self.rest.len();
            let read = file.by_ref().take(PART).read_to_end(&mut self.rest)?;
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
            } else if self.rest.len() as u64 > PART {
                // Only the last part of an endless line would be shown anyway.
                let surplus = self.rest.len() - PART as usize;
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

    fn last(text: &[u8], lines: usize) -> (Vec<String>, bool) {
        let tmp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(tmp.path(), text).unwrap();
        let tail = tail(tmp.path(), lines).unwrap().unwrap();
        assert_eq!(tail.size, text.len() as u64);
        (tail.lines, tail.is_cut)
    }

    #[test]
    fn attack_the_last_lines_are_found_with_any_line_ends() {
        for (text, lines, expected, is_cut) in [
            ("", 3, vec![], false),
            ("\n", 3, vec![], false),
            ("a", 3, vec!["a"], false),
            ("a\n", 3, vec!["a"], false),
            ("a\nb\nc\nd\n", 2, vec!["c", "d"], true),
            ("a\nb\nc\nd", 2, vec!["c", "d"], true),
            ("a\nb", 2, vec!["a", "b"], false),
            ("a\n\n\n", 2, vec!["", ""], true),
            ("a\n", 0, vec![], true),
            ("a\nb\n", usize::MAX, vec!["a", "b"], false),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(last(text.as_bytes(), lines), (expected, is_cut), "{text:?}");
        }
        let many: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
        let (lines, is_cut) = last(many.as_bytes(), 20_000);
        assert_eq!((lines.len(), is_cut), (20_000, true));
        assert_eq!(lines[0], "line 30000");
        assert_eq!(lines[19_999], "line 49999");
    }

    #[test]
    fn any_bytes_are_safe_to_print() {
        for (bytes, expected) in [
            (&b"plain \xff text"[..], "plain \u{fffd} text"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"a\x07b\x00c", "a\\u{7}b\\u{0}c"),
            (b"10%\r50%\r100%", "100%"),
            (b"dos\r", "dos"),
            (b"a\tb", "a    b"),
            ("gr\u{fc}n \u{202e}x".as_bytes(), "gr\u{fc}n \\u{202e}x"),
        ] {
            assert_eq!(safe_line(bytes), expected, "{bytes:?}");
        }
        assert_eq!(
            safe_line(&vec![b'x'; 1_000_000]).chars().count(),
            LONGEST + 1
        );
    }

    #[test]
    fn a_huge_sparse_log_is_read_from_its_end() {
        let tmp = tempfile::NamedTempFile::new().unwrap();
        let file = std::fs::OpenOptions::new().append(true).open(tmp.path());
        let mut file = file.unwrap();
        file.set_len(2 << 30).unwrap();
        file.write_all(b"\nthe end\n").unwrap();
        let tail = tail(tmp.path(), 1).unwrap().unwrap();
        assert_eq!(
            (tail.lines, tail.is_cut),
            (vec!["the end".to_owned()], true)
        );
    }

    #[test]
    fn a_missing_log_is_none_and_a_directory_is_an_error() {
        let tmp = tempfile::tempdir().unwrap();
        assert_eq!(tail(&tmp.path().join("x"), 1).unwrap(), None);
        assert!(tail(tmp.path(), 1).is_err());
    }

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
