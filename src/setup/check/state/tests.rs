//! One finding per trouble of a state, and none for a sound one.

use std::path::Path;

use super::super::{Finding, testing};
use super::*;
use crate::model::state::State;
use crate::model::state::testing::row;

fn config() -> Config {
    testing::config("procedures:\n  - {name: bids, output_dir: '', script: x.sh}\n")
}

fn study(rows: &[TaskRow]) -> Study {
    let mut state = State::default();
    for row in rows {
        state.put(row.clone());
    }
    Study {
        state,
        store: Store::at(Path::new("/s/state.parquet")).unwrap(),
        attempts: Vec::new(),
        verified: vec![verify::Finding {
            level: Level::Ok,
            part: "state file",
            text: "rows: 3".to_owned(),
            todo: None,
        }],
    }
}

fn seen<'a>(config: &'a Config, study: &'a Study) -> Seen<'a> {
    Seen {
        config,
        study,
        other_owner: None,
        modes: (Some(0o640), Some(0o2770)),
        sessions: Some(HashSet::from([("sub-01", "ses-01")])),
    }
}

fn complete(procedure: &str) -> TaskRow {
    row(procedure, TaskStatus::Complete, Reason::Verified)
}

fn without_output(session: &str) -> TaskRow {
    let mut row = row("bids", TaskStatus::Failed, Reason::NoOutput);
    row.key.session = session.into();
    row
}

fn judged(seen: &Seen<'_>) -> Vec<Finding> {
    testing::judged(|out| judge(seen, out))
}

fn one(seen: &Seen<'_>, level: Level, part: &str) {
    testing::one(&judged(seen), level, part);
}

#[test]
fn a_sound_state_is_one_line() {
    let (config, study) = (config(), study(&[complete("bids")]));
    let findings = judged(&seen(&config, &study));
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].text.contains("rows: 3"));
    let private = Seen {
        modes: (Some(0o600), Some(0o700)),
        ..seen(&config, &study)
    };
    assert_eq!(judged(&private).len(), 1);
}

#[test]
fn each_trouble_is_a_finding() {
    let (config, sound) = (config(), study(&[complete("bids")]));
    for level in [Level::Warning, Level::Error] {
        let mut study = study(&[complete("bids")]);
        study.verified[0].level = level;
        one(&seen(&config, &study), level, "state file: rows: 3");
    }
    let other = Some((
        "belongs to uid 7".to_owned(),
        "run it as that user".to_owned(),
    ));
    let other = Seen {
        other_owner: other,
        ..seen(&config, &sound)
    };
    one(&other, Level::Error, "belongs to uid 7");
    for (modes, part) in [
        ((Some(0o600), Some(0o750)), "cannot read it"),
        ((Some(0o646), Some(0o700)), "can change it"),
    ] {
        let open = Seen {
            modes,
            ..seen(&config, &sound)
        };
        one(&open, Level::Warning, part);
    }
    let mut stopped = study(&[complete("bids")]);
    let baselines = &mut stopped.state.meta.baselines;
    baselines.insert("stopped/sessions".to_owned(), 3);
    let text = "safety stop): sessions";
    one(&seen(&config, &stopped), Level::Error, text);
}

#[test]
fn rows_that_nobody_knows_any_more_are_told() {
    let config = config();
    let old = study(&[complete("old"), complete("bids")]);
    one(&seen(&config, &old), Level::Warning, "old (1)");
    let rows = study(&[complete("bids")]);
    let elsewhere = Seen {
        sessions: Some(HashSet::from([("sub-02", "ses-01")])),
        ..seen(&config, &rows)
    };
    one(&elsewhere, Level::Warning, "1 row(s) of sessions");
    let unknown = Seen {
        sessions: None,
        ..seen(&config, &rows)
    };
    assert_eq!(judged(&unknown).len(), 1);
    // A row of subject scope belongs to the subject.
    let mut subject = complete("bids");
    subject.key.session = "".into();
    assert_eq!(judged(&seen(&config, &study(&[subject]))).len(), 1);
}

#[test]
fn a_procedure_that_never_completes_is_told() {
    let config = config();
    let mut never = study(&[without_output("ses-01")]);
    assert_eq!(
        judged(&seen(&config, &never)).len(),
        1,
        "one alone says nothing"
    );
    never.attempts = vec![without_output("ses-01"), without_output("ses-01")];
    one(&seen(&config, &never), Level::Warning, "3 jobs ended well");
    let mut some = study(&[complete("bids")]);
    some.attempts = never.attempts;
    assert_eq!(judged(&seen(&config, &some)).len(), 1);
}
