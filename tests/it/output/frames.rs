//! Frames: columns, odd values, and that figures add up.

use std::io;
use std::path::Path;
use std::sync::Arc;

use polars::prelude::*;
use polars_io::SerReader;
use polars_io::csv::read::CsvReadOptions;
use proptest::prelude::*;
use serde_json::Value;
use snbb_scheduler::cli::run::RunSummary;
use snbb_scheduler::cli::views::{RowsView, print_status};
use snbb_scheduler::decide::manifest::{Blocked, Decision, Due, Limit, Manifest, Planned, Skip};
use snbb_scheduler::model::procedure::{ProcedureDag, Scope};
use snbb_scheduler::model::state::{Reason, TaskRow, TaskStatus};
use snbb_scheduler::show::tables;
use snbb_scheduler::show::tables::{
    RowOrder, SessionOrder, TableError, sort_rows, to_csv, to_json,
};

use super::values::*;

fn read_csv(bytes: &[u8]) -> DataFrame {
    CsvReadOptions::default()
        .with_infer_schema_length(Some(0))
        .map_parse_options(|options| options.with_missing_is_null(true))
        .into_reader_with_file_handle(io::Cursor::new(bytes.to_vec()))
        .finish()
        .unwrap()
}

fn rows_frame(
    rows: &[TaskRow],
    dag: &ProcedureDag,
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    let mut rows: Vec<&TaskRow> = rows.iter().collect();
    sort_rows(&mut rows, dag, RowOrder::Procedure);
    tables::ordered_rows_frame(&rows, log_dir)
}

fn as_text(frame: &DataFrame) -> DataFrame {
    let columns = frame
        .columns()
        .iter()
        .map(|column| {
            // CSV has one field for a missing value and an empty text.
            let texts = column.cast(&DataType::String).unwrap();
            let texts = texts.str().unwrap().iter();
            let some: StringChunked = texts
                .map(|cell| cell.filter(|cell| !cell.is_empty()))
                .collect();
            some.with_name(column.name().clone()).into_column()
        })
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
    let frame = rows_frame(&rows(), &pipeline(), Some(Path::new("/logs"))).unwrap();
    let names: Vec<&str> = frame
        .get_column_names()
        .iter()
        .map(|n| n.as_str())
        .collect();
    let documented = include_str!("../../../docs/output.md");
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
    let without = rows_frame(&rows(), &pipeline(), None).unwrap();
    assert_eq!(without.column("log_path").unwrap().null_count(), 6);
}

#[test]
fn every_word_is_documented() {
    let documented = include_str!("../../../docs/output.md");
    for word in tables::TaskState::ALL {
        let short = word.style().short;
        assert!(
            documented.contains(&format!("| `{word}` | `{short}` |")),
            "{word}"
        );
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
        "decision",
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
    assert_eq!(counts.shape(), (1, 2 + names.len()));
    assert_eq!(cell(&counts, "total", 0).unwrap(), names.len().to_string());
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
    let frame = rows_frame(&rows, &dag, None).unwrap();
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
        print_status(printer, rows.iter().collect(), &dag, &RowsView::default()).unwrap();
    });
    assert!(!out.contains("\\e["), "{out}");
    // 3 procedures without rows, one per odd name, header, total, blank, header, rows.
    assert_eq!(out.lines().count(), 3 + odd.len() + 4 + odd.len(), "{out}");
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
        Just(Decision::Skip(Skip::Excluded)),
        Just(Decision::Skip(Skip::Stale(Vec::new()))),
        Just(Decision::Skip(Skip::LateInput)),
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
        let counts = tables::status_counts(&rows, &pipeline(), true).unwrap();
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
        let summary = RunSummary::of(&manifest);
        let held_back: usize = summary.held_back.iter().map(|(_, n)| n).sum();
        let submit = tables::manifest_frame(&manifest, &dag).unwrap().height();
        prop_assert_eq!(summary.complete + submit + held_back, manifest.tasks.len());
        let counts = tables::decision_counts(&manifest, &dag).unwrap();
        let total: usize = (0..counts.height())
            .map(|at| cell(&counts, "total", at).unwrap().parse::<usize>().unwrap())
            .sum();
        prop_assert_eq!(total, manifest.tasks.len());

        // A filter shows the sessions with a word and no others; what it leaves adds up as well.
        for word in tables::TaskState::ALL {
            let chosen = tables::with_words(&sessions, &manifest, &dag, &[word]);
            let cells = |s: usize| expected[s].iter().flatten();
            let with_word = (0..sessions.len())
                .filter(|&s| cells(s).any(|cell| cell.split(' ').next() == Some(word.as_str())))
                .map(|s| sessions[s].clone());
            prop_assert_eq!(&chosen, &with_word.collect::<Vec<_>>());
            let part = tables::in_sessions(&chosen, manifest.clone(), &dag);
            let counts = tables::decision_counts(&part, &dag).unwrap();
            let total: usize = (0..counts.height())
                .map(|at| cell(&counts, "total", at).unwrap().parse::<usize>().unwrap())
                .sum();
            prop_assert_eq!(total, part.tasks.len());
        }
        for order in SessionOrder::ALL {
            let mut sorted = sessions.to_vec();
            tables::sort_sessions(&mut sorted, &manifest, &dag, order);
            for session in &sessions {
                prop_assert!(sorted.contains(session));
            }
        }
    }
}
