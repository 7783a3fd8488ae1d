//! The world of the model: a cluster with queue and accounting, a disk of markers, and clocks.
//!
//! It does what Slurm does on a bad day (see the comments at each kind of trouble) and nothing that it
//! never does. All times are seconds on the cluster's clock.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use snbb_scheduler::executor::{JobRequest, Phase};
use snbb_scheduler::model::job::{JobId, JobTag};
use snbb_scheduler::model::state::{Reason, TaskKey};

/// How long the queue remembers a job that has ended (MinJobAge).
pub const QUEUE_MEMORY_S: i64 = 300;

/// Clocks that are further apart than this cannot talk: munge refuses the credential.
pub const MUNGE_TTL_S: i64 = 300;

/// Is one job that Slurm accepted.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: u32,
    /// Which task of an array it is; all of them have one id and one name.
    pub index: Option<usize>,
    /// None: a job of the user that has nothing to do with the study.
    pub key: Option<TaskKey>,
    pub name: String,
    /// None: submitted by hand.
    pub tag: Option<JobTag>,
    pub course: Course,
    /// Its course before it was requeued: accounting shows that until the new one has arrived.
    pub before: Option<Course>,
    /// Accounting never hears of it.
    pub record_lost: bool,
    /// Seconds until accounting hears of a start or an end.
    pub lag: i64,
    /// The files of the state were not taken back since it was accepted, and nothing hid it: some
    /// file must name it.
    pub must_be_known: bool,
}

#[derive(Debug, Clone)]
pub struct Course {
    pub phase: Phase,
    pub submitted: i64,
    pub started: Option<i64>,
    pub ended: Option<i64>,
}

/// Says what accounting answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accounting {
    Up,
    Down,
    /// Exit code 0 and nothing: a broken table.
    Empty,
    /// The site has none.
    Off,
}

/// Says what the next call of sbatch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmissionState {
    Accepted,
    /// Accepted, and sbatch does not say so.
    DoubtWithJob,
    /// Nothing was accepted, and sbatch does not say so.
    DoubtWithoutJob,
    /// sbatch gives up, and a frozen controller takes the job so many seconds later.
    DoubtLate(i64),
    Permanent,
    /// Of an array: the site takes no such one. A single job is accepted.
    NoArray,
    Limit,
    Transient,
    /// The scheduler dies: before it starts sbatch, while sbatch has sent the job, or then and the
    /// controller takes the job later.
    DiesBefore,
    DiesAfter,
    DiesLate(i64),
}

/// Holds all of it.
#[derive(Debug)]
pub struct World {
    pub now: i64,
    /// The scheduler's clock is ahead by this.
    pub skew: i64,
    pub jobs: Vec<Job>,
    /// Jobs, or the tasks of an array, that a frozen controller takes at a time.
    pub late: Vec<(i64, Vec<Job>)>,
    pub next_id: u32,
    pub queue_up: bool,
    pub accounting: Accounting,
    /// Whether sacct knows submit lines (since Slurm 21.08).
    pub submit_line: bool,
    /// The next answer of the queue lacks the jobs that it is asked about.
    pub queue_blinks: bool,
    /// Its last answer did. It never does so twice in a row: that is what a lost job looks like.
    pub queue_blinked: bool,
    /// A running job ends between the answers of queue and accounting.
    pub ends_between: bool,
    /// What the next calls of sbatch do; accepted when there is none.
    pub fates: Vec<SubmissionState>,
    /// Markers: when they are seen, and their modification time.
    pub disk: BTreeMap<TaskKey, (i64, i64)>,
    /// Tasks that have two live jobs through no fault of the scheduler's.
    pub excused: Vec<TaskKey>,
    /// With a lock that lies, two calls may submit the same task.
    pub lock_lies: bool,
}

/// Ids that jobs get after a recycling begin here.
const FIRST_ID: u32 = 1;

impl World {
    pub fn new(accounting: Accounting, submit_line: bool) -> Self {
        Self {
            now: 1_800_000_000,
            skew: 0,
            jobs: Vec::new(),
            late: Vec::new(),
            next_id: FIRST_ID,
            queue_up: true,
            accounting,
            submit_line,
            queue_blinks: false,
            queue_blinked: false,
            ends_between: false,
            fates: Vec::new(),
            disk: BTreeMap::new(),
            excused: Vec::new(),
            lock_lies: false,
        }
    }

    /// Returns the time on the scheduler's clock.
    pub fn host_now(&self) -> DateTime<Utc> {
        time(self.now + self.skew)
    }

    /// Lets time pass. Jobs that a frozen controller has taken meanwhile appear.
    pub fn wait(&mut self, seconds: i64) {
        self.now += seconds;
        self.take_late(self.now);
    }

    /// Lets all jobs appear that are on their way. What is on its way takes seconds; so whatever
    /// changes clocks or files happens after it.
    pub fn settle(&mut self) {
        self.take_late(i64::MAX);
    }

    /// Sets all clocks back. What is known and seen by now stays so.
    pub fn set_back(&mut self, seconds: i64) {
        let before = self.now;
        self.settle();
        self.now -= seconds;
        for (seen, _) in self.disk.values_mut() {
            if *seen <= before {
                *seen = (*seen).min(self.now);
            }
        }
        for job in &mut self.jobs {
            job.lag = 0;
        }
    }

    fn take_late(&mut self, until: i64) {
        let (due, later) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, _)| *at <= until);
        self.late = later;
        for (at, mut jobs) in due {
            for job in &mut jobs {
                job.course.submitted = at.min(self.now);
            }
            self.accept(jobs);
        }
    }

    /// Runs sbatch for a job, or for the tasks of an array, which then has this name; returns the id if it was
    /// taken now.
    pub fn take(
        &mut self,
        requests: &[&JobRequest],
        array: Option<&str>,
        delay: Option<i64>,
    ) -> Option<u32> {
        let mut jobs = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            self.check_submission(&request.key);
            let mut job = self.make_job(
                Some(request.key.clone()),
                array.unwrap_or(&request.job_name),
                Some(JobTag {
                    project: request.project.clone(),
                    submission_id: request.submission_id.clone(),
                }),
            );
            job.index = array.map(|_| index);
            jobs.push(job);
        }
        match delay {
            Some(delay) => {
                self.late.push((self.now + delay, jobs));
                None
            }
            None => Some(self.accept(jobs)),
        }
    }

    /// Gives jobs that were submitted together their id.
    fn accept(&mut self, jobs: Vec<Job>) -> u32 {
        let id = self.new_id();
        self.jobs
            .extend(jobs.into_iter().map(|job| Job { id, ..job }));
        id
    }

    /// The heart of the promise, judged at the very moment: no live job of this task, nor on its
    /// way; and no live job of what it depends on.
    fn check_submission(&self, key: &TaskKey) {
        let rivals: Vec<&Job> = self
            .all_jobs()
            .filter(|job| job.key.as_ref() == Some(key) && job.is_live())
            .collect();
        assert!(
            rivals.is_empty() || self.lock_lies,
            "{key} is submitted while it has jobs: {rivals:#?}"
        );
        let writers: Vec<&Job> = self
            .jobs
            .iter()
            .filter(|job| job.is_live())
            .filter(|job| job.key.as_ref().is_some_and(|other| feeds(other, key)))
            .collect();
        assert!(
            writers.is_empty() || self.lock_lies,
            "{key} is submitted while its input is being written: {writers:#?}"
        );
    }

    pub fn make_job(&self, key: Option<TaskKey>, name: &str, tag: Option<JobTag>) -> Job {
        Job {
            id: 0,
            index: None,
            key,
            name: name.to_owned(),
            tag,
            course: Course {
                phase: Phase::Queued,
                submitted: self.now,
                started: None,
                ended: None,
            },
            before: None,
            record_lost: false,
            lag: 0,
            must_be_known: !matches!(self.accounting, Accounting::Empty | Accounting::Off),
        }
    }

    /// Gives out ids in order and skips those that the controller still remembers.
    pub fn new_id(&mut self) -> u32 {
        while self
            .jobs
            .iter()
            .any(|job| job.id == self.next_id && self.is_remembered(job))
        {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// True while the queue shows the job.
    pub fn is_remembered(&self, job: &Job) -> bool {
        job.course
            .ended
            .is_none_or(|ended| self.now - ended < QUEUE_MEMORY_S)
    }

    /// All jobs, those on their way included.
    pub fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        let late = self.late.iter().flat_map(|(_, jobs)| jobs);
        self.jobs.iter().chain(late)
    }

    /// Jobs of the scheduler's that live.
    pub fn live(&self, key: &TaskKey) -> Vec<&Job> {
        self.jobs
            .iter()
            .filter(|job| job.tag.is_some() && job.key.as_ref() == Some(key) && job.is_live())
            .collect()
    }

    pub fn is_complete_on_disk(&self, key: &TaskKey) -> bool {
        self.disk
            .get(key)
            .is_some_and(|(seen, _)| *seen <= self.now)
    }

    /// Ends a job; with a delay, its marker is seen that much later.
    pub fn end(&mut self, at: usize, phase: Phase, marker: Option<i64>) {
        let now = self.now;
        let job = &mut self.jobs[at];
        job.course.started.get_or_insert(now);
        job.course.phase = phase;
        job.course.ended = Some(now);
        if let (Some(delay), Some(key)) = (marker, job.key.clone()) {
            self.disk.insert(key, (now + delay, now));
        }
    }

    /// Puts a job back into the queue under its id.
    pub fn requeue(&mut self, at: usize) {
        let now = self.now;
        let job = &mut self.jobs[at];
        job.before = Some(job.course.clone());
        job.course = Course {
            phase: Phase::Queued,
            submitted: now,
            started: None,
            ended: None,
        };
    }
}

impl Job {
    pub fn is_live(&self) -> bool {
        self.course.phase.is_live()
    }

    pub fn job_id(&self) -> JobId {
        match self.index {
            Some(index) => JobId::new(&format!("{}_{index}", self.id)),
            None => JobId::new(&self.id.to_string()),
        }
    }

    /// A task of an array that never started leaves no trace in accounting when it is cancelled.
    pub fn is_forgotten(&self) -> bool {
        self.index.is_some() && self.course.started.is_none()
    }

    pub fn submission_id(&self) -> Option<&str> {
        self.tag.as_ref().map(|tag| tag.submission_id.as_str())
    }

    /// True if it was ever in this final phase; a requeued job has several.
    pub fn ended_as(&self, reason: Reason) -> bool {
        [Some(&self.course), self.before.as_ref()]
            .into_iter()
            .flatten()
            .any(|course| course.phase == Phase::Failed(reason))
    }
}

pub fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::seconds(seconds)
}

/// True if a task's outputs are another one's input.
pub fn feeds(input: &TaskKey, task: &TaskKey) -> bool {
    let same_session = input.session == task.session || task.session.is_empty();
    &*input.procedure == "a"
        && &*task.procedure != "a"
        && input.subject == task.subject
        && same_session
}
