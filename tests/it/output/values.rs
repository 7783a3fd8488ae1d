//! Makers of rows, decisions and printers for the tests of what is shown.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::harness::rows::bare;
use chrono::{DateTime, Utc};
use snbb_scheduler::cli::output::{Printer, PrinterOptions, Verbosity};
use snbb_scheduler::decide::manifest::{
    Blocked, Decision, Due, Manifest, Outlook, Planned, RemovedProcedure, Skip, Waiting,
};
use snbb_scheduler::gather::disk::Unreadable;
use snbb_scheduler::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::procedure::marker::CompletionRule;
use snbb_scheduler::model::procedure::{Check, Procedure, ProcedureDag, Resources, Scope};
use snbb_scheduler::model::state::{JobFacts, Reason, TaskKey, TaskRow, TaskStatus};

pub(super) fn dag(procedures: &[(&str, Scope)]) -> ProcedureDag {
    let procedure = |&(name, scope): &(&str, Scope)| Procedure {
        name: Arc::from(name),
        output_dir: PathBuf::new(),
        script: format!("snbb_run_{name}.sh"),
        scope,
        depends_on: Vec::new(),
        check: Check::Markers,
        completion: CompletionRule::default(),
        resources: Resources::default(),
        env: Default::default(),
        output_grace: None,
        rules: Default::default(),
    };
    ProcedureDag::new(procedures.iter().map(procedure).collect()).unwrap()
}

pub(super) fn pipeline() -> ProcedureDag {
    dag(&[
        ("bids", Scope::Session),
        ("qsiprep", Scope::Session),
        ("freesurfer", Scope::Subject),
    ])
}

pub(super) fn time(text: &str) -> Option<DateTime<Utc>> {
    Some(text.parse().unwrap())
}

pub(super) fn row(
    procedure: &str,
    subject: &str,
    session: &str,
    status: TaskStatus,
    reason: Option<Reason>,
    job_id: Option<&str>,
) -> TaskRow {
    TaskRow {
        submitted_at: time("2026-01-02T03:04:05.999999Z"),
        job_id: job_id.map(JobId::new),
        reason,
        attempt: Some(1),
        ..bare(TaskKey::new(subject, session, procedure), status)
    }
}

pub(super) fn rows() -> Vec<TaskRow> {
    use TaskStatus::{Complete, Failed, Pending, Running};
    let mut timed_out = row(
        "qsiprep",
        "sub-0001",
        "ses-202411010600",
        Failed,
        Some(Reason::Timeout),
        Some("103"),
    );
    timed_out.attempt = Some(2);
    timed_out.job_name = Some(Arc::from("qsiprep_sub-0001_ses-202411010600"));
    timed_out.facts = JobFacts {
        slurm_state: Some(Arc::from("TIMEOUT")),
        started_at: time("2026-01-02T04:00:00Z"),
        ended_at: time("2026-01-02T08:00:00Z"),
        req_mem_mb: Some(32_768),
        elapsed_s: Some(14_400),
        partition: Some(Arc::from("long")),
        req_cpus: Some(8),
        ..JobFacts::default()
    }
    .with_exit_code(Some("0:15"));
    let mut python = row("bids", "sub-0002", "ses-01", Complete, None, Some("7"));
    python.attempt = None;
    vec![
        row(
            "freesurfer",
            "sub-0002",
            "",
            Running,
            Some(Reason::Running),
            Some("110_4"),
        ),
        timed_out,
        row(
            "retired",
            "sub-0001",
            "ses-01",
            Complete,
            Some(Reason::Unverified),
            Some("9"),
        ),
        python,
        row(
            "bids",
            "sub-0001",
            "ses-202411010600",
            Complete,
            Some(Reason::Verified),
            Some("101"),
        ),
        row(
            "qsiprep",
            "sub-0002",
            "ses-01",
            Pending,
            Some(Reason::Submitting),
            None,
        ),
    ]
}

pub(super) fn session(subject: &str, session: &str) -> Session {
    Session {
        subject: SubjectLabel::new(subject).unwrap(),
        session: session_label(session),
        dicom: Dicom::NotNeeded,
    }
}

pub(super) fn session_label(text: &str) -> SessionLabel {
    match text {
        "" => SessionLabel::none(),
        _ => SessionLabel::new(text).unwrap(),
    }
}

pub(super) fn planned(
    dag: &ProcedureDag,
    procedure: &str,
    subject: &str,
    session: &str,
    decision: Decision,
) -> Planned {
    let labels = (SubjectLabel::new(subject).unwrap(), session_label(session));
    Planned::new(dag, dag.find(procedure).unwrap(), labels, decision)
}

pub(super) fn waiting(
    procedure: &str,
    session: &str,
    missing: usize,
    blocked: Option<Blocked>,
) -> Decision {
    Decision::Skip(Skip::WaitingFor(Box::new(Waiting {
        procedure: Arc::from(procedure),
        session: Some(session_label(session)),
        sessions_missing: missing,
        blocked,
    })))
}

pub(super) fn renamed(id: Option<&str>) -> Decision {
    Decision::Skip(Skip::Renamed(Box::new(RemovedProcedure {
        procedure: Arc::from("qc"),
        session: Arc::from("ses-01"),
        job_id: id.map(JobId::new),
        is_old_scope: false,
    })))
}

pub(super) fn unreadable(path: &str) -> Decision {
    Decision::Skip(Skip::Unreadable(Box::new(Unreadable {
        path: PathBuf::from(path),
        error: "Permission denied".to_owned(),
    })))
}

pub(super) fn in_flight(id: Option<&str>, status: TaskStatus, reason: Option<Reason>) -> Decision {
    Decision::Skip(Skip::InFlight {
        job_id: id.map(JobId::new),
        status,
        reason,
    })
}

pub(super) fn failed(reason: Option<Reason>, attempt: i32) -> Decision {
    Decision::Skip(Skip::Failed {
        reason,
        attempt,
        outlook: Outlook::None,
    })
}

pub(super) fn study() -> (Vec<Session>, Manifest) {
    let dag = pipeline();
    let sessions = vec![
        session("sub-0001", "ses-01"),
        session("sub-0001", "ses-02"),
        session("sub-0002", "ses-01"),
        session("sub-0003", "ses-01"),
    ];
    let complete = || Decision::Skip(Skip::Complete);
    let task = |procedure, subject, session, decision| {
        planned(&dag, procedure, subject, session, decision)
    };
    let tasks = vec![
        task("bids", "sub-0001", "ses-01", complete()),
        task("bids", "sub-0001", "ses-02", Decision::Submit(Due::New)),
        task("bids", "sub-0002", "ses-01", complete()),
        task("bids", "sub-0003", "ses-01", Decision::Skip(Skip::NoDicom)),
        task(
            "qsiprep",
            "sub-0001",
            "ses-01",
            failed(Some(Reason::OutOfMemory), 2),
        ),
        task(
            "qsiprep",
            "sub-0001",
            "ses-02",
            waiting("bids", "ses-02", 1, None),
        ),
        task(
            "qsiprep",
            "sub-0002",
            "ses-01",
            in_flight(Some("123"), TaskStatus::Running, Some(Reason::Running)),
        ),
        task(
            "qsiprep",
            "sub-0003",
            "ses-01",
            waiting("bids", "ses-01", 1, None),
        ),
        task(
            "freesurfer",
            "sub-0001",
            "",
            waiting("bids", "ses-02", 1, None),
        ),
        task(
            "freesurfer",
            "sub-0002",
            "",
            Decision::Submit(Due::OutputsGone),
        ),
        task(
            "freesurfer",
            "sub-0003",
            "",
            unreadable("/data/derivatives/freesurfer/sub-0003"),
        ),
    ];
    (sessions, Manifest { tasks })
}

#[derive(Clone, Default)]
pub(super) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Fails at each write.
pub(super) struct Broken(pub(super) io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what a view writes to stdout and stderr, with escape sequences made visible.
pub(super) fn shown(options: PrinterOptions, view: impl FnOnce(&mut Printer)) -> (String, String) {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut printer = Printer::new(Box::new(out.clone()), Box::new(err.clone()), options);
    view(&mut printer);
    printer.finish().unwrap();
    let visible = |buffer: Buffer| buffer.text().replace('\u{1b}', "\\e");
    (visible(out), visible(err))
}

pub(super) const PIPED: PrinterOptions = PrinterOptions {
    verbosity: Verbosity::Normal,
    out_color: false,
    err_color: false,
    width: None,
    symbols: false,
    progress: false,
};

pub(super) fn terminal(width: u16) -> PrinterOptions {
    PrinterOptions {
        width: Some(width),
        ..PIPED
    }
}

pub(super) fn symbols(width: u16) -> PrinterOptions {
    PrinterOptions {
        symbols: true,
        ..terminal(width)
    }
}

pub(super) fn colored() -> PrinterOptions {
    PrinterOptions {
        out_color: true,
        err_color: true,
        symbols: true,
        ..terminal(100)
    }
}
