//! The figures of the made-up study: failures, progress, trend, efficiency.

use chrono::Days;
use snbb_scheduler::show::audit::attention::{Failures, NodeFailures, ReasonCount, groups};
use snbb_scheduler::show::audit::count_of;
use snbb_scheduler::show::audit::details::TaskDetail;
use snbb_scheduler::show::audit::logs::{LogFinding, PatternCount};
use snbb_scheduler::show::audit::summary::ProcedureCounts;
use snbb_scheduler::show::audit::trend::{FigureTrend, ProcedureTrend, Trend};
use snbb_scheduler::show::efficiency::{CpuUse, Efficiency, Percentiles, Usage, Verdict};
use snbb_scheduler::show::graph::{Edge, Graph};
use snbb_scheduler::show::progress::{Backlog, Day, ProcedureProgress, Progress, Rate};
use snbb_scheduler::show::tables::Tally;

use super::{Dice, PROCEDURES, REASONS, count, now};

pub fn failures(tasks: &[TaskDetail], failed: &[&TaskDetail]) -> Failures {
    let by_reason = REASONS.iter().map(|reason| {
        let of = failed.iter().filter(|task| task.reason == Some(reason));
        let procedures = PROCEDURES.iter().map(|name| {
            count(
                name,
                of.clone()
                    .filter(|task| &*task.key.procedure == *name)
                    .count(),
            )
        });
        ReasonCount {
            reason,
            count: of.clone().count(),
            procedures: procedures.filter(|c| c.count > 0).collect(),
        }
    });
    let mut by_reason: Vec<ReasonCount> = by_reason.filter(|reason| reason.count > 0).collect();
    by_reason.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    let by_node = (1..=8).map(|node: usize| NodeFailures {
        node: format!("node{node:03}").into(),
        jobs: 400 + node * 31,
        failed: 96 / node,
        share: (96 / node) as f64 / (400 + node * 31) as f64,
        reasons: vec![count("out_of_memory", 96 / node)],
    });
    Failures {
        groups: groups(tasks),
        by_reason,
        by_node: by_node.collect(),
    }
}

pub fn patterns(findings: &[LogFinding]) -> Vec<PatternCount> {
    let all = [
        (
            "out_of_memory",
            "the memory was too small",
            "ask for more memory (mem:) or fewer threads",
        ),
        (
            "time_limit",
            "the job reached its time limit",
            "ask for more time (time:)",
        ),
        (
            "exit_code",
            "a path is not there",
            "see that the inputs of the step are complete",
        ),
        (
            "node_failure",
            "the node or its file system failed",
            "tell the administrator the node's name",
        ),
    ];
    let counts = all.map(|(pattern, meaning, hint)| PatternCount {
        pattern: pattern.into(),
        meaning: meaning.into(),
        hint: hint.into(),
        tasks: findings
            .iter()
            .filter(|found| &*found.pattern == pattern)
            .count(),
    });
    counts.into_iter().filter(|count| count.tasks > 0).collect()
}

pub fn pipeline(procedures: &[ProcedureCounts]) -> Graph {
    let nodes = procedures.iter().map(|procedure| Tally {
        procedure: procedure.name.clone(),
        counts: procedure
            .decisions
            .iter()
            .map(|count| (count.word.parse().unwrap(), count.count))
            .collect(),
    });
    let edge = |(from, to)| Edge {
        from,
        to,
        any_session: to == 5,
    };
    Graph {
        nodes: nodes.collect(),
        edges: [(0, 1), (0, 2), (1, 3), (1, 4), (3, 5), (4, 5)]
            .map(edge)
            .to_vec(),
    }
}

pub fn progress(procedures: &[ProcedureCounts]) -> Progress {
    let mut dice = Dice(11);
    let rate = |per_day: f64| Rate {
        last_7_days: Some(per_day),
        last_28_days: Some(per_day * 0.9),
    };
    let each = procedures.iter().enumerate().map(|(at, procedure)| {
        let done = count_of(&procedure.decisions, "complete");
        let from = 12 * at as u64;
        let (mut so_far, mut failed_so_far) = (0, 0);
        let span = 110 - from;
        let days = (0..=span).filter_map(|day| {
            let weekend = day % 7 >= 5;
            let completed = if day == span {
                done - so_far
            } else if weekend {
                0
            } else {
                // A slow start, then about as much each day.
                let so_much = done as u64 * (day + 3) * (96 + dice.roll(8)) / 100;
                let by_then = (so_much * 10 / 9 / (span + 3)) as usize;
                by_then.clamp(so_far, done) - so_far
            };
            let failed = if weekend { 0 } else { completed / 25 };
            so_far += completed;
            failed_so_far += failed;
            (completed + failed > 0).then(|| Day {
                date: (now() - Days::new(span - day)).date_naive(),
                submitted: completed + failed,
                completed,
                failed,
                completed_so_far: so_far,
                failed_so_far,
            })
        });
        let tasks = procedure.tasks - done - count_of(&procedure.decisions, "failed");
        ProcedureProgress {
            procedure: procedure.name.clone(),
            days: days.collect(),
            rate: rate(done as f64 / span as f64),
            backlog: Backlog {
                tasks,
                expected_end: Some(now() + Days::new(9 + 4 * at as u64)),
            },
        }
    });
    let each: Vec<ProcedureProgress> = each.collect();
    Progress {
        rate: rate(each.iter().filter_map(|p| p.rate.last_7_days).sum()),
        backlog: Backlog {
            tasks: each.iter().map(|p| p.backlog.tasks).sum(),
            expected_end: Some(now() + Days::new(29)),
        },
        procedures: each,
        bad_lines: 0,
    }
}

pub fn trend(procedures: &[ProcedureCounts]) -> Trend {
    let sum = |word| {
        procedures
            .iter()
            .map(|p| count_of(&p.decisions, word))
            .sum::<usize>()
    };
    let figure = |name, before: usize, now, bad| FigureTrend {
        name,
        before,
        now,
        bad,
    };
    Trend {
        file: "/data/study/reports/audit_20260318_063000.json".to_owned(),
        created_at: now() - Days::new(1),
        figures: vec![
            figure(
                "complete",
                sum("complete").saturating_sub(240),
                sum("complete"),
                false,
            ),
            figure(
                "failed",
                sum("failed").saturating_sub(12),
                sum("failed"),
                true,
            ),
            figure("blocked", sum("blocked") + 6, sum("blocked"), true),
            figure("stale", 1, 1, true),
        ],
        procedures: procedures
            .iter()
            .map(|p| {
                let (complete, failed) = (
                    count_of(&p.decisions, "complete"),
                    count_of(&p.decisions, "failed"),
                );
                ProcedureTrend {
                    procedure: p.name.clone(),
                    complete_before: complete.saturating_sub(40),
                    complete_now: complete,
                    failed_before: failed.saturating_sub(2),
                    failed_now: failed,
                }
            })
            .collect(),
        worse: true,
    }
}

pub fn efficiency() -> Vec<Efficiency> {
    let usage = |p50: i64, asked: i64, suggested: i64, text: &str, verdict| Usage {
        n: 1200,
        used: Some(Percentiles {
            p50,
            p90: p50 * 13 / 10,
            p95: p50 * 14 / 10,
            max: p50 * 17 / 10,
        }),
        asked: Some(asked),
        over_asked: if verdict == Verdict::OverAsked {
            1100
        } else {
            12
        },
        under_asked: if verdict == Verdict::UnderAsked {
            64
        } else {
            0
        },
        verdict,
        suggested: Some(suggested),
        suggested_text: Some(text.to_owned()),
    };
    let all = [
        (
            "bids",
            1500,
            8192,
            3072,
            "3G",
            Verdict::OverAsked,
            900,
            7200,
            2400,
            "00:40:00",
        ),
        (
            "qsiprep",
            21_000,
            32_768,
            39_936,
            "39G",
            Verdict::UnderAsked,
            32_000,
            86_400,
            68_400,
            "19:00:00",
        ),
        (
            "freesurfer",
            7800,
            16_384,
            14_336,
            "14G",
            Verdict::Fits,
            26_000,
            43_200,
            57_600,
            "16:00:00",
        ),
        (
            "qsirecon",
            9900,
            65_536,
            18_432,
            "18G",
            Verdict::OverAsked,
            14_000,
            86_400,
            30_600,
            "08:30:00",
        ),
    ];
    let all = all.into_iter().map(
        |(name, mb, mem, more, text, verdict, s, limit, longer, time)| Efficiency {
            procedure: name.into(),
            memory: Some(usage(mb, mem, more, text, verdict)),
            time: Some(usage(
                s,
                limit,
                longer,
                time,
                if longer > limit {
                    Verdict::UnderAsked
                } else {
                    Verdict::OverAsked
                },
            )),
            cpu: Some(CpuUse {
                n: 1200,
                alloc_cpus: 8,
                busy_p50: 0.61,
                busy_p90: 0.88,
                busy_p95: 0.91,
                busy_max: 0.97,
                verdict: Verdict::Fits,
                suggested: Some(8),
            }),
            waste_h: 1240.0,
        },
    );
    all.collect()
}
