//! What people and scripts see: the views of each command, and the printer.

mod decisions;
mod frames;
mod graph;
mod many_rows;
mod talk;
mod values;

use std::io;
use std::path::{Path, PathBuf};

use snbb_scheduler::cli::output::{Format, Printer, PrinterOptions, Verbosity};
use snbb_scheduler::cli::run::print_run_summary;
use snbb_scheduler::cli::views::{
    RowsView, SessionsView, print_manifest, print_session_status, print_status,
};
use snbb_scheduler::decide::manifest::{
    Blocked, Budget, Decision, Due, Limit, Manifest, Outlook, Skip,
};
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::procedure::Scope;
use snbb_scheduler::model::state::{Reason, TaskRow, TaskStatus};
use snbb_scheduler::show::tables;
use snbb_scheduler::show::tables::RowOrder;
use snbb_scheduler::store::control::{Pause, PauseCause};
use values::*;

fn status_view(options: PrinterOptions, format: Format) -> (String, String) {
    shown(options, |printer| {
        let view = RowsView {
            log_dir: Some(Path::new("/logs")),
            format,
            ..RowsView::default()
        };
        let rows = rows();
        print_status(printer, rows.iter().collect(), &pipeline(), &view).unwrap();
    })
}

fn session_view(options: PrinterOptions, format: Format) -> (String, String) {
    let (sessions, manifest) = study();
    shown(options, |printer| {
        let view = SessionsView {
            format,
            ..SessionsView::default()
        };
        print_session_status(printer, sessions, &manifest, &pipeline(), &view).unwrap();
    })
}

#[test]
fn status_in_each_format() {
    for (name, options, format) in [
        ("status_piped", PIPED, Format::Table),
        ("status_narrow", terminal(72), Format::Table),
        ("status_color", colored(), Format::Table),
        ("status_symbols", symbols(110), Format::Table),
        ("status_symbols_narrow", symbols(72), Format::Table),
        ("status_csv", colored(), Format::Csv),
        ("status_json", colored(), Format::Json),
    ] {
        let (out, err) = status_view(options, format);
        assert_eq!(err, "");
        insta::assert_snapshot!(name, out);
    }
}

/// More rows than a terminal shows: every tenth has failed.
fn many() -> Vec<TaskRow> {
    (0..120)
        .map(|at| {
            let (status, reason) = match at % 10 {
                9 => (TaskStatus::Failed, Reason::Timeout),
                8 => (TaskStatus::Running, Reason::Running),
                _ => (TaskStatus::Complete, Reason::Verified),
            };
            let subject = format!("sub-{at:03}");
            let mut row = row("bids", &subject, "ses-01", status, Some(reason), Some("7"));
            row.submitted_at = row
                .submitted_at
                .map(|time| time + chrono::TimeDelta::minutes(at));
            row.updated_at = row.submitted_at;
            row.facts.elapsed_s = Some(at * 7 % 100);
            row
        })
        .collect()
}

fn subjects(out: &str) -> Vec<&str> {
    let rows = out.split("\n\n").nth(1).unwrap_or(out).lines();
    rows.filter_map(|line| line.split_whitespace().nth(1))
        .filter(|word| word.starts_with("sub-"))
        .collect()
}

#[test]
fn a_terminal_shows_the_rows_that_matter_and_says_how_many_there_are() {
    let rows = many();
    let view = |options, view: RowsView<'_>| {
        shown(options, |printer| {
            print_status(printer, rows.iter().collect(), &pipeline(), &view).unwrap();
        })
    };
    let (out, err) = view(terminal(100), RowsView::default());
    insta::assert_snapshot!("status_long", out);
    assert_eq!(
        err,
        "note: 50 of 120 rows, the most urgent first: `--limit 0` shows all\n"
    );
    let first: Vec<&str> = subjects(&out)[..13].to_vec();
    assert_eq!(
        (first[0], first[11], first[12]),
        ("sub-119", "sub-009", "sub-118")
    );
    // The totals are those of all rows.
    assert!(
        out.contains("bids              0       12        96      12        120\n"),
        "{out}"
    );

    // Piped, nothing is left out, and the order is the documented one.
    let (out, err) = view(PIPED, RowsView::default());
    assert_eq!((subjects(&out).len(), err.as_str()), (120, ""));
    assert!(subjects(&out).is_sorted());
    let all = RowsView {
        limit: Some(0),
        ..RowsView::default()
    };
    let (out, err) = view(terminal(100), all);
    assert_eq!((subjects(&out).len(), err.as_str()), (120, ""));
    assert!(subjects(&out).is_sorted());

    // What was asked for is done in every format, with the same columns.
    for format in [Format::Table, Format::Csv, Format::Json] {
        let asked = RowsView {
            format,
            limit: Some(3),
            order: Some(RowOrder::Submitted),
            ..RowsView::default()
        };
        let (out, err) = view(PIPED, asked);
        let places: Vec<_> = ["sub-119", "sub-118", "sub-117"]
            .iter()
            .map(|subject| out.find(subject).unwrap())
            .collect();
        assert!(places.is_sorted() && !out.contains("sub-116"), "{out}");
        assert!(err.starts_with("note: 3 of 120 rows: `--limit 0`"), "{err}");
    }
}

#[test]
fn rows_come_in_the_order_that_was_asked_for() {
    let mut rows = many();
    let later = |time| time + chrono::TimeDelta::hours(9);
    rows[7].updated_at = rows[7].updated_at.map(later);
    let first = |order, is_reversed| {
        let view = RowsView {
            order: Some(order),
            is_reversed,
            limit: Some(2),
            ..RowsView::default()
        };
        let (out, _) = shown(PIPED, |printer| {
            print_status(printer, rows.iter().collect(), &pipeline(), &view).unwrap();
        });
        let header = out.split("\n\n").nth(1).unwrap().lines().next().unwrap();
        let last = header.split_whitespace().last().unwrap().to_owned();
        (subjects(&out).join(" "), last)
    };
    let is = |subjects: &str, column: &str| (subjects.to_owned(), column.to_owned());
    let (submitted, updated) = ("submitted_at", "updated_at");
    assert_eq!(
        first(RowOrder::Procedure, false),
        is("sub-000 sub-001", submitted)
    );
    assert_eq!(
        first(RowOrder::Subject, true),
        is("sub-119 sub-118", submitted)
    );
    assert_eq!(
        first(RowOrder::Session, false),
        is("sub-000 sub-001", submitted)
    );
    assert_eq!(
        first(RowOrder::Status, false),
        is("sub-119 sub-109", submitted)
    );
    assert_eq!(
        first(RowOrder::Submitted, false),
        is("sub-119 sub-118", submitted)
    );
    assert_eq!(
        first(RowOrder::Submitted, true),
        is("sub-000 sub-001", submitted)
    );
    assert_eq!(
        first(RowOrder::Updated, false),
        is("sub-007 sub-119", updated)
    );
    assert_eq!(
        first(RowOrder::Elapsed, false),
        is("sub-057 sub-014", "elapsed_s")
    );
}

#[test]
fn a_terminal_shows_the_sessions_that_need_a_person() {
    let dag = pipeline();
    let sessions: Vec<_> = (0..80)
        .map(|at| session(&format!("sub-{at:02}"), "ses-1"))
        .collect();
    let tasks = sessions
        .iter()
        .enumerate()
        .map(|(at, place)| {
            let decision = match at {
                70 => failed(Some(Reason::Timeout), 1),
                71 => Decision::Submit(Due::New),
                _ => Decision::Skip(Skip::Complete),
            };
            planned(&dag, "bids", place.subject.as_str(), "ses-1", decision)
        })
        .collect();
    let manifest = Manifest { tasks };
    let show = |options, view: SessionsView| {
        shown(options, |printer| {
            print_session_status(printer, sessions.clone(), &manifest, &dag, &view).unwrap();
        })
    };
    let rows = |out: &str| -> Vec<String> {
        let rows = out.split("\n\n").nth(1).unwrap().lines().skip(1);
        rows.map(|line| line[..6].to_owned()).collect()
    };
    let (out, err) = show(terminal(80), SessionsView::default());
    let shown_rows = rows(&out);
    assert_eq!(shown_rows.len(), 50);
    assert_eq!(shown_rows[..3], ["sub-70", "sub-71", "sub-00"]);
    assert_eq!(
        err,
        "note: 50 of 80 sessions, the most urgent first: `--limit 0` shows all\n"
    );
    let (out, err) = show(PIPED, SessionsView::default());
    assert_eq!((rows(&out).len(), err.as_str()), (80, ""));
    assert!(rows(&out).is_sorted());
    let reversed = SessionsView {
        is_reversed: true,
        limit: Some(2),
        ..SessionsView::default()
    };
    assert_eq!(rows(&show(PIPED, reversed).0), ["sub-79", "sub-78"]);
    // What a filter leaves adds up to its own totals.
    let chosen = tables::with_words(
        &sessions,
        &manifest,
        &dag,
        &[tables::TaskState::Failed, tables::TaskState::Due],
    );
    let told = tables::in_sessions(&chosen, manifest.clone(), &dag);
    assert_eq!((chosen.len(), told.tasks.len()), (2, 2));
}

#[test]
fn status_of_failures_says_what_happened() {
    let failed: Vec<_> = rows()
        .into_iter()
        .filter(|row| row.status == TaskStatus::Failed)
        .collect();
    for (name, options) in [("failed_piped", PIPED), ("failed_narrow", terminal(76))] {
        let (out, _) = shown(options, |printer| {
            let view = RowsView::default();
            print_status(printer, failed.iter().collect(), &pipeline(), &view).unwrap();
        });
        let rows = out.split("\n\n").nth(1).unwrap().to_owned();
        insta::assert_snapshot!(name, rows);
    }
}

#[test]
fn session_status_in_each_format() {
    for (name, options, format) in [
        ("session_status_piped", PIPED, Format::Table),
        ("session_status_narrow", terminal(54), Format::Table),
        ("session_status_narrower", terminal(46), Format::Table),
        ("session_status_color", colored(), Format::Table),
        ("session_status_symbols", symbols(60), Format::Table),
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
                0 => print_status(
                    printer,
                    Vec::new(),
                    &dag,
                    &RowsView {
                        format,
                        ..RowsView::default()
                    },
                ),
                1 => print_session_status(
                    printer,
                    Vec::new(),
                    &none,
                    &dag,
                    &SessionsView {
                        format,
                        ..SessionsView::default()
                    },
                ),
                _ => print_manifest(printer, &none, &dag, format),
            }
            .unwrap();
        })
    };
    for (what, words, header) in [
        (
            0,
            "note: no tasks on record (`snbb-scheduler manifest` lists the tasks that are due)\n",
            "subject,session,procedure,status,",
        ),
        (
            1,
            "note: no sessions to show\n",
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
fn the_built_in_procedures_fit_a_terminal_of_80_columns_and_keep_names_whole_in_60() {
    let names = [
        "bids",
        "bids_post",
        "defacing",
        "qsiprep",
        "freesurfer",
        "qsirecon",
    ];
    let dag = dag(&names.map(|name| (name, Scope::Session)));
    let sessions = [session("sub-0001", "ses-202411010600")];
    let reason = Some(Reason::OutOfMemory);
    let tasks: Vec<_> = names
        .iter()
        .map(|name| {
            planned(
                &dag,
                name,
                "sub-0001",
                "ses-202411010600",
                failed(reason, 1),
            )
        })
        .collect();
    let manifest = Manifest { tasks };
    for width in [80, 60] {
        let (out, _) = shown(terminal(width), |printer| {
            let view = SessionsView::default();
            print_session_status(printer, sessions.to_vec(), &manifest, &dag, &view).unwrap();
        });
        insta::assert_snapshot!(format!("session_status_{width}"), out);
    }
    let row = row(
        "freesurfer",
        "sub-0001",
        "ses-202411010600",
        TaskStatus::Failed,
        reason,
        Some("4812"),
    );
    let other = TaskRow {
        status: TaskStatus::Complete,
        reason: Some(Reason::Verified),
        ..row.clone()
    };
    for width in [65, 60] {
        let (out, _) = shown(terminal(width), |printer| {
            let view = RowsView::default();
            print_status(printer, vec![&row, &other], &dag, &view).unwrap();
        });
        let (_, rows) = out.split_once("\n\n").unwrap();
        insta::assert_snapshot!(format!("status_{width}"), rows);
    }
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
        print_status(printer, vec![&long], &pipeline(), &RowsView::default()).unwrap();
    });
    let line = out.lines().last().unwrap();
    assert!(line.contains(&"x".repeat(500)) && line.contains(&"9".repeat(300)));
}
