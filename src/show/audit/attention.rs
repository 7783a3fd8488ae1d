//! What needs attention: stale jobs, orphans, failures by reason and by node. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::report::{
    Count, FailureGroup, Failures, JobDetail, LiveJob, NodeFailures, OrphanCause, OrphanRow,
    ReasonCount, StaleJob, TaskDetail,
};
use crate::executor::JobReport;
use crate::gather::sessions::discover::Discovery;
use crate::model::job::array::split_task_id;
use crate::model::job::{JobId, is_same_study};
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{TaskRow, TaskStatus};
use crate::show::failures::{Likeness, alike, shared};
use crate::show::tables::exit::node;

/// Jobs that have been in flight for longer than `limit`, the oldest first.
pub fn stale<'a>(
    rows: impl Iterator<Item = &'a TaskRow>,
    limit: Duration,
    now: DateTime<Utc>,
) -> Vec<StaleJob> {
    let mut stale: Vec<StaleJob> = rows
        .filter(|row| row.is_in_flight())
        .filter_map(|row| {
            let submitted_at = row.submitted_at?;
            let age = now - submitted_at;
            let is_stale = age.to_std().is_ok_and(|age| !age.is_zero() && age >= limit);
            is_stale.then(|| StaleJob {
                key: row.key.clone(),
                job_id: row.job_id.clone(),
                status: row.status,
                reason: row.reason,
                submitted_at,
                hours: age.num_hours(),
            })
        })
        .collect();
    stale.sort_by_key(|job| job.submitted_at);
    stale
}

/// Rows whose task no longer exists. Subjects that could not be read are left out.
pub fn orphan_rows<'a>(
    rows: impl Iterator<Item = &'a TaskRow>,
    dag: &ProcedureDag,
    found: &Discovery,
) -> Vec<OrphanRow> {
    let sessions: HashSet<(&str, &str)> = found
        .sessions
        .iter()
        .map(|session| (session.subject.as_str(), session.session.as_str()))
        .collect();
    let subjects: HashSet<&str> = found.sessions.iter().map(|s| s.subject.as_str()).collect();
    let cause = |row: &TaskRow| {
        let (subject, session) = (&*row.key.subject, &*row.key.session);
        let Some(id) = dag.find(&row.key.procedure) else {
            return Some(OrphanCause::Procedure);
        };
        let is_there = match dag.get(id).scope {
            Scope::Subject if !session.is_empty() => return Some(OrphanCause::Scope),
            Scope::Subject => subjects.contains(subject),
            Scope::Session if sessions.contains(&(subject, session)) => true,
            Scope::Session if session.is_empty() && subjects.contains(subject) => {
                return Some(OrphanCause::Scope);
            }
            Scope::Session => false,
        };
        (!is_there && !is_unknown(found, subject)).then_some(OrphanCause::Session)
    };
    let mut orphans: Vec<OrphanRow> = rows
        .filter_map(|row| {
            Some(OrphanRow {
                cause: cause(row)?,
                key: row.key.clone(),
                status: row.status,
                job_id: row.job_id.clone(),
            })
        })
        .collect();
    orphans.sort_by_cached_key(|row| {
        let procedure = Arc::clone(&row.key.procedure);
        (row.cause, procedure, row.key.clone())
    });
    orphans
}

/// True if the subject, or a directory above it, could not be read.
fn is_unknown(found: &Discovery, subject: &str) -> bool {
    found.unreadable.iter().any(|what| {
        let mut labels = what.path.iter().filter(|part| {
            let part = part.as_encoded_bytes();
            part.starts_with(b"sub-")
        });
        labels.next_back().is_none_or(|label| label == subject)
    })
}

/// Jobs of this study in the queue that have no row.
pub fn orphan_jobs(queue: &[JobReport], rows: &[TaskRow], project: &str) -> Vec<LiveJob> {
    let ids = rows.iter().filter_map(|row| row.job_id.as_ref());
    let ids: HashSet<&JobId> = ids.collect();
    let submissions = rows.iter().filter_map(|row| row.submission_id.as_deref());
    // A live array may be listed in place of its tasks.
    let array = |id| split_task_id(id).map(|(array, _)| array);
    let submissions = submissions.flat_map(|id| [Some(id), array(id)]).flatten();
    let submissions: HashSet<&str> = submissions.collect();
    let is_unknown = |job: &&JobReport| {
        let tag = job.tag.as_ref();
        let tag = tag.filter(|tag| is_same_study(&tag.project, project));
        let is_new = tag.is_some_and(|tag| !submissions.contains(tag.submission_id.as_str()));
        job.phase.is_live() && is_new && !ids.contains(&job.id)
    };
    let jobs = queue.iter().filter(is_unknown).map(|job| LiveJob {
        job_id: job.id.clone(),
        name: job.name.clone(),
        slurm_state: job.facts.slurm_state.clone(),
    });
    jobs.collect()
}

/// Groups failures: similar failed tasks, failed rows by reason, all ended attempts by node.
pub fn failures<'a>(
    tasks: &[TaskDetail],
    rows: impl Iterator<Item = &'a TaskRow>,
    attempts: impl Iterator<Item = &'a TaskRow>,
    dag: &ProcedureDag,
) -> Failures {
    let rank = |name: &str| dag.find(name).map_or(usize::MAX, |id| id.index());
    let mut by_reason: HashMap<&'static str, BTreeMap<(usize, Arc<str>), usize>> = HashMap::new();
    for row in rows.filter(|row| row.status == TaskStatus::Failed) {
        let name = &row.key.procedure;
        let key = (rank(name), Arc::clone(name));
        let reason = by_reason.entry(row.reason_word()).or_default();
        *reason.entry(key).or_default() += 1;
    }
    let by_reason = by_reason.into_iter().map(|(reason, procedures)| {
        let counts = procedures.iter();
        ReasonCount {
            reason,
            count: procedures.values().sum(),
            procedures: counts
                .map(|((_, name), count)| Count::new(name, *count))
                .collect(),
        }
    });
    let mut by_reason: Vec<ReasonCount> = by_reason.collect();
    by_reason.sort_by_key(|group| (Reverse(group.count), group.reason));
    Failures {
        groups: groups(tasks),
        by_reason,
        by_node: by_node(attempts),
    }
}

/// Groups similar failed tasks.
pub fn groups(tasks: &[TaskDetail]) -> Vec<FailureGroup> {
    let failed = tasks.iter().enumerate();
    let failed = failed.filter_map(|(number, task)| Some((number, task, task.failed()?)));
    let failed: Vec<(usize, &TaskDetail, &JobDetail)> = failed.collect();
    let groups = alike(&failed, |(_, task, job)| {
        Likeness::new(&job.row, task.log_line.as_deref())
    });
    let groups = groups.iter().filter_map(|group| {
        let (_, first, job) = group.first()?;
        Some(FailureGroup {
            procedure: Arc::clone(&first.key.procedure),
            reason: job.row.reason_word(),
            failure: shared(group, |(.., job)| job.failure.clone()),
            log_line: first.log_line.clone(),
            tasks: group.iter().map(|(number, ..)| *number).collect(),
        })
    });
    groups.collect()
}

fn by_node<'a>(attempts: impl Iterator<Item = &'a TaskRow>) -> Vec<NodeFailures> {
    // By node: the number of attempts, and the reasons of failed ones.
    let mut nodes: HashMap<&str, (usize, BTreeMap<&'static str, usize>)> = HashMap::new();
    for attempt in attempts.filter(|row| !row.is_in_flight()) {
        let Some(name) = node(&attempt.facts) else {
            continue;
        };
        let (jobs, reasons) = nodes.entry(name).or_default();
        *jobs += 1;
        if attempt.status == TaskStatus::Failed {
            *reasons.entry(attempt.reason_word()).or_default() += 1;
        }
    }
    let nodes = nodes.into_iter().map(|(name, (jobs, reasons))| {
        let failed: usize = reasons.values().sum();
        let reasons = reasons.iter();
        let mut reasons: Vec<Count> = reasons.map(|(word, n)| Count::new(word, *n)).collect();
        reasons.sort_by_key(|count| Reverse(count.count));
        NodeFailures {
            node: name.into(),
            jobs,
            failed,
            share: failed as f64 / jobs as f64,
            reasons,
        }
    });
    let mut nodes: Vec<NodeFailures> = nodes.collect();
    nodes.sort_by_cached_key(|node| (Reverse(node.failed), node.jobs, Arc::clone(&node.node)));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Phase;
    use crate::gather::disk::Unreadable;
    use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
    use crate::model::job::{JobId, JobTag};
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
}
