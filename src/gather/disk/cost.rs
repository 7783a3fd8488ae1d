//! What a scan cost: what was read below which root, how many calls that took and how long.
//!
//! Counts only; reading is done by [`super::reader`]. With a trace, each directory has its line in
//! a file, for those who look for a slow file system.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::is_absence;
use crate::base::regular::words;

/// Keeps account of a scan, for all threads.
#[derive(Debug, Default)]
pub struct ScanCost {
    /// The longest path first: one root may lie in another.
    roots: Mutex<Vec<RootCost>>,
    trace: Option<Trace>,
}

/// Says what a scan has cost below one root so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCost {
    /// The root's key in the configuration.
    pub key: &'static str,
    pub root: PathBuf,
    /// Directories that were read, each once.
    pub directories: u64,
    /// Directories that were asked for and are not there.
    pub absent: u64,
    /// Directories that could not be read.
    pub unreadable: u64,
    /// System calls, those for files among them.
    pub calls: u64,
    /// The time in these calls, added up over all threads.
    pub waited: Duration,
}

/// Tells of one directory that was asked for.
pub(super) struct Visit<'a> {
    pub path: &'a Path,
    pub calls: u64,
    pub took: Duration,
    /// How many names it holds.
    pub found: Result<usize, Errno>,
}

/// Writes a line per directory.
#[derive(Debug)]
struct Trace {
    to: Mutex<Result<BufWriter<File>, std::io::Error>>,
}

impl ScanCost {
    /// Keeps account of what lies below these roots; what lies elsewhere is not counted.
    pub fn of(roots: &[(&'static str, &Path)]) -> Self {
        let mut roots: Vec<RootCost> = roots
            .iter()
            .map(|(key, root)| RootCost {
                key,
                root: (*root).to_owned(),
                directories: 0,
                absent: 0,
                unreadable: 0,
                calls: 0,
                waited: Duration::ZERO,
            })
            .collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.root.as_os_str().len()));
        Self {
            roots: Mutex::new(roots),
            trace: None,
        }
    }

    /// Also writes a line per directory: path, entries, microseconds, error, with tabs between.
    pub fn traced(mut self, file: File) -> Self {
        let mut file = BufWriter::new(file);
        let header = writeln!(file, "path\tentries\tmicroseconds\terror");
        self.trace = Some(Trace {
            to: Mutex::new(header.map(|()| file)),
        });
        self
    }

    /// Returns what was spent: below `dicom_root`, `bids_root`, `derivatives_root`, in this order.
    pub fn spent(&self) -> Vec<RootCost> {
        let mut spent = self
            .roots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        spent.sort_by_key(|spent| match spent.key {
            "dicom_root" => 0,
            "bids_root" => 1,
            _ => 2,
        });
        spent
    }

    /// Writes what is left of the trace.
    ///
    /// # Errors
    /// The first error of the trace's file; what came after it was not written.
    pub fn finish(&self) -> Result<(), std::io::Error> {
        let Some(trace) = &self.trace else {
            return Ok(());
        };
        let mut to = trace.to.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *to {
            Ok(file) => file.flush(),
            Err(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
        }
    }

    pub(super) fn directory(&self, visit: &Visit<'_>) {
        self.add(visit.path, visit.calls, visit.took, |root| {
            match visit.found {
                Ok(_) => root.directories += 1,
                Err(errno) if is_absence(errno) => root.absent += 1,
                Err(_) => root.unreadable += 1,
            };
        });
        if let Some(trace) = &self.trace {
            trace.write(visit);
        }
    }

    pub(super) fn file(&self, path: &Path, calls: u64, took: Duration) {
        self.add(path, calls, took, |_| {});
    }

    fn add(&self, path: &Path, calls: u64, took: Duration, count: impl FnOnce(&mut RootCost)) {
        let path = path.as_os_str().as_encoded_bytes();
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        let root = roots.iter_mut().find(|root| {
            path.strip_prefix(root.root.as_os_str().as_encoded_bytes())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        });
        if let Some(root) = root {
            root.calls += calls;
            root.waited += took;
            count(root);
        }
    }
}

impl Trace {
    fn write(&self, visit: &Visit<'_>) {
        let (entries, error) = match visit.found {
            Ok(entries) => (entries.to_string(), String::new()),
            Err(errno) => (String::new(), words(&errno.into())),
        };
        let path = in_one_line(visit.path);
        let line = format!("{path}\t{entries}\t{}\t{error}\n", visit.took.as_micros());
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(file) = &mut *to
            && let Err(error) = file.write_all(line.as_bytes())
        {
            *to = Err(error);
        }
    }
}

/// Shows a path so that it can be told from any other: bytes that are no letters as `\xNN`.
fn in_one_line(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn visit(path: &Path) -> Visit<'_> {
        Visit {
            path,
            calls: 4,
            took: Duration::from_micros(7),
            found: Ok(2),
        }
    }

    #[test]
    fn the_innermost_root_is_charged() {
        let root = Path::new;
        let cost = ScanCost::of(&[
            ("derivatives_root", root("/data/bids/derivatives")),
            ("bids_root", root("/data/bids")),
            ("dicom_root", root("/data/dicom")),
        ]);
        for path in [
            "/data/bids",
            "/data/bids/sub-1",
            "/data/bids/derivatives/x",
            "/data/bids2/sub-1",
        ] {
            cost.directory(&visit(Path::new(path)));
        }
        cost.file(Path::new("/data/bids/x"), 1, Duration::from_micros(1));
        let spent = cost.spent();
        let shown: Vec<_> = spent
            .iter()
            .map(|spent| {
                (
                    spent.key,
                    spent.directories,
                    spent.calls,
                    spent.waited.as_micros(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("dicom_root", 0, 0, 0),
                ("bids_root", 2, 9, 15),
                ("derivatives_root", 1, 4, 7)
            ]
        );
    }

    #[test]
    fn a_trace_has_a_line_per_directory_whatever_its_name() {
        let tmp = tempfile::NamedTempFile::new().unwrap();
        let cost = ScanCost::of(&[]).traced(tmp.reopen().unwrap());
        cost.directory(&visit(Path::new("/a é/\n\\")));
        let name = std::ffi::OsStr::from_bytes(b"/\xff\tx");
        cost.directory(&Visit {
            found: Err(Errno::ACCESS),
            ..visit(Path::new(name))
        });
        cost.finish().unwrap();
        assert_eq!(
            std::fs::read_to_string(tmp.path()).unwrap(),
            "path\tentries\tmicroseconds\terror\n/a é/\\n\\\\\t2\t7\t\n/\\xff\\tx\t\t7\tPermission denied\n"
        );
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let cost = ScanCost::of(&[]).traced(File::options().write(true).open("/dev/full").unwrap());
        cost.directory(&visit(Path::new("/a")));
        assert!(cost.finish().is_err());
    }
}
