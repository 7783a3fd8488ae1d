//! The world as the scheduler sees it: the executor and the completions in memory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use snbb_scheduler::executor::ArrayJob;
use snbb_scheduler::executor::array;
use snbb_scheduler::executor::{
    Answer, Executor, ExecutorError, JobReport, JobRequest, Observation, Phase, Question, Refusal,
    Submission,
};
use snbb_scheduler::gather::completion::{Completion, Completions, SubjectCompletions};
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::job::{JobId, JobRef};
use snbb_scheduler::model::procedure::ProcedureId;
use snbb_scheduler::model::state::{JobFacts, TaskKey};

use super::world::{Accounting, Course, Job, MUNGE_TTL_S, SubmissionState, World, time};

/// Is thrown where the scheduler dies; what it held is dropped, only files remain.
#[derive(Debug)]
pub struct Death;

pub fn die() -> ! {
    // Not a panic: no hook, no message.
    std::panic::resume_unwind(Box::new(Death))
}

/// Shares the world between the scheduler and the test.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub fn get(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is the executor of one pass.
pub struct Hand<'a> {
    pub world: Shared,
    /// Jobs that lived when the queue was asked first: id and submission id. A run that submits may ask again whether
    /// it answers at all; what it shows then is for the next pass.
    pub seen: Option<Vec<(JobId, String)>>,
    /// Called before each sbatch, to look at the files.
    pub before_sbatch: &'a dyn Fn(),
    /// How many tasks an array may have; none: there are no arrays.
    pub arrays: Option<usize>,
}

impl Executor for Hand<'_> {
    fn command_line(&self, tasks: &[&JobRequest], _: Option<&ArrayJob>) -> Vec<String> {
        vec!["sbatch".to_owned(), tasks[0].script.clone()]
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        Ok(script.into())
    }

    fn array_limit(&mut self) -> usize {
        self.arrays.unwrap_or(0)
    }

    fn submit(&mut self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Submission {
        let Some(array) = array else {
            return self.sbatch(tasks, None);
        };
        let list = (array::LIST, array::json(array, tasks));
        array::write(&array.dir, &[list]).unwrap();
        // Its age is judged by the world's clock.
        let now = std::time::SystemTime::from(time(self.world.get().now));
        let dir = std::fs::File::open(&array.dir).unwrap();
        dir.set_modified(now).unwrap();
        self.sbatch(tasks, Some(&array.job_name))
    }

    fn observe(&mut self, question: &Question) -> Observation {
        let mut world = self.world.get();
        world.queue_blinks &= !world.queue_blinked;
        let queue = self.queue(&world, question);
        if let Answer::Got(jobs) = &queue {
            self.seen.get_or_insert_with(|| {
                let live = jobs.iter().filter(|job| job.phase.is_live());
                live.filter_map(|job| {
                    Some((job.id.clone(), job.tag.as_ref()?.submission_id.clone()))
                })
                .collect()
            });
        }
        if std::mem::take(&mut world.ends_between) {
            let running = world
                .jobs
                .iter()
                .position(|job| job.key.is_some() && job.course.phase == Phase::Running);
            if let Some(at) = running {
                world.end(at, Phase::Completed, Some(0));
            }
        }
        if queue.got().is_some() {
            world.queue_blinked = std::mem::take(&mut world.queue_blinks);
        }
        Observation {
            accounting: accounting(&world, question),
            queue,
            ..Observation::default()
        }
    }

    fn cancel(&mut self, _jobs: &[JobRef]) -> Result<(), ExecutorError> {
        Ok(())
    }
}

impl Hand<'_> {
    /// Hands a job or an array over; what comes of it is the next fate.
    fn sbatch(&mut self, requests: &[&JobRequest], array: Option<&str>) -> Submission {
        (self.before_sbatch)();
        let fate = {
            let mut world = self.world.get();
            match world.fates.is_empty() {
                true => SubmissionState::Accepted,
                false => world.fates.remove(0),
            }
        };
        let fate = match (fate, array) {
            (SubmissionState::NoArray, None) => SubmissionState::Accepted,
            (fate, _) => fate,
        };
        let take = |delay| self.world.get().take(requests, array, delay);
        let doubt = || Submission::InDoubt {
            message: "Socket timed out".to_owned(),
        };
        let refused = |kind| Submission::Refused {
            kind,
            message: "no".to_owned(),
        };
        match fate {
            SubmissionState::Accepted => match take(None) {
                Some(id) => Submission::Accepted {
                    job_id: JobId::new(&id.to_string()),
                    cluster: None,
                },
                None => doubt(),
            },
            SubmissionState::DoubtWithJob => {
                take(None);
                doubt()
            }
            SubmissionState::DoubtWithoutJob => doubt(),
            SubmissionState::DoubtLate(delay) => {
                take(Some(delay));
                doubt()
            }
            SubmissionState::Permanent => refused(Refusal::Permanent),
            SubmissionState::NoArray => refused(Refusal::ArraySize),
            SubmissionState::Limit => refused(Refusal::Limit),
            SubmissionState::Transient => refused(Refusal::Transient),
            SubmissionState::DiesBefore => die(),
            SubmissionState::DiesAfter => {
                take(None);
                die()
            }
            SubmissionState::DiesLate(delay) => {
                take(Some(delay));
                die()
            }
        }
    }

    fn queue(&self, world: &World, question: &Question) -> Answer<Vec<JobReport>> {
        if !world.queue_up || world.skew.abs() > MUNGE_TTL_S {
            return Answer::Failed("the queue is down".to_owned());
        }
        let jobs = world
            .jobs
            .iter()
            .filter(|job| world.is_remembered(job))
            .filter(|job| {
                let asked = question.jobs.iter().any(|asked| asked.id == job.job_id());
                !(world.queue_blinks && asked)
            })
            .map(|job| report(job, &job.course, true));
        Answer::Got(jobs.collect())
    }
}

/// Answers as sacct -D does: all records of an id.
fn accounting(world: &World, question: &Question) -> Answer<Vec<JobReport>> {
    match world.accounting {
        Accounting::Off => return Answer::Off,
        _ if question.jobs.is_empty() && question.search_from.is_none() => {
            return Answer::Got(Vec::new());
        }
        Accounting::Down => return Answer::Failed("accounting is down".to_owned()),
        _ if world.skew.abs() > MUNGE_TTL_S => return Answer::Failed("munge".to_owned()),
        _ => {}
    }
    let is_asked = |job: &Job| {
        let id = job.job_id();
        question.search_from.is_some()
            || question
                .jobs
                .iter()
                .chain(&question.canary)
                .any(|job| job.id == id)
    };
    let answer: Vec<JobReport> = world
        .jobs
        .iter()
        .filter(|job| world.accounting != Accounting::Empty && is_asked(job))
        .flat_map(|job| {
            recorded(world, job)
                .into_iter()
                .map(move |course| JobReport {
                    facts: JobFacts {
                        // The queue does not tell it.
                        exit_code: course.ended.map(|_| "0:0".into()),
                        ..facts(&course)
                    },
                    has_submit_line: world.submit_line,
                    ..report(job, &course, world.submit_line)
                })
        })
        .collect();
    if question.canary.is_some() && answer.is_empty() {
        return Answer::Failed("the database is not whole".to_owned());
    }
    Answer::Got(answer)
}

/// Returns the job's courses as accounting knows them by now: a requeue adds one.
fn recorded(world: &World, job: &Job) -> Vec<Course> {
    if job.record_lost {
        return Vec::new();
    }
    // What lies ahead of clocks that were set back was long ago.
    let arrived = |at: i64| job.lag == 0 || at > world.now || world.now - at >= job.lag;
    let mut courses: Vec<Course> = job.before.iter().cloned().collect();
    let mut course = job.course.clone();
    if arrived(course.submitted) {
        if course.ended.is_some_and(|ended| !arrived(ended)) {
            course.ended = None;
            course.phase = match course.started {
                Some(_) => Phase::Running,
                None => Phase::Queued,
            };
        }
        courses.push(course);
    }
    courses
}

fn report(job: &Job, course: &Course, tagged: bool) -> JobReport {
    JobReport {
        id: job.job_id(),
        name: job.name.clone(),
        phase: course.phase,
        pending_reason: None,
        submitted_at: Some(time(course.submitted)),
        facts: facts(course),
        tag: job.tag.clone().filter(|_| tagged),
        has_submit_line: false,
    }
}

fn facts(course: &Course) -> JobFacts {
    JobFacts {
        slurm_state: Some(format!("{:?}", course.phase).as_str().into()),
        started_at: course.started.map(time),
        ended_at: course.ended.map(time),
        ..JobFacts::default()
    }
}

/// Shows the markers.
pub struct Disk {
    pub world: Shared,
    /// Names of the procedures, by their number.
    pub procedures: Vec<String>,
}

struct SubjectDisk<'a>(&'a Disk, &'a SubjectLabel);

impl Completions for Disk {
    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(SubjectDisk(self, subject))
    }
}

impl SubjectDisk<'_> {
    fn key(&self, procedure: ProcedureId, session: &SessionLabel) -> TaskKey {
        let name = &self.0.procedures[procedure.index()];
        TaskKey::new(self.1.as_str(), session.as_str(), name)
    }
}

impl SubjectCompletions for SubjectDisk<'_> {
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        let key = self.key(procedure, session);
        match self.0.world.get().is_complete_on_disk(&key) {
            true => Completion::Complete,
            false => Completion::Incomplete,
        }
    }

    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>> {
        let key = self.key(procedure, session);
        let world = self.0.world.get();
        world.disk.get(&key).map(|(_, modified)| time(*modified))
    }
}
