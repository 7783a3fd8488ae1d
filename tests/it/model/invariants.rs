//! What must hold after every step, whatever the world does.

use std::collections::HashSet;

use snbb_scheduler::act::pass::PassError;
use snbb_scheduler::act::submit::Halt;
use snbb_scheduler::executor::Phase;
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{Reason, State, TaskRow, TaskStatus};

use super::rig::{Ended, Rig, Told};
use super::world::{Accounting, Job, MUNGE_TTL_S, World};

/// Judges the files and the jobs; holds at any time.
pub fn always(rig: &Rig) {
    let state = rig.read();
    let world = rig.world.get();
    assert!(state.warnings.is_empty(), "{:?}", state.warnings);
    for row in state.rows() {
        row_makes_sense(row, &world);
    }
    for key in Rig::tasks() {
        let live = world.live(&key);
        assert!(
            live.len() <= 1 || world.excused.contains(&key),
            "{key} has several live jobs: {live:#?}"
        );
    }
    accepted_jobs_are_known(rig, &state, &world);
}

fn row_makes_sense(row: &TaskRow, world: &World) {
    assert!(Rig::tasks().contains(&row.key), "{row:?} is no task");
    let reason = row.reason.expect("all rows are ours");
    assert!(reason.fits(row.status), "{row:?}");
    match &row.job_id {
        None => assert_eq!(reason, Reason::Submitting, "{row:?}"),
        Some(_) => assert!(
            job_of(row, world).is_some(),
            "{row:?} has a job that is not its task's"
        ),
    }
}

/// Each job that sbatch was ever asked for stands in a row, in the attempts, or is in doubt.
fn accepted_jobs_are_known(rig: &Rig, state: &State, world: &World) {
    let attempts = rig.store.read_attempts().unwrap();
    let known: HashSet<&str> = attempts
        .iter()
        .chain(state.rows())
        .chain(state.superseded())
        .filter_map(|row| row.submission_id.as_deref())
        .collect();
    for job in world.all_jobs() {
        let Some(id) = job.submission_id() else {
            continue;
        };
        assert!(
            known.contains(id) || !job.must_be_known,
            "no file knows {job:#?}; rows: {:#?}",
            state.rows()
        );
    }
}

/// Judges what a call did to the rows, and what it would have said.
pub fn after_call(rig: &Rig, before: &State, ended: &Ended) {
    let after = rig.read();
    let world = rig.world.get();
    for row in after.rows() {
        match before.get(&row.key) {
            Some(old) if same_attempt(old, row) => verdict_is_right(old, row, &world),
            _ if row.is_in_flight() => {}
            // A new attempt is in flight, whatever happens next.
            old => panic!("{row:?} has a verdict at once; before: {old:?}"),
        }
    }
    for old in before
        .rows()
        .iter()
        .filter(|old| after.get(&old.key).is_none())
    {
        assert!(
            old.is_in_doubt() && submission_is_gone(old, &world),
            "the row is gone: {old:?}"
        );
    }
    match ended {
        Ended::Done(told) => {
            let submitted = &told.submitted;
            let failed = matches!(
                submitted.stopped,
                Some((Halt::Journal(_) | Halt::Lock(_), _))
            );
            assert!(submitted.unsaved.is_none() && !failed, "{submitted:?}");
            every_live_job_is_accounted_for(told, &after, &world);
        }
        Ended::Died => {}
        Ended::Failed(PassError::QueueUnknown(_)) => assert!(told_nothing(&world), "{ended:?}"),
        Ended::Failed(error) => panic!("under a lock that holds: {error:?}"),
    }
}

fn told_nothing(world: &World) -> bool {
    !world.queue_up || world.skew.abs() > MUNGE_TTL_S
}

fn same_attempt(old: &TaskRow, new: &TaskRow) -> bool {
    old.submission_id == new.submission_id && (old.job_id.is_none() || old.job_id == new.job_id)
}

fn verdict_is_right(old: &TaskRow, new: &TaskRow, world: &World) {
    let verdict = |row: &TaskRow| (row.status, row.reason);
    if verdict(old) == verdict(new) {
        return;
    }
    let job = job_of(new, world);
    let was_requeued = job.is_some_and(|job| job.before.is_some());
    if !old.is_in_flight() {
        let late = matches!(old.reason, Some(Reason::NoOutput | Reason::Lost))
            && new.status == TaskStatus::Complete;
        let corrected = old.facts.ended_at.is_none() && new.facts.ended_at.is_some();
        // An earlier run's end was believed, and that of a later one is known now.
        let ran_again = was_requeued && new.facts.ended_at > old.facts.ended_at;
        assert!(
            late || corrected || ran_again || was_requeued && new.is_in_flight(),
            "a verdict changed: {old:?} -> {new:?}"
        );
    }
    if new.is_in_flight() {
        return;
    }
    let job = job.unwrap_or_else(|| panic!("{new:?} has a verdict and no job"));
    assert!(!job.is_live(), "a verdict on a live job: {new:?}, {job:#?}");
    match new.reason {
        Some(Reason::Verified) => assert!(
            world.is_complete_on_disk(&new.key),
            "{new:?} is complete without a marker"
        ),
        Some(Reason::NoOutput) => {
            assert_eq!(job.course.phase, Phase::Completed, "{new:?}");
        }
        Some(Reason::Lost) => assert!(
            job.record_lost || world.accounting != Accounting::Up,
            "{new:?} is lost although accounting knows {job:#?}"
        ),
        // A task of an array of which Slurm shows nothing while it shows others counts as cancelled.
        Some(Reason::Cancelled) if job.index.is_some() && job.record_lost => {}
        Some(reason) => assert!(job.ended_as(reason), "{new:?} for {job:#?}"),
        None => unreachable!("checked before"),
    }
}

/// A submission may only be taken for one that never was if nobody can know of its job.
fn submission_is_gone(row: &TaskRow, world: &World) -> bool {
    world
        .all_jobs()
        .filter(|job| job.submission_id() == row.submission_id.as_deref())
        .all(|job| !job.must_be_known && !job.is_live())
}

/// Whatever of ours the queue showed alive has a row by now, is looked for, or is shown to a person.
fn every_live_job_is_accounted_for(told: &Told, state: &State, world: &World) {
    let Some(decided) = &told.decided else {
        return;
    };
    for (id, submission) in &told.seen {
        let lives = world.jobs.iter().any(|job| {
            job.job_id() == *id && job.submission_id() == Some(submission) && job.is_live()
        });
        let has_row = state.rows().iter().any(|row| {
            row.is_in_flight()
                && (row.job_id.as_ref() == Some(id)
                    || row.submission_id.as_deref() == Some(submission))
        });
        let is_shown = decided
            .strays
            .doubled
            .iter()
            .any(|(_, shown)| shown.id == *id);
        assert!(
            !lives || has_row || is_shown,
            "job {id} lives and is nowhere; rows: {:#?}",
            state.rows()
        );
    }
}

/// Finds the job of a row: by its submission id, else by its job id and task.
pub fn job_of<'w>(row: &TaskRow, world: &'w World) -> Option<&'w Job> {
    let is_its =
        |job: &&Job| Some(job.job_id()) == row.job_id && job.key.as_ref() == Some(&row.key);
    let by_submission = world
        .jobs
        .iter()
        .filter(|job| {
            row.submission_id.is_some() && job.submission_id() == row.submission_id.as_deref()
        })
        .find(|job| {
            row.job_id
                .as_ref()
                .is_none_or(|id: &JobId| *id == job.job_id())
        });
    by_submission.or_else(|| world.jobs.iter().rev().find(is_its))
}
