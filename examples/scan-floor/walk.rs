//! The minimum that must be read of a study of `scripts/gen-tree` to find its due tasks.
//!
//! A second, minimal implementation of the built-in pipeline. It shares no code with the program, so
//! that it can serve as a reference. It makes the necessary system calls and counts them: four for a
//! directory (open, two reads, close), one for a missing directory, one for the size of a file, three
//! for a text (open, read, close). A missing file may be behind a dangling link: one more call checks
//! this, and one for each directory above that was not checked before.

use std::collections::HashSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, statat};

/// Counts of reads by kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub directories: u64,
    /// Missing directories and texts.
    pub absent: u64,
    /// Checks for dangling links: at each missing path, and once at each directory above it.
    pub links: u64,
    pub stats: u64,
    pub texts: u64,
    pub due: u64,
}

impl Cost {
    pub fn calls(&self) -> u64 {
        4 * self.directories + self.absent + self.links + self.stats + 3 * self.texts
    }

    fn add(&mut self, other: &Self) {
        self.directories += other.directories;
        self.absent += other.absent;
        self.links += other.links;
        self.stats += other.stats;
        self.texts += other.texts;
        self.due += other.due;
    }
}

/// Walks the study with this many threads.
pub fn walk(root: &Path, threads: usize) -> Cost {
    let root = root.to_str().expect("a path of plain letters");
    let mut first = Walker::new(root);
    let subjects = first.names("dicom").unwrap_or_default();
    let subjects: Vec<&[u8]> = subjects.iter().collect();
    // The reports of all subjects are in the same directories.
    let mut reports = Vec::new();
    if let Some(workflows) = first.names("derivatives/qsirecon/derivatives") {
        for workflow in workflows.iter() {
            let workflow = String::from_utf8_lossy(workflow);
            let path = format!("derivatives/qsirecon/derivatives/{workflow}");
            reports.extend(first.names(&path));
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut walker = Walker::new(root);
        while let Some(subject) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
            walker.subject(std::str::from_utf8(subject).expect("a label"), &reports);
        }
        walker.cost
    };
    let mut total = first.cost;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            total.add(&worker.join().expect("no panic"));
        }
    });
    total
}

/// The names in a directory, each followed by a zero byte.
#[derive(Default)]
struct Names(Vec<u8>);

impl Names {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
    }
}

/// A pattern `*middle*end` of names.
type Glob = (&'static str, &'static str);

const BIDS: [(&str, &[Glob]); 4] = [
    ("anat", &[("", "_T1w.nii.gz")]),
    (
        "dwi",
        &[
            ("dir-AP", "_dwi.nii.gz"),
            ("dir-AP", "_dwi.bvec"),
            ("dir-AP", "_dwi.bval"),
            ("dir-PA", "_dwi.nii.gz"),
        ],
    ),
    (
        "fmap",
        &[
            ("acq-func_dir-AP", "epi.nii.gz"),
            ("acq-func_dir-PA", "epi.nii.gz"),
        ],
    ),
    ("func", &[("", "task-rest_bold.nii.gz")]),
];
const POST: [Glob; 1] = [("acq-dwi", "_epi.nii.gz")];
const DEFACED: [Glob; 1] = [("acq-defaced", "_T1w.nii.gz")];
const REPORT: [Glob; 1] = [("", ".html")];
const QSIPREP: [Glob; 4] = [
    ("", "_dwi_preproc.nii.gz"),
    ("", "_dwi_preproc.bvec"),
    ("", "_dwi_preproc.bval"),
    ("", "desc-image_qc.tsv"),
];

struct Walker<'a> {
    root: &'a str,
    cost: Cost,
    asked: HashSet<PathBuf>,
    buffer: Vec<u8>,
}

/// The result for one session.
struct Session {
    label: String,
    post: bool,
    qsiprep: bool,
    is_due: bool,
    has_t1w: bool,
}

impl<'a> Walker<'a> {
    fn new(root: &'a str) -> Self {
        Self {
            root,
            cost: Cost::default(),
            asked: HashSet::new(),
            buffer: Vec::with_capacity(32 * 1024),
        }
    }

    fn subject(&mut self, subject: &str, reports: &[Names]) {
        let labels = self.names(&format!("dicom/{subject}")).unwrap_or_default();
        let mut labels: Vec<String> = labels
            .iter()
            .map(|label| String::from_utf8_lossy(label).into_owned())
            .collect();
        labels.sort();
        let sessions: Vec<Session> = labels
            .into_iter()
            .map(|label| self.session(subject, label))
            .collect();
        let all_post = sessions.iter().all(|session| session.post);
        let freesurfer = self.freesurfer(subject, &sessions);
        self.cost.due += u64::from(all_post && !freesurfer);
        for session in &sessions {
            let html = format!("{subject}_{}.html", session.label);
            let reported = || {
                reports
                    .iter()
                    .any(|names| names.iter().any(|name| name == html.as_bytes()))
            };
            let is_reconned = !(session.qsiprep && freesurfer) || reported();
            self.cost.due += u64::from(!is_reconned);
            // Without DICOM files nothing is due.
            if session.is_due || !is_reconned || (all_post && !freesurfer) {
                self.names(&format!("dicom/{subject}/{}", session.label));
            }
        }
    }

    fn session(&mut self, subject: &str, label: String) -> Session {
        let dir = format!("bids/{subject}/{label}");
        let (mut anat, mut fmap) = (None, None);
        let mut bids = true;
        for (datatype, globs) in BIDS {
            let path = format!("{dir}/{datatype}");
            let names = self.names(&path);
            bids = names
                .as_ref()
                .is_some_and(|names| self.all(&path, names, globs));
            match datatype {
                "anat" => anat = Some(names),
                "fmap" => fmap = Some(names),
                _ => {}
            }
            if !bids {
                break;
            }
        }
        self.cost.due += u64::from(!bids);
        // A task's own outputs are checked even if it waits for others.
        let path = format!("{dir}/fmap");
        let fmap = fmap.unwrap_or_else(|| self.names(&path));
        let post = fmap.is_some_and(|names| self.all(&path, &names, &POST));
        self.cost.due += u64::from(bids && !post);
        let mut is_due = !bids || !post;
        let anat = anat.flatten();
        let path = format!("{dir}/anat");
        let defaced = anat
            .as_ref()
            .is_some_and(|names| self.all(&path, names, &DEFACED));
        self.cost.due += u64::from(post && !defaced);
        is_due |= post && !defaced;
        let qsiprep = self.qsiprep(&format!("derivatives/qsiprep/{subject}/{label}"));
        self.cost.due += u64::from(post && !qsiprep);
        is_due |= post && !qsiprep;
        let is_image = |name: &[u8]| name.ends_with(b"_T1w.nii.gz") && !contains(name, "defaced");
        Session {
            label,
            post,
            qsiprep,
            is_due,
            has_t1w: anat.is_some_and(|names| names.iter().any(is_image)),
        }
    }

    fn qsiprep(&mut self, dir: &str) -> bool {
        let Some(top) = self.names(dir) else {
            return false;
        };
        let dwi = format!("{dir}/dwi");
        self.all(dir, &top, &REPORT)
            && self
                .names(&dwi)
                .is_some_and(|names| self.all(&dwi, &names, &QSIPREP))
    }

    /// The sessions of the BIDS tree count; in these studies the DICOM tree has the same ones.
    fn freesurfer(&mut self, subject: &str, sessions: &[Session]) -> bool {
        if self.names(&format!("bids/{subject}")).is_none() {
            return false;
        }
        let runs: Vec<String> = sessions
            .iter()
            .filter(|session| session.has_t1w)
            .map(|session| format!("{subject}_{}", session.label))
            .collect();
        let mut is_good = |run: &str| {
            self.text(&format!(
                "derivatives/freesurfer/{run}/scripts/recon-all.done"
            ))
            .is_some_and(|text| text.starts_with(b"-"))
        };
        match runs.len() {
            0 => false,
            1 => is_good(subject),
            _ => {
                runs.iter().all(|run| is_good(run))
                    && is_good(subject)
                    && self
                        .text(&format!("derivatives/freesurfer/{subject}/base-tps"))
                        .is_some_and(|text| runs.iter().all(|run| contains(&text, run)))
                    && runs.iter().all(|run| {
                        self.text(&format!(
                            "derivatives/freesurfer/{run}.long.{subject}/scripts/recon-all.done"
                        ))
                        .is_some_and(|text| text.starts_with(b"-"))
                    })
            }
        }
    }

    /// True if every glob matches a non-empty file.
    fn all(&mut self, dir: &str, names: &Names, globs: &[Glob]) -> bool {
        globs.iter().all(|(middle, end)| {
            names
                .iter()
                .filter(|name| name.ends_with(end.as_bytes()) && contains(name, middle))
                .any(|name| {
                    self.cost.stats += 1;
                    let path = self.path(&format!("{dir}/{}", String::from_utf8_lossy(name)));
                    statat(CWD, &path, AtFlags::empty()).is_ok_and(|stat| stat.st_size > 0)
                })
        })
    }

    fn names(&mut self, dir: &str) -> Option<Names> {
        let Some(fd) = self.open(dir, OFlags::DIRECTORY) else {
            self.absent(dir);
            return None;
        };
        self.cost.directories += 1;
        let mut names = Names::default();
        self.buffer.clear();
        let mut entries = RawDir::new(fd.as_fd(), self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.expect("a directory that can be read");
            let name = entry.file_name().to_bytes_with_nul();
            if !name.starts_with(b".") {
                names.0.extend_from_slice(name);
            }
        }
        Some(names)
    }

    /// Reads the beginning of a file.
    fn text(&mut self, file: &str) -> Option<Vec<u8>> {
        let Some(fd) = self.open(file, OFlags::empty()) else {
            self.absent(file);
            return None;
        };
        self.cost.texts += 1;
        let mut text = vec![0; 4096];
        let len = rustix::io::read(&fd, &mut text).expect("a text that can be read");
        text.truncate(len);
        Some(text)
    }

    fn absent(&mut self, path: &str) {
        self.cost.absent += 1;
        self.cost.links += 1;
        let mut above = Path::new(path);
        while let Some(parent) = above.parent() {
            if !self.asked.insert(parent.to_owned()) {
                return;
            }
            self.cost.links += 1;
            let directory = Path::new(self.root).join(parent);
            if directory.metadata().is_ok_and(|metadata| metadata.is_dir()) {
                return;
            }
            above = parent;
        }
    }

    fn open(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        openat(CWD, self.path(path), flags, Mode::empty()).ok()
    }

    fn path(&self, below: &str) -> CString {
        CString::new(format!("{}/{below}", self.root)).expect("a path without a zero byte")
    }
}

fn contains(name: &[u8], part: &str) -> bool {
    part.is_empty()
        || name
            .windows(part.len())
            .any(|window| window == part.as_bytes())
}
