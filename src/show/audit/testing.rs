//! A small report for tests.
#![cfg(test)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::attention::*;
use super::details::*;
use super::inputs::*;
use super::logs::*;
use super::summary::*;
use super::{Count, FORMAT, Report, Study, UnreadableItem};
use crate::act::clean::OrphanCause;
use crate::gather::completion::explain::FindingState;
use crate::model::job::{ExecutorKind, JobId};
use crate::model::state::testing::at;
use crate::model::state::{JobFacts, Reason, TaskKey, TaskRow, TaskStatus};
use crate::show::efficiency::{CpuUse, Efficiency, Percentiles, Usage, Verdict};
use crate::show::graph::{Edge, Graph};
use crate::show::progress::{Backlog, Day, ProcedureProgress, Progress, Rate};
use crate::show::tables::{Tally, TaskState};

/// A report of two sessions in which no part is empty.
pub fn report() -> Report {
    let count = |word: &str, count| Count {
        word: word.into(),
        count,
    };
    let rows = |complete, failed| StatusCounts {
        complete,
        failed,
        total: complete + failed,
        ..StatusCounts::default()
    };
    let procedure = |name: &str, decisions: Vec<Count>, rows| ProcedureCounts {
        name: name.into(),
        scope: Some("session"),
        tasks: decisions.iter().map(|count| count.count).sum(),
        decisions,
        rows,
    };
    let cell = |decision| {
        Some(Cell {
            decision,
            reason: None,
            job_id: None,
            text: None,
            detail: None,
        })
    };
    let health = |complete| {
        Some(Health {
            complete,
            of: 2,
            share: complete as f64 / 2.0,
            band: band(complete, 2),
        })
    };
    let row = |subject: &str, cells, complete| MatrixRow {
        subject: subject.into(),
        session: "ses-01".into(),
        health: health(complete),
        cells,
    };
    let failed = Some(Cell {
        decision: TaskState::Failed,
        reason: Some("out_of_memory"),
        job_id: Some(JobId::new("4812")),
        text: None,
        detail: Some(0),
    });
    let waiting = Some(Cell {
        decision: TaskState::Blocked,
        reason: None,
        job_id: None,
        text: Some("blocked by bids (failed: out_of_memory)".into()),
        detail: None,
    });
    let (subject, session): (std::sync::Arc<str>, std::sync::Arc<str>) =
        ("sub-0002".into(), "ses-01".into());
    let mut row_of_job = TaskRow::new(TaskKey::new(&subject, &session, "bids"), TaskStatus::Failed);
    row_of_job.job_id = Some(JobId::new("4812"));
    row_of_job.attempt = Some(1);
    row_of_job.submitted_at = Some(at(0));
    row_of_job.facts = JobFacts {
        slurm_state: Some("OUT_OF_MEMORY".into()),
        exit_code: Some("0:125".into()),
        started_at: Some(at(5)),
        ended_at: Some(at(65)),
        elapsed_s: Some(3600),
        time_limit_s: Some(7200),
        max_rss_mb: Some(8100),
        req_mem_mb: Some(8192),
        node_list: Some("node003".into()),
        ..JobFacts::default()
    };
    Report {
        format: FORMAT,
        study: Study {
            project: "demo".to_owned(),
            created_at: at(60 * 24 * 30),
            version: "0.0.0",
            parts: &super::Part::ALL,
            config: Some("/study/config.yaml".to_owned()),
            dicom_root: "/study/dicom".to_owned(),
            bids_root: "/study/bids".to_owned(),
            derivatives_root: "/study/derivatives".to_owned(),
            state_file: "/study/state.parquet".to_owned(),
            log_file: "/study/scheduler_audit.jsonl".to_owned(),
            log_dir: Some("/study/logs".to_owned()),
            executor: ExecutorKind::Slurm,
            selection: None,
        },
        totals: Totals {
            subjects: 2,
            sessions: 2,
            tasks: 4,
            decisions: vec![
                count("complete", 2),
                count("blocked", 1),
                count("failed", 1),
            ],
            rows: StatusCounts {
                running: 1,
                total: 4,
                ..rows(2, 1)
            },
        },
        procedures: vec![
            procedure(
                "bids",
                vec![count("complete", 1), count("failed", 1)],
                rows(1, 1),
            ),
            procedure(
                "qsiprep",
                vec![count("complete", 1), count("blocked", 1)],
                rows(1, 0),
            ),
            ProcedureCounts {
                scope: None,
                ..procedure(
                    "mriqc",
                    Vec::new(),
                    StatusCounts {
                        running: 1,
                        total: 1,
                        ..rows(0, 0)
                    },
                )
            },
        ],
        health: super::summary::health([health(2), health(0)].into_iter()),
        matrix: Matrix {
            procedures: vec!["bids".into(), "qsiprep".into()],
            sessions: vec![
                row(
                    "sub-0001",
                    vec![cell(TaskState::Complete), cell(TaskState::Complete)],
                    2,
                ),
                row("sub-0002", vec![failed, waiting], 0),
            ],
        },
        pipeline: pipeline(),
        tasks: vec![TaskDetail {
            key: TaskKey::new(&subject, &session, "bids"),
            decision: TaskState::Failed,
            reason: Some("out_of_memory"),
            text: "failed (out_of_memory) in attempt 1".to_owned(),
            output_dir: "/study/bids/sub-0002/ses-01".to_owned(),
            markers: vec![
                MarkerResult {
                    marker: "anat/*_T1w.nii.gz".to_owned(),
                    state: FindingState::Found,
                    path: Some("/study/bids/sub-0002/ses-01/anat/x_T1w.nii.gz".to_owned()),
                    note: None,
                },
                MarkerResult {
                    marker: "func/*_bold.nii.gz".to_owned(),
                    state: FindingState::Missing,
                    path: Some("/study/bids/sub-0002/ses-01".to_owned()),
                    note: None,
                },
            ],
            job: Some(JobDetail {
                row: row_of_job,
                failure: Some("needed more memory than requested".to_owned()),
                output: Some("/study/logs/bids/bids_sub-0002_ses-01_4812.out".to_owned()),
                error: Some("/study/logs/bids/bids_sub-0002_ses-01_4812.err".to_owned()),
            }),
            log_line: Some("Killed".to_owned()),
            log_tail: vec!["converting <3 files>".to_owned(), "Killed".to_owned()],
        }],
        dicom: Some(Dicom {
            min_files: 10,
            checked: 2,
            findings: vec![DicomFinding {
                subject: subject.clone(),
                session: session.clone(),
                problem: DicomProblem::FewFiles,
                path: Some("/study/dicom/sub-0002/ses-01".to_owned()),
                files: Some(3),
                error: None,
            }],
        }),
        logs: Some(Logs {
            tasks: 1,
            without_log: 0,
            without_finding: 0,
            by_pattern: vec![PatternCount {
                pattern: "out_of_memory".into(),
                meaning: "the memory was too small".into(),
                hint: "ask for more memory".into(),
                tasks: 1,
            }],
            findings: vec![LogFinding {
                key: TaskKey::new(&subject, &session, "bids"),
                job_id: Some(JobId::new("4812")),
                pattern: "out_of_memory".into(),
                is_excerpt: true,
                line: "Killed".to_owned(),
                file: "/study/logs/bids/bids_sub-0002_ses-01_4812.err".to_owned(),
                line_number: Some(2),
            }],
        }),
        stale: vec![StaleJob {
            key: TaskKey::new(&subject, &session, "mriqc"),
            job_id: Some(JobId::new("311")),
            status: TaskStatus::Running,
            reason: Some(Reason::Running),
            submitted_at: at(0),
            hours: 720,
        }],
        orphans: Orphans {
            rows: vec![OrphanRow {
                key: TaskKey::new(&subject, &session, "mriqc"),
                status: TaskStatus::Running,
                job_id: Some(JobId::new("311")),
                cause: OrphanCause::Procedure,
            }],
            jobs: Some(vec![LiveJob {
                job_id: JobId::new("999"),
                name: "bids_sub-0009_ses-01".to_owned(),
                slurm_state: Some("RUNNING".into()),
            }]),
        },
        scripts: vec![ScriptFinding {
            procedure: "qsiprep".into(),
            script: "/study/run_qsiprep.sh".to_owned(),
            problem: ScriptProblem::IgnoredLines,
            text: "1 #SBATCH line after the first command is ignored by Slurm".to_owned(),
            lines: vec![ScriptLine {
                number: 4,
                text: "#SBATCH --mem=64G".to_owned(),
            }],
        }],
        failures: Failures {
            groups: vec![FailureGroup {
                procedure: "bids".into(),
                reason: "out_of_memory",
                failure: Some("needed more memory than requested".to_owned()),
                log_line: Some("Killed".to_owned()),
                tasks: vec![0],
            }],
            by_reason: vec![ReasonCount {
                reason: "out_of_memory",
                count: 1,
                procedures: vec![count("bids", 1)],
            }],
            by_node: vec![NodeFailures {
                node: "node003".into(),
                jobs: 2,
                failed: 1,
                share: 0.5,
                reasons: vec![count("out_of_memory", 1)],
            }],
        },
        efficiency: vec![Efficiency {
            procedure: "qsiprep".into(),
            memory: Some(Usage {
                n: 20,
                used: Some(Percentiles {
                    p50: 5000,
                    p90: 5800,
                    p95: 5900,
                    max: 6000,
                }),
                asked: Some(32_768),
                over_asked: 20,
                under_asked: 0,
                verdict: Verdict::OverAsked,
                suggested: Some(7168),
                suggested_text: Some("7G".to_owned()),
            }),
            time: None,
            cpu: Some(CpuUse {
                n: 20,
                alloc_cpus: 8,
                busy_p50: 0.42,
                busy_p90: 0.77,
                busy_p95: 0.8,
                busy_max: 0.9,
                verdict: Verdict::Fits,
                suggested: Some(8),
            }),
            waste_h: 120.5,
        }],
        progress: Some(Progress {
            procedures: vec![ProcedureProgress {
                procedure: "bids".into(),
                days: vec![Day {
                    date: at(0).date_naive(),
                    submitted: 2,
                    completed: 1,
                    failed: 1,
                    completed_so_far: 1,
                    failed_so_far: 1,
                }],
                rate: Rate {
                    last_7_days: Some(0.0),
                    last_28_days: Some(0.25),
                },
                backlog: Backlog {
                    tasks: 0,
                    expected_end: None,
                },
            }],
            rate: Rate {
                last_7_days: Some(0.5),
                last_28_days: Some(0.25),
            },
            backlog: Backlog {
                tasks: 3,
                expected_end: Some(at(60 * 24 * 36)),
            },
            bad_lines: 0,
        }),
        trend: None,
        unreadable: vec![UnreadableItem {
            part: "outputs",
            path: "/study/bids/sub-0003".to_owned(),
            error: "Permission denied".to_owned(),
        }],
    }
}

/// The same study with an empty report.
pub fn bare(report: &Report) -> Report {
    Report {
        format: FORMAT,
        study: report.study.clone(),
        totals: Totals {
            subjects: 0,
            sessions: 0,
            tasks: 0,
            decisions: Vec::new(),
            rows: StatusCounts::default(),
        },
        procedures: Vec::new(),
        health: HealthSummary::default(),
        matrix: Matrix {
            procedures: Vec::new(),
            sessions: Vec::new(),
        },
        pipeline: Graph::default(),
        tasks: Vec::new(),
        dicom: None,
        logs: None,
        stale: Vec::new(),
        orphans: Orphans::default(),
        scripts: Vec::new(),
        failures: Failures::default(),
        efficiency: Vec::new(),
        progress: None,
        trend: None,
        unreadable: Vec::new(),
    }
}

fn pipeline() -> Graph {
    let node = |name: &str, counts: &[(TaskState, usize)]| Tally {
        procedure: name.into(),
        counts: counts.iter().copied().collect(),
    };
    Graph {
        nodes: vec![
            node("bids", &[(TaskState::Complete, 1), (TaskState::Failed, 1)]),
            node(
                "qsiprep",
                &[(TaskState::Complete, 1), (TaskState::Blocked, 1)],
            ),
        ],
        edges: vec![Edge {
            from: 0,
            to: 1,
            any_session: false,
        }],
    }
}

/// Unpacks the data of the page's elements that begin with these attributes.
pub fn unpacked(page: &str, element: &str) -> Value {
    let start = format!("<script {element} type=\"application/gzip\">");
    let (_, rest) = page.split_once(&start).unwrap();
    let (packed, _) = rest.split_once("</script>").unwrap();
    let bytes = STANDARD.decode(packed).unwrap();
    serde_json::from_reader(GzDecoder::new(bytes.as_slice())).unwrap()
}
