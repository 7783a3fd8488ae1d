//! Files of the Python program, pandas, polars and others are read as they are.

mod types;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, LargeStringArray, NullArray,
    StringArray, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, UInt8Type};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use snbb_scheduler::model::state::{State, TaskKey, TaskStatus};
use snbb_scheduler::store::schema::{Contents, ReadError, file};

use super::{full_row, locked, time};

type Columns = Vec<(&'static str, ArrayRef)>;

fn strings(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn micros(values: &[i64]) -> Vec<i64> {
    values
        .iter()
        .map(|seconds| time(*seconds).timestamp_micros())
        .collect()
}

/// The six columns of the Python program, two rows.
fn base() -> Columns {
    vec![
        ("subject", strings(&["sub-0001", "sub-0001"])),
        ("session", strings(&["ses-01", "ses-02"])),
        ("procedure", strings(&["bids", "bids"])),
        ("status", strings(&["running", "failed"])),
        (
            "submitted_at",
            Arc::new(TimestampMicrosecondArray::from(micros(&[1, 2])).with_timezone("UTC")),
        ),
        ("job_id", strings(&["11", "12"])),
    ]
}

fn with(mut columns: Columns, name: &'static str, array: ArrayRef) -> Columns {
    match columns.iter_mut().find(|(known, _)| *known == name) {
        Some(slot) => slot.1 = array,
        None => columns.push((name, array)),
    }
    columns
}

fn parquet(columns: Columns) -> Vec<u8> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn read(columns: Columns) -> Result<Contents, ReadError> {
    file::read(parquet(columns).into())
}

fn ids(contents: &Contents) -> Vec<Option<&str>> {
    contents
        .rows
        .iter()
        .map(|row| row.job_id.as_ref().map(|id| id.as_str()))
        .collect()
}

#[test]
fn the_six_columns_of_the_python_program() {
    let contents = read(base()).unwrap();
    assert_eq!(contents.meta.format_version, 0);
    let row = &contents.rows[1];
    assert_eq!(row.key, TaskKey::new("sub-0001", "ses-02", "bids"));
    assert_eq!(row.status, TaskStatus::Failed);
    assert_eq!(row.submitted_at, Some(time(2)));
    assert_eq!((row.reason, row.attempt), (None, None));
    assert_eq!(ids(&contents), [Some("11"), Some("12")]);
}

#[test]
fn a_null_session_is_the_empty_one() {
    let sessions = StringArray::from(vec![None, Some("ses-02")]);
    let contents = read(with(base(), "session", Arc::new(sessions))).unwrap();
    assert_eq!(contents.rows[0].key, TaskKey::new("sub-0001", "", "bids"));
    let contents = read(with(base(), "session", Arc::new(NullArray::new(2)))).unwrap();
    assert_eq!(&*contents.rows[1].key.session, "");
}

#[test]
fn an_emptied_file_has_columns_of_type_null() {
    let empty = |_| -> ArrayRef { Arc::new(NullArray::new(0)) };
    let columns = base()
        .into_iter()
        .map(|(name, array)| (name, empty(array)))
        .collect();
    assert_eq!(read(columns).unwrap().rows.len(), 0);
}

#[test]
fn only_three_columns_are_indispensable() {
    for missing in ["session", "submitted_at", "job_id"] {
        let columns = base()
            .into_iter()
            .filter(|(name, _)| *name != missing)
            .collect();
        assert_eq!(read(columns).unwrap().rows.len(), 2, "{missing}");
    }
    for missing in ["subject", "procedure", "status"] {
        let columns: Columns = base()
            .into_iter()
            .filter(|(name, _)| *name != missing)
            .collect();
        let found: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        let expected = format!(
            "column '{missing}' is missing (found: {})",
            found.join(", ")
        );
        assert_eq!(read(columns).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_row_that_is_not_understood_is_named() {
    let error = read(with(base(), "status", strings(&["running", "Done"]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row 1: status is 'Done', expected pending, running, complete or failed"
    );
    let error = read(with(base(), "subject", Arc::new(NullArray::new(2)))).unwrap_err();
    assert_eq!(error.to_string(), "row 0: subject is null, expected a text");
    let error = read(with(
        base(),
        "status",
        Arc::new(BooleanArray::from(vec![true, false])),
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 'status' has type Boolean, expected text"
    );
    let error = read(with(
        base(),
        "submitted_at",
        Arc::new(TimestampSecondArray::from(vec![1, i64::MAX / 2])),
    ))
    .unwrap_err();
    assert!(
        error.to_string().starts_with("row 1: submitted_at is"),
        "{error}"
    );
}

#[test]
fn unknown_reasons_are_left_out_and_said() {
    let reasons = strings(&["queued", "on_fire"]);
    let contents = read(with(base(), "reason", reasons)).unwrap();
    assert!(contents.rows.iter().all(|row| row.reason.is_none()));
    assert_eq!(
        contents.warnings,
        [
            "1 row with status running and reason 'queued', which do not match (first: row 0, bids sub-0001 ses-01): read without a reason",
            "1 row with the unknown reason 'on_fire' (first: row 1, bids sub-0001 ses-02): read without a reason",
        ]
    );
}

#[test]
fn foreign_columns_stay_and_an_index_goes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let columns = with(
        base(),
        "__index_level_0__",
        Arc::new(Int64Array::from(vec![5, 6])),
    );
    let columns = with(columns, "note", strings(&["good", "bad"]));
    let columns = with(
        columns,
        "qc",
        Arc::new(Int32Array::from(vec![None, Some(3)])),
    );
    std::fs::write(&path, parquet(columns)).unwrap();

    let store = locked(&path);
    let mut state = store.read().unwrap();
    assert_eq!(names(&state), ["note", "qc"]);
    state.put(full_row("sub-0009", "bids", 9));
    let row = full_row("sub-0001", "bids", 20);
    state.put(snbb_scheduler::model::state::TaskRow {
        key: TaskKey::new("sub-0001", "ses-02", "bids"),
        ..row
    });
    store.save(&mut state).unwrap();

    let state = store.read().unwrap();
    assert_eq!(names(&state), ["note", "qc"]);
    let note = |row: &snbb_scheduler::model::state::TaskRow| {
        let notes = state.other_columns.as_ref().unwrap().column(0);
        let notes: &StringArray = arrow::array::AsArray::as_string(notes);
        let notes: Vec<_> = notes.iter().collect();
        row.other_columns
            .and_then(|line| notes[line as usize])
            .map(str::to_owned)
    };
    let notes: Vec<_> = state.rows().iter().map(note).collect();
    assert_eq!(notes, [Some("good".to_owned()), None, None]);

    // The attempt that was replaced has taken its line along.
    let attempts = file::read(std::fs::read(&store.store.paths.attempts).unwrap().into()).unwrap();
    assert_eq!(ids(&attempts), [Some("12")]);
    let batch = attempts.other_columns.unwrap();
    let notes: &StringArray = arrow::array::AsArray::as_string(batch.column(0));
    assert_eq!(notes.value(0), "bad");
}

fn names(state: &State) -> Vec<String> {
    let schema = state.other_columns.as_ref().unwrap().schema();
    schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect()
}

#[test]
fn of_several_rows_a_live_one_wins_else_the_newest() {
    // (status, seconds, job id) of the rows of one task, and the job id that counts.
    type Case = (&'static [(&'static str, i64, &'static str)], &'static str);
    let table: &[Case] = &[
        (&[("failed", 1, "1"), ("complete", 2, "2")], "2"),
        (&[("failed", 3, "1"), ("complete", 2, "2")], "1"),
        (&[("running", 1, "1"), ("complete", 2, "2")], "1"),
        (
            &[
                ("complete", 2, "1"),
                ("pending", 1, "2"),
                ("failed", 3, "3"),
            ],
            "2",
        ),
        (&[("pending", 1, "1"), ("running", 2, "2")], "2"),
        (&[("failed", 1, "1"), ("failed", 1, "2")], "2"),
    ];
    for (rows, winner) in table {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.parquet");
        let n = rows.len();
        let column = |text: &'static str| strings(&vec![text; n]);
        let seconds: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let columns: Columns = vec![
            ("subject", column("sub-0001")),
            ("session", column("")),
            ("procedure", column("freesurfer")),
            (
                "status",
                strings(&rows.iter().map(|row| row.0).collect::<Vec<_>>()),
            ),
            (
                "submitted_at",
                Arc::new(TimestampMicrosecondArray::from(micros(&seconds))),
            ),
            (
                "job_id",
                strings(&rows.iter().map(|row| row.2).collect::<Vec<_>>()),
            ),
        ];
        std::fs::write(&path, parquet(columns)).unwrap();
        let store = locked(&path);
        let mut state = store.read().unwrap();
        let key = TaskKey::new("sub-0001", "", "freesurfer");
        assert_eq!(
            state.get(&key).unwrap().job_id.as_ref().unwrap().as_str(),
            *winner,
            "{rows:?}"
        );
        assert_eq!((state.len(), state.superseded().len()), (1, n - 1));
        assert_eq!(
            state.warnings.len(),
            usize::from(rows[0].0 == "pending"),
            "two live rows are said"
        );
        assert!(store.save(&mut state).unwrap());
        assert_eq!(store.store.read_attempts().unwrap().len(), n - 1);
        assert!(
            !store.save(&mut store.read().unwrap()).unwrap(),
            "once is enough"
        );
    }
}

#[test]
fn a_doubled_column_is_an_error() {
    let mut columns = base();
    columns.push(("status", strings(&["failed", "failed"])));
    assert_eq!(
        read(columns).unwrap_err(),
        ReadError::NotUnderstood("column 'status' appears twice".to_owned())
    );
}

/// Files that those programs themselves have written (`fixtures/state/make.py`).
#[test]
fn fixtures_of_other_programs_are_read_and_continued() {
    for name in [
        "pandas-2.2",
        "pandas-2.2-naive",
        "pandas-2.2-float-job-id",
        "pandas-2.2-categorical",
        "pandas-2.2-null-session",
        "pandas-2.2-index",
        "pandas-3",
        "polars",
        "duckdb",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.parquet");
        std::fs::copy(format!("fixtures/state/{name}.parquet"), &path).unwrap();
        let store = locked(&path);
        let mut state = store.read().unwrap();
        let shown: Vec<String> = state
            .rows()
            .iter()
            .map(|row| {
                let id = row.job_id.as_ref().map_or("-", |id| id.as_str());
                let at = row.submitted_at.unwrap().format("%m-%d %H:%M:%S%.6f");
                format!("{} | {} {id} {at}", row.key, row.status)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "bids sub-0001 ses-01 | complete 102 03-02 10:00:00.123456",
                "freesurfer sub-0001 | running 103 03-03 10:00:00.000000",
                "bids sub-0002 ses-01 | pending - 03-03 10:00:00.000000",
            ],
            "{name}"
        );
        assert!(
            state.other_columns.is_none() && state.warnings.is_empty(),
            "{name}"
        );
        let earlier = state.superseded().len();
        assert_eq!(earlier, usize::from(name != "pandas-2.2-index"), "{name}");
        state.mark_changed();
        assert!(store.save(&mut state).unwrap());
        let again = store.read().unwrap();
        assert_eq!(again.rows(), state.rows(), "{name}");
        assert_eq!((again.meta.format_version, again.meta.generation), (1, 1));
        assert_eq!(store.store.read_attempts().unwrap().len(), earlier);
    }
}

#[test]
fn fixtures_of_emptied_files_are_read() {
    for name in ["pandas-2.2-emptied", "pandas-3-emptied"] {
        let bytes = std::fs::read(format!("fixtures/state/{name}.parquet")).unwrap();
        assert!(file::read(bytes.into()).unwrap().rows.is_empty(), "{name}");
    }
}
