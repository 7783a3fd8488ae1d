//! The effective value of each key, from the file or by default, for `config show`.

use serde_json::{Map, Number, Value as Json};

use super::Value;
use super::fields::{Fields, Preset};
use crate::config::keys::{Fallback, Key, Kind, Section};
use crate::config::paths;
use crate::config::settings::{HIDDEN, Origin, Setting};
use crate::config::tree::NodeValue;
use crate::model::bids::SubjectLabel;

/// The settings so far, and the context of the current ones.
#[derive(Default)]
struct Walk {
    settings: Vec<Setting>,
    procedure: Option<String>,
    /// True for the built-in pipeline.
    is_builtin: bool,
}

/// The effective value of a key.
struct Effective<'a> {
    value: Option<Value<'a>>,
    /// Line of the key; `None` if the file does not set it.
    line: Option<u32>,
    from: Option<&'static str>,
}

/// The settings of a valid file.
pub(crate) fn settings(top: &Fields<'_>) -> Vec<Setting> {
    let mut walk = Walk::default();
    // The file has been read already, so problems have been reported or did not matter.
    walk.section(&top.leniently(), "", None);
    walk.settings
}

impl Walk {
    fn section(&mut self, fields: &Fields<'_>, prefix: &str, from: Option<&'static str>) {
        for key in fields.section.keys() {
            let path = match prefix {
                "" => key.name.to_owned(),
                _ => format!("{prefix}.{}", key.name),
            };
            match key.kind {
                Kind::Mapping(_) => self.section(&fields.below(key.name), &path, from),
                Kind::Procedures => self.procedures(fields, &path),
                _ => {
                    let mut found = effective(fields, key);
                    found.from = found.from.or(from);
                    self.key(key, &path, &found);
                }
            }
        }
    }

    fn procedures(&mut self, top: &Fields<'_>, path: &str) {
        self.is_builtin = top.get("procedures").is_none();
        let list = top.get_or_default("procedures");
        for item in list.and_then(|list| list.items()).unwrap_or_default() {
            if let Some(fields) = item.fields(Section::Procedure) {
                let name = fields.get("name").and_then(|name| name.scalar());
                let name = name.unwrap_or_default();
                self.procedure = Some(name.clone());
                self.section(&fields, &format!("{path}.{name}"), None);
            }
        }
        (self.procedure, self.is_builtin) = (None, false);
    }

    /// Adds a key. Entries that are mappings are added key by key.
    fn key(&mut self, key: &'static Key, path: &str, found: &Effective<'_>) {
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
            (Kind::Retries, true) => vec![(path.to_owned(), value.clone())],
            (Kind::Reasons, true) => {
                let pairs = value.pairs().unwrap_or_default().into_iter();
                pairs
                    .map(|(name, value)| (format!("{path}.{name}"), value))
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
                None => self.add(key, &path, found, Some(&entry)),
            }
        }
    }

    fn add(
        &mut self,
        key: &'static Key,
        path: &str,
        found: &Effective<'_>,
        value: Option<&Value<'_>>,
    ) {
        let is_builtin = self.is_builtin && found.from.is_none();
        let origin = match found.line.filter(|_| !is_builtin) {
            None => Origin::Default,
            Some(line) => Origin::File {
                line,
                variables: value
                    .map(|value| variables(value, key.kind))
                    .unwrap_or_default(),
            },
        };
        let is_secret = key.name == "smtp_password";
        let value = match value.map_or(Json::Null, |value| json(value, key.kind)) {
            Json::Null => Json::Null,
            Json::String(text) if is_secret && text.is_empty() => Json::Null,
            _ if is_secret => HIDDEN.into(),
            value => value,
        };
        self.settings.push(Setting {
            path: path.to_owned(),
            known: key,
            procedure: self.procedure.clone(),
            value,
            origin,
            from: found.from,
        });
    }
}

/// The effective value, by the rules of [`Fields::or`] and [`Fields::maybe`].
fn effective<'a>(fields: &Fields<'a>, key: &'static Key) -> Effective<'a> {
    if let Some(value) = fields.get(key.name) {
        let is_left = match key.default {
            Fallback::Of(_) if value.is_null() => true,
            _ => (value.is_null() || value.is_empty_text()) && !may_be_none(key),
        };
        if !is_left {
            let entry = fields.entries.iter().find(|entry| entry.key == key.name);
            return Effective {
                value: Some(value),
                line: entry.map(|entry| entry.at.line),
                from: None,
            };
        }
    }
    let (site, value) = match (key.section, key.name, fields.default(key.name)) {
        (_, _, Some(Preset::Site(_, name))) => (Section::Site.key(name), None),
        (Section::Procedure, "output_grace", _) => (Section::Site.key(key.name), None),
        (_, _, Some(Preset::Value(value))) => (None, Some(value)),
        _ => (None, None),
    };
    match site {
        Some(site) => Effective {
            from: Some(site.name),
            ..effective(&fields.site(), site)
        },
        None => Effective {
            value,
            line: None,
            from: None,
        },
    }
}

/// True if an empty value means "none" instead of the default.
fn may_be_none(key: &Key) -> bool {
    match key.default {
        Fallback::Is(_) => matches!((key.section, key.kind), (Section::Site, Kind::Word)),
        Fallback::Of(site) => Section::Site.key(site).is_some_and(may_be_none),
        Fallback::Nothing | Fallback::Required | Fallback::Words(_) => true,
    }
}

fn json(value: &Value<'_>, kind: Kind) -> Json {
    let item = match kind {
        Kind::List(item) => *item,
        kind => kind,
    };
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
