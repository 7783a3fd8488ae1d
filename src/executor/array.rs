//! Job arrays: the files that are written for the tasks of one.
//!
//! One sbatch submits many tasks. Each keeps its own row, intent and submission id, so that journal, doubts and
//! adoption work as for single jobs. The directory of an array is written before sbatch starts, read when one of its
//! jobs has no row, and removed when no longer needed. Its task list maps each index to its task, and has two files:
//! `tasks.json` for this program and for people, and `tasks.sh` for the wrapper, with one line per task.
#![expect(clippy::disallowed_methods, reason = "lists the directories of arrays")]

pub mod wrapper;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::base::durable::{self, create, make_directory_of, sync_directory_of};
use crate::base::regular::FileError;
use crate::base::shell;
use crate::executor::{ArrayJob, JobRequest};
use crate::model::job::array::is_array_id;
use crate::model::state::TaskKey;

/// Names of the files in an array's directory.
pub const LIST: &str = "tasks.json";
pub const SHELL_LIST: &str = "tasks.sh";
pub const SCRIPT: &str = "script";
pub const WRAPPER: &str = "wrapper.sh";

/// The name and the contents of a file to write.
pub type File = (&'static str, Vec<u8>);

/// The minimum age of an array's directory for removal.
const KEPT_FOR: TimeDelta = TimeDelta::days(14);

/// Writes the files of an array and syncs them and their directories. Existing files are an error unless they have
/// the same contents.
pub fn write(dir: &Path, files: &[File]) -> Result<(), FileError> {
    // The directory above may also be new.
    make_directory_of(dir).map_err(FileError::of("create the directory of", dir))?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(FileError::of("create", dir)(error));
        }
        _ => {}
    }
    for (name, bytes) in files {
        let path = dir.join(name);
        let is_new = create(&path, bytes, 0o444).map_err(FileError::of("write", &path))?;
        if !is_new && fs::read(&path).map_err(FileError::of("read", &path))? != *bytes {
            let problem = io::Error::other("it already exists with different contents");
            return Err(FileError::of("write", &path)(problem));
        }
    }
    sync_directory_of(&dir.join(WRAPPER)).map_err(FileError::of("sync", dir))?;
    sync_directory_of(dir).map_err(FileError::of("sync the directory of", dir))
}

/// Removes the files of an array that was certainly not accepted.
pub fn remove(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir) {
        tracing::debug!("cannot remove {}: {error}", dir.display());
    }
}

/// The tasks of an array by index; `None` if there is no such list.
pub fn read(arrays: &Path, submission_id: &str) -> Result<Option<Vec<TaskKey>>, FileError> {
    if !is_array_id(submission_id) {
        return Ok(None);
    }
    let path = arrays.join(submission_id).join(LIST);
    let text = durable::read(&path)?;
    let Some(text) = text else { return Ok(None) };
    parse(&text, submission_id)
        .map(Some)
        .map_err(|problem| FileError::of("use the task list", &path)(io::Error::other(problem)))
}

/// The array whose submission id has this beginning, if there is exactly one.
pub fn find(arrays: &Path, beginning: &str) -> Option<String> {
    let mut found = ids(arrays).filter(|id| id.starts_with(beginning));
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// Removes the old directories of arrays except those whose submission ids are `needed`.
pub fn clean(arrays: &Path, needed: &HashSet<String>, now: DateTime<Utc>) {
    for id in ids(arrays).filter(|id| !needed.contains(id)) {
        let path = arrays.join(id);
        let is_old = |metadata: fs::Metadata| {
            let modified = metadata.modified().ok()?;
            Some(metadata.is_dir() && now - DateTime::<Utc>::from(modified) > KEPT_FOR)
        };
        if fs::symlink_metadata(&path).ok().and_then(is_old) == Some(true) {
            remove(&path);
        }
    }
}

/// Entries with other names are not ours.
fn ids(arrays: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(arrays).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_array_id(name))
}

/// Format version; lists of other versions are refused.
const VERSION: u32 = 1;

/// The variable that replaces a line break in the values of `tasks.sh`, which has one line per task.
const NEWLINE: &str = "snbb_array_newline";

/// The variable with the job name of the task, for its logs.
const NAME: &str = "snbb_array_name";

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
    let listed = |(index, task): (usize, &&JobRequest)| Listed {
        index,
        subject: task.key.subject.to_string(),
        session: task.key.session.to_string(),
        job_name: task.job_name.clone(),
        arguments: task.arguments.clone(),
    };
    let list = TaskList {
        version: VERSION,
        submission_id: array.submission_id.clone(),
        project: first.map(|task| task.project.clone()).unwrap_or_default(),
        procedure: first.map_or_else(String::new, |task| task.key.procedure.to_string()),
        tasks: tasks.iter().enumerate().map(listed).collect(),
    };
    // Texts and numbers always serialize.
    let mut text = serde_json::to_vec_pretty(&list).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Reads `tasks.json` of the array with this submission id: its tasks by index.
fn parse(text: &[u8], submission_id: &str) -> Result<Vec<TaskKey>, String> {
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
    let tasks = list.tasks.iter();
    if !tasks.clone().map(|task| task.index).eq(0..tasks.len()) {
        return Err("its tasks are not numbered in order".to_owned());
    }
    let key = |task: &Listed| TaskKey::new(&task.subject, &task.session, &list.procedure);
    Ok(tasks.map(key).collect())
}

/// The text of `tasks.sh`: line `n + 1` sets variables and arguments of task `n`.
///
/// `common` is true for variables that sbatch already passes on.
fn shell_list(tasks: &[&JobRequest], common: &dyn Fn(&str) -> bool) -> Vec<u8> {
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
fn quote(value: &str) -> String {
    // A text with a line break is always in single quotes.
    shell::quote(value).replace('\n', &format!("'\"${{{NEWLINE}}}\"'"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::decide::request::batch::testing::prepared;

    const ID: &str = "array-0123456789abcdef";

    fn file(bytes: &[u8]) -> File {
        (LIST, bytes.to_vec())
    }

    #[test]
    fn a_written_array_is_never_changed() {
        let home = tempfile::tempdir().unwrap();
        let arrays = home.path().join("state.arrays");
        let dir = arrays.join(ID);
        write(&dir, &[file(b"a")]).unwrap();
        write(&dir, &[file(b"a")]).unwrap();
        let error = write(&dir, &[file(b"b")]).unwrap_err();
        assert!(error.to_string().contains("different contents"), "{error}");
        assert_eq!(fs::read(dir.join(LIST)).unwrap(), b"a");
        assert!(read(&arrays, ID).is_err());
        assert!(read(&arrays, "array-0000000000000000").unwrap().is_none());
        assert!(read(&arrays, "../x").unwrap().is_none());
        assert_eq!(find(&arrays, "array-01234567").as_deref(), Some(ID));
        assert_eq!(find(&arrays, "array-11234567"), None);
    }

    #[test]
    fn only_old_arrays_that_are_not_needed_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let arrays = home.path();
        let old = "array-00000000000000aa";
        let needed = "array-00000000000000bb";
        let young = "array-00000000000000cc";
        for name in [old, needed, young, "other", "array-x"] {
            fs::create_dir(arrays.join(name)).unwrap();
            let age = if name == young { 13 } else { 15 };
            let time = SystemTime::now() - Duration::from_secs(age * 24 * 3600);
            fs::File::open(arrays.join(name))
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let now = SystemTime::now().into();
        clean(arrays, &HashSet::from([needed.to_owned()]), now);
        let mut left: Vec<String> = fs::read_dir(arrays)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "array-00000000000000bb",
                "array-00000000000000cc",
                "array-x",
                "other"
            ]
        );
        clean(&arrays.join("nowhere"), &HashSet::new(), now);
    }

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
        let text = shell_list(&[&hostile, &hostile], &|_| false);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 2);
    }
}
