//! Random worlds against a second, simpler oracle.

use super::cohort::cohort;
use super::retries::with_retries;
use super::*;

/// A whole random world of one subject, as plain numbers.
#[derive(Debug, Clone)]
struct Random {
    /// For each procedure: scope is subject, and whether it depends on each earlier one.
    procedures: Vec<(bool, Vec<bool>)>,
    dicom: Vec<bool>,
    /// Per procedure and session (the last one is for the subject): disk and row.
    disk: Vec<Vec<u8>>,
    rows: Vec<Vec<u8>>,
    /// The rule of all dependencies: by scope, all, any.
    rule: u8,
    resubmit: bool,
    excluded: Vec<bool>,
    /// Per procedure of subject scope.
    min_sessions: Vec<usize>,
    /// Per procedure and session: what a complete row of subject scope remembers. And whether it
    /// is to run again.
    worked_on: Vec<Vec<bool>>,
    rerun: Vec<bool>,
    /// Per session, and for the subject: a job in flight of a procedure that is not in the configuration.
    gone: Vec<bool>,
    /// Per procedure: it was submitted while that one was in the configuration.
    together: Vec<bool>,
    /// Per procedure: its outputs are in a directory that it shares.
    shared: Vec<bool>,
    /// Per session: files newer than any attempt are among its DICOM files, and below `bids_root`.
    late: Vec<(bool, bool)>,
}

fn random_world() -> impl Strategy<Value = Random> {
    (1usize..5, 1usize..4).prop_flat_map(|(p, s)| {
        let flags = |n| prop::collection::vec(any::<bool>(), n);
        (
            (
                prop::collection::vec((any::<bool>(), flags(p)), p),
                flags(s),
                prop::collection::vec(prop::collection::vec(0u8..4, s + 1), p),
                prop::collection::vec(prop::collection::vec(0u8..10, s + 1), p),
            ),
            0u8..3,
            any::<bool>(),
            prop::collection::vec(prop::bool::weighted(0.2), s),
            prop::collection::vec(1usize..4, p),
            prop::collection::vec(flags(s), p),
            (
                flags(p),
                prop::collection::vec(prop::bool::weighted(0.15), s + 1),
                flags(p),
                flags(p),
                prop::collection::vec((any::<bool>(), any::<bool>()), s),
            ),
        )
            .prop_map(
                |(
                    basic,
                    rule,
                    resubmit,
                    excluded,
                    min_sessions,
                    worked_on,
                    (rerun, gone, together, shared, late),
                )| Random {
                    procedures: basic.0,
                    dicom: basic.1,
                    disk: basic.2,
                    rows: basic.3,
                    rule,
                    resubmit,
                    excluded,
                    min_sessions,
                    worked_on,
                    rerun,
                    gone,
                    together,
                    shared,
                    late,
                },
            )
    })
}

/// The same decision in the plainest words, eagerly, without sharing.
fn oracle(world: &Random, p: usize, s: usize) -> &'static str {
    let subject_scope = world.procedures[p].0;
    let n = world.dicom.len();
    let cell = if subject_scope { n } else { s };
    if matches!(world.rows[p][cell], 1 | 2) {
        return "in flight";
    }
    if subject_scope && !world.excluded.contains(&false) || !subject_scope && world.excluded[s] {
        return "excluded";
    }
    let has_dicom = !subject_scope && world.dicom[s] || subject_scope && !counted(world).is_empty();
    let is_ready = missing(world, p, s).is_empty() && has_sessions(world, p);
    match believed(world, p, cell) {
        "in flight" if is_ready => "renamed",
        "in flight" => "waiting",
        "doubted" => "waiting",
        "complete" if is_outdated(world, p, cell) && world.rerun[p] && has_dicom && is_ready => {
            // A task that builds on it and is in flight reads its outputs.
            let is_used = (p + 1..world.rows.len()).any(|user| {
                let cells = match world.procedures[user].0 {
                    true => n..n + 1,
                    false if !subject_scope && world.rule == 0 => s..s + 1,
                    false => 0..n,
                };
                world.procedures[user].1[p]
                    && cells
                        .into_iter()
                        .any(|cell| matches!(world.rows[user][cell], 1 | 2))
            });
            if is_used { "waiting" } else { "submit" }
        }
        "complete" if is_outdated(world, p, cell) => "stale",
        word @ ("failed" | "unreadable" | "complete") => word,
        _ if !has_dicom => "no dicom",
        "not applicable" if is_excused(world, p, cell) => "not applicable",
        _ if !is_ready => "waiting",
        _ => "submit",
    }
}

/// True if a job in flight under another name may belong to the task.
fn waits_for_gone(world: &Random, p: usize, cell: usize) -> bool {
    let n = world.dicom.len();
    let meets = |other: usize| other == cell || other == n || cell == n;
    !world.together[p] && (0..=n).any(|other| world.gone[other] && meets(other))
}

/// The sessions that count for a subject.
fn counted(world: &Random) -> Vec<usize> {
    (0..world.dicom.len())
        .filter(|i| world.dicom[*i] && !world.excluded[*i])
        .collect()
}

fn wanted(world: &Random) -> impl Iterator<Item = usize> {
    (0..world.dicom.len()).filter(|i| !world.excluded[*i])
}

/// The sessions that a procedure of subject scope works on.
fn inputs(world: &Random, p: usize) -> Vec<usize> {
    let needs: Vec<usize> = (0..p)
        .filter(|q| world.procedures[p].1[*q] && !world.procedures[*q].0)
        .collect();
    if needs.is_empty() {
        return counted(world);
    }
    let is_input = |i: &usize| {
        let is_complete = |q: &usize| is_believed_complete(world, *q, *i);
        needs
            .iter()
            .all(|q| is_complete(q) || is_excused(world, *q, *i))
            && needs.iter().any(is_complete)
    };
    wanted(world).filter(is_input).collect()
}

/// True for a complete task of subject scope whose row lacks one of its sessions.
fn is_stale(world: &Random, p: usize) -> bool {
    let n = world.dicom.len();
    world.procedures[p].0
        && world.rows[p][n] == 5
        && inputs(world, p).iter().any(|i| !world.worked_on[p][*i])
}

/// True for a complete task that lacks a session, or whose input has newer files than its attempt.
fn is_outdated(world: &Random, p: usize, cell: usize) -> bool {
    is_stale(world, p) || is_late(world, p, cell)
}

fn is_late(world: &Random, p: usize, cell: usize) -> bool {
    let is_first = !(0..p).any(|q| world.procedures[p].1[q]);
    let has_late = |i: usize| match (is_first && world.dicom[i], world.shared[p]) {
        (true, _) => world.late[i].0,
        // Its own outputs are there.
        (false, true) => false,
        (false, false) => world.late[i].1,
    };
    world.rows[p][cell] == 5
        && match cell == world.dicom.len() {
            true => wanted(world).any(|i| world.worked_on[p][i] && has_late(i)),
            false => has_late(cell),
        }
}

/// The trusted state of a task.
fn believed(world: &Random, q: usize, cell: usize) -> &'static str {
    match alone(world, q, cell) {
        "complete" if world.rows[q][cell] != 5 && is_doubted(world, q, cell) => "doubted",
        word => word,
    }
}

/// True if a task that this one builds on may be writing the same files, or has failed to.
fn is_doubted(world: &Random, q: usize, cell: usize) -> bool {
    let n = world.dicom.len();
    let is_writing = |a: usize, cell: usize| {
        let word = alone(world, a, cell);
        matches!(word, "in flight" | "failed" | "tried again") || world.rows[a][cell] == 7
    };
    (0..q)
        .filter(|a| builds_on(world, q, *a) && world.shared[q] && world.shared[*a])
        .any(|a| match (world.procedures[a].0, cell == n) {
            (true, _) => is_writing(a, n),
            (false, false) => is_writing(a, cell),
            (false, true) => wanted(world).any(|i| is_writing(a, i)),
        })
}

fn builds_on(world: &Random, q: usize, a: usize) -> bool {
    (0..q).any(|d| world.procedures[q].1[d] && (d == a || builds_on(world, d, a)))
}

/// The trusted state of a task by its own row and outputs.
fn alone(world: &Random, q: usize, cell: usize) -> &'static str {
    match (world.rows[q][cell], world.disk[q][cell]) {
        (1 | 2, _) => "in flight",
        _ if waits_for_gone(world, q, cell) => "in flight",
        (3 | 9, _) if !world.resubmit => "failed",
        (3 | 8 | 9, 0 | 1) | (7, 1) => "tried again",
        (_, 1) => "complete",
        (_, 2) => "not applicable",
        (_, 3) => "unreadable",
        (4, _) if !world.resubmit => "failed",
        _ => "incomplete",
    }
}

/// True if others may build on a task: its outputs are complete and are not made anew.
fn is_believed_complete(world: &Random, q: usize, cell: usize) -> bool {
    let n = world.dicom.len();
    believed(world, q, cell) == "complete" && oracle(world, q, cell.min(n - 1)) != "submit"
}

fn is_excused(world: &Random, q: usize, cell: usize) -> bool {
    let s = cell.min(world.dicom.len() - 1);
    let missing = missing(world, q, s);
    believed(world, q, cell) == "not applicable"
        && match missing.is_empty() {
            true => has_sessions(world, q),
            false => missing.iter().all(|is_nowhere| *is_nowhere),
        }
}

/// True if there are as many sessions as a procedure of subject scope needs.
fn has_sessions(world: &Random, p: usize) -> bool {
    let needed = world.min_sessions[p];
    !world.procedures[p].0 || needed < 2 || inputs(world, p).len() >= needed
}

/// The dependencies that are not ready: for each, whether it applies to no session of the subject.
fn missing(world: &Random, p: usize, s: usize) -> Vec<bool> {
    let n = world.dicom.len();
    let subject_scope = world.procedures[p].0;
    let needed = (0..p).filter(|q| world.procedures[p].1[*q]);
    let missing_in = |q: usize| {
        let complete = |cell: usize| is_believed_complete(world, q, cell);
        let ready = |cell| complete(cell) || is_excused(world, q, cell);
        match (world.procedures[q].0, subject_scope, world.rule) {
            (true, ..) => (!ready(n)).then_some(false),
            (false, false, 0) => (!ready(s)).then_some(false),
            (false, _, rule) => {
                let all: Vec<usize> = wanted(world)
                    .filter(|i| world.dicom[*i] || complete(*i))
                    .collect();
                let (one, every) = (
                    all.iter().any(|i| complete(*i)),
                    all.iter().all(|i| ready(*i)),
                );
                let is_ready = (one || !subject_scope) && every || rule == 2 && one;
                (!is_ready).then_some(every && !all.is_empty())
            }
        }
    };
    needed.filter_map(missing_in).collect()
}

proptest! {
    #[test]
    fn the_plan_agrees_with_a_simple_oracle(world in random_world()) {
        let rule = [SessionsRule::ByScope, SessionsRule::All, SessionsRule::Any][usize::from(world.rule)];
        let names: Vec<String> = (0..world.procedures.len()).map(|i| format!("p{i}")).collect();
        let dag = ProcedureDag::new(
            world.procedures.iter().enumerate().map(|(i, (subject, deps))| {
                let deps: Vec<(&str, SessionsRule)> =
                    (0..i).filter(|q| deps[*q]).map(|q| (names[q].as_str(), rule)).collect();
                let scope = if *subject { Scope::Subject } else { Scope::Session };
                let mut declared = procedure(&names[i], scope, &deps);
                declared.rules.rerun_when_stale = world.rerun[i];
                if *subject {
                    declared.rules.min_sessions = world.min_sessions[i];
                }
                if world.shared[i] {
                    declared.output_dir = "".into();
                }
                with_retries(declared)
            }).collect(),
        ).unwrap();
        let sessions: Vec<Session> = world.dicom.iter().enumerate()
            .map(|(i, dicom)| session("sub-01", &format!("ses-{i}"), *dicom)).collect();
        let mut disk = Disk::default();
        let mut rows = State::default();
        let mut attempts = Vec::new();
        let n = sessions.len();
        for (p, (subject, _)) in world.procedures.iter().enumerate() {
            let cells = if *subject { n..n + 1 } else { 0..n };
            for cell in cells {
                let label = if cell == n { String::new() } else { format!("ses-{cell}") };
                disk.set("sub-01", &label, p as u16, match world.disk[p][cell] {
                    0 => Completion::Incomplete,
                    1 => Completion::Complete,
                    2 => Completion::NotApplicable,
                    _ => unreadable(),
                });
                let mut row = match world.rows[p][cell] {
                    1 => row(&names[p], TaskStatus::Running, Reason::Running),
                    2 => row(&names[p], TaskStatus::Pending, Reason::Submitting),
                    3 => row(&names[p], TaskStatus::Failed, Reason::ExitCode),
                    4 => row(&names[p], TaskStatus::Failed, Reason::ExitCode),
                    5 => row(&names[p], TaskStatus::Complete, Reason::Verified),
                    8 => row(&names[p], TaskStatus::Failed, Reason::Timeout),
                    9 => row(&names[p], TaskStatus::Failed, Reason::NodeFail),
                    // Known from the attempts file only.
                    7 => row(&names[p], TaskStatus::Failed, Reason::ExitCode),
                    _ => continue,
                };
                if world.rows[p][cell] == 4 {
                    row.reason = None;
                }
                row.key.session = label.as_str().into();
                if cell == n && world.rows[p][cell] == 5 {
                    let labels: Vec<String> = (0..n)
                        .filter(|i| world.worked_on[p][*i])
                        .map(|i| format!("ses-{i}"))
                        .collect();
                    row.input_sessions = Some(labels.join(" ").as_str().into());
                }
                match world.rows[p][cell] {
                    7 => attempts.push(row),
                    _ => rows.put(row),
                }
            }
        }
        for cell in (0..=n).filter(|cell| world.gone[*cell]) {
            let mut row = row("gone", TaskStatus::Running, Reason::Running);
            row.submitted_at = Some(at(5));
            row.key.session = if cell == n { "".into() } else { format!("ses-{cell}").as_str().into() };
            rows.put(row);
        }
        for p in (0..world.together.len()).filter(|p| world.together[*p]) {
            let mut row = row(&names[p], TaskStatus::Failed, Reason::Timeout);
            row.key.subject = "sub-09".into();
            row.submitted_at = Some(at(5));
            attempts.push(row);
        }
        let excluded: Vec<String> = (0..n)
            .filter(|i| world.excluded[*i])
            .map(|i| format!("01/ses-{i}"))
            .collect();
        let policy = Policy {
            resubmit_failed: world.resubmit,
            reports_late_input: true,
            ..cohort(&excluded.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let late = |session: &Session, input: Input, _: chrono::DateTime<chrono::Utc>| {
            let at = sessions.iter().position(|one| one == session).unwrap();
            if input == Input::Dicom { world.late[at].0 } else { world.late[at].1 }
        };
        let got = decide_with(&dag, &sessions, &rows, &attempts, &disk, &policy, &late);
        for (p, (subject, _)) in world.procedures.iter().enumerate() {
            let cells = if *subject { n..n + 1 } else { 0..n };
            for cell in cells {
                let label = if cell == n { String::new() } else { format!("ses-{cell}") };
                let decision = &got[&format!("p{p}/sub-01/{label}")];
                let word = match decision {
                    Decision::Submit(_) => "submit",
                    Decision::Skip(Skip::Complete) => "complete",
                    Decision::Skip(Skip::NotApplicable) => "not applicable",
                    Decision::Skip(Skip::InFlight { .. }) => "in flight",
                    Decision::Skip(Skip::Failed { .. }) => "failed",
                    Decision::Skip(Skip::NoDicom) => "no dicom",
                    Decision::Skip(Skip::WaitingFor(_) | Skip::TooFewSessions { .. }) => "waiting",
                    Decision::Skip(Skip::Stale(_) | Skip::LateInput) => "stale",
                    Decision::Skip(Skip::Excluded) => "excluded",
                    Decision::Skip(Skip::Renamed(_)) => "renamed",
                    Decision::Skip(Skip::Unreadable(_)) => "unreadable",
                    Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_) | Skip::NotSelected | Skip::JobWithoutRow(_) | Skip::Settling { .. } | Skip::TooFewFiles { .. }) => "impossible",
                };
                prop_assert_eq!(word, oracle(&world, p, cell.min(n - 1)), "p{} {}", p, label);
            }
        }
    }
}
