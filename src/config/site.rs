//! The top level of the file: from the tree to a [`Config`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::keys::Section;
use super::problem::quote;
use super::reader::{Context, Fields, Value};
use super::{paths, steps, validate};
use crate::model::bids::cohort::{ENTRY_HINT, Entry, ListSource};
use crate::model::bids::{CohortSource, SessionSource, SubjectLabel};
use crate::model::config::{
    AuditConfig, Ceiling, Config, LogPattern, NotifyConfig, Occasion, SafetyConfig, Secret,
    SlurmConfig,
};
use crate::model::procedure::ProcedureDag;

/// More would not fit into a [`crate::model::procedure::ProcedureId`].
const MOST_PROCEDURES: usize = 1000;

/// Reads everything despite problems. The result is only meaningful if no problem was reported.
pub(super) fn read(context: &Context<'_>, cwd: &Path, readable_by_all: bool) -> Option<Config> {
    let top = Fields::top(context);
    let overrides = context.overrides;
    // An empty value must not select the default, which is another study's data.
    let path = |name: &str| match top.get(name) {
        Some(value) => value.path().unwrap_or_default(),
        None => top.or(name, Value::path),
    };
    let state_file = path("state_file");
    let log_file = top
        .maybe("log_file", Value::path)
        .unwrap_or_else(|| state_file.with_file_name("scheduler_audit.jsonl"));
    let log_dir = top.maybe("slurm_log_dir", Value::path);
    let cpus = || top.maybe("slurm_cpus_per_task", Value::whole);
    let cpus = overrides.slurm_cpus.or_else(cpus);
    let safety = top.below("safety");
    let config = Config {
        file: context.file.as_deref().map(Path::to_path_buf),
        dicom_root: path("dicom_root"),
        bids_root: path("bids_root"),
        derivatives_root: path("derivatives_root"),
        state_file,
        project: top.maybe("project", project),
        log_file,
        qsirecon_spec: top.maybe("qsirecon_spec", Value::path),
        sessions: session_source(&top),
        cohort: cohort(&top),
        annex: top.or("annex", Value::choice),
        safety: SafetyConfig {
            max_drop: safety.or("max_drop", Value::percent),
            min_free: safety.or("min_free", Value::size),
        },
        sessionless: top.or("sessionless", Value::flag),
        pad_ids: top.or("pad_ids", Value::flag),
        executor: top.or("executor", Value::choice),
        script_dir: top.maybe("script_dir", Value::path),
        slurm: SlurmConfig {
            partition: top.maybe("slurm_partition", Value::word),
            account: top.maybe("slurm_account", Value::word),
            mem: overrides
                .slurm_mem
                .clone()
                .or_else(|| top.maybe("slurm_mem", Value::memory)),
            cpus_per_task: cpus.filter(|cpus| *cpus > 0),
            log_dir: match &overrides.slurm_log_dir {
                Some(dir) if dir.as_os_str().is_empty() => None,
                Some(dir) => Some(paths::absolute(cwd, dir.as_os_str())),
                None => log_dir,
            },
            bin_dir: top.maybe("slurm_bin_dir", Value::path),
            accounting: top.or("accounting", Value::flag),
        },
        local_jobs: top.or("local_jobs", Value::whole),
        max_in_flight: top.maybe("max_in_flight", Value::whole),
        max_submit_per_run: top.maybe("max_submit_per_run", Value::whole),
        max_queued_user_jobs: top.maybe("max_queued_user_jobs", Value::whole),
        ceiling: Ceiling {
            mem: top.maybe("max_mem", Value::memory),
            time: top.maybe("max_time", Value::time),
            cpus: top.maybe("max_cpus", Value::whole),
        },
        fair: top.or("fair", Value::choice),
        dicom_settle: top.maybe("dicom_settle", Value::duration),
        dicom_gate: top.or("dicom_gate", Value::flag),
        recheck: top.or("recheck", Value::duration),
        scan_threads: top.or("scan_threads", Value::whole),
        resubmit_failed: top.or("resubmit_failed", Value::flag),
        settle_time: top.or("settle_time", settle_time),
        output_grace: top.or("output_grace", Value::duration),
        lost_grace: top.or("lost_grace", Value::duration),
        absence_grace: top.or("absence_grace", Value::duration),
        deadline: top.or("deadline", deadline),
        lock_timeout: top.or("lock_timeout", Value::duration),
        audit: audit(&top, readable_by_all),
        notify: notifications(&top),
        heartbeat_file: top.maybe("heartbeat_file", Value::path),
        metrics_file: top.maybe("metrics_file", metrics_file),
        procedures: pipeline(&top)?,
        warnings: Vec::new(),
    };
    if config.notify.email && config.audit.email_recipients.is_empty() {
        let message = "no mail will be sent, because audit.email_recipients is empty";
        top.warn("notify", message);
    }
    validate::paths(&config, &top);
    validate::files(&config, &top);
    Some(config)
}

fn project(value: &Value<'_>) -> Option<String> {
    value.parse("a short name", |text| {
        let valid = (1..=32).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        valid.then(|| text.to_owned()).ok_or_else(|| {
            let quoted = quote(text);
            format!("{quoted} must be 1 to 32 letters, digits, '_', '.' or '-'")
        })
    })
}

fn session_source(top: &Fields<'_>) -> SessionSource {
    let bids = top.or("discover", Value::choice::<String>) == "bids";
    let file = top.maybe("sessions_file", Value::path);
    let subject_col = top.or("subject_col", Value::text);
    let session_col = top.or("session_col", Value::text);
    if bids && file.is_some() {
        let message = "cannot be combined with 'discover: bids' (remove one of them)";
        top.problem("sessions_file", message);
    }
    match file {
        Some(file) => SessionSource::Csv {
            file,
            subject_col,
            session_col,
        },
        None if bids => SessionSource::Bids,
        None => SessionSource::Dicom,
    }
}

/// `include` and `exclude`. [`crate::model::bids::cohort`] reads the files, when sessions are discovered.
fn cohort(top: &Fields<'_>) -> CohortSource {
    let include = top.maybe("include", |value| list("include", value));
    if matches!(&include, Some(ListSource::Entries(entries)) if entries.is_empty()) {
        let message =
            "is empty, so nothing would ever be submitted (remove the key to include everything)";
        top.problem("include", message);
    }
    CohortSource {
        include,
        exclude: top.maybe("exclude", |value| list("exclude", value)),
    }
}

/// Reads one list. A single text is a path, unless it starts with `sub-`.
fn list(key: &'static str, value: &Value<'_>) -> Option<ListSource> {
    let is_path = value.is_scalar()
        && !value
            .raw("an entry or a path")?
            .starts_with(SubjectLabel::PREFIX);
    if is_path {
        return value.path().map(ListSource::File);
    }
    let entries = value.one_or_more();
    let wanted = "a subject such as sub-0001, or a session such as sub-0001/ses-01";
    let read = entries.iter().filter_map(|entry| {
        let place = format!("line {} of the configuration", entry.at.line);
        entry.parse(wanted, |text| {
            Entry::parse(key, text, place).map_err(|error| format!("{error} ({ENTRY_HINT})"))
        })
    });
    let read: Vec<_> = read.collect();
    // Invalid entries have been reported.
    (read.len() == entries.len()).then_some(ListSource::Entries(read))
}

/// Warns of a short time. An sbatch whose caller was killed keeps running: it retries for two minutes if the controller
/// is busy, and each attempt may take Slurm's MessageTimeout.
fn settle_time(value: &Value<'_>) -> Option<Duration> {
    let time = value.duration()?;
    // Three times Slurm's default MessageTimeout, as a rule of thumb.
    if time < Duration::from_secs(30) {
        value.warn(
            "is shorter than 30s: if a slow controller accepts a job after that time, its task may run twice",
        );
    }
    Some(time)
}

fn deadline(value: &Value<'_>) -> Option<Duration> {
    let time = value.duration()?;
    match time.is_zero() {
        true => value.fail("must be longer than zero"),
        false => Some(time),
    }
}

fn pipeline(top: &Fields<'_>) -> Option<ProcedureDag> {
    let value = top.effective("procedures").value?;
    let items = value.items()?;
    if items.is_empty() {
        return value.fail(
            "is an empty list (list at least one, or remove the key to use the built-in pipeline)",
        );
    }
    if items.len() > MOST_PROCEDURES {
        return value.fail(format!("has more than {MOST_PROCEDURES} procedures"));
    }
    validate::pipeline(items.iter().filter_map(steps::read).collect())
}

fn audit(top: &Fields<'_>, readable_by_all: bool) -> AuditConfig {
    let fields = top.below("audit");
    let dicom_min_files = fields.or("dicom_min_files", Value::whole);
    let stale_job_threshold = fields.or("stale_job_threshold_hours", Value::hours);
    let report_dir = fields.maybe("report_dir", Value::path);
    let log_patterns = fields.get("log_patterns").and_then(|list| list.items());
    let log_patterns = log_patterns.unwrap_or_default();
    let log_patterns = log_patterns.iter().filter_map(log_pattern).collect();
    // A mistake in the mail settings must not stop `run`; it is reported when mail is sent.
    top.context.leniently(|| AuditConfig {
        dicom_min_files,
        stale_job_threshold,
        report_dir,
        email_recipients: fields.list("email_recipients", Value::text),
        email_from: fields.or("email_from", Value::text),
        smtp_host: fields.or("smtp_host", Value::word),
        smtp_port: fields.or("smtp_port", Value::whole),
        smtp_tls: fields.or("smtp_tls", Value::flag),
        smtp_username: fields.maybe("smtp_username", Value::text),
        smtp_password: password(&fields, readable_by_all),
        log_patterns,
    })
}

fn log_pattern(value: &Value<'_>) -> Option<LogPattern> {
    let fields = value.fields(Section::LogPattern)?;
    let name = fields.required("name", "add a short name for the report", Value::text);
    let hint = "add a pattern for a line of the log, such as 'ERROR 42:'";
    let regex = fields.required("regex", hint, |value| {
        value.parse("a regular expression", |text| {
            if text.is_empty() {
                return Err("is empty and would match every line".to_owned());
            }
            let problem = compile_patterns(&[text]).err();
            problem.map_or(Ok(text.to_owned()), |error| {
                let quoted = quote(text);
                Err(format!("{quoted} is not a regular expression: {error}"))
            })
        })
    });
    let hint = fields.maybe("hint", Value::text);
    Some(LogPattern {
        name: name?,
        regex: regex?,
        hint,
    })
}

/// Compiles expressions for logs. Without Unicode classes, because logs are bytes; letters outside ASCII still match
/// themselves. The error is one short sentence.
pub(crate) fn compile_patterns(expressions: &[&str]) -> Result<RegexSet, String> {
    let set = RegexSetBuilder::new(expressions).unicode(false).build();
    set.map_err(|error| {
        // The crate's message shows the expression with a marker first; the last line is the explanation.
        let text = error.to_string();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.unwrap_or("syntax error").trim();
        last.strip_prefix("error: ").unwrap_or(last).to_owned()
    })
}

/// Reads the password without quoting it in any message.
fn password(fields: &Fields<'_>, readable_by_all: bool) -> Option<Secret> {
    let written = fields.maybe("smtp_password", |value| {
        if readable_by_all {
            value.warn(
                "is in a file that every user can read (run `chmod o-r` on it, or use smtp_password_env)",
            );
        }
        value.scalar()
    });
    let from_env = fields.maybe("smtp_password_env", |value| {
        let name = value.raw("the name of an environment variable")?;
        if !paths::is_variable_name(name) {
            let quoted = quote(name);
            return value.fail(format!(
                "{quoted} is not the name of an environment variable"
            ));
        }
        if written.is_some() {
            return value.fail("cannot be combined with 'smtp_password'");
        }
        let password = (value.context.env)(name).and_then(|password| password.into_string().ok());
        if password.is_none() {
            value.warn(format!(
                "the environment variable {name} is not set, or not UTF-8, so no password is used"
            ));
        }
        password
    });
    written.or(from_env).map(Secret)
}

fn notifications(top: &Fields<'_>) -> NotifyConfig {
    let fields = top.below("notify");
    let on = match fields.get("on") {
        Some(value) if value.one_or_more().is_empty() => {
            value.problem(
                "is empty, so no notification would ever be sent (remove the key to report all events)",
            );
            BTreeSet::new()
        }
        Some(_) => fields.list("on", Value::choice).into_iter().collect(),
        None => Occasion::ALL.into(),
    };
    NotifyConfig {
        email: fields.or("email", Value::flag),
        command: fields.maybe("command", Value::path),
        on,
    }
}

/// The collector reads only files with this extension.
fn metrics_file(value: &Value<'_>) -> Option<PathBuf> {
    let path = value.path()?;
    if path.extension().is_none_or(|end| end != "prom") {
        value.problem(format!(
            "{} does not end with '.prom' (node_exporter's textfile collector ignores other files)",
            quote(&path.to_string_lossy())
        ));
    }
    Some(path)
}
