//! Loads and saves a state of 1,000,000 rows through the store, and prints the size of its file.
//!
//! `SNBB_BENCH_ROWS` sets another number of rows. `SNBB_BENCH_STATE` keeps the state file at this path.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a measurement stops where it stands"
)]
#![expect(clippy::disallowed_methods, reason = "reads its settings")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use criterion::{Criterion, criterion_group, criterion_main};
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::table::Metadata;
use snbb_scheduler::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::store::state_file::{LockedStore, Store};

const ROWS: usize = 1_000_000;
const SESSIONS: usize = 5;
const PROCEDURES: [&str; 5] = ["bids", "bids_post", "defacing", "qsiprep", "qsirecon"];

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(20));
    targets = state
}
criterion_main!(benches);

fn state(c: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kept = std::env::var_os("SNBB_BENCH_STATE").map(PathBuf::from);
    let path = kept.unwrap_or_else(|| directory.path().join("state.parquet"));
    let store = locked(&path);
    let count = std::env::var("SNBB_BENCH_ROWS");
    let count = count.map_or(ROWS, |count| count.parse().expect("a number of rows"));
    let mut state = State::from_rows(rows(count), None, Metadata::default());
    state.mark_changed();
    store.save(&mut state).expect("the first save");
    let bytes = path.metadata().expect("the state file").len();
    println!("{} rows: {:.1} MB", state.len(), bytes as f64 / 1e6);

    let mut group = c.benchmark_group(format!("state of {count} rows"));
    group.bench_function("load", |b| {
        b.iter_with_large_drop(|| black_box(store.read().expect("the state")));
    });
    group.bench_function("save", |b| {
        b.iter(|| {
            state.mark_changed();
            store.save(&mut state).expect("a save")
        });
    });
    group.finish();
}

fn locked(path: &Path) -> LockedStore {
    let store = Store::at(path).expect("a usable path");
    store
        .lock("bench", Duration::from_secs(1))
        .expect("the lock")
}

/// Makes rows as a large study has them: most tasks complete, times and ids all different.
fn rows(count: usize) -> Vec<TaskRow> {
    let start = DateTime::from_timestamp(1_767_225_600, 0).expect("a time");
    let mut random = Random(42);
    let mut rows = Vec::with_capacity(count);
    for subject in 0..count / (SESSIONS * PROCEDURES.len()) {
        for session in 0..SESSIONS {
            let session = 202_401_010_000 + (subject * SESSIONS + session) * 7;
            for procedure in PROCEDURES {
                let n = rows.len();
                rows.push(row(n, subject, session, procedure, start, &mut random));
            }
        }
    }
    rows
}

fn row(
    n: usize,
    subject: usize,
    session: usize,
    procedure: &str,
    start: DateTime<Utc>,
    random: &mut Random,
) -> TaskRow {
    let (subject, session) = (format!("sub-{subject:05}"), format!("ses-{session}"));
    let job_name = format!("{procedure}_{subject}_{session}");
    let submitted =
        start + TimeDelta::microseconds((n as i64) * 9_000_000 + random.below(8_999_999));
    let started = start + TimeDelta::seconds((n as i64) * 9 + 30 + random.below(600));
    let elapsed = 60 + random.below(40_000);
    let failed = random.below(50) == 0;
    TaskRow {
        key: TaskKey::new(&subject, &session, procedure),
        status: if failed {
            TaskStatus::Failed
        } else {
            TaskStatus::Complete
        },
        submitted_at: Some(submitted),
        job_id: Some(JobId::new(&(1_000_000 + n).to_string())),
        reason: Some(if failed {
            Reason::ExitCode
        } else {
            Reason::Verified
        }),
        attempt: Some(1),
        facts: JobFacts {
            slurm_state: Some(Arc::from(if failed { "FAILED" } else { "COMPLETED" })),
            exit_code: Some(Arc::from(if failed { "1:0" } else { "0:0" })),
            started_at: Some(started),
            ended_at: Some(started + TimeDelta::seconds(elapsed)),
            node_list: Some(Arc::from(format!("node{:03}", random.below(200)))),
            req_mem_mb: Some(8192),
            max_rss_mb: Some(1000 + random.below(7000)),
            time_limit_s: Some(14_400),
            elapsed_s: Some(elapsed),
            ..JobFacts::default()
        },
        updated_at: Some(started + TimeDelta::seconds(elapsed + random.below(600))),
        job_name: Some(Arc::from(job_name)),
        submission_id: Some(Arc::from(format!("{:016x}", random.next()))),
        replaces_outputs: Some(false),
        ..TaskRow::default()
    }
}

/// Draws numbers that are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> i64 {
        (self.next() % limit) as i64
    }
}
