//! A made-up report of a study of any size, with something in every part.

mod figures;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use snbb_scheduler::act::clean::OrphanCause;
use snbb_scheduler::gather::completion::explain::FindingState;
use snbb_scheduler::model::job::{ExecutorKind, JobId};
use snbb_scheduler::model::state::{JobFacts, Reason, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::show::audit::attention::*;
use snbb_scheduler::show::audit::details::*;
use snbb_scheduler::show::audit::inputs::*;
use snbb_scheduler::show::audit::logs::*;
use snbb_scheduler::show::audit::summary::*;
use snbb_scheduler::show::audit::{Count, FORMAT, Part, Report, Study, UnreadableItem, count_of};
use snbb_scheduler::show::tables::TaskState;

pub const PROCEDURES: [&str; 6] = [
    "bids",
    "bids_post",
    "defacing",
    "qsiprep",
    "freesurfer",
    "qsirecon",
];
const REASONS: [&str; 5] = [
    "out_of_memory",
    "time_limit",
    "exit_code",
    "no_output",
    "node_failure",
];
pub const HOSTILE: &str = "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\">\u{202e}\u{1b}[31m\u{2028}&amp;";

/// Draws numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_773_900_000, 0).unwrap()
}

fn count(word: &str, count: usize) -> Count {
    Count {
        word: word.into(),
        count,
    }
}

/// Makes the decisions of one session, in the order of the procedures.
fn decisions(dice: &mut Dice) -> [&'static str; 6] {
    let mut ones = ["waiting"; 6];
    ones[0] = match dice.roll(100) {
        0..=1 => "failed",
        2 => "no-dicom",
        3..=4 => "due",
        _ => "complete",
    };
    for at in 1..6 {
        // qsirecon needs both of the steps before it.
        let before = if at == 5 { 3 } else { at.min(2) - 1 };
        ones[at] = match (ones[before], dice.roll(100)) {
            ("failed" | "blocked", _) => "blocked",
            ("complete", roll) => match (at as u64, roll) {
                (1.., 0..=2) => "failed",
                (3.., 3..=8) => "running",
                (3.., 9..=15) => "pending",
                (3.., 16..=28) => "due",
                (4, 29) => "not-applicable",
                _ => "complete",
            },
            _ => "waiting",
        };
    }
    ones
}

/// Makes a report of so many sessions, two of each subject.
pub fn report(sessions: usize) -> Report {
    let mut dice = Dice(7);
    let mut tasks = Vec::new();
    let mut findings = Vec::new();
    let mut rows = Vec::new();
    for number in 0..sessions {
        let subject: Arc<str> = format!("sub-{:04}", number / 2 + 1).into();
        let session: Arc<str> = format!("ses-{:02}", number % 2 + 1).into();
        let words = decisions(&mut dice);
        let mut cells = Vec::new();
        for (procedure, decision) in PROCEDURES.into_iter().zip(words) {
            let is_failed = decision == "failed";
            let is_live = matches!(decision, "running" | "pending");
            let reason = is_failed.then(|| REASONS[(dice.roll(9) as usize).min(4)]);
            let reason = reason.or(is_live.then_some(decision));
            let job: Arc<str> = (4_000_000 + dice.roll(900_000)).to_string().into();
            let detail = (is_failed || is_live).then_some(tasks.len());
            if detail.is_some() {
                let text = match reason {
                    Some(reason) if is_failed => format!("failed ({reason}) in attempt 1"),
                    _ => format!("in flight (job {job}, {decision})"),
                };
                tasks.push(task(
                    procedure, &subject, &session, decision, reason, &job, text, &mut dice,
                ));
            }
            if is_failed {
                findings.push(finding(procedure, &subject, &session, reason, &job));
            }
            let is_blocked = decision == "blocked";
            cells.push(Some(Cell {
                decision: decision.parse().unwrap(),
                reason,
                job_id: (is_failed || is_live || decision == "complete").then(|| JobId::new(&job)),
                text: is_blocked.then(|| "waiting for an earlier step (failed)".into()),
                detail,
            }));
        }
        rows.push(row(subject, session, cells));
    }
    let mut report = summed(rows, tasks);
    report.logs = Some(Logs {
        tasks: findings.len(),
        without_log: 0,
        without_finding: 0,
        by_pattern: figures::patterns(&findings),
        findings,
    });
    report
}

/// Gives every task details, as `--markers` does.
pub fn tell_of_all(report: &mut Report) {
    let told = report.tasks.len();
    for row in &mut report.matrix.sessions {
        let cells = row.cells.iter_mut().zip(PROCEDURES);
        for (cell, procedure) in cells.filter_map(|(cell, name)| Some((cell.as_mut()?, name))) {
            if cell.detail.is_some() {
                continue;
            }
            let of_procedure = report.tasks.iter().take(told);
            let mut of_procedure = of_procedure.filter(|task| &*task.key.procedure == procedure);
            let mut task = of_procedure.next().unwrap().clone();
            let renamed = |path: &str| path.replace(&*task.key.subject, &row.subject);
            for marker in &mut task.markers {
                marker.path = marker.path.as_deref().map(renamed);
            }
            task.output_dir = renamed(&task.output_dir);
            if let Some(job) = &mut task.job {
                job.row.job_id = cell.job_id.clone();
                job.output = job.output.as_deref().map(renamed);
                job.error = job.error.as_deref().map(renamed);
            }
            task.log_tail.clear();
            task.key = TaskKey::new(&row.subject, &row.session, procedure);
            task.decision = cell.decision;
            cell.detail = Some(report.tasks.len());
            report.tasks.push(task);
        }
    }
}

/// Puts markup, control characters and marks of direction wherever names and texts of others go.
pub fn spoil(report: &mut Report) {
    let text = || HOSTILE.to_owned();
    report.study.project = text();
    report.study.config = Some(text());
    report.study.selection = Some(text());
    report.matrix.procedures[1] = HOSTILE.into();
    report.procedures[1].name = HOSTILE.into();
    report.efficiency[1].procedure = HOSTILE.into();
    report.failures.by_node[0].node = HOSTILE.into();
    report.unreadable[0].path = text();
    report.scripts[0].lines[0].text = text();
    report.stale[0].key.subject = HOSTILE.into();
    if let Some(progress) = &mut report.progress {
        progress.procedures[1].procedure = HOSTILE.into();
    }
    let task = &mut report.tasks[0];
    (task.key.subject, task.text) = (HOSTILE.into(), text());
    task.log_tail.push(text());
    task.markers[0].marker = text();
    task.markers[0].path = Some(text());
    if let Some(job) = &mut task.job {
        (job.failure, job.output) = (Some(text()), Some(text()));
        job.row.facts.node_list = Some(HOSTILE.into());
    }
    let row = &mut report.matrix.sessions[0];
    row.subject = HOSTILE.into();
    row.cells[0] = Some(Cell {
        decision: TaskState::Failed,
        reason: Some("exit_code"),
        job_id: Some(JobId::new(HOSTILE)),
        text: Some(HOSTILE.into()),
        detail: Some(0),
    });
}

fn row(subject: Arc<str>, session: Arc<str>, cells: Vec<Option<Cell>>) -> MatrixRow {
    let is =
        |cell: &&Option<Cell>, word| cell.as_ref().is_some_and(|c| c.decision.as_str() == word);
    let complete = cells.iter().filter(|cell| is(cell, "complete")).count();
    let of = cells
        .iter()
        .filter(|cell| !is(cell, "not-applicable"))
        .count();
    let share = complete as f64 / of as f64;
    let band = match share {
        0.8.. => Band::Good,
        0.4.. => Band::Fair,
        _ => Band::Poor,
    };
    MatrixRow {
        subject,
        session,
        health: Some(Health {
            complete,
            of,
            share,
            band,
        }),
        cells,
    }
}

#[expect(clippy::too_many_arguments, reason = "plain values of one task")]
fn task(
    procedure: &str,
    subject: &Arc<str>,
    session: &Arc<str>,
    decision: &'static str,
    reason: Option<&'static str>,
    job: &Arc<str>,
    text: String,
    dice: &mut Dice,
) -> TaskDetail {
    let dir = format!("/data/study/derivatives/{procedure}/{subject}/{session}");
    let is_failed = decision == "failed";
    let log = format!("/data/study/logs/{procedure}/{procedure}_{subject}_{session}_{job}");
    let tail = (0..30).map(|n| {
        format!("260312-08:{n:02}:11,201 nipype.workflow INFO: [Node] Executing \"merge_dwis\" <mriqc.interfaces> step {n}")
    });
    let mut log_tail: Vec<String> = tail.collect();
    log_tail.push("slurmstepd: error: Detected 1 oom_kill event in StepId=4812.batch".to_owned());
    let asked = 32_768;
    let key = TaskKey::new(subject, session, procedure);
    let mut row = TaskRow::new(key, decision.parse().unwrap());
    row.job_id = Some(JobId::new(job.as_ref()));
    row.attempt = Some(1);
    row.reason = reason.map(|reason| match reason {
        "out_of_memory" => Reason::OutOfMemory,
        "time_limit" => Reason::Timeout,
        "exit_code" => Reason::ExitCode,
        "no_output" => Reason::NoOutput,
        "node_failure" => Reason::NodeFail,
        _ => Reason::Running,
    });
    row.submitted_at = Some(now() - TimeDelta::hours(30));
    let state = match is_failed {
        true => "OUT_OF_MEMORY",
        false => "RUNNING",
    };
    row.facts = JobFacts {
        slurm_state: Some(state.into()),
        exit_code: is_failed.then(|| "0:125".into()),
        started_at: Some(now() - TimeDelta::hours(20)),
        ended_at: is_failed.then(|| now() - TimeDelta::hours(10)),
        elapsed_s: Some(36_000),
        time_limit_s: Some(86_400),
        max_rss_mb: is_failed.then_some(asked - 200),
        req_mem_mb: Some(asked),
        node_list: Some(format!("node{:03}", dice.roll(24) + 1).into()),
        ..JobFacts::default()
    };
    TaskDetail {
        key: TaskKey::new(subject, session, procedure),
        decision: decision.parse().unwrap(),
        reason,
        text,
        markers: [
            "anat/*_desc-preproc_T1w.nii.gz",
            "dwi/*_desc-preproc_dwi.nii.gz",
            "*.html",
        ]
        .into_iter()
        .enumerate()
        .map(|(at, marker)| MarkerResult {
            marker: marker.to_owned(),
            state: if at == 0 {
                FindingState::Found
            } else {
                FindingState::Missing
            },
            path: Some(format!("{dir}/{}", marker.replace('*', subject))),
            note: None,
        })
        .collect(),
        output_dir: dir,
        job: Some(JobDetail {
            row,
            failure: is_failed.then(|| match reason {
                Some("out_of_memory") => "needed more memory than requested".to_owned(),
                Some("time_limit") => "ran into its time limit".to_owned(),
                Some("node_failure") => "the node failed".to_owned(),
                Some("no_output") => "ended well, but its outputs are not complete".to_owned(),
                _ => "exit code 1: the program says that it failed".to_owned(),
            }),
            output: Some(format!("{log}.out")),
            error: Some(format!("{log}.err")),
        }),
        log_line: is_failed.then(|| match reason {
            Some("out_of_memory") => {
                "slurmstepd: error: Detected 1 oom_kill event in StepId=4812.batch".to_owned()
            }
            Some("time_limit") => {
                "slurmstepd: error: *** JOB 4812 CANCELLED DUE TO TIME LIMIT ***".to_owned()
            }
            Some("node_failure") => "slurmstepd: error: Node failure on node007".to_owned(),
            _ => format!(
                "FileNotFoundError: no such file: /data/study/bids/{subject}/{session}/anat"
            ),
        }),
        log_tail: if is_failed { log_tail } else { Vec::new() },
    }
}

fn finding(
    procedure: &str,
    subject: &Arc<str>,
    session: &Arc<str>,
    reason: Option<&str>,
    job: &Arc<str>,
) -> LogFinding {
    LogFinding {
        key: TaskKey::new(subject, session, procedure),
        job_id: Some(JobId::new(job)),
        pattern: reason.unwrap_or_default().into(),
        is_excerpt: true,
        line: match reason {
            Some("out_of_memory") => {
                "slurmstepd: error: Detected 1 oom_kill event in StepId=4812.batch"
            }
            Some("time_limit") => "slurmstepd: error: *** JOB CANCELLED DUE TO TIME LIMIT ***",
            _ => "RuntimeError: Command 'eddy_cuda' returned non-zero exit status 1",
        }
        .to_owned(),
        file: format!("/data/study/logs/{procedure}/{procedure}_{subject}_{session}_{job}.err"),
        line_number: Some(1042),
    }
}

/// Adds the sums and the parts that do not depend on single sessions.
fn summed(sessions: Vec<MatrixRow>, tasks: Vec<TaskDetail>) -> Report {
    let words = [
        "complete",
        "running",
        "pending",
        "due",
        "waiting",
        "blocked",
        "failed",
        "no-dicom",
        "not-applicable",
    ];
    let counts = |only: Option<usize>| -> Vec<Count> {
        let of = |word: &str| {
            let cells = sessions.iter().flat_map(|row| row.cells.iter().enumerate());
            cells
                .filter(|(at, _)| only.is_none_or(|only| only == *at))
                .filter(|(_, cell)| {
                    cell.as_ref()
                        .is_some_and(|cell| cell.decision.as_str() == word)
                })
                .count()
        };
        words
            .iter()
            .map(|word| count(word, of(word)))
            .filter(|c| c.count > 0)
            .collect()
    };
    let status = |counts: &[Count]| {
        let mut rows = StatusCounts {
            pending: count_of(counts, "pending"),
            running: count_of(counts, "running"),
            complete: count_of(counts, "complete"),
            failed: count_of(counts, "failed"),
            total: 0,
        };
        rows.total = rows.pending + rows.running + rows.complete + rows.failed;
        rows
    };
    let procedures = PROCEDURES.iter().enumerate().map(|(at, name)| {
        let decisions = counts(Some(at));
        ProcedureCounts {
            name: (*name).into(),
            scope: Some(if at == 4 { "subject" } else { "session" }),
            tasks: decisions.iter().map(|c| c.count).sum(),
            rows: status(&decisions),
            decisions,
        }
    });
    let procedures: Vec<ProcedureCounts> = procedures.collect();
    let decisions = counts(None);
    let bands = |band| {
        let healths = sessions.iter().filter_map(|row| row.health);
        healths.filter(|health| health.band == band).count()
    };
    let shares: f64 = sessions
        .iter()
        .filter_map(|row| row.health)
        .map(|h| h.share)
        .sum();
    let failed: Vec<&TaskDetail> = tasks
        .iter()
        .filter(|task| task.decision == TaskState::Failed)
        .collect();
    let (subject, session): (Arc<str>, Arc<str>) = ("sub-0007".into(), "ses-01".into());
    Report {
        format: FORMAT,
        study: Study {
            project: "Connectome study".to_owned(),
            created_at: now(),
            version: env!("CARGO_PKG_VERSION"),
            parts: &Part::ALL,
            config: Some("/data/study/config.yaml".to_owned()),
            dicom_root: "/data/study/dicom".to_owned(),
            bids_root: "/data/study/bids".to_owned(),
            derivatives_root: "/data/study/derivatives".to_owned(),
            state_file: "/data/study/state.parquet".to_owned(),
            log_file: "/data/study/scheduler_audit.jsonl".to_owned(),
            log_dir: Some("/data/study/logs".to_owned()),
            executor: ExecutorKind::Slurm,
            selection: None,
        },
        totals: Totals {
            subjects: sessions.len().div_ceil(2),
            sessions: sessions.len(),
            tasks: decisions.iter().map(|c| c.count).sum(),
            rows: status(&decisions),
            decisions,
        },
        health: HealthSummary {
            good: bands(Band::Good),
            fair: bands(Band::Fair),
            poor: bands(Band::Poor),
            none: 0,
            mean: Some(shares / sessions.len() as f64),
        },
        failures: figures::failures(&tasks, &failed),
        progress: Some(figures::progress(&procedures)),
        trend: Some(figures::trend(&procedures)),
        efficiency: figures::efficiency(),
        matrix: Matrix {
            procedures: PROCEDURES.iter().map(|name| (*name).into()).collect(),
            sessions,
        },
        pipeline: figures::pipeline(&procedures),
        tasks,
        procedures,
        dicom: Some(Dicom {
            min_files: 10,
            checked: 5000,
            findings: vec![DicomFinding {
                subject: subject.clone(),
                session: session.clone(),
                problem: DicomProblem::FewFiles,
                path: Some("/data/study/dicom/sub-0007/ses-01".to_owned()),
                files: Some(3),
                error: None,
            }],
        }),
        logs: None,
        stale: vec![StaleJob {
            key: TaskKey::new(&subject, &session, "qsiprep"),
            job_id: Some(JobId::new("4801977")),
            status: TaskStatus::Running,
            reason: Some(Reason::Running),
            submitted_at: now() - TimeDelta::hours(211),
            hours: 211,
        }],
        orphans: Orphans {
            rows: vec![OrphanRow {
                key: TaskKey::new(&subject, &session, "mriqc"),
                status: TaskStatus::Complete,
                job_id: Some(JobId::new("3110021")),
                cause: OrphanCause::Procedure,
            }],
            jobs: Some(Vec::new()),
        },
        scripts: vec![ScriptFinding {
            procedure: "qsirecon".into(),
            script: "/data/study/scripts/run_qsirecon.sh".to_owned(),
            problem: ScriptProblem::IgnoredLines,
            text: "1 #SBATCH line after the first command is ignored by Slurm".to_owned(),
            lines: vec![ScriptLine {
                number: 14,
                text: "#SBATCH --mem=64G".to_owned(),
            }],
        }],
        unreadable: vec![UnreadableItem {
            part: "outputs",
            path: "/data/study/derivatives/qsiprep/sub-0311".to_owned(),
            error: "Permission denied".to_owned(),
        }],
    }
}
