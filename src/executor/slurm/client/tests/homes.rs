//! Answers of another cluster, and jobs of the study that belong to other users.

use super::*;

/// A shell line that prints one row of squeue.
fn queued(id: &str, comment: &str) -> String {
    format!(
        "printf '{id}\\037RUNNING\\037None\\0371700000000\\0371700000010\\037N/A\\037n1\\0371:00\\037{comment}\\037a\\037\\n'"
    )
}

fn at_home(fakes: &Fakes, cluster: Option<&str>) -> SlurmExecutor {
    let mut settings = fakes.settings();
    settings.home.cluster = cluster.map(Arc::from);
    SlurmExecutor::new(settings)
}

fn in_flight(ids: &[&str]) -> Question {
    Question {
        may_live: ids.iter().map(|id| job(id)).collect(),
        ..asked(ids, None)
    }
}

#[test]
fn attack_answers_of_another_cluster_do_not_count() {
    let fakes = Fakes::new();
    fakes.write("sacct", "touch \"$here/asked\"");
    let config = "echo x >> \"$here/named\"; echo 'ClusterName             = beta'";
    fakes.write("scontrol", config);
    let observation = at_home(&fakes, Some("alpha")).observe(&in_flight(&["5"]));
    let Answer::Failed(text) = observation.queue else {
        panic!("believed");
    };
    for part in ["'alpha'", "'beta'", "--accept-cluster"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(observation.accounting, Answer::Failed(_)));
    assert_eq!(fakes.read("asked"), "");
    assert!(!fakes.path("asked").exists());

    let answers = |cluster, question: &Question| {
        let observation = at_home(&fakes, cluster).observe(question);
        let name = observation.cluster.as_deref().map(str::to_owned);
        (observation.queue.got().is_some(), name)
    };
    let jobs = in_flight(&["5"]);
    assert_eq!(answers(Some("Beta"), &jobs), (true, Some("Beta".into())));
    assert_eq!(answers(None, &jobs), (true, Some("beta".into())));
    // Once the name is known, no answer counts if the cluster does not give its name.
    for silent in ["exit 1", "echo 'ClusterName = (null)'"] {
        fakes.write("scontrol", silent);
        assert!(!answers(Some("beta"), &jobs).0, "{silent}");
        assert_eq!(answers(None, &jobs), (true, None), "{silent}");
    }
    // A job of the study in the queue is enough, without a further call.
    fakes.write("scontrol", config);
    fs::remove_file(fakes.path("named")).unwrap();
    fakes.write("squeue", &queued("5", "snbb:study:s-1"));
    assert!(answers(Some("alpha"), &jobs).0);
    assert!(!fakes.path("named").exists());
    fakes.write("squeue", &queued("5", "snbb:other:s-1"));
    assert!(!answers(Some("alpha"), &jobs).0);
    // A job that was sent to this cluster by `--clusters` proves nothing about the home cluster.
    fakes.write("squeue", &queued("6", "snbb:study:s-1"));
    let mut both = in_flight(&["5", "6"]);
    both.jobs[1].cluster = Some(Arc::from("beta"));
    assert!(!answers(Some("alpha"), &both).0);
}

#[test]
fn attack_every_login_node_may_ask_if_all_jobs_have_clusters() {
    let fakes = Fakes::new();
    fakes.write("scontrol", "echo 'ClusterName = beta'");
    let mut settings = fakes.settings();
    settings.home.cluster = Some(Arc::from("alpha"));
    settings.home.is_unused = true;
    let mut executor = SlurmExecutor::new(settings);
    let mut elsewhere = in_flight(&["5"]);
    elsewhere.jobs[0].cluster = Some(Arc::from("far"));
    assert!(executor.observe(&elsewhere).queue.got().is_some());
    // An earlier job has no cluster.
    assert!(executor.observe(&in_flight(&["5"])).queue.got().is_none());
}

#[test]
fn attack_a_job_of_another_user_is_found_by_its_id_and_ours_by_its_tag() {
    let fakes = Fakes::new();
    let rows = [
        queued("5", "snbb:study:s-5"),
        queued("6", "snbb:other:s-6"),
        queued("7", ""),
    ];
    fakes.write(
        "squeue",
        &format!(
            "echo \"$*\" >> \"$here/asked\"\ncase \"$*\" in *--user*) ;; *) {} ;; esac",
            rows.join("; ")
        ),
    );
    let record = row("8", "COMPLETED", "sbatch --comment=snbb:study:s-8 x\\037a");
    let stranger = row("9", "COMPLETED", "sbatch x\\037a");
    fakes.write(
        "sacct",
        &format!(
            "case \"$*\" in *--helpformat) echo SubmitLine ;; *MaxRSS*) ;; *--allusers*) {record}; {stranger} ;; esac"
        ),
    );
    let ids = |answer: Answer<Vec<crate::executor::JobReport>>| -> Vec<String> {
        let jobs = answer.got().cloned().unwrap();
        jobs.iter().map(|job| job.id.to_string()).collect()
    };
    let mut executor = at_home(&fakes, None);
    let observation = executor.observe(&in_flight(&["5", "6", "7", "8", "9"]));
    // Job 7 lost its comment, and nothing shows that it is another job.
    assert_eq!(ids(observation.queue), ["5", "7"]);
    assert_eq!(ids(observation.accounting), ["8"]);
    let calls = fakes.read("asked");
    assert!(calls.contains("--jobs=5,6,7,8,9"), "{calls}");
    // Its submit line shows it.
    let stranger = row("7", "RUNNING", "sbatch x\\037a");
    fakes.write(
        "sacct",
        &format!("case \"$*\" in *--helpformat) echo SubmitLine ;; *MaxRSS*) ;; *--allusers*) {stranger} ;; esac"),
    );
    let observation = at_home(&fakes, None).observe(&in_flight(&["5", "6", "7"]));
    assert_eq!(ids(observation.queue), ["5"]);

    // A submission without a known job has no id to ask for.
    let doubt = Question {
        everywhere: true,
        ..Question::default()
    };
    assert_eq!(ids(executor.observe(&doubt).queue), ["5"]);

    // One call if nothing is missing.
    fs::remove_file(fakes.path("asked")).unwrap();
    fakes.write(
        "squeue",
        &format!("echo \"$*\" >> \"$here/asked\"; {}", rows[0]),
    );
    executor.observe(&in_flight(&["5"]));
    assert_eq!(fakes.read("asked").lines().count(), 1);
}

#[test]
fn attack_a_single_unknown_id_of_squeue_is_absent() {
    let fakes = Fakes::new();
    let fails = |text: &str| {
        format!("case \"$*\" in *--jobs*) echo 'slurm_load_jobs error: {text}' >&2; exit 1 ;; esac")
    };
    fakes.write("squeue", &fails("Invalid job id specified"));
    let queue = at_home(&fakes, None).observe(&in_flight(&["5"])).queue;
    assert_eq!(queue, Answer::Got(Vec::new()));
    fakes.write("squeue", &fails("Unable to contact slurm controller"));
    let queue = at_home(&fakes, None).observe(&in_flight(&["5"])).queue;
    assert!(matches!(queue, Answer::Failed(_)), "{queue:?}");
}
