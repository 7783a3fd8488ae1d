//! Discovery and completion of generated studies, warm.
//!
//! `SNBB_BENCH_SESSIONS="100000"` sets other numbers of sessions; these take some minutes.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a measurement stops where it stands"
)]
#![expect(clippy::disallowed_methods, reason = "starts the generator")]

use std::path::Path;
use std::process::Command;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions};
use snbb_scheduler::gather::sessions::discover::discover;
use snbb_scheduler::model::bids::SessionLabel;
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::procedure::Scope;

#[path = "../tests/it/harness_tree.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod harness_tree;
#[path = "../tests/it/scan/pipeline.rs"]
mod pipeline;
#[path = "../examples/scan-floor/walk.rs"]
#[expect(dead_code, reason = "the tests count its calls")]
mod walk;

/// Judges every task of the study; the number of complete ones.
fn judge_all(config: &Config) -> usize {
    let discovery = discover(config).expect("a generated study");
    let probe = Probe::new(config).expect("no spec");
    let none = [SessionLabel::none()];
    let mut complete = 0;
    for sessions in discovery.sessions.chunk_by(|a, b| a.subject == b.subject) {
        let labels: Vec<SessionLabel> = sessions.iter().map(|s| s.session.clone()).collect();
        let answers = probe.for_subject(&sessions[0].subject);
        for (id, step) in config.procedures.iter() {
            let tasks = if step.scope == Scope::Subject {
                &none[..]
            } else {
                &labels
            };
            let judged = tasks.iter().map(|session| answers.completion(id, session));
            complete += judged
                .filter(|answer| *answer == Completion::Complete)
                .count();
        }
    }
    complete
}

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    group.sample_size(10);
    let sizes = std::env::var("SNBB_BENCH_SESSIONS");
    let sizes = sizes.as_deref().unwrap_or("1000 10000").split_whitespace();
    for sessions in sizes.map(|size| size.parse::<u64>().expect("a number of sessions")) {
        let tmp = tempfile::tempdir().expect("a temporary directory");
        let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/gen-tree");
        let made = Command::new("python3")
            .arg(generator)
            .arg(tmp.path())
            .args(["--hard-links", "--dicom-files", "1"])
            .args(["--sessions", &sessions.to_string()])
            .output()
            .expect("python3");
        assert!(made.status.success());
        let mut config = harness_tree::config(tmp.path());
        config.procedures = pipeline::pipeline();
        group.throughput(Throughput::Elements(sessions));
        // What the others are held against: the same reads without any thought.
        group.bench_function(BenchmarkId::new("floor", sessions), |b| {
            b.iter(|| walk::walk(tmp.path(), config.scan_threads))
        });
        group.bench_function(BenchmarkId::new("discover", sessions), |b| {
            b.iter(|| discover(&config))
        });
        group.bench_function(BenchmarkId::new("all tasks", sessions), |b| {
            b.iter(|| judge_all(&config))
        });
    }
}

criterion_group!(benches, scan);
criterion_main!(benches);
