//! Suggestions from measured use.

use proptest::prelude::*;

use super::*;
use crate::model::procedure::{MemSize, TimeLimit};
use crate::model::state::testing::{at, row};

fn attempt(
    number: i64,
    (status, reason): (TaskStatus, Reason),
    mem: (i64, i64),
    time: (i64, i64),
) -> TaskRow {
    let mut row = row("p", status, reason);
    row.submitted_at = Some(at(number));
    row.facts.req_mem_mb = Some(mem.0);
    row.facts.max_rss_mb = Some(mem.1);
    row.facts.time_limit_s = Some(time.0);
    row.facts.elapsed_s = Some(time.1);
    row
}

const GOOD: (TaskStatus, Reason) = (TaskStatus::Complete, Reason::Verified);
const OOM: (TaskStatus, Reason) = (TaskStatus::Failed, Reason::OutOfMemory);

fn one(attempts: &[TaskRow]) -> Efficiency {
    let dag = ProcedureDag::new(Vec::new()).unwrap();
    let mut all = efficiency(attempts.iter(), &dag);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn an_oversized_memory_request_gets_a_smaller_suggestion() {
    let attempts: Vec<_> = (1..=20)
        .map(|n| attempt(n, GOOD, (32_768, 4000 + 100 * n), (86_400, 3600 * 2)))
        .collect();
    let found = one(&attempts);
    let memory = found.memory.unwrap();
    let used = memory.used.unwrap();
    assert_eq!(
        (used.p50, used.p90, used.p95, used.max),
        (5000, 5800, 5900, 6000)
    );
    assert_eq!(
        (memory.n, memory.over_asked, memory.under_asked),
        (20, 20, 0)
    );
    assert_eq!(memory.verdict, Verdict::OverAsked);
    assert_eq!(memory.suggested_text.as_deref(), Some("7G"));
    let time = found.time.unwrap();
    assert_eq!(time.suggested_text.as_deref(), Some("3:00:00"));
    assert_eq!(found.cpu, None);
}

#[test]
fn too_little_memory_gets_a_larger_suggestion() {
    let mut attempts: Vec<_> = (1..=6)
        .map(|n| attempt(n, GOOD, (8192, 7000), (3600, 600)))
        .collect();
    attempts.push(attempt(7, OOM, (8192, 8192), (3600, 600)));
    let memory = one(&attempts).memory.unwrap();
    assert_eq!((memory.n, memory.under_asked), (6, 1));
    assert_eq!(memory.verdict, Verdict::UnderAsked);
    assert_eq!(memory.suggested_text.as_deref(), Some("12G"));
}

#[test]
fn few_attempts_suggest_nothing_and_rare_failures_do_not_raise_all() {
    let few = one(&[attempt(1, GOOD, (8192, 700), (3600, 600))]);
    let memory = few.memory.unwrap();
    assert_eq!((memory.suggested, memory.verdict), (None, Verdict::Unknown));

    let mut many: Vec<_> = (1..=99)
        .map(|n| attempt(n, GOOD, (8192, 3000), (3600, 600)))
        .collect();
    many.push(attempt(100, OOM, (8192, 8192), (3600, 600)));
    let memory = one(&many).memory.unwrap();
    assert_eq!(
        (memory.suggested, memory.verdict),
        (None, Verdict::Fits),
        "less than it was killed at would kill it again"
    );
    // Those that were killed asked for less than all do now.
    many[99].facts.req_mem_mb = Some(2048);
    many.push(attempt(101, GOOD, (8192, 3000), (3600, 600)));
    let memory = one(&many).memory.unwrap();
    assert_eq!(memory.suggested_text.as_deref(), Some("4G"));
}

#[test]
fn without_short_attempts_no_request_is_too_small() {
    let attempts: Vec<_> = (1..=6)
        .map(|n| attempt(n, GOOD, (200, 5), (120, 1)))
        .collect();
    let found = one(&attempts);
    let memory = found.memory.unwrap();
    assert_eq!(
        (memory.suggested_text.as_deref(), memory.verdict),
        (Some("64M"), Verdict::OverAsked)
    );
    let time = found.time.unwrap();
    assert_eq!(
        (time.suggested_text.as_deref(), time.verdict),
        (Some("0:01:00"), Verdict::OverAsked)
    );
    // Rounding alone does not increase a request, but use near the limit does.
    for (used, verdict, suggested) in [
        (170, Verdict::Fits, Some("200M")),
        (190, Verdict::UnderAsked, Some("256M")),
    ] {
        let attempts: Vec<_> = (1..=6)
            .map(|n| attempt(n, GOOD, (200, used), (120, 1)))
            .collect();
        let memory = one(&attempts).memory.unwrap();
        assert_eq!(
            (memory.suggested_text.as_deref(), memory.verdict),
            (suggested, verdict),
            "{used}"
        );
    }
}

#[test]
fn suggestions_exceed_the_use_and_limit_of_every_attempt() {
    const NO_OUTPUT: (TaskStatus, Reason) = (TaskStatus::Failed, Reason::NoOutput);
    let killed = attempt(1, OOM, (100, 98), (3600, 60));
    let other = attempt(2, NO_OUTPUT, (700, 413), (3600, 60));
    let memory = one(&[killed.clone(), other]).memory.unwrap();
    assert_eq!(memory.suggested_text.as_deref(), Some("448M"));
    assert_eq!((memory.n, memory.under_asked), (0, 1));

    let mut attempts: Vec<_> = (2..=7)
        .map(|n| attempt(n, GOOD, (700, 60), (3600, 60)))
        .collect();
    attempts.push(attempt(8, OOM, (700, 690), (3600, 60)));
    let memory = one(&attempts).memory.unwrap();
    assert_eq!(
        (memory.suggested_text.as_deref(), memory.verdict),
        (Some("1280M"), Verdict::UnderAsked)
    );
    // A single attempt does not justify a smaller request.
    assert_eq!(
        one(&[killed]).memory.unwrap().suggested_text.as_deref(),
        Some("192M")
    );
}

#[test]
fn unmeasured_procedures_are_left_out() {
    let dag = ProcedureDag::new(Vec::new()).unwrap();
    let bare = row("p", TaskStatus::Complete, Reason::Verified);
    assert_eq!(efficiency([bare].iter(), &dag), []);
}

#[test]
fn cpu_use_is_the_share_of_all_cpus() {
    let mut row = attempt(1, GOOD, (1, 1), (3600, 100));
    row.facts.cpu_time_s = Some(200);
    row.facts.alloc_cpus = Some(8);
    let cpu = one(&[row]).cpu.unwrap();
    assert_eq!((cpu.n, cpu.alloc_cpus, cpu.busy_p50), (1, 8, 0.25));
    assert_eq!((cpu.suggested, cpu.verdict), (None, Verdict::Unknown));
}

#[test]
fn suggested_cpus_have_a_margin_and_never_exceed_the_request() {
    let cpus = |used: i64, held: i64| {
        let job = |number| {
            let mut row = attempt(number, GOOD, (1, 1), (3600, 100));
            row.facts.cpu_time_s = Some(used);
            row.facts.alloc_cpus = Some(held);
            row
        };
        let cpu = one(&(1..=5).map(job).collect::<Vec<_>>()).cpu.unwrap();
        (cpu.suggested.unwrap(), cpu.verdict)
    };
    // Two of eight were busy: two and a half are three.
    assert_eq!(cpus(200, 8), (3, Verdict::OverAsked));
    assert_eq!(cpus(790, 8), (8, Verdict::Fits));
    assert_eq!(cpus(0, 4), (1, Verdict::OverAsked));
    assert_eq!(cpus(100, 1), (1, Verdict::Fits));
}

#[test]
fn waste_is_the_unused_part_of_the_allocation() {
    let mut row = attempt(1, GOOD, (8 * 1024, 4 * 1024), (7200, 3600));
    let waste = |row: &TaskRow| Job::new(row).unwrap().waste_h;
    assert_eq!(waste(&row), Some(1.0), "4 GB-hours count as one CPU-hour");
    row.facts.alloc_cpus = Some(8);
    row.facts.cpu_time_s = Some(2 * 3600);
    assert_eq!(waste(&row), Some(7.0));
    row.facts.cpu_time_s = Some(9 * 3600);
    assert_eq!(waste(&row), Some(1.0));
    row.facts.elapsed_s = None;
    assert_eq!(waste(&row), None);
    row.status = TaskStatus::Running;
    assert!(Job::new(&row).is_none());
    let mut all = [None, Some(1.0), Some(2.0)];
    by_waste(&mut all, |waste| *waste);
    assert_eq!(all, [Some(2.0), Some(1.0), None]);
}

#[test]
fn cells_have_the_colours_of_reportseff() {
    use anstyle::AnsiColor::{Green, Red};
    let colors = |column| ["19", "20", "61", "81", "91", "-"].map(|cell| color(column, cell));
    let (red, green) = (Some(Red), Some(Green));
    assert_eq!(colors("mem_pct"), [red, None, green, green, red, None]);
    assert_eq!(colors("cpu_pct"), [red, None, None, green, green, None]);
    assert_eq!(colors("attempt"), [None; 6]);
}

proptest! {
    #[test]
    fn queue_waits_are_never_negative(submitted in -1_000_000i64..1_000_000, started in -1_000_000i64..1_000_000) {
        let mut row = attempt(1, GOOD, (1, 1), (1, 1));
        row.submitted_at = Some(at(submitted));
        row.facts.started_at = Some(at(started));
        let wait = Job::new(&row).unwrap().queue_wait_s().unwrap();
        prop_assert!(wait >= 0);
        prop_assert!(wait == 0 || wait == (started - submitted) * 60);
    }

    #[test]
    fn percentiles_are_values_that_occur_in_order(mut values in prop::collection::vec(0i64..1000, 0..60)) {
        let n = values.len();
        let Some(found) = percentiles(&mut values) else {
            prop_assert_eq!(n, 0);
            return Ok(());
        };
        prop_assert!(found.p50 <= found.p90 && found.p90 <= found.p95 && found.p95 <= found.max);
        prop_assert_eq!(Some(&found.max), values.iter().max());
        for (percent, value) in [(50, found.p50), (90, found.p90), (95, found.p95)] {
            prop_assert!(values.contains(&value));
            let not_above = values.iter().filter(|v| **v <= value).count();
            let below = values.iter().filter(|v| **v < value).count();
            prop_assert!(not_above * 100 >= percent * n && below * 100 < percent * n);
        }
    }

    #[test]
    fn suggestions_suffice_for_all_attempts_and_are_valid_for_sbatch(
        used in prop::collection::vec((1i64..2_000_000, 1i64..3_000_000), 5..30)
    ) {
        let attempts: Vec<_> = used.iter().enumerate()
            .map(|(n, (mem, time))| attempt(n as i64, GOOD, (1024, *mem), (60, *time)))
            .collect();
        let found = one(&attempts);
        let (memory, time) = (found.memory.unwrap(), found.time.unwrap());
        let mem = MemSize::parse(memory.suggested_text.as_deref().unwrap()).unwrap();
        prop_assert_eq!(mem.megabytes() as i64, memory.suggested.unwrap());
        prop_assert!(mem.megabytes() as i64 >= memory.used.unwrap().max);
        let limit = TimeLimit::parse(time.suggested_text.as_deref().unwrap()).unwrap();
        prop_assert_eq!(limit.seconds().unwrap() as i64, time.suggested.unwrap());
        prop_assert!(time.suggested.unwrap() > time.used.unwrap().max);
    }
}

/// A measured attempt without figures to waste: `-0.0` looks like an error in a table.
#[test]
fn no_waste_is_a_plain_zero() {
    let mut row = attempt(1, GOOD, (8 * 1024, 4 * 1024), (7200, 3600));
    row.facts.req_mem_mb = None;
    row.facts.alloc_cpus = None;
    assert_eq!(Job::new(&row).unwrap().waste_h, None);
    let found = efficiency(
        std::iter::once(&row),
        &ProcedureDag::new(Vec::new()).unwrap(),
    );
    let zero = found.first().unwrap().waste_h;
    assert!(zero == 0.0 && zero.is_sign_positive(), "{zero:?}");
}
