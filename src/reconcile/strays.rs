//! Live jobs that no row owns, compared with the tasks before anything is submitted: the state may
//! have been rolled back, deleted or restored while jobs ran.
//!
//! Pure. Nothing is ever cancelled here: what is not adopted is shown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::evidence::job_number;
use crate::bids::{Session, SessionLabel, SubjectLabel};
use crate::executor::JobReport;
use crate::job::{JobId, JobRef, array, is_same_study, name_of_study};
use crate::procedure::{ProcedureDag, Scope};
use crate::state::{State, TaskKey, TaskRow};

/// Holds what the queue shows beside the rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strays {
    /// The oldest live job of a task that has none in its row.
    pub adopt: Vec<(TaskKey, JobReport)>,
    /// Further live jobs of a task: two jobs may write the same outputs.
    pub doubled: Vec<(TaskKey, JobRef)>,
    /// Jobs with a task's name and without our tag, unknown to rows and audit log: the task waits.
    pub without_row: HashMap<TaskKey, JobId>,
    /// The word in the tag of such a job, or of one of a study with the same name, if it is another study's and this
    /// one has no state file yet.
    pub other_project: Option<String>,
    /// Jobs with our tag that belong to no task of today.
    pub orphans: Vec<(String, JobRef)>,
    /// Procedures with living tasks of an array whose task list is gone: any of their tasks may be one of
    /// these. How many there are, and one of them.
    pub unlisted: BTreeMap<Arc<str>, (usize, JobId)>,
    /// The tasks that wait because of these.
    pub held_back: HashMap<TaskKey, JobId>,
}

/// Looks things up about jobs without a row.
pub struct Records<'a> {
    /// Tells whether a job id stands in the audit log; asked for unmarked jobs of a task's name only.
    pub was_ours: &'a dyn Fn(&JobId) -> bool,
    /// Reads the list of the array with this submission id or (for a job without a tag) this beginning of one.
    pub listing: &'a dyn Fn(&str) -> TaskListing,
}

/// Says what is on disk of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskListing {
    /// Its tasks by their index.
    Tasks(Arc<[TaskKey]>),
    /// There is no list, or none that can be read.
    Gone,
}

impl Strays {
    /// Returns all tasks that wait for a job, and for which one.
    pub fn waiting(&self) -> HashMap<TaskKey, JobId> {
        let mut waiting = self.held_back.clone();
        waiting.extend(self.without_row.clone());
        waiting
    }
}

/// Compares the queue with rows and tasks. `is_new`: the study has no state file yet.
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
    let mut by_task: BTreeMap<TaskKey, Vec<&JobReport>> = BTreeMap::new();
    for job in live {
        let task = match part_of(job) {
            None => task_of(&job.name, dag, sessions),
            Some(part) => {
                let is_other = job
                    .tag
                    .as_ref()
                    .is_some_and(|tag| !is_same_study(&tag.project, project));
                if is_other && !is_new {
                    continue;
                }
                match ((records.listing)(&part.array), part.index) {
                    (TaskListing::Tasks(tasks), Some(index)) if index < tasks.len() => {
                        tasks.get(index).cloned()
                    }
                    _ if owners.owner(job).is_some() => continue,
                    // The array as a whole, for a moment: each of its tasks may be meant.
                    (TaskListing::Tasks(tasks), None) => {
                        for key in tasks.iter().filter(|key| !is_in_flight(rows, key)) {
                            out.held_back.insert(key.clone(), job.id.clone());
                        }
                        continue;
                    }
                    _ => {
                        if is_other {
                            out.other_project = job.tag.as_ref().map(|tag| tag.project.clone());
                        }
                        hold_back(part.procedure, job, dag, sessions, &mut out);
                        continue;
                    }
                }
            }
        };
        if let Some(row) = owners.owner(job) {
            // The row was edited: the job still writes the outputs of the task that it was made for.
            if let Some(key) = task.filter(|key| *key != row.key) {
                out.without_row.insert(key, job.id.clone());
            } else if is_second(row, job) {
                out.doubled.push((row.key.clone(), reference(job)));
            }
            continue;
        }
        match (&job.tag, task) {
            // A state file that was moved looks like a new study: look twice.
            (Some(tag), Some(key)) if !is_same_study(&tag.project, project) && is_new => {
                out.other_project = Some(tag.project.clone());
                out.without_row.insert(key, job.id.clone());
            }
            (Some(tag), _) if !is_same_study(&tag.project, project) => {
                if is_new && name_of_study(&tag.project) == name_of_study(project) {
                    out.other_project = Some(tag.project.clone());
                }
            }
            (Some(_), Some(key)) => by_task.entry(key).or_default().push(job),
            (Some(_), None) => out.orphans.push((job.name.clone(), reference(job))),
            (None, Some(key)) if (records.was_ours)(&job.id) || stands_in_row(rows, &key, job) => {
                by_task.entry(key).or_default().push(job);
            }
            (None, Some(key)) => {
                out.without_row.insert(key, job.id.clone());
            }
            (None, None) => {}
        }
    }
    adopt_the_oldest(by_task, rows, &mut out);
    out
}

/// Lists the jobs that live, each once.
fn living(queue: &[JobReport]) -> Vec<&JobReport> {
    let mut seen = HashSet::new();
    queue
        .iter()
        .filter(|job| job.phase.is_live())
        // The default cluster may also be asked by its name, and shows its jobs twice.
        .filter(|job| {
            let tag = job.tag.as_ref().map(|tag| tag.submission_id.as_str());
            seen.insert((&job.id, &job.name, job.submitted_at, tag))
        })
        .collect()
}

/// Finds the rows in flight that jobs belong to.
struct Owners<'a> {
    by_job: HashMap<&'a JobId, &'a TaskRow>,
    /// The tag names the task's own job, whatever its id or name became: also one whose submission is
    /// in doubt, and each task of an array that a script made of itself.
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

/// Of jobs of one task, the oldest becomes its own unless it has one; the others are told.
fn adopt_the_oldest(by_task: BTreeMap<TaskKey, Vec<&JobReport>>, rows: &State, out: &mut Strays) {
    for (key, mut jobs) in by_task {
        jobs.sort_by(|a, b| (a.submitted_at, &a.id).cmp(&(b.submitted_at, &b.id)));
        let mut jobs = jobs.into_iter();
        if !is_in_flight(rows, &key)
            && let Some(oldest) = jobs.next()
        {
            out.adopt.push((key.clone(), oldest.clone()));
        }
        out.doubled
            .extend(jobs.map(|job| (key.clone(), reference(job))));
    }
}

fn reference(job: &JobReport) -> JobRef {
    JobRef {
        id: job.id.clone(),
        cluster: job.facts.cluster.clone(),
    }
}

fn is_in_flight(rows: &State, key: &TaskKey) -> bool {
    rows.get(key).is_some_and(|row| row.is_in_flight())
}

/// Names a part of an array of ours.
struct Part<'a> {
    /// Its submission id, or the beginning of it.
    array: String,
    /// None: the array as a whole.
    index: Option<usize>,
    procedure: &'a str,
}

/// Tells an array of ours by its tag; one without a tag by its name.
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
    let (array, index) = match (by_mark, &job.tag, &name) {
        (Some(found), _, _) => found,
        (None, None, Some((_, beginning))) => {
            let index = array::split_job_id(&job.id).map(|(_, index)| index);
            (beginning.clone(), index)
        }
        _ => return None,
    };
    Some(Part {
        array,
        index,
        procedure,
    })
}

/// Lets all tasks of a procedure wait: the job may be that of any of them. A job that was given another name
/// may be of any procedure, but who does that knows of it: it is shown.
fn hold_back(
    procedure: &str,
    job: &JobReport,
    dag: &ProcedureDag,
    sessions: &[Session],
    out: &mut Strays,
) {
    let Some(procedure) = dag.find(procedure).map(|id| dag.get(id)) else {
        out.orphans.push((job.name.clone(), reference(job)));
        return;
    };
    let (count, _) = out
        .unlisted
        .entry(Arc::clone(&procedure.name))
        .or_insert_with(|| (0, job.id.clone()));
    *count += 1;
    if *count > 1 {
        return;
    }
    for session in sessions {
        let label = match procedure.scope {
            Scope::Session => session.session.as_str(),
            Scope::Subject => "",
        };
        let key = TaskKey::new(session.subject.as_str(), label, &procedure.name);
        out.held_back.entry(key).or_insert_with(|| job.id.clone());
    }
}

/// True for a further job with the tag of a row: something submitted it twice.
fn is_second(row: &TaskRow, job: &JobReport) -> bool {
    let own = row.job_id.as_ref();
    own.is_some_and(|own| job_number(own) != job_number(&job.id))
}

/// Ids are recycled: where both carry a tag, the marks decide.
fn is_of(row: &TaskRow, job: &JobReport) -> bool {
    match (&row.submission_id, &job.tag) {
        (Some(id), Some(tag)) => **id == *tag.submission_id,
        _ => true,
    }
}

fn stands_in_row(rows: &State, key: &TaskKey, job: &JobReport) -> bool {
    rows.get(key)
        .is_some_and(|row| row.job_id.as_ref() == Some(&job.id))
}

/// Reads a job's name back: `<procedure>_<subject>[_<session>]` of a session that exists.
fn task_of(name: &str, dag: &ProcedureDag, sessions: &[Session]) -> Option<TaskKey> {
    dag.iter().find_map(|(_, procedure)| {
        let rest = name.strip_prefix(&*procedure.name)?.strip_prefix('_')?;
        let (subject, session) = match rest.split_once('_') {
            Some((subject, session)) => (subject, SessionLabel::new(session).ok()?),
            None => (rest, SessionLabel::none()),
        };
        let subject = SubjectLabel::new(subject).ok()?;
        let known = match procedure.scope {
            Scope::Session => sessions
                .binary_search_by(|s| (&s.subject, &s.session).cmp(&(&subject, &session)))
                .is_ok(),
            Scope::Subject => {
                session.is_none()
                    && sessions
                        .binary_search_by(|s| s.subject.cmp(&subject))
                        .is_ok()
            }
        };
        known.then(|| TaskKey::new(subject.as_str(), session.as_str(), &procedure.name))
    })
}

#[cfg(test)]
mod tests;
