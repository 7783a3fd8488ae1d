//! Trees on disk from the listings in `fixtures/bids`, and a configuration that points to them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use snbb_scheduler::model::bids::SessionSource;
use snbb_scheduler::model::config::{AuditConfig, Config, SafetyConfig, SlurmConfig};
use snbb_scheduler::model::job::ExecutorKind;
use snbb_scheduler::model::procedure::ProcedureDag;
use tempfile::TempDir;

/// Holds a tree in a directory of its own and what its listing says about it.
pub struct Tree {
    tmp: TempDir,
    /// `sub-01 ses-1`, `sub-01`.
    pub sessions: Vec<String>,
    /// With `ROOT` for the root.
    pub notes: Vec<String>,
    pub unreadable: Vec<PathBuf>,
    modes: Vec<(PathBuf, u32)>,
}

impl Tree {
    /// Builds the tree of `fixtures/bids/<name>.tree`.
    pub fn fixture(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/bids/{name}.tree"));
        Self::build(&fs::read_to_string(file).unwrap())
    }

    /// Builds a tree from a listing; the form is told in `fixtures/bids/README.md`.
    pub fn build(listing: &str) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut tree = Self {
            tmp,
            sessions: Vec::new(),
            notes: Vec::new(),
            unreadable: Vec::new(),
            modes: Vec::new(),
        };
        for line in listing.lines().filter(|line| !line.is_empty()) {
            if let Some(session) = line.strip_prefix("#= ") {
                tree.sessions.push(session.to_owned());
            } else if let Some(note) = line.strip_prefix("#~ ") {
                tree.notes.push(note.to_owned());
            } else if let Some(path) = line.strip_prefix("#! ") {
                tree.unreadable.push(tree.root().join(path));
            } else if !line.starts_with('#') {
                tree.add(line);
            }
        }
        for (path, mode) in tree.modes.iter().rev() {
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        tree
    }

    pub fn root(&self) -> &Path {
        self.tmp.path()
    }

    fn add(&mut self, line: &str) {
        let mut parts = line.split('\t');
        let entry = parts.next().unwrap();
        if let Some((link, target)) = entry.split_once(" -> ") {
            let link = self.root().join(name(link));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
            return;
        }
        let path = self.root().join(name(entry.trim_end_matches('/')));
        let mut text = "x".to_owned();
        let mut mode = None;
        for part in parts {
            match part.split_once('=').unwrap() {
                ("size", size) => text = "x".repeat(size.parse().unwrap()),
                ("text", value) => text = value.replace("\\n", "\n"),
                ("mode", value) => mode = Some(u32::from_str_radix(value, 8).unwrap()),
                (other, _) => panic!("{other} in {line}"),
            }
        }
        if entry.ends_with('/') {
            fs::create_dir_all(&path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        }
        self.modes.extend(mode.map(|mode| (path, mode)));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for (path, _) in &self.modes {
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o755));
        }
    }
}

/// Reads `\xff` as a byte.
fn name(text: &str) -> OsString {
    let mut bytes = Vec::new();
    let mut parts = text.split("\\x");
    bytes.extend(parts.next().unwrap().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    OsString::from_vec(bytes)
}

/// Runs `work` without root's privilege to read everything: permission bits hold there, really.
/// Only one thread gives its privilege up, for good.
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_uid(nobody).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}

/// Makes a configuration with `dicom`, `bids` and `derivatives` below `root`, and no procedures.
pub fn config(root: &Path) -> Config {
    Config {
        file: None,
        dicom_root: root.join("dicom"),
        bids_root: root.join("bids"),
        derivatives_root: root.join("derivatives"),
        state_file: root.join("state.parquet"),
        project: None,
        log_file: root.join("audit.jsonl"),
        qsirecon_spec: None,
        sessions: SessionSource::Dicom,
        cohort: Default::default(),
        annex: Default::default(),
        safety: SafetyConfig {
            max_drop: 10.0,
            min_free: 16 << 20,
        },
        sessionless: false,
        pad_ids: true,
        executor: ExecutorKind::Local,
        script_dir: None,
        slurm: SlurmConfig {
            partition: None,
            account: None,
            mem: None,
            cpus_per_task: None,
            log_dir: None,
            bin_dir: None,
            accounting: true,
        },
        local_jobs: 1,
        max_in_flight: None,
        max_queued_user_jobs: None,
        ceiling: Default::default(),
        fair: Default::default(),
        max_submit_per_run: None,
        dicom_settle: None,
        dicom_gate: false,
        recheck: Duration::ZERO,
        scan_threads: 4,
        resubmit_failed: false,
        notify: Default::default(),
        heartbeat_file: None,
        metrics_file: None,
        settle_time: Duration::from_secs(300),
        output_grace: Duration::from_secs(600),
        lost_grace: Duration::from_secs(3600),
        absence_grace: Duration::from_secs(300),
        deadline: Duration::from_secs(3600),
        lock_timeout: Duration::from_secs(10),
        audit: AuditConfig {
            dicom_min_files: 10,
            stale_job_threshold: std::time::Duration::from_secs(168 * 3600),
            report_dir: None,
            email_recipients: Vec::new(),
            email_from: String::new(),
            smtp_host: String::new(),
            smtp_port: 25,
            smtp_tls: false,
            smtp_username: None,
            smtp_password: None,
            log_patterns: Vec::new(),
        },
        procedures: ProcedureDag::new(Vec::new()).unwrap(),
        warnings: Vec::new(),
    }
}
