//! The batch script of an array: finds its task in the list and runs the copy of the script as if it had been
//! submitted alone. Pure.
//!
//! It is POSIX sh, and writes its errors to the job's log.

use std::fmt::Write as _;
use std::path::Path;

use super::{File, LIST, NAME, NEWLINE, SCRIPT, SHELL_LIST, WRAPPER, json, quote, shell_list};
use crate::base::text::sha256;
use crate::executor::script;
use crate::executor::script::Script;
use crate::executor::{ArrayJob, JobRequest};

/// The files of an array, or why the tasks cannot be an array. `common` is true for variables that sbatch passes on.
pub fn files(
    array: &ArrayJob,
    tasks: &[&JobRequest],
    script: &Script,
    common: &dyn Fn(&str) -> bool,
) -> Result<Vec<File>, String> {
    let texts = tasks
        .iter()
        .flat_map(|task| task.arguments.iter().chain(task.env.values()));
    if let Some(text) = texts.into_iter().find(|text| text.contains('\0')) {
        return Err(format!("a NUL character in '{}'", text.escape_debug()));
    }
    let directives = directives(&script.text);
    let makes_parts = |line: &&[u8]| {
        let words = line.split(u8::is_ascii_whitespace);
        let second = words.filter(|word| !word.is_empty()).nth(1);
        matches!(second, Some(b"hetjob" | b"packjob"))
    };
    if directives.iter().any(makes_parts) {
        return Err(
            "the script requests a heterogeneous job, which cannot be an array in Slurm".to_owned(),
        );
    }
    let shell_list = shell_list(tasks, common);
    let mut wrapper = b"#!/bin/sh\n".to_vec();
    for line in directives {
        wrapper.extend_from_slice(line);
        wrapper.push(b'\n');
    }
    let body = body(array, tasks.first().copied(), script, &shell_list)?;
    wrapper.extend_from_slice(body.as_bytes());
    Ok(vec![
        (LIST, json(array, tasks)),
        (SHELL_LIST, shell_list),
        (SCRIPT, script.text.clone()),
        (WRAPPER, wrapper),
    ])
}

/// The lines from which sbatch reads options. Options on sbatch's command line take precedence, as with any script.
fn directives(script: &[u8]) -> Vec<&[u8]> {
    let words: [&[u8]; 3] = [b"#SBATCH", b"#PBS", b"#BSUB"];
    let lines = script::header(script).map(|(_, line)| line);
    lines
        .filter(|line| words.iter().any(|word| line.starts_with(word)))
        .collect()
}

fn body(
    array: &ArrayJob,
    first: Option<&JobRequest>,
    script: &Script,
    shell_list: &[u8],
) -> Result<String, String> {
    let mut text = HEAD.replace("@NEWLINE@", NEWLINE);
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}={}", quote(value));
    };
    set("snbb_array_dir", path_text(&array.dir)?);
    let log_dir = first.and_then(|task| task.log_dir.as_deref());
    set("snbb_array_logs", log_dir.map_or(Ok(""), path_text)?);
    set("snbb_array_job", &array.job_name);
    set("snbb_array_list_sum", &sha256(shell_list));
    set("snbb_array_script_sum", &sha256(&script.text));
    let words = Vec::from_iter(script.interpreter.iter().map(|word| quote(word)));
    let body = BODY.replace("@NAME@", NAME);
    Ok(text + &body.replace("@INTERPRETER@", &words.join(" ")))
}

/// The wrapper cannot contain a path that is not UTF-8.
fn path_text(path: &Path) -> Result<&str, String> {
    path.to_str()
        .ok_or_else(|| format!("{} is not UTF-8", path.display()))
}

const HEAD: &str = r#"# Written by snbb-scheduler; do not change. Runs one task of a job array with the copy of the
# job script in this directory, with the task's arguments and variables.
@NEWLINE@='
'
"#;

/// Every name begins with `snbb_array`, and none is exported to the script. Exit codes are those of `sysexits.h`.
const BODY: &str = r#"@NAME@=''

snbb_array_stop() { # EXIT_CODE MESSAGE
  printf 'snbb-scheduler: %s (job %s, node %s)\n' "$2" "${SLURM_JOB_ID:-?}" "$(uname -n)" >&2
  exit "$1"
}

# Waits for a file that a network file system does not show yet, and checks its contents.
snbb_array_check() { # FILE SHA256
  snbb_array_tries=0
  until [ -r "$1" ]; do
    snbb_array_tries=$((snbb_array_tries + 1))
    if [ "$snbb_array_tries" -gt 12 ]; then
      snbb_array_stop 66 "cannot read $1; the directory of the state file must be visible on compute nodes"
    fi
    sleep 5
    ls "$snbb_array_dir" >/dev/null 2>&1
  done
  snbb_array_found=$(sha256sum <"$1") || snbb_array_stop 66 "cannot read $1"
  if [ "${snbb_array_found%% *}" != "$2" ]; then
    snbb_array_stop 65 "$1 has changed since this array was submitted"
  fi
}

case ${SLURM_ARRAY_TASK_ID:-} in
'' | *[!0-9]*) snbb_array_stop 64 "this is not a task of a job array" ;;
esac
command -v sha256sum >/dev/null || snbb_array_stop 69 "sha256sum is missing, so the task list cannot be checked"
snbb_array_check "$snbb_array_dir/tasks.sh" "$snbb_array_list_sum"
snbb_array_check "$snbb_array_dir/script" "$snbb_array_script_sum"
snbb_array_line=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$snbb_array_dir/tasks.sh")
if [ -z "$snbb_array_line" ]; then
  snbb_array_stop 64 "$snbb_array_dir/tasks.sh has no task $SLURM_ARRAY_TASK_ID"
fi
eval "$snbb_array_line"

# Renames the logs after the task; the job continues to write to the same files.
if [ -n "$snbb_array_logs" ]; then
  snbb_array_id="${SLURM_ARRAY_JOB_ID:-}_$SLURM_ARRAY_TASK_ID"
  for snbb_array_end in out err; do
    snbb_array_log="$snbb_array_logs/${snbb_array_job}_$snbb_array_id.$snbb_array_end"
    if [ -e "$snbb_array_log" ]; then
      mv -f "$snbb_array_log" "$snbb_array_logs/${@NAME@}_$snbb_array_id.$snbb_array_end"
    fi
  done
fi

# As if the task had been submitted alone.
SLURM_JOB_NAME=$@NAME@
export SLURM_JOB_NAME
exec @INTERPRETER@ "$snbb_array_dir/script" "$@"
"#;

#[cfg(test)]
mod tests;
