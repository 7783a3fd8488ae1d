//! Stray jobs: live jobs without a row, compared with the tasks before anything is submitted. The state may have been
//! rolled back, deleted or restored while jobs ran.
//!
//! Stray jobs are adopted or reported, never cancelled.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::executor::JobReport;
use crate::model::bids::Session;
use crate::model::job::{JobId, JobRef, array, is_same_study, name_of_study};
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{State, TaskKey, TaskRow};

/// Live jobs in the queue that do not match the rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strays {
    /// The oldest live job of a task without a job in its row.
    pub adopt: Vec<(TaskKey, JobReport)>,
    /// Further live jobs of a task: two jobs may write the same outputs.
    pub doubled: Vec<(TaskKey, JobRef)>,
    /// Jobs with a task's name but without our tag, unknown to rows and audit log: the task waits.
    pub without_row: HashMap<TaskKey, JobId>,
    /// The other study's word in the tag of such a job, or of a job of a study with the same name, if this study has no
    /// state file yet.
    pub other_project: Option<String>,
    /// Jobs with our tag that belong to no current task.
    pub orphans: Vec<(String, JobRef)>,
    /// Our live jobs whose task is unknown, because the task list of their array is gone: their number and one of them,
    /// by procedure, or without a procedure for jobs of any task.
    pub unknown: BTreeMap<Option<Arc<str>>, (usize, JobRef)>,
    /// Live jobs that may be ours or another user's.
    pub unnamed: Vec<JobRef>,
    /// The tasks that wait because of these jobs.
    pub held_back: HashMap<TaskKey, JobId>,
}

/// Records about jobs without a row.
pub struct Records<'a> {
    /// The task for which a job was submitted by the audit log, found by its tag or else its id.
    pub task_of: &'a dyn Fn(&JobReport) -> Option<TaskKey>,
    /// The task list of the array with this submission id or (for a job without a tag) this beginning of one.
    pub listing: &'a dyn Fn(&str) -> TaskListing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskListing {
    /// By index.
    Tasks(Arc<[TaskKey]>),
    /// The list does not exist or cannot be read.
    Gone,
}

impl Strays {
    /// All tasks that wait for a job, with that job.
    pub fn waiting(&self) -> HashMap<TaskKey, JobId> {
        let mut waiting = self.held_back.clone();
        waiting.extend(self.without_row.clone());
        waiting
    }
}

/// `is_new` if the study has no state file yet.
pub fn compare(
    queue: &[JobReport],
    rows: &State,
    dag: &ProcedureDag,
    sessions: &[Session],
    project: &str,
    is_new: bool,
    records: &Records<'_>,
) -> Strays {
    let mut out = Strays::default();
    let live = living(queue);
    if live.is_empty() {
        return out;
    }
    let owners = Owners::of(rows);
    let tasks = Tasks { dag, sessions };
    let mut by_task: BTreeMap<TaskKey, Vec<&JobReport>> = BTreeMap::new();
    for job in live {
        let word = job.tag.as_ref().map(|tag| tag.project.as_str());
        let is_other = word.is_some_and(|word| !is_same_study(word, project));
        let claim = tasks.claim(job, records);
        if let Some(row) = owners.owner(job) {
            match claim {
                // The row was edited: the job still writes the outputs of its original task.
                Claim::Task(key) if key != row.key && !is_logged_for(row, job, records) => {
                    out.without_row.insert(key, job.id.clone());
                }
                Claim::Array(_) | Claim::Part(_) => {}
                _ if is_second(row, job) => out.doubled.push((row.key.clone(), job.job())),
                _ => {}
            }
            continue;
        }
        // By command line and name, a user's own job.
        let is_user_job = job.tag.is_none() && job.has_submit_line && claim == Claim::Nothing;
        let logged = match is_other || is_user_job {
            true => None,
            false => (records.task_of)(job),
        };
        match (logged, claim) {
            (_, Claim::Array(keys)) if !is_other || is_new => {
                for key in keys.iter().filter(|key| !is_in_flight(rows, key)) {
                    out.held_back.insert(key.clone(), job.id.clone());
                }
            }
            // A study whose state file was moved looks like a new one, so its jobs may be ours.
            (_, claim) if is_other => {
                let word = word.map(str::to_owned).filter(|_| is_new);
                match (claim, word) {
                    (_, None) => {}
                    (Claim::Task(key), Some(word)) => {
                        out.other_project = Some(word);
                        out.without_row.insert(key, job.id.clone());
                    }
                    (Claim::Part(procedure), Some(word)) => {
                        out.other_project = Some(word);
                        if dag.find(procedure).is_some() {
                            tasks.hold_back(procedure, job, &mut out);
                        }
                    }
                    (_, Some(word)) if name_of_study(&word) == name_of_study(project) => {
                        out.other_project = Some(word);
                    }
                    _ => {}
                }
            }
            (Some(key), _) if tasks.has(&key) => by_task.entry(key).or_default().push(job),
            (Some(_), _) => out.orphans.push((job.name.clone(), job.job())),
            (None, Claim::Task(key)) if job.tag.is_some() || is_row_job(rows, &key, job) => {
                by_task.entry(key).or_default().push(job);
            }
            (None, Claim::Task(key)) => {
                out.without_row.insert(key, job.id.clone());
            }
            (None, _) if owners.by_job.contains_key(&job.id) => {}
            (None, Claim::Part(procedure)) => tasks.hold_back(procedure, job, &mut out),
            (None, _) if job.tag.is_none() && job.has_submit_line => {}
            (None, _) if job.tag.is_none() => out.unnamed.push(job.job()),
            (None, Claim::Gone) => out.orphans.push((job.name.clone(), job.job())),
            (None, _) => tasks.hold_back("", job, &mut out),
        }
    }
    adopt_the_oldest(by_task, rows, &mut out);
    out
}

fn living(queue: &[JobReport]) -> Vec<&JobReport> {
    let mut seen = HashSet::new();
    queue
        .iter()
        .filter(|job| job.phase.is_live())
        // The default cluster may also be listed by its name.
        .filter(|job| {
            let tag = job.tag.as_ref().map(|tag| tag.submission_id.as_str());
            seen.insert((&job.id, &job.name, job.submitted_at, tag))
        })
        .collect()
}

struct Owners<'a> {
    by_job: HashMap<&'a JobId, &'a TaskRow>,
    /// The tag identifies a task's job despite changed ids and names, also for a submission in doubt and for each task
    /// of an array into which a script turned itself.
    by_tag: HashMap<&'a str, &'a TaskRow>,
}

impl<'a> Owners<'a> {
    fn of(rows: &'a State) -> Self {
        let in_flight = || rows.rows().iter().filter(|row| row.is_in_flight());
        Self {
            by_job: in_flight()
                .filter_map(|row| Some((row.job_id.as_ref()?, row)))
                .collect(),
            by_tag: in_flight()
                .filter_map(|row| Some((row.submission_id.as_deref()?, row)))
                .collect(),
        }
    }

    fn owner(&self, job: &JobReport) -> Option<&'a TaskRow> {
        let by_job = self.by_job.get(&job.id).filter(|row| is_of(row, job));
        by_job
            .or_else(|| self.by_tag.get(job.tag.as_ref()?.submission_id.as_str()))
            .copied()
    }
}

/// Adopts the oldest job of a task without one; the others are reported.
fn adopt_the_oldest(by_task: BTreeMap<TaskKey, Vec<&JobReport>>, rows: &State, out: &mut Strays) {
    for (key, mut jobs) in by_task {
        // The row's own job, whatever its tag.
        jobs.retain(|job| !is_in_flight(rows, &key) || !is_row_job(rows, &key, job));
        jobs.sort_by(|a, b| (a.submitted_at, &a.id).cmp(&(b.submitted_at, &b.id)));
        // Parts of one job share its number.
        let mut numbers = HashSet::new();
        jobs.retain(|job| numbers.insert(job.id.number()));
        let mut jobs = jobs.into_iter();
        if !is_in_flight(rows, &key)
            && let Some(oldest) = jobs.next()
        {
            out.adopt.push((key.clone(), oldest.clone()));
        }
        out.doubled.extend(jobs.map(|job| (key.clone(), job.job())));
    }
}

fn is_in_flight(rows: &State, key: &TaskKey) -> bool {
    rows.get(key).is_some_and(|row| row.is_in_flight())
}

/// A part of one of our arrays.
struct Part<'a> {
    /// The submission id or its beginning.
    array: String,
    /// `None` for the whole array.
    index: Option<usize>,
    procedure: &'a str,
}

/// Recognises one of our arrays by its tag, or by its name if it has none.
fn part_of(job: &JobReport) -> Option<Part<'_>> {
    let name = array::split_job_name(&job.name);
    let by_mark = job.tag.as_ref().and_then(|tag| {
        let id = tag.submission_id.as_str();
        match array::split_task_id(id) {
            Some((array, index)) => Some((array.to_owned(), Some(index))),
            None => array::is_array_id(id).then(|| (id.to_owned(), None)),
        }
    });
    let procedure = name.as_ref().map_or("", |(procedure, _)| procedure);
    let index = || array::split_job_id(&job.id).map(|(_, index)| index);
    let (array, index) = match (by_mark, &job.tag, &name) {
        (Some(found), _, _) => found,
        (None, None, Some((_, beginning))) => (beginning.clone(), index()),
        // The name completes a truncated tag.
        (None, Some(tag), Some((_, beginning)))
            if array::share_beginning(&tag.submission_id, beginning) =>
        {
            (beginning.clone(), index())
        }
        _ => return None,
    };
    Some(Part {
        array,
        index,
        procedure,
    })
}

/// The task of a job, by the queue alone.
#[derive(PartialEq)]
enum Claim<'a> {
    Task(TaskKey),
    /// A whole array, as shown briefly after its submission: any of its tasks.
    Array(Arc<[TaskKey]>),
    /// A task of an array without a list, with the array's procedure (empty if its name was changed).
    Part(&'a str),
    /// A task of a current procedure, but of a session that no longer exists.
    Gone,
    Nothing,
}

struct Tasks<'a> {
    dag: &'a ProcedureDag,
    sessions: &'a [Session],
}

impl Tasks<'_> {
    fn claim<'j>(&self, job: &'j JobReport, records: &Records<'_>) -> Claim<'j> {
        let Some(part) = part_of(job) else {
            return self.named(&job.name);
        };
        match ((records.listing)(&part.array), part.index) {
            (TaskListing::Tasks(tasks), Some(index)) => match tasks.get(index) {
                Some(key) => Claim::Task(key.clone()),
                None => Claim::Part(part.procedure),
            },
            (TaskListing::Tasks(tasks), None) => Claim::Array(tasks),
            (TaskListing::Gone, _) => Claim::Part(part.procedure),
        }
    }

    /// Parses a job's name: `<procedure>_<subject>[_<session>]`.
    fn named<'j>(&self, name: &str) -> Claim<'j> {
        let mut claim = Claim::Nothing;
        for (_, procedure) in self.dag.iter() {
            let rest = name.strip_prefix(&*procedure.name);
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix('_')) else {
                continue;
            };
            let (subject, session) = rest.split_once('_').unwrap_or((rest, ""));
            let key = TaskKey::new(subject, session, &procedure.name);
            match key.labels() {
                Some(_) if self.has(&key) => return Claim::Task(key),
                Some(_) => claim = Claim::Gone,
                None => {}
            }
        }
        claim
    }

    fn has(&self, key: &TaskKey) -> bool {
        let Some((subject, session)) = key.labels() else {
            return false;
        };
        let scope = self
            .dag
            .find(&key.procedure)
            .map(|id| self.dag.get(id).scope);
        match scope {
            Some(Scope::Session) => self
                .sessions
                .binary_search_by(|s| (&s.subject, &s.session).cmp(&(&subject, &session)))
                .is_ok(),
            Some(Scope::Subject) => {
                session.is_none()
                    && self
                        .sessions
                        .binary_search_by(|s| s.subject.cmp(&subject))
                        .is_ok()
            }
            None => false,
        }
    }

    /// Lets all tasks of a procedure wait (all tasks if its name is empty), because any of them may own the job.
    fn hold_back(&self, procedure: &str, job: &JobReport, out: &mut Strays) {
        let known = self.dag.find(procedure).map(|id| self.dag.get(id));
        if known.is_none() && !procedure.is_empty() {
            out.orphans.push((job.name.clone(), job.job()));
            return;
        }
        let (count, _) = out
            .unknown
            .entry(known.map(|procedure| Arc::clone(&procedure.name)))
            .or_insert_with(|| (0, job.job()));
        *count += 1;
        if *count > 1 {
            return;
        }
        let all = self.dag.iter().map(|(_, procedure)| procedure);
        for procedure in all.filter(|one| known.is_none_or(|known| known.name == one.name)) {
            for session in self.sessions {
                let label = match procedure.scope {
                    Scope::Session => session.session.as_str(),
                    Scope::Subject => "",
                };
                let key = TaskKey::new(session.subject.as_str(), label, &procedure.name);
                out.held_back.entry(key).or_insert_with(|| job.id.clone());
            }
        }
    }
}

/// True if the job belongs to the row by the audit log, whatever its name is now.
fn is_logged_for(row: &TaskRow, job: &JobReport, records: &Records<'_>) -> bool {
    (records.task_of)(job).is_some_and(|key| key == row.key)
}

/// True for a further job with a row's tag: it was submitted twice.
fn is_second(row: &TaskRow, job: &JobReport) -> bool {
    let own = row.job_id.as_ref();
    own.is_some_and(|own| own.number() != job.id.number())
}

/// Ids are recycled: if both have a tag, the tags decide.
fn is_of(row: &TaskRow, job: &JobReport) -> bool {
    match (&row.submission_id, &job.tag) {
        (Some(id), Some(tag)) => **id == *tag.submission_id,
        _ => true,
    }
}

fn is_row_job(rows: &State, key: &TaskKey, job: &JobReport) -> bool {
    rows.get(key)
        .is_some_and(|row| row.job_id.as_ref() == Some(&job.id))
}

#[cfg(test)]
mod tests;
