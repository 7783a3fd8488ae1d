//! `notify`, `heartbeat_file` and `metrics_file`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::files::root_of;
use super::problem::quote;
use super::reader::{Fields, Value};
use crate::model::config::Config;
use crate::model::config::notify::{NotifyConfig, Occasion};

pub(super) fn read(top: &Fields<'_>) -> NotifyConfig {
    let fields = top.below("notify");
    let on = match fields.get("on") {
        Some(value) if value.one_or_more().is_empty() => {
            value.problem_with(
                "is empty, so no notification would ever be sent",
                "remove the key to report all events",
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
pub(super) fn metrics_file(value: &Value<'_>) -> Option<PathBuf> {
    let path = value.path()?;
    if path.extension().is_none_or(|end| end != "prom") {
        value.problem_with(
            format!(
                "{} does not end with '.prom'",
                quote(&path.to_string_lossy())
            ),
            "node_exporter's textfile collector ignores other files",
        );
    }
    Some(path)
}

/// Checks for mail without recipients and for files below a data root.
pub(super) fn check(config: &Config, top: &Fields<'_>) {
    if config.notify.email
        && config.audit.email_recipients.is_empty()
        && let Some(value) = top.get("notify")
    {
        value.warn("no mail will be sent, because audit.email_recipients is empty");
    }
    let files = [
        ("heartbeat_file", &config.heartbeat_file),
        ("metrics_file", &config.metrics_file),
    ];
    for (key, file) in files {
        let (Some(file), Some(value)) = (file, top.get(key)) else {
            continue;
        };
        if let Some(root) = root_of(config, file) {
            value.problem_with(
                format!("is inside {root}"),
                "choose a path outside the data, such as beside the state file",
            );
        }
    }
}
