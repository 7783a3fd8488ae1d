//! The file system refuses a call, once or from then on: the old state stays, the message names the
//! path, nothing is submitted whose intent was not written, and the next calls finish the work once.

use std::path::Path;

use super::trace::{self, Call, Point};
use super::world::World;
use super::{is_long, strace_works, sweep, trace_dir};
use crate::harness::Said;

/// Disk full, quota, broken disk, remounted read-only, file gone on the server, signal, file too large.
const ERRORS: [&str; 7] = [
    "ENOSPC", "EDQUOT", "EIO", "EROFS", "ESTALE", "EINTR", "EFBIG",
];

struct Fault {
    point: Point,
    /// The call may fail without harm, so that nobody has to be told.
    is_harmless: bool,
    error: &'static str,
    /// True: all later calls of that name fail too.
    lasts: bool,
}

#[test]
fn run_that_is_refused_anything_on_a_new_study() {
    refused("error-run-fresh", &World::fresh(), &["run"], 0);
}

#[test]
fn run_that_is_refused_anything_on_a_grown_study() {
    refused("error-run-grown", &World::grown(), &["run"], 3);
}

#[test]
fn monitor_that_is_refused_anything() {
    refused("error-monitor", &World::with_ended_jobs(), &["monitor"], 1);
}

#[test]
fn retry_that_is_refused_anything() {
    refused("error-retry", &World::failed(), &["retry"], 2);
}

fn refused(name: &str, start: &World, command: &[&str], shift: usize) {
    if !strace_works(name) {
        return;
    }
    let dir = trace_dir(name);
    let baseline = dir.join("baseline.trace");
    let calm = start.copy();
    let said = calm.traced(command, &[], &baseline);
    assert_eq!(said.code, 0, "{}", said.err);
    let expected = calm.settle(command).unwrap();

    sweep(name, &faults(&baseline, shift), |fault| {
        let Fault {
            point,
            is_harmless,
            error,
            lasts,
        } = fault;
        let world = start.copy();
        let when = format!("{}{}", point.n, if *lasts { "+" } else { "" });
        let file = dir.join(format!("{}-{when}-{error}.trace", point.name));
        let set = format!("trace={},clone,clone3,fork,vfork", point.name);
        let inject = format!("inject={}:error={error}:when={when}", point.name);
        let said = world.traced(command, &["-e", &set, "-e", &inject], &file);
        let calls = trace::read(&file);
        let is_told = said.code != 0 || *is_harmless || *error == "EINTR";
        let outcome = ended_cleanly(&world, &said, &calls)
            .and_then(|()| is_told.then_some(()).ok_or("not told".to_owned()))
            .and_then(|()| nothing_after_a_lost_intent(error, &calls))
            .and_then(|()| world.is_whole(start))
            .and_then(|()| {
                if said.err.contains("the audit log is incomplete") {
                    world.settle_somehow(command)
                } else {
                    world.settle(command)
                }
            })
            .and_then(|found| found.is_like(&expected));
        if outcome.is_ok() {
            let _ = std::fs::remove_file(&file);
        }
        outcome.map_err(|what| {
            format!(
                "({}, {when}) {error} [{}] at {}: {what}",
                point.name,
                point.line,
                file.display()
            )
        })
    });
}

/// Chooses calls that may be refused, and how: in the long mode in every way, else in one.
fn faults(baseline: &Path, shift: usize) -> Vec<Fault> {
    let points: Vec<Point> = trace::points(&trace::read(baseline))
        .into_iter()
        .filter(|point| match point.name.as_str() {
            "close" => closes_a_file(&point.line),
            "clone" | "clone3" | "fork" | "vfork" | "exit_group" => false,
            name => trace::changes(name, &point.line),
        })
        .collect();
    let mut faults = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let is_harmless = is_harmless(&points, at);
        for (way, error) in ERRORS.iter().enumerate() {
            for lasts in [false, true] {
                let chosen = way == (at + shift) % ERRORS.len()
                    && lasts == ((at + shift) % 4 == 3 && point.name != "close");
                // Who is interrupted without end tries without end; and not every close can fail, see below.
                let possible = !lasts || (*error != "EINTR" && point.name != "close");
                if possible && (is_long() || chosen) {
                    faults.push(Fault {
                        point: point.clone(),
                        is_harmless,
                        error,
                        lasts,
                    });
                }
            }
        }
    }
    assert!(faults.len() > 10, "{}: too short", baseline.display());
    faults
}

/// True where nothing is lost: what was only tidied up, what is tried in another way, and the journal's last
/// words, since the rows themselves are saved next.
fn is_harmless(points: &[Point], at: usize) -> bool {
    let Point { name, line, .. } = &points[at];
    let writes_journal = |point: &Point| {
        ["write", "fdatasync"].contains(&point.name.as_str())
            && point.line.contains(".journal.jsonl")
    };
    match name.as_str() {
        "openat" | "fsync" | "linkat" => false,
        "write" | "fdatasync" => {
            let last = &points[at + 1..];
            writes_journal(&points[at])
                && last.iter().filter(|point| writes_journal(point)).count() < 2
                && !last.iter().any(|p| p.name == "write" && writes_journal(p))
        }
        // The lock's release: a lock of a dead process is no lock.
        "rename" => line.contains(".aside"),
        "unlink" => !line.contains(".journal.jsonl"),
        _ => true,
    }
}

/// True for files that were written. Directories are left out: nothing is written back when they are closed, and Rust's library
/// takes an error there for a mistake of the program.
fn closes_a_file(line: &str) -> bool {
    [".tmp", ".journal.jsonl", "audit.jsonl"]
        .iter()
        .any(|part| line.contains(&format!("{part}>")) || line.contains(&format!("{part}-")))
}

fn ended_cleanly(world: &World, said: &Said, calls: &[Call]) -> Result<(), String> {
    let is_silenced = calls
        .iter()
        .any(|call| call.line.starts_with("write(2") && call.line.contains("(INJECTED)"));
    if !(0..=7).contains(&said.code) || said.err.contains("panicked") {
        Err(format!("code {}: {}", said.code, said.err))
    } else if said.code != 0 && !is_silenced && !world.names_a_path(said) {
        Err(format!("names no path: {}", said.err))
    } else {
        Ok(())
    }
}

fn nothing_after_a_lost_intent(error: &str, calls: &[Call]) -> Result<(), String> {
    // An interrupted call is simply made again.
    if error == "EINTR" {
        return Ok(());
    }
    let is_lost = |call: &Call| {
        call.line.contains("(INJECTED)")
            && call.line.contains(".journal.jsonl")
            && ["openat", "write", "fsync", "fdatasync", "ftruncate"].contains(&call.name.as_str())
    };
    match calls.iter().position(is_lost) {
        Some(at) if calls[at..].iter().any(|call| call.name.contains("clone")) => {
            Err("something was started after the journal failed".to_owned())
        }
        _ => Ok(()),
    }
}
