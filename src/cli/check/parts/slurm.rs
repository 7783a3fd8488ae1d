//! The part about Slurm: the requests that a run would make, tried here and with the surroundings of cron.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use chrono::TimeDelta;

use crate::base::sys;
use crate::cli::args::Global;
use crate::cli::check::parts::{Site, StateLook};
use crate::cli::context::read_config;
use crate::decide::manifest::{Decision, Due, Planned};
use crate::decide::request;
use crate::decide::request::Circumstances;
use crate::executor::JobRequest;
use crate::executor::script::header_of;
use crate::executor::slurm::inspect::{Questions, Report};
use crate::executor::slurm::{Home, SlurmExecutor, SlurmSettings, parse};
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::job::JobId;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{ArrayMode, ProcedureId, Scope, options};
use crate::setup::check::slurm::{Wanted, judge};
use crate::setup::check::{Finding, cron};

/// Slurm's database may take 45 s to say that it does not answer.
const QUERY_LIMIT: Duration = Duration::from_secs(60);
/// sbatch tries again by itself for two minutes when the controller is busy.
const TRY_LIMIT: Duration = Duration::from_secs(60);
/// Accounting of a job that ended longer ago may have been purged.
const RECENT: TimeDelta = TimeDelta::days(7);

/// Holds what the configuration says under cron.
pub struct UnderCron {
    env: Vec<(OsString, OsString)>,
    by_variable: bool,
    config: Result<Config, String>,
}

/// Reads the configuration as cron would; none: nobody asked.
pub fn cron_config(site: &Site, global: &Global) -> Option<UnderCron> {
    if !site.cron {
        return None;
    }
    let env = cron::environment(sys::env("HOME"), &sys::user_name());
    let file = site.config.file.clone();
    let get = |name: &str| {
        let set = env.iter().find(|(known, _)| known == name);
        let value = set.map(|(_, value)| value.clone());
        // A crontab names the file by --config.
        match (value, name) {
            (None, "SNBB_CONFIG") => file.clone().map(Into::into),
            (value, _) => value,
        }
    };
    Some(UnderCron {
        by_variable: global.config.is_none() && file.is_some(),
        config: read_config(global, &get).map_err(|error| error.to_string()),
        env,
    })
}

/// Asks Slurm and judges its answers.
pub fn look(
    site: &Site,
    found: Option<&Discovery>,
    state: Option<&StateLook>,
    limit: Duration,
    under_cron: Option<UnderCron>,
) -> Vec<Finding> {
    let requests: Vec<JobRequest> = site
        .config
        .procedures
        .iter()
        .filter_map(|(id, _)| example(&site.config, id, found))
        .collect();
    let wanted: Vec<Wanted> = requests
        .iter()
        .map(|request| wanted(site, request))
        .collect();
    let study = study_word(site, state);
    let canary = state.and_then(canary);
    let questions = Questions {
        requests,
        canary: canary.clone(),
        user: sys::user_name(),
        home: match state {
            Some(look) if look.state.meta.cluster.is_some() => {
                Home::of(&site.config, &look.state.meta)
            }
            _ => NOWHERE,
        },
        in_short: false,
    };
    let canary = canary.as_ref().map(JobId::as_str);
    let here = ask(
        &site.config,
        std::env::vars_os().collect(),
        limit,
        &questions,
    );
    let mut findings = judge(&site.config, &study, &wanted, canary, &here);
    if let Some(under_cron) = under_cron {
        let there = Questions {
            in_short: true,
            ..questions
        };
        let facts = compare(
            site,
            under_cron,
            (&study, &wanted),
            canary,
            &there,
            (&here, &findings),
            limit,
        );
        let told = cron::judge(&facts);
        findings.extend(told);
    }
    findings
}

/// Judges what cron changes where there is no Slurm: the configuration and the scripts.
pub fn look_at_cron_only(site: &Site, under_cron: UnderCron) -> Vec<Finding> {
    let config_problems = under_cron.problems(site);
    cron::judge(&cron::Facts {
        config_file: site.config.file.as_deref(),
        by_variable: under_cron.by_variable,
        config_problems,
        scripts: under_cron.scripts(site),
        here: &[],
        there: Vec::new(),
        sbatch: None,
        variables: Vec::new(),
    })
}

impl UnderCron {
    fn problems(&self, site: &Site) -> Vec<String> {
        match &self.config {
            Err(error) => vec![error.clone()],
            Ok(there) => differences(&site.config, there),
        }
    }

    /// Names the scripts that are found here only.
    fn scripts(&self, site: &Site) -> Vec<(String, String)> {
        let set = self.env.iter().find(|(name, _)| name == "PATH");
        let search_path = set.map(|(_, value)| value);
        let own_path = sys::env("PATH");
        let procedures = site.config.procedures.iter();
        procedures
            .filter_map(|(_, procedure)| {
                // What is not found here either was told.
                site.find_script(&procedure.script, own_path.as_ref())
                    .ok()?;
                let error = site.find_script(&procedure.script, search_path).err()?;
                Some((procedure.name.to_string(), error.to_string()))
            })
            .collect()
    }
}

/// Of a state that does not know its cluster: any may answer.
const NOWHERE: Home = Home {
    cluster: None,
    is_never_meant: true,
};

fn ask(
    config: &Config,
    env: Vec<(OsString, OsString)>,
    limit: Duration,
    questions: &Questions,
) -> Report {
    use crate::executor::Executor as _;
    let mut executor = SlurmExecutor::new(SlurmSettings {
        bin_dir: config.slurm.bin_dir.clone(),
        script_dir: config.script_dir.clone(),
        config_dir: config.base_dir().map(Path::to_owned),
        env,
        accounting: config.slurm.accounting,
        owner: sys::effective_uid(),
        caller: sys::effective_uid(),
        project: None,
        home: questions.home.clone(),
        separator: parse::separator(&config.state_file),
        submit_timeout: TRY_LIMIT,
        query_timeout: QUERY_LIMIT,
    });
    executor.set_deadline(limit);
    executor.inspect(questions)
}

fn compare<'a>(
    site: &'a Site,
    under_cron: UnderCron,
    (study, wanted): (&str, &[Wanted]),
    canary: Option<&str>,
    questions: &Questions,
    (here, findings): (&Report, &'a [Finding]),
    limit: Duration,
) -> cron::Facts<'a> {
    let config_problems = under_cron.problems(site);
    let scripts = under_cron.scripts(site);
    let config = under_cron.config.as_ref().unwrap_or(&site.config);
    let report = ask(config, under_cron.env.clone(), limit, questions);
    let place = |report: &Report| {
        let mut programs = report.programs.iter();
        let place = programs.find(|(name, _)| *name == "sbatch")?;
        place.1.as_ref().ok().cloned()
    };
    let there = judge(&site.config, study, wanted, canary, &report);
    cron::Facts {
        config_file: site.config.file.as_deref(),
        by_variable: under_cron.by_variable,
        config_problems,
        scripts,
        here: findings,
        there,
        sbatch: place(here).filter(|_| place(&report).is_none()),
        variables: cron::helpers()
            .filter_map(|name| Some((name, sys::env(name)?.to_string_lossy().into_owned())))
            .collect(),
    }
}

/// Names the paths that come out differently, and what is warned about only there (a password that is not set).
fn differences(here: &Config, there: &Config) -> Vec<String> {
    let paths = [
        ("dicom_root", &here.dicom_root, &there.dicom_root),
        ("bids_root", &here.bids_root, &there.bids_root),
        (
            "derivatives_root",
            &here.derivatives_root,
            &there.derivatives_root,
        ),
        ("state_file", &here.state_file, &there.state_file),
        ("log_file", &here.log_file, &there.log_file),
    ];
    let mut found: Vec<String> = paths
        .iter()
        .filter(|(_, here, there)| here != there)
        .map(|(key, here, there)| format!("{key} is {}, not {}", there.display(), here.display()))
        .collect();
    found.extend(
        there
            .warnings
            .iter()
            .filter(|warning| !here.warnings.contains(warning))
            .cloned(),
    );
    found
}

/// Makes the request of a task that there is, or that there could be.
fn example(config: &Config, id: ProcedureId, found: Option<&Discovery>) -> Option<JobRequest> {
    let procedure = config.procedures.get(id);
    let session = found.and_then(|found| found.sessions.first());
    let planned = Planned {
        procedure: id,
        subject: match session {
            Some(session) => session.subject.clone(),
            None => SubjectLabel::new("sub-0000").ok()?,
        },
        session: match (procedure.scope, session) {
            (Scope::Subject, _) | (_, None) => SessionLabel::none(),
            (Scope::Session, Some(session)) => session.session.clone(),
        },
        dicom_path: match session {
            Some(Session {
                dicom: Dicom::At(path),
                ..
            }) if procedure.scope == Scope::Session => Some(path.clone()),
            _ => None,
        },
        input_sessions: None,
        decision: Decision::Submit(Due::New),
    };
    let about = Circumstances {
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

/// Returns what a job asks for, by the configuration or by its script.
fn wanted(site: &Site, request: &JobRequest) -> Wanted {
    let path = site.find_script(&request.script, sys::env("PATH").as_ref());
    let asked = path.map(|path| header_of(&path)).unwrap_or_default();
    let of_script = |name: &str| asked.value(name).map(str::to_owned);
    let resources = &request.resources;
    let chosen = |ours: &Option<String>, name: &str| {
        let ours = ours.clone().filter(|text| !text.is_empty());
        ours.or_else(|| of_script(name))
    };
    let time = options::time(resources).or_else(|| {
        let text = of_script("time")?;
        crate::model::procedure::TimeLimit::parse(&text).ok()
    });
    let id = site.config.procedures.find(&request.key.procedure);
    Wanted {
        procedure: request.key.procedure.to_string(),
        partition: chosen(&resources.partition, "partition"),
        account: chosen(&resources.account, "account"),
        qos: chosen(&resources.qos, "qos"),
        time: time.and_then(|time| time.bound()),
        array: id.is_some_and(|id| site.config.procedures.get(id).rules.array != ArrayMode::Never),
    }
}

/// The word that tells this study's jobs from those of others.
fn study_word(site: &Site, look: Option<&StateLook>) -> String {
    let stored = look.and_then(|look| look.state.meta.project.clone());
    let path = look.map_or(&site.config.state_file, |look| &look.store.paths.state);
    request::study_word(stored.or_else(|| site.config.project.clone()), path)
}

/// Returns the job that ended last, if that was lately: accounting must know it.
fn canary(look: &StateLook) -> Option<JobId> {
    let since = sys::now() - RECENT;
    look.state
        .rows()
        .iter()
        .filter(|row| row.facts.ended_at.is_some_and(|ended| ended >= since))
        .filter(|row| row.facts.cluster.is_none())
        .filter_map(|row| Some((row.facts.ended_at, row.job_id.as_ref()?)))
        .filter(|(_, job)| parse::is_askable(job))
        .max_by_key(|(ended, _)| *ended)
        .map(|(_, job)| job.clone())
}
