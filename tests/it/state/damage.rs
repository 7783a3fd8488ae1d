//! A damaged file is an error, never other rows, never a panic, and it is never overwritten.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use snbb_scheduler::model::state::TaskStatus;
use snbb_scheduler::store::schema::{ReadError, file};
use snbb_scheduler::store::state_file::{StateError, Store};

use super::{bare_row, bytes_of, full_row, locked, meta, saved};

/// A small state with a column of someone else.
fn small() -> Vec<u8> {
    let notes: ArrayRef = Arc::new(StringArray::from(vec![Some("good"), None]));
    let scores: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let other_columns = RecordBatch::try_from_iter([("note", notes), ("score", scores)]).unwrap();
    let mut rows = [
        full_row("sub-0001", "bids", 1),
        bare_row("sub-0002", "freesurfer", TaskStatus::Pending),
    ];
    rows[0].other_columns = Some(0);
    rows[1].other_columns = Some(1);
    bytes_of(&rows, Some(&other_columns), &meta())
}

#[test]
fn a_file_cut_at_any_byte_is_an_error() {
    let whole = small();
    for length in 0..whole.len() {
        let outcome = file::read(Bytes::copy_from_slice(&whole[..length]));
        assert!(
            matches!(outcome, Err(ReadError::Damaged(_))),
            "cut at {length}"
        );
    }
}

/// Every byte changed: an error, or exactly what was written (there are bytes that carry no meaning,
/// such as statistics).
#[test]
fn a_file_with_any_byte_changed_is_an_error_or_the_same() {
    changed_everywhere(|at| vec![0xff, 1 << (at % 8)]);
}

#[test]
#[ignore = "takes minutes; part of scripts/test --long"]
fn a_file_with_any_bit_changed_is_an_error_or_the_same() {
    changed_everywhere(|_| {
        (0..8)
            .map(|bit| 1 << bit)
            .chain([0x24, 0x7e, 0xaa])
            .collect()
    });
}

fn changed_everywhere(masks: impl Fn(usize) -> Vec<u8> + Sync) {
    let whole = small();
    let expected = file::read(Bytes::from(whole.clone())).unwrap();
    let columns = |batch: Option<&RecordBatch>| batch.unwrap().columns().to_vec();
    // Odd and even bytes in a thread each. Returns how many changes were made and not found.
    let sweep = |start: usize| {
        let (mut tried, mut harmless) = (0, 0);
        for at in (start..whole.len()).step_by(2) {
            for mask in masks(at) {
                let mut changed = whole.clone();
                changed[at] ^= mask;
                tried += 1;
                if let Ok(found) = file::read(Bytes::from(changed)) {
                    harmless += 1;
                    let place = format!("byte {at} ^ {mask:#x}");
                    assert_eq!(found.rows, expected.rows, "{place}");
                    assert_eq!(found.meta, expected.meta, "{place}");
                    let (found, expected) = (found.other_columns, &expected.other_columns);
                    assert_eq!(
                        columns(found.as_ref()),
                        columns(expected.as_ref()),
                        "{place}"
                    );
                }
            }
        }
        (tried, harmless)
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| sweep(1));
        (sweep(0), odd.join().unwrap())
    });
    let (tried, harmless) = (even.0 + odd.0, even.1 + odd.1);
    assert!(
        harmless < tried / 2,
        "{harmless} of {tried} changes were not found"
    );
}

#[test]
fn a_damaged_state_stops_reading_and_saving_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let store = locked(&path);
    state.mark_changed();
    store.save(&mut state).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 3, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = store.read().unwrap_err();
        assert!(matches!(error, StateError::Damaged { path: named, .. } if named == path));
        state.mark_changed();
        assert!(store.save(&mut state).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), whole[..cut]);
    }
}

#[test]
fn what_stands_in_place_of_the_state_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("text.parquet"), "subject,session\n").unwrap();
    std::fs::create_dir(directory.path().join("dir.parquet")).unwrap();
    let read = |name| {
        Store::at(&directory.path().join(name))
            .unwrap()
            .read()
            .unwrap_err()
    };
    insta::with_settings!({filters => [(directory.path().to_str().unwrap(), "<dir>")]}, {
        insta::assert_snapshot!(read("text.parquet"), @"<dir>/text.parquet is damaged: it is truncated or not a Parquet file (Parquet error: Invalid Parquet file. Corrupt footer)");
        insta::assert_snapshot!(read("text.parquet").hint().unwrap(), @"run `snbb-scheduler state repair` to see what can be rebuilt from its backup, the journal, the audit log and Slurm; the file was not changed");
        insta::assert_snapshot!(read("dir.parquet"), @"cannot read <dir>/dir.parquet: it is a directory");
    });
}

/// Rewrites a file as another program would that hands the metadata on.
fn rewritten(bytes: Vec<u8>, edit: impl Fn(&mut Vec<KeyValue>), rows: usize) -> Bytes {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let mut keys = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .clone();
    keys.retain(|pair| pair.key != "ARROW:schema");
    edit(&mut keys);
    let batch = reader
        .build()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .slice(0, rows);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    for pair in keys {
        writer.append_key_value_metadata(pair);
    }
    writer.into_inner().unwrap().into()
}

fn set(keys: &mut [KeyValue], key: &str, value: &str) {
    keys.iter_mut().find(|pair| pair.key == key).unwrap().value = Some(value.to_owned());
}

#[test]
fn the_hash_does_not_depend_on_compression_and_encoding() {
    file::read(rewritten(small(), |_| {}, 2)).unwrap();
}

#[test]
fn rows_or_metadata_that_do_not_fit_the_hash_are_damage() {
    let damaged = |bytes| matches!(file::read(bytes), Err(ReadError::Damaged(_)));
    assert!(damaged(rewritten(small(), |_| {}, 1)), "a row is gone");
    assert!(damaged(rewritten(
        small(),
        |keys| keys.retain(|pair| pair.key != "snbb.hash"),
        2
    )));
    for (key, value) in [
        ("snbb.generation", "8"),
        ("snbb.owner_uid", "0"),
        ("snbb.project", "study-b"),
        ("snbb.format_version", "2"),
        ("snbb.hash", "sha256-columns-9:00"),
    ] {
        assert!(
            damaged(rewritten(small(), |keys| set(keys, key, value), 2)),
            "{key}"
        );
    }
}

#[test]
fn a_newer_format_is_read_and_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let newer = rewritten(
        small(),
        |keys| {
            set(keys, "snbb.format_version", "2");
            set(keys, "snbb.hash", "something-else:00");
        },
        2,
    );
    std::fs::write(&path, &newer).unwrap();
    let store = locked(&path);
    let mut state = store.read().unwrap();
    assert_eq!((state.len(), state.meta.format_version), (2, 2));
    state.put(full_row("sub-0003", "bids", 3));
    let error = store.save(&mut state).unwrap_err();
    assert!(
        matches!(&error, StateError::Refused { text, .. } if text.contains("format version 2,")),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), newer);
}
