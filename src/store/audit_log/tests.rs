use chrono::TimeZone as _;

use super::*;
use crate::model::state::columns::tests::full_row;

fn event() -> Event {
    Event {
        at: Utc.with_ymd_and_hms(2026, 3, 1, 4, 5, 6).unwrap() + chrono::TimeDelta::microseconds(7),
        kind: EventKind::StatusChange,
        key: Some(TaskKey::new("sub-0001", "ses-01", "qsiprep")),
        job_id: Some(JobId::new("12")),
        old_status: Some(TaskStatus::Running),
        new_status: Some(TaskStatus::Failed),
        detail: Some("exit code 1\nand \"more\"".to_owned()),
        extra: vec![("reason", Value::from("exit_code"))],
    }
}

fn study_event() -> Event {
    Event {
        kind: EventKind::SafetyStop,
        key: None,
        job_id: None,
        old_status: None,
        new_status: None,
        detail: Some(String::new()),
        extra: Vec::new(),
        ..event()
    }
}

#[test]
fn c6_lines_have_the_order_and_the_spaces_of_the_python_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/dir/audit.jsonl");
    let mut log = AuditLog::open(&path, "r1").unwrap();
    log.append(&[event(), study_event()]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"timestamp": "2026-03-01T04:05:06.000007+00:00", "event": "status_change", "subject": "sub-0001", "session": "ses-01", "procedure": "qsiprep", "job_id": "12", "old_status": "running", "new_status": "failed", "detail": "exit code 1\nand \"more\"", "reason": "exit_code", "run_id": "r1"}"#,
            "\n",
            r#"{"timestamp": "2026-03-01T04:05:06.000007+00:00", "event": "safety_stop", "subject": "", "session": "", "procedure": "", "run_id": "r1"}"#,
            "\n",
        )
    );
}

#[test]
fn a_cut_last_line_does_not_spoil_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    std::fs::write(&path, "{\"timestamp\":\"2026-0").unwrap();
    let mut log = AuditLog::open(&path, "r1").unwrap();
    log.append(&[event()]).unwrap();
    log.append(&[event()]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    for line in &lines[1..] {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn extras_do_not_replace_values_of_the_event() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let mut log = AuditLog::open(&path, "r1").unwrap();
    let mut event = event();
    event.extra = vec![("job_id", Value::from("99")), ("run_id", Value::from("x"))];
    log.append(&[event]).unwrap();
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        (&line["job_id"], &line["run_id"]),
        (&Value::from("12"), &Value::from("r1"))
    );
}

#[test]
fn two_logs_append_to_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    std::thread::scope(|scope| {
        for run in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut log = AuditLog::open(path, &format!("r{run}")).unwrap();
                for _ in 0..50 {
                    log.append(&[event(), event()]).unwrap();
                }
            });
        }
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    let events: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 400);
}

#[test]
fn the_next_events_go_to_a_replaced_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let mut log = AuditLog::open(&path, "r1").unwrap();
    log.append(&[event()]).unwrap();
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    log.append(&[event()]).unwrap();
    std::fs::write(directory.path().join("new"), "").unwrap();
    std::fs::rename(directory.path().join("new"), &path).unwrap();
    log.append(&[event()]).unwrap();
    log.append(&[event()]).unwrap();
    assert_eq!(read(&path).unwrap().unwrap().records.len(), 2);
}

#[test]
fn e9_nothing_is_appended_to_a_file_that_is_not_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let text = "bids_root: /data\n".repeat(9000);
    std::fs::write(&path, &text).unwrap();
    assert!(AuditLog::open(&path, "r1").is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    // A damaged beginning is still a log.
    std::fs::write(
        &path,
        format!("{}\n{}\n", "\0".repeat(99), r#"{"timestamp": "x"}"#),
    )
    .unwrap();
    AuditLog::open(&path, "r1")
        .unwrap()
        .append(&[event()])
        .unwrap();
}

#[test]
fn e10_a_log_must_be_a_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for path in [&pipe, Path::new("/dev/full"), directory.path()] {
        let error = AuditLog::open(path, "r1").unwrap_err();
        assert_eq!(error.path, *path);
    }
}

#[test]
fn a_row_is_rebuilt_from_its_event() {
    let full = full_row();
    let fields: Map<String, Value> = extras_of(&full)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    assert_eq!(fields.len(), COLUMNS.len() - ELSEWHERE.len());
    assert_eq!(fields["retry_state"]["retries"], 1);
    let mut bare = TaskRow {
        job_id: full.job_id.clone(),
        reason: full.reason,
        updated_at: full.updated_at,
        job_name: full.job_name.clone(),
        ..TaskRow::new(full.key.clone(), full.status)
    };
    fill(&mut bare, &fields);
    assert_eq!(bare, full);
}
