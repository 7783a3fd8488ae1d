//! The top of the file: from the tree to a [`Config`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::Section;
use super::problem::quote;
use super::reader::{Context, Fields, Value};
use super::tree::Node;
use super::{
    Overrides, cohort, duration, files, log_patterns, markers, notify, paths, rules, steps,
    validate,
};
use crate::model::annex::Annex;
use crate::model::bids::SessionSource;
use crate::model::config::{
    AuditConfig, Ceiling, Config, Fairness, SafetyConfig, Secret, SlurmConfig,
};
use crate::model::job::ExecutorKind;
use crate::model::procedure::{MemSize, ProcedureDag, Resources, SubmitRules, TimeLimit, builtin};

/// More would not fit into a [`crate::model::procedure::ProcedureId`], and is no pipeline.
const MOST_PROCEDURES: usize = 1000;

/// Reads everything, whatever is wrong; the result counts only if no problem was reported.
pub(super) fn read(
    root: Option<&Node>,
    context: &Context<'_>,
    overrides: &Overrides,
    cwd: &Path,
    readable_by_all: bool,
) -> Option<Config> {
    let top = Fields::top(context, root);
    // Without a value, the default would be another study's data.
    let path = |name: &str, default: &str| match top.get(name) {
        Some(value) => value.path().unwrap_or_default(),
        None => PathBuf::from(default),
    };
    let duration = |value: &Value<'_>| value.parse("a duration such as 10m", duration::parse);
    let limit = |value: &Value<'_>| value.whole(1, u64::from(u32::MAX));
    let minutes = |n: u64| Duration::from_secs(n * 60);

    let state_file = path("state_file", "/data/snbb/.scheduler_state.parquet");
    let log_file = top
        .maybe("log_file", Value::path)
        .unwrap_or_else(|| state_file.with_file_name("scheduler_audit.jsonl"));
    let site = site_resources(&top, overrides);
    let log_dir = top.maybe("slurm_log_dir", Value::path);
    let executors = [
        ("slurm", ExecutorKind::Slurm),
        ("local", ExecutorKind::Local),
    ];
    let config = Config {
        file: context.file.as_deref().map(Path::to_path_buf),
        dicom_root: path("dicom_root", "/data/snbb/dicom"),
        bids_root: path("bids_root", "/data/snbb/bids"),
        derivatives_root: path("derivatives_root", "/data/snbb/derivatives"),
        state_file,
        project: top.maybe("project", project),
        log_file,
        qsirecon_spec: top.maybe("qsirecon_spec", Value::path),
        sessions: session_source(&top),
        cohort: cohort::read(&top),
        annex: top.or("annex", Annex::default(), |value| {
            value.choice(&[("present", Annex::Present), ("absent", Annex::Absent)])
        }),
        safety: safety(&top),
        sessionless: top.or("sessionless", false, Value::flag),
        executor: top.or("executor", ExecutorKind::Slurm, |value| {
            value.choice(&executors)
        }),
        script_dir: top.maybe("script_dir", Value::path),
        slurm: SlurmConfig {
            partition: site.partition.clone(),
            account: site.account.clone(),
            mem: site.mem.clone(),
            cpus_per_task: site.cpus_per_task,
            log_dir: match &overrides.slurm_log_dir {
                Some(dir) if dir.as_os_str().is_empty() => None,
                Some(dir) => Some(paths::absolute(cwd, dir.as_os_str())),
                None => log_dir,
            },
            bin_dir: top.maybe("slurm_bin_dir", Value::path),
            accounting: top.or("accounting", true, Value::flag),
        },
        local_jobs: top.or("local_jobs", 1, |value| value.whole(1, 4096)),
        max_in_flight: top.maybe("max_in_flight", limit),
        max_submit_per_run: top.maybe("max_submit_per_run", limit),
        max_queued_user_jobs: top.maybe("max_queued_user_jobs", limit),
        ceiling: ceiling(&top),
        fair: top.or("fair", Fairness::Order, |value| {
            value.choice(&[("order", Fairness::Order), ("subjects", Fairness::Subjects)])
        }),
        dicom_settle: top.maybe("dicom_settle", duration),
        dicom_gate: top.or("dicom_gate", false, Value::flag),
        scan_threads: top.or("scan_threads", 16, |value| value.whole(1, 512)),
        resubmit_failed: top.or("resubmit_failed", false, Value::flag),
        settle_time: top.maybe("settle_time", settle_time),
        output_grace: top.or("output_grace", minutes(10), duration),
        lost_grace: top.or("lost_grace", minutes(60), duration),
        absence_grace: top.or("absence_grace", minutes(5), duration),
        deadline: top.or("deadline", minutes(10), deadline),
        lock_timeout: top.or("lock_timeout", Duration::from_secs(10), duration),
        audit: audit(&top, context, readable_by_all),
        notify: notify::read(&top),
        heartbeat_file: top.maybe("heartbeat_file", Value::path),
        metrics_file: top.maybe("metrics_file", notify::metrics_file),
        procedures: pipeline(&top, &site, overrides)?,
        warnings: Vec::new(),
    };
    validate::paths(&config, &top, context);
    files::check(&config, &top, context);
    notify::check(&config, &top);
    Some(config)
}

/// Returns what procedures get that say nothing else.
fn site_resources(top: &Fields<'_>, overrides: &Overrides) -> Resources {
    let text = |name: &str, default: &str| {
        let setting = top.setting(name, Value::word);
        setting.unwrap_or_else(|| Some(default.to_owned()))
    };
    let mem = top.maybe("slurm_mem", |value| {
        if value.is_plain("0") {
            value.warn(
                "0 is taken as \"none\", as the Python program did; write \"0\" for the whole node",
            );
            return None;
        }
        value.parse("a memory size such as 32G", MemSize::parse)
    });
    let cpus = top.maybe("slurm_cpus_per_task", steps::cpus);
    Resources {
        partition: text("slurm_partition", "debug"),
        account: text("slurm_account", "snbb"),
        mem: overrides.slurm_mem.clone().or(mem),
        cpus_per_task: overrides.slurm_cpus.or(cpus).filter(|cpus| *cpus > 0),
        ..Resources::default()
    }
}

fn safety(top: &Fields<'_>) -> SafetyConfig {
    let default = SafetyConfig::default();
    let value = top.get("safety").filter(|value| !value.is_null());
    let Some(fields) = value.and_then(|value| value.fields(Section::Safety)) else {
        return default;
    };
    SafetyConfig {
        max_drop: fields.or("max_drop", default.max_drop, percent),
        min_free: fields.or("min_free", default.min_free, |value| {
            value.parse("a size such as 64M", markers::size)
        }),
    }
}

fn percent(value: &Value<'_>) -> Option<f64> {
    value.parse("a percentage such as 10%", |text| {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        number
            .parse()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
            .ok_or_else(|| format!("{} is not a percentage from 0% to 100%", quote(text)))
    })
}

fn ceiling(top: &Fields<'_>) -> Ceiling {
    Ceiling {
        mem: top.maybe("max_mem", |value| {
            value.parse("a memory size such as 256G", MemSize::parse)
        }),
        time: top.maybe("max_time", |value| {
            value.parse("a time limit such as 3-00:00:00", TimeLimit::parse)
        }),
        cpus: top.maybe("max_cpus", |value| value.whole(1, 65_536)),
    }
}

fn project(value: &Value<'_>) -> Option<String> {
    value.parse("a short name", |text| {
        let valid = (1..=32).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if valid {
            Ok(text.to_owned())
        } else {
            let quoted = quote(text);
            Err(format!(
                "{quoted} is not 1 to 32 letters, digits, '_', '.' or '-'"
            ))
        }
    })
}

fn session_source(top: &Fields<'_>) -> SessionSource {
    let choices = [("dicom", false), ("bids", true)];
    let bids = top.or("discover", false, |value| value.choice(&choices));
    let file = top.maybe("sessions_file", Value::path);
    let subject_col = top.or("subject_col", "UID".to_owned(), Value::text);
    let session_col = top.or("session_col", "ScanID".to_owned(), Value::text);
    if bids
        && file.is_some()
        && let Some(value) = top.get("sessions_file")
    {
        value.problem_with(
            "cannot stand beside 'discover: bids'",
            "sessions come from one of them, leave the other out",
        );
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

fn settle_time(value: &Value<'_>) -> Option<Duration> {
    let time = value.parse("a duration such as 2m", duration::parse)?;
    // Slurm's default MessageTimeout is 10 s; the rule of thumb is three times that.
    if time < Duration::from_secs(30) {
        value.warn(
            "is shorter than 30s: a slow controller may accept a job after it was given up, and \
             the task would run twice",
        );
    }
    Some(time)
}

fn deadline(value: &Value<'_>) -> Option<Duration> {
    let time = value.parse("a duration such as 30m", duration::parse)?;
    if time.is_zero() {
        value.problem("is zero: nothing could be done in it");
        return None;
    }
    Some(time)
}

fn pipeline(top: &Fields<'_>, site: &Resources, overrides: &Overrides) -> Option<ProcedureDag> {
    let rules = rules::read(top, &SubmitRules::default());
    let Some(value) = top.get("procedures") else {
        let mut procedures = builtin::procedures();
        for procedure in &mut procedures {
            procedure.resources = site.clone();
            procedure.rules = rules.clone();
        }
        return ProcedureDag::new(procedures).ok();
    };
    let items = value.items()?;
    if items.is_empty() {
        let hint = "list at least one, or leave the key out for the built-in six";
        value.problem_with("there are no procedures", hint);
        return None;
    }
    if items.len() > MOST_PROCEDURES {
        value.problem(format!("there are more than {MOST_PROCEDURES} procedures"));
        return None;
    }
    let mut steps: Vec<_> = items
        .iter()
        .filter_map(|item| steps::read(item, site, &rules))
        .collect();
    // What is typed in the shell is meant for everything that this call submits.
    for step in &mut steps {
        let resources = &mut step.procedure.resources;
        if overrides.slurm_mem.is_some() {
            resources.mem = site.mem.clone();
        }
        if overrides.slurm_cpus.is_some() {
            resources.cpus_per_task = site.cpus_per_task;
        }
    }
    validate::pipeline(steps)
}

fn audit(top: &Fields<'_>, context: &Context<'_>, readable_by_all: bool) -> AuditConfig {
    let value = top.get("audit").filter(|value| !value.is_null());
    let fields = value
        .and_then(|value| value.fields(Section::Audit))
        .unwrap_or_else(|| Fields::top(context, None));
    let local = || "localhost".to_owned();
    let week = Duration::from_secs(168 * 3600);
    // A mistake here must not keep `run` from its work; whoever sends mail says what is wrong.
    let mail = fields.leniently();
    let recipients = mail.get("email_recipients").map(|value| {
        let recipients = value.one_or_more();
        recipients.iter().filter_map(Value::text).collect()
    });
    AuditConfig {
        dicom_min_files: fields.or("dicom_min_files", 10, |value| value.whole(0, u64::MAX)),
        stale_job_threshold: fields.or("stale_job_threshold_hours", week, |value| {
            value.parse("a number of hours", |text| {
                let hours = duration::parse(&format!("{text}h"));
                hours.map_err(|_| format!("{} is not a number of hours", quote(text)))
            })
        }),
        report_dir: fields.maybe("report_dir", Value::path),
        email_recipients: recipients.unwrap_or_default(),
        email_from: mail.or(
            "email_from",
            "snbb-scheduler@localhost".to_owned(),
            Value::text,
        ),
        smtp_host: mail.or("smtp_host", local(), Value::word),
        smtp_port: mail.or("smtp_port", 25, |value| value.whole(1, 65_535)),
        smtp_tls: mail.or("smtp_tls", false, Value::flag),
        smtp_username: mail.maybe("smtp_username", Value::text),
        smtp_password: password(&mail, context, readable_by_all),
        log_patterns: log_patterns::read(&fields),
    }
}

/// Reads the password without ever showing it.
fn password(fields: &Fields<'_>, context: &Context<'_>, readable_by_all: bool) -> Option<Secret> {
    let written = fields.maybe("smtp_password", |value| {
        if readable_by_all {
            value.warn(
                "stands in a file that every user can read (chmod o-r, or use smtp_password_env)",
            );
        }
        value.raw("a text").map(str::to_owned)
    });
    let from_env = fields.maybe("smtp_password_env", |value| {
        let name = value.raw("the name of an environment variable")?;
        if !paths::is_variable_name(name) {
            value.problem(format!(
                "{} is not the name of an environment variable",
                quote(name)
            ));
            return None;
        }
        if written.is_some() {
            value.problem("stands beside 'smtp_password': only one of them can count");
            return None;
        }
        match (context.env)(name).map(OsString::into_string) {
            Some(Ok(password)) => Some(password),
            Some(Err(_)) => {
                value.warn(format!(
                    "the environment variable {name} is not UTF-8, there is no password"
                ));
                None
            }
            None => {
                value.warn(format!(
                    "the environment variable {name} is not set, there is no password"
                ));
                None
            }
        }
    });
    written.or(from_env).map(Secret)
}
