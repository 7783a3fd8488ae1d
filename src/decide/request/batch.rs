//! Grouping due tasks into array jobs.

use std::path::Path;

use crate::base::text::{hash_of, hex_of_first};
use crate::decide::request::Prepared;
use crate::executor::ArrayJob;
use crate::model::job::array::{array_id, job_name, task_id};
use crate::model::procedure::{ArrayMode, ProcedureDag, may_differ};

/// The tasks of one call of sbatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// One task, or an array's tasks by index.
    pub tasks: Vec<Prepared>,
    /// `None` for a single job.
    pub array: Option<ArrayJob>,
}

/// `array: auto` makes an array of this many tasks or more.
const AUTO_FROM: usize = 10;

/// Groups tasks of one procedure with equal requests. Groups are ordered by their first tasks; within a group, the order
/// stays.
///
/// `limit` gives the largest size of an array; it is called only if there is one. Arrays are written to `dir`.
pub fn group(
    tasks: Vec<Prepared>,
    dag: &ProcedureDag,
    limit: &mut dyn FnMut() -> usize,
    dir: &Path,
) -> Vec<Batch> {
    let rules = |task: &Prepared| {
        let id = dag.find(&task.request.key.procedure)?;
        Some(&dag.get(id).rules)
    };
    let mut sets: Vec<Vec<Prepared>> = Vec::new();
    // The sets that further tasks may join.
    let mut open: Vec<usize> = Vec::new();
    for task in tasks {
        if rules(&task).is_none_or(|rules| rules.array == ArrayMode::Never) {
            sets.push(vec![task]);
            continue;
        }
        let fitting = open.iter().copied().find(|at| {
            let first = sets.get(*at).and_then(|set| set.first());
            first.is_some_and(|first| is_alike(first, &task))
        });
        match fitting.and_then(|at| sets.get_mut(at)) {
            Some(set) => set.push(task),
            None => {
                open.push(sets.len());
                sets.push(vec![task]);
            }
        }
    }
    let mut known_limit = None;
    let mut batches = Vec::new();
    for set in sets {
        let rules = set.first().and_then(rules);
        let mode = rules.map_or(ArrayMode::Never, |rules| rules.array);
        let throttle = rules.and_then(|rules| rules.array_throttle);
        let is_array = match mode {
            ArrayMode::Never => false,
            ArrayMode::Auto => set.len() >= AUTO_FROM,
            ArrayMode::Always => true,
        };
        let limit = match is_array {
            true => *known_limit.get_or_insert_with(&mut *limit),
            false => 0,
        };
        let mut tasks = set.into_iter();
        if limit == 0 {
            // Also if the site does not accept arrays.
            batches.extend(tasks.by_ref().map(Batch::single));
        }
        while tasks.len() > 0 {
            let mut part: Vec<Prepared> = tasks.by_ref().take(limit).collect();
            // A single remaining task does not become an array.
            batches.push(match part.pop() {
                Some(only) if part.is_empty() && mode == ArrayMode::Auto => Batch::single(only),
                last => {
                    part.extend(last);
                    Batch::array(part, throttle, dir)
                }
            });
        }
    }
    batches
}

impl Batch {
    fn single(task: Prepared) -> Self {
        Self {
            tasks: vec![task],
            array: None,
        }
    }

    /// The array's id is a hash of the tasks' ids, so it is unique.
    fn array(tasks: Vec<Prepared>, throttle: Option<u32>, dir: &Path) -> Self {
        let ids = tasks.iter().map(|task| &task.intent.submission_id);
        let digits = hex_of_first(8, &hash_of(ids));
        let submission_id = array_id(&digits);
        let procedure = tasks
            .first()
            .map_or("", |task| &*task.request.key.procedure);
        let array = ArrayJob {
            job_name: job_name(procedure, &submission_id),
            throttle,
            dir: dir.join(&submission_id),
            submission_id,
        };
        let tasks = tasks.into_iter().zip(0..).map(|(task, index)| {
            renamed(task, task_id(&array.submission_id, index), &array.job_name)
        });
        Self {
            tasks: tasks.collect(),
            array: Some(array),
        }
    }

    /// Splits an array that was refused for its size into two, with new ids. `None` if it cannot be split.
    pub fn halves(&self) -> Option<[Self; 2]> {
        let array = self.array.as_ref()?;
        let parent = array.dir.parent()?;
        let middle = self.tasks.len().div_ceil(2);
        let (first, second) = self.tasks.split_at_checked(middle)?;
        if first.is_empty() || second.is_empty() {
            return None;
        }
        Some([first, second].map(|half| Self::array(half.to_vec(), array.throttle, parent)))
    }

    /// Splits an array into single jobs, for sites that do not accept arrays.
    pub fn one_by_one(&self) -> Vec<Self> {
        self.tasks
            .iter()
            .map(|task| {
                let id = hex_of_first(8, &hash_of([&task.intent.submission_id]));
                let name = task.request.job_name.clone();
                Self::single(renamed(task.clone(), id, &name))
            })
            .collect()
    }
}

/// Changes a task's submission id and its job name in Slurm. The request keeps the task's own name, which its logs use.
fn renamed(mut task: Prepared, submission_id: String, job_name: &str) -> Prepared {
    task.intent.submission_id = submission_id.as_str().into();
    task.intent.job_name = job_name.into();
    task.request.submission_id = submission_id;
    task
}

fn is_alike(a: &Prepared, b: &Prepared) -> bool {
    let (a, b) = (&a.request, &b.request);
    a.key.procedure == b.key.procedure
        && a.project == b.project
        && a.script == b.script
        && a.resources == b.resources
        && a.log_dir == b.log_dir
        && {
            let shared = |(name, _): &(&String, &String)| !may_differ(name);
            a.env.iter().filter(shared).eq(b.env.iter().filter(shared))
        }
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
