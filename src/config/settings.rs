//! Every effective setting of a configuration and its origin, for `config show`.

use serde_json::Value as Json;

use super::Overrides;
use super::keys::{Key, Section};
use crate::model::config::Config;

/// Shown instead of a password.
pub(super) const HIDDEN: &str = "(hidden)";

/// One effective value.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Such as `audit.smtp_host` or `procedures.fmriprep.mem`.
    pub path: String,
    pub known: &'static Key,
    /// The procedure that it belongs to.
    pub procedure: Option<String>,
    /// Null for no value.
    pub value: Json,
    pub origin: Origin,
    /// The top-level key that the procedure inherits the value from.
    pub from: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file. `variables` are the environment variables in the value.
    File {
        line: u32,
        variables: Vec<String>,
    },
    Default,
    /// A command-line option.
    Option(&'static str),
    /// An environment variable that is named in the file.
    Variable {
        name: String,
        line: u32,
    },
}

/// Adds values of the command line and the environment, and defaults that the program determines.
pub(super) fn complete(settings: &mut [Setting], config: &Config, overrides: &Overrides) {
    let password = password(settings, config);
    for setting in settings {
        let procedure = setting.procedure.as_deref();
        let procedure = procedure.and_then(|name| config.procedures.find(name));
        let procedure = procedure.map(|id| config.procedures.get(id));
        let option = match (setting.known.section, setting.known.name) {
            (Section::Site, "slurm_mem") | (Section::Procedure, "mem") => {
                let mem = overrides.slurm_mem.as_ref();
                mem.map(|mem| ("--slurm-mem", mem.to_string().into()))
            }
            (Section::Site, "slurm_cpus_per_task") | (Section::Procedure, "cpus_per_task") => {
                let cpus = overrides.slurm_cpus;
                cpus.map(|cpus| ("--slurm-cpus", cpus.into()))
            }
            (Section::Site, "slurm_log_dir") => {
                let dir = config.slurm.log_dir.as_ref();
                let dir = dir.map_or(Json::Null, |dir| dir.to_string_lossy().into());
                let is_given = overrides.slurm_log_dir.is_some();
                is_given.then_some(("--slurm-log-dir", dir))
            }
            _ => None,
        };
        if let Some((option, value)) = option {
            (setting.value, setting.from) = (value, None);
            setting.origin = Origin::Option(option);
        } else if setting.origin == Origin::Default && setting.value.is_null() {
            setting.value = match (setting.known.section, setting.known.name, procedure) {
                (Section::Site, "log_file", _) => config.log_file.to_string_lossy().into(),
                (Section::Procedure, "check", Some(procedure)) => procedure.check.as_str().into(),
                (Section::Notify, "on", _) => {
                    let words = config.notify.on.iter();
                    words.map(|occasion| occasion.as_str()).collect()
                }
                _ => Json::Null,
            };
        }
        let is_password = setting.known.name == "smtp_password";
        if let Some(origin) = password.as_ref().filter(|_| is_password) {
            setting.value = HIDDEN.into();
            setting.origin = origin.clone();
        }
    }
}

/// The origin of a password from an environment variable.
fn password(settings: &[Setting], config: &Config) -> Option<Origin> {
    config.audit.smtp_password.as_ref()?;
    let mut settings = settings.iter();
    let named = settings.find(|setting| setting.known.name == "smtp_password_env")?;
    match (&named.value, &named.origin) {
        (Json::String(name), Origin::File { line, .. }) => Some(Origin::Variable {
            name: name.clone(),
            line: *line,
        }),
        _ => None,
    }
}
