//! The table of all keys: section, name, kind of value, default, one sentence without full stop.

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
use crate::model::config::Fairness;
use crate::model::config::notify::Occasion;
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

/// All keys, in the order in which they are best read.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key(Site, "dicom_root", Path, Is("/data/snbb/dicom"), "Where DICOM files arrive, `sub-*/ses-*` below it"),
    key(Site, "bids_root", Path, Is("/data/snbb/bids"), "The BIDS dataset"),
    key(Site, "derivatives_root", Path, Is("/data/snbb/derivatives"), "Where procedures with an `output_dir` write"),
    key(Site, "state_file", Path, Is("/data/snbb/.scheduler_state.parquet"), "The state: one row per task. Neither in a subject's directory nor in a procedure's `output_dir`"),
    key(Site, "log_file", Path, Words("`scheduler_audit.jsonl` beside the state file"), "The audit log: one line per event"),
    key(Site, "project", Project, Words("a hash of the state file's path"), "Tells two studies of one user apart in Slurm's queue"),
    key(Site, "discover", Choice(&["dicom", "bids"]), Is("dicom"), "Where sessions are looked for: below `dicom_root`, or below `bids_root` for a dataset that arrives converted"),
    key(Site, "sessionless", Flag, Is("no"), "Below `dicom_root`, a subject without `ses-*` is one session without label"),
    key(Site, "sessions_file", Path, Nothing, "A CSV or TSV file that lists the sessions, instead of looking below `dicom_root`"),
    key(Site, "subject_col", Text, Is("UID"), "The column of `sessions_file` that holds the subject"),
    key(Site, "session_col", Text, Is("ScanID"), "The column of `sessions_file` that holds the session"),
    key(Site, "pad_ids", Flag, Is("yes"), "Ids of `sessions_file` are padded with zeros, to 4 characters for a subject and 12 for a session; `no`: used as they are written"),
    key(Site, "exclude", Entries { least: 0 }, Nothing, "Subjects and sessions that are left alone: entries such as `sub-0001`, `sub-0001/ses-01`, `sub-9*`, or a file of one entry per line"),
    key(Site, "include", Entries { least: 1 }, Nothing, "If it is there, only these subjects and sessions are worked on; written as `exclude`"),
    key(Site, "annex", Choice(&Annex::WORDS), Is("present"), "How git-annex links count whose content is not on this machine"),
    key(Site, "executor", Choice(&ExecutorKind::WORDS), Is("slurm"), "What runs jobs: Slurm, or child processes on this machine"),
    key(Site, "local_jobs", whole(1, 4096), Is("1"), "How many jobs `executor: local` runs at a time"),
    key(Site, "script_dir", Path, Nothing, "Where scripts are looked for first"),
    key(Site, "slurm_partition", Word, Is("debug"), "`--partition` of procedures without `partition`; empty for none"),
    key(Site, "slurm_account", Word, Is("snbb"), "`--account` of procedures without `account`; empty for none"),
    key(Site, "slurm_mem", Memory, Nothing, "`--mem` of procedures without `mem`"),
    key(Site, "slurm_cpus_per_task", whole(0, 65_536), Nothing, "`--cpus-per-task` of procedures without `cpus_per_task`; 0 for none"),
    key(Site, "slurm_log_dir", Path, Nothing, "Jobs write `<procedure>/<job name>_<job id>.{out,err}` below it"),
    key(Site, "slurm_bin_dir", Path, Nothing, "Where `sbatch`, `squeue`, `sacct` and `scancel` are (none: on `PATH`)"),
    key(Site, "accounting", Flag, Is("on"), "Whether `sacct` is asked; off: the queue and the markers decide"),
    key(Site, "max_in_flight", COUNT, Nothing, "How many tasks may be pending or running at a time"),
    key(Site, "max_submit_per_run", COUNT, Nothing, "How many tasks one `run` may submit"),
    key(Site, "max_queued_user_jobs", COUNT, Nothing, "Nothing is submitted that would bring the user's jobs in the queue above this; all jobs count, array tasks one by one"),
    key(Site, "max_mem", Memory, Nothing, "A job that would ask for more memory asks for this much"),
    key(Site, "max_time", Time, Nothing, "A job that would ask for more time asks for this much"),
    key(Site, "max_cpus", whole(1, 65_536), Nothing, "A job that would ask for more CPUs asks for this many"),
    key(Site, "fair", Choice(&Fairness::WORDS), Is("order"), "When a limit bites: the first subjects' tasks, or one of each subject in turn, within a procedure"),
    key(Site, "retry", Retries, Is("off"), "Failures that are tried again without a person, for procedures without `retry`"),
    key(Site, "pause_after_failures", COUNT_OR_0, Is("10"), "So many failures in a row without a success pause a procedure, until `resume`; 0 for never"),
    key(Site, "warmup", COUNT_OR_0, Is("0"), "So many jobs of a procedure must succeed before more are submitted"),
    key(Site, "array", Choice(&ArrayMode::WORDS), Is("never"), "Submit the due tasks of a procedure as a job array: `auto` when 10 or more with equal resources are due"),
    key(Site, "array_throttle", COUNT, Nothing, "How many tasks of one array may run at a time"),
    key(Site, "resubmit_failed", Flag, Is("no"), "Submit failed tasks again at every run, as the Python program did"),
    key(Site, "dicom_settle", Duration, Nothing, "A session is held back while its newest DICOM file (`discover: bids`: its newest file) is younger than this; until then nothing is *not applicable*"),
    key(Site, "dicom_gate", Flag, Is("no"), "Hold sessions back that have fewer DICOM files than `audit.dicom_min_files`"),
    key(Site, "recheck", Duration, Is("0"), "How long a complete task is trusted without another look at its outputs and at late input, such as `24h`; 0: each run looks at everything"),
    key(Site, "scan_threads", whole(1, 512), Is("16"), "How many threads wait for the file system at a time"),
    key(Site, "output_grace", Duration, Is("10m"), "How long outputs may take to appear after a job's end"),
    key(Site, "lost_grace", Duration, Is("1h"), "How long Slurm may show no end of a job that left the queue before its outputs decide: complete or lost"),
    key(Site, "absence_grace", Duration, Is("5m"), "How long a job must be missing from the queue before its outputs are trusted without accounting; must exceed any cache of `squeue`"),
    key(Site, "settle_time", Duration, Is("5m"), "How long a submission whose outcome is unknown is looked for before it is given up"),
    key(Site, "deadline", Duration, Is("10m"), "How long one call may take; what is left waits for the next one"),
    key(Site, "lock_timeout", Duration, Is("10s"), "How long a call waits for another one that writes the state"),
    key(Site, "qsirecon_spec", Path, Nothing, "The QSIRecon workflow whose `qsirecon_suffix` words name the reports that must be there"),
    key(Site, "procedures", Procedures, Words("the built-in six"), "The pipeline, in order of priority; a list replaces the built-in one"),
    key(Site, "safety", Mapping(Safety), Nothing, "When a run submits nothing because the data looks wrong"),
    key(Site, "audit", Mapping(Audit), Nothing, "Settings of the `audit` command"),
    key(Site, "notify", Mapping(Notify), Nothing, "Who is told when something changes for the worse"),
    key(Site, "heartbeat_file", Path, Nothing, "Written at the end of each `run` (JSON: time, exit code, counts), so that a watchdog can tell when cron is dead"),
    key(Site, "metrics_file", PromFile, Nothing, "Figures for Prometheus (node_exporter's textfile collector), written at the end of each `run`, `monitor` and `retry`"),

    key(Audit, "dicom_min_files", whole(0, u64::MAX), Is("10"), "A session with fewer DICOM files is suspicious"),
    key(Audit, "stale_job_threshold_hours", Hours, Is("168"), "A job in flight for longer is reported as stale"),
    key(Audit, "report_dir", Path, Nothing, "Where reports and their history are kept"),
    key(Audit, "email_recipients", List(&Address), Nothing, "Who gets the report by `audit --email`"),
    key(Audit, "email_from", Address, Is("snbb-scheduler@localhost"), "The sender"),
    key(Audit, "smtp_host", Word, Is("localhost"), "The mail server"),
    key(Audit, "smtp_port", whole(1, 65_535), Is("25"), "Its port"),
    key(Audit, "smtp_tls", Flag, Is("no"), "Whether STARTTLS is used"),
    key(Audit, "smtp_username", Text, Nothing, "The user to log in as"),
    key(Audit, "smtp_password", Scalar, Nothing, "The password; the file must then be readable by its owner only"),
    key(Audit, "smtp_password_env", Variable, Nothing, "The environment variable that holds the password"),
    key(Audit, "log_patterns", LogPatterns, Nothing, "Errors that the site knows from its logs, looked for before the built-in ones"),

    key(LogPattern, "name", Text, Required, "A short name for the report"),
    key(LogPattern, "regex", Regex, Required, "Matched against each line of a failed task's log; ASCII classes, `(?i)` for any case"),
    key(LogPattern, "hint", Text, Nothing, "What to do about it"),

    key(Procedure, "name", Name, Required, "Unique; part of job names and log paths: letters, digits, `_`, `.`, `+`, `-`"),
    key(Procedure, "output_dir", OutputDir, Required, "Below `derivatives_root`; `\"\"` is `bids_root` itself. The task's directory in it is `<subject>[/<session>]`, unless it says otherwise by `{subject}` and `{session}`"),
    key(Procedure, "script", Script, Required, "The job script: an absolute path, or looked for in `script_dir`, beside the configuration, on `PATH`"),
    key(Procedure, "scope", Choice(&Scope::WORDS), Is("session"), "Whether it runs once per session or once per subject"),
    key(Procedure, "depends_on", Dependencies, Nothing, "What must be complete first; an entry may be a mapping, see below"),
    key(Procedure, "completion_marker", Markers, Nothing, "Files below the output directory that prove completeness; an entry may be a mapping, see below. None: the output directory is not empty"),
    key(Procedure, "forbid", List(&Pattern), Nothing, "Files of which none may be there (crash files)"),
    key(Procedure, "check", Choice(&Check::WORDS), Words("by name"), "How completeness is judged: by markers, or by a check built in for procedures called `freesurfer` and `qsirecon`"),
    key(Procedure, "partition", Word, Of("slurm_partition"), "`--partition`; empty for none"),
    key(Procedure, "account", Word, Of("slurm_account"), "`--account`; empty for none"),
    key(Procedure, "qos", Word, Nothing, "`--qos`"),
    key(Procedure, "time", Time, Nothing, "`--time`: minutes, `h:m:s`, `d-h` or `d-h:m:s`"),
    key(Procedure, "mem", Memory, Of("slurm_mem"), "`--mem`: an integer and K, M, G or T"),
    key(Procedure, "cpus_per_task", whole(0, 65_536), Of("slurm_cpus_per_task"), "`--cpus-per-task`; 0 for none"),
    key(Procedure, "gres", Word, Nothing, "`--gres`, such as `gpu:1`"),
    key(Procedure, "sbatch_args", SbatchArgs, Nothing, "Further options of sbatch, as they stand"),
    key(Procedure, "env", Environment, Nothing, "Variables that the job sees besides the `SNBB_*` ones"),
    key(Procedure, "output_grace", Duration, Words("the site's"), "For scripts that submit further jobs and end"),
    key(Procedure, "max_in_flight", COUNT, Nothing, "How many tasks of this procedure may be pending or running at a time"),

    key(Procedure, "min_sessions", whole(1, 100_000), Is("1"), "For `scope: subject`: the subject needs so many sessions that are ready before the task is due"),
    key(Procedure, "rerun_when_stale", Flag, Is("no"), "A complete task runs again when input files changed after it ran or, for `scope: subject`, when the subject has a session that it did not work on"),
    key(Procedure, "accept_outputs", Flag, Is("no"), "A task whose job failed is complete if its outputs are; `no`: it waits for `retry`"),
    key(Procedure, "retry", Retries, Of("retry"), "Failures that are tried again without a person"),
    key(Procedure, "pause_after_failures", COUNT_OR_0, Of("pause_after_failures"), "So many failures in a row without a success pause the procedure, until `resume`; 0 for never"),
    key(Procedure, "warmup", COUNT_OR_0, Of("warmup"), "So many jobs must succeed before more are submitted"),
    key(Procedure, "array", Choice(&ArrayMode::WORDS), Of("array"), "Submit due tasks as a job array: `auto` when 10 or more with equal resources are due"),
    key(Procedure, "array_throttle", COUNT, Of("array_throttle"), "How many tasks of one array may run at a time"),

    key(Dependency, "name", Scalar, Required, "The procedure that must be complete first"),
    key(Dependency, "sessions", Choice(&["all", "any", "same"]), Words("`same` per session, `all` per subject"), "Which sessions of a procedure per session are waited for: all of the subject, one of the subject, or the task's own (for `scope: session` only)"),

    key(Marker, "glob", Pattern, Required, "A relative path; `*`, `?`, `[...]` within a name, `**` for any depth, `{subject}` and `{session}` for the task's labels"),
    key(Marker, "min_size", Size, Words("1 with wildcards, 0 without"), "Smaller files do not count; more than the default asks for a file: no directory counts"),
    key(Marker, "contains", Scalar, Nothing, "Files without this text do not count"),
    key(Marker, "not_contains", Scalar, Nothing, "Files with this text do not count"),
    key(Marker, "when", List(&Pattern), Nothing, "Below the session's `bids_root` directory; if nothing matches one of them, the entry is not asked for"),
    key(Marker, "base", Choice(&["task", "procedure", "derivatives", "bids"]), Is("task"), "Where `glob` begins: the task's output directory, the part of `output_dir` before its first placeholder, `derivatives_root`, or `bids_root`; all but `task` need `{subject}` in `glob`"),
    key(Marker, "min_count", COUNT, Is("1"), "So many files must match and count"),
    key(Marker, "count", Choice(&["input"]), Nothing, "`input`: as many files must match as match one of `when`, so that 2 of 3 runs are incomplete"),

    key(Retry, "on", Reasons, Required, "The reasons that are tried again, each with its rule (below) or nothing"),
    key(Retry, "max_attempts", whole(1, 1000), Is("3"), "Attempts in all, the first one included; `retry` on the command line counts anew"),
    key(Retry, "max_infrastructure", whole(0, 1000), Is("5"), "Attempts beside these, after failures that are not the job's fault (`node_fail`, `boot_fail`, `preempted`, `launch_failed`)"),

    key(RetryRule, "mem_factor", Factor, Nothing, "The next attempt asks for so many times the memory that the last one asked for"),
    key(RetryRule, "mem_max", Memory, Nothing, "But not for more than this"),
    key(RetryRule, "time_factor", Factor, Nothing, "The next attempt asks for so many times the last one's time limit"),
    key(RetryRule, "time_max", Time, Nothing, "But not for more than this"),
    key(RetryRule, "exclude_node", Flag, Is("no"), "The next attempts do not run on the node that failed (`--exclude`)"),
    key(RetryRule, "codes", List(&Whole { least: 1, most: 255 }), Words("all"), "Exit codes that are tried again, for `exit_code`; a signal is 128 and its number"),
    key(RetryRule, "delay", Duration, Words("none; 1m and doubled each time for failures that are not the job's fault"), "How long after the failure"),

    key(Safety, "max_drop", Percent, Is("10%"), "The most by which sessions, or complete tasks of a procedure, may become fewer (fewer than 5 may, unless none is left); 100% for never"),
    key(Safety, "min_free", Size, Is("16M"), "What the file systems of state and audit log must have free; 0 for any"),

    key(Notify, "email", Flag, Is("no"), "Send the digest by mail, to `audit.email_recipients` with the mail settings of `audit`"),
    key(Notify, "command", Path, Nothing, "A program that gets the digest on its standard input, and the subject as `SNBB_MESSAGE_SUBJECT`; called without shell and arguments"),
    key(Notify, "on", List(&Choice(&Occasion::WORDS)), Words("all of them"), "What is told: `failed`, `lost`, `held`, `in_doubt`, `paused`, `safety_stop`, `refused`, `unreachable`, `error`"),
];
