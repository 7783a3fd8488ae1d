//! The records of local jobs: taken once, left by nothing refused, never misread.

use super::*;

#[test]
fn a_submission_is_known_by_its_id_and_taken_once() {
    let study = Study::new();
    let script = study.script("a.sh", "true");
    let request = study.request("id-1", &script);
    let id = accepted(study.executor(1).submit(&[&request], None));
    // As after a crash between the record and the answer.
    let mut later = study.executor(1);
    assert_eq!(accepted(later.submit(&[&request], None)), id);
    let reports = reports(&mut later);
    let tags: Vec<_> = reports.iter().map(|report| report.tag.clone()).collect();
    let tag = JobTag {
        project: "study".to_owned(),
        submission_id: "id-1".to_owned(),
    };
    assert_eq!(tags, [Some(tag)]);
    assert_eq!(reports[0].name, request.job_name);
    until_over(&mut later, &id);
}

#[test]
fn a_refused_script_leaves_no_record() {
    let study = Study::new();
    let mut executor = study.executor(1);
    std::fs::write(study.dir.join("plain.sh"), "echo\n").unwrap();
    for (script, part) in [
        ("missing.sh", study.dir.to_str().unwrap()),
        ("plain.sh", "does not begin with '#!'"),
    ] {
        match executor.submit(&[&study.request("a", script)], None) {
            Submission::Refused {
                kind: Refusal::Permanent,
                message,
            } => assert!(message.contains(part), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    let script = study.script("a.sh", "true");
    std::fs::write(study.dir.join("logs"), "in the way").unwrap();
    let refused = executor.submit(&[&study.request("a", &script)], None);
    assert!(matches!(refused, Submission::Refused { .. }), "{refused:?}");
    assert_eq!(reports(&mut executor), []);
    assert_eq!(
        executor.command_line(&[&study.request("a", "a.sh")], None),
        [
            study.dir.join("a.sh").to_str().unwrap(),
            "sub-0001",
            "ses-01"
        ]
    );
    assert_eq!(
        executor.command_line(&[&study.request("a", "missing.sh")], None)[0],
        "missing.sh"
    );
}

#[test]
fn looking_only_changes_nothing() {
    let study = Study::new();
    let mut executor = study.executor(1);
    study.submit(
        &mut executor,
        "a",
        r#"until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#,
    );
    study.submit(&mut executor, "b", "true");
    let script = study.script("c.sh", "true");
    let tree = || {
        let mut files: Vec<_> = std::fs::read_dir(study.records())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let bytes = std::fs::read(&path).unwrap_or_default();
                (path, bytes)
            })
            .collect();
        files.sort();
        files
    };
    until("the script is there", || {
        study.records().join("1.script").is_file().then_some(())
    });
    let supervisor = study.supervisor_pid(1);
    kill(supervisor, rustix::process::Signal::STOP);
    // The signal is sent, not yet obeyed: a write that has begun is finished first.
    until("the supervisor has stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{supervisor}/stat")).unwrap();
        stat.rsplit(") ").next()?.starts_with('T').then_some(())
    });
    let before = tree();
    let mut settings = study.settings(8);
    settings.read_only = true;
    let mut onlooker = LocalExecutor::new(settings).unwrap();
    let phases: Vec<_> = reports(&mut onlooker).iter().map(|r| r.phase).collect();
    assert_eq!(phases, [Phase::Running, Phase::Queued]);
    let refused = onlooker.submit(&[&study.request("c", &script)], None);
    assert!(matches!(refused, Submission::Refused { .. }));
    assert_eq!(tree(), before);
    kill(supervisor, rustix::process::Signal::CONT);
    std::fs::write(study.dir.join("go"), "").unwrap();
    until_over(&mut executor, &JobId::new("local-2"));
}

#[test]
fn records_that_cannot_be_read_are_no_answer() {
    let study = Study::new();
    let mut executor = study.executor(1);
    assert_eq!(reports(&mut executor), [], "no directory yet");
    let id = study.submit(&mut executor, "a", "true");
    until_over(&mut executor, &id);
    std::fs::write(study.records().join("1.end"), "{").unwrap();
    let observation = executor.observe(&Question::default());
    match (&observation.queue, &observation.accounting) {
        (Answer::Failed(queue), Answer::Failed(_)) => assert!(queue.contains("1.end"), "{queue}"),
        other => panic!("{other:?}"),
    }
}

/// A row in doubt cannot name its job: the record must last until the row has it.
#[test]
fn records_stay_while_a_submission_is_in_doubt() {
    let study = Study::new();
    let mut executor = study.executor(1);
    for name in ["a", "b"] {
        let id = study.submit(&mut executor, name, "true");
        until_over(&mut executor, &id);
    }
    study.edit("1.end", |end| end["at"] = "2020-01-01T00:00:00Z".into());
    let now = Some(chrono::Utc::now());
    for (search_from, left) in [(now, true), (None, false)] {
        executor.observe(&Question {
            since: now,
            search_from,
            ..Question::default()
        });
        let job = study.records().join("1.job");
        assert_eq!(job.try_exists().unwrap(), left, "{search_from:?}");
    }
}
