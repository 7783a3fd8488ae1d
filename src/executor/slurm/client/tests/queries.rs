//! Queries to squeue and sacct, and answers that do not count.

use super::*;

#[test]
fn an_empty_answer_counts_only_with_the_canary() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    assert_eq!(
        executor.observe(&asked(&["5"], None)).accounting,
        Answer::Got(Vec::new())
    );
    let observation = executor.observe(&asked(&["5"], Some("3")));
    assert_eq!(observation.queue, Answer::Got(Vec::new()));
    let Answer::Failed(text) = observation.accounting else {
        panic!("believed");
    };
    assert!(text.contains("job 3"), "{text}");

    fakes.write("sacct", &row("3", "COMPLETED", "old"));
    let observation = executor.observe(&asked(&["5"], Some("3")));
    let jobs = observation.accounting.got().unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].phase, Phase::Completed);

    // Old records may be purged: any job in the answer is enough.
    fakes.write("sacct", &row("5", "RUNNING", "new"));
    let observation = executor.observe(&asked(&["5"], Some("3")));
    assert_eq!(observation.accounting.got().unwrap().len(), 1);

    // The canary ended before the start time of the query.
    let body = format!(
        "case \"$*\" in *starttime*) ;; *) {} ;; esac",
        row("3", "COMPLETED", "old")
    );
    fakes.write("sacct", &body);
    let observation = executor.observe(&asked(&["5"], Some("3")));
    assert_eq!(observation.accounting.got().unwrap().len(), 1);
}

/// For example, if the name service is unreachable.
#[test]
fn attack_an_empty_answer_with_an_error_does_not_count() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    for (body, is_answer) in [
        ("echo 'squeue: error: Invalid user: 1000' >&2", false),
        ("echo 'squeue: error: something else' >&2", false),
        ("echo 'squeue: a note' >&2", true),
    ] {
        fakes.write("squeue", body);
        let queue = executor.observe(&Question::default()).queue;
        assert_eq!(queue.got().is_some(), is_answer, "{body}: {queue:?}");
    }
}

#[test]
fn jobs_missing_from_a_cut_answer_are_not_absent() {
    let fakes = Fakes::new();
    let mut executor = fakes.executor();
    fakes.write(
        "sacct",
        &format!("{}\nprintf '6\\037RUN'", row("5", "RUNNING", "a")),
    );
    let known = executor.observe(&asked(&["5"], None)).accounting;
    assert_eq!(known.got().map(Vec::len), Some(2), "{known:?}");
    let cut = executor.observe(&asked(&["5", "61"], None)).accounting;
    assert!(matches!(cut, Answer::Failed(_)), "{cut:?}");
}

/// Ids are recycled, and a requeued job has a record per submission.
#[test]
fn every_record_of_an_id_is_reported() {
    let fakes = Fakes::new();
    let old = row("5", "TIMEOUT", "ours");
    let new = row("5", "RUNNING", "another").replace("1700000000", "1700009000");
    // Without -D, sacct shows only the newest.
    let body = format!("case \"$*\" in *' -D '*|'-D '*) {old} ;; esac\n{new}");
    fakes.write("sacct", &body);
    let observation = fakes.executor().observe(&asked(&["5"], None));
    let jobs = observation.accounting.got().unwrap();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
}

#[test]
fn a_failed_query_does_not_count() {
    let fakes = Fakes::new();
    let mut settings = fakes.settings();
    settings.query_timeout = Duration::from_millis(400);
    let mut executor = SlurmExecutor::new(settings);
    for (body, part) in [
        (
            "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
            "Problem talking to the database",
        ),
        ("exec sleep 600", "did not answer"),
        ("kill -9 $$", "signal 9"),
    ] {
        fakes.write("sacct", body);
        match executor.observe(&asked(&["5"], None)).accounting {
            Answer::Failed(text) => assert!(text.contains(part), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    fakes.write(
        "sacct",
        "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    );
    assert_eq!(
        executor.observe(&asked(&["5"], None)).accounting,
        Answer::Off
    );
    fakes.write("squeue", "echo 'squeue: error: x' >&2; exit 1");
    fakes.write("sacct", "touch \"$here/called\"");
    let observation = executor.observe(&asked(&["5"], None));
    assert!(matches!(observation.queue, Answer::Failed(_)));
    assert!(
        matches!(observation.accounting, Answer::Failed(_)),
        "a Slurm that is away is waited for once"
    );
    assert!(fakes.path("called").symlink_metadata().is_err());
}

#[test]
fn accounting_switched_off_is_never_asked() {
    let fakes = Fakes::new();
    fakes.write("sacct", "touch \"$here/called\"");
    let mut settings = fakes.settings();
    settings.accounting = false;
    let observation = SlurmExecutor::new(settings).observe(&asked(&["5"], Some("3")));
    assert_eq!(observation.accounting, Answer::Off);
    assert!(fs::metadata(fakes.path("called")).is_err());
}

#[test]
fn many_jobs_take_few_calls() {
    let fakes = Fakes::new();
    for name in ["squeue", "sacct", "scancel"] {
        fakes.write(name, &format!("echo \"$*\" >> \"$here/{name}.calls\""));
    }
    let ids: Vec<String> = (1..=2500).map(|id| id.to_string()).collect();
    let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    ids.extend(["local-7", "7x"]);
    let mut executor = fakes.executor();
    let observation = executor.observe(&asked(&ids, None));
    assert_eq!(observation.of_other_executor, [JobId::new("local-7")]);
    assert_eq!(fakes.read("squeue.calls").lines().count(), 1);
    let calls = fakes.read("sacct.calls");
    assert_eq!(calls.lines().count(), 4, "and one about the fields");
    assert!(!calls.contains("local"), "one bad id spoils a whole query");
    let mut jobs: Vec<JobRef> = ids[..2500].iter().map(|id| job(id)).collect();
    jobs.truncate(3);
    jobs.push(JobRef {
        id: JobId::new("4_1"),
        cluster: Some(Arc::from("other")),
    });
    executor.cancel(&jobs).unwrap();
    assert_eq!(fakes.read("scancel.calls"), "1 2 3\n--clusters=other 4_1\n");
}

/// A script, a person or a plugin may have renamed the job; its submit line has our tag.
#[test]
fn e2_jobs_are_searched_for_by_submit_line_whatever_their_name_is() {
    let fakes = Fakes::new();
    let mut question = asked(&["7"], None);
    question.search_from = DateTime::from_timestamp(1_700_000_000, 0);
    for (fields, line) in [
        ("JobID SubmitLine", "sbatch --comment=snbb:study:s-1 x\\037"),
        ("JobID", ""),
    ] {
        let renamed = row("5", "RUNNING", &format!("{line}urgent"));
        fakes.write(
            "sacct",
            &format!("case \"$*\" in --helpformat) echo '{fields}' ;; *) echo \"$*\" >> \"$here/args\"; {renamed} ;; esac"),
        );
        let observation = fakes.executor().observe(&question);
        let jobs = observation.accounting.got().unwrap();
        assert_eq!(jobs.len(), 1, "once, although both answers have it");
        assert_eq!(jobs[0].tag.is_some(), !line.is_empty());
        assert_eq!(jobs[0].has_submit_line, !line.is_empty());
        let args = fakes.read("args");
        let calls: Vec<&str> = args.lines().collect();
        assert_eq!(calls.len() % 2, 0, "one by id, one for all");
        for call in &calls[calls.len() - 2..] {
            assert_eq!(call.contains("SubmitLine"), !line.is_empty(), "{call}");
            assert!(call.contains("--uid=1000 "), "{call}");
        }
        assert!(calls[calls.len() - 1].contains("--uid=1000 --starttime=2023-11-1"));
    }
}

#[test]
fn e4_an_answer_with_other_text_or_cut_jobs_does_not_count() {
    let fakes = Fakes::new();
    for text in [
        "10",
        "1002\\037PENDING\\037No",
        "1002\\037",
        "slurm_load_jobs error: Unable to contact slurm controller\\n",
        "<html>\\n<body>502 Bad Gateway</body>\\n</html>\\n",
        "JOBID PARTITION NAME USER ST TIME NODES\\n",
        "Welcome to our cluster\\n",
    ] {
        fakes.write("squeue", &format!("printf '{text}'"));
        let answer = fakes.executor().observe(&asked(&["5"], None)).queue;
        assert!(matches!(answer, Answer::Failed(_)), "{text}: {answer:?}");
    }
}

#[test]
fn accounting_is_asked_once_for_all_tasks_of_an_array() {
    let fakes = Fakes::new();
    fakes.write("sacct", "echo \"$@\" >> \"$here/sacct.asked\"");
    let question = asked(&["7_0", "9", "7_12", "8_1"], None);
    fakes.executor().observe(&question);
    let calls = fakes.read("sacct.asked");
    let lines: Vec<&str> = calls
        .lines()
        .filter(|line| *line != "--helpformat")
        .collect();
    assert_eq!(lines.len(), 1, "{calls}");
    assert!(lines[0].contains("--jobs=7,9,8 "), "{calls}");
}
