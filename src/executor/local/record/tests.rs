use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use chrono::{DateTime, Utc};

use super::super::job::{Claim, End, Ending};
use super::*;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn record(number: u64) -> JobRecord {
    JobRecord {
        number,
        job_name: format!("bids_sub-{number:04}"),
        submission_id: format!("id-{number}"),
        project: "study".to_owned(),
        submitted_at: at(100),
        script: PathBuf::from("/scripts/bids.sh"),
        interpreter: vec!["/bin/bash".to_owned()],
        arguments: vec![format!("sub-{number:04}")],
        directory: PathBuf::from("/"),
        umask: None,
        output: PathBuf::from("/logs/a.out"),
        error: PathBuf::from("/logs/a.err"),
    }
}

fn records(dir: &Path) -> Records {
    let mut records = Records::at(&dir.join("study.local"));
    records.create().unwrap();
    records.refresh().unwrap();
    records
}

fn add(records: &mut Records) -> u64 {
    records.add(&Payload::default(), record).unwrap().0
}

fn end(records: &mut Records, number: u64) {
    let end = End {
        at: at(200),
        how: Ending::Exited { code: 0 },
    };
    assert!(records.write(number, "end", &end).unwrap());
    records.reload(number).unwrap();
}

fn numbers(records: &Records) -> Vec<u64> {
    records.all().map(|job| job.record.number).collect()
}

#[test]
fn environment_and_script_come_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let mut records = records(dir.path());
    let payload = Payload {
        environment: vec![
            ("EMPTY".into(), "".into()),
            ("EQUALS".into(), "a=b=c".into()),
            ("LINES".into(), "a\nb\n".into()),
            ("BYTES".into(), OsString::from_vec(vec![0xff, b'\n', 0xfe])),
        ],
        script: b"#!/bin/sh\n\0\xff\n".to_vec(),
    };
    let (number, _) = records.add(&payload, record).unwrap();
    let (read, payload_read) = records.payload(number).unwrap();
    assert_eq!((read, payload_read), (record(number), payload));

    let empty = records.add(&Payload::default(), record).unwrap().0;
    assert_eq!(records.payload(empty).unwrap().1, Payload::default());
}

#[test]
fn each_number_is_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = records(dir.path());
    let mut second = records(dir.path());
    assert_eq!(
        [add(&mut first), add(&mut second), add(&mut first)],
        [1, 2, 3]
    );
    let claim = |uid| Claim::Cancelled { at: at(1), uid };
    assert!(first.write(1, "claim", &claim(1)).unwrap());
    assert!(!second.write(1, "claim", &claim(2)).unwrap());
    second.refresh().unwrap();
    assert_eq!(second.get(1).unwrap().claim, Some(claim(1)));
    let left: Vec<_> = std::fs::read_dir(dir.path().join("study.local"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "temporary files are removed");
}

#[test]
fn old_records_are_removed_unless_needed_and_numbers_are_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = records(dir.path());
    for _ in 0..3 {
        let number = add(&mut writer);
        end(&mut writer, number);
    }
    let running = add(&mut writer);
    let last = add(&mut writer);
    end(&mut writer, last);
    let left = |before: i64| {
        writer.remove_old(at(before), |job| job.record.number == 2);
        numbers(&records(dir.path()))
    };
    assert_eq!(left(200), [1, 2, 3, running, last]);
    assert_eq!(left(201), [2, running, last]);
    assert!(!writer.file(1, "end").try_exists().unwrap());
    assert_eq!(add(&mut records(dir.path())), 6);
}

/// Its job file alone would be a job in the queue: the task would run again.
#[test]
fn a_job_file_that_cannot_be_removed_keeps_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = records(dir.path());
    let number = add(&mut writer);
    end(&mut writer, number);
    add(&mut writer);
    let job = writer.file(number, "job");
    std::fs::remove_file(&job).unwrap();
    std::fs::create_dir(&job).unwrap();
    writer.remove_old(at(300), |_| false);
    assert!(writer.file(number, "end").try_exists().unwrap());
}

#[test]
fn the_list_of_version_1_0_0_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let ended = Job {
        record: record(7),
        claim: None,
        cancel: None,
        end: Some(End {
            at: at(200),
            how: Ending::Exited { code: 3 },
        }),
    };
    let mut writer = records(dir.path());
    let list = writer.dir.join(FINISHED);
    // A kill while the job was moved left its job file, which alone would be a job in the queue.
    writer.highest = 6;
    assert_eq!(add(&mut writer), 7);
    let line = serde_json::to_string(&ended).unwrap();
    // That version wrote a line without this key, too; its last line may be incomplete.
    let line = line.replace(r#""umask":null,"#, "");
    std::fs::write(list, format!("{line}\n{{\"record")).unwrap();
    let mut read = records(dir.path());
    assert_eq!(read.get(7), Some(&ended));
    assert_eq!(add(&mut read), 8);
}

#[test]
fn an_invalid_file_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut records = records(dir.path());
    let number = add(&mut records);
    for kind in ["job", "claim", "cancel", "end"] {
        let path = records.file(number, kind);
        let before = std::fs::read(&path).ok();
        for text in ["", "{", "[]", "\u{fffd}"] {
            std::fs::write(&path, text).unwrap();
            let error = records.refresh().unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
        match before {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }
    records.refresh().unwrap();
    for name in ["x.job", "notes.txt", "7", ".tmp-a-1-1"] {
        std::fs::write(dir.path().join("study.local").join(name), "?").unwrap();
    }
    records.refresh().unwrap();
    assert_eq!(numbers(&records), [number], "other files are left alone");
}

#[test]
fn a_missing_directory_holds_no_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let mut records = Records::at(&dir.path().join("nowhere"));
    records.refresh().unwrap();
    assert_eq!(numbers(&records), Vec::<u64>::new());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Records::at(&file).refresh().is_err());
}

/// Measures reading many records: `cargo test --release -- --ignored --nocapture many`.
#[test]
#[ignore = "a measurement"]
fn many_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = records(dir.path());
    let count = 10_000;
    let start = std::time::Instant::now();
    for _ in 0..count {
        add(&mut writer);
    }
    println!("10,000 added: {:?}", start.elapsed());
    let look = |what: &str| {
        let start = std::time::Instant::now();
        assert_eq!(records(dir.path()).all().count(), count);
        println!("{what}: {:?}", start.elapsed());
    };
    look("10,000 queued");
    for number in 1..=count as u64 {
        end(&mut writer, number);
    }
    look("10,000 ended, own files");
}
