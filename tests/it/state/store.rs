//! The store: names, links, attempts, generations, what is written when.

use std::os::unix::fs::symlink;
use std::path::Path;

use snbb_scheduler::base::regular::FileError;
use snbb_scheduler::model::state::{State, TaskKey, TaskStatus};
use snbb_scheduler::store::schema::file;
use snbb_scheduler::store::state_file::{StateError, StatePaths, Store, check_owner};

use super::{bare_row, full_row, locked, meta, saved, time};

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = walkdir::WalkDir::new(directory)
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn files_stand_beside_the_state_file() {
    let paths = StatePaths::of(Path::new("/x/.scheduler_state.parquet")).unwrap();
    let names = [
        (&paths.state, "/x/.scheduler_state.parquet"),
        (&paths.backup, "/x/.scheduler_state.parquet.bak"),
        (&paths.attempts, "/x/.scheduler_state.attempts.parquet"),
        (&paths.journal, "/x/.scheduler_state.journal.jsonl"),
        (&paths.lock, "/x/.scheduler_state.lock"),
        (&paths.control, "/x/.scheduler_state.control.json"),
        (&paths.local, "/x/.scheduler_state.local"),
    ];
    for (path, name) in names {
        assert_eq!(path, Path::new(name));
    }
    let bad = [
        "/",
        "/x/..",
        "/x/state.lock",
        "/x/state.local",
        "/x/state.attempts.parquet",
        "/x/state.parquet.bak",
    ];
    for bad in bad {
        let error = StatePaths::of(Path::new(bad)).unwrap_err();
        assert!(
            matches!(error, StateError::Refused { .. }),
            "{bad}: {error}"
        );
    }
}

#[test]
fn a_link_stays_and_the_files_are_beside_the_real_one() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = directory.path().join("link.parquet");
    // A link to a link to nothing, both relative.
    symlink("real/second.parquet", &link).unwrap();
    symlink("state.parquet", real.join("second.parquet")).unwrap();

    saved(&link, vec![full_row("sub-0001", "bids", 1)]);
    let mut state = locked(&link).read().unwrap();
    state.put(full_row("sub-0001", "bids", 2));
    locked(&link).save(&mut state).unwrap();

    assert!(link.is_symlink() && real.join("second.parquet").is_symlink());
    let names = names_in(&real);
    let expected = [
        "second.parquet",
        "state.attempts.parquet",
        "state.parquet",
        "state.parquet.bak",
    ];
    assert_eq!(
        names
            .iter()
            .filter(|name| !name.ends_with(".lock"))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_loop_of_links_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    symlink("state.parquet", &path).unwrap();
    let error = Store::at(&path).unwrap_err();
    assert!(
        matches!(
            error,
            StateError::Io(FileError {
                action: "follow",
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_an_empty_state_and_directories_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/state.parquet");
    assert!(Store::at(&path).unwrap().read().unwrap().is_empty());
    assert!(
        !directory.path().join("a").try_exists().unwrap(),
        "reading writes nothing"
    );
    saved(
        &path,
        vec![bare_row("sub-0001", "bids", TaskStatus::Pending)],
    );
    assert_eq!(Store::at(&path).unwrap().read().unwrap().len(), 1);
}

#[test]
fn nothing_changed_nothing_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let store = locked(&path);
    let mut state = store.read().unwrap();
    assert!(!store.save(&mut state).unwrap());
    assert!(!path.try_exists().unwrap());
    state.mark_changed();
    assert!(store.save(&mut state).unwrap());
    let before = std::fs::read(&path).unwrap();
    assert!(!store.save(&mut state).unwrap());
    assert!(!store.save(&mut store.read().unwrap()).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn each_save_counts_and_keeps_the_copy_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let backup = directory.path().join("state.parquet.bak");
    let store = locked(&path);
    let mut state = State::default();
    state.meta.project = Some("study-a".to_owned());
    for generation in 1..=4 {
        let before = std::fs::read(&path).ok();
        state.put(full_row(
            &format!("sub-{generation:04}"),
            "bids",
            generation as u32,
        ));
        assert!(store.save(&mut state).unwrap());
        let read = store.read().unwrap();
        assert_eq!(read.meta.generation, generation);
        assert_eq!(read.meta.format_version, 1);
        assert_eq!(read.meta.project.as_deref(), Some("study-a"));
        assert_eq!(
            read.meta.owner_uid,
            Some(rustix::process::geteuid().as_raw())
        );
        assert_eq!(read.rows(), state.rows());
        assert_eq!(std::fs::read(&backup).ok(), before);
    }
    assert!(
        names_in(directory.path())
            .iter()
            .all(|name| !name.contains(".tmp-"))
    );
}

#[test]
fn replaced_and_cleared_rows_go_to_the_attempts_file_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(
        &path,
        vec![
            full_row("sub-0001", "bids", 1),
            full_row("sub-0002", "bids", 2),
        ],
    );
    let store = locked(&path);

    state.put(full_row("sub-0001", "bids", 3));
    state.clear(&TaskKey::new("sub-0002", "ses-01", "bids"));
    store.save(&mut state).unwrap();
    let ids = |store: &Store| -> Vec<String> {
        let rows = store.read_attempts().unwrap();
        rows.iter()
            .map(|row| row.job_id.as_ref().unwrap().to_string())
            .collect()
    };
    assert_eq!(ids(&store.store), ["1", "2"]);
    assert_eq!(
        store.read().unwrap().rows(),
        [full_row("sub-0001", "bids", 3)]
    );

    // As after a crash between the two files: the same attempts come again, with more known.
    let mut later = full_row("sub-0002", "bids", 2);
    later.updated_at = Some(time(99));
    state.add_superseded(vec![full_row("sub-0001", "bids", 1), later.clone()]);
    store.save(&mut state).unwrap();
    assert_eq!(ids(&store.store), ["1", "2"]);
    assert_eq!(store.store.read_attempts().unwrap()[1], later);

    // Without a submission id, time and job tell attempts apart.
    let mut python = bare_row("sub-0003", "bids", TaskStatus::Failed);
    python.submitted_at = Some(time(1));
    let mut other = python.clone();
    other.submitted_at = Some(time(2));
    state.add_superseded(vec![python.clone(), other, python]);
    store.save(&mut state).unwrap();
    assert_eq!(store.store.read_attempts().unwrap().len(), 4);
}

#[test]
fn a_damaged_attempts_file_stops_the_save_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let attempts = directory.path().join("state.attempts.parquet");
    std::fs::write(&attempts, "PAR1").unwrap();
    let before = std::fs::read(&path).unwrap();
    state.put(full_row("sub-0001", "bids", 2));
    let error = locked(&path).save(&mut state).unwrap_err();
    assert!(
        matches!(&error, StateError::Damaged { path, .. } if *path == attempts),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read(&attempts).unwrap(), b"PAR1");
    assert!(
        state.is_changed() && state.superseded().len() == 1,
        "nothing is forgotten"
    );
}

#[test]
fn foreign_columns_of_attempts_are_joined_by_name() {
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::record_batch::RecordBatch;
    use snbb_scheduler::store::schema::join_other_columns;
    use std::sync::Arc;

    let batch = |columns: Vec<(&str, ArrayRef)>| {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
            .unwrap()
    };
    let a = batch(vec![
        ("note", Arc::new(StringArray::from(vec!["x"])) as ArrayRef),
        ("qc", Arc::new(Int64Array::from(vec![1]))),
    ]);
    let b = batch(vec![
        (
            "qc",
            Arc::new(StringArray::from(vec!["good", "bad"])) as ArrayRef,
        ),
        ("site", Arc::new(StringArray::from(vec!["s1", "s2"]))),
    ]);
    let (joined, shift) = join_other_columns(Some(&a), Some(&b)).unwrap();
    let shown = arrow_table(&joined.unwrap());
    assert_eq!(shift, 1);
    assert_eq!(
        shown,
        [
            "note=x qc=1 site=",
            "note= qc=good site=s1",
            "note= qc=bad site=s2"
        ]
    );
}

fn arrow_table(batch: &arrow::record_batch::RecordBatch) -> Vec<String> {
    use arrow::util::display::array_value_to_string;
    let schema = batch.schema();
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = schema
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, array)| {
                    format!(
                        "{}={}",
                        field.name(),
                        array_value_to_string(array, row).unwrap()
                    )
                })
                .collect();
            cells.join(" ")
        })
        .collect()
}

#[test]
fn what_was_changed_by_someone_else_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let store = locked(&path);
    let base = std::fs::read(&path).unwrap();
    let newer = {
        let mut other = store.read().unwrap();
        other.put(full_row("sub-0002", "bids", 2));
        store.save(&mut other).unwrap();
        std::fs::read(&path).unwrap()
    };
    // Read from the first file, while the second stands there, and the other way round (rolled back).
    for (read, stands) in [(&base, Some(&newer)), (&newer, Some(&base)), (&newer, None)] {
        std::fs::write(&path, read).unwrap();
        let mut state = store.read().unwrap();
        state.put(full_row("sub-0003", "bids", 3));
        match stands {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let error = store.save(&mut state).unwrap_err();
        assert!(matches!(error, StateError::Conflict { .. }), "{error}");
        assert_eq!(std::fs::read(&path).ok().as_ref(), stands);
    }
    // There was none, and now there is one: a state that was not read is not saved over it.
    std::fs::write(&path, &newer).unwrap();
    let mut state = State::default();
    state.put(full_row("sub-0003", "bids", 3));
    assert!(matches!(
        store.save(&mut state),
        Err(StateError::Conflict { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), newer);
}

#[test]
fn a_file_of_another_program_that_changed_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let fixture = |name: &str| std::fs::read(Path::new("fixtures/state").join(name)).unwrap();
    std::fs::write(&path, fixture("pandas-2.2.parquet")).unwrap();
    let store = locked(&path);
    let mut state = store.read().unwrap();
    std::fs::write(&path, fixture("pandas-3.parquet")).unwrap();
    assert!(matches!(
        store.save(&mut state),
        Err(StateError::Conflict { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), fixture("pandas-3.parquet"));
    let mut state = store.read().unwrap();
    assert!(store.save(&mut state).unwrap());
    let backup = std::fs::read(directory.path().join("state.parquet.bak")).unwrap();
    assert_eq!(
        backup,
        fixture("pandas-3.parquet"),
        "the first save keeps the other program's file"
    );
}

#[test]
fn a_journal_that_was_not_read_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let journal = directory.path().join("state.journal.jsonl");
    std::fs::write(&journal, "").unwrap();
    state.mark_changed();
    let error = locked(&path).save(&mut state).unwrap_err();
    assert!(
        matches!(&error, StateError::Conflict(path) if *path == journal),
        "{error}"
    );
    assert!(journal.try_exists().unwrap());
}

#[test]
fn the_owner_is_the_one_who_made_it() {
    let paths = StatePaths::of(Path::new("/x/state.parquet")).unwrap();
    let meta = snbb_scheduler::model::state::table::Metadata {
        owner_uid: Some(4_000_000_006),
        ..snbb_scheduler::model::state::table::Metadata::default()
    };
    check_owner(&paths, &meta, 4_000_000_006).unwrap();
    let error = check_owner(&paths, &meta, 4_000_000_007).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/x/state.parquet belongs to uid 4000000006, but this command runs as uid 4000000007"
    );
    assert!(error.hint().unwrap().contains("--as-owner"));
    check_owner(
        &paths,
        &snbb_scheduler::model::state::table::Metadata::default(),
        1001,
    )
    .unwrap();
}

/// Reads again and again while the file is replaced: always a whole one.
#[test]
fn readers_see_whole_files_while_one_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(
        &path,
        (0..50)
            .map(|n| full_row(&format!("sub-{n:04}"), "bids", n))
            .collect(),
    );
    let store = Store::at(&path).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 60 {
                        let state = store.read().unwrap();
                        assert_eq!(state.len(), 50);
                        assert!(state.meta.generation >= last);
                        last = state.meta.generation;
                    }
                })
            })
            .collect();
        let store = locked(&path);
        while readers.iter().any(|reader| !reader.is_finished()) {
            state.mark_changed();
            store.save(&mut state).unwrap();
        }
    });
}

const FORMAT_1: &str = "fixtures/state/format-1.parquet";

fn rows_of_format_1() -> [snbb_scheduler::model::state::TaskRow; 2] {
    [
        full_row("sub-0001", "bids", 1),
        bare_row("sub-0002", "freesurfer", TaskStatus::Pending),
    ]
}

/// Golden file: every later version must read it.
#[test]
fn the_fixture_of_format_version_1_is_read() {
    let contents = file::read(std::fs::read(FORMAT_1).unwrap().into()).unwrap();
    let mut rows = rows_of_format_1();
    // Columns that came later are null in it.
    for row in &mut rows {
        row.facts.cpu_time_s = None;
        row.facts.alloc_cpus = None;
        row.facts.partition = None;
        row.facts.account = None;
        row.facts.qos = None;
        row.facts.req_cpus = None;
        row.facts.exit_status = None;
        row.facts.signal = None;
    }
    assert_eq!(contents.rows, rows);
    assert_eq!(contents.meta, meta());
}

#[test]
#[ignore = "writes the fixture above, once per format version"]
fn write_the_fixture_of_format_version_1() {
    let bytes = super::bytes_of(&rows_of_format_1(), None, &meta());
    std::io::Write::write_all(&mut std::fs::File::create_new(FORMAT_1).unwrap(), &bytes).unwrap();
}
