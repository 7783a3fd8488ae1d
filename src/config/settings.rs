//! Every effective setting of a configuration and its origin, for `config show`.

use serde_json::{Map, Number, Value as Json};

use super::keys::{Key, Kind, Section};
use super::reader::{Context, Effective, Fields, Value, below};
use super::tree::NodeValue;
use super::{Overrides, paths};
use crate::model::bids::SubjectLabel;
use crate::model::config::Config;
use crate::model::procedure::Procedure;

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

/// The settings so far, and the context of the current ones.
struct Walk<'a> {
    config: &'a Config,
    overrides: &'a Overrides,
    settings: Vec<Setting>,
    procedure: Option<&'a Procedure>,
    /// True for the built-in pipeline.
    is_builtin: bool,
}

/// The settings of a valid file, with the values of the command line and the environment, and defaults that the
/// program determines.
pub(super) fn settings(context: &Context<'_>, config: &Config) -> Vec<Setting> {
    let mut walk = Walk {
        config,
        overrides: context.overrides,
        settings: Vec::new(),
        procedure: None,
        is_builtin: false,
    };
    // The file has been read already, so problems have been reported or did not matter.
    context.leniently(|| walk.section(&Fields::top(context), "", None));
    walk.settings
}

impl Walk<'_> {
    fn section(&mut self, fields: &Fields<'_>, prefix: &str, from: Option<&'static str>) {
        for key in fields.section.keys() {
            let path = below(prefix, key.name);
            match key.kind {
                Kind::Mapping(_) => self.section(&fields.below(key.name), &path, from),
                Kind::Procedures => self.procedures(fields, &path),
                _ if key.name == "smtp_password" => self.password(fields, key, path),
                _ => {
                    let mut found = fields.effective(key.name);
                    found.from = found.from.or(from);
                    self.key(key, path, &found);
                }
            }
        }
    }

    fn procedures(&mut self, top: &Fields<'_>, path: &str) {
        self.is_builtin = top.get("procedures").is_none();
        let list = top.effective("procedures").value;
        let items = list.and_then(|list| list.items()).unwrap_or_default();
        for (item, procedure) in items.iter().zip(self.config.procedures.all()) {
            if let Some(fields) = item.fields(Section::Procedure) {
                self.procedure = Some(procedure);
                self.section(&fields, &below(path, &procedure.name), None);
            }
        }
        (self.procedure, self.is_builtin) = (None, false);
    }

    /// Adds the password without showing it.
    fn password(&mut self, audit: &Fields<'_>, known: &'static Key, path: String) {
        let written = audit.effective(known.name);
        let named = audit.effective("smtp_password_env");
        let name = named.value.and_then(|name| name.scalar());
        let is_set = self.config.audit.smtp_password.is_some();
        let origin = match (name, named.line, written.line) {
            (Some(name), Some(line), _) if is_set => Origin::Variable { name, line },
            (_, _, Some(line)) => Origin::File {
                line,
                variables: Vec::new(),
            },
            _ => Origin::Default,
        };
        self.settings.push(Setting {
            path,
            known,
            procedure: None,
            value: is_set.then_some("(hidden)").into(),
            origin,
            from: None,
        });
    }

    /// Adds a key. Entries that are mappings are added key by key.
    fn key(&mut self, key: &'static Key, path: String, found: &Effective<'_>) {
        let section = match key.kind {
            Kind::Retries => Section::Retry,
            Kind::Reasons => Section::RetryRule,
            Kind::Markers => Section::Marker,
            Kind::Dependencies => Section::Dependency,
            Kind::LogPatterns => Section::LogPattern,
            _ => return self.add(key, path, found, found.value.as_ref()),
        };
        let Some(value) = &found.value else {
            return self.add(key, path, found, None);
        };
        let entries: Vec<(String, Value<'_>)> = match (key.kind, value.is_mapping()) {
            (Kind::Retries, true) => vec![(path, value.clone())],
            (Kind::Reasons, true) => {
                let pairs = value.pairs().unwrap_or_default().into_iter();
                pairs
                    .map(|(name, value)| (below(&path, name), value))
                    .collect()
            }
            _ => {
                let entries = value.one_or_more();
                // Several markers would be too long for one line; names of dependencies are not.
                let is_long = matches!(key.kind, Kind::Markers) && entries.len() > 1;
                if !is_long && !entries.iter().any(Value::is_mapping) {
                    return self.add(key, path, found, Some(value));
                }
                let entries = entries.into_iter().enumerate();
                entries
                    .map(|(at, value)| (format!("{path}[{at}]"), value))
                    .collect()
            }
        };
        for (path, entry) in entries {
            match entry.is_mapping().then(|| entry.fields(section)).flatten() {
                Some(fields) => self.section(&fields, &path, found.from),
                None => self.add(key, path, found, Some(&entry)),
            }
        }
    }

    fn add(
        &mut self,
        known: &'static Key,
        path: String,
        found: &Effective<'_>,
        value: Option<&Value<'_>>,
    ) {
        let is_builtin = self.is_builtin && found.from.is_none();
        let mut setting = Setting {
            path,
            known,
            procedure: self.procedure.map(|procedure| procedure.name.to_string()),
            value: value.map_or(Json::Null, |value| json(value, known.kind)),
            origin: match found.line.filter(|_| !is_builtin) {
                None => Origin::Default,
                Some(line) => Origin::File {
                    line,
                    variables: value.map_or_else(Vec::new, |value| variables(value, known.kind)),
                },
            },
            from: found.from,
        };
        if let Some((option, value)) = self.option(known) {
            (setting.value, setting.from) = (value, None);
            setting.origin = Origin::Option(option);
        } else if setting.origin == Origin::Default && setting.value.is_null() {
            setting.value = self.determined(known);
        }
        self.settings.push(setting);
    }

    /// The option of the command line that replaces a key, with its value.
    fn option(&self, known: &Key) -> Option<(&'static str, Json)> {
        let Overrides {
            slurm_mem,
            slurm_cpus,
            slurm_log_dir,
        } = self.overrides;
        match (known.section, known.name) {
            (Section::Site, "slurm_mem") | (Section::Procedure, "mem") => {
                Some(("--slurm-mem", slurm_mem.as_ref()?.to_string().into()))
            }
            (Section::Site, "slurm_cpus_per_task") | (Section::Procedure, "cpus_per_task") => {
                Some(("--slurm-cpus", (*slurm_cpus)?.into()))
            }
            (Section::Site, "slurm_log_dir") => {
                slurm_log_dir.as_ref()?;
                let dir = self.config.slurm.log_dir.as_ref();
                let dir = dir.map_or(Json::Null, |dir| dir.to_string_lossy().into());
                Some(("--slurm-log-dir", dir))
            }
            _ => None,
        }
    }

    /// A default that the program determines.
    fn determined(&self, known: &Key) -> Json {
        match (known.section, known.name, self.procedure) {
            (Section::Site, "log_file", _) => self.config.log_file.to_string_lossy().into(),
            (Section::Procedure, "check", Some(procedure)) => procedure.check.as_str().into(),
            (Section::Notify, "on", _) => {
                let words = self.config.notify.on.iter();
                words.map(|occasion| occasion.as_str()).collect()
            }
            _ => Json::Null,
        }
    }
}

fn json(value: &Value<'_>, kind: Kind) -> Json {
    let item = kind.item();
    match &value.node.value {
        // A reason without a rule.
        _ if value.is_null() && matches!(kind, Kind::Reasons) => Json::Object(Map::new()),
        _ if value.is_null() => Json::Null,
        // An empty `output_dir` means the dataset itself; other empty values mean none.
        _ if value.is_empty_text() && !matches!(kind, Kind::OutputDir | Kind::Scalar) => Json::Null,
        NodeValue::Scalar { text, .. } => scalar(value, text, item),
        NodeValue::Sequence(_) => {
            let item = match item {
                Kind::Entries { .. } => Kind::Scalar,
                item => item,
            };
            let items = value.items().unwrap_or_default();
            items.iter().map(|entry| json(entry, item)).collect()
        }
        NodeValue::Mapping(_) => {
            let pairs = value.pairs().unwrap_or_default().into_iter();
            let pairs = pairs.map(|(name, value)| (name.to_owned(), json(&value, Kind::Scalar)));
            Json::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

fn scalar(value: &Value<'_>, text: &str, kind: Kind) -> Json {
    let path = || value.path().map(|path| path.to_string_lossy().into());
    let read = match kind {
        Kind::Flag => value.flag().map(Json::from),
        Kind::Whole { .. } => value.whole::<u64>().map(Json::from),
        Kind::Hours | Kind::Factor => serde_json::from_str::<Number>(text).ok().map(Json::from),
        Kind::Path | Kind::PromFile => path(),
        Kind::Entries { .. } if !text.starts_with(SubjectLabel::PREFIX) => path(),
        Kind::Script | Kind::OutputDir if !text.is_empty() => {
            value.expanded().map(|path| path.to_string_lossy().into())
        }
        _ => None,
    };
    read.unwrap_or_else(|| text.into())
}

/// The environment variables in a path.
fn variables(value: &Value<'_>, kind: Kind) -> Vec<String> {
    let is_expanded = matches!(
        kind,
        Kind::Path | Kind::PromFile | Kind::Script | Kind::OutputDir | Kind::Entries { .. }
    );
    match &value.node.value {
        NodeValue::Scalar { text, .. } if is_expanded => paths::variables(text, value.context.env),
        _ => Vec::new(),
    }
}
