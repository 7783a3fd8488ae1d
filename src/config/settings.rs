//! Every effective value of a configuration and where it comes from, for people who ask. What counts is decided where
//! keys are read; here it is only told.

use serde_json::Value as Json;

use super::Overrides;
use super::keys::{Key, Section};
use crate::model::config::Config;

/// What is shown of a password.
pub(super) const HIDDEN: &str = "(hidden)";

/// One effective value.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Such as `audit.smtp_host`, `procedures.fmriprep.mem`.
    pub path: String,
    pub known: &'static Key,
    /// The procedure that it belongs to.
    pub procedure: Option<String>,
    /// Null: nothing.
    pub value: Json,
    pub origin: Origin,
    /// The key at the top of the file that the procedure takes it from.
    pub from: Option<&'static str>,
}

/// Where a value was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration file; `variables`: those of the environment that are part of the value.
    File {
        line: u32,
        variables: Vec<String>,
    },
    Default,
    /// An option of the command line.
    Option(&'static str),
    /// An environment variable that a line of the file names.
    Variable {
        name: String,
        line: u32,
    },
}

/// Puts in what is said elsewhere than in the file, and what the program finds out for keys that are not written.
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
        if let Some(origin) = password.as_ref().filter(|_| is_password(setting)) {
            setting.value = HIDDEN.into();
            setting.origin = origin.clone();
        }
    }
}

fn is_password(setting: &Setting) -> bool {
    (setting.known.section, setting.known.name) == (Section::Audit, "smtp_password")
}

/// Where the password comes from if a variable holds it.
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
