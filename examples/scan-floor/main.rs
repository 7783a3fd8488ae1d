//! Walks a study of `scripts/gen-tree` with as few system calls as possible, and prints their numbers
//! as JSON. `scripts/scan-cost` compares the program with it.
//!
//! usage: scan-floor ROOT [THREADS]
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed measurement may stop the program"
)]

mod walk;

use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let root = PathBuf::from(args.next().expect("usage: scan-floor ROOT [THREADS]"));
    let threads = args.next().map_or(2, |threads| {
        threads
            .to_str()
            .and_then(|text| text.parse().ok())
            .expect("a number of threads")
    });
    let started = Instant::now();
    let cost = walk::walk(&root, threads);
    println!(
        r#"{{"directories": {}, "absent": {}, "stats": {}, "texts": {}, "calls": {}, "due": {}, "seconds": {}}}"#,
        cost.directories,
        cost.absent,
        cost.stats,
        cost.texts,
        cost.calls(),
        cost.due,
        started.elapsed().as_secs_f64()
    );
}
