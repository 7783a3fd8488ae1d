//! Jobs that wait for their turn, and callers that go away.

use super::*;

#[test]
fn slots_are_filled_in_order_and_never_overfilled() {
    let study = Study::new();
    let mut executor = study.executor(2);
    let ids: Vec<JobId> = (1..=5)
        .map(|n| {
            let body = format!(
                r#"echo {n} >>"$DIR/started"; until [ -e "$DIR/go{n}" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#
            );
            study.submit(&mut executor, &format!("job{n}"), &body)
        })
        .collect();
    let phases = |executor: &mut LocalExecutor| -> Vec<Phase> {
        reports(executor)
            .iter()
            .map(|report| report.phase)
            .collect()
    };
    use Phase::{Completed, Queued, Running};
    assert_eq!(
        phases(&mut executor),
        [Running, Running, Queued, Queued, Queued]
    );
    let waiting = report(&mut executor, &ids[2]);
    assert_eq!(waiting.facts.slurm_state.as_deref(), Some("PENDING"));
    assert_eq!(waiting.facts.started_at, None);
    // The order in which the two scripts come to their first line is the kernel's.
    until("two have started", || {
        (study.read("started").lines().count() == 2).then_some(())
    });

    std::fs::write(study.dir.join("go2"), "").unwrap();
    until_over(&mut executor, &ids[1]);
    assert_eq!(
        phases(&mut executor),
        [Running, Completed, Running, Queued, Queued]
    );
    for n in [1, 3, 4, 5] {
        std::fs::write(study.dir.join(format!("go{n}")), "").unwrap();
    }
    for id in &ids {
        assert_eq!(until_over(&mut executor, id).phase, Completed);
    }
    let started = study.read("started");
    assert_eq!(started.lines().skip(2).collect::<Vec<_>>(), ["3", "4", "5"]);
}

#[test]
fn a_job_outlives_its_caller_and_holds_nothing_of_it() {
    let study = Study::new();
    study.script(
        "long.sh",
        r#"echo "$$" >"$DIR/pid"; until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done; exit 5"#,
    );
    // As under `flock` in a crontab: the caller inherits a descriptor that it knows nothing of.
    let mut caller = Command::new("sh")
        .args(["-c", r#"exec 9>"$0"; exec "$@""#])
        .arg(study.dir.join("lock"))
        .arg(std::env::current_exe().unwrap())
        .args([ENTRY, "--exact", "--nocapture", "as-caller"])
        .arg(&study.dir)
        .arg("long.sh")
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = until_text(&study, "pid");
    let group = rustix::process::Pid::from_child(&caller);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    caller.wait().unwrap();

    let mut executor = study.executor(1);
    let id = JobId::new("local-1");
    assert_eq!(report(&mut executor, &id).phase, Phase::Running);
    for pid in [pid.trim().to_owned(), study.supervisor_pid(1).to_string()] {
        let open: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .collect();
        assert!(!open.contains(&study.dir.join("lock")), "{open:?}");
    }
    std::fs::write(study.dir.join("go"), "").unwrap();
    let report = until_over(&mut executor, &id);
    assert_eq!(report.facts.exit_code.as_deref(), Some("5:0"));
}

#[test]
fn many_who_fill_slots_at_once_start_each_job_once() {
    let study = Study::new();
    let mut queue = study.executor(1);
    let gate = study.submit(
        &mut queue,
        "gate",
        r#"until [ -e "$DIR/go" ] || ! [ -d "$DIR" ]; do sleep 0.02; done"#,
    );
    for n in 0..8 {
        study.submit(
            &mut queue,
            &format!("j{n}"),
            &format!(r#"echo {n} >>"$DIR/ran""#),
        );
    }
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut executor = study.executor(8);
                executor.fill_slots().unwrap();
            });
        }
    });
    std::fs::write(study.dir.join("go"), "").unwrap();
    until_over(&mut queue, &gate);
    until("all ran", || {
        reports(&mut queue)
            .iter()
            .all(|report| report.phase == Phase::Completed)
            .then_some(())
    });
    let mut ran: Vec<u32> = study
        .read("ran")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..8).collect::<Vec<_>>());
}

#[test]
fn a_supervisor_that_cannot_be_started_leaves_the_job_queued() {
    let study = Study::new();
    let script = study.script("a.sh", "true");
    for supervisor in [vec!["/no/such/program".into()], vec!["/bin/true".into()]] {
        let mut settings = study.settings(1);
        settings.supervisor = supervisor;
        let mut executor = LocalExecutor::new(settings).unwrap();
        accepted(executor.submit(&[&study.request("a", &script)], None));
        let observation = executor.observe(&Question::default());
        assert_eq!(observation.queue.got().unwrap()[0].phase, Phase::Queued);
        assert!(observation.warnings.iter().any(|w| w.contains("local-1")));
    }
    let mut executor = study.executor(1);
    assert_eq!(
        until_over(&mut executor, &JobId::new("local-1")).phase,
        Phase::Completed
    );
}

/// `monitor` of cron may start a job that `run` of a person submitted.
#[test]
fn a_job_has_the_umask_of_its_submission() {
    let study = crate::harness::Study::new();
    study.configure(
        "executor: local\nlocal_jobs: 1\nprocedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done}]\n",
    );
    study.script(
        "job.sh",
        r#"until [ -e "$SNBB_DERIVATIVES_ROOT/../go" ]; do sleep 0.02; done
        mkdir -p "$SNBB_OUTPUT_DIR"; umask > "$SNBB_OUTPUT_DIR/done""#,
    );
    study.scan(&["sub-1/ses-1", "sub-2/ses-1"]);
    let call = |umask: &str, command: &str| {
        let line = format!("umask {umask}; exec \"$0\" -q {command}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_snbb-scheduler")]);
        shell.env("SNBB_CONFIG", study.at("config.yaml"));
        assert!(shell.status().unwrap().success());
    };
    call("027", "run");
    study.write("go", "");
    until("both jobs are complete", || {
        call("077", "monitor");
        let is_complete = |status: &String| status.ends_with("complete verified");
        study.statuses().iter().all(is_complete).then_some(())
    });
    for subject in ["sub-1", "sub-2"] {
        let umask = study.read(&format!("derivatives/a/{subject}/ses-1/done"));
        assert_eq!(umask, "0027\n", "{subject}");
    }
}
