//! What there is to judge by when all has ended: the program's files, Slurm's accounting, the jobs' own notes.

use std::collections::BTreeSet;
use std::fs;

use snbb_scheduler::model::state::{TaskKey, TaskRow};
use snbb_scheduler::store::audit_log;
use snbb_scheduler::store::audit_log::Record;
use snbb_scheduler::store::state_file::Store;

use super::site::{Act, Site};
use crate::harness::Study;

#[derive(Default)]
pub struct Evidence {
    pub uid: u32,
    pub sessions: Vec<(String, String)>,
    pub rows: Vec<TaskRow>,
    pub attempts: Vec<TaskRow>,
    pub events: Vec<Record>,
    pub records: Vec<Account>,
    pub log: Vec<Line>,
    pub acts: Vec<Act>,
    /// Tasks with a marker on disk, and the job that made it.
    pub outputs: Vec<(TaskKey, String)>,
    /// Files that should not be there any more.
    pub left: Vec<String>,
    /// What `state verify` complains of.
    pub complaints: Vec<String>,
    pub has_memory_limits: bool,
}

/// Is one record of accounting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub job: String,
    pub state: String,
    pub submit: i64,
    pub start: Option<i64>,
    pub end: Option<i64>,
    /// The submission id in the comment of its command line.
    pub mark: Option<String>,
}

/// Is what a job wrote down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub mark: Mark,
    pub job: String,
    pub key: TaskKey,
    pub at: i64,
    /// Its fate; for an overlap the other job.
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Start,
    End,
    /// Another job of the task lived when this one started.
    Overlap,
}

impl Line {
    pub fn output_dir(&self) -> String {
        let key = &self.key;
        format!("{}/{}/{}", key.procedure, key.subject, key.session)
    }
}

impl Account {
    /// The array's own id, or the job's.
    pub fn base(&self) -> &str {
        self.job.split('_').next().unwrap_or(&self.job)
    }
}

/// Reads the whole lines of the jobs' own log.
pub fn job_log(study: &Study) -> Vec<Line> {
    let text = fs::read_to_string(study.at("truth/jobs.log")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| parse_line(line).unwrap_or_else(|| panic!("a job wrote '{line}'")))
        .collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let [mark, job, task, _attempt, _restart, at, note] = words[..] else {
        return None;
    };
    let parts: Vec<&str> = task.split(',').collect();
    let [procedure, subject, session] = parts[..] else {
        return None;
    };
    Some(Line {
        mark: match mark {
            "start" => Mark::Start,
            "end" => Mark::End,
            "overlap" => Mark::Overlap,
            _ => return None,
        },
        job: job.to_owned(),
        key: TaskKey::new(subject, session, procedure),
        at: at.parse().ok()?,
        note: note.to_owned(),
    })
}

/// Collects it all.
pub fn collect(site: &Site) -> Evidence {
    let study = &site.study;
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let state = store.read().unwrap();
    let log = audit_log::read(&study.at("scheduler_audit.jsonl"))
        .unwrap()
        .unwrap_or_default();
    let mut complaints: Vec<String> = log
        .bad_lines
        .iter()
        .map(|line| format!("line {line} of the audit log is broken"))
        .collect();
    let (code, said) = site.verify();
    let findings: Vec<serde_json::Value> = serde_json::from_str(&said).unwrap_or_default();
    complaints.extend(
        findings
            .iter()
            .filter(|finding| finding["level"] != "ok" && finding["part"] != "temporary files")
            .map(ToString::to_string),
    );
    if code != Some(0) || findings.is_empty() {
        complaints.push(format!("it ended with {code:?}: {said}"));
    }
    let records = accounting(site);
    let diary = site.diary();
    Evidence {
        uid: site.uid,
        sessions: diary
            .subjects
            .iter()
            .flat_map(|(subject, count)| {
                (1..=*count).map(move |session| (subject.clone(), format!("ses-{session}")))
            })
            .collect(),
        rows: state.rows().to_vec(),
        attempts: store.read_attempts().unwrap(),
        events: log.records,
        records,
        log: job_log(study),
        acts: diary.acts.clone(),
        outputs: outputs(study),
        left: left(study),
        complaints,
        has_memory_limits: site.cluster.has_memory_cgroup,
    }
}

fn accounting(site: &Site) -> Vec<Account> {
    let format = "--format=JobID%60,State%60,Submit,Start,End,SubmitLine%5000";
    let user = format!("--user={}", site.cluster.user);
    let text = site.cluster.run(
        "env",
        &[
            "SLURM_TIME_FORMAT=%s",
            "SLURM_BITSTR_LEN=0",
            "sacct",
            "-X",
            "-D",
            "-n",
            "-P",
            &user,
            "--starttime=2020-01-01",
            format,
        ],
    );
    fs::write(site.study.at("truth/sacct.txt"), &text).unwrap();
    text.lines().filter_map(parse_record).collect()
}

fn parse_record(line: &str) -> Option<Account> {
    let mut parts = line.splitn(6, '|');
    let mut next = || parts.next();
    let (job, state, submit, start, end, command) =
        (next()?, next()?, next()?, next()?, next()?, next()?);
    let mark = command
        .split(' ')
        .find_map(|word| word.strip_prefix("--comment=snbb:"));
    Some(Account {
        job: job.to_owned(),
        state: state.to_owned(),
        submit: submit.parse().ok()?,
        start: start.parse().ok(),
        end: end.parse().ok(),
        mark: mark
            .and_then(|mark| mark.split_once(':'))
            .map(|(_, id)| id.to_owned()),
    })
}

fn outputs(study: &Study) -> Vec<(TaskKey, String)> {
    let mut list = Vec::new();
    for entry in walkdir::WalkDir::new(study.at("derivatives")) {
        let entry = entry.unwrap();
        if entry.file_name() != "done" {
            continue;
        }
        let path = entry.path().strip_prefix(study.at("derivatives")).unwrap();
        let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let key = match parts[..] {
            [procedure, subject, session, _] => TaskKey::new(subject, session, procedure),
            [procedure, subject, _] => TaskKey::new(subject, "", procedure),
            _ => panic!("{} is nobody's output", path.display()),
        };
        list.push((
            key,
            fs::read_to_string(entry.path()).unwrap().trim().to_owned(),
        ));
    }
    list
}

/// Files beside the state that nobody needs once all is quiet.
fn left(study: &Study) -> Vec<String> {
    const KNOWN: [&str; 19] = [
        "bids",
        "config.yaml",
        "derivatives",
        "dicom",
        "logs",
        "program",
        "scheduler_audit.jsonl",
        "state.arrays",
        "state.attempts.parquet",
        "state.calls.json",
        "state.control.json",
        "state.parquet",
        "state.parquet.bak",
        "step.sh",
        "truth",
        "state.attempts.parquet.bak",
        ".config",
        ".cache",
        "state.local",
    ];
    let names: BTreeSet<String> = fs::read_dir(study.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    // A call that was killed while it wrote leaves a temporary file, which is removed after a day.
    names
        .into_iter()
        .filter(|name| !KNOWN.contains(&name.as_str()) && !name.contains(".tmp-"))
        .collect()
}
