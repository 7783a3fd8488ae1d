//! The table of all keys: section, name, kind of value, default, description.

use super::Section::{
    Audit, Dependency, LogPattern, Marker, Notify, Procedure, Retry, RetryRule, Safety, Site,
};
use super::kind::Fallback::{Is, Nothing, Of, Required, Words};
use super::kind::Kind::{
    Address, Choice, Dependencies, Duration, Entries, Environment, Factor, Flag, Hours, List,
    LogPatterns, Mapping, Markers, Memory, Name, OutputDir, Path, Pattern, Percent, Procedures,
    Project, PromFile, Reasons, Regex, Retries, SbatchArgs, Scalar, Script, Size, Text, Time,
    Variable, Whole, Word,
};
use super::kind::{COUNT, COUNT_OR_0, Fallback, Kind, whole};
use super::{Key, Section};
use crate::model::annex::Annex;
use crate::model::config::{Fairness, Occasion};
use crate::model::job::ExecutorKind;
use crate::model::procedure::{ArrayMode, Check, Scope};

const fn key(
    section: Section,
    name: &'static str,
    kind: Kind,
    default: Fallback,
    doc: &'static str,
) -> Key {
    Key {
        section,
        name,
        kind,
        default,
        doc,
    }
}

/// All keys, in the order of the documentation.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key(Site, "dicom_root", Path, Is("/data/snbb/dicom"), "Directory where DICOM files arrive, in `sub-*/ses-*`"),
    key(Site, "bids_root", Path, Is("/data/snbb/bids"), "The BIDS dataset"),
    key(Site, "derivatives_root", Path, Is("/data/snbb/derivatives"), "Directory for the outputs of procedures that set `output_dir`"),
    key(Site, "state_file", Path, Is("/data/snbb/.scheduler_state.parquet"), "The state file, with one row per task. It must not be in a subject's directory or in a procedure's `output_dir`"),
    key(Site, "log_file", Path, Words("`scheduler_audit.jsonl` beside the state file"), "The audit log, with one line per event"),
    key(Site, "project", Project, Words("a hash of the state file's path"), "Name that distinguishes several studies of one user in Slurm's queue"),
    key(Site, "discover", Choice(&["dicom", "bids"]), Is("dicom"), "Where to find sessions: in `dicom_root`, or in `bids_root` for a dataset that arrives already converted"),
    key(Site, "sessionless", Flag, Is("no"), "Treat a subject in `dicom_root` without `ses-*` directories as one session without a label"),
    key(Site, "sessions_file", Path, Nothing, "CSV or TSV file that lists the sessions, used instead of searching `dicom_root`"),
    key(Site, "subject_col", Text, Is("UID"), "Column of `sessions_file` that contains the subject"),
    key(Site, "session_col", Text, Is("ScanID"), "Column of `sessions_file` that contains the session"),
    key(Site, "pad_ids", Flag, Is("yes"), "Pad the ids in `sessions_file` with zeros: subjects to 4 characters, sessions to 12. With `no`, ids are used as written"),
    key(Site, "exclude", Entries { least: 0 }, Nothing, "Subjects and sessions to leave out: a list of entries such as `sub-0001`, `sub-0001/ses-01` or `sub-9*`, or a file with one entry per line"),
    key(Site, "include", Entries { least: 1 }, Nothing, "If set, only these subjects and sessions are processed; same format as `exclude`"),
    key(Site, "annex", Choice(&Annex::WORDS), Is("present"), "Whether git-annex links count as files when their content is not on this machine"),
    key(Site, "executor", Choice(&ExecutorKind::WORDS), Is("slurm"), "What runs the jobs: Slurm, or child processes on this machine"),
    key(Site, "local_jobs", whole(1, 4096), Is("1"), "Number of jobs that `executor: local` runs at the same time"),
    key(Site, "script_dir", Path, Nothing, "Directory that is searched first for job scripts"),
    key(Site, "slurm_partition", Word, Is("debug"), "`--partition` for procedures that do not set `partition`; empty for none"),
    key(Site, "slurm_account", Word, Is("snbb"), "`--account` for procedures that do not set `account`; empty for none"),
    key(Site, "slurm_mem", Memory, Nothing, "`--mem` for procedures that do not set `mem`"),
    key(Site, "slurm_cpus_per_task", whole(0, 65_536), Nothing, "`--cpus-per-task` for procedures that do not set `cpus_per_task`; 0 for none"),
    key(Site, "slurm_log_dir", Path, Nothing, "Directory for job logs, which are named `<procedure>/<job name>_<job id>.{out,err}`"),
    key(Site, "slurm_bin_dir", Path, Nothing, "Directory of `sbatch`, `squeue`, `sacct` and `scancel`. If not set, `PATH` is searched"),
    key(Site, "accounting", Flag, Is("on"), "Whether to query `sacct`. If off, only the queue and the markers are used"),
    key(Site, "max_in_flight", COUNT, Nothing, "Maximum number of pending and running tasks"),
    key(Site, "max_submit_per_run", COUNT, Nothing, "Maximum number of tasks that one `run` submits"),
    key(Site, "max_queued_user_jobs", COUNT, Nothing, "Maximum number of jobs of this user in the queue, including jobs of other programs; each array task counts as one"),
    key(Site, "max_mem", Memory, Nothing, "Upper limit for the memory that any job requests; larger requests are reduced to it"),
    key(Site, "max_time", Time, Nothing, "Upper limit for the time that any job requests; larger requests are reduced to it"),
    key(Site, "max_cpus", whole(1, 65_536), Nothing, "Upper limit for the CPUs that any job requests; larger requests are reduced to it"),
    key(Site, "fair", Choice(&Fairness::WORDS), Is("order"), "Which tasks of a procedure go first when a limit applies: those of the first subjects, or one of each subject in turn"),
    key(Site, "retry", Retries, Is("off"), "Automatic retry policy for procedures that do not set their own"),
    key(Site, "pause_after_failures", COUNT_OR_0, Is("10"), "Pause a procedure after this many consecutive failures, until `resume`; 0 for never"),
    key(Site, "warmup", COUNT_OR_0, Is("0"), "Number of jobs of a procedure that must succeed before more are submitted"),
    key(Site, "array", Choice(&ArrayMode::WORDS), Is("never"), "Whether to submit the due tasks of a procedure as a job array; `auto` does so for 10 or more tasks with the same resources"),
    key(Site, "array_throttle", COUNT, Nothing, "Maximum number of tasks of one array that run at the same time"),
    key(Site, "resubmit_failed", Flag, Is("no"), "Submit failed tasks again in every run, as the Python program did"),
    key(Site, "dicom_settle", Duration, Nothing, "Hold a session back while its newest DICOM file (with `discover: bids`, its newest file) is younger than this. If not set, no session is held back"),
    key(Site, "dicom_gate", Flag, Is("no"), "Hold back sessions with fewer DICOM files than `audit.dicom_min_files`"),
    key(Site, "recheck", Duration, Is("0"), "How long to trust a complete task before checking its outputs and inputs again, such as `24h`; 0 checks everything in every run"),
    key(Site, "scan_threads", whole(1, 512), Is("16"), "Number of threads that read the file system in parallel"),
    key(Site, "output_grace", Duration, Is("10m"), "How long outputs may take to appear after a job has ended"),
    key(Site, "lost_grace", Duration, Is("1h"), "How long to wait for Slurm to report the end of a job that left the queue. After that, its outputs decide whether it is complete or lost"),
    key(Site, "absence_grace", Duration, Is("5m"), "How long a job must be missing from the queue before its outputs are trusted without accounting; must be longer than any cache of `squeue`"),
    key(Site, "settle_time", Duration, Is("5m"), "How long to look for a submission whose outcome is unknown before giving it up"),
    key(Site, "deadline", Duration, Is("10m"), "Maximum duration of one invocation; remaining work is left for the next one"),
    key(Site, "lock_timeout", Duration, Is("10s"), "How long to wait for another invocation that is writing the state"),
    key(Site, "qsirecon_spec", Path, Nothing, "QSIRecon workflow file; each `qsirecon_suffix` in it names a report that must exist"),
    key(Site, "procedures", Procedures, Words("the built-in pipeline"), "The pipeline, in order of priority; replaces the built-in pipeline"),
    key(Site, "safety", Mapping(Safety), Nothing, "When a run stops before submitting because the disk cannot be trusted"),
    key(Site, "audit", Mapping(Audit), Nothing, "Settings of the `audit` command"),
    key(Site, "notify", Mapping(Notify), Nothing, "Notifications about new problems"),
    key(Site, "heartbeat_file", Path, Nothing, "File written at the end of each `run` (JSON: time, exit code, counts), so that a watchdog can detect that cron has stopped"),
    key(Site, "metrics_file", PromFile, Nothing, "Prometheus metrics for node_exporter's textfile collector, written at the end of each `run`, `monitor` and `retry`"),

    key(Audit, "dicom_min_files", whole(0, u64::MAX), Is("10"), "A session with fewer DICOM files is suspicious"),
    key(Audit, "stale_job_threshold_hours", Hours, Is("168"), "Jobs in flight for longer than this are reported as stale"),
    key(Audit, "report_dir", Path, Nothing, "Directory for reports and their history"),
    key(Audit, "email_recipients", List(&Address), Nothing, "Recipients of the report sent by `audit --email`"),
    key(Audit, "email_from", Address, Is("snbb-scheduler@localhost"), "Sender address"),
    key(Audit, "smtp_host", Word, Is("localhost"), "Mail server"),
    key(Audit, "smtp_port", whole(1, 65_535), Is("25"), "Port of the mail server"),
    key(Audit, "smtp_tls", Flag, Is("no"), "Whether to use STARTTLS"),
    key(Audit, "smtp_username", Text, Nothing, "User name for the mail server"),
    key(Audit, "smtp_password", Scalar, Nothing, "Password for the mail server; only the file's owner should be able to read the file then"),
    key(Audit, "smtp_password_env", Variable, Nothing, "Environment variable that contains the password"),
    key(Audit, "log_patterns", LogPatterns, Nothing, "Error patterns of this site for job logs, searched before the built-in ones"),

    key(LogPattern, "name", Text, Required, "Short name for the report"),
    key(LogPattern, "regex", Regex, Required, "Matched against each line of a failed task's log; character classes are ASCII, `(?i)` ignores case"),
    key(LogPattern, "hint", Text, Nothing, "How to fix the error"),

    key(Procedure, "name", Name, Required, "Unique name, used in job names and log paths: letters, digits, `_`, `.`, `+`, `-`"),
    key(Procedure, "output_dir", OutputDir, Required, "Output directory, relative to `derivatives_root`; `\"\"` means `bids_root` itself. The task's own directory in it is `<subject>[/<session>]`, unless the value contains `{subject}` or `{session}`"),
    key(Procedure, "script", Script, Required, "The job script: an absolute path, or a file that is searched for in `script_dir`, beside the configuration file and on `PATH`"),
    key(Procedure, "scope", Choice(&Scope::WORDS), Is("session"), "Whether to run once per session or once per subject"),
    key(Procedure, "depends_on", Dependencies, Nothing, "Procedures that must be complete first; an entry may be a mapping, see below"),
    key(Procedure, "completion_marker", Markers, Nothing, "Files in the task's output directory that prove completeness; an entry may be a mapping, see below. If not set, any file in the output directory does"),
    key(Procedure, "forbid", List(&Pattern), Nothing, "Files that must not exist, such as crash files"),
    key(Procedure, "check", Choice(&Check::WORDS), Words("by the procedure's name"), "How to judge completeness: by markers, or by the built-in check for FreeSurfer or QSIRecon, the default for procedures with these names"),
    key(Procedure, "partition", Word, Of("slurm_partition"), "`--partition`; empty for none"),
    key(Procedure, "account", Word, Of("slurm_account"), "`--account`; empty for none"),
    key(Procedure, "qos", Word, Nothing, "`--qos`"),
    key(Procedure, "time", Time, Nothing, "`--time`: minutes, `h:m:s`, `d-h` or `d-h:m:s`"),
    key(Procedure, "mem", Memory, Of("slurm_mem"), "`--mem`: an integer and K, M, G or T"),
    key(Procedure, "cpus_per_task", whole(0, 65_536), Of("slurm_cpus_per_task"), "`--cpus-per-task`; 0 for none"),
    key(Procedure, "gres", Word, Nothing, "`--gres`, such as `gpu:1`"),
    key(Procedure, "sbatch_args", SbatchArgs, Nothing, "Further options, passed to sbatch unchanged"),
    key(Procedure, "env", Environment, Nothing, "Environment variables for the job, in addition to `SNBB_*`"),
    key(Procedure, "output_grace", Duration, Words("the site-wide value"), "Overrides the site's `output_grace`, for scripts that submit further jobs and exit"),
    key(Procedure, "max_in_flight", COUNT, Nothing, "Maximum number of pending and running tasks of this procedure"),

    key(Procedure, "min_sessions", whole(1, 100_000), Is("1"), "For `scope: subject`: the number of ready sessions that a subject needs before its task is due"),
    key(Procedure, "rerun_when_stale", Flag, Is("no"), "Run a complete task again when its input files have changed since it ran. With `scope: subject`, also when the subject has a session that it did not include"),
    key(Procedure, "accept_outputs", Flag, Is("no"), "Treat a task whose job failed as complete if its outputs are complete; with `no`, it waits for `retry`"),
    key(Procedure, "retry", Retries, Of("retry"), "Automatic retry policy"),
    key(Procedure, "pause_after_failures", COUNT_OR_0, Of("pause_after_failures"), "Pause the procedure after this many consecutive failures, until `resume`; 0 for never"),
    key(Procedure, "warmup", COUNT_OR_0, Of("warmup"), "Number of jobs that must succeed before more are submitted"),
    key(Procedure, "array", Choice(&ArrayMode::WORDS), Of("array"), "Whether to submit due tasks as a job array; `auto` does so for 10 or more tasks with the same resources"),
    key(Procedure, "array_throttle", COUNT, Of("array_throttle"), "Maximum number of tasks of one array that run at the same time"),

    key(Dependency, "name", Scalar, Required, "The procedure that must be complete first"),
    key(Dependency, "sessions", Choice(&["all", "any", "same"]), Words("`same` for `scope: session`, `all` for `scope: subject`"), "Which sessions of a `scope: session` procedure must be complete: all of the subject, any of the subject, or the task's own (`same`, only for `scope: session`)"),

    key(Marker, "glob", Pattern, Required, "Relative path; `*`, `?` and `[...]` match within a name, `**` matches any depth, `{subject}` and `{session}` are the task's labels"),
    key(Marker, "min_size", Size, Words("1 if `glob` has wildcards, else 0"), "Smaller files do not count. With more than the default, directories do not count either"),
    key(Marker, "contains", Scalar, Nothing, "Files without this text do not count"),
    key(Marker, "not_contains", Scalar, Nothing, "Files with this text do not count"),
    key(Marker, "when", List(&Pattern), Nothing, "Patterns in the session's `bids_root` directory; if no file matches any of them, the marker is not required"),
    key(Marker, "base", Choice(&["task", "procedure", "derivatives", "bids"]), Is("task"), "Directory in which `glob` starts: the task's output directory, the part of `output_dir` before its first placeholder, `derivatives_root`, or `bids_root`. All but `task` need `{subject}` in `glob`"),
    key(Marker, "min_count", COUNT, Is("1"), "Minimum number of matching files"),
    key(Marker, "count", Choice(&["input"]), Nothing, "`input`: require as many matching files as there are matches of `when`, so that 2 of 3 runs are incomplete"),

    key(Retry, "on", Reasons, Required, "Failure reasons to retry, each with an optional rule (below)"),
    key(Retry, "max_attempts", whole(1, 1000), Is("3"), "Maximum number of attempts, including the first; the `retry` command starts a new count"),
    key(Retry, "max_infrastructure", whole(0, 1000), Is("5"), "Maximum number of additional attempts after failures that are not the job's fault (`node_fail`, `boot_fail`, `preempted`, `launch_failed`)"),

    key(RetryRule, "mem_factor", Factor, Nothing, "Multiply the memory request of the last attempt by this factor"),
    key(RetryRule, "mem_max", Memory, Nothing, "Upper limit for the increased memory request"),
    key(RetryRule, "time_factor", Factor, Nothing, "Multiply the time limit of the last attempt by this factor"),
    key(RetryRule, "time_max", Time, Nothing, "Upper limit for the increased time limit"),
    key(RetryRule, "exclude_node", Flag, Is("no"), "Do not run the next attempts on the node that failed (`--exclude`)"),
    key(RetryRule, "codes", List(&Whole { least: 1, most: 255 }), Words("all"), "For `exit_code`: the exit codes to retry; a signal is 128 plus its number"),
    key(RetryRule, "delay", Duration, Words("none; for failures that are not the job's fault, 1m, doubled each time"), "How long to wait after the failure"),

    key(Safety, "max_drop", Percent, Is("10%"), "Largest allowed drop in the number of sessions, or of complete tasks of a procedure (a drop below 5 is allowed unless none is left); 100% disables the check"),
    key(Safety, "min_free", Size, Is("16M"), "Minimum free space on the file systems of the state file and the audit log; 0 disables the check"),

    key(Notify, "email", Flag, Is("no"), "Send the digest by mail to `audit.email_recipients`, with the mail settings of `audit`"),
    key(Notify, "command", Path, Nothing, "Program that receives the digest on standard input and the subject as `SNBB_MESSAGE_SUBJECT`; run without a shell and without arguments"),
    key(Notify, "on", List(&Choice(&Occasion::WORDS)), Words("all"), "Events to report: `failed`, `lost`, `held`, `in_doubt`, `paused`, `safety_stop`, `refused`, `unreachable`, `error`"),
];
