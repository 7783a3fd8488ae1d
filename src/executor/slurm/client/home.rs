//! The home cluster of a study's jobs. Login nodes of two clusters may share a file system, and the Slurm of one
//! cluster answers without error that it has none of the other's jobs.

use std::collections::HashSet;
use std::sync::Arc;

use crate::executor::slurm::client::SlurmExecutor;
use crate::executor::{JobReport, Question};
use crate::model::config::Config;
use crate::model::job::{ExecutorKind, JobId, is_same_study};
use crate::model::procedure::options;
use crate::model::state::table::Metadata;

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
        let mut procedures = config.procedures.iter();
        Self {
            cluster: state.cluster.as_deref().map(Arc::from),
            is_unused: procedures.all(|(_, procedure)| {
                !options::clusters(&procedure.resources.sbatch_args).is_empty()
            }),
        }
    }
}

impl SlurmExecutor {
    /// The output of `scontrol show config`, asked for once.
    pub(crate) fn site_config(&mut self) -> Result<&str, String> {
        if self.site_config.is_none() {
            self.site_config = Some(self.ask("scontrol", &["show", "config"])?);
        }
        Ok(self.site_config.as_deref().unwrap_or_default())
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
        let mut jobs = question.jobs.iter();
        let is_used = !self.settings.home.is_unused
            || jobs.any(|job| job.cluster.is_none() && job.id.executor() == ExecutorKind::Slurm);
        // Jobs that were submitted here with `--clusters` are also in the queue of the default cluster.
        let at_home: HashSet<&JobId> = question
            .jobs
            .iter()
            .filter(|job| job.cluster.is_none())
            .map(|job| &job.id)
            .collect();
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
