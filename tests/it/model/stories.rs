//! Stories that once went wrong, in few steps.

use snbb_scheduler::model::state::Reason;

use super::rig::{Call, Rig};
use super::steps::Step;
use super::world::{Accounting, SubmissionState};
use super::{tell, tell_of};

fn run(fates: &[SubmissionState]) -> Step {
    Step::Call(Call::default(), fates.to_vec())
}

/// squeue lacked a pending job for one answer, and its marker stood: the task counted as complete, and
/// what depends on it started.
#[test]
fn a_marker_beside_a_queue_that_blinks() {
    tell(
        Accounting::Up,
        false,
        &[
            run(&[]),
            Step::MarkerAppears(0),
            Step::QueueBlinks,
            run(&[]),
        ],
    );
}

/// The host's clock was five minutes ahead: a job in doubt seemed to be older than its submission, and
/// was not found by name and time.
#[test]
fn a_job_in_doubt_of_a_host_whose_clock_is_ahead() {
    tell(
        Accounting::Up,
        false,
        &[
            Step::HostClock(290),
            run(&[SubmissionState::DoubtWithJob]),
            Step::Start(2),
            Step::EndWell(0, None),
            Step::Wait(1000),
            run(&[]),
            Step::Wait(310),
            run(&[]),
        ],
    );
}

/// A job in doubt had an id that the row of another task's finished job still held: it was not adopted,
/// its task was released.
#[test]
fn a_job_in_doubt_with_the_id_of_another_rows_old_job() {
    tell(
        Accounting::Up,
        true,
        &[
            run(&[]),
            Step::Start(0),
            Step::Start(0),
            Step::Start(0),
            Step::EndBadly(0, Reason::ExitCode, None),
            Step::EndBadly(0, Reason::ExitCode, None),
            Step::EndBadly(0, Reason::ExitCode, None),
            Step::Wait(400),
            run(&[]),
            Step::Retry(1),
            Step::RecycleIds,
            run(&[SubmissionState::DoubtWithJob]),
            Step::Start(0),
            Step::EndWell(0, None),
            Step::Wait(10),
            run(&[]),
            Step::Wait(310),
            run(&[]),
        ],
    );
}

/// The clocks were set back while a job ran: its end lies before its start, and was taken for the end of an
/// earlier run.
#[test]
fn a_job_that_ends_before_it_started() {
    tell(
        Accounting::Up,
        false,
        &[
            run(&[]),
            Step::Start(0),
            Step::Delete {
                journal: false,
                attempts: false,
            },
            run(&[]),
            Step::SetBack(2644),
        ],
    );
}

/// The same with a requeue: the end of the second run lies before the start of the first, and counted as that
/// of the first, so that the job was lost.
#[test]
fn a_job_whose_second_run_ends_before_the_first_began() {
    tell(
        Accounting::Up,
        false,
        &[
            run(&[SubmissionState::Accepted]),
            Step::Wait(15_183),
            run(&[SubmissionState::Accepted, SubmissionState::DoubtWithoutJob]),
            Step::Start(0),
            Step::Delete {
                journal: false,
                attempts: false,
            },
            Step::Start(3),
            run(&[]),
            Step::SetBack(2597),
            Step::EndBadly(3, Reason::Timeout, None),
            Step::Requeue(3),
            Step::Retry(4),
            Step::Lag(6, 12),
            Step::Start(7),
        ],
    );
}

/// The same where sacct knows no submit lines: the other row's job has another name.
#[test]
fn a_job_in_doubt_with_such_an_id_that_only_its_name_tells() {
    tell(
        Accounting::Up,
        false,
        &[
            run(&[SubmissionState::Accepted, SubmissionState::DiesBefore]),
            Step::Start(0),
            Step::EndWell(0, Some(0)),
            Step::Wait(900),
            run(&[SubmissionState::DiesBefore]),
            Step::RecycleIds,
            run(&[SubmissionState::DoubtWithJob]),
            Step::Start(0),
            Step::EndWell(0, None),
            Step::Wait(900),
            run(&[]),
            Step::Wait(310),
            run(&[]),
        ],
    );
}

/// A site without accounting: a task of an array ran between two passes, the queue had forgotten it, and its
/// output came late. It counted as cancelled, which no output mends.
#[test]
fn a_task_of_an_array_that_ran_unseen_where_there_is_no_accounting() {
    tell_of(
        Rig::new(Accounting::Off, false, Some(2)),
        &[
            run(&[]),
            Step::Start(1),
            Step::EndWell(0, Some(450)),
            Step::Wait(320),
            run(&[]),
            Step::Wait(5),
            run(&[]),
        ],
    );
}
