//! What the reading commands print as JSON is what `docs/schema/` says, for scripts to rely on.

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

const STEPS: &str = "\
heartbeat_file: heartbeat
output_grace: 0s
max_in_flight: 4
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: done}
  - {name: prep, output_dir: prep, script: job.sh, depends_on: [bids], completion_marker: done}
  - {name: surf, output_dir: surf, script: job.sh, scope: subject, depends_on: [bids], completion_marker: done}
";

fn check(schema: &str, said: &str) -> Value {
    let json: Value = serde_json::from_str(said).unwrap();
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(problems, [] as [String; 0]);
    json
}

#[test]
fn json_is_as_documented() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEPS);
    study.script("job.sh", "true");
    let json = |study: &Study, command: &str| {
        let words: Vec<&str> = command.split(' ').chain(["--format", "json"]).collect();
        study.ok(&words).out
    };
    let all = [
        (
            "status",
            include_str!("../../docs/schema/status.schema.json"),
        ),
        (
            "status --failed",
            include_str!("../../docs/schema/status-failed.schema.json"),
        ),
        (
            "history 01",
            include_str!("../../docs/schema/history.schema.json"),
        ),
        (
            "session-status",
            include_str!("../../docs/schema/session-status.schema.json"),
        ),
        (
            "manifest",
            include_str!("../../docs/schema/manifest.schema.json"),
        ),
        (
            "outputs",
            include_str!("../../docs/schema/outputs.schema.json"),
        ),
        (
            "config show",
            include_str!("../../docs/schema/config-show.schema.json"),
        ),
    ];
    study.scan(&[
        "sub-01/ses-01",
        "sub-01/ses-02",
        "sub-02/ses-01",
        "sub-03/ses-01",
        "sub-04/ses-01",
    ]);
    for (command, schema) in all {
        check(schema, &json(&study, command));
    }
    study.ok(&["run"]);
    for (job, state) in [
        ("1001", "COMPLETED"),
        ("1002", "TIMEOUT 0:15"),
        ("1003", "RUNNING"),
    ] {
        slurm.set(job, state);
    }
    study.write("bids/sub-01/ses-01/done", "x");
    study.ok(&["monitor"]);
    for (command, schema) in all {
        let found = check(schema, &json(&study, command));
        assert!(!found.as_array().unwrap().is_empty(), "{command}");
    }
    let heartbeat = include_str!("../../docs/schema/heartbeat.schema.json");
    check(heartbeat, &study.read("heartbeat"));
    study.configure(&STEPS.replace("job.sh", "gone.sh"));
    study.write("state.parquet", "no Parquet");
    assert_ne!(study.call(&["run"]).code, 0);
    let broken = check(heartbeat, &study.read("heartbeat"));
    assert_eq!(broken["tasks"], Value::Null);
}

#[test]
fn schemas_name_the_same_words_and_columns_as_the_program() {
    use snbb_scheduler::model::state::{Reason, TaskStatus};
    use snbb_scheduler::show::tables::TaskState;
    let words = |values: &Value| -> Vec<String> {
        let values = values.as_array().unwrap().iter();
        values
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let status: Value =
        serde_json::from_str(include_str!("../../docs/schema/status.schema.json")).unwrap();
    let row = &status["items"]["properties"];
    assert_eq!(
        words(&row["status"]["enum"]),
        TaskStatus::ALL.map(|status| status.as_str().to_owned())
    );
    let reasons: Vec<String> = Reason::ALL
        .iter()
        .map(|reason| reason.as_str().to_owned())
        .collect();
    assert_eq!(words(&row["reason"]["enum"]), reasons);
    let history: Value =
        serde_json::from_str(include_str!("../../docs/schema/history.schema.json")).unwrap();
    let entry = &history["items"]["properties"];
    let events = snbb_scheduler::store::audit_log::EventKind::ALL;
    assert_eq!(
        words(&entry["event"]["enum"]),
        events.map(|event| event.as_str().to_owned())
    );
    assert_eq!(words(&entry["reason"]["enum"]), reasons);
    // What failed has the columns of all rows and a few more.
    let failed: Value =
        serde_json::from_str(include_str!("../../docs/schema/status-failed.schema.json")).unwrap();
    for name in row.as_object().unwrap().keys() {
        assert!(failed["items"]["properties"][name].is_object(), "{name}");
    }
    let sessions: Value =
        serde_json::from_str(include_str!("../../docs/schema/session-status.schema.json")).unwrap();
    let task = &sessions["items"]["properties"]["procedures"]["additionalProperties"];
    assert_eq!(
        words(&task["properties"]["decision"]["enum"]),
        TaskState::ALL.map(|standing| standing.as_str().to_owned())
    );
    assert_eq!(words(&task["properties"]["reason"]["enum"]), reasons);
}
