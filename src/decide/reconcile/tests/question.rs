//! The query of a pass to Slurm.

use super::*;

fn session(mut row: TaskRow, number: usize) -> TaskRow {
    row.key.session = format!("ses-{number}").as_str().into();
    row
}

fn submitted(minute: i64, job: Option<&str>) -> TaskRow {
    let reason = match job {
        Some(_) => Reason::Queued,
        None => Reason::Submitting,
    };
    let mut row = row("a", TaskStatus::Pending, reason);
    row.submitted_at = Some(at(minute));
    row.job_id = job.map(JobId::new);
    row
}

/// A job that ended in this minute, an hour after its submission.
fn ended(minute: i64, job: &str) -> TaskRow {
    let mut row = row("b", TaskStatus::Complete, Reason::Verified);
    row.submitted_at = Some(at(minute - 60));
    row.job_id = Some(JobId::new(job));
    row.facts.ended_at = Some(at(minute));
    row.facts.exit_code = Some("0:0".into());
    row
}

fn ask(rows: Vec<TaskRow>) -> Question {
    let mut state = State::default();
    for (number, one) in rows.into_iter().enumerate() {
        state.put(session(one, number));
    }
    question(&state, at(60))
}

#[test]
fn without_jobs_in_flight_nothing_is_asked() {
    let question = ask(vec![ended(0, "1")]);
    assert!(question.jobs.is_empty() && question.search_from.is_none());
    assert_eq!((question.since, question.canary), (None, None));
}

#[test]
fn the_query_reaches_back_to_the_oldest_submission() {
    let mut elsewhere = submitted(20, Some("8"));
    elsewhere.facts.cluster = Some("big".into());
    let question = ask(vec![
        submitted(30, Some("9")),
        submitted(10, None),
        elsewhere,
    ]);
    let jobs: Vec<&str> = question.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(jobs, ["9", "8"]);
    assert_eq!(question.clusters, ["big".into()]);
    assert_eq!(question.since, Some(at(10)));
    assert_eq!(question.search_from, Some(at(10)));
    assert!(question.everywhere);
}

/// A recently failed job may run again; complete ones are only queried among the owner's jobs.
#[test]
fn attack_jobs_that_may_be_alive_are_asked_for_whoever_owns_them() {
    let failed = |minute: i64| {
        let mut row = ended(minute, "1");
        row.facts.started_at = Some(at(minute - 5));
        row.status = TaskStatus::Failed;
        row.reason = Some(Reason::ExitCode);
        row
    };
    let asked = |row: TaskRow| !ask(vec![row]).may_live.is_empty();
    assert!(asked(submitted(30, Some("9"))));
    assert!(asked(failed(0)));
    assert!(!asked(failed(60 - 24 * 60)));
    let mut complete = failed(0);
    (complete.status, complete.reason) = (TaskStatus::Complete, Some(Reason::Verified));
    assert!(!asked(complete));
}

/// Accounting shows the tag, whatever the job's name and id.
#[test]
fn e7_a_job_that_slurm_does_not_know_is_searched_for_by_its_tag() {
    let unaccounted = |change: fn(&mut TaskRow)| {
        let mut row = submitted(30, Some("9"));
        row.reason = Some(Reason::Unaccounted);
        change(&mut row);
        ask(vec![submitted(10, Some("8")), row]).search_from
    };
    assert_eq!(unaccounted(|_| ()), Some(at(30)));
    assert_eq!(unaccounted(|row| row.reason = Some(Reason::Queued)), None);
    assert_eq!(unaccounted(|row| row.submission_id = None), None);
}

#[test]
fn e17_a_missing_end_of_a_finished_job_is_asked_for_for_a_week() {
    let finished = |status, reason| {
        let mut row = row("b", status, reason);
        row.missing_since = Some(at(-60));
        row.updated_at = Some(at(0));
        row
    };
    let asked = |row: TaskRow| !ask(vec![row]).jobs.is_empty();
    let complete = || finished(TaskStatus::Complete, Reason::Verified);
    assert!(asked(complete()));
    assert!(asked(finished(TaskStatus::Failed, Reason::Lost)));
    assert!(!asked(finished(TaskStatus::Failed, Reason::Timeout)));
    let mut ended = complete();
    ended.facts.ended_at = Some(at(-60));
    assert!(!asked(ended));
    let mut old = complete();
    old.updated_at = Some(at(60) - CORRECTION_TIME);
    assert!(!asked(old));
}

/// It may have been requeued between two passes.
#[test]
fn attack_another_end_is_asked_for_during_a_day_after_the_known_one() {
    let asked = |minute: i64| {
        let mut row = ended(minute, "1");
        row.facts.started_at = Some(at(minute - 5));
        ask(vec![row]).ended
    };
    let job = JobRef {
        id: JobId::new("1"),
        cluster: None,
    };
    assert_eq!(asked(0), [(job, at(0))]);
    assert_eq!(asked(60 - 24 * 60), []);
}

/// The canary is the newest job that accounting must know, unless it is older than sites keep records.
#[test]
fn the_newest_end_is_the_proof_that_accounting_answers() {
    let canary = |rows| ask(rows).canary.map(|job| job.id.as_str().to_owned());
    let own = || submitted(0, Some("9"));
    let (old, new) = (|| ended(-500, "1"), || ended(-100, "2"));
    for rows in [vec![own(), old(), new()], vec![own(), new(), old()]] {
        assert_eq!(canary(rows).as_deref(), Some("2"));
    }
    let question = ask(vec![own(), new()]);
    assert_eq!(question.since, Some(at(-160)), "it must be found");
    // Of two with one end, the first.
    let twins = vec![own(), ended(-100, "2"), ended(-100, "3")];
    assert_eq!(canary(twins).as_deref(), Some("2"));

    let week = 7 * 24 * 60;
    assert_eq!(
        canary(vec![own(), ended(1 - week, "1")]).as_deref(),
        Some("1")
    );
    assert_eq!(canary(vec![own(), ended(-week, "1")]), None);
    // An end in the queue does not come from accounting.
    let mut known_to_queue = new();
    known_to_queue.facts.exit_code = None;
    let mut without_job = new();
    without_job.job_id = None;
    assert_eq!(canary(vec![own(), known_to_queue, without_job]), None);
}
