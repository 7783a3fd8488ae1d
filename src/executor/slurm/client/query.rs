//! The commands that ask squeue, sacct and scontrol, and which cluster answers them.
//!
//! Login nodes of two clusters may share a file system, and the Slurm of one cluster answers without error that it has
//! none of the other's jobs.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::Arc;

use chrono::{DateTime, Days, Local, Utc};

use crate::base::run::End;
use crate::base::sys;
use crate::executor::slurm::client::SlurmExecutor;
use crate::executor::slurm::command;
use crate::executor::slurm::parse;
use crate::executor::slurm::parse::Parsed;
use crate::executor::{JobReport, Question};
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, JobId, JobRef, is_same_study};
use crate::model::procedure::options;
use crate::model::state::table::Metadata;

/// A thousand, and a job that accounting must have. Limits the rows per database query, and an argument has at most
/// 128 KiB.
pub(crate) const IDS_PER_CALL: usize = 1001;

/// By default, sacct shows the jobs of all users only to root.
pub(crate) const EVERYBODY: &str = "--allusers";

/// The cluster of jobs without `--clusters`.
#[derive(Debug, Clone, Default)]
pub struct Home {
    /// Its ClusterName, once known.
    pub cluster: Option<Arc<str>>,
    /// True if every procedure sets `--clusters`.
    pub is_unused: bool,
}

impl Home {
    pub fn of(config: &Config, state: &Metadata) -> Self {
        let mut procedures = config.procedures.all();
        Self {
            cluster: state.cluster.as_deref().map(Arc::from),
            is_unused: procedures
                .all(|procedure| !options::clusters(&procedure.resources.sbatch_args).is_empty()),
        }
    }
}

impl SlurmExecutor {
    /// Runs a query; the error is a text for people.
    pub(crate) fn ask(
        &mut self,
        program: &str,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<String, String> {
        let limit = self.time.for_query(program)?;
        let ended = self.commands.query(program, arguments, limit);
        let ended = ended.map_err(|error| error.to_string())?;
        if let End::TimedOut { .. } = ended.end {
            self.time.note_silence(program);
        }
        command::answer(program, ended)
    }

    /// The output of `scontrol show config`, asked for once.
    pub(crate) fn site_config(&mut self) -> Result<&str, String> {
        if self.site_config.is_none() {
            self.site_config = Some(self.ask("scontrol", &["show", "config"])?);
        }
        Ok(self.site_config.as_deref().unwrap_or_default())
    }

    /// The option for the users whose jobs are queried: the owner and the caller.
    pub(crate) fn users(&self, option: &str) -> String {
        match self.settings.owner == self.settings.caller {
            true => format!("{option}={}", self.settings.owner),
            false => format!("{option}={},{}", self.settings.owner, self.settings.caller),
        }
    }

    /// Fails if Slurm hides the owner's jobs from the caller, since their absence would mean nothing.
    pub(crate) fn check_view(&mut self) -> Result<(), String> {
        if self.settings.owner == self.settings.caller || self.settings.caller == 0 {
            return Ok(());
        }
        let hidden = setting(self.site_config()?, "PrivateData").unwrap_or_default();
        match hidden.split(',').any(|what| what.trim() == "jobs") {
            false => Ok(()),
            true => Err(format!(
                "Slurm hides the jobs of {} from {} (PrivateData=jobs)",
                sys::user(self.settings.owner),
                sys::user(self.settings.caller)
            )),
        }
    }

    /// `filter` is an option that selects jobs.
    pub(crate) fn ask_queue(
        &mut self,
        filter: Option<String>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        // A separator also at the end: text between two records does not come from Slurm.
        let separator = &self.settings.separator;
        let format = parse::QUEUE_FORMAT.map(|(_, symbol)| format!("{symbol}{separator}"));
        let mut arguments = cluster_option(cluster);
        arguments.extend(["--all", "-h", "-r", "--states=all"].map(str::to_owned));
        arguments.extend(filter);
        arguments.push(format!("--format={}", format.concat()));
        let text = self.ask("squeue", &arguments)?;
        Ok(parse::queue(&text, &self.settings.separator, cluster))
    }

    /// Asks sacct for jobs of `users`, or else for jobs with their steps.
    pub(crate) fn ask_sacct(
        &mut self,
        users: Option<&str>,
        jobs: Option<String>,
        since: Option<DateTime<Utc>>,
        cluster: Option<&Arc<str>>,
        fields: &[&str],
    ) -> Result<String, String> {
        let mut arguments = cluster_option(cluster);
        arguments.extend(users.map(|_| "-X".to_owned()));
        // -D: all jobs that ever had an id. Ids are recycled, and sacct shows only the newest by default.
        arguments.extend(["-D", "-n", "-p"].map(str::to_owned));
        arguments.push(format!("--delimiter={}", self.settings.separator));
        arguments.extend(users.map(str::to_owned));
        arguments.extend(jobs);
        // Earlier records belong to other jobs. A day is added, because clocks differ, and the end of summer time
        // repeats an hour. Slurm refuses a future time, which a wrong clock may have written into the state.
        arguments.extend(since.map(|since| {
            let since = since.min(sys::now());
            let since = since.checked_sub_days(Days::new(1)).unwrap_or(since);
            let local = since.with_timezone(&Local).format("%Y-%m-%dT%H:%M:%S");
            format!("--starttime={local}")
        }));
        arguments.push(format!("--format={}", fields.join(",")));
        self.ask("sacct", &arguments)
    }

    /// Asks accounting for these jobs of `users`, in as many calls as needed.
    pub(crate) fn records(
        &mut self,
        users: &str,
        ids: &[&str],
        since: Option<DateTime<Utc>>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        let mut all = Parsed::default();
        for jobs in jobs_options(ids) {
            all.add(self.ask_accounting(users, Some(jobs), since, cluster)?);
        }
        Ok(all)
    }

    /// Asks accounting for jobs of `users` (all without `jobs`), with their submit lines, which have our tag.
    pub(crate) fn ask_accounting(
        &mut self,
        users: &str,
        jobs: Option<String>,
        since: Option<DateTime<Utc>>,
        cluster: Option<&Arc<str>>,
    ) -> Result<Parsed, String> {
        let with_line = match self.has_submit_line {
            Some(known) => known,
            None => self
                .ask("sacct", &["--helpformat"])?
                .split_ascii_whitespace()
                .any(|field| field.eq_ignore_ascii_case(parse::SUBMIT_LINE)),
        };
        self.has_submit_line = Some(with_line);
        let fields = parse::accounting_fields(with_line);
        let text = self.ask_sacct(Some(users), jobs, since, cluster, &fields)?;
        let separator = &self.settings.separator;
        Ok(parse::accounting(&text, separator, with_line, cluster))
    }

    /// True for a job with a tag of this study.
    pub(crate) fn is_tagged(&self, job: &JobReport) -> bool {
        let (Some(own), Some(tag)) = (&self.settings.project, &job.tag) else {
            return false;
        };
        is_same_study(&tag.project, own)
    }

    /// Fails if the queue belongs to another cluster than the study's. If it has a job of the study, no further call
    /// is needed; otherwise the cluster is asked for its name.
    pub(crate) fn check_home(
        &mut self,
        question: &Question,
        queue: &[JobReport],
    ) -> Result<(), String> {
        // Jobs that were submitted here with `--clusters` are also in the queue of the default cluster.
        let jobs = question.jobs.iter().filter(|job| job.cluster.is_none());
        let at_home: HashSet<&JobId> = jobs.map(|job| &job.id).collect();
        let mut ids = at_home.iter();
        let is_used =
            !self.settings.home.is_unused || ids.any(|id| id.executor() == ExecutorKind::Slurm);
        let is_here = |job: &JobReport| {
            job.facts.cluster.is_none() && at_home.contains(&job.id) && self.is_tagged(job)
        };
        if !is_used || self.settings.home.cluster.is_some() && queue.iter().any(is_here) {
            return Ok(());
        }
        let name = self.site_config().map(|config| {
            let name = setting(config, "ClusterName").filter(|name| *name != "(null)");
            name.map(Arc::<str>::from)
        });
        let Some(own) = &self.settings.home.cluster else {
            match name {
                Ok(name) => self.settings.home.cluster = name,
                Err(error) => tracing::debug!("{error}; the cluster's name is unknown"),
            }
            return Ok(());
        };
        match name {
            Ok(Some(name)) if name.eq_ignore_ascii_case(own) => Ok(()),
            Ok(Some(name)) => Err(format!(
                "this is cluster '{name}', but this study's jobs are on cluster '{own}': run the command on a \
                 login node of '{own}', or `run --accept-cluster` if '{own}' was renamed to '{name}'"
            )),
            Ok(None) => Err(format!(
                "`scontrol show config` has no ClusterName, so this may not be cluster '{own}'"
            )),
            Err(error) => Err(format!("this may not be cluster '{own}': {error}")),
        }
    }
}

/// A value in the output of `scontrol show config`.
pub(crate) fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The option that selects the jobs, once per call.
pub(crate) fn jobs_options(ids: &[&str]) -> impl Iterator<Item = String> {
    let chunks = ids.chunks(IDS_PER_CALL);
    chunks.map(|ids| format!("--jobs={}", ids.join(",")))
}

/// The number and the cluster of each job without a report. A report of an array covers all its tasks.
pub(crate) fn missing<'a>(
    jobs: &'a [JobRef],
    reports: impl Iterator<Item = &'a JobReport>,
) -> Vec<(&'a str, Option<&'a str>)> {
    let mut known: HashSet<_> = reports
        .map(|job| (job.id.number(), job.facts.cluster.as_deref()))
        .collect();
    let jobs = jobs.iter().filter(|job| parse::is_askable(&job.id));
    jobs.map(|job| (job.id.number(), job.cluster.as_deref()))
        .filter(|job| known.insert(*job))
        .collect()
}

pub(crate) fn cluster_option(cluster: Option<&Arc<str>>) -> Vec<String> {
    Vec::from_iter(cluster.map(|cluster| format!("--clusters={cluster}")))
}
