//! Stray jobs: live jobs without a row, compared with the tasks before anything is submitted. The state may have been
//! rolled back, deleted or restored while jobs ran.
//!
//! Stray jobs are adopted or reported, never cancelled.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use itertools::Itertools as _;

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
    /// All tasks that wait for one of these jobs.
    pub waiting: HashMap<TaskKey, JobId>,
}

/// Records about jobs without a row.
pub struct Records<'a> {
    /// The task for which a job was submitted by the audit log, found by its tag or else its id.
    pub task_of: &'a dyn Fn(&JobReport) -> Option<TaskKey>,
    /// The tasks, by index, of the array with this submission id or (for a job without a tag) this beginning of one.
    /// `None` if the list does not exist or cannot be read.
    pub listing: &'a dyn Fn(&str) -> Option<Arc<[TaskKey]>>,
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
    let by_job: HashMap<&JobId, &TaskRow> = rows
        .in_flight()
        .filter_map(|row| Some((row.job_id.as_ref()?, row)))
        .collect();
    // The tag identifies a task's job despite changed ids and names, also for a submission in doubt and for each task of
    // an array into which a script turned itself.
    let by_tag: HashMap<&str, &TaskRow> = rows
        .in_flight()
        .filter_map(|row| Some((row.submission_id.as_deref()?, row)))
        .collect();
    let tasks = Tasks { dag, sessions };
    let mut by_task: BTreeMap<TaskKey, Vec<&JobReport>> = BTreeMap::new();
    for job in live {
        let word = job.tag.as_ref().map(|tag| tag.project.as_str());
        let is_other = word.is_some_and(|word| !is_same_study(word, project));
        let claim = tasks.claim(job, records);
        let tag = job.submission_id();
        // Ids are recycled: if both have a tag, the tags decide.
        let by_id = by_job.get(&job.id).filter(|row| {
            let own = row.submission_id.as_deref().zip(tag);
            own.is_none_or(|(own, tag)| own == tag)
        });
        if let Some(row) = by_id.or_else(|| by_tag.get(tag?)) {
            // By the audit log, whatever its name is now.
            let is_logged = || (records.task_of)(job).is_some_and(|key| key == row.key);
            let number = row.job_id.as_ref().map(JobId::number);
            match claim {
                // The row was edited: the job still writes the outputs of its original task.
                Claim::Task(key) if key != row.key && !is_logged() => {
                    out.without_row.insert(key, job.id.clone());
                }
                Claim::Array(_) | Claim::Part(_) => {}
                // A further job with the row's tag: it was submitted twice.
                _ if number.is_some_and(|number| number != job.id.number()) => {
                    out.doubled.push((row.key.clone(), job.job()));
                }
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
                for key in keys.iter() {
                    if rows.get(key).is_none_or(|row| !row.is_in_flight()) {
                        out.waiting.insert(key.clone(), job.id.clone());
                    }
                }
            }
            (_, _) if is_other && !is_new => {}
            // A study whose state file was moved looks like a new one, so its jobs may be ours.
            (_, claim) if is_other => {
                match claim {
                    Claim::Task(key) => {
                        out.without_row.insert(key, job.id.clone());
                    }
                    Claim::Part(procedure) if dag.find(procedure).is_some() => {
                        tasks.hold_back(procedure, job, &mut out);
                    }
                    Claim::Part(_) => {}
                    _ if word.map(name_of_study) != Some(name_of_study(project)) => continue,
                    _ => {}
                }
                out.other_project = word.map(str::to_owned);
            }
            (Some(key), _) if tasks.has(&key) => by_task.entry(key).or_default().push(job),
            (Some(_), _) => out.orphans.push((job.name.clone(), job.job())),
            (None, Claim::Task(key))
                if job.tag.is_some()
                    || (rows.get(&key)).is_some_and(|row| row.job_id.as_ref() == Some(&job.id)) =>
            {
                by_task.entry(key).or_default().push(job);
            }
            (None, Claim::Task(key)) => {
                out.without_row.insert(key, job.id.clone());
            }
            (None, _) if by_job.contains_key(&job.id) => {}
            (None, Claim::Part(procedure)) => tasks.hold_back(procedure, job, &mut out),
            (None, _) if job.tag.is_none() && job.has_submit_line => {}
            (None, _) if job.tag.is_none() => out.unnamed.push(job.job()),
            (None, Claim::Gone) => out.orphans.push((job.name.clone(), job.job())),
            (None, _) => tasks.hold_back("", job, &mut out),
        }
    }
    adopt_the_oldest(by_task, rows, &mut out);
    out.waiting.extend(out.without_row.clone());
    out
}

fn living(queue: &[JobReport]) -> Vec<&JobReport> {
    let live = queue.iter().filter(|job| job.phase.is_live());
    live.unique_by(|job| (&job.id, &job.name, job.submitted_at, job.submission_id()))
        .collect()
}

/// Adopts the oldest job of a task without one; the others are reported.
fn adopt_the_oldest(by_task: BTreeMap<TaskKey, Vec<&JobReport>>, rows: &State, out: &mut Strays) {
    for (key, mut jobs) in by_task {
        let row = rows.get(&key).filter(|row| row.is_in_flight());
        // The row's own job, whatever its tag.
        jobs.retain(|job| row.is_none_or(|row| row.job_id.as_ref() != Some(&job.id)));
        jobs.sort_by(|a, b| (a.submitted_at, &a.id).cmp(&(b.submitted_at, &b.id)));
        // Parts of one job share its number.
        let mut jobs = jobs.into_iter().unique_by(|job| job.id.number());
        if row.is_none()
            && let Some(oldest) = jobs.next()
        {
            out.adopt.push((key.clone(), oldest.clone()));
        }
        out.doubled.extend(jobs.map(|job| (key.clone(), job.job())));
    }
}

/// Recognises a part of one of our arrays by its tag, or by its name if it has none: the submission id or its beginning,
/// the index (`None` for the whole array) and the procedure (empty if the name was changed).
fn part_of(job: &JobReport) -> Option<(String, Option<usize>, &str)> {
    let name = array::split_job_name(&job.name);
    let procedure = name.as_ref().map_or("", |(procedure, _)| procedure);
    let tag = job.submission_id();
    if let Some((array, index)) = tag.and_then(array::split_task_id) {
        return Some((array.to_owned(), Some(index), procedure));
    }
    if let Some(array) = tag.filter(|tag| array::is_array_id(tag)) {
        return Some((array.to_owned(), None, procedure));
    }
    // The name completes a truncated tag.
    let is_its = |start: &str| tag.is_none_or(|tag| array::share_beginning(tag, start));
    let (procedure, start) = name.filter(|(_, start)| is_its(start))?;
    let index = array::split_job_id(&job.id).map(|(_, index)| index);
    Some((start, index, procedure))
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
        let Some((array, index, procedure)) = part_of(job) else {
            return self.named(&job.name);
        };
        match ((records.listing)(&array), index) {
            (Some(tasks), None) => Claim::Array(tasks),
            (Some(tasks), Some(index)) => match tasks.get(index) {
                Some(key) => Claim::Task(key.clone()),
                None => Claim::Part(procedure),
            },
            (None, _) => Claim::Part(procedure),
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
        let (Some(labels), Some(id)) = (key.labels(), self.dag.find(&key.procedure)) else {
            return false;
        };
        let found = match self.dag.get(id).scope {
            Scope::Session => (self.sessions)
                .binary_search_by(|s| (&s.subject, &s.session).cmp(&(&labels.0, &labels.1))),
            Scope::Subject if !labels.1.is_none() => return false,
            Scope::Subject => (self.sessions).binary_search_by(|s| s.subject.cmp(&labels.0)),
        };
        found.is_ok()
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
                out.waiting.entry(key).or_insert_with(|| job.id.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
