//! Live jobs that no row owns, compared with the tasks before anything is submitted: the state may
//! have been rolled back, deleted or restored while jobs ran.
//!
//! Pure. Nothing is ever cancelled here: what is not adopted is shown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::evidence::job_number;
use crate::executor::JobReport;
use crate::model::bids::Session;
use crate::model::job::{JobId, JobRef, array, is_same_study, name_of_study};
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{State, TaskKey, TaskRow};

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
    /// Procedures of which any task may be that of a living job of ours: the task list of its array is gone. How many
    /// such jobs there are, and one of them. Without a procedure: jobs that may be any task's.
    pub unknown: BTreeMap<Option<Arc<str>>, (usize, JobRef)>,
    /// Living jobs that nothing tells from ours or anybody's.
    pub unnamed: Vec<JobRef>,
    /// The tasks that wait because of these.
    pub held_back: HashMap<TaskKey, JobId>,
}

/// Looks things up about jobs without a row.
pub struct Records<'a> {
    /// The task that a job was submitted for, by the audit log: found by its tag, else by its id.
    pub task_of: &'a dyn Fn(&JobReport) -> Option<TaskKey>,
    /// Reads the list of the array with this submission id or (for a job without a tag) this beginning of one.
    pub listing: &'a dyn Fn(&str) -> TaskListing,
}

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

/// `is_new`: the study has no state file yet.
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
        let shown = tasks.shown(job, records);
        if let Some(row) = owners.owner(job) {
            match shown {
                // The row was edited: the job still writes the outputs of the task that it was made for.
                Shown::Task(key) if key != row.key && !is_logged_for(row, job, records) => {
                    out.without_row.insert(key, job.id.clone());
                }
                Shown::Whole(_) | Shown::Part(_) => {}
                _ if is_second(row, job) => out.doubled.push((row.key.clone(), reference(job))),
                _ => {}
            }
            continue;
        }
        // Its command line shows that it is somebody's own, and so does its name.
        let is_foreign = job.tag.is_none() && job.has_submit_line && shown == Shown::Nothing;
        let logged = match is_other || is_foreign {
            true => None,
            false => (records.task_of)(job),
        };
        match (logged, shown) {
            (_, Shown::Whole(keys)) if !is_other || is_new => {
                for key in keys.iter().filter(|key| !is_in_flight(rows, key)) {
                    out.held_back.insert(key.clone(), job.id.clone());
                }
            }
            // A state file that was moved looks like a new study: look twice.
            (_, shown) if is_other => {
                let word = word.map(str::to_owned).filter(|_| is_new);
                match (shown, word) {
                    (_, None) => {}
                    (Shown::Task(key), Some(word)) => {
                        out.other_project = Some(word);
                        out.without_row.insert(key, job.id.clone());
                    }
                    (Shown::Part(procedure), Some(word)) => {
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
            (Some(_), _) => out.orphans.push((job.name.clone(), reference(job))),
            (None, Shown::Task(key)) if job.tag.is_some() || stands_in_row(rows, &key, job) => {
                by_task.entry(key).or_default().push(job);
            }
            (None, Shown::Task(key)) => {
                out.without_row.insert(key, job.id.clone());
            }
            (None, _) if owners.by_job.contains_key(&job.id) => {}
            (None, Shown::Part(procedure)) => tasks.hold_back(procedure, job, &mut out),
            (None, _) if job.tag.is_none() && job.has_submit_line => {}
            (None, _) if job.tag.is_none() => out.unnamed.push(reference(job)),
            (None, Shown::Gone) => out.orphans.push((job.name.clone(), reference(job))),
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
        // The default cluster may also be asked by its name.
        .filter(|job| {
            let tag = job.tag.as_ref().map(|tag| tag.submission_id.as_str());
            seen.insert((&job.id, &job.name, job.submitted_at, tag))
        })
        .collect()
}

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
        // Whatever its tag became, it is the row's own.
        jobs.retain(|job| !is_in_flight(rows, &key) || !stands_in_row(rows, &key, job));
        jobs.sort_by(|a, b| (a.submitted_at, &a.id).cmp(&(b.submitted_at, &b.id)));
        // Parts of one job share its number.
        let mut numbers = HashSet::new();
        jobs.retain(|job| numbers.insert(job_number(&job.id)));
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
    let index = || array::split_job_id(&job.id).map(|(_, index)| index);
    let (array, index) = match (by_mark, &job.tag, &name) {
        (Some(found), _, _) => found,
        (None, None, Some((_, beginning))) => (beginning.clone(), index()),
        // Of a tag that was cut, the name has the rest.
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

/// What the queue itself shows of the task that a job is for.
#[derive(PartialEq)]
enum Shown<'a> {
    Task(TaskKey),
    /// An array as a whole, for a moment: each of its tasks may be meant.
    Whole(Arc<[TaskKey]>),
    /// A task of an array without a list, and the array's procedure; empty: its name was changed.
    Part(&'a str),
    /// A task of today's procedures, of a session that is gone.
    Gone,
    Nothing,
}

struct Tasks<'a> {
    dag: &'a ProcedureDag,
    sessions: &'a [Session],
}

impl Tasks<'_> {
    fn shown<'j>(&self, job: &'j JobReport, records: &Records<'_>) -> Shown<'j> {
        let Some(part) = part_of(job) else {
            return self.named(&job.name);
        };
        match ((records.listing)(&part.array), part.index) {
            (TaskListing::Tasks(tasks), Some(index)) => match tasks.get(index) {
                Some(key) => Shown::Task(key.clone()),
                None => Shown::Part(part.procedure),
            },
            (TaskListing::Tasks(tasks), None) => Shown::Whole(tasks),
            (TaskListing::Gone, _) => Shown::Part(part.procedure),
        }
    }

    /// Reads a job's name back: `<procedure>_<subject>[_<session>]`.
    fn named<'j>(&self, name: &str) -> Shown<'j> {
        let mut shown = Shown::Nothing;
        for (_, procedure) in self.dag.iter() {
            let rest = name.strip_prefix(&*procedure.name);
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix('_')) else {
                continue;
            };
            let (subject, session) = rest.split_once('_').unwrap_or((rest, ""));
            let key = TaskKey::new(subject, session, &procedure.name);
            match key.labels() {
                Some(_) if self.has(&key) => return Shown::Task(key),
                Some(_) => shown = Shown::Gone,
                None => {}
            }
        }
        shown
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

    /// Lets all tasks of a procedure wait (without a name: all tasks): the job may be that of any of them.
    fn hold_back(&self, procedure: &str, job: &JobReport, out: &mut Strays) {
        let known = self.dag.find(procedure).map(|id| self.dag.get(id));
        if known.is_none() && !procedure.is_empty() {
            out.orphans.push((job.name.clone(), reference(job)));
            return;
        }
        let (count, _) = out
            .unknown
            .entry(known.map(|procedure| Arc::clone(&procedure.name)))
            .or_insert_with(|| (0, reference(job)));
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

/// True if the audit log says that a job is that of the row, whatever its name is now.
fn is_logged_for(row: &TaskRow, job: &JobReport, records: &Records<'_>) -> bool {
    (records.task_of)(job).is_some_and(|key| key == row.key)
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

#[cfg(test)]
mod tests;
