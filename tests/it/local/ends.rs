//! How local jobs end by other hands: cancelled, killed, rebooted away.

use super::*;

#[test]
fn a_script_without_its_supervisor_runs_on_and_then_has_no_result() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(
        &mut executor,
        "orphan",
        r#"echo "$$" >"$DIR/pid"; until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#,
    );
    let pid = until_text(&study, "pid");
    let supervisor = study.supervisor_pid(1);
    kill(supervisor, rustix::process::Signal::KILL);
    while is_running(&supervisor.to_string()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut other = study.executor(1);
    assert_eq!(report(&mut other, &id).phase, Phase::Running);
    assert_eq!(report(&mut executor, &id).phase, Phase::Running);

    kill(pid.trim().parse().unwrap(), rustix::process::Signal::KILL);
    let gone = until_over(&mut executor, &id);
    assert_eq!(gone.phase, Phase::Failed(Reason::NodeFail));
    assert_eq!(gone.facts.slurm_state.as_deref(), Some("NODE_FAIL"));
    // The end is written down: it stays the same.
    assert_eq!(report(&mut other, &id).facts.ended_at, gone.facts.ended_at);
}

#[test]
fn a_reboot_ends_jobs_and_another_host_says_nothing() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let body = r#"until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#;
    let id = study.submit(&mut executor, "a", body);

    study.edit("1.claim", |claim| {
        claim["supervisor"]["host"]["boot_id"] = "elsewhere".into();
        claim["supervisor"]["host"]["name"] = "elsewhere".into();
    });
    let there = report(&mut executor, &id);
    assert_eq!(there.phase, Phase::Running);
    assert_eq!(there.facts.node_list.as_deref(), Some("elsewhere"));
    let error = executor.cancel(&[job(&id)]).unwrap_err().to_string();
    assert!(error.contains("elsewhere"), "{error}");

    let own = snbb_scheduler::base::sys::host_name();
    study.edit("1.claim", |claim| {
        claim["supervisor"]["host"]["name"] = own.as_str().into();
    });
    assert_eq!(
        report(&mut executor, &id).phase,
        Phase::Failed(Reason::NodeFail)
    );
    std::fs::write(study.dir.join("go"), "").unwrap();
}

#[test]
fn a_recycled_process_id_is_not_the_job() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(&mut executor, "a", "exit 0");
    until_over(&mut executor, &id);
    std::fs::remove_file(study.records().join("1.end")).unwrap();
    let own = std::process::id();
    study.edit("1.claim", |claim| {
        claim["supervisor"]["process"]["pid"] = own.into();
    });
    let report = report(&mut executor, &id);
    assert_eq!(report.phase, Phase::Failed(Reason::NodeFail));
}

#[test]
fn a_queued_job_that_is_cancelled_never_starts() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let first = study.submit(
        &mut executor,
        "first",
        r#"until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#,
    );
    let second = study.submit(&mut executor, "second", r#"echo ran >"$DIR/second""#);
    executor.cancel(&[job(&second)]).unwrap();
    let cancelled = report(&mut executor, &second);
    assert_eq!(cancelled.phase, Phase::Failed(Reason::Cancelled));
    let word = cancelled.facts.slurm_state.unwrap();
    assert!(word.starts_with("CANCELLED by "), "{word}");
    std::fs::write(study.dir.join("go"), "").unwrap();
    until_over(&mut executor, &first);
    let third = study.submit(&mut executor, "third", "true");
    until_over(&mut executor, &third);
    assert_eq!(study.read("second"), "");
    executor.cancel(&[job(&second), job(&first)]).unwrap();
    assert_eq!(report(&mut executor, &first).phase, Phase::Completed);
    let error = executor
        .cancel(&[job(&JobId::new("local-99"))])
        .unwrap_err();
    assert!(error.to_string().contains("local-99"), "{error}");
    assert!(executor.cancel(&[job(&JobId::new("123"))]).is_err());
}

#[test]
fn cancel_ends_all_processes_of_a_job_whatever_their_group_or_session() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(
        &mut executor,
        "tree",
        r#"timeout 500 sleep 500 & setsid sleep 500 &
           (setsid setsid -f bash -c 'echo $$ >"$DIR/deep"; exec sleep 500' &)
           until [ -s "$DIR/deep" ]; do sleep 0.02; done
           { echo $$; jobs -p; cat "$DIR/deep"; } | tr '\n' ' ' >"$DIR/pids.tmp"
           echo >>"$DIR/pids.tmp"; mv "$DIR/pids.tmp" "$DIR/pids"; wait"#,
    );
    let pids = until_text(&study, "pids");
    assert!(pids.split_whitespace().all(is_running), "{pids}");
    executor.cancel(&[job(&id)]).unwrap();
    let report = until_over(&mut executor, &id);
    assert_eq!(report.phase, Phase::Failed(Reason::Cancelled));
    assert_eq!(report.facts.exit_code.as_deref(), Some("0:15"));
    assert!(!pids.split_whitespace().any(is_running), "{pids}");
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_by_a_later_call() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(
        &mut executor,
        "deaf",
        r#"trap '' TERM; echo "$$" >"$DIR/pid"; while [ -d "$DIR" ]; do sleep 0.05; done"#,
    );
    until_text(&study, "pid");
    executor.cancel(&[job(&id)]).unwrap();
    assert_eq!(report(&mut executor, &id).phase, Phase::Running);
    study.edit("1.cancel", |cancel| {
        cancel["at"] = "2020-01-01T00:00:00Z".into()
    });
    let report = until_over(&mut executor, &id);
    assert_eq!(report.phase, Phase::Failed(Reason::Cancelled));
    assert_eq!(report.facts.exit_code.as_deref(), Some("0:9"));
}

/// `kill` and a loop until the process is gone: it must not stay as a zombie of the supervisor.
#[test]
fn a_script_can_wait_for_the_end_of_its_daemon() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let body = r#"daemon=$(sleep 0.1 >/dev/null & echo $!)
        for i in {1..400}; do kill -0 "$daemon" || exit 0; sleep 0.02; done; exit 9"#;
    let id = study.submit(&mut executor, "daemon", body);
    assert_eq!(until_over(&mut executor, &id).phase, Phase::Completed);
}

#[test]
fn a_job_of_a_container_that_is_gone_is_explained() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(&mut executor, "a", "true");
    until_over(&mut executor, &id);
    std::fs::remove_file(study.records().join("1.end")).unwrap();
    study.edit("1.claim", |claim| {
        claim["supervisor"]["host"]["pid_namespace"] = "elsewhere".into();
    });
    let seen = executor.observe(&Question::default());
    let warning = seen.warnings.join("\n");
    assert!(warning.contains("move its files 1.* away"), "{warning}");
    assert_eq!(seen.queue.got().unwrap()[0].phase, Phase::Running);
}

#[test]
fn nothing_that_a_script_left_running_outlives_its_job() {
    let study = Study::new();
    let mut executor = study.executor(1);
    let id = study.submit(
        &mut executor,
        "left",
        r#"(trap '' TERM; echo "$BASHPID" >"$DIR/pid"; while [ -d "$DIR" ]; do sleep 0.05; done) &
           until [ -s "$DIR/pid" ]; do sleep 0.02; done; exit 0"#,
    );
    let report = until_over(&mut executor, &id);
    assert_eq!(report.phase, Phase::Completed);
    assert!(!is_running(&study.read("pid")));
}
