//! Prepared tasks for tests.

use std::collections::BTreeMap;

use crate::decide::request::Prepared;
use crate::executor::JobRequest;
use crate::model::procedure::Resources;
use crate::model::state::testing::at;
use crate::model::state::{RetryState, TaskKey};
use crate::store::journal::Intent;

/// A task of a procedure for the subject with this number.
pub fn prepared(procedure: &str, number: usize) -> Prepared {
    let subject = format!("sub-{number:04}");
    let key = TaskKey::new(&subject, "ses-01", procedure);
    let env = [
        ("SNBB_SUBJECT", subject.as_str()),
        ("SNBB_OUTPUT_DIR", &format!("/out/{subject}")),
        ("SNBB_BIDS_ROOT", "/bids"),
    ];
    let env: BTreeMap<String, String> = env
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let id = format!("{procedure}-{number}");
    Prepared {
        intent: Intent {
            key: key.clone(),
            submission_id: id.as_str().into(),
            job_name: key.job_name().into(),
            attempt: 1,
            submitted_at: at(0),
            replaces_outputs: false,
            req_mem_mb: None,
            time_limit_s: None,
            retry: RetryState::default(),
            input_sessions: None,
            project: None,
            state_file: None,
        },
        request: JobRequest {
            job_name: key.job_name(),
            submission_id: id,
            project: "p".to_owned(),
            script: format!("{procedure}.sh"),
            arguments: vec![subject, "ses-01".to_owned()],
            env,
            resources: Resources::default(),
            log_dir: None,
            key,
        },
        notes: Default::default(),
    }
}
