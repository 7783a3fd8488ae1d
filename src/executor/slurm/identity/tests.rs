use super::*;
use crate::executor::Phase;
use crate::model::job::JobRef;
use crate::model::state::testing::at;
use crate::model::state::{JobFacts, Reason};

const OURS: &str = "0123456789abcdef";
const SECOND: &str = "00112233445566ff";

fn job(id: &str, comment: Option<&str>) -> JobReport {
    JobReport {
        id: JobId::new(id),
        name: "renamed".into(),
        phase: Phase::Running,
        pending_reason: None,
        submitted_at: Some(at(0)),
        facts: JobFacts {
            slurm_state: Some("RUNNING".into()),
            ..JobFacts::default()
        },
        tag: comment.and_then(|id| JobTag::parse(&format!("snbb:p:{id}"))),
        has_submit_line: false,
    }
}

/// A record of accounting, with tag and name from the submit line.
fn record(id: &str, tag: Option<&str>) -> JobReport {
    JobReport {
        name: "a_sub-01".into(),
        has_submit_line: true,
        ..job(id, tag)
    }
}

fn tags(queue: &[JobReport]) -> Vec<Option<&str>> {
    let tags = queue.iter().map(|job| job.tag.as_ref());
    tags.map(|tag| Some(tag?.submission_id.as_str())).collect()
}

#[test]
fn attack_the_submit_line_wins_over_a_changed_comment() {
    let settled = |comment: Option<&str>, records: &[JobReport]| {
        let mut queue = vec![job("1", comment)];
        settle(&mut queue, &mut records.to_vec(), &[]);
        queue.remove(0)
    };
    for comment in [None, Some(SECOND), Some("0123"), Some(OURS)] {
        let job = settled(comment, &[record("1", Some(OURS))]);
        assert_eq!(
            tags(std::slice::from_ref(&job)),
            [Some(OURS)],
            "{comment:?}"
        );
        assert_eq!(job.name, "a_sub-01", "the name that it was submitted with");
    }
    // A forged comment, and a wrapper that passes ours in another way than on the command line.
    let forged = [record("1", None), record("2", Some(OURS))];
    assert_eq!(tags(&[settled(Some(OURS), &forged)]), [None]);
    assert_eq!(tags(&[settled(Some(OURS), &forged[..1])]), [Some(OURS)]);
    // The record of an earlier job with the same id.
    let mut earlier = record("1", Some(OURS));
    earlier.submitted_at = Some(at(-9));
    assert_eq!(tags(&[settled(None, &[earlier])]), [None]);
}

#[test]
fn attack_exchanged_comments_of_two_jobs_are_corrected() {
    let mut queue = vec![job("1", Some(SECOND)), job("2", Some(OURS))];
    let records = &mut vec![record("1", Some(OURS))];
    settle(&mut queue, records, &[record("2", Some(SECOND))]);
    assert_eq!(tags(&queue), [Some(OURS), Some(SECOND)]);
    assert_eq!(records.len(), 1, "others prove nothing about accounting");
}

#[test]
fn attack_a_revoked_sibling_hides_no_end() {
    let revoked = |tag| {
        let mut job = job("1", tag);
        job.phase = Phase::Unknown;
        job.facts.slurm_state = Some("REVOKED".into());
        job
    };
    let ended = |cluster: Option<&str>| {
        let mut job = record("1", Some(OURS));
        job.phase = Phase::Completed;
        job.facts.slurm_state = Some("COMPLETED".into());
        job.facts.cluster = cluster.map(Into::into);
        job
    };
    let left = |mut queue: Vec<JobReport>, mut records: Vec<JobReport>| {
        settle(&mut queue, &mut records, &[]);
        (queue.len(), records.len())
    };
    let own = || vec![revoked(Some(OURS))];
    assert_eq!(left(own(), vec![ended(None), revoked(None)]), (0, 1));
    assert_eq!(
        left(vec![], vec![revoked(Some(OURS)), ended(Some("b"))]),
        (0, 1)
    );
    // Nothing else is known, or another cluster has a job with this id; and the true one still runs.
    assert_eq!(left(own(), own()), (1, 1));
    assert_eq!(left(vec![], vec![revoked(None), ended(Some("b"))]), (0, 2));
    assert_eq!(left(own(), vec![record("1", Some(OURS))]), (1, 1));
}

#[test]
fn attack_a_job_listed_twice_is_live_if_one_line_is() {
    let mut ended = job("1", Some(OURS));
    ended.phase = Phase::Failed(Reason::NodeFail);
    for mut queue in [
        vec![ended.clone(), job("1", Some(OURS))],
        vec![job("1", Some(OURS)), ended.clone()],
    ] {
        settle(&mut queue, &mut Vec::new(), &[]);
        assert_eq!(queue, [job("1", Some(OURS))]);
    }
}

#[test]
fn live_jobs_without_a_row_are_identified_once_per_array() {
    let mut ended = job("5", None);
    ended.phase = Phase::Completed;
    let mut queue: Vec<JobReport> = ["1", "2", "3_1", "3_2", "4+1", "local-7"]
        .map(|id| job(id, None))
        .into();
    queue.extend([ended, job("6", Some(OURS))]);
    let mut question = Question {
        jobs: vec![JobRef {
            id: JobId::new("1"),
            cluster: None,
        }],
        ..Question::default()
    };
    let ids = |question: &Question| others(question, &queue).remove(&None).unwrap_or_default();
    assert_eq!(
        ids(&question),
        Vec::<&str>::new(),
        "only where it is asked for"
    );
    for (study, expected) in [
        ("", vec!["2", "3", "4", "6"]),
        ("p@00112233", vec!["2", "3", "4", "6"]),
        ("q", vec!["2", "3", "4"]),
    ] {
        question.identify = Some(study.to_owned());
        assert_eq!(ids(&question), expected, "{study}");
    }
}
