use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::model::job::JobId;
use crate::model::state::table::{Identity, Metadata};
use crate::model::state::testing::{at, row};
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::store::audit_log;
use crate::store::journal::{Intent, Salvaged};
use crate::store::schema::Contents;
use crate::store::sources::Found;
use crate::store::state_file::StatePaths;

/// One attempt and the sources that have it.
#[derive(Debug, Clone)]
struct Known {
    task: usize,
    attempt: i32,
    state: bool,
    backup: bool,
    attempts: bool,
    journal: bool,
    log: bool,
}

impl Known {
    fn row(&self) -> TaskRow {
        let mut row = row(["a", "b"][self.task], TaskStatus::Pending, Reason::Queued);
        let name = format!("{}{}", self.task, self.attempt);
        row.attempt = Some(self.attempt);
        row.job_id = Some(JobId::new(&name));
        row.submission_id = Some(name.as_str().into());
        row.submitted_at = Some(at(i64::from(self.attempt)));
        row.updated_at = row.submitted_at;
        row
    }

    fn entries(&self) -> [Entry; 3] {
        let row = self.row();
        let at = at(i64::from(self.attempt));
        let id = row.submission_id.clone().unwrap();
        [
            Entry::Intent(Intent {
                key: row.key.clone(),
                submission_id: id.clone(),
                job_name: row.job_name.clone().unwrap(),
                attempt: self.attempt,
                submitted_at: at,
                replaces_outputs: false,
                retry: Default::default(),
                input_sessions: None,
                project: None,
                state_file: None,
                req_mem_mb: None,
                time_limit_s: None,
            }),
            Entry::Sending {
                submission_id: id.clone(),
                at,
            },
            Entry::Accepted {
                submission_id: id,
                job_id: row.job_id.unwrap(),
                cluster: None,
                at,
            },
        ]
    }

    fn line(&self) -> String {
        let row = self.row();
        let mut line = serde_json::json!({
            "timestamp": at(i64::from(self.attempt)).to_rfc3339(), "event": "submitted",
            "subject": &*row.key.subject, "session": &*row.key.session,
            "procedure": &*row.key.procedure, "job_id": row.job_id.as_ref().unwrap().as_str(),
            "new_status": "pending",
        });
        for (key, value) in audit_log::extras_of(&row) {
            line[key] = value;
        }
        format!("{line}\n")
    }
}

fn contents(rows: Vec<TaskRow>) -> Found<Contents> {
    Found::Read(Contents {
        rows,
        other_columns: None,
        meta: Metadata {
            format_version: 1,
            generation: 7,
            ..Metadata::default()
        },
        warnings: Vec::new(),
        identity: Identity::Ours {
            generation: 7,
            hash: "x".into(),
        },
    })
}

fn sources(known: &[Known], sound: bool) -> Sources {
    let rows = |has: fn(&Known) -> bool| -> Vec<TaskRow> {
        known.iter().filter(|k| has(k)).map(Known::row).collect()
    };
    let log: String = known.iter().filter(|k| k.log).map(Known::line).collect();
    Sources {
        control: Found::Missing,
        paths: StatePaths::of(std::path::Path::new("/nowhere/state.parquet")).unwrap(),
        state: if sound {
            contents(rows(|k| k.state))
        } else {
            Found::Missing
        },
        backup: contents(rows(|k| k.backup)),
        attempts: contents(rows(|k| k.attempts)),
        journal: Found::Read(Salvaged {
            entries: known
                .iter()
                .filter(|k| k.journal)
                .flat_map(Known::entries)
                .collect(),
            ..Salvaged::default()
        }),
        journal_mark: None,
        other_studies: None,
        audit: Found::Read(audit_log::parse(log.as_bytes())),
        audit_path: "/nowhere/audit.jsonl".into(),
        temporary: Vec::new(),
    }
}

fn known() -> impl Strategy<Value = Vec<Known>> {
    let one = (0..2_usize, 1..5, any::<[bool; 5]>()).prop_map(
        |(task, attempt, [state, backup, attempts, journal, log])| Known {
            task,
            attempt,
            state,
            backup,
            attempts,
            journal,
            log,
        },
    );
    proptest::collection::vec(one, 0..7).prop_map(|mut list| {
        list.sort_by_key(|k| (k.attempt, k.task));
        list.dedup_by_key(|k| (k.attempt, k.task));
        list
    })
}

proptest! {
    /// Whichever sources have an attempt, no job is lost, the newest attempt is the task's row, and
    /// repairing the result again changes nothing.
    #[test]
    fn no_job_of_any_source_is_lost(known in known(), sound: bool) {
        let out = rebuild(&sources(&known, sound));
        let attempts: Vec<TaskRow> = known.iter().filter(|k| k.attempts).map(Known::row).collect();
        let job = |row: &TaskRow| row.job_id.clone();
        let found: BTreeSet<_> = out
            .state
            .rows()
            .iter()
            .chain(out.state.superseded())
            .chain(&attempts)
            .filter_map(job)
            .collect();
        for k in &known {
            let counts = k.attempts || k.journal || if sound { k.state } else { k.backup || k.log };
            let id = k.row().job_id.unwrap();
            prop_assert!(!counts || found.contains(&id), "{id} is lost");
        }
        for task in 0..2 {
            let newest = known
                .iter()
                .filter(|k| k.task == task && if sound { k.state } else { k.backup || k.log })
                .map(|k| k.attempt)
                .max();
            let key = Known { task, ..known.first().cloned().unwrap_or(Known {
                task, attempt: 1, state: false, backup: false, attempts: false, journal: false, log: false,
            }) }.row().key;
            let row = out.state.get(&key);
            prop_assert!(newest.is_none() || row.and_then(|row| row.attempt) >= newest);
        }
    }
}

#[test]
fn the_project_of_a_lost_state_is_read_from_the_newest_submission() {
    let log = concat!(
        r#"{"timestamp":"2026-03-01T04:05:06+00:00","event":"submitted","subject":"s","session":"","procedure":"a","argv":["sbatch","--comment=snbb:new:1"]}"#,
        "\n",
        r#"{"timestamp":"2026-02-01T04:05:06+00:00","event":"submitted","subject":"s","session":"","procedure":"a","argv":["sbatch","--comment=snbb:old:1"]}"#,
    );
    let mut sources = sources(&[], false);
    sources.backup = Found::Missing;
    sources.audit = Found::Read(audit_log::parse(log.as_bytes()));
    let out = rebuild(&sources);
    assert_eq!(out.state.meta.project.as_deref(), Some("new"));
    assert_eq!(out.state.meta.generation, 1);
}
