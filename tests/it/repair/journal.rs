//! A journal that is damaged: only what stood in the damaged line is lost.

use std::fs;

use snbb_scheduler::model::state::TaskRow;
use snbb_scheduler::store::journal::{Entry, Intent, Journal};

use super::{VERIFY, convert, eventful, keep_files, kept, repaired, restore_files, rows};
use crate::harness::Study;

#[test]
fn a_journal_with_a_damaged_line_loses_only_that_line() {
    let (study, slurm) = eventful();
    // A run that is killed after its first job leaves the journal; made here of one that was not.
    convert(&study, "sub-02", "ses-01");
    slurm.set("1003", "COMPLETED");
    study.ok(&["monitor"]);
    let sound = keep_files(&study);
    let calls = slurm.calls("sbatch");
    study.ok(&["run"]);
    study.ok(&["monitor"]);
    assert_eq!(slurm.calls("sbatch"), calls + 1);
    let wanted = rows(&study);
    let row = wanted
        .0
        .iter()
        .find(|row| row.key.procedure == "prep".into() && row.key.subject == "sub-02".into());
    let row = row.unwrap().clone();
    restore_files(&study, &sound);
    for damaged_line in 0..3 {
        restore_files(&study, &sound);
        write_journal(&study, &row);
        let journal = study.read("state.journal.jsonl");
        let lines: Vec<String> = journal
            .lines()
            .enumerate()
            .map(|(at, line)| {
                if at == damaged_line {
                    line.replace("batch", "botch")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        fs::write(study.at("state.journal.jsonl"), lines.join("\n") + "\n").unwrap();
        let said = study.call(&["status"]);
        assert_eq!(said.code, 1, "line {damaged_line}: {}", said.err);
        let findings = study.findings(&VERIFY);
        assert!(
            findings.contains(&"error journal".to_owned()),
            "{findings:?}"
        );
        repaired(&study, &slurm, &wanted, &format!("line {damaged_line}"));
        assert_eq!(kept(&study).len(), 1);
        assert!(fs::metadata(study.at("state.journal.jsonl")).is_err());
    }
}

/// Writes the journal of a run that died right after it had submitted this row's job.
fn write_journal(study: &Study, row: &TaskRow) {
    let at = row.submitted_at.unwrap();
    let id = row.submission_id.clone().unwrap();
    let mut journal = Journal::open(&study.at("state.journal.jsonl")).unwrap();
    for entry in [
        Entry::Intent(Intent {
            key: row.key.clone(),
            submission_id: id.clone(),
            job_name: row.job_name.clone().unwrap(),
            attempt: row.attempt.unwrap(),
            submitted_at: at,
            replaces_outputs: row.replaces_outputs.unwrap(),
            retry: Default::default(),
            input_sessions: None,
            project: None,
            state_file: None,
            req_mem_mb: row.facts.req_mem_mb,
            time_limit_s: row.facts.time_limit_s,
        }),
        Entry::Sending {
            submission_id: id.clone(),
            at,
        },
        Entry::Accepted {
            submission_id: id.clone(),
            job_id: row.job_id.clone().unwrap(),
            cluster: None,
            at,
        },
        Entry::Sending {
            submission_id: "another".into(),
            at,
        },
        Entry::Refused {
            submission_id: "another".into(),
            message: "no".into(),
            at,
        },
    ] {
        journal.append(&[entry]).unwrap();
    }
}
