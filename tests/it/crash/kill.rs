//! The program is killed at every call: the state is whole, and the next calls finish the work once.

use std::path::Path;

use snbb_scheduler::store::audit_log::Record;

use super::trace::{self, NOISE, Point};
use super::world::World;
use super::{is_long, strace_works, sweep, trace_dir};

/// Without the long mode, one in so many calls that change nothing is a point.
const STRIDE: usize = 40;

#[test]
fn run_that_is_killed_anywhere_on_a_new_study() {
    killed("kill-run-fresh", &World::fresh(), &["run"]);
}

#[test]
fn run_that_is_killed_anywhere_on_a_grown_study() {
    killed("kill-run-grown", &World::grown(), &["run"]);
}

#[test]
fn run_that_is_killed_anywhere_while_it_submits_an_array() {
    killed("kill-run-array", &World::array(), &["run"]);
}

#[test]
fn monitor_that_is_killed_anywhere() {
    killed("kill-monitor", &World::with_ended_jobs(), &["monitor"]);
}

#[test]
fn retry_that_is_killed_anywhere() {
    killed("kill-retry", &World::failed(), &["retry"]);
}

#[test]
fn pause_that_is_killed_anywhere() {
    killed("kill-pause", &World::grown(), &["pause"]);
}

#[test]
fn run_that_pauses_and_is_killed_anywhere() {
    let start = World::failing();
    let calm = start.copy();
    calm.study.ok(&["run"]);
    assert!(calm.store().paths.control.symlink_metadata().is_ok());
    killed("kill-run-pause", &start, &["run"]);
}

#[test]
fn clean_that_is_killed_anywhere() {
    let start = World::with_old_things();
    let events = start.events().unwrap();
    let keeps_all = |world: &World| {
        let now = world.events()?;
        let count = |list: &[Record], event: &Record| list.iter().filter(|e| *e == event).count();
        match events.iter().find(|e| count(&now, e) != count(&events, e)) {
            Some(event) => Err(format!("{} times: {event:?}", count(&now, event))),
            None => Ok(()),
        }
    };
    let calm = start.copy();
    let said = calm.study.ok(&["clean", "--older-than", "0s"]);
    for part in ["moved 1 row", "removed 4 logs", "archived"] {
        assert!(said.err.contains(part), "{}", said.err);
    }
    keeps_all(&calm).unwrap();
    let command = ["clean", "--older-than", "0s"];
    killed_and("kill-clean", &start, &command, keeps_all);
}

fn killed(name: &str, start: &World, command: &[&str]) {
    killed_and(name, start, command, |_| Ok(()));
}

/// The same with a look of one's own at what is left, before and after it is settled.
fn killed_and(
    name: &str,
    start: &World,
    command: &[&str],
    look: impl Fn(&World) -> Result<(), String> + Sync,
) {
    if !strace_works(name) {
        return;
    }
    let dir = trace_dir(name);
    let baseline = dir.join("baseline.trace");
    let calm = start.copy();
    let said = calm.traced(command, &[], &baseline);
    assert_eq!(said.code, 0, "{}", said.err);
    // What the call saves while nothing disturbs it.
    let generations = start.generation().unwrap()..=calm.generation().unwrap();
    let expected = calm.settle(command).unwrap();

    sweep(name, &chosen(&baseline), |point| {
        let world = start.copy();
        let file = dir.join(format!("{}-{}.trace", point.name, point.n));
        let set = format!("trace={}", point.name);
        let fault = format!("inject={}:signal=KILL:when={}", point.name, point.n);
        let said = world.traced(command, &["-e", &set, "-e", &fault], &file);
        let outcome = if said.code > 0 {
            Err(format!("code {}: {}", said.code, said.err))
        } else {
            world
                .is_whole(start)
                .and_then(|()| world.generation())
                .and_then(|g| match generations.contains(&g) {
                    true => Ok(()),
                    false => Err(format!("generation {g}, not of {generations:?}")),
                })
                .and_then(|()| look(&world))
                .and_then(|()| world.settle(command))
                .and_then(|found| found.is_like(&expected))
                .and_then(|()| look(&world))
        };
        if outcome.is_ok() {
            let _ = std::fs::remove_file(&file);
        }
        outcome.map_err(|what| format!("{} at {}: {what}", trace_of(point), file.display()))
    });
}

fn trace_of(point: &Point) -> String {
    format!("({}, {}) [{}]", point.name, point.n, point.line)
}

fn chosen(baseline: &Path) -> Vec<Point> {
    let all: Vec<Point> = trace::points(&trace::read(baseline))
        .into_iter()
        .filter(|point| !NOISE.contains(&point.name.as_str()))
        .collect();
    assert!(all.len() > 50, "{}: too short", baseline.display());
    let mut quiet = 0;
    let mut after_start = false;
    all.into_iter()
        .filter(|point| {
            let changes = trace::changes(&point.name, &point.line);
            // A process that was just started runs on alone.
            let orphans = std::mem::replace(&mut after_start, point.name.contains("clone"));
            quiet += usize::from(!changes);
            is_long() || changes || orphans || quiet % STRIDE == 0
        })
        .collect()
}
