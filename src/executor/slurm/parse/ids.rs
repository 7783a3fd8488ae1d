//! Job ids as Slurm prints them: one job, the rest of an array, a step. Pure.

use crate::model::job::JobId;

/// Returns true for an id that a query can name (`123`, `123_4`): one that sacct cannot read spoils
/// the whole query.
pub fn is_askable(id: &JobId) -> bool {
    match id.as_str().split_once('_') {
        Some((job, task)) => is_number(job) && is_number(task),
        None => is_number(id.as_str()),
    }
}

/// True for a number that Slurm may use for a job or a task: it has 32 bits.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit())
}

/// What an id field names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ids {
    One(JobId),
    /// `123_[1-5%2]`; not whole if the list was cut.
    Tasks {
        array: JobId,
        tasks: Vec<JobId>,
        whole: bool,
    },
    /// A step (`123.batch`).
    Other,
}

/// More than any array that we submit; a line of noise must not fill the memory.
pub(super) const MOST_TASKS: usize = 100_000;

pub(super) fn ids(text: &str) -> Option<Ids> {
    let text = text.trim();
    let id = JobId::new(text);
    if is_askable(&id) {
        return Some(Ids::One(id));
    }
    if let Some((job, _step)) = text.split_once('.')
        && (is_askable(&JobId::new(job)) || job.split('+').all(is_number))
    {
        return Some(Ids::Other);
    }
    // sbatch printed the leader's id, and the leader is the part of number 0.
    if let Some((leader, part)) = text.split_once('+') {
        return match (is_number(leader), part) {
            (true, "0") => Some(Ids::One(JobId::new(leader))),
            (true, part) if is_number(part) => Some(Ids::One(id)),
            _ => None,
        };
    }
    let (array, list) = text.split_once("_[")?;
    if !is_number(array) {
        return None;
    }
    let (list, mut whole) = match list.strip_suffix(']') {
        Some(list) => (list, true),
        None => (list.trim_end_matches('.'), false),
    };
    let list = list.split('%').next().unwrap_or_default();
    let mut tasks = Vec::new();
    let parts: Vec<&str> = list.split(',').collect();
    for (place, part) in parts.iter().enumerate() {
        let is_cut = !whole && place + 1 == parts.len();
        // The last number of a cut list may lack digits.
        match task_range(part).filter(|_| !is_cut) {
            Some((first, last, step)) => {
                for task in (first..=last).step_by(step) {
                    if tasks.len() == MOST_TASKS {
                        return Some(Ids::Tasks {
                            array: JobId::new(array),
                            tasks,
                            whole: false,
                        });
                    }
                    tasks.push(JobId::new(&format!("{array}_{task}")));
                }
            }
            None => whole = false,
        }
    }
    Some(Ids::Tasks {
        array: JobId::new(array),
        tasks,
        whole,
    })
}

/// Reads `7`, `1-5` or `1-99:2`.
fn task_range(text: &str) -> Option<(u32, u32, usize)> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let step: usize = step.parse().ok()?;
    Some((first.parse().ok()?, last.parse().ok()?, step.max(1)))
}
