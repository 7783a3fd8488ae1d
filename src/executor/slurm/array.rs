//! Submits job arrays: their files, command line and maximum size.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::client::SlurmExecutor;
use super::sbatch_line::Line;
use crate::executor::array::{files, wrapper};
use crate::executor::script::{Script, header_of};
use crate::executor::slurm::client::home::setting;
use crate::executor::{ArrayJob, Executor as _, ExecutorError, JobRequest, Submission};

/// Slurm's default: indexes 0 to 1000.
const DEFAULT_LIMIT: usize = 1001;

impl SlurmExecutor {
    /// The maximum number of tasks in an array; Slurm's default without an answer.
    pub(super) fn ask_array_limit(&mut self) -> usize {
        match self.site_config() {
            Ok(text) => array_limit(text),
            Err(error) => {
                tracing::debug!("{error}; assuming at most {DEFAULT_LIMIT} tasks per array");
                DEFAULT_LIMIT
            }
        }
    }

    pub(super) fn array_argv(&self, array: &ArrayJob, tasks: &[&JobRequest]) -> Vec<OsString> {
        let Some(first) = tasks.first() else {
            return Vec::new();
        };
        let sbatch = self.find_sbatch();
        let last = tasks.len() - 1;
        let line = Line {
            submission_id: &array.submission_id,
            job_name: &array.job_name,
            log_symbols: "%A_%a",
            array: Some(match array.throttle {
                Some(count) => format!("0-{last}%{count}"),
                None => format!("0-{last}"),
            }),
            arguments: &[],
        };
        let script = self.find_script(&first.script);
        let header = script.map(|path| header_of(&path)).unwrap_or_default();
        line.argv(first, sbatch, array.dir.join(wrapper::WRAPPER), &header)
    }

    pub(super) fn try_submit_array(
        &self,
        array: &ArrayJob,
        tasks: &[&JobRequest],
    ) -> Result<Submission, String> {
        let Some(first) = tasks.first() else {
            return Err("an array without tasks".to_owned());
        };
        let explain = |error: ExecutorError| error.with_hint();
        self.commands.find("sbatch").map_err(explain)?;
        let path = self.find_script(&first.script).map_err(explain)?;
        let script = Script::read(&path).map_err(|error| error.to_string())?;
        super::client::make_log_dir(first)?;
        let common = common_variables(tasks);
        let is_common = |name: &str| common.contains_key(name);
        let files = wrapper::files(array, tasks, &script, &is_common)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        files::write(&array.dir, &files).map_err(|error| error.to_string())?;
        let sent = self.send(&self.array_argv(array, tasks), &common);
        if matches!(sent, Ok(Submission::Refused { .. }) | Err(_)) {
            files::remove(&array.dir);
        }
        sent
    }
}

/// The variables that have the same value in all tasks.
fn common_variables(tasks: &[&JobRequest]) -> BTreeMap<String, String> {
    let Some((first, others)) = tasks.split_first() else {
        return BTreeMap::new();
    };
    let mut common = first.env.clone();
    common.retain(|name, value| others.iter().all(|task| task.env.get(name) == Some(value)));
    common
}

/// Reads `scontrol show config`. `MaxArraySize` is one more than the greatest index, 0 without arrays;
/// `max_array_tasks` of `SchedulerParameters` is a number of tasks.
fn array_limit(config: &str) -> usize {
    let size = setting(config, "MaxArraySize").and_then(|text| text.parse().ok());
    let tasks = setting(config, "SchedulerParameters").and_then(|text| {
        text.split(',')
            .find_map(|part| part.trim().strip_prefix("max_array_tasks=")?.parse().ok())
    });
    size.unwrap_or(DEFAULT_LIMIT)
        .min(tasks.unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_both_limits_counts() {
        for (config, expected) in [
            ("MaxArraySize            = 1001\n", 1001),
            (
                "MaxArraySize = 101\nSchedulerParameters     = bf_interval=1,max_array_tasks=50\n",
                50,
            ),
            (
                "MaxArraySize = 3\nSchedulerParameters     = max_array_tasks=50,x\n",
                3,
            ),
            ("MaxArraySize = 0\n", 0),
            ("SchedulerParameters = (null)\n", 1001),
            ("", 1001),
        ] {
            assert_eq!(array_limit(config), expected, "{config}");
        }
    }
}
