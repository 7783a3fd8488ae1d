//! Requests, by the reason why a task is due.

mod resources;

use std::path::Path;

use super::*;
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::decide::manifest::Due;
use crate::model::bids::SubjectLabel;
use crate::model::state::TaskStatus;
use crate::model::state::testing::{at, row};

const SITE: &str = "\
dicom_root: /d
bids_root: /b
derivatives_root: /e
state_file: /s/state.parquet
slurm_log_dir: /l
max_mem: 40G
procedures:
  - name: prep
    output_dir: prep
    script: prep.sh
    mem: 16G
    time: '2:00:00'
    completion_marker: done
    env: {OWN: value}
    retry:
      max_attempts: 5
      on:
        out_of_memory: {mem_factor: 2, mem_max: 64G}
        exit_code: {}
  - {name: group, output_dir: '', script: group.sh, scope: subject, completion_marker: done, depends_on: [prep]}
";

fn site() -> Config {
    configured(SITE)
}

fn configured(text: &str) -> Config {
    let env = |_: &str| None;
    let read = interpret(
        text.as_bytes(),
        Some(Path::new("/s/config.yaml")),
        false,
        &env,
        &Overrides::default(),
        Path::new("/"),
    );
    read.unwrap()
}

/// Prepares a task of the procedure with this number in the file.
fn prepared(procedure: usize, due: Due, attempt: i32, row: Option<&TaskRow>) -> Prepared {
    prepared_by(&site(), procedure, due, attempt, row)
}

fn prepared_by(
    config: &Config,
    procedure: usize,
    due: Due,
    attempt: i32,
    row: Option<&TaskRow>,
) -> Prepared {
    let (id, it) = config.procedures.iter().nth(procedure).unwrap();
    let session = match it.scope {
        Scope::Session => SessionLabel::new("ses-02").unwrap(),
        Scope::Subject => SessionLabel::none(),
    };
    let labels = (SubjectLabel::new("sub-01").unwrap(), session);
    let planned = Planned {
        dicom_path: (it.scope == Scope::Session).then(|| Path::new("/d/sub-01/ses-02").into()),
        input_sessions: (it.scope == Scope::Subject).then(|| {
            ["ses-01", "ses-02"]
                .map(|label| SessionLabel::new(label).unwrap())
                .to_vec()
        }),
        ..Planned::new(&config.procedures, id, labels, Decision::Submit(due))
    };
    prepare(
        config,
        &planned,
        &RequestContext {
            project: "p",
            attempt,
            last_reason: row.and_then(|row| row.reason),
            row,
            script: &Arguments::default(),
            now: at(0),
            run_id: "run",
        },
    )
}

fn failed(reason: Reason) -> TaskRow {
    let mut row = row("prep", TaskStatus::Failed, reason);
    row.facts.req_mem_mb = Some(16 * 1024);
    row
}

#[test]
fn a_first_attempt_uses_the_configured_resources() {
    let first = prepared(0, Due::New, 1, None);
    let plain = RequestNotes {
        due: Some(Due::New),
        ..RequestNotes::default()
    };
    assert_eq!(first.notes, plain);
    assert_eq!(first.notes.retry_text(1), None);
    let request = &first.request;
    assert_eq!(request.job_name, "prep_sub-01_ses-02");
    assert_eq!(request.arguments, ["sub-01", "ses-02", "/d/sub-01/ses-02"]);
    assert_eq!(request.log_dir.as_deref(), Some(Path::new("/l/prep")));
    let env = |name: &str| request.env.get(name).map(String::as_str);
    for (name, value) in [
        ("OWN", "value"),
        ("SNBB_SUBJECT", "sub-01"),
        ("SNBB_SESSION", "ses-02"),
        ("SNBB_PROCEDURE", "prep"),
        ("SNBB_ATTEMPT", "1"),
        ("SNBB_LAST_REASON", ""),
        ("SNBB_DICOM_PATH", "/d/sub-01/ses-02"),
        ("SNBB_BIDS_ROOT", "/b"),
        ("SNBB_DERIVATIVES_ROOT", "/e"),
        ("SNBB_OUTPUT_DIR", "/e/prep/sub-01/ses-02"),
    ] {
        assert_eq!(env(name), Some(value), "{name}");
    }
    let intent = &first.intent;
    assert_eq!(&*intent.submission_id, request.submission_id);
    assert_eq!(request.submission_id.len(), 16);
    assert_eq!(
        (intent.req_mem_mb, intent.time_limit_s, intent.attempt),
        (Some(16 * 1024), Some(7200), 1)
    );
    assert_eq!(intent.input_sessions, None);
    assert_eq!(intent.retry, RetryState::default());
}

#[test]
fn a_subject_task_has_the_subjects_sessions() {
    let group = prepared(1, Due::New, 1, None);
    assert_eq!(group.request.arguments, ["sub-01"]);
    assert_eq!(group.request.env["SNBB_OUTPUT_DIR"], "/b/sub-01");
    assert_eq!(group.request.env["SNBB_DICOM_PATH"], "");
    assert_eq!(
        group.intent.input_sessions.as_deref(),
        Some("ses-01 ses-02")
    );
}

#[test]
fn an_automatic_retry_requests_and_reports_more() {
    let row = failed(Reason::OutOfMemory);
    let due = Due::Retry {
        reason: Reason::OutOfMemory,
        complete: false,
    };
    let retry = prepared(0, due, 2, Some(&row));
    assert_eq!(retry.intent.req_mem_mb, Some(32 * 1024));
    assert_eq!(retry.notes.retry_of, Some(Reason::OutOfMemory));
    assert!(retry.notes.has_own_resources);
    assert_eq!(
        retry.notes.retry_text(2).as_deref(),
        Some("attempt 2 after out_of_memory: --mem 16G -> 32G")
    );
    assert_ne!(retry.intent.retry, RetryState::default());
    assert_eq!(retry.request.env["SNBB_LAST_REASON"], "out_of_memory");

    // Above the site's ceiling it is reduced, with a note.
    let mut again = failed(Reason::OutOfMemory);
    again.facts.req_mem_mb = Some(32 * 1024);
    again.retry = retry.intent.retry.clone();
    let due = Due::Retry {
        reason: Reason::OutOfMemory,
        complete: false,
    };
    let again = prepared(0, due, 3, Some(&again));
    assert_eq!(again.intent.req_mem_mb, Some(40 * 1024));
    assert_eq!(again.notes.reduced.len(), 1);

    let row = failed(Reason::ExitCode);
    let due = Due::Retry {
        reason: Reason::ExitCode,
        complete: false,
    };
    let same = prepared(0, due, 2, Some(&row));
    assert!(
        !same.notes.has_own_resources,
        "it asks for what all ask for"
    );
    assert_eq!(
        same.notes.retry_text(2).as_deref(),
        Some("attempt 2 after exit_code")
    );
}

#[test]
fn existing_outputs_are_replaced_only_on_purpose() {
    let replaces = |due: Due| {
        prepared(0, due, 2, Some(&failed(Reason::ExitCode)))
            .intent
            .replaces_outputs
    };
    let retry = |complete| Due::Retry {
        reason: Reason::ExitCode,
        complete,
    };
    assert!(replaces(Due::Forced { complete: true }));
    assert!(replaces(Due::FailedBefore { complete: true }));
    assert!(replaces(Due::Stale));
    assert!(replaces(Due::LateInput));
    assert!(replaces(retry(true)));
    for due in [
        Due::New,
        Due::OutputsGone,
        Due::FailedBefore { complete: false },
        Due::Forced { complete: false },
        retry(false),
    ] {
        assert!(!replaces(due));
    }
}

#[test]
fn submission_ids_are_unique() {
    let ids: std::collections::HashSet<String> = [(0, 1), (0, 2), (1, 1), (1, 2)]
        .into_iter()
        .map(|(procedure, attempt)| {
            prepared(procedure, Due::New, attempt, None)
                .request
                .submission_id
        })
        .collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn the_word_of_a_study_never_changes() {
    // Jobs that live are known by it, across versions of the program: sha256sum of the path.
    let path = std::path::Path::new("/data/snbb/.scheduler_state.parquet");
    let word = |known: Option<&str>| study_word(known.map(str::to_owned), path);
    assert_eq!(word(None), "7414cd96");
    assert_eq!(word(Some("7414cd96")), "7414cd96");
    assert_eq!(word(Some("memory")), "memory@7414cd96");
    assert_eq!(
        word(Some("memory@00000001")),
        "memory@00000001",
        "a study that was moved"
    );
}

/// A root that `env` names is where the nodes see it, outputs included; an empty one leaves it to the script.
#[test]
fn c4_d13_a_procedures_variables_override_ours_where_allowed() {
    for (env, procedure, expected) in [
        (
            "SNBB_BIDS_ROOT: /nodes/bids, SNBB_FMRIPREP_IMAGE: /i.sif",
            1,
            ["/nodes/bids", "/e", "/nodes/bids/sub-01", "/i.sif"],
        ),
        (
            "SNBB_DERIVATIVES_ROOT: /nodes/out, SNBB_FMRIPREP_IMAGE: ''",
            0,
            ["/b", "/nodes/out", "/nodes/out/prep/sub-01/ses-02", ""],
        ),
        (
            "SNBB_BIDS_ROOT: '', SNBB_FMRIPREP_IMAGE: /i.sif",
            1,
            ["", "/e", "", "/i.sif"],
        ),
    ] {
        let text = SITE
            .replace("env: {OWN: value}", &format!("env: {{{env}}}"))
            .replace(
                "output_dir: '',",
                &format!("output_dir: '', env: {{{env}}},"),
            );
        let asked = prepared_by(&configured(&text), procedure, Due::New, 1, None).request;
        let names = [
            "SNBB_BIDS_ROOT",
            "SNBB_DERIVATIVES_ROOT",
            "SNBB_OUTPUT_DIR",
            "SNBB_FMRIPREP_IMAGE",
        ];
        assert_eq!(
            names.map(|name| asked.env[name].as_str()),
            expected,
            "{env}"
        );
    }
}
