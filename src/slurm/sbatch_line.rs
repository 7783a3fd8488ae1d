//! The command line of sbatch. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::executor::JobRequest;
use crate::job::JobTag;

/// Holds what differs between the command lines of a single job and of an array.
pub(super) struct Line<'a> {
    pub submission_id: &'a str,
    pub job_name: &'a str,
    /// Slurm's replacement symbols for the job's id in its logs' names.
    pub log_symbols: &'a str,
    /// The indexes.
    pub array: Option<String>,
    pub arguments: &'a [String],
}

impl<'a> Line<'a> {
    pub fn of(request: &'a JobRequest) -> Self {
        Self {
            submission_id: &request.submission_id,
            job_name: &request.job_name,
            log_symbols: "%j",
            array: None,
            arguments: &request.arguments,
        }
    }

    /// Builds the command line of one sbatch.
    pub(super) fn argv(
        &self,
        request: &JobRequest,
        sbatch: PathBuf,
        script: PathBuf,
    ) -> Vec<OsString> {
        let tag = JobTag {
            project: request.project.clone(),
            submission_id: self.submission_id.to_owned(),
        };
        let resources = &request.resources;
        let mut argv: Vec<OsString> = vec![sbatch.into(), "--parsable".into()];
        push(&mut argv, "comment", Some(&tag));
        push(&mut argv, "export", Some("ALL"));
        push(&mut argv, "partition", resources.partition.as_ref());
        push(&mut argv, "account", resources.account.as_ref());
        push(&mut argv, "job-name", Some(self.job_name));
        push(&mut argv, "array", self.array.as_ref());
        push(&mut argv, "mem", resources.mem.as_ref());
        push(&mut argv, "cpus-per-task", resources.cpus_per_task.as_ref());
        if let Some(dir) = &request.log_dir {
            for (name, ending) in [("output", "out"), ("error", "err")] {
                let mut option = OsString::from(format!("--{name}="));
                option.push(log_pattern(dir, self.job_name, self.log_symbols, ending));
                argv.push(option);
            }
        }
        push(&mut argv, "time", resources.time.as_ref());
        push(&mut argv, "qos", resources.qos.as_ref());
        push(&mut argv, "gres", resources.gres.as_ref());
        argv.extend(resources.sbatch_args.iter().map(OsString::from));
        argv.push(script.into());
        argv.extend(self.arguments.iter().map(OsString::from));
        argv
    }
}

/// Adds an option that has a value; an empty text in the configuration means none.
fn push(argv: &mut Vec<OsString>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value
        .map(|value| value.to_string())
        .filter(|text| !text.is_empty())
    {
        argv.push(format!("--{name}={value}").into());
    }
}

/// Returns sbatch's file name pattern for a job's log: `%` starts a replacement symbol, so ours are doubled.
fn log_pattern(dir: &Path, job_name: &str, symbols: &str, ending: &str) -> OsString {
    let mut bytes = Vec::new();
    for byte in dir.join(job_name).as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(b'%');
        }
    }
    bytes.extend_from_slice(format!("_{symbols}.{ending}").as_bytes());
    OsString::from_vec(bytes)
}
