//! A soak: simulated life of a site on a real Slurm, then quiet, then the verdict.
//!
//! Runs only with `SNBB_SOAK_MINUTES`; `scripts/soak` sets it. What happens when, who calls what, which calls are
//! killed and how each job's attempt ends follows from `SNBB_SOAK_SEED`.
#![expect(
    clippy::disallowed_methods,
    reason = "starts programs, reads the clock, the environment and the disk"
)]

mod evidence;
mod hostile;
pub mod node;
mod plan;
mod site;
mod verdict;
mod verdict_tests;
mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use evidence::Evidence;
use plan::Plan;
use site::Site;
use snbb_scheduler::model::state::TaskStatus;
use snbb_scheduler::store::state_file::Store;
use world::World;

/// Quiet is when nothing has moved for so long: longer than what retries wait for.
const STILL: Duration = Duration::from_secs(18);

/// It must become quiet within this.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn a_site_lives_and_nothing_is_lost_or_doubled() {
    let Some(minutes) = number("SNBB_SOAK_MINUTES") else {
        return tell("SKIPPED the soak: scripts/soak --minutes N --seed S");
    };
    let seed = number("SNBB_SOAK_SEED").unwrap_or(1);
    let began = Instant::now();
    let Some(site) = Site::start(seed) else {
        return;
    };
    let start_took = began.elapsed();
    let plan = plan::plan(minutes, seed);
    let stop = AtomicBool::new(false);
    let quiet = AtomicBool::new(false);
    let mut faults = Vec::new();
    let (mut found, mut healed) = (Evidence::default(), Evidence::default());
    std::thread::scope(|scope| {
        let Plan { events, calls } = plan;
        let world = World::new(&site, events);
        let (quiet, stop, site) = (&quiet, &stop, &site);
        // Also if something panics.
        let _stops = Stops(stop);
        scope.spawn(move || world.turn(quiet, stop));
        let nodes: Vec<_> = calls
            .into_iter()
            .enumerate()
            .map(|(node, calls)| {
                scope.spawn(move || {
                    for call in calls {
                        sleep(call.pause);
                        if site.elapsed() >= Duration::from_secs(60 * minutes) {
                            break;
                        }
                        site.planned_call(node, &call);
                    }
                })
            })
            .collect();
        for node in nodes {
            node.join().unwrap();
        }
        quiet.store(true, Ordering::Relaxed);
        site.note("quiet begins", "");
        faults.extend(settle(site, STILL));
        found = evidence::collect(site);
        faults.extend(verdict::judge(&found));
        // What failed is tried again and succeeds now: nothing was so broken that it stays broken.
        site.note("healing begins", "");
        site.study.write("truth/calm", "");
        faults.extend(heal(site));
        healed = evidence::collect(site);
        faults.extend(
            verdict::judge(&healed)
                .into_iter()
                .map(|fault| format!("afterwards: {fault}")),
        );
        faults.extend(unhealed(&healed));
    });
    faults.append(&mut site.diary().faults);
    let mut summary = summary(&site, &found, &healed, minutes, seed);
    let _ = writeln!(
        summary,
        "  start {:.0} s, all in all {:.0} s",
        start_took.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    finish(site, &summary, faults);
}

/// Ends the world when it goes.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
    )
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n=== {text} ===");
}

/// The rows in a few words each.
fn rows(site: &Site) -> BTreeSet<String> {
    let store = Store::at(&site.study.at("state.parquet")).unwrap();
    let state = store.read().unwrap();
    let line = |row: &snbb_scheduler::model::state::TaskRow| {
        let job = row.job_id.as_ref().map_or("-", |id| id.as_str());
        let reason = row.reason.map_or("-", |reason| reason.as_str());
        let key = &row.key;
        format!(
            "{} {} {}: {} {reason}, job {job}",
            key.procedure,
            key.subject,
            key.session,
            row.status.as_str()
        )
    };
    state.rows().iter().map(line).collect()
}

fn is_in_flight(row: &str) -> bool {
    row.contains(": pending ") || row.contains(": running ")
}

/// Lets everything go on until nothing moves any more.
fn settle(site: &Site, still: Duration) -> Vec<String> {
    let since = Instant::now();
    let mut before = BTreeSet::new();
    let mut moved = Instant::now();
    while moved.elapsed() < still {
        site.call(0, &["resume", "--procedure", "*"], None);
        site.call(0, &["resume"], None);
        let said = site.call(1, &["run"], None);
        let now = rows(site);
        if now != before
            || now.iter().any(|row| is_in_flight(row))
            || said.code != Some(0)
            || said.err.contains("paused")
        {
            moved = Instant::now();
        }
        before = now;
        if since.elapsed() > PATIENCE {
            let moving: Vec<&String> = before.iter().filter(|row| is_in_flight(row)).collect();
            return vec![format!(
                "it does not become quiet: {moving:#?}; {}",
                said.err
            )];
        }
        sleep(Duration::from_millis(700));
    }
    Vec::new()
}

fn heal(site: &Site) -> Vec<String> {
    let since = Instant::now();
    loop {
        site.call(0, &["retry"], None);
        site.call(0, &["resume", "--procedure", "*"], None);
        let said = site.call(1, &["run"], None);
        let rows = rows(site);
        if said.code == Some(0)
            && rows.iter().all(|row| row.contains(": complete "))
            && said.err.contains(" 0 due")
        {
            return Vec::new();
        }
        if since.elapsed() > PATIENCE {
            let open: Vec<&String> = rows
                .iter()
                .filter(|row| !row.contains(": complete "))
                .collect();
            return vec![format!("it does not heal: {open:#?}; {}", said.err)];
        }
        sleep(Duration::from_millis(500));
    }
}

fn unhealed(evidence: &Evidence) -> Vec<String> {
    let mut tasks = BTreeSet::new();
    for (subject, session) in &evidence.sessions {
        for (procedure, session) in [
            ("convert", session.as_str()),
            ("prep", session),
            ("group", ""),
        ] {
            tasks.insert(snbb_scheduler::model::state::TaskKey::new(
                subject, session, procedure,
            ));
        }
    }
    for (key, _) in &evidence.outputs {
        tasks.remove(key);
    }
    tasks
        .into_iter()
        .map(|key| format!("{key:?} has no output after all"))
        .collect()
}

fn summary(site: &Site, found: &Evidence, healed: &Evidence, minutes: u64, seed: u64) -> String {
    let mut text = format!("soak of {minutes} min with seed {seed}\n");
    for (what, count) in &site.diary().counts {
        let _ = writeln!(text, "  {count:6} {what}");
    }
    for (when, evidence) in [("when quiet", found), ("healed", healed)] {
        let count = |status: TaskStatus| {
            evidence
                .rows
                .iter()
                .filter(|row| row.status == status)
                .count()
        };
        let _ = writeln!(
            text,
            "  {when}: {} sessions, {} rows ({} complete, {} failed), {} earlier attempts, {} events, {} records of accounting, {} starts",
            evidence.sessions.len(),
            evidence.rows.len(),
            count(TaskStatus::Complete),
            count(TaskStatus::Failed),
            evidence.attempts.len(),
            evidence.events.len(),
            evidence.records.len(),
            evidence
                .log
                .iter()
                .filter(|line| line.mark == evidence::Mark::Start)
                .count(),
        );
    }
    let mut reasons = std::collections::BTreeMap::<&str, usize>::new();
    for row in found.rows.iter().chain(&found.attempts) {
        *reasons
            .entry(row.reason.map_or("-", |reason| reason.as_str()))
            .or_default() += 1;
    }
    let _ = writeln!(text, "  ends: {reasons:?}");
    text
}

/// Prints the summary. If something was wrong, keeps the evidence and fails.
fn finish(site: Site, summary: &str, faults: Vec<String>) {
    tell(summary);
    if faults.is_empty() {
        let Site {
            cluster,
            study,
            nodes,
            ..
        } = site;
        drop(nodes);
        cluster.stop();
        drop(study);
        return;
    }
    let Site {
        cluster,
        study,
        nodes,
        ..
    } = site;
    drop(nodes);
    let place = study.dir.keep();
    let logs = std::process::Command::new("cp")
        .arg("-r")
        .arg(cluster.dir.join("log"))
        .arg(place.join("truth/slurm"))
        .status();
    let _ = std::fs::remove_file(place.join("program"));
    cluster.stop();
    panic!(
        "{summary}{} fault(s); the evidence is in {} ({logs:?}):\n{}",
        faults.len(),
        place.display(),
        faults.join("\n")
    );
}
