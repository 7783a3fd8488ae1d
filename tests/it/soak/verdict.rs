//! Judges what is left of a soak: nothing lost, nothing doubled, each end explained. Pure.

use std::collections::{BTreeMap, BTreeSet};

use snbb_scheduler::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::store::audit_log::EventKind;

use super::evidence::{Account, Evidence, Mark};
use super::site::{Act, PROCEDURES};

/// Returns each fault in a line.
pub fn judge(evidence: &Evidence) -> Vec<String> {
    let mut faults = Vec::new();
    faults.extend(
        evidence
            .complaints
            .iter()
            .map(|text| format!("state verify: {text}")),
    );
    faults.extend(
        evidence
            .left
            .iter()
            .map(|name| format!("{name} was left behind")),
    );
    accepted_jobs_are_known(evidence, &mut faults);
    submissions_are_single(evidence, &mut faults);
    tasks_have_one_living_job(evidence, &mut faults);
    tasks_have_their_rows(evidence, &mut faults);
    ends_are_explained(evidence, &mut faults);
    counts_add_up(evidence, &mut faults);
    faults
}

fn name(key: &TaskKey) -> String {
    format!("{} {} {}", key.procedure, key.subject, key.session)
        .trim_end()
        .to_owned()
}

fn all_rows(evidence: &Evidence) -> impl Iterator<Item = &TaskRow> {
    evidence.rows.iter().chain(&evidence.attempts)
}

/// Which task the program says that a job belongs to.
fn known_jobs(evidence: &Evidence) -> BTreeMap<&str, &TaskKey> {
    let rows = all_rows(evidence).filter_map(|row| Some((row.job_id.as_ref()?.as_str(), &row.key)));
    let events = evidence
        .events
        .iter()
        .filter_map(|event| Some((event.job_id.as_ref()?.as_str(), &event.key)));
    events.chain(rows).collect()
}

fn accepted_jobs_are_known(evidence: &Evidence, faults: &mut Vec<String>) {
    let known = known_jobs(evidence);
    let arrays: BTreeSet<&str> = known
        .keys()
        .filter_map(|job| Some(job.split_once('_')?.0))
        .collect();
    let accepted: BTreeSet<&str> = evidence
        .records
        .iter()
        .map(|record| record.job.as_str())
        .collect();
    for job in accepted {
        let is_known = known.contains_key(job)
            || ((job.contains('[') || !job.contains('_'))
                && arrays.contains(job.split('_').next().unwrap_or(job)));
        if !is_known {
            faults.push(format!("Slurm accepted job {job}, and nothing knows it"));
        }
    }
    for line in &evidence.log {
        match known.get(line.job.as_str()) {
            None => faults.push(format!(
                "job {} ran as {}, and nothing knows it",
                line.job,
                name(&line.key)
            )),
            Some(key) if **key != line.key => faults.push(format!(
                "job {} ran as {} and is recorded as {}",
                line.job,
                name(&line.key),
                name(key)
            )),
            Some(_) => {}
        }
    }
}

fn submissions_are_single(evidence: &Evidence, faults: &mut Vec<String>) {
    let mut jobs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in &evidence.records {
        match &record.mark {
            Some(mark) => drop(jobs.entry(mark).or_default().insert(record.base())),
            None => faults.push(format!("job {} has no mark of ours", record.job)),
        }
    }
    for (mark, jobs) in jobs.iter().filter(|(_, jobs)| jobs.len() > 1) {
        faults.push(format!("submission {mark} became the jobs {jobs:?}"));
    }
}

/// Of each task the next job was submitted only when the one before had ended, by Slurm's own times.
fn tasks_have_one_living_job(evidence: &Evidence, faults: &mut Vec<String>) {
    let known = known_jobs(evidence);
    let mut lives: BTreeMap<&TaskKey, BTreeMap<&str, (i64, Option<i64>)>> = BTreeMap::new();
    for record in &evidence.records {
        let Some(key) = known.get(record.job.as_str()) else {
            continue;
        };
        let jobs = lives.entry(key).or_default();
        let life = jobs
            .entry(record.job.as_str())
            .or_insert((record.submit, Some(0)));
        life.0 = life.0.min(record.submit);
        life.1 = life.1.zip(record.end).map(|(one, other)| one.max(other));
    }
    for (key, jobs) in lives {
        let mut jobs: Vec<_> = jobs.into_iter().collect();
        jobs.sort_by_key(|(_, (submit, _))| *submit);
        for pair in jobs.windows(2) {
            let ((one, (_, end)), (other, (submit, _))) = (pair[0], pair[1]);
            if end.is_none_or(|end| end > submit) {
                faults.push(format!(
                    "{}: job {other} was submitted at {submit} while job {one} lived (end {end:?})",
                    name(key)
                ));
            }
        }
        if let Some((job, (_, None))) = jobs.last() {
            faults.push(format!("{}: job {job} has not ended", name(key)));
        }
    }
    for line in evidence
        .log
        .iter()
        .filter(|line| line.mark == Mark::Overlap && line.note != line.job)
    {
        // Slurm itself lets a job live for a moment on a node that it has given up.
        let other = record_of(evidence, &line.note);
        if other.is_none_or(|record| record.state != "NODE_FAIL") {
            faults.push(format!(
                "{}: job {} ran while job {} still did",
                name(&line.key),
                line.job,
                line.note
            ));
        }
    }
}

/// The last thing that accounting says of a job.
fn record_of<'a>(evidence: &'a Evidence, job: &str) -> Option<&'a Account> {
    let whole = |record: &&Account| {
        record.job.contains('[') && record.base() == job.split('_').next().unwrap_or(job)
    };
    let own = evidence.records.iter().filter(|record| record.job == job);
    own.max_by_key(|record| record.submit)
        .or_else(|| evidence.records.iter().find(whole))
}

fn tasks_have_their_rows(evidence: &Evidence, faults: &mut Vec<String>) {
    let rows: BTreeMap<&TaskKey, &TaskRow> =
        evidence.rows.iter().map(|row| (&row.key, row)).collect();
    if rows.len() != evidence.rows.len() {
        faults.push("a task has two rows".to_owned());
    }
    let outputs: BTreeMap<&TaskKey, &String> = evidence
        .outputs
        .iter()
        .map(|(key, job)| (key, job))
        .collect();
    // Complete without a row: `retry` has cleared it before its outputs came.
    let is_complete = |key: &TaskKey| match rows.get(key) {
        Some(row) => row.status == TaskStatus::Complete,
        None => outputs.contains_key(key),
    };
    let mut expected = BTreeSet::new();
    for (subject, session) in &evidence.sessions {
        let [convert, prep, group] = PROCEDURES;
        let convert = TaskKey::new(subject, session, convert);
        let prep = TaskKey::new(subject, session, prep);
        let group = TaskKey::new(subject, "", group);
        let sessions = || {
            evidence
                .sessions
                .iter()
                .filter(|(other, _)| other == subject)
        };
        let all_prepared = sessions()
            .all(|(_, session)| is_complete(&TaskKey::new(subject, session, PROCEDURES[1])));
        for (key, is_due) in [
            (&convert, true),
            (&prep, is_complete(&convert)),
            (&group, all_prepared),
        ] {
            if is_due && !rows.contains_key(key) && !outputs.contains_key(key) {
                faults.push(format!("{} has no row and no output", name(key)));
            }
        }
        expected.extend([convert, prep, group]);
    }
    for key in rows.keys().filter(|key| !expected.contains(**key)) {
        faults.push(format!("{} is no task", name(key)));
    }
}

fn ends_are_explained(evidence: &Evidence, faults: &mut Vec<String>) {
    let outputs: BTreeMap<&TaskKey, &str> = evidence
        .outputs
        .iter()
        .map(|(key, job)| (key, job.as_str()))
        .collect();
    let fates: BTreeMap<&str, &str> = evidence
        .log
        .iter()
        .filter(|line| line.mark == Mark::Start)
        .map(|line| (line.job.as_str(), line.note.as_str()))
        .collect();
    let newest = evidence.rows.iter().map(|row| (row, true));
    for (row, is_newest) in newest.chain(evidence.attempts.iter().map(|row| (row, false))) {
        let job = row.job_id.as_ref().map_or("-", |id| id.as_str());
        let fate = fates.get(job).copied();
        let record = record_of(evidence, job);
        let marker = is_newest.then(|| outputs.get(&row.key).copied());
        if let Err(why) = explain(evidence, row, job, fate, record, marker, &fates) {
            let state = record.map_or("unknown to accounting", |record| record.state.as_str());
            faults.push(format!(
                "{} attempt {} is {} {} ({why}); job {job}: {state}; its fate: {}",
                name(&row.key),
                row.attempt.unwrap_or(0),
                row.status.as_str(),
                row.reason.map_or("-", Reason::as_str),
                fate.unwrap_or("it never started"),
            ));
        }
    }
}

/// `marker`: the job that the marker on disk names, for a newest attempt.
fn explain(
    evidence: &Evidence,
    row: &TaskRow,
    job: &str,
    fate: Option<&str>,
    record: Option<&Account>,
    marker: Option<Option<&str>>,
    fates: &BTreeMap<&str, &str>,
) -> Result<(), &'static str> {
    let reason = row.reason;
    let status = row.status;
    if row.job_id.is_none() {
        return Err("it has no job");
    }
    if status.is_in_flight() {
        // `retry` clears those that Slurm no longer has; what became of them may not be known.
        return match (marker, reason) {
            (None, Some(Reason::Unaccounted | Reason::AwaitingOutput)) => Ok(()),
            (None, _) => Err("it was cleared without its end"),
            (Some(_), _) => Err("nothing moves any more"),
        };
    }
    if status == TaskStatus::Complete {
        return match marker {
            Some(None) => Err("there is no output"),
            // What came late may be that of an earlier attempt. A job that succeeds may also leave what a failed one
            // had made as it is.
            Some(Some(by))
                if by != job && !matches!(fates.get(by), Some(&("tardy" | "late" | "betrays"))) =>
            {
                Err("the output is another job's")
            }
            _ if !matches!(fate, Some("good" | "slow" | "late" | "tardy" | "silent"))
                && marker.is_none_or(|by| by == Some(job)) =>
            {
                Err("its job did not succeed")
            }
            _ => Ok(()),
        };
    }
    let was_cancelled_by = |uid: Option<u32>| {
        evidence.acts.iter().any(|act| match act {
            Act::Scancel(id, by) => id == job && uid.is_none_or(|uid| uid == *by),
            Act::Cancel(subject) => {
                row.key.subject.as_ref() == subject && uid.is_none_or(|uid| uid == evidence.uid)
            }
            _ => false,
        })
    };
    let Some(record) = record else {
        // Slurm forgets what is cancelled while it waits in an array.
        return match reason {
            Some(Reason::Cancelled | Reason::Lost)
                if fate.is_none() && job.contains('_') && was_cancelled_by(None) =>
            {
                Ok(())
            }
            // The queue has shown the end; a controller that was killed told accounting nothing.
            Some(Reason::NoOutput) if fate == Some("silent") => Ok(()),
            _ => Err("accounting does not know why"),
        };
    };
    let word = record.state.split(' ').next().unwrap_or("");
    match (word, reason) {
        ("COMPLETED", Some(Reason::NoOutput)) => match (fate, marker) {
            (Some("silent"), _) | (Some("late" | "tardy"), None) => Ok(()),
            (Some("late" | "tardy"), Some(None)) => Ok(()),
            (_, Some(Some(_))) => Err("its output is there"),
            _ => Err("its job left an output"),
        },
        ("FAILED", Some(Reason::ExitCode)) => match fate {
            Some("fails" | "fails75" | "betrays") => Ok(()),
            Some("memory") if !evidence.has_memory_limits => Ok(()),
            // "Killing non-startable batch job: Job credential revoked": the node still held the run before.
            _ if evidence.acts.contains(&Act::Requeue(job.to_owned()))
                && row.facts.exit_code.as_deref() == Some("1:0") =>
            {
                Ok(())
            }
            _ => Err("its job did not fail by itself"),
        },
        ("TIMEOUT", Some(Reason::Timeout)) if fate == Some("timeout") => Ok(()),
        ("OUT_OF_MEMORY", Some(Reason::OutOfMemory)) if fate == Some("memory") => Ok(()),
        ("NODE_FAIL", Some(Reason::NodeFail)) if evidence.acts.contains(&Act::NodeDown) => Ok(()),
        // Slurm itself cancels, as root or as nobody, what it could not start on a node that went down.
        ("CANCELLED", Some(Reason::Cancelled | Reason::LaunchFailed | Reason::NodeFail))
            if fate.is_none()
                && matches!(record.state.as_str(), "CANCELLED" | "CANCELLED by 0")
                && evidence.acts.contains(&Act::NodeDown) =>
        {
            Ok(())
        }
        ("CANCELLED", Some(Reason::Cancelled)) => {
            let by = record
                .state
                .rsplit(' ')
                .next()
                .and_then(|uid| uid.parse().ok());
            if was_cancelled_by(by) {
                Ok(())
            } else {
                Err("nobody cancelled it")
            }
        }
        ("CANCELLED", Some(Reason::NodeFail))
            if record.state == "CANCELLED" && evidence.acts.contains(&Act::ControllerRestart) =>
        {
            Ok(())
        }
        _ => Err("that is not what Slurm says"),
    }
}

/// Each attempt has its event, and each event its attempt.
fn counts_add_up(evidence: &Evidence, faults: &mut Vec<String>) {
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for row in all_rows(evidence) {
        match &row.submission_id {
            Some(id) => *kept.entry(id).or_default() += 1,
            None => faults.push(format!("{} has no submission id", name(&row.key))),
        }
    }
    let mut told: BTreeMap<&str, Vec<EventKind>> = BTreeMap::new();
    let mut cleared = BTreeSet::new();
    for event in &evidence.events {
        let id = event
            .fields
            .get("submission_id")
            .and_then(serde_json::Value::as_str);
        let is_begin = matches!(
            event.kind,
            EventKind::Submitted | EventKind::Adopted | EventKind::Released
        );
        cleared.extend(id.filter(|_| event.kind == EventKind::RetryCleared));
        if let (Some(id), true) = (id, is_begin) {
            told.entry(id).or_default().push(event.kind);
        }
    }
    for (id, count) in &kept {
        // A `retry` that was killed has kept the attempt, and its row stays until the next one.
        let most = 1 + usize::from(cleared.contains(id));
        if *count > most {
            faults.push(format!("submission {id} is kept {count} times"));
        }
        let begins = told.get(id).map(Vec::as_slice).unwrap_or_default();
        let begins: Vec<EventKind> = begins
            .iter()
            .filter(|kind| **kind != EventKind::Released)
            .copied()
            .collect();
        match begins.as_slice() {
            // A call that is killed between the event and the journal's line leaves its submission in doubt:
            // the next one finds the job and tells so.
            [EventKind::Submitted | EventKind::Adopted]
            | [EventKind::Submitted, EventKind::Adopted] => {}
            [] => faults.push(format!("submission {id} has no event")),
            more => faults.push(format!("submission {id} has the events {more:?}")),
        }
    }
    for (id, events) in told {
        if !kept.contains_key(id) && !events.contains(&EventKind::Released) {
            faults.push(format!(
                "submission {id} has the events {events:?} and is no attempt"
            ));
        }
    }
    let marks: BTreeSet<&str> = evidence
        .records
        .iter()
        .filter_map(|record| record.mark.as_deref())
        .collect();
    let known: BTreeSet<&str> = kept
        .keys()
        .map(|id| id.split('.').next().unwrap_or(id))
        .collect();
    for mark in marks.difference(&known) {
        faults.push(format!("submission {mark} became a job and is no attempt"));
    }
}
