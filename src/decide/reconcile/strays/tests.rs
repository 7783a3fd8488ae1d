//! Second jobs, foreign jobs and jobs of arrays in the queue.

mod identity;

use super::*;
use crate::executor::Phase;
use crate::model::bids::{Dicom, SessionLabel, SubjectLabel};
use crate::model::job::JobTag;
use crate::model::procedure::testing::procedure;
use crate::model::state::testing::{at, row};
use crate::model::state::{JobFacts, Reason, TaskStatus};

fn job(id: &str, name: &str, project: Option<&str>, minute: i64) -> JobReport {
    JobReport {
        id: JobId::new(id),
        name: name.into(),
        phase: Phase::Running,
        pending_reason: None,
        submitted_at: Some(at(minute)),
        facts: JobFacts::default(),
        tag: project.map(|project| JobTag {
            project: project.into(),
            submission_id: id.into(),
        }),
        has_submit_line: false,
    }
}

fn strays(queue: &[JobReport], rows: &State, logged: &[&str]) -> Strays {
    strays_of(queue, rows, logged, false)
}

/// `logged`: the ids of jobs that the audit log has for the task.
fn strays_of(queue: &[JobReport], rows: &State, logged: &[&str], is_new: bool) -> Strays {
    let task_of = |job: &JobReport| {
        let is_logged = logged.contains(&job.id.as_str());
        is_logged.then(|| TaskKey::new("sub-01", "ses-01", "a"))
    };
    strays_with(queue, rows, &task_of, is_new)
}

fn strays_with(
    queue: &[JobReport],
    rows: &State,
    task_of: &dyn Fn(&JobReport) -> Option<TaskKey>,
    is_new: bool,
) -> Strays {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("a_b", Scope::Subject, &[]),
    ])
    .unwrap();
    let sessions = [Session {
        subject: SubjectLabel::new("sub-01").unwrap(),
        session: SessionLabel::new("ses-01").unwrap(),
        dicom: Dicom::NotNeeded,
    }];
    let listing = |array: &str| match array {
        "array-0123456789abcdef" | "array-01234567" => Some(Arc::from([
            TaskKey::new("sub-09", "ses-01", "a"),
            TaskKey::new("sub-01", "ses-01", "a"),
        ])),
        _ => None,
    };
    let records = Records {
        task_of,
        listing: &listing,
    };
    compare(queue, rows, &dag, &sessions, "p", is_new, &records)
}

#[test]
fn the_oldest_live_job_of_a_task_is_adopted_and_the_others_are_reported() {
    let queue = [
        job("3", "a_sub-01_ses-01", Some("p"), 3),
        job("2", "a_sub-01_ses-01", Some("p"), 2),
        job("9", "a_b_sub-01", Some("p"), 1),
    ];
    let found = strays(&queue, &State::default(), &[]);
    let adopted: Vec<(String, &str)> = found
        .adopt
        .iter()
        .map(|(key, job)| (key.to_string(), job.id.as_str()))
        .collect();
    assert_eq!(
        adopted,
        [
            ("a_b sub-01".to_owned(), "9"),
            ("a sub-01 ses-01".to_owned(), "2")
        ]
    );
    assert_eq!(
        found.doubled,
        [(TaskKey::new("sub-01", "ses-01", "a"), queue[0].job())]
    );
}

#[test]
fn a_task_in_flight_keeps_its_job_and_a_second_one_is_reported() {
    let mut rows = State::default();
    let mut own = row("a", TaskStatus::Running, Reason::Running);
    own.submission_id = Some("100".into());
    rows.put(own);
    let queue = [
        job("100", "a_sub-01_ses-01", Some("p"), 5),
        job("2", "a_sub-01_ses-01", Some("p"), 2),
    ];
    let found = strays(&queue, &rows, &[]);
    assert!(found.adopt.is_empty());
    assert_eq!(found.doubled.len(), 1);
    assert_eq!(found.doubled[0].1.id, JobId::new("2"));
}

/// A wrapper of the site calls sbatch again.
#[test]
fn e16_two_jobs_with_one_tag_are_both_reported() {
    let mut rows = State::default();
    let mut own = row("a", TaskStatus::Running, Reason::Running);
    own.submission_id = Some("100".into());
    rows.put(own);
    let second = |id: &str| JobReport {
        id: JobId::new(id),
        ..job("100", "a_sub-01_ses-01", Some("p"), 6)
    };
    let first = job("100", "a_sub-01_ses-01", Some("p"), 5);
    let found = strays(&[first.clone(), second("101")], &rows, &[]);
    let key = TaskKey::new("sub-01", "ses-01", "a");
    assert_eq!(found.doubled, [(key, second("101").job())]);
    assert!(found.adopt.is_empty());
    // Parts of a heterogeneous job and tasks of an array that the script made of itself.
    for id in ["100+1", "100_3"] {
        let found = strays(&[first.clone(), second(id)], &rows, &[]);
        assert_eq!(found, Strays::default(), "{id}");
    }
}

#[test]
fn a_job_with_a_recycled_id_does_not_belong_to_the_row() {
    let mut rows = State::default();
    let mut old = row("b", TaskStatus::Pending, Reason::Unaccounted);
    old.job_id = Some(JobId::new("2"));
    old.submission_id = Some("another".into());
    rows.put(old);
    let queue = [job("2", "a_sub-01_ses-01", Some("p"), 2)];
    assert_eq!(strays(&queue, &rows, &[]).adopt.len(), 1);
}

#[test]
fn the_job_of_a_submission_in_doubt_is_not_a_second_job() {
    let mut rows = State::default();
    let mut doubt = row("a", TaskStatus::Pending, Reason::Submitting);
    doubt.job_id = None;
    let own = job("2", "a_sub-01_ses-01", Some("p"), 2);
    doubt.submission_id = own
        .tag
        .as_ref()
        .map(|tag| tag.submission_id.as_str().into());
    rows.put(doubt);
    assert_eq!(strays(&[own], &rows, &[]), Strays::default());
    let mut second = job("3", "a_sub-01_ses-01", Some("p"), 3);
    if let Some(tag) = &mut second.tag {
        tag.submission_id = "another".to_owned();
    }
    assert_eq!(strays(&[second], &rows, &[]).doubled.len(), 1);
}

#[test]
fn other_studies_tags_and_unknown_names_are_ignored() {
    let name = "a_sub-01_ses-01";
    let other = strays(&[job("1", name, Some("q"), 0)], &State::default(), &[]);
    assert_eq!(other, Strays::default());
    let orphan = strays(
        &[job("1", "a_sub-02_ses-01", Some("p"), 0)],
        &State::default(),
        &[],
    );
    assert_eq!(orphan.orphans.len(), 1);
    let unmarked = strays(&[job("1", name, None, 0)], &State::default(), &[]);
    assert_eq!(unmarked.without_row.len(), 1);
    let logged = strays(&[job("1", name, None, 0)], &State::default(), &["1"]);
    assert_eq!(logged.adopt.len(), 1);
    let other = strays(&[job("1", "jupyter", None, 0)], &State::default(), &[]);
    assert_eq!(other.unnamed.len(), 1);
    let other = Strays {
        unnamed: Vec::new(),
        ..other
    };
    assert_eq!(other, Strays::default());
}

/// The Python program's rows and jobs have no mark: the id in the row says whose job it is.
#[test]
fn a_job_without_a_tag_belongs_to_the_row_with_its_id() {
    let queue = [job("7", "a_sub-01_ses-01", None, 0)];
    let with = |status, reason, id: &str| {
        let mut own = row("a", status, reason);
        own.job_id = Some(JobId::new(id));
        own.submission_id = None;
        let mut rows = State::default();
        rows.put(own);
        rows
    };
    let running = with(TaskStatus::Running, Reason::Running, "7");
    assert_eq!(strays(&queue, &running, &[]), Strays::default());
    // Its row was taken for ended, and it lives.
    let failed = with(TaskStatus::Failed, Reason::Lost, "7");
    assert_eq!(strays(&queue, &failed, &[]).adopt.len(), 1);
    let other = with(TaskStatus::Failed, Reason::Lost, "8");
    let found = strays(&queue, &other, &[]);
    assert!(found.adopt.is_empty());
    assert_eq!(found.without_row.len(), 1);
}

#[test]
fn a_job_of_an_impossible_task_is_an_orphan() {
    for name in ["a_b_sub-01_ses-01", "a_b_sub-07", "a_sub-01"] {
        let found = strays(&[job("1", name, Some("p"), 0)], &State::default(), &[]);
        assert_eq!(found.orphans.len(), 1, "{name}");
        assert!(found.adopt.is_empty(), "{name}");
    }
}

/// A state file that was moved looks like a new study.
#[test]
fn a_new_study_waits_for_another_studys_jobs_with_its_tasks_names() {
    let name = "a_sub-01_ses-01";
    let task = TaskKey::new("sub-01", "ses-01", "a");
    let found = strays_of(
        &[job("1", name, Some("q"), 0)],
        &State::default(),
        &[],
        true,
    );
    assert_eq!(found.other_project.as_deref(), Some("q"));
    assert_eq!(found.waiting, HashMap::from([(task, JobId::new("1"))]));
    assert!(found.adopt.is_empty());
    // Its own jobs it takes; other names do not matter.
    let own = strays_of(
        &[job("1", name, Some("p"), 0)],
        &State::default(),
        &[],
        true,
    );
    assert_eq!(own.adopt.len(), 1);
    assert_eq!(own.other_project, None);
    let else_where = job("1", "a_sub-07_ses-01", Some("q"), 0);
    assert_eq!(
        strays_of(&[else_where], &State::default(), &[], true),
        Strays::default()
    );
}

#[test]
fn editing_a_row_does_not_free_the_task_of_its_live_job() {
    let mut rows = State::default();
    let mut edited = row("a", TaskStatus::Running, Reason::Running);
    edited.key.session = "SES-01".into();
    rows.put(edited);
    let mut living = job("100", "a_sub-01_ses-01", Some("p"), 5);
    living.tag.as_mut().unwrap().submission_id = "0123456789abcdef".into();
    let found = strays(&[living], &rows, &[]);
    let task = TaskKey::new("sub-01", "ses-01", "a");
    assert_eq!(
        found.without_row.get(&task),
        Some(&JobId::new("100")),
        "{found:?}"
    );
}

#[test]
fn tasks_of_an_array_created_by_a_script_are_not_second_jobs() {
    let mut rows = State::default();
    rows.put(row("a", TaskStatus::Running, Reason::Running));
    let queue: Vec<JobReport> = ["100_1", "100_2"]
        .into_iter()
        .map(|id| {
            let mut job = job(id, "a_sub-01_ses-01", Some("p"), 5);
            job.tag.as_mut().unwrap().submission_id = "0123456789abcdef".into();
            job
        })
        .collect();
    assert_eq!(strays(&queue, &rows, &[]), Strays::default());
}

const ARRAY: &str = "array-0123456789abcdef";

fn part(id: &str, mark: &str) -> JobReport {
    let mut job = job(id, "a_array_01234567", Some("p"), 1);
    job.tag.as_mut().unwrap().submission_id = mark.to_owned();
    job
}

#[test]
fn a_task_of_an_array_is_known_by_its_list() {
    let queue = [part("7_1", &format!("{ARRAY}.1"))];
    let found = strays(&queue, &State::default(), &[]);
    let task = TaskKey::new("sub-01", "ses-01", "a");
    assert_eq!(found.adopt, [(task.clone(), queue[0].clone())]);
    assert_eq!(found.waiting, HashMap::new());

    let mut rows = State::default();
    let mut own = row("a", TaskStatus::Running, Reason::Running);
    own.job_id = Some(JobId::new("7_1"));
    own.submission_id = Some(format!("{ARRAY}.1").into());
    rows.put(own);
    assert_eq!(strays(&queue, &rows, &[]), Strays::default());

    // Without a mark, the audit log decides.
    let mut unmarked = queue[0].clone();
    unmarked.tag = None;
    let queue = [unmarked];
    assert_eq!(strays(&queue, &State::default(), &["7_1"]).adopt.len(), 1);
    let without_row = strays(&queue, &State::default(), &[]).without_row;
    assert_eq!(without_row.get(&task), Some(&JobId::new("7_1")));
}

#[test]
fn the_tasks_of_an_array_shown_as_a_whole_wait() {
    let found = strays(&[part("7", ARRAY)], &State::default(), &[]);
    assert!(found.adopt.is_empty() && found.unknown.is_empty());
    let task = TaskKey::new("sub-01", "ses-01", "a");
    assert_eq!(found.waiting.get(&task), Some(&JobId::new("7")));
}

#[test]
fn without_the_task_list_all_tasks_of_the_procedure_wait() {
    let lost = "array-ffffffffffffffff";
    let mut queue = [
        part("7_0", &format!("{lost}.0")),
        part("7_5", &format!("{lost}.5")),
    ];
    let found = strays(&queue, &State::default(), &[]);
    let waiting = HashMap::from([(TaskKey::new("sub-01", "ses-01", "a"), JobId::new("7_0"))]);
    assert_eq!(found.waiting, waiting);
    let expected = BTreeMap::from([(Some("a".into()), (2, queue[0].job()))]);
    assert_eq!(found.unknown, expected);
    // A row knows whose task it is.
    let mut rows = State::default();
    let mut own = row("a", TaskStatus::Running, Reason::Running);
    own.job_id = Some(JobId::new("7_0"));
    own.submission_id = Some(format!("{lost}.0").into());
    rows.put(own);
    let known = strays(&[part("7_0", &format!("{lost}.0"))], &rows, &[]);
    assert_eq!(known, Strays::default());
    // An index that the list does not have.
    let beyond = strays(
        &[part("7_2", &format!("{ARRAY}.2"))],
        &State::default(),
        &[],
    );
    assert_eq!(
        beyond.waiting,
        HashMap::from([(TaskKey::new("sub-01", "ses-01", "a"), JobId::new("7_2"),)])
    );
    // Another study's array is not ours; one of a procedure that is gone is shown.
    for job in &mut queue {
        job.tag.as_mut().unwrap().project = "q".into();
    }
    assert_eq!(strays(&queue, &State::default(), &[]), Strays::default());
    let mut gone = part("7_0", &format!("{lost}.0"));
    gone.name = "old_array_ffffffff".into();
    assert_eq!(strays(&[gone], &State::default(), &[]).orphans.len(), 1);
}
