//! Checks Slurm: its commands exist, it responds, it would accept the jobs, and they could start.

mod limits;

use std::time::Duration;

use chrono::TimeDelta;

use super::scripts::DOS;
use super::{Config, Discovery, Findings, SLURM_LIMIT, Site, State, sys};
use crate::decide::manifest::{Decision, Due, Planned};
use crate::decide::request::{self, RequestContext};
use crate::executor::slurm::inspect::{Report, Tried, text_of};
use crate::executor::slurm::{Home, SlurmExecutor, SlurmSettings, parse};
use crate::executor::{Executor as _, JobRequest, Refusal, script};
use crate::model::bids::{Dicom, SessionLabel, SubjectLabel};
use crate::model::job::{JobId, JobTag, is_same_study, name_of_study};
use crate::model::procedure::options::{self, Arguments};
use crate::model::procedure::{ProcedureId, Scope, TimeLimit};
use crate::model::state::table::Metadata;

/// An unresponsive Slurm database takes up to 45 s to report an error, and sbatch retries for two minutes if the
/// controller is busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Accounting may have purged jobs that ended earlier.
const RECENT: TimeDelta = TimeDelta::days(7);
/// Without accounting, a job must be seen in the queue after its end; cron usually runs no more often than this.
const USUAL_INTERVAL: u64 = 15 * 60;
const GRES: &str = "correct the procedure's gres; `sinfo -o %G` lists available resources";

/// The request of one procedure, from the configuration or its script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    procedure: String,
    partition: Option<String>,
    account: Option<String>,
    qos: Option<String>,
    /// In seconds.
    time: Option<u64>,
}

/// Queries Slurm about the requests that a run would submit, within [`SLURM_LIMIT`] for all its answers.
pub(super) fn check(site: &Site, findings: &mut Findings) {
    if !site.config.executor.has_cluster() {
        return;
    }
    let (config, study, found) = (&site.config, site.study.get(), site.discovery());
    let procedures = config.procedures.iter();
    let requests: Vec<JobRequest> = procedures
        .filter_map(|(id, _)| example(config, id, found))
        .collect();
    let wanted: Vec<Wanted> = requests.iter().map(|one| wanted(site, one)).collect();
    let meta = study.map(|study| &study.state.meta);
    let project = meta.and_then(|meta| meta.project.clone());
    let project = project.or_else(|| config.project.clone());
    let state_file = study.map_or(&config.state_file, |study| &study.store.paths.state);
    let home = match meta.filter(|meta| meta.cluster.is_some()) {
        Some(meta) => Home::of(config, meta),
        // Any cluster is correct.
        None => Home {
            cluster: None,
            is_unused: true,
        },
    };
    let mut executor = SlurmExecutor::new(SlurmSettings {
        home,
        submit_timeout: ANSWER_LIMIT,
        query_timeout: ANSWER_LIMIT,
        ..SlurmSettings::from_config(config, &Metadata::default())
    });
    executor.set_deadline(SLURM_LIMIT);
    let canary = study.and_then(|study| canary(&study.state));
    let report = executor.inspect(&requests, canary.as_ref());
    let canary = canary.as_ref().map(JobId::as_str);
    let study = request::study_word(project, state_file);
    judge(config, (&study, canary), &wanted, &report, findings);
}

/// `study`: the word that identifies the study's jobs.
fn judge(
    config: &Config,
    (study, canary): (&str, Option<&str>),
    wanted: &[Wanted],
    report: &Report,
    findings: &mut Findings,
) {
    let (clock, min_job_age) = limits::config(text_of(report.config.as_ref()));
    programs(config, report, findings);
    queue(study, report, findings);
    accounting(config, (canary, min_job_age), report, findings);
    if let Some(Err(error)) = &report.config {
        findings.about("slurm", "scontrol").warning(
            format!("cannot read its settings: {error}"),
            "run `scontrol show config` in a shell",
        );
    }
    if let (Some(other), Some((before, after))) = (clock, report.asked_at) {
        // Its time is truncated to seconds.
        let reading = [before - TimeDelta::seconds(1), other, after];
        let why = "job records are identified by their submission time";
        findings.clock("slurmctld", "Slurm's", reading, why);
    }
    limits::check(wanted, report, findings);
    for (procedure, tried) in &report.tried {
        submission(procedure, tried, findings);
    }
}

/// The request of a task, with an invented subject if there is none.
fn example(config: &Config, id: ProcedureId, found: Option<&Discovery>) -> Option<JobRequest> {
    let is_session = config.procedures.get(id).scope == Scope::Session;
    let session = found.and_then(|found| found.sessions.first());
    let own = session.filter(|_| is_session);
    let subject = match session {
        Some(session) => session.subject.clone(),
        None => SubjectLabel::new("sub-0000").ok()?,
    };
    let label = own.map_or_else(SessionLabel::none, |session| session.session.clone());
    let decision = Decision::Submit(Due::New);
    let planned = Planned {
        dicom_path: own.and_then(|session| match &session.dicom {
            Dicom::At(path) => Some(path.clone()),
            Dicom::Missing | Dicom::NotNeeded => None,
        }),
        ..Planned::new(&config.procedures, id, (subject, label), decision)
    };
    let about = RequestContext {
        project: config.project.as_deref().unwrap_or("check"),
        attempt: 1,
        last_reason: None,
        row: None,
        script: &Arguments::default(),
        now: sys::now(),
        run_id: "check",
    };
    Some(request::prepare(config, &planned, &about).request)
}

fn wanted(site: &Site, request: &JobRequest) -> Wanted {
    let path = site.find_script(&request.script).ok();
    let asked = path.map_or_else(Arguments::default, |path| script::header_of(&path));
    let of_script = |name: &str| asked.value(name).map(str::to_owned);
    let resources = &request.resources;
    let chosen = |ours: &Option<String>, name: &str| {
        let ours = ours.clone().filter(|text| !text.is_empty());
        ours.or_else(|| of_script(name))
    };
    let time = options::time(resources).or_else(|| TimeLimit::parse(&of_script("time")?).ok());
    Wanted {
        procedure: request.key.procedure.to_string(),
        partition: chosen(&resources.partition, "partition"),
        account: chosen(&resources.account, "account"),
        qos: chosen(&resources.qos, "qos"),
        time: time.and_then(|time| time.bound()),
    }
}

/// The job that ended last, if it ended recently: accounting must know it.
fn canary(state: &State) -> Option<JobId> {
    let since = sys::now() - RECENT;
    let rows = state.rows().iter();
    let rows = rows.filter(|row| row.facts.cluster.is_none());
    let ended = rows.filter_map(|row| Some((row.facts.ended_at?, row.job_id.as_ref()?)));
    let known = ended.filter(|(ended, job)| *ended >= since && parse::is_askable(job));
    let (_, last) = known.max_by_key(|(ended, _)| *ended)?;
    Some(last.clone())
}

fn programs(config: &Config, report: &Report, findings: &mut Findings) {
    let mut first = None;
    for (program, place) in &report.programs {
        findings.about("slurm", program);
        match (*program, place) {
            (_, Ok(path)) => first = first.or(Some(path)),
            // Not needed if accounting is switched off.
            ("sacct", Err(_)) if !config.slurm.accounting => {}
            ("sbatch" | "squeue" | "scancel" | "sacct", Err(error)) => {
                findings.error(error.to_string(), error.hint().unwrap_or_default());
            }
            ("scontrol", Err(error)) => findings.warning(
                format!("{error}; limits of partitions and arrays are unknown"),
                "install it in the directory of sbatch",
            ),
            _ => {}
        }
    }
    if let Some(first) = first {
        let text = format!("its commands are available: {} and others", first.display());
        findings.ok_if_none("slurm", text);
    }
    findings.about("slurm", "version");
    match &report.version {
        Some(Ok(version)) => findings.ok(version.trim()),
        Some(Err(error)) => findings.warning(error, "run `sbatch --version` in a shell"),
        None => {}
    }
}

fn queue(study: &str, report: &Report, findings: &mut Findings) {
    findings.about("queue", "");
    let jobs = match &report.queue {
        None => return,
        Some(Ok(jobs)) => jobs.iter().filter(|job| job.phase.is_live()),
        Some(Err(error)) => {
            return findings.error(
                format!("squeue does not respond: {error}"),
                "check whether slurmctld and munge are running (scontrol ping); until then, nothing is submitted or updated",
            );
        }
    };
    let count = jobs.clone().count();
    findings.ok(format!("squeue responds; jobs of this user: {count}"));
    // Another study of this user may have the same name.
    let name = name_of_study(study);
    let is_namesake =
        |tag: &JobTag| !is_same_study(&tag.project, study) && name_of_study(&tag.project) == name;
    let mut namesakes = jobs.filter(|job| job.tag.as_ref().is_some_and(is_namesake));
    if let Some(job) = namesakes.next() {
        let id = &job.id;
        findings.about("queue", "project").warning(
            format!("another study of this user also has `project: {name}` (job {id})"),
            "change `project` in one of the two; only a tag in the jobs' comments distinguishes them",
        );
    }
}

fn accounting(
    config: &Config,
    (canary, min_job_age): (Option<&str>, Option<u64>),
    report: &Report,
    findings: &mut Findings,
) {
    findings.about("accounting", "");
    let is_on = config.slurm.accounting;
    // Quoted from Slurm.
    let is_disabled = matches!(&report.accounting, Some(Err(error)) if error.contains("accounting storage is disabled"));
    match (&report.accounting, is_on) {
        (Some(Ok(text)), true) => {
            let knows = |job: &&str| text.lines().any(|line| line.trim() == *job);
            if let Some(job) = canary.filter(|job| !knows(job)) {
                findings.warning(
                    format!("sacct responds, but does not list job {job}, which ended recently"),
                    "ask the administrator to check slurmdbd; until then, jobs missing from sacct are not considered lost",
                );
            }
            findings.or_ok("sacct responds");
        }
        (Some(Err(_)), true) if is_disabled => findings.warning(
            "Slurm has no accounting at this site",
            "set accounting: off to avoid useless queries",
        ),
        (Some(Err(error)), true) => findings.error(
            format!("accounting does not respond: {error}"),
            "check whether slurmdbd and its database are running; if only accounting is down, jobs are still submitted, but how they ended is unknown until it responds. If this site has no accounting, set accounting: off",
        ),
        (Some(Ok(_)), false) => findings.warning(
            "accounting is off in the configuration, although sacct responds",
            "remove `accounting: off`: without accounting, a job's result is only available while the queue lists it",
        ),
        (_, false) => findings.ok("is off; the queue and the markers are used"),
        (None, true) => {}
    }
    let age = min_job_age.unwrap_or(u64::MAX);
    if age < USUAL_INTERVAL && (!is_on || is_disabled) {
        findings.about("accounting", "MinJobAge").warning(
            format!("without accounting, a job's result is available for only {age} s (MinJobAge)"),
            format!("run `run` or `monitor` at least every {age} s, or ask for a larger MinJobAge"),
        );
    }
}

/// Reports whether Slurm would accept a job of a procedure.
fn submission(procedure: &str, tried: &Tried, findings: &mut Findings) {
    findings.about("submission", procedure);
    let unknown = |why: &str| format!("cannot find out whether Slurm would accept a job: {why}");
    match tried {
        Tried::Fine(_) => findings.ok("Slurm would accept a job (sbatch --test-only)"),
        Tried::Refused { kind, message } => match kind {
            Refusal::Limit => findings.warning(
                format!("Slurm would not accept a job at the moment: {message}"),
                "nothing if it is a limit on queued jobs; otherwise ask the administrator",
            ),
            Refusal::Transient => findings.warning(
                unknown(message),
                "try again later; if the problem remains, ask the administrator",
            ),
            _ => findings.error(
                format!("Slurm would refuse a job of this procedure: {message}"),
                remedy(message).unwrap_or(
                    "correct the procedure's options; until then, none of its tasks are submitted",
                ),
            ),
        },
        Tried::Unclear(message) => findings.warning(
            unknown(message),
            "check whether slurmctld responds (scontrol ping), then repeat this check",
        ),
        Tried::Submitted(job) => findings.error(
            format!("the sbatch of this site ignored --test-only and submitted job {job}"),
            format!(
                "run scancel {job}, and set slurm_bin_dir to the directory of Slurm's own sbatch"
            ),
        ),
        Tried::NoScript => {}
    }
}

/// The remedy for a refusal. `None` if sbatch's message is unknown.
pub fn remedy(message: &str) -> Option<&'static str> {
    let text = message.to_lowercase();
    let table = [
        (
            "invalid account",
            "correct slurm_account (or the procedure's account), or leave it empty; `sacctmgr show assoc user=$USER` lists yours",
        ),
        (
            "partition",
            "correct slurm_partition (or the procedure's partition), or leave it empty for the default; `sinfo -s` lists them",
        ),
        (
            "qos",
            "correct the procedure's qos; `sacctmgr show assoc user=$USER format=account,qos` lists yours",
        ),
        (
            "feature",
            "correct --constraint in sbatch_args or in the script; `sinfo -o %f` lists available features",
        ),
        ("gres", GRES),
        ("generic resource", GRES),
        (
            "node configuration",
            "request less memory, fewer CPUs or another constraint: no node of the partition has these resources",
        ),
        (
            "memory",
            "request less memory: no node of the partition has that much",
        ),
        ("dos line breaks", DOS),
        (
            "batch script",
            "start the script with a line such as #!/bin/bash",
        ),
    ];
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests;
