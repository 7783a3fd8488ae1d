//! The bodies of the fuzz targets: any bytes go to a reader, which must not panic, and what it has
//! read must make sense.
//!
//! Used twice: by the targets of cargo-fuzz in `fuzz_targets/`, and by the short run in the package's own
//! tests (`cargo test --test it fuzz::`), which needs no nightly compiler.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use snbb_scheduler::base::run::End;
use snbb_scheduler::config::{Overrides, duration, load};
use snbb_scheduler::executor::slurm::parse;
use snbb_scheduler::executor::slurm::parse::{Parsed, SEPARATOR};
use snbb_scheduler::executor::slurm::sbatch_answer::judge;
use snbb_scheduler::executor::{JobReport, Phase, Submission};
use snbb_scheduler::gather::sessions::discover::csv;
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::procedure::marker::{Component, Pattern};
use snbb_scheduler::model::procedure::{MemSize, TimeLimit};
use snbb_scheduler::model::state::State;
use snbb_scheduler::store::audit_log;
use snbb_scheduler::store::audit_log::{AuditLog, Event};
use snbb_scheduler::store::journal;
use snbb_scheduler::store::schema::file;

/// Is the body of one target.
pub type Body = fn(&[u8]);

/// All targets by the names of their files and corpora.
pub const TARGETS: [(&str, Body); 11] = [
    ("squeue", squeue),
    ("sacct", sacct),
    ("sbatch", sbatch),
    ("array_ranges", array_ranges),
    ("config", config),
    ("marker", marker),
    ("sizes", sizes),
    ("journal", journal),
    ("audit_log", audit_log),
    ("sessions_csv", sessions_csv),
    ("state_file", state_file),
];

/// squeue's answer.
pub fn squeue(data: &[u8]) {
    let text = answer(data);
    let parsed = parse::queue(&text, SEPARATOR, None);
    jobs_make_sense(&parsed);
    nothing_is_an_absence(&text, &parsed);
}

/// sacct's answer, with and without the submit line.
pub fn sacct(data: &[u8]) {
    let text = answer(data);
    for with_submit_line in [false, true] {
        let parsed = parse::accounting(&text, SEPARATOR, with_submit_line, None);
        jobs_make_sense(&parsed);
        nothing_is_an_absence(&text, &parsed);
    }
}

/// What sbatch answers: the first byte is how it ended, then its outputs with a zero byte between them.
pub fn sbatch(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let mut outputs = rest.splitn(2, |&byte| byte == 0);
    let mut next = || String::from_utf8_lossy(outputs.next().unwrap_or_default()).into_owned();
    let (stdout, stderr) = (next(), next());
    let end = match first {
        253 => End::Signal(9),
        254 => End::TimedOut { seconds: 180 },
        252 => End::Unseen,
        code => End::Exit(i32::from(*code)),
    };
    match judge(end, &stdout, &stderr) {
        Submission::Accepted { job_id, .. } => {
            assert_eq!(end, End::Exit(0));
            assert!(!job_id.as_str().is_empty() && is_number(job_id.as_str()));
            assert!(stdout.contains(job_id.as_str()));
        }
        Submission::Refused { message, .. } => {
            assert!(matches!(end, End::Exit(code) if code != 0));
            // Slurm counts jobs from 1, in 32 bits.
            let is_id = |line: &str| is_number(line) && line.parse::<u32>().is_ok_and(|id| id > 0);
            assert!(!stdout.lines().any(is_id));
            is_one_line(&message);
        }
        Submission::InDoubt { message } => is_one_line(&message),
    }
}

/// The id field of an array's row, and what the ranges in it name.
pub fn array_ranges(data: &[u8]) {
    let id: String = String::from_utf8_lossy(data)
        .chars()
        .filter(|c| !c.is_control() && !SEPARATOR.contains(*c))
        .collect();
    let rest = "PENDING,None,1700000000,N/A,N/A,,1:00,(null),name".replace(',', SEPARATOR);
    let parsed = parse::queue(&format!("{id}{SEPARATOR}{rest}\n"), SEPARATOR, None);
    jobs_make_sense(&parsed);
    for (place, job) in parsed.jobs.iter().enumerate().take(1000) {
        assert!(
            parse::is_askable(&JobId::new(job.id.leader())),
            "{}",
            job.id
        );
        // Each is printed and read again as itself.
        let line = format!("{}{SEPARATOR}{rest}\n", job.id);
        assert_eq!(
            parse::queue(&line, SEPARATOR, None).jobs,
            parsed.jobs[place..=place]
        );
    }
}

/// A configuration.
pub fn config(data: &[u8]) {
    let read = || {
        load::interpret(
            data,
            Some(Path::new("/study/config.yaml")),
            false,
            &|name| (name == "HOME").then(|| "/home/me".into()),
            &Overrides::default(),
            Path::new("/"),
        )
    };
    match (read(), read()) {
        (Ok(one), Ok(two)) => {
            assert_eq!(one.warnings, two.warnings);
            assert_eq!(one.procedures.len(), two.procedures.len());
            for path in [
                &one.dicom_root,
                &one.bids_root,
                &one.state_file,
                &one.log_file,
            ] {
                assert!(path.is_absolute(), "{}", path.display());
            }
            for (id, procedure) in one.procedures.iter() {
                assert_eq!(one.procedures.find(&procedure.name), Some(id));
            }
        }
        (Err(one), Err(two)) => {
            assert_eq!(one, two);
            assert!(!one.problems.is_empty());
            for problem in &one.problems {
                is_one_line(&problem.to_string());
            }
        }
        _ => panic!("read twice, differently"),
    }
}

/// A marker's pattern in the first line, names in the others.
pub fn marker(data: &[u8]) {
    let mut lines = data.split(|&byte| byte == b'\n');
    let text = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let Ok(pattern) = Pattern::parse(&text) else {
        return;
    };
    let again = Pattern::parse(pattern.as_str()).expect("what was read is read again");
    assert_eq!(pattern.components.len(), again.components.len());
    assert_eq!(pattern.is_literal(), again.is_literal());
    assert!(!pattern.components.is_empty() && !text.starts_with('/'));
    for name in lines {
        for component in &pattern.components {
            match component {
                Component::Literal(literal) => assert!(literal != ".." && !literal.contains('/')),
                Component::Glob(glob) => {
                    let matches = glob.matches(OsStr::from_bytes(name));
                    // A leading dot is matched by a dot only.
                    assert!(!matches || !name.starts_with(b".") || text.contains('.'));
                }
                Component::AnyDepth => {}
            }
        }
    }
}

/// Sizes, time limits and durations.
pub fn sizes(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(size) = MemSize::parse(&text) {
        assert_eq!(MemSize::parse(&size.to_string()), Ok(size));
    }
    if let Ok(limit) = TimeLimit::parse(&text) {
        assert_eq!(TimeLimit::parse(&limit.to_string()), Ok(limit));
    }
    if let Ok(time) = duration::parse(&text) {
        assert_eq!(duration::parse(&duration::format(time)), Ok(time));
    }
    let id = JobId::new(&text);
    if parse::is_askable(&id) {
        assert!(id.as_str().bytes().all(|b| b.is_ascii_digit() || b == b'_'));
    }
}

/// A journal: read, salvaged, opened and continued, replayed.
pub fn journal(data: &[u8]) {
    let file = scratch("journal");
    std::fs::write(&file, data).expect("it can be written");
    let salvaged = journal::salvage(&file)
        .expect("it can be read")
        .expect("it is there");
    match journal::read(&file) {
        Ok(entries) => {
            journal::replay(&entries, &mut State::default());
            // Opening cuts off what a crash left, and nothing else.
            let mut open = journal::Journal::open(&file).expect("it can be read");
            assert_eq!(journal::read(&file).expect("it is mended"), entries);
            open.append(&entries).expect("there is room");
            let mut twice = entries.clone();
            twice.extend(entries);
            assert_eq!(journal::read(&file).expect("it was whole"), twice);
        }
        Err(_) => {
            assert!(!salvaged.damaged.is_empty());
            assert!(journal::Journal::open(&file).is_err());
            assert_eq!(
                std::fs::read(&file).expect("it is there"),
                data,
                "damage is kept"
            );
        }
    }
}

/// An audit log: read; what was read is written and read again.
pub fn audit_log(data: &[u8]) {
    let read = audit_log::parse(data);
    let lines = data.split(|&byte| byte == b'\n').count();
    assert!(read.records.len() + read.bad_lines.len() <= lines);
    let file = scratch("audit.jsonl");
    std::fs::write(&file, b"").expect("it can be written");
    let mut log = AuditLog::open(&file, "r").expect("it can be opened");
    let events: Vec<Event> = read
        .records
        .iter()
        .map(|record| Event {
            at: record.at,
            kind: record.kind,
            key: Some(record.key.clone()),
            job_id: record.job_id.clone(),
            old_status: record.old_status,
            new_status: record.new_status,
            detail: None,
            extra: Vec::new(),
        })
        .collect();
    log.append(&events).expect("there is room");
    let again = audit_log::read(&file)
        .expect("it can be read")
        .unwrap_or_default();
    assert_eq!(again.bad_lines, Vec::<usize>::new());
    assert_eq!(again.records.len(), read.records.len());
    for (one, two) in read.records.iter().zip(&again.records) {
        assert_eq!(
            (
                &one.key,
                one.kind,
                &one.job_id,
                one.old_status,
                one.new_status
            ),
            (
                &two.key,
                two.kind,
                &two.job_id,
                two.old_status,
                two.new_status
            )
        );
        assert_eq!(one.at.timestamp_micros(), two.at.timestamp_micros());
    }
}

/// A file of sessions.
pub fn sessions_csv(data: &[u8]) {
    let file = scratch("sessions.csv");
    std::fs::write(&file, data).expect("it can be written");
    let (text, none) = (b"dicom_root: /dicom\n", Overrides::default());
    let config = load::interpret(text, None, false, &|_| None, &none, Path::new("/"));
    let config = config.expect("it is valid");
    match csv::read(&config, &file, "UID", "ScanID") {
        Ok(found) => {
            let keys: Vec<_> = found
                .sessions
                .iter()
                .map(|session| (session.subject.clone(), session.session.clone()))
                .collect();
            assert!(
                keys.windows(2).all(|pair| pair[0] < pair[1]),
                "sorted, each once"
            );
            // Labels are read as themselves.
            let again: String = keys
                .iter()
                .map(|(subject, session)| format!("{subject},{session},\n"))
                .collect();
            let has_sessions = keys.iter().any(|(_, session)| !session.is_none());
            let header = match has_sessions {
                true => "UID,ScanID,dicom_path",
                false => "participant_id,age,dicom_path",
            };
            std::fs::write(&file, format!("{header}\n{again}")).expect("it can be written");
            let again = csv::read(&config, &file, "UID", "ScanID").expect("labels are ids");
            let found: Vec<_> = again
                .sessions
                .iter()
                .map(|session| (session.subject.clone(), session.session.clone()))
                .collect();
            assert_eq!(found, keys);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.hint.is_empty());
        }
    }
}

/// A Parquet file: what is read is written and read again.
pub fn state_file(data: &[u8]) {
    let Ok(read) = file::read(bytes::Bytes::copy_from_slice(data)) else {
        return;
    };
    let rows: Vec<_> = read.rows.iter().collect();
    let Ok((bytes, _)) = file::write(&rows, read.other_columns.as_ref(), &read.meta) else {
        return;
    };
    let again = file::read(bytes.into()).expect("what was written is read");
    assert_eq!(again.rows, read.rows);
    let state = State::from_rows(again.rows, again.other_columns, again.meta);
    assert!(state.len() <= read.rows.len());
}

/// Reads an answer's bytes; `␟` stands for the separator, so that fixtures can be read by people.
fn answer(data: &[u8]) -> String {
    String::from_utf8_lossy(data).replace('␟', SEPARATOR)
}

fn jobs_make_sense(parsed: &Parsed) {
    for job in &parsed.jobs {
        assert!(!job.id.as_str().is_empty());
        // What has not happened yet has no time.
        if job.phase.is_live() {
            assert_eq!(job.facts.ended_at, None, "{job:?}");
        }
        if matches!(job.phase, Phase::Queued | Phase::Held) {
            assert_eq!(job.facts.started_at, None, "{job:?}");
        } else {
            assert_eq!(job.pending_reason, None, "{job:?}");
        }
        assert!(
            job.facts
                .elapsed_s
                .is_none_or(|seconds| seconds >= 0 || is_said(job))
        );
    }
    for warning in &parsed.warnings {
        assert!(!warning.is_empty());
    }
}

/// sacct's own number is taken as it comes.
fn is_said(job: &JobReport) -> bool {
    job.facts.exit_code.is_some() || job.facts.started_at.is_none()
}

/// A line that names a job makes that job known, whatever else stands in it.
fn nothing_is_an_absence(text: &str, parsed: &Parsed) {
    // Further lines may belong to the texts of the first job.
    let first = text.lines().find(|line| !line.trim().is_empty());
    if let Some((first, _)) = first.and_then(|line| line.split_once(SEPARATOR)) {
        let id = JobId::new(first.trim());
        if parse::is_askable(&id) {
            assert!(
                parsed.jobs.iter().any(|job| job.id == id),
                "{id} is not there"
            );
        }
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_one_line(text: &str) {
    assert!(!text.contains(['\n', '\r']), "{text:?}");
    assert!(text.len() < 20_000);
}

/// A file of this thread's own, in memory where there is such a place.
fn scratch(name: &str) -> PathBuf {
    thread_local! {
        static DIR: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    DIR.with_borrow_mut(|dir| {
        dir.get_or_insert_with(|| {
            tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .expect("there is a place for temporary files")
        })
        .path()
        .join(name)
    })
}
