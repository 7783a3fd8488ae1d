//! What is left when the program dies, or the file system fails, at any system call.
//!
//! The real program runs under strace, which kills it (or lets a call fail) at the n-th call of a
//! name; then the state is looked at, and the same command is called until nothing changes any more.
//! Only the main thread is touched: Slurm's commands go on, as they do in life.
//!
//! Between two calls that change something the disk is the same, so the default is to hit every
//! call that changes anything, and some of the others. `SNBB_TEST_LONG=1` hits every call.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start strace and read their length from the environment"
)]

mod errors;
mod file_size;
mod full_disk;
mod kill;
mod lies;
mod order;
mod trace;
mod world;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says loudly why a test did not run.
fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED: {test}: {why}");
}

/// Tells whether processes can be traced here.
fn strace_works(test: &str) -> bool {
    let works = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        skip(test, "strace does not work here");
    }
    works
}

/// True for the nightly length.
fn is_long() -> bool {
    std::env::var_os("SNBB_TEST_LONG").is_some_and(|value| value == "1")
}

/// Where traces are written; those of failures stay.
fn trace_dir(sweep: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("crash")
        .join(sweep);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Tries all points, two at a time, and fails with the first few complaints.
fn sweep<P: Sync>(name: &str, points: &[P], attempt: impl Fn(&P) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = attempt(point) {
                        failures.lock().unwrap().push(complaint);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    eprintln!("{name}: {} points swept", points.len());
    assert!(
        failures.is_empty(),
        "{name}: {} of {} points failed:\n{}",
        failures.len(),
        points.len(),
        failures[..failures.len().min(12)].join("\n")
    );
}
