//! Reads what strace writes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Is one system call, at its entry.
#[derive(Debug, Clone)]
pub struct Call {
    /// 0 if only one thread was traced.
    pub pid: u32,
    pub name: String,
    /// The whole line: arguments, paths of descriptors, result.
    pub line: String,
}

/// Is the n-th call of a name, counted from 1 as strace's `when` does.
#[derive(Debug, Clone)]
pub struct Point {
    pub name: String,
    pub n: usize,
    pub line: String,
}

/// Reads a trace. Ends of calls that were interrupted by another thread's are left out.
pub fn read(path: &Path) -> Vec<Call> {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .lines()
        .filter_map(parse)
        .collect()
}

fn parse(line: &str) -> Option<Call> {
    let (pid, rest) = match line.split_once(' ') {
        Some((pid, rest)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => {
            (pid.parse().ok()?, rest.trim_start())
        }
        _ => (0, line),
    };
    let (name, _) = rest.split_once('(')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_name).then(|| Call {
        pid,
        name: name.to_owned(),
        line: rest.to_owned(),
    })
}

/// Numbers the calls of each name.
pub fn points(calls: &[Call]) -> Vec<Point> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    calls
        .iter()
        .map(|call| {
            let n = counts.entry(&call.name).or_default();
            *n += 1;
            Point {
                name: call.name.clone(),
                n: *n,
                line: call.line.clone(),
            }
        })
        .collect()
}

/// Leaves out the calls of other programs that were started, and of their children.
pub fn own(calls: &[Call]) -> Vec<Call> {
    let mut others: HashSet<u32> = HashSet::new();
    let main = calls.first().map(|call| call.pid);
    let mut own = Vec::new();
    for call in calls {
        if call.name == "execve" && Some(call.pid) != main {
            others.insert(call.pid);
        }
    }
    // A child's number is the result of its parent's call.
    loop {
        let before = others.len();
        let children: Vec<u32> = calls
            .iter()
            .filter(|call| others.contains(&call.pid))
            .filter_map(child)
            .collect();
        others.extend(children);
        if others.len() == before {
            break;
        }
    }
    for call in calls {
        let starts = call.name == "execve" && Some(call.pid) != main;
        if starts || !others.contains(&call.pid) {
            own.push(call.clone());
        }
    }
    own
}

fn child(call: &Call) -> Option<u32> {
    ["clone", "clone3", "fork", "vfork"]
        .contains(&call.name.as_str())
        .then(|| call.line.rsplit_once("= ")?.1.trim().parse().ok())
        .flatten()
}

/// True if the call may change something on disk, or starts a process.
pub fn changes(name: &str, line: &str) -> bool {
    match name {
        "openat" | "open" | "creat" => opens_for_writing(line),
        // Words for people change nothing.
        "write" => !["write(1", "write(2"].iter().any(|to| line.starts_with(to)),
        _ => CHANGING.contains(&name),
    }
}

pub fn opens_for_writing(line: &str) -> bool {
    ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"]
        .iter()
        .any(|flag| line.contains(flag))
}

/// Change something on disk, or start processes.
const CHANGING: &[&str] = &[
    "pwrite64",
    "writev",
    "pwritev",
    "copy_file_range",
    "sendfile",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "fchownat",
    "setxattr",
    "fsetxattr",
    "utimensat",
    "flock",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "exit_group",
];

/// Have nothing to do with files and processes.
pub const NOISE: &[&str] = &[
    "brk",
    "mmap",
    "munmap",
    "mremap",
    "madvise",
    "mprotect",
    "futex",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "prctl",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "getrandom",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "getuid",
    "geteuid",
    "clock_nanosleep",
    "clock_gettime",
    "uname",
    "sysinfo",
    "getcwd",
    "ioctl",
    "execve",
    "exit_group",
    "sched_yield",
    "poll",
    "ppoll",
    "membarrier",
];
