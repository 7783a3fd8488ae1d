use super::*;
use crate::executor::Phase;
use crate::gather::disk::Unreadable;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::job::{JobId, JobTag};
use crate::model::procedure::Scope;
use crate::model::procedure::testing::procedure;
use crate::model::state::Reason;
use crate::model::state::testing::{at, row};
use crate::model::state::{JobFacts, TaskKey};

fn dag() -> ProcedureDag {
    let list = vec![
        procedure("bids", Scope::Session, &[]),
        procedure("fs", Scope::Subject, &[]),
    ];
    ProcedureDag::new(list).unwrap()
}

fn found(unreadable: &[&str]) -> Discovery {
    Discovery {
        sessions: vec![Session {
            subject: SubjectLabel::new("sub-01").unwrap(),
            session: SessionLabel::new("ses-01").unwrap(),
            dicom: Dicom::Missing,
        }],
        notes: Vec::new(),
        misspelt: Vec::new(),
        unreadable: unreadable
            .iter()
            .map(|path| Unreadable {
                path: path.into(),
                error: String::new(),
            })
            .collect(),
    }
}

#[test]
fn jobs_become_stale_at_the_limit() {
    let old = row("bids", TaskStatus::Running, Reason::Running);
    let done = row("fs", TaskStatus::Complete, Reason::Verified);
    let rows = [old, done];
    assert_eq!(
        stale(
            rows.iter(),
            Duration::from_secs(168 * 3600),
            at(60 * 168 - 1)
        ),
        []
    );
    let found = stale(rows.iter(), Duration::from_secs(168 * 3600), at(60 * 169));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].hours, &*found[0].key.procedure), (169, "bids"));
}

#[test]
fn orphan_rows_have_a_cause() {
    let with = |subject: &str, session: &str, procedure: &str| TaskRow {
        key: TaskKey::new(subject, session, procedure),
        ..row(procedure, TaskStatus::Complete, Reason::Verified)
    };
    let rows = [
        with("sub-01", "ses-01", "bids"),
        with("sub-01", "", "fs"),
        with("sub-01", "ses-01", "gone"),
        with("sub-01", "ses-09", "bids"),
        with("sub-09", "", "fs"),
        with("sub-01", "ses-01", "fs"),
        with("sub-01", "", "bids"),
    ];
    let causes = |found: &Discovery| -> Vec<(String, OrphanCause)> {
        let orphans = orphan_rows(rows.iter(), &dag(), found);
        let text =
            |o: &OrphanRow| format!("{} {} {}", o.key.procedure, o.key.subject, o.key.session);
        orphans.iter().map(|o| (text(o), o.cause)).collect()
    };
    use OrphanCause::{Procedure, Scope, Session};
    let all = [
        ("gone sub-01 ses-01", Procedure),
        ("bids sub-01 ses-09", Session),
        ("fs sub-09 ", Session),
        ("bids sub-01 ", Scope),
        ("fs sub-01 ses-01", Scope),
    ];
    let expected: Vec<_> = all.map(|(t, c)| (t.to_owned(), c)).into();
    assert_eq!(causes(&found(&[])), expected);
    // An unreadable subject is not missing.
    let some = causes(&found(&["/dicom/sub-09"]));
    assert!(!some.iter().any(|(text, _)| text.contains("sub-09")));
    assert_eq!(causes(&found(&["/dicom"])).len(), 3);
}

#[test]
fn live_jobs_of_this_study_without_a_row_are_shown() {
    let job = |id: &str, project: &str, submission: &str, phase| JobReport {
        id: JobId::new(id),
        name: "bids_sub-01_ses-01".to_owned(),
        phase,
        pending_reason: None,
        submitted_at: None,
        facts: JobFacts::default(),
        tag: Some(JobTag {
            project: project.to_owned(),
            submission_id: submission.to_owned(),
        }),
        has_submit_line: false,
    };
    let queue = [
        job("1", "p", "a", Phase::Running),
        job("100", "p", "b", Phase::Running),
        job("2", "other", "c", Phase::Running),
        job("3", "p", "d", Phase::Completed),
        job("4", "p", "0123456789abcdef", Phase::Queued),
    ];
    let rows = [row("bids", TaskStatus::Running, Reason::Running)];
    let orphans = orphan_jobs(&queue, &rows, "p");
    let ids: Vec<_> = orphans.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!(ids, ["1"]);
}

#[test]
fn failures_add_up_by_reason_and_by_node() {
    let on = |node: &str, status, reason| {
        let mut row = row("bids", status, reason);
        row.facts.node_list = Some(node.into());
        row
    };
    let rows = [
        on("n1", TaskStatus::Failed, Reason::Timeout),
        on("n1", TaskStatus::Complete, Reason::Verified),
        on("n2", TaskStatus::Failed, Reason::Timeout),
        on("n1", TaskStatus::Failed, Reason::NodeFail),
        on("None assigned", TaskStatus::Failed, Reason::Cancelled),
    ];
    let found = failures(&[], rows.iter(), rows.iter(), &dag());
    let reasons: Vec<_> = found
        .by_reason
        .iter()
        .map(|r| (r.reason, r.count))
        .collect();
    assert_eq!(
        reasons,
        [("timeout", 2), ("cancelled", 1), ("node_fail", 1)]
    );
    let nodes: Vec<_> = found
        .by_node
        .iter()
        .map(|n| (&*n.node, n.jobs, n.failed))
        .collect();
    assert_eq!(nodes, [("n1", 3, 2), ("n2", 1, 1)]);
}
