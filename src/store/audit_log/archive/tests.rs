use chrono::TimeZone as _;
use tempfile::TempDir;

use super::super::read as read_log;
use super::*;

fn line(day: &str, job: u32) -> String {
    format!(
        "{{\"timestamp\":\"{day}T04:05:06.000007+00:00\",\"event\":\"submitted\",\"subject\":\"sub-1\",\
         \"session\":\"\",\"procedure\":\"a\",\"job_id\":\"{job}\"}}\n"
    )
}

fn log_of(lines: &[String]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("scheduler_audit.jsonl");
    std::fs::write(&log, lines.concat()).unwrap();
    (dir, log)
}

fn march() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 15, 0, 0, 0).unwrap()
}

fn archive(log: &Path) -> Vec<Archived> {
    let old = OldEvents::find(log, march()).unwrap().unwrap();
    old.archive(|| Ok(())).unwrap();
    old.archives()
}

fn jobs(log: &Path) -> Vec<String> {
    let contents = read_log(log).unwrap().unwrap();
    assert_eq!(contents.bad_archives, []);
    let records = contents.records.iter();
    records
        .map(|record| record.job_id.as_ref().unwrap().to_string())
        .collect()
}

#[test]
fn old_events_go_by_month_and_are_still_read() {
    let odd = "{\"timestamp\":\"2026-01-0\n".to_owned();
    let (dir, log) = log_of(&[
        line("2026-01-30", 1),
        line("2026-03-01", 2),
        odd.clone(),
        line("2026-03-20", 3),
        line("2026-01-31", 4),
    ]);
    let done = archive(&log);
    let names: Vec<_> = done
        .iter()
        .map(|archived| {
            (
                archived.path.file_name().unwrap().to_str().unwrap(),
                archived.events,
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("scheduler_audit.2026-01.jsonl.gz", 2),
            ("scheduler_audit.2026-03.jsonl.gz", 1)
        ]
    );
    let left = std::fs::read_to_string(&log).unwrap();
    assert_eq!(left, odd + &line("2026-03-20", 3));
    assert_eq!(jobs(&log), ["1", "4", "2", "3"]);
    // A second time there is nothing to do.
    assert_eq!(archive(&log), []);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    // Further events of a month join those in its archive.
    std::fs::write(&log, left + &line("2026-01-29", 5)).unwrap();
    archive(&log);
    assert_eq!(jobs(&log), ["1", "4", "5", "2", "3"]);
}

#[test]
fn what_a_crash_left_in_both_counts_once_and_goes_once() {
    let lines = [line("2026-01-30", 1), line("2026-03-20", 3)];
    let (_dir, log) = log_of(&lines);
    archive(&log);
    std::fs::write(&log, lines.concat()).unwrap();
    assert_eq!(jobs(&log), ["1", "3"]);
    let more = [lines.concat(), line("2026-01-31", 7)].concat();
    std::fs::write(&log, more).unwrap();
    let done = archive(&log);
    let text = read(&done[0].path).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        line("2026-01-30", 1) + &line("2026-01-31", 7)
    );
    assert_eq!(std::fs::read_to_string(&log).unwrap(), lines[1]);
}

#[test]
fn a_damaged_archive_is_never_replaced_and_is_told() {
    let (dir, log) = log_of(&[line("2026-01-30", 1)]);
    let path = dir.path().join("scheduler_audit.2026-01.jsonl.gz");
    std::fs::write(&path, b"not packed").unwrap();
    let before = std::fs::read(&log).unwrap();
    let old = OldEvents::find(&log, march()).unwrap().unwrap();
    let error = old.archive(|| Ok(())).unwrap_err().to_string();
    assert!(error.contains("2026-01.jsonl.gz"), "{error}");
    assert_eq!(std::fs::read(&log).unwrap(), before);
    assert_eq!(std::fs::read(&path).unwrap(), b"not packed");
    let contents = read_log(&log).unwrap().unwrap();
    assert_eq!(contents.records.len(), 1);
    assert_eq!(contents.bad_archives[0].0, path);
}

#[test]
fn a_log_that_grew_meanwhile_is_left_alone() {
    let (_dir, log) = log_of(&[line("2026-01-30", 1)]);
    let old = OldEvents::find(&log, march()).unwrap().unwrap();
    let grown = line("2026-01-30", 1) + &line("2026-03-20", 3);
    std::fs::write(&log, &grown).unwrap();
    assert!(old.archive(|| Ok(())).is_err());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), grown);
}

#[test]
fn a_log_behind_a_link_stays_behind_it_and_keeps_its_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, real) = log_of(&[line("2026-01-30", 1), line("2026-03-20", 3)]);
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("log.jsonl");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    archive(&link);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let packed = dir.path().join("scheduler_audit.2026-01.jsonl.gz");
    for path in [&real, &packed] {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(jobs(&link), ["1", "3"]);
}

#[test]
fn only_files_named_for_a_month_are_archives() {
    let (dir, log) = log_of(&[line("2026-03-20", 3)]);
    for name in [
        "scheduler_audit.2026-1.jsonl.gz",
        "scheduler_audit.2026-xx.jsonl.gz",
        "scheduler_audit.2026-01.jsonl",
        "other.2026-01.jsonl.gz",
    ] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    assert_eq!(archives_of(&log).unwrap(), [] as [PathBuf; 0]);
    assert!(
        OldEvents::find(&dir.path().join("none"), march())
            .unwrap()
            .is_none()
    );
}
