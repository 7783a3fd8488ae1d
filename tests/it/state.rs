//! The state file on disk: round trips, damage, files of other programs, replacement.

mod damage;
mod foreign;
mod replacement;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use chrono::{DateTime, Utc};
use proptest::prelude::*;
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::table::Identity;
use snbb_scheduler::model::state::table::Metadata;
use snbb_scheduler::store::schema::file;
use snbb_scheduler::store::state_file::{LockedStore, Store};

use crate::harness::rows;
use snbb_scheduler::model::state::columns::{COLUMNS, Kind};
use snbb_scheduler::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

pub fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_772_000_000 + seconds, 123_456_000).unwrap()
}

/// Makes a row with every column set.
pub fn full_row(subject: &str, procedure: &str, job: u32) -> TaskRow {
    TaskRow {
        key: TaskKey::new(subject, "ses-01", procedure),
        status: TaskStatus::Failed,
        submitted_at: Some(time(1)),
        job_id: Some(JobId::new(&job.to_string())),
        reason: Some(Reason::ExitCode),
        attempt: Some(2),
        facts: JobFacts {
            slurm_state: Some(Arc::from("FAILED")),
            exit_code: Some(Arc::from("1:0")),
            started_at: Some(time(2)),
            ended_at: Some(time(3)),
            node_list: Some(Arc::from("node[01-02]")),
            req_mem_mb: Some(4096),
            max_rss_mb: Some(1234),
            time_limit_s: Some(3600),
            elapsed_s: Some(61),
            cpu_time_s: Some(59),
            alloc_cpus: Some(8),
            cluster: Some(Arc::from("alpha")),
            partition: Some(Arc::from("long")),
            account: Some(Arc::from("lab")),
            qos: Some(Arc::from("normal")),
            req_cpus: Some(7),
            exit_status: Some(1),
            signal: Some(9),
        },
        updated_at: Some(time(4)),
        missing_since: Some(time(5)),
        job_name: Some(Arc::from(format!("{procedure}_{subject}_ses-01"))),
        submission_id: Some(Arc::from(format!("{job:08x}"))),
        replaces_outputs: Some(true),
        ..TaskRow::default()
    }
}

/// Makes a row with nothing but what it must have.
pub fn bare_row(subject: &str, procedure: &str, status: TaskStatus) -> TaskRow {
    rows::bare(TaskKey::new(subject, "", procedure), status)
}

pub fn meta() -> Metadata {
    Metadata {
        format_version: 1,
        generation: 7,
        project: Some("study-a".to_owned()),
        owner_uid: Some(1000),
        cluster: None,
        path: None,
        baselines: [("sessions".to_owned(), 4), ("complete".to_owned(), 12)].into(),
        begun_anew: None,
    }
}

pub fn bytes_of(rows: &[TaskRow], foreign: Option<&RecordBatch>, meta: &Metadata) -> Vec<u8> {
    file::write(rows, foreign, meta).unwrap().0
}

pub fn locked(path: &Path) -> LockedStore {
    let store = Store::at(path).unwrap();
    store.lock("test", Duration::from_secs(5)).unwrap()
}

/// Saves rows as the state of a new study.
pub fn saved(path: &Path, rows: Vec<TaskRow>) -> State {
    let store = locked(path);
    let mut state = store.read().unwrap();
    for row in rows {
        state.put(row);
    }
    assert!(store.save(&mut state).unwrap());
    state
}

#[test]
fn rows_and_metadata_come_back_as_they_were() {
    let rows = [
        full_row("sub-0001", "bids", 1),
        bare_row("sub-0002", "freesurfer", TaskStatus::Pending),
    ];
    let contents = file::read(bytes_of(&rows, None, &meta()).into()).unwrap();
    assert_eq!(contents.rows, rows);
    assert_eq!(contents.meta, meta());
    assert!(contents.other_columns.is_none() && contents.warnings.is_empty());
}

/// In the order of the file, each with its type.
#[test]
fn attack_the_page_names_every_column() {
    let page = std::fs::read_to_string("docs/state-file.md").unwrap();
    let table = page.split("## Columns").nth(1).unwrap();
    let table = table.split("Reasons:").next().unwrap();
    let mut documented = Vec::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split(" | ");
        let (names, kind) = (cells.next().unwrap(), cells.next().unwrap());
        documented.extend(names.split('`').skip(1).step_by(2).map(|name| (name, kind)));
    }
    let columns: Vec<(&str, &str)> = COLUMNS
        .iter()
        .map(|column| match column.kind {
            Kind::Time => (column.name, "timestamp, microseconds, UTC"),
            Kind::Int32 => (column.name, "int32"),
            Kind::Int64 => (column.name, "int64"),
            Kind::Flag => (column.name, "bool"),
            _ => (column.name, "string"),
        })
        .collect();
    assert_eq!(documented, columns);
}

#[test]
fn an_empty_table_keeps_its_columns_and_metadata() {
    let contents = file::read(bytes_of(&[], None, &meta()).into()).unwrap();
    assert_eq!((contents.rows.len(), contents.meta), (0, meta()));
}

/// More rows than one row group, so that the second thread and the dictionaries of several groups
/// are used.
#[test]
fn many_rows_come_back_as_they_were() {
    let rows: Vec<TaskRow> = (0..140_000)
        .map(|n| {
            full_row(
                &format!("sub-{:04}", n / 3),
                ["bids", "qsiprep", "x"][n % 3],
                n as u32,
            )
        })
        .collect();
    let contents = file::read(bytes_of(&rows, None, &meta()).into()).unwrap();
    assert!(contents.rows == rows);
    let (first, second) = (&contents.rows[0].key.subject, &contents.rows[1].key.subject);
    assert!(Arc::ptr_eq(first, second), "texts that repeat are shared");
}

/// The hash must mean the same to later versions of this program. This value changes only when a column is
/// added, since it is over all columns of the file; what was written before is verified by its own columns
/// (the next test).
#[test]
fn the_hash_is_the_one_of_format_version_1() {
    let rows = [
        full_row("sub-0001", "bids", 1),
        bare_row("sub-0002", "freesurfer", TaskStatus::Pending),
    ];
    let (_, identity) = file::write(&rows, None, &meta()).unwrap();
    let hash = "sha256-columns-1:4e9b5de3c49e044727016ba57eee15cdf27f107db821bca62cf75d5ea2c6b5fe";
    assert_eq!(
        identity,
        Identity::Ours {
            generation: 7,
            hash: hash.to_owned()
        }
    );
}

fn text() -> impl Strategy<Value = Arc<str>> {
    "\\PC{0,12}".prop_map(Arc::from)
}

fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    (-62_000_000_000_000_000_i64..250_000_000_000_000_000)
        .prop_map(|micros| DateTime::from_timestamp_micros(micros).unwrap())
}

fn any_row() -> impl Strategy<Value = TaskRow> {
    let facts = (
        proptest::option::of(text()),
        proptest::option::of(text()),
        proptest::option::of(instant()),
        proptest::option::of(any::<i64>()),
        proptest::option::of(text()),
    );
    (
        (text(), text(), text()),
        proptest::sample::select(&TaskStatus::ALL),
        proptest::option::of(proptest::sample::select(Reason::ALL.to_vec())),
        proptest::option::of(text()),
        proptest::option::of(instant()),
        proptest::option::of(any::<i32>()),
        proptest::option::of(any::<bool>()),
        facts,
    )
        .prop_map(
            |(key, status, reason, id, at, attempt, flag, facts)| TaskRow {
                input_sessions: facts.1.clone(),
                key: TaskKey {
                    subject: key.0,
                    session: key.1,
                    procedure: key.2,
                },
                status,
                submitted_at: at,
                job_id: id.as_deref().map(JobId::new),
                reason,
                attempt,
                facts: JobFacts {
                    slurm_state: facts.0.clone(),
                    exit_code: facts.1.clone(),
                    started_at: facts.2,
                    ended_at: at,
                    node_list: facts.4.clone(),
                    req_mem_mb: facts.3,
                    max_rss_mb: facts.3.map(|n| n / 2),
                    time_limit_s: facts.3,
                    cpu_time_s: facts.3,
                    cluster: facts.4,
                    ..JobFacts::default()
                },
                updated_at: facts.2,
                missing_since: at,
                job_name: facts.0,
                submission_id: facts.1,
                replaces_outputs: flag,
                ..TaskRow::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_come_back_as_they_were(rows in proptest::collection::vec(any_row(), 0..20)) {
        let contents = file::read(bytes_of(&rows, None, &meta()).into()).unwrap();
        prop_assert_eq!(contents.rows, rows);
    }

    #[test]
    fn any_bytes_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(file::read(bytes.into()).is_err());
    }
}
