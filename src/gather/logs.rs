//! The logs of jobs: where they are, and their ends, safe to be shown.
//!
//! Logs may be huge, and hold any bytes: they are read from their ends, and control characters are
//! written out. Nothing here writes.

mod follow;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::job::array::split_task_id;
use crate::model::state::TaskRow;
use crate::store::state_file::Store;

pub use follow::Follower;

/// So much of a log is read at a time.
const BLOCK: u64 = 64 * 1024;
/// So much of it is read at most, whatever is asked for, and so much per line that is.
const MOST: u64 = 64 * 1024 * 1024;
const MOST_PER_LINE: u64 = 16 * 1024;
const LEAST: u64 = 1024 * 1024;
/// Letters of a line that are shown.
const LONGEST: usize = 2000;

/// Points to the logs of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    pub output: PathBuf,
    pub error: PathBuf,
}

impl LogFiles {
    /// Lists both, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        [("output", &*self.output), ("error", &*self.error)].into_iter()
    }
}

/// Is the end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The last lines, safe to be shown.
    pub lines: Vec<String>,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// There is more above these lines.
    pub is_cut: bool,
}

/// Returns where the job's output is: `<log dir>/<procedure>/<job name>_<job id>.out`. Rows of the
/// Python program have no job name; it is made of the same parts. So is that of an array's task, whose log
/// has its own name and not the one that the array's tasks share.
pub fn log_path(row: &TaskRow, log_dir: &str) -> Option<String> {
    let id = row.job_id.as_ref()?;
    let key = &row.key;
    let is_of_array = row
        .submission_id
        .as_deref()
        .is_some_and(|id| split_task_id(id).is_some());
    let name = match &row.job_name {
        Some(name) if !is_of_array => name.to_string(),
        _ => key.job_name(),
    };
    let procedure = &key.procedure;
    Some(format!("{log_dir}/{procedure}/{name}_{id}.out"))
}

/// Returns where the logs of an attempt are. None: it has no job, or the place is not known.
pub fn of(config: &Config, store: &Store, row: &TaskRow) -> Option<LogFiles> {
    let output = match (&config.slurm.log_dir, row.job_id.as_ref()?.executor()) {
        (Some(dir), _) => PathBuf::from(log_path(row, &dir.to_string_lossy())?),
        (None, ExecutorKind::Local) => {
            let dir = store.paths.local.join("logs");
            let path = log_path(row, &dir.to_string_lossy())?;
            // The executor's own directory has no levels.
            dir.join(Path::new(&path).file_name()?)
        }
        (None, ExecutorKind::Slurm) => return None,
    };
    Some(LogFiles {
        error: output.with_extension("err"),
        output,
    })
}

/// Reads the last lines of a log; none: there is no such file.
///
/// # Errors
/// It is there and cannot be read.
pub fn end(path: &Path, lines: usize) -> io::Result<Option<End>> {
    match read_end(path, lines) {
        Ok(end) => Ok(Some(end)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn read_end(path: &Path, lines: usize) -> io::Result<End> {
    // A named pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut start = size;
    let most = (lines as u64)
        .saturating_mul(MOST_PER_LINE)
        .clamp(LEAST, MOST);
    let mut breaks = 0;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    // The line end of the last line, and the one before the first line.
    while start > 0 && breaks <= lines && size - start < most {
        let length = start.min(BLOCK);
        start -= length;
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        file.by_ref().take(length).read_to_end(&mut block)?;
        breaks += block.iter().filter(|&&byte| byte == b'\n').count();
        blocks.push(block);
    }
    blocks.reverse();
    let bytes = blocks.concat();
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let mut all: Vec<&[u8]> = text
        .rsplit(|&byte| byte == b'\n')
        .take(lines.saturating_add(1))
        .collect();
    let is_cut = start > 0 || all.len() > lines;
    all.truncate(lines);
    all.reverse();
    if text.is_empty() && size <= 1 {
        all.retain(|line| !line.is_empty());
    }
    Ok(End {
        lines: all.into_iter().map(safe_line).collect(),
        size,
        is_cut,
    })
}

/// Makes a line as a terminal would show it, and safe: what a progress bar wrote over is left out, so
/// are colours; other control characters are written out, and so are bytes that are no UTF-8.
pub fn safe_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.rsplit(|&byte| byte == b'\r').next().unwrap_or(line);
    // Enough for the letters that are shown and their colours.
    let line = line.get(..LONGEST * 8).unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let text = without_colors(&text);
    let mut safe = String::with_capacity(text.len());
    for (count, c) in text.chars().enumerate() {
        if count >= LONGEST {
            safe.push('…');
            break;
        }
        match c {
            '\t' => safe.push_str("    "),
            // Not only those of ASCII: marks that turn the text's direction hide what stands there.
            _ if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) => {
                safe.extend(c.escape_default());
            }
            _ => safe.push(c),
        }
    }
    safe
}

/// Leaves out what colours a terminal (ECMA-48, control sequences); other control characters stay.
pub fn without_colors(text: &str) -> Cow<'_, str> {
    static SEQUENCES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("\x1b\\[[0-?]*[ -/]*[@-~]").ok());
    match SEQUENCES.as_ref() {
        Some(sequences) => sequences.replace_all(text, ""),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &[u8], lines: usize) -> (Vec<String>, bool) {
        let tmp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(tmp.path(), text).unwrap();
        let end = end(tmp.path(), lines).unwrap().unwrap();
        assert_eq!(end.size, text.len() as u64);
        (end.lines, end.is_cut)
    }

    #[test]
    fn attack_the_last_lines_are_found_whatever_the_end() {
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
    fn any_bytes_are_shown_safely() {
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
    fn a_huge_log_of_nothing_is_read_from_its_end() {
        let tmp = tempfile::NamedTempFile::new().unwrap();
        let file = std::fs::OpenOptions::new().append(true).open(tmp.path());
        let mut file = file.unwrap();
        file.set_len(2 << 30).unwrap();
        use std::io::Write as _;
        file.write_all(b"\nthe end\n").unwrap();
        let end = end(tmp.path(), 1).unwrap().unwrap();
        assert_eq!((end.lines, end.is_cut), (vec!["the end".to_owned()], true));
    }

    #[test]
    fn what_is_no_file_is_none_or_an_error() {
        let tmp = tempfile::tempdir().unwrap();
        assert_eq!(end(&tmp.path().join("x"), 1).unwrap(), None);
        assert!(end(tmp.path(), 1).is_err());
    }
}
