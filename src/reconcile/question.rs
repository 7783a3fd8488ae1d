//! What a pass asks Slurm about: the jobs in flight, the submissions in doubt, and a job that accounting must know.

use chrono::{DateTime, Duration, Utc};

use crate::executor::{Doubt, Question};
use crate::job::JobRef;
use crate::state::{State, TaskRow};

/// A job that ended longer ago than this before the newest submission proves nothing: sites purge old
/// records, some after two weeks. With an older one every answer would be taken for that of a broken database.
const CANARY_AGE: Duration = Duration::days(7);

/// Makes the question of one pass: one queue call, accounting for what is in flight. Of rows in doubt
/// nobody knows on which cluster their job may be: who asks adds those that the configuration names.
pub fn question(rows: &State) -> Question {
    let mut question = Question::default();
    let mut canary: Option<&TaskRow> = None;
    let mut newest: Option<DateTime<Utc>> = None;
    for row in rows.rows() {
        if row.is_in_doubt() {
            question.in_doubt.extend(doubt(row));
            newest = newest.max(row.submitted_at);
            question.since = earlier(question.since, row.submitted_at);
        } else if row.is_in_flight() {
            question.jobs.extend(job_ref(row));
            newest = newest.max(row.submitted_at);
            question.since = earlier(question.since, row.submitted_at);
        } else if is_known_to_accounting(row)
            && canary.is_none_or(|best| best.facts.ended_at < row.facts.ended_at)
        {
            canary = Some(row);
        }
    }
    for cluster in question.jobs.iter().filter_map(|job| job.cluster.clone()) {
        if !question.clusters.contains(&cluster) {
            question.clusters.push(cluster);
        }
    }
    if let Some(newest) = newest {
        let canary =
            canary.filter(|row| newest - row.facts.ended_at.unwrap_or_default() < CANARY_AGE);
        question.canary = canary.and_then(job_ref);
        question.since = earlier(question.since, canary.and_then(|row| row.submitted_at));
    }
    question
}

/// The queue's memory of an end tells no exit code: that came from accounting itself.
fn is_known_to_accounting(row: &TaskRow) -> bool {
    row.job_id.is_some() && row.facts.exit_code.is_some()
}

fn earlier(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn doubt(row: &TaskRow) -> Option<Doubt> {
    Some(Doubt {
        submission_id: row.submission_id.clone()?,
        job_name: row.job_name.clone()?,
        intent_at: row.submitted_at?,
    })
}

fn job_ref(row: &TaskRow) -> Option<JobRef> {
    Some(JobRef {
        id: row.job_id.clone()?,
        cluster: row.facts.cluster.clone(),
    })
}
