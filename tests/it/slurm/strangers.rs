//! Other users, other clusters, a user's environment, submissions in doubt.

use super::*;

#[test]
fn the_users_environment_changes_no_answer() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new(&format!(
        "{UNTIL_GO}\necho \"$SBATCH_WAIT/$SLURM_TIME_FORMAT/$LC_ALL\""
    ));
    let mut executor = SlurmExecutor::new(cluster.settings(&[
        ("SBATCH_WAIT", "1"),
        ("SBATCH_ARRAY_INX", "0-3"),
        ("SBATCH_JOB_NAME", "other"),
        ("SBATCH_PARTITION", "nosuch"),
        ("SBATCH_EXPORT", "NONE"),
        ("SLURM_CLUSTERS", "nosuch"),
        ("SQUEUE_STATES", "SUSPENDED"),
        ("SQUEUE_USERS", "nobody"),
        ("SQUEUE_FORMAT", "%i"),
        ("SACCT_FORMAT", "JobID"),
        ("SLURM_TIME_FORMAT", "relative"),
        ("SLURM_JOB_ID", "1"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "Pacific/Kiritimati"),
    ]));
    let job = accepted(executor.submit(&[&lab.request("hostile")], None));
    let asked = question(&[&job]);
    let observation = ask_until(&mut executor, &asked, |observation| {
        queue_phase(observation, &job) == Some(Phase::Running)
    });
    let report = of(&observation.queue, &job).unwrap();
    assert_eq!(report.name, "hostile");
    let age = sys::now() - report.submitted_at.unwrap();
    assert!(age.num_hours() == 0, "{age}");
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(end_of(&mut executor, &job).phase, Phase::Completed);
    let log = lab.path(&format!("logs/hostile_{}.out", job.id));
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "//C.UTF-8\n",
        "the job has the user's locale"
    );
}

/// Submits a job that waits for ever, as another user.
fn of_another_user(cluster: &Cluster, comment: &str) -> JobRef {
    let user = cluster.user.clone();
    let id = cluster.run(
        "setpriv",
        &[
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "sbatch",
            "--parsable",
            "--hold",
            "--job-name=theirs",
            &format!("--comment={comment}"),
            "--output=/dev/null",
            "--chdir=/",
            "--wrap=true",
        ],
    );
    JobRef {
        id: snbb_scheduler::model::job::JobId::new(id.trim()),
        cluster: None,
    }
}

#[test]
fn jobs_of_other_users_are_not_seen() {
    let Some(cluster) = cluster() else { return };
    let theirs = of_another_user(cluster, "");
    let mut executor = cluster.executor();
    let observation = executor.observe(&question(&[]));
    assert_eq!(queue_phase(&observation, &theirs), None);
    executor.cancel(&[theirs]).unwrap();
}

/// One id that Slurm does not know makes squeue fail, one of several does not.
#[test]
fn attack_jobs_of_other_users_are_found_by_their_ids_and_known_by_their_tags() {
    let Some(cluster) = cluster() else { return };
    let (ours, theirs) = ("snbb:tests:service-1", "snbb:others:service-2");
    let [ours, theirs] = [ours, theirs].map(|tag| of_another_user(cluster, tag));
    let unknown = JobRef {
        id: snbb_scheduler::model::job::JobId::new("4000000"),
        cluster: None,
    };
    let mut settings = cluster.settings(&[]);
    settings.project = Some("tests".to_owned());
    let mut executor = SlurmExecutor::new(settings);
    let mut ask = |jobs: &[&JobRef]| {
        let may_live: Vec<JobRef> = jobs.iter().map(|job| (*job).clone()).collect();
        executor.observe(&Question {
            may_live,
            ..question(jobs)
        })
    };
    let observation = ask(&[&unknown, &ours, &theirs]);
    assert_eq!(queue_phase(&observation, &ours), Some(Phase::Held));
    assert_eq!(queue_phase(&observation, &theirs), None);
    assert_eq!(observation.cluster.as_deref(), Some("dev"));
    let observation = ask(&[&unknown]);
    assert_eq!(queue_phase(&observation, &unknown), None);
    assert!(observation.queue.got().is_some() && observation.accounting.got().is_some());
    cluster.executor().cancel(&[ours, theirs]).unwrap();
}

#[test]
fn a_submission_in_doubt_is_found_by_its_submit_line() {
    let Some(cluster) = cluster() else { return };
    let lab = Lab::new("true");
    let mut executor = cluster.executor();
    let request = lab.request("Doubted");
    let other = lab.request("doubted");
    let job = accepted(executor.submit(&[&request], None));
    accepted(executor.submit(&[&other], None));
    let asked = Question {
        search_from: Some(sys::now()),
        ..Question::default()
    };
    let observation = ask_until(&mut executor, &asked, |observation| {
        of(&observation.accounting, &job).is_some_and(|report| report.tag.is_some())
    });
    let found = of(&observation.accounting, &job).unwrap();
    let tag = found.tag.as_ref().unwrap();
    assert_eq!(tag.submission_id, request.submission_id);
}

/// A second cluster beside the shared one, for what would disturb other tests: a controller that
/// freezes and dies. Its end leaves nothing.
#[test]
fn a_second_cluster_freezes_dies_and_leaves_nothing() {
    if cluster().is_none() {
        return;
    }
    // Longer than a Unix socket's path may be.
    let name = "second".repeat(25);
    let settings = [("SNBB_DEV_MESSAGE_TIMEOUT", "2"), ("SNBB_DEV_CPUS", "4")];
    let second = Cluster::start(&name, &settings).unwrap();
    let lab = Lab::new("sleep 600");
    let mut executor = second.executor();
    let runs = accepted(executor.submit(&[&lab.request("runs_at_the_end")], None));

    let controller = second.daemon("slurmctld");
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &controller]).status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    let doubted = lab.request("frozen");
    let submission = executor.submit(&[&doubted], None);
    let queue = executor.observe(&question(&[&runs])).queue;
    signal("-CONT");
    match submission {
        Submission::InDoubt { message } => assert!(message.contains("timed out"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(queue, Answer::Failed(_)), "{queue:?}");
    // It was created after sbatch had failed.
    ask_until(&mut executor, &question(&[&runs]), |observation| {
        let jobs = observation.queue.got();
        jobs.is_some_and(|jobs| {
            jobs.iter().any(|job| {
                job.tag
                    .as_ref()
                    .is_some_and(|tag| tag.submission_id == doubted.submission_id)
            })
        })
    });

    let settings = fs::read_to_string(second.dir.join("settings")).unwrap();
    let ports: Vec<u16> = settings
        .lines()
        .find_map(|line| line.strip_prefix("PORTS="))
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|port| port.parse().ok())
        .collect();
    assert_eq!(ports.len(), 3, "{settings}");
    let is_open = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    signal("-KILL");
    let since = Instant::now();
    while is_open(ports[1]) {
        assert!(since.elapsed() < PATIENCE, "the controller lives on");
        sleep(Duration::from_millis(50));
    }
    match executor.submit(&[&lab.request("dead")], None) {
        Submission::Refused { kind, message } => {
            assert_eq!(kind, Refusal::Transient, "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        executor.observe(&question(&[&runs])).queue,
        Answer::Failed(_)
    ));

    let dir = second.dir.clone();
    second.stop();
    for port in ports {
        assert!(!is_open(port), "{port}");
    }
    let output = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let processes = String::from_utf8_lossy(&output.stdout).into_owned();
    // The harness ends it once more, which finds nothing to do.
    let ours = |line: &&str| {
        line.contains(dir.to_str().unwrap())
            && !["keeper", "slurm-dev-cluster", "rm -rf"]
                .iter()
                .any(|word| line.contains(word))
    };
    assert_eq!(processes.lines().filter(ours).collect::<Vec<_>>(), [""; 0]);
}
