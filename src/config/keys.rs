//! The one list of all keys that a configuration file may have, with what each one means.
//!
//! Unknown keys are told from it, and the tables of `docs/configuration.md` are written from it.
//! How a value is read stands in `site`, `steps` and `markers`.

use std::fmt::Write as _;

use crate::model::bids::near;

/// Names the mapping that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// The top of the file.
    Site,
    /// `audit`.
    Audit,
    /// An entry of `audit`'s `log_patterns`.
    LogPattern,
    /// An entry of `procedures`.
    Procedure,
    /// An entry of a procedure's `depends_on`.
    Dependency,
    /// An entry of a procedure's `completion_marker`.
    Marker,
    /// `retry`.
    Retry,
    /// A reason in `retry`'s `on`.
    RetryRule,
    /// `safety`.
    Safety,
    /// `notify`.
    Notify,
}

/// Describes one key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub section: Section,
    pub name: &'static str,
    /// What is written after it.
    pub kind: &'static str,
    pub default: &'static str,
    /// One sentence, without full stop.
    pub doc: &'static str,
}

impl Section {
    pub const ALL: [Self; 10] = [
        Self::Site,
        Self::Audit,
        Self::LogPattern,
        Self::Procedure,
        Self::Dependency,
        Self::Marker,
        Self::Retry,
        Self::RetryRule,
        Self::Safety,
        Self::Notify,
    ];

    /// Names the section in a sentence: "a key of ...".
    pub fn place(self) -> &'static str {
        match self {
            Self::Site => "the top of the file",
            Self::Audit => "'audit'",
            Self::LogPattern => "an entry of 'log_patterns'",
            Self::Procedure => "a procedure",
            Self::Dependency => "an entry of 'depends_on'",
            Self::Marker => "an entry of 'completion_marker'",
            Self::Retry => "'retry'",
            Self::RetryRule => "a reason in 'on'",
            Self::Safety => "'safety'",
            Self::Notify => "'notify'",
        }
    }

    /// The word that marks the section's table in the documentation.
    pub fn word(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Audit => "audit",
            Self::LogPattern => "log-pattern",
            Self::Procedure => "procedure",
            Self::Dependency => "dependency",
            Self::Marker => "marker",
            Self::Retry => "retry",
            Self::RetryRule => "retry-rule",
            Self::Safety => "safety",
            Self::Notify => "notify",
        }
    }

    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(move |key| key.section == self)
    }

    pub fn has(self, name: &str) -> bool {
        self.keys().any(|key| key.name == name)
    }

    /// Says what an unknown key may have been meant to be.
    pub fn suggest(self, name: &str) -> Option<String> {
        let names = || self.keys().map(|key| key.name);
        if let Some(near) = near::nearest(name, names()) {
            return Some(format!("did you mean '{near}'?"));
        }
        let similar = names().find(|key| near::candidates(name, [*key]).next().is_some());
        let folded = near::fold(name);
        let elsewhere = KEYS
            .iter()
            .find(|key| key.section != self && near::fold(key.name) == folded);
        match (elsewhere, similar) {
            (Some(key), Some(similar)) => Some(format!(
                "'{}' is a key of {}, here there is '{}'",
                key.name,
                key.section.place(),
                similar
            )),
            (Some(key), None) => Some(format!(
                "'{}' is a key of {}",
                key.name,
                key.section.place()
            )),
            (None, Some(similar)) => Some(format!("did you mean '{similar}'?")),
            (None, None) => {
                let (_, near) = *near::by_distance(name, names()).first()?;
                Some(format!("the nearest known key is '{near}'"))
            }
        }
    }

    /// Writes the section's table as Markdown.
    pub fn markdown(self) -> String {
        let mut table = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in self.keys() {
            let cell = |text: &str| text.replace('|', "\\|");
            let default = match key.default {
                "" | "none" => "none".to_owned(),
                "required" => "(required)".to_owned(),
                words if words.contains([' ', '`']) => cell(words),
                value => format!("`{value}`"),
            };
            let (kind, doc) = (cell(key.kind), cell(key.doc));
            // Writing to a text cannot fail.
            let _ = writeln!(table, "| `{}` | {kind} | {default} | {doc} |", key.name);
        }
        table
    }
}

const fn key(
    section: Section,
    name: &'static str,
    kind: &'static str,
    default: &'static str,
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

use Section::{
    Audit, Dependency, LogPattern, Marker, Notify, Procedure, Retry, RetryRule, Safety, Site,
};

/// All keys, in the order in which they are best read.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key(Site, "dicom_root", "path", "/data/snbb/dicom", "Where DICOM files arrive, `sub-*/ses-*` below it"),
    key(Site, "bids_root", "path", "/data/snbb/bids", "The BIDS dataset"),
    key(Site, "derivatives_root", "path", "/data/snbb/derivatives", "Where procedures with an `output_dir` write"),
    key(Site, "state_file", "path", "/data/snbb/.scheduler_state.parquet", "The state: one row per task. Neither in a subject's directory nor in a procedure's `output_dir`"),
    key(Site, "log_file", "path", "`scheduler_audit.jsonl` beside the state file", "The audit log: one line per event"),
    key(Site, "project", "1 to 32 letters, digits, `_`, `.`, `-`", "a hash of the state file's path", "Tells two studies of one user apart in Slurm's queue"),
    key(Site, "discover", "`dicom` or `bids`", "dicom", "Where sessions are looked for: below `dicom_root`, or below `bids_root` for a dataset that arrives converted"),
    key(Site, "sessionless", "yes or no", "no", "Below `dicom_root`, a subject without `ses-*` is one session without label"),
    key(Site, "sessions_file", "path", "", "A CSV file that lists the sessions, instead of looking below `dicom_root`"),
    key(Site, "subject_col", "text", "UID", "The column of `sessions_file` that holds the subject"),
    key(Site, "session_col", "text", "ScanID", "The column of `sessions_file` that holds the session"),
    key(Site, "exclude", "list, or path of a file", "", "Subjects and sessions that are left alone: entries such as `sub-0001`, `sub-0001/ses-01`, `sub-9*`, or a file of one entry per line"),
    key(Site, "include", "list, or path of a file", "", "If it is there, only these subjects and sessions are worked on; written as `exclude`"),
    key(Site, "annex", "`present` or `absent`", "present", "How git-annex links count whose content is not on this machine"),
    key(Site, "executor", "`slurm` or `local`", "slurm", "What runs jobs: Slurm, or child processes on this machine"),
    key(Site, "local_jobs", "number", "1", "How many jobs `executor: local` runs at a time"),
    key(Site, "script_dir", "path", "", "Where scripts are looked for first"),
    key(Site, "slurm_partition", "text, or empty for none", "debug", "`--partition` of procedures without `partition`"),
    key(Site, "slurm_account", "text, or empty for none", "snbb", "`--account` of procedures without `account`"),
    key(Site, "slurm_mem", "memory size", "", "`--mem` of procedures without `mem`"),
    key(Site, "slurm_cpus_per_task", "number, 0 for none", "", "`--cpus-per-task` of procedures without `cpus_per_task`"),
    key(Site, "slurm_log_dir", "path", "", "Jobs write `<procedure>/<job name>_<job id>.{out,err}` below it"),
    key(Site, "slurm_bin_dir", "path", "", "Where `sbatch`, `squeue`, `sacct` and `scancel` are (none: on `PATH`)"),
    key(Site, "accounting", "`on` or `off`", "on", "Whether `sacct` is asked; off: the queue and the markers decide"),
    key(Site, "max_in_flight", "number", "", "How many tasks may be pending or running at a time"),
    key(Site, "max_submit_per_run", "number", "", "How many tasks one `run` may submit"),
    key(Site, "max_queued_user_jobs", "number", "", "Nothing is submitted that would bring the user's jobs in the queue above this; all jobs count, array tasks one by one"),
    key(Site, "max_mem", "memory size", "", "A job that would ask for more memory asks for this much"),
    key(Site, "max_time", "time limit of Slurm", "", "A job that would ask for more time asks for this much"),
    key(Site, "max_cpus", "number", "", "A job that would ask for more CPUs asks for this many"),
    key(Site, "fair", "`order` or `subjects`", "order", "When a limit bites: the first subjects' tasks, or one of each subject in turn, within a procedure"),
    key(Site, "retry", "mapping, see below, or `off`", "off", "Failures that are tried again without a person, for procedures without `retry`"),
    key(Site, "pause_after_failures", "number, 0 for never", "10", "So many failures in a row without a success pause a procedure, until `resume`"),
    key(Site, "warmup", "number", "0", "So many jobs of a procedure must succeed before more are submitted"),
    key(Site, "array", "`never`, `auto` or `always`", "never", "Submit the due tasks of a procedure as a job array: `auto` when 10 or more with equal resources are due"),
    key(Site, "array_throttle", "number", "", "How many tasks of one array may run at a time"),
    key(Site, "resubmit_failed", "yes or no", "no", "Submit failed tasks again at every run, as the Python program did"),
    key(Site, "dicom_settle", "duration", "", "A session is held back while its newest DICOM file (`discover: bids`: its newest file) is younger than this; until then nothing is *not applicable*"),
    key(Site, "dicom_gate", "`yes` or `no`", "no", "Hold sessions back that have fewer DICOM files than `audit.dicom_min_files`"),
    key(Site, "scan_threads", "number", "16", "How many threads wait for the file system at a time"),
    key(Site, "output_grace", "duration", "10m", "How long outputs may take to appear after a job's end"),
    key(Site, "lost_grace", "duration", "1h", "How long Slurm may show no end of a job that left the queue before its outputs decide: complete or lost"),
    key(Site, "absence_grace", "duration", "5m", "How long a job must be missing from the queue before its outputs are trusted without accounting; must exceed any cache of `squeue`"),
    key(Site, "settle_time", "duration", "5m", "How long a submission whose outcome is unknown is looked for before it is given up"),
    key(Site, "deadline", "duration", "10m", "How long one call may take; what is left waits for the next one"),
    key(Site, "lock_timeout", "duration", "10s", "How long a call waits for another one that writes the state"),
    key(Site, "qsirecon_spec", "path", "", "The QSIRecon workflow whose `qsirecon_suffix` words name the reports that must be there"),
    key(Site, "procedures", "list of procedures", "the built-in six", "The pipeline, in order of priority; a list replaces the built-in one"),
    key(Site, "safety", "mapping", "", "When a run submits nothing because the data looks wrong"),
    key(Site, "audit", "mapping", "", "Settings of the `audit` command"),
    key(Site, "notify", "mapping", "", "Who is told when something changes for the worse"),
    key(Site, "heartbeat_file", "path", "", "Written at the end of each `run` (JSON: time, exit code, counts), so that a watchdog can tell when cron is dead"),
    key(Site, "metrics_file", "path that ends with `.prom`", "", "Figures for Prometheus (node_exporter's textfile collector), written at the end of each `run`, `monitor` and `retry`"),

    key(Audit, "dicom_min_files", "number", "10", "A session with fewer DICOM files is suspicious"),
    key(Audit, "stale_job_threshold_hours", "number", "168", "A job in flight for longer is reported as stale"),
    key(Audit, "report_dir", "path", "", "Where reports and their history are kept"),
    key(Audit, "email_recipients", "list of addresses", "none", "Who gets the report by `audit --email`"),
    key(Audit, "email_from", "address", "snbb-scheduler@localhost", "The sender"),
    key(Audit, "smtp_host", "text", "localhost", "The mail server"),
    key(Audit, "smtp_port", "number", "25", "Its port"),
    key(Audit, "smtp_tls", "yes or no", "no", "Whether STARTTLS is used"),
    key(Audit, "smtp_username", "text", "", "The user to log in as"),
    key(Audit, "smtp_password", "text", "", "The password; the file must then be readable by its owner only"),
    key(Audit, "smtp_password_env", "name of a variable", "", "The environment variable that holds the password"),
    key(Audit, "log_patterns", "list of patterns, see below", "none", "Errors that the site knows from its logs, looked for before the built-in ones"),

    key(LogPattern, "name", "text", "required", "A short name for the report"),
    key(LogPattern, "regex", "regular expression", "required", "Matched against each line of a failed task's log; ASCII classes, `(?i)` for any case"),
    key(LogPattern, "hint", "text", "", "What to do about it"),

    key(Procedure, "name", "text", "required", "Unique; part of job names and log paths: letters, digits, `_`, `.`, `+`, `-`"),
    key(Procedure, "output_dir", "relative path", "required", "Below `derivatives_root`; `\"\"` is `bids_root` itself"),
    key(Procedure, "script", "path or file name", "required", "The job script: an absolute path, or looked for in `script_dir`, beside the configuration, on `PATH`"),
    key(Procedure, "scope", "`session` or `subject`", "session", "Whether it runs once per session or once per subject"),
    key(Procedure, "depends_on", "list of names", "none", "What must be complete first; an entry may be a mapping, see below"),
    key(Procedure, "completion_marker", "pattern, or list of patterns", "", "Files below the output directory that prove completeness; an entry may be a mapping, see below. None: the output directory is not empty"),
    key(Procedure, "forbid", "list of patterns", "none", "Files of which none may be there (crash files)"),
    key(Procedure, "check", "`markers`, `freesurfer` or `qsirecon`", "by name", "How completeness is judged: by markers, or by a check built in for procedures called `freesurfer` and `qsirecon`"),
    key(Procedure, "partition", "text, or empty for none", "`slurm_partition`", "`--partition`"),
    key(Procedure, "account", "text, or empty for none", "`slurm_account`", "`--account`"),
    key(Procedure, "qos", "text", "", "`--qos`"),
    key(Procedure, "time", "time limit of Slurm", "", "`--time`: minutes, `h:m:s`, `d-h` or `d-h:m:s`"),
    key(Procedure, "mem", "memory size", "`slurm_mem`", "`--mem`: an integer and K, M, G or T"),
    key(Procedure, "cpus_per_task", "number, 0 for none", "`slurm_cpus_per_task`", "`--cpus-per-task`"),
    key(Procedure, "gres", "text", "", "`--gres`, such as `gpu:1`"),
    key(Procedure, "sbatch_args", "list of options", "none", "Further options of sbatch, as they stand"),
    key(Procedure, "env", "mapping", "none", "Variables that the job sees besides the `SNBB_*` ones"),
    key(Procedure, "output_grace", "duration", "the site's", "For scripts that submit further jobs and end"),
    key(Procedure, "max_in_flight", "number", "", "How many tasks of this procedure may be pending or running at a time"),

    key(Procedure, "min_sessions", "number", "1", "For `scope: subject`: the subject needs so many sessions that are ready before the task is due"),
    key(Procedure, "rerun_when_stale", "yes or no", "no", "For `scope: subject`: a complete task runs again when the subject has a session that it did not work on"),
    key(Procedure, "accept_outputs", "yes or no", "no", "A task whose job failed is complete if its outputs are; `no`: it waits for `retry`"),
    key(Procedure, "retry", "mapping, see below, or `off`", "the site's", "Failures that are tried again without a person"),
    key(Procedure, "pause_after_failures", "number, 0 for never", "the site's", "So many failures in a row without a success pause the procedure, until `resume`"),
    key(Procedure, "warmup", "number", "the site's", "So many jobs must succeed before more are submitted"),
    key(Procedure, "array", "`never`, `auto` or `always`", "the site's", "Submit due tasks as a job array: `auto` when 10 or more with equal resources are due"),
    key(Procedure, "array_throttle", "number", "the site's", "How many tasks of one array may run at a time"),

    key(Dependency, "name", "text", "required", "The procedure that must be complete first"),
    key(Dependency, "sessions", "`all`, `any` or `same`", "`same` per session, `all` per subject", "Which sessions of a procedure per session are waited for: all of the subject, one of the subject, or the task's own (for `scope: session` only)"),

    key(Marker, "glob", "pattern", "required", "A relative path; `*`, `?`, `[...]` within a name, `**` for any depth"),
    key(Marker, "min_size", "bytes, or a size such as `10K`", "1 with wildcards, 0 without", "Smaller files do not count; more than the default asks for a file: no directory counts"),
    key(Marker, "contains", "text", "", "Files without this text do not count"),
    key(Marker, "not_contains", "text", "", "Files with this text do not count"),
    key(Marker, "when", "pattern", "", "Below the session's `bids_root` directory; if nothing matches, the entry is not asked for"),

    key(Retry, "on", "mapping of reasons, or list", "required", "The reasons that are tried again, each with its rule (below) or nothing"),
    key(Retry, "max_attempts", "number", "3", "Attempts in all, the first one included; `retry` on the command line counts anew"),
    key(Retry, "max_infrastructure", "number", "5", "Attempts beside these, after failures that are not the job's fault (`node_fail`, `boot_fail`, `preempted`, `launch_failed`)"),

    key(RetryRule, "mem_factor", "number from 1", "", "The next attempt asks for so many times the memory that the last one asked for"),
    key(RetryRule, "mem_max", "memory size", "", "But not for more than this"),
    key(RetryRule, "time_factor", "number from 1", "", "The next attempt asks for so many times the last one's time limit"),
    key(RetryRule, "time_max", "time limit of Slurm", "", "But not for more than this"),
    key(RetryRule, "exclude_node", "yes or no", "no", "The next attempts do not run on the node that failed (`--exclude`)"),
    key(RetryRule, "codes", "list of numbers", "all", "Exit codes that are tried again, for `exit_code`; a signal is 128 and its number"),
    key(RetryRule, "delay", "duration", "none; 1m and doubled each time for failures that are not the job's fault", "How long after the failure"),

    key(Safety, "max_drop", "percentage", "10%", "The most by which sessions, or complete tasks of a procedure, may become fewer (fewer than 5 may, unless none is left); 100% for never"),
    key(Safety, "min_free", "bytes, or a size such as `64M`", "16M", "What the file systems of state and audit log must have free; 0 for any"),

    key(Notify, "email", "yes or no", "no", "Send the digest by mail, to `audit.email_recipients` with the mail settings of `audit`"),
    key(Notify, "command", "path", "", "A program that gets the digest on its standard input, and the subject as `SNBB_MESSAGE_SUBJECT`; called without shell and arguments"),
    key(Notify, "on", "list of words, see below", "all of them", "What is told: `failed`, `lost`, `held`, `in_doubt`, `paused`, `safety_stop`, `refused`, `unreachable`, `error`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_once_and_is_described() {
        for section in Section::ALL {
            let mut names: Vec<&str> = section.keys().map(|key| key.name).collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(before, names.len(), "{section:?}");
        }
        for key in KEYS {
            assert!(!key.kind.is_empty() && !key.doc.is_empty(), "{}", key.name);
            assert!(!key.doc.ends_with('.'), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_is_led_to_the_one_that_was_meant() {
        for (section, name, expected) in [
            (Site, "slurm_partiton", "did you mean 'slurm_partition'?"),
            (Site, "slurm-partition", "did you mean 'slurm_partition'?"),
            (Site, "Bids_Root", "did you mean 'bids_root'?"),
            (Site, "qos", "'qos' is a key of a procedure"),
            (
                Site,
                "mem",
                "'mem' is a key of a procedure, here there is 'slurm_mem'",
            ),
            (Site, "retri", "did you mean 'retry'?"),
            (Procedure, "depends", "did you mean 'depends_on'?"),
            (Procedure, "scop", "did you mean 'scope'?"),
            (Procedure, "cpus", "did you mean 'cpus_per_task'?"),
            (
                Procedure,
                "bids_root",
                "'bids_root' is a key of the top of the file",
            ),
            (Marker, "path", "the nearest known key is 'glob'"),
            (Marker, "", "the nearest known key is 'glob'"),
        ] {
            assert_eq!(section.suggest(name).as_deref(), Some(expected), "{name}");
        }
    }
}
