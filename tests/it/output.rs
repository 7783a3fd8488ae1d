//! What people and scripts see: frames, words, and the views that a printer shows.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use polars::prelude::*;
use proptest::prelude::*;
use serde_json::Value;
use snbb_scheduler::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use snbb_scheduler::cli::output::{Format, Printer, PrinterOptions, Verbosity};
use snbb_scheduler::cli::views::{
    RunSummary, print_manifest, print_run_summary, print_session_status, print_status,
};
use snbb_scheduler::completion::Unreadable;
use snbb_scheduler::completion::marker::CompletionRule;
use snbb_scheduler::executor::JobId;
use snbb_scheduler::manifest::{Blocked, Decision, Due, Limit, Manifest, Planned, Skip, Waiting};
use snbb_scheduler::procedure::{Check, Procedure, ProcedureDag, Resources, Scope};
use snbb_scheduler::state::{JobFacts, Reason, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::tables::{self, to_csv, to_json};

// Makers of values.

fn dag(procedures: &[(&str, Scope)]) -> ProcedureDag {
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
        max_in_flight: None,
    };
    ProcedureDag::new(procedures.iter().map(procedure).collect()).unwrap()
}

fn pipeline() -> ProcedureDag {
    dag(&[
        ("bids", Scope::Session),
        ("qsiprep", Scope::Session),
        ("freesurfer", Scope::Subject),
    ])
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    Some(text.parse().unwrap())
}

fn row(
    procedure: &str,
    subject: &str,
    session: &str,
    status: TaskStatus,
    reason: Option<Reason>,
    job_id: Option<&str>,
) -> TaskRow {
    TaskRow {
        key: TaskKey::new(subject, session, procedure),
        status,
        submitted_at: time("2026-01-02T03:04:05.999999Z"),
        job_id: job_id.map(JobId::new),
        reason,
        attempt: Some(1),
        facts: JobFacts::default(),
        updated_at: None,
        missing_since: None,
        job_name: None,
        submission_id: None,
        replaces_outputs: None,
        foreign: None,
    }
}

fn rows() -> Vec<TaskRow> {
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
        exit_code: Some(Arc::from("0:15")),
        started_at: time("2026-01-02T04:00:00Z"),
        ended_at: time("2026-01-02T08:00:00Z"),
        req_mem_mb: Some(32_768),
        elapsed_s: Some(14_400),
        ..JobFacts::default()
    };
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

fn session(subject: &str, session: &str) -> Session {
    Session {
        subject: SubjectLabel::new(subject).unwrap(),
        session: session_label(session),
        dicom: Dicom::NotNeeded,
    }
}

fn session_label(text: &str) -> SessionLabel {
    match text {
        "" => SessionLabel::none(),
        _ => SessionLabel::new(text).unwrap(),
    }
}

fn planned(
    dag: &ProcedureDag,
    procedure: &str,
    subject: &str,
    session: &str,
    decision: Decision,
) -> Planned {
    Planned {
        procedure: dag.find(procedure).unwrap(),
        subject: SubjectLabel::new(subject).unwrap(),
        session: session_label(session),
        dicom_path: None,
        decision,
    }
}

fn waiting(procedure: &str, session: &str, missing: usize, blocked: Option<Blocked>) -> Decision {
    Decision::Skip(Skip::WaitingFor(Box::new(Waiting {
        procedure: Arc::from(procedure),
        session: Some(session_label(session)),
        sessions_missing: missing,
        blocked,
    })))
}

fn unreadable(path: &str) -> Decision {
    Decision::Skip(Skip::Unreadable(Box::new(Unreadable {
        path: PathBuf::from(path),
        error: "Permission denied".to_owned(),
    })))
}

fn in_flight(id: Option<&str>, status: TaskStatus, reason: Option<Reason>) -> Decision {
    Decision::Skip(Skip::InFlight {
        job_id: id.map(JobId::new),
        status,
        reason,
    })
}

fn failed(reason: Option<Reason>, attempt: i32) -> Decision {
    Decision::Skip(Skip::Failed { reason, attempt })
}

fn study() -> (Vec<Session>, Manifest) {
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

// A printer into memory.

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
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
struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what a view writes to stdout and stderr, with escape sequences made visible.
fn shown(options: PrinterOptions, view: impl FnOnce(&mut Printer)) -> (String, String) {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut printer = Printer::new(Box::new(out.clone()), Box::new(err.clone()), options);
    view(&mut printer);
    printer.finish().unwrap();
    let visible = |buffer: Buffer| buffer.text().replace('\u{1b}', "\\e");
    (visible(out), visible(err))
}

const PIPED: PrinterOptions = PrinterOptions {
    verbosity: Verbosity::Normal,
    out_color: false,
    err_color: false,
    width: None,
    progress: false,
};

fn terminal(width: u16) -> PrinterOptions {
    PrinterOptions {
        width: Some(width),
        ..PIPED
    }
}

fn colored() -> PrinterOptions {
    PrinterOptions {
        out_color: true,
        err_color: true,
        ..terminal(100)
    }
}

fn status_view(options: PrinterOptions, format: Format) -> (String, String) {
    shown(options, |printer| {
        let log_dir = Some(Path::new("/logs"));
        print_status(printer, &rows(), &pipeline(), log_dir, format).unwrap();
    })
}

fn session_view(options: PrinterOptions, format: Format) -> (String, String) {
    let (sessions, manifest) = study();
    shown(options, |printer| {
        print_session_status(printer, &sessions, &manifest, &pipeline(), format).unwrap();
    })
}

// Snapshots.

#[test]
fn status_in_each_format() {
    for (name, options, format) in [
        ("status_piped", PIPED, Format::Table),
        ("status_narrow", terminal(72), Format::Table),
        ("status_color", colored(), Format::Table),
        ("status_csv", colored(), Format::Csv),
        ("status_json", colored(), Format::Json),
    ] {
        let (out, err) = status_view(options, format);
        assert_eq!(err, "");
        insta::assert_snapshot!(name, out);
    }
}

#[test]
fn session_status_in_each_format() {
    for (name, options, format) in [
        ("session_status_piped", PIPED, Format::Table),
        ("session_status_narrow", terminal(44), Format::Table),
        ("session_status_color", colored(), Format::Table),
        ("session_status_csv", PIPED, Format::Csv),
        ("session_status_json", PIPED, Format::Json),
    ] {
        let (out, err) = session_view(options, format);
        assert_eq!(err, "");
        insta::assert_snapshot!(name, out);
    }
}

#[test]
fn manifest_in_each_format() {
    let (_, manifest) = study();
    for (name, format) in [
        ("manifest_piped", Format::Table),
        ("manifest_csv", Format::Csv),
        ("manifest_json", Format::Json),
    ] {
        let (out, err) = shown(PIPED, |printer| {
            print_manifest(printer, &manifest, &pipeline(), format).unwrap();
        });
        assert_eq!(err, "");
        insta::assert_snapshot!(name, out);
    }
}

#[test]
fn nothing_to_show_is_an_empty_table_for_scripts_and_a_word_for_people() {
    let dag = pipeline();
    let none = Manifest::default();
    let view = |format, what: usize| {
        shown(PIPED, |printer| {
            match what {
                0 => print_status(printer, &[], &dag, None, format),
                1 => print_session_status(printer, &[], &none, &dag, format),
                _ => print_manifest(printer, &none, &dag, format),
            }
            .unwrap();
        })
    };
    for (what, words, header) in [
        (
            0,
            "note: no tasks on record\n",
            "subject,session,procedure,status,",
        ),
        (
            1,
            "note: no sessions found\n",
            "subject,session,bids,qsiprep,freesurfer\n",
        ),
        (
            2,
            "nothing is due\n",
            "subject,session,procedure,priority\n",
        ),
    ] {
        assert_eq!(view(Format::Table, what), (String::new(), words.to_owned()));
        assert_eq!(view(Format::Json, what), ("[]\n".to_owned(), String::new()));
        let (csv, err) = view(Format::Csv, what);
        assert!(csv.starts_with(header), "{csv}");
        assert_eq!((csv.lines().count(), err.as_str()), (1, ""));
    }
}

#[test]
fn a_run_ends_with_its_figures_on_stderr() {
    let (sessions, manifest) = study();
    let mut summary = RunSummary::of(sessions.len(), &manifest);
    summary.submitted = 1;
    summary.refused = vec![("freesurfer: Invalid account 'x'".to_owned(), 1)];
    let (out, err) = shown(PIPED, |printer| print_run_summary(printer, &summary));
    assert_eq!(out, "");
    insta::assert_snapshot!("run_summary", err);

    let quiet = PrinterOptions {
        verbosity: Verbosity::Quiet,
        ..PIPED
    };
    let (_, err) = shown(quiet, |printer| print_run_summary(printer, &summary));
    insta::assert_snapshot!("run_summary_quiet", err);
    summary.refused.clear();
    summary.dry_run = true;
    let (_, err) = shown(quiet, |printer| print_run_summary(printer, &summary));
    assert_eq!(err, "");
    let (_, err) = shown(PIPED, |printer| print_run_summary(printer, &summary));
    assert!(err.starts_with("4 sessions, 11 tasks: 2 complete, 2 due, 1 would be submitted\n"));
}

#[test]
fn every_decision_has_a_word_a_cell_and_a_sentence() {
    let skip = Decision::Skip;
    let fs = Some(Blocked::Failed(Some(Reason::Timeout)));
    let lines: Vec<String> = [
        Decision::Submit(Due::New),
        Decision::Submit(Due::OutputsGone),
        Decision::Submit(Due::FailedBefore),
        Decision::Submit(Due::Forced { complete: true }),
        Decision::Submit(Due::Forced { complete: false }),
        skip(Skip::Complete),
        skip(Skip::NotApplicable),
        in_flight(Some("123"), TaskStatus::Running, Some(Reason::Running)),
        in_flight(
            Some("123"),
            TaskStatus::Running,
            Some(Reason::AwaitingOutput),
        ),
        in_flight(Some("123_4"), TaskStatus::Pending, Some(Reason::Held)),
        in_flight(Some("7"), TaskStatus::Pending, None),
        in_flight(None, TaskStatus::Pending, Some(Reason::Submitting)),
        failed(Some(Reason::OutOfMemory), 2),
        failed(None, 1),
        skip(Skip::NoDicom),
        waiting("bids", "", 0, None),
        waiting("bids", "ses-02", 1, None),
        waiting("bids", "ses-02", 2, None),
        waiting("qsiprep", "ses-02", 4, fs),
        waiting("freesurfer", "", 0, Some(Blocked::Failed(None))),
        waiting(
            "bids",
            "ses-01",
            1,
            Some(Blocked::Unreadable(PathBuf::from("/x/y"))),
        ),
        unreadable("/x/y"),
        skip(Skip::OverLimit(Limit::MaxJobs(5))),
        skip(Skip::OverLimit(Limit::MaxSubmitPerRun(5))),
        skip(Skip::OverLimit(Limit::MaxInFlight(5))),
        skip(Skip::OverLimit(Limit::ProcedureMaxInFlight(5))),
        skip(Skip::NotSelected),
    ]
    .iter()
    .map(|decision| {
        let word = tables::decision_word(decision);
        let cell = tables::decision_cell(decision);
        assert!(cell == word || cell.starts_with(&format!("{word} (")));
        format!("{word:<15} {cell:<23} {}", tables::decision_text(decision))
    })
    .collect();
    insta::assert_snapshot!("decisions", lines.join("\n"));
}

// The printer.

#[test]
fn talk_goes_to_stderr_by_verbosity() {
    let say = |verbosity, err_color| {
        let options = PrinterOptions {
            verbosity,
            err_color,
            ..PIPED
        };
        shown(options, |printer| {
            printer.talk("talk");
            printer.detail("detail");
            printer.note("note");
            printer.warning("look\nhere\u{1b}[2J");
            printer.error("error");
            printer.hint("hint");
            printer.progress(Some(3), "working").inc(1);
        })
    };
    let loud = "warning: look\nhere\\u{1b}[2J\nerror: error\nhint: hint\n";
    assert_eq!(
        say(Verbosity::Quiet, false),
        (String::new(), loud.to_owned())
    );
    let normal = format!("talk\nnote: note\n{loud}");
    assert_eq!(say(Verbosity::Normal, false).1, normal);
    let verbose = format!("talk\ndetail\nnote: note\n{loud}");
    assert_eq!(say(Verbosity::Verbose, false).1, verbose);
    insta::assert_snapshot!("talk_color", say(Verbosity::Debug, true).1);
}

#[test]
fn flags_give_the_verbosity() {
    use Verbosity::*;
    let given = [
        (false, 0),
        (false, 1),
        (false, 2),
        (false, 9),
        (true, 0),
        (true, 2),
    ];
    let want = [Normal, Verbose, Debug, Debug, Quiet, Quiet];
    assert_eq!(given.map(|(q, v)| Verbosity::from_flags(q, v)), want);
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    for (kind, fine) in [
        (io::ErrorKind::BrokenPipe, true),
        (io::ErrorKind::StorageFull, false),
    ] {
        let err = Buffer::default();
        let mut printer = Printer::new(Box::new(Broken(kind)), Box::new(err.clone()), PIPED);
        print_status(&mut printer, &rows(), &pipeline(), None, Format::Table).unwrap();
        assert!(printer.is_closed());
        printer.warning("still heard");
        let end = printer.finish();
        assert_eq!(end.is_ok(), fine);
        assert_eq!(end.err().map(|e| e.kind()), (!fine).then_some(kind));
        assert_eq!(err.text(), "warning: still heard\n");
    }
}

#[test]
fn a_broken_stderr_stops_nothing() {
    let out = Buffer::default();
    let broken = Box::new(Broken(io::ErrorKind::BrokenPipe));
    let mut printer = Printer::new(Box::new(out.clone()), broken, PIPED);
    printer.warning("lost");
    printer.line("data");
    printer.finish().unwrap();
    assert_eq!(out.text(), "data\n");
}

#[test]
fn tables_fit_any_terminal_and_are_whole_when_piped() {
    let widest = |text: &str| text.lines().map(|l| l.chars().count()).max().unwrap();
    for width in [1, 8, 20, 40, 60, 80, 200] {
        let (out, _) = status_view(terminal(width), Format::Table);
        if width >= 40 {
            assert!(widest(&out) <= usize::from(width), "{width}:\n{out}");
        }
    }
    let mut long = row("bids", &"x".repeat(500), "", TaskStatus::Failed, None, None);
    long.job_id = Some(JobId::new(&"9".repeat(300)));
    let (out, _) = shown(PIPED, |printer| {
        print_status(printer, &[long], &pipeline(), None, Format::Table).unwrap();
    });
    let line = out.lines().last().unwrap();
    assert!(line.contains(&"x".repeat(500)) && line.contains(&"9".repeat(300)));
}

#[test]
fn odd_values_cannot_break_any_format() {
    let odd = [
        "a\"b",
        "a,b",
        "a\nb",
        "a\r\nb\t",
        "",
        "\u{1b}[31mred",
        "'; DROP",
        "é漢字 \u{1f9e0}",
        "\u{0}",
        "\\",
        "null",
        "-",
        "12",
        "[\n]",
    ];
    let rows: Vec<TaskRow> = odd
        .iter()
        .enumerate()
        .map(|(at, text)| {
            let mut row = row(
                text,
                &format!("{at:02}"),
                text,
                TaskStatus::Failed,
                None,
                None,
            );
            row.facts.node_list = Some(Arc::from(*text));
            row
        })
        .collect();
    let dag = pipeline();
    let frame = tables::rows_frame(&rows, &dag, None).unwrap();
    let json: Vec<Value> = serde_json::from_slice(&to_json(&frame).unwrap()).unwrap();
    let back = read_csv(&to_csv(&frame).unwrap());
    assert!(back.equals_missing(&as_text(&frame)), "{back:?}");
    for object in &json {
        let at: usize = object["subject"].as_str().unwrap().parse().unwrap();
        assert_eq!(object["session"], odd[at]);
        assert_eq!(object["procedure"], odd[at]);
        assert_eq!(object["node_list"], odd[at]);
        assert_eq!(object["job_id"], Value::Null);
        assert_eq!(object["attempt"], 1);
    }
    let (out, _) = shown(PIPED, |printer| {
        print_status(printer, &rows, &dag, None, Format::Table).unwrap();
    });
    assert!(!out.contains("\\e["), "{out}");
    // 3 procedures without rows, one per odd name, header, total, blank, header, rows.
    assert_eq!(out.lines().count(), 3 + odd.len() + 4 + odd.len(), "{out}");
}

// Frames.

fn read_csv(bytes: &[u8]) -> DataFrame {
    CsvReadOptions::default()
        .with_infer_schema_length(Some(0))
        .map_parse_options(|options| options.with_missing_is_null(true))
        .into_reader_with_file_handle(io::Cursor::new(bytes.to_vec()))
        .finish()
        .unwrap()
}

fn as_text(frame: &DataFrame) -> DataFrame {
    let columns = frame
        .columns()
        .iter()
        .map(|column| column.cast(&DataType::String).unwrap())
        .collect();
    DataFrame::new(frame.height(), columns).unwrap()
}

fn cell(frame: &DataFrame, column: &str, at: usize) -> Option<String> {
    let column = frame
        .column(column)
        .unwrap()
        .cast(&DataType::String)
        .unwrap();
    column.str().unwrap().get(at).map(str::to_owned)
}

#[test]
fn rows_have_the_documented_columns_and_log_paths() {
    let frame = tables::rows_frame(&rows(), &pipeline(), Some(Path::new("/logs"))).unwrap();
    let names: Vec<&str> = frame
        .get_column_names()
        .iter()
        .map(|n| n.as_str())
        .collect();
    let documented = include_str!("../../docs/output.md");
    let section = documented.split("## status").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let in_docs: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(names, in_docs);
    let paths: Vec<_> = (0..frame.height())
        .map(|at| cell(&frame, "log_path", at))
        .collect();
    let path = |text: &str| Some(text.to_owned());
    assert_eq!(
        paths,
        [
            path("/logs/bids/bids_sub-0001_ses-202411010600_101.out"),
            path("/logs/bids/bids_sub-0002_ses-01_7.out"),
            path("/logs/qsiprep/qsiprep_sub-0001_ses-202411010600_103.out"),
            None,
            path("/logs/freesurfer/freesurfer_sub-0002_110_4.out"),
            path("/logs/retired/retired_sub-0001_ses-01_9.out"),
        ]
    );
    let without = tables::rows_frame(&rows(), &pipeline(), None).unwrap();
    assert_eq!(without.column("log_path").unwrap().null_count(), 6);
}

#[test]
fn every_word_is_documented() {
    let documented = include_str!("../../docs/output.md");
    for word in tables::words::WORDS {
        assert!(documented.contains(&format!("| `{word}`")), "{word}");
    }
}

#[test]
fn procedures_named_like_fixed_columns_do_no_harm() {
    let names = [
        "subject",
        "session",
        "procedure",
        "total",
        "n",
        "status",
        "cell",
        "task",
    ];
    let dag = dag(&names.map(|name| (name, Scope::Session)));
    let sessions = [session("sub-1", "ses-1")];
    let tasks: Vec<Planned> = names
        .iter()
        .map(|name| planned(&dag, name, "sub-1", "ses-1", Decision::Submit(Due::New)))
        .collect();
    let manifest = Manifest { tasks };
    let frame = tables::session_status(&sessions, &manifest, &dag).unwrap();
    assert_eq!(frame.shape(), (1, 2 + names.len()));
    assert_eq!(cell(&frame, "subject", 0).unwrap(), "sub-1");
    assert_eq!(cell(&frame, "subject (procedure)", 0).unwrap(), "due");
    assert_eq!(cell(&frame, "task", 0).unwrap(), "due");
    let counts = tables::decision_counts(&manifest, &dag).unwrap();
    assert_eq!(counts.shape(), (names.len(), 3));
}

#[test]
fn a_dataset_without_sessions_has_a_row_per_subject() {
    let dag = pipeline();
    let sessions = [session("sub-1", ""), session("sub-2", "")];
    let tasks = vec![
        planned(&dag, "bids", "sub-2", "", Decision::Submit(Due::New)),
        planned(&dag, "freesurfer", "sub-2", "", failed(None, 1)),
    ];
    let frame = tables::session_status(&sessions, &Manifest { tasks }, &dag).unwrap();
    assert_eq!(frame.height(), 2);
    let cells = |at| ["bids", "qsiprep", "freesurfer"].map(|name| cell(&frame, name, at));
    assert_eq!(cells(0), [None, None, None]);
    assert_eq!(cells(1), [Some("due".into()), None, Some("failed".into())]);
}

// Properties.

fn any_status() -> impl Strategy<Value = TaskStatus> {
    proptest::sample::select(TaskStatus::ALL.to_vec())
}

fn any_decision() -> impl Strategy<Value = Decision> {
    let reason = || proptest::option::of(proptest::sample::select(Reason::ALL.to_vec()));
    prop_oneof![
        Just(Decision::Submit(Due::New)),
        Just(Decision::Skip(Skip::Complete)),
        Just(Decision::Skip(Skip::NoDicom)),
        Just(Decision::Skip(Skip::OverLimit(Limit::MaxJobs(3)))),
        Just(unreadable("/x")),
        (reason(), 1..5i32).prop_map(|(reason, attempt)| failed(reason, attempt)),
        reason().prop_map(|reason| in_flight(Some("1"), TaskStatus::Pending, reason)),
        any::<bool>().prop_map(|blocked| {
            waiting("bids", "ses-1", 1, blocked.then_some(Blocked::Failed(None)))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn status_counts_add_up_to_rows(
        tasks in proptest::collection::vec((0..5usize, any_status()), 0..40),
    ) {
        let names = ["bids", "qsiprep", "freesurfer", "old", "older"];
        let rows: Vec<TaskRow> = tasks
            .iter()
            .enumerate()
            .map(|(at, (name, status))| row(names[*name], &format!("sub-{at}"), "", *status, None, None))
            .collect();
        let counts = tables::status_counts(&rows, &pipeline()).unwrap();
        let mut sum = 0;
        for at in 0..counts.height() {
            let procedure = cell(&counts, "procedure", at).unwrap();
            let mut total = 0;
            for status in TaskStatus::ALL {
                let count: usize = cell(&counts, status.as_str(), at).unwrap().parse().unwrap();
                let expected = tasks.iter().filter(|(n, s)| names[*n] == procedure && *s == status);
                prop_assert_eq!(count, expected.count());
                total += count;
            }
            prop_assert_eq!(cell(&counts, "total", at).unwrap(), total.to_string());
            sum += total;
        }
        prop_assert_eq!(sum, rows.len());
        prop_assert_eq!(cell(&counts, "procedure", 0).unwrap(), "bids");
    }

    #[test]
    fn the_session_table_equals_the_decisions(
        decisions in proptest::collection::vec(proptest::option::of(any_decision()), 5 * 3),
    ) {
        let dag = pipeline();
        let sessions = [
            session("sub-1", "ses-1"),
            session("sub-1", "ses-2"),
            session("sub-2", "ses-1"),
            session("sub-3", "ses-1"),
            session("sub-3", "ses-3"),
        ];
        let mut expected = vec![[None, None, None]; sessions.len()];
        let mut tasks = Vec::new();
        let mut given = decisions.into_iter();
        for (at, name) in ["bids", "qsiprep"].into_iter().enumerate() {
            for (s, place) in sessions.iter().enumerate() {
                if let Some(decision) = given.next().flatten() {
                    expected[s][at] = Some(tables::decision_cell(&decision).into_owned());
                    tasks.push(planned(&dag, name, place.subject.as_str(), place.session.as_str(), decision));
                }
            }
        }
        for subject in ["sub-1", "sub-2", "sub-3"] {
            if let Some(decision) = given.next().flatten() {
                for (s, place) in sessions.iter().enumerate() {
                    if place.subject.as_str() == subject {
                        expected[s][2] = Some(tables::decision_cell(&decision).into_owned());
                    }
                }
                tasks.push(planned(&dag, "freesurfer", subject, "", decision));
            }
        }
        let manifest = Manifest { tasks };
        let frame = tables::session_status(&sessions, &manifest, &dag).unwrap();
        let json: Vec<Value> =
            serde_json::from_slice(&tables::session_status_json(&sessions, &manifest, &dag).unwrap()).unwrap();
        prop_assert_eq!(frame.height(), sessions.len());
        for (s, place) in sessions.iter().enumerate() {
            prop_assert_eq!(cell(&frame, "subject", s).unwrap(), place.subject.as_str());
            prop_assert_eq!(cell(&frame, "session", s).unwrap(), place.session.as_str());
            for (p, name) in ["bids", "qsiprep", "freesurfer"].into_iter().enumerate() {
                prop_assert_eq!(cell(&frame, name, s), expected[s][p].clone());
                let word = json[s]["procedures"][name]["decision"].as_str();
                let cell = expected[s][p].as_deref();
                prop_assert_eq!(word, cell.and_then(|c| c.split(' ').next()));
            }
        }

        // The figures of a run add up to the tasks.
        let summary = RunSummary::of(sessions.len(), &manifest);
        let held_back: usize = summary.held_back.iter().map(|(_, n)| n).sum();
        let submit = tables::manifest_frame(&manifest, &dag).unwrap().height();
        prop_assert_eq!(summary.complete + submit + held_back, manifest.tasks.len());
        let counts = tables::decision_counts(&manifest, &dag).unwrap();
        let total: usize = (0..counts.height())
            .map(|at| cell(&counts, "total", at).unwrap().parse::<usize>().unwrap())
            .sum();
        prop_assert_eq!(total, manifest.tasks.len());
    }
}
