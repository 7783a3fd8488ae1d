//! Tests of the journal's file and of the replay of its entries.

mod file;
mod meaning;

use std::fs;

use super::*;

fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

fn intent(task: usize, id: &str, attempt: i32, at: i64) -> Intent {
    Intent {
        key: TaskKey::new(&format!("sub-{task}"), "ses-01", "qsiprep"),
        submission_id: id.into(),
        job_name: format!("qsiprep_sub-{task}_ses-01").into(),
        attempt,
        submitted_at: time(at),
        replaces_outputs: task.is_multiple_of(2),
        retry: Default::default(),
        input_sessions: None,
        project: None,
        state_file: None,
        req_mem_mb: Some(1000),
        time_limit_s: None,
    }
}

fn sending(id: &str, at: i64) -> Entry {
    Entry::Sending {
        submission_id: id.into(),
        at: time(at),
    }
}

fn accepted(id: &str, job: &str, at: i64) -> Entry {
    Entry::Accepted {
        submission_id: id.into(),
        job_id: JobId::new(job),
        cluster: None,
        at: time(at),
    }
}

fn refused(id: &str, at: i64) -> Entry {
    Entry::Refused {
        submission_id: id.into(),
        message: "sbatch: error: Invalid partition name specified".into(),
        at: time(at),
    }
}

fn in_doubt(id: &str, at: i64) -> Entry {
    Entry::InDoubt {
        submission_id: id.into(),
        message: "Socket timed out on send/recv operation".into(),
        at: time(at),
    }
}

fn some_entries(count: usize) -> Vec<Entry> {
    let mut entries: Vec<_> = (0..count)
        .map(|n| Entry::Intent(intent(n, &format!("id{n}"), 1, 0)))
        .collect();
    for n in 0..count {
        let id = format!("id{n}");
        entries.push(sending(&id, 1));
        entries.push(match n % 3 {
            0 => accepted(&id, &n.to_string(), 2),
            1 => refused(&id, 2),
            _ => in_doubt(&id, 2),
        });
    }
    entries
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.journal.jsonl");
        Self {
            _directory: directory,
            path,
        }
    }

    /// Writes entries in the given appends and returns the file's bytes.
    fn write(&self, batches: &[&[Entry]]) -> Vec<u8> {
        let mut journal = Journal::open(&self.path).unwrap();
        for batch in batches {
            journal.append(batch).unwrap();
        }
        fs::read(&self.path).unwrap()
    }
}
