//! The task list of an array, by index. Pure.
//!
//! The list has two files: `tasks.json` for this program and for people, and `tasks.sh` for the wrapper, with one
//! line per task.

use serde::{Deserialize, Serialize};

use crate::base::shell;
use crate::executor::{ArrayJob, JobRequest};
use crate::model::state::TaskKey;

/// Format version; lists of other versions are refused.
const VERSION: u32 = 1;

/// The variable that replaces a line break in the values of `tasks.sh`, which has one line per task.
pub const NEWLINE: &str = "snbb_array_newline";

/// The variable with the job name of the task, for its logs.
pub const NAME: &str = "snbb_array_name";

/// The contents of `tasks.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TaskList {
    version: u32,
    submission_id: String,
    project: String,
    procedure: String,
    tasks: Vec<Listed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Listed {
    index: usize,
    subject: String,
    session: String,
    job_name: String,
    arguments: Vec<String>,
}

/// The text of `tasks.json`.
pub fn json(array: &ArrayJob, tasks: &[&JobRequest]) -> Vec<u8> {
    let first = tasks.first();
    let list = TaskList {
        version: VERSION,
        submission_id: array.submission_id.clone(),
        project: first.map(|task| task.project.clone()).unwrap_or_default(),
        procedure: first
            .map(|task| task.key.procedure.to_string())
            .unwrap_or_default(),
        tasks: tasks
            .iter()
            .enumerate()
            .map(|(index, task)| Listed {
                index,
                subject: task.key.subject.to_string(),
                session: task.key.session.to_string(),
                job_name: task.job_name.clone(),
                arguments: task.arguments.clone(),
            })
            .collect(),
    };
    // Texts and numbers always serialize.
    let mut text = serde_json::to_vec_pretty(&list).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Reads `tasks.json` of the array with this submission id: its tasks by index.
pub fn parse(text: &[u8], submission_id: &str) -> Result<Vec<TaskKey>, String> {
    let list: TaskList = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if list.version != VERSION {
        return Err(format!(
            "it has version {}, expected {VERSION}",
            list.version
        ));
    }
    if list.submission_id != submission_id {
        return Err(format!("it belongs to array {}", list.submission_id));
    }
    if list
        .tasks
        .iter()
        .enumerate()
        .any(|(at, task)| at != task.index)
    {
        return Err("its tasks are not numbered in order".to_owned());
    }
    Ok(list
        .tasks
        .iter()
        .map(|task| TaskKey::new(&task.subject, &task.session, &list.procedure))
        .collect())
}

/// The text of `tasks.sh`: line `n + 1` sets variables and arguments of task `n`.
///
/// `common` is true for variables that sbatch already passes on.
pub fn shell(tasks: &[&JobRequest], common: &dyn Fn(&str) -> bool) -> Vec<u8> {
    let mut text = String::new();
    for task in tasks {
        for (name, value) in task.env.iter().filter(|(name, _)| !common(name)) {
            text.push_str(&format!("export {name}={}; ", quote(value)));
        }
        text.push_str("set --");
        for argument in &task.arguments {
            text.push(' ');
            text.push_str(&quote(argument));
        }
        text.push_str(&format!("; {NAME}={}\n", quote(&task.job_name)));
    }
    text.into_bytes()
}

/// Quotes a value for a POSIX shell, on one line.
pub fn quote(value: &str) -> String {
    // A text with a line break is always in single quotes.
    shell::quote(value).replace('\n', &format!("'\"${{{NEWLINE}}}\"'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::request::batch::testing::prepared;

    fn array() -> ArrayJob {
        ArrayJob {
            submission_id: "array-0123456789abcdef".to_owned(),
            job_name: "a_array_01234567".to_owned(),
            throttle: None,
            dir: "/x".into(),
        }
    }

    #[test]
    fn only_the_arrays_own_list_is_read_back() {
        let tasks = [prepared("a", 0), prepared("a", 1)].map(|task| task.request);
        let text = json(&array(), &tasks.each_ref());
        let keys = parse(&text, "array-0123456789abcdef").unwrap();
        assert_eq!(keys, tasks.map(|task| task.key));
        let text = String::from_utf8(text).unwrap();
        for (broken, id) in [
            (text.clone(), "array-0000000000000000"),
            (
                text.replace("\"version\": 1", "\"version\": 2"),
                "array-0123456789abcdef",
            ),
            (
                text.replace("\"index\": 1", "\"index\": 2"),
                "array-0123456789abcdef",
            ),
            (text[..text.len() / 2].to_owned(), "array-0123456789abcdef"),
            (String::new(), "array-0123456789abcdef"),
        ] {
            assert!(parse(broken.as_bytes(), id).is_err(), "{broken}");
        }
    }

    #[test]
    fn each_task_has_one_line() {
        let mut hostile = prepared("a", 0).request;
        hostile.arguments = vec!["a\nb".to_owned(), "'\n".to_owned(), "\n".to_owned()];
        let text = shell(&[&hostile, &hostile], &|_| false);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 2);
    }
}
