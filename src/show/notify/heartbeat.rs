//! The heartbeat: a small JSON file from which a watchdog sees that runs take place. Pure.

use serde_json::json;

use super::{Invocation, Memory};
use crate::model::state::{State, TaskStatus};
use crate::show::tables::utc_time;

/// The version of the file format (`docs/output.md`). Raised when a key changes its meaning or is removed.
const FORMAT: u32 = 1;

/// Text that every heartbeat contains.
pub const MARK: &str = "\"last_good_run\"";

/// The content of the file. `state` is `None` if it could not be read.
pub fn render(call: &Invocation, memory: &Memory, state: Option<&State>, host: &str) -> Vec<u8> {
    let figures = call.figures.as_ref();
    let heartbeat = json!({
        "format": FORMAT,
        "time": utc_time(call.ended_at),
        // The same time for shell scripts.
        "time_s": call.ended_at.timestamp(),
        "command": call.command,
        "exit_code": call.exit.code(),
        "error": call.error,
        "started_at": utc_time(call.started_at),
        "duration_s": call.seconds(),
        "last_good_run": memory.last_good_run.map(utc_time),
        "host": host,
        "version": env!("CARGO_PKG_VERSION"),
        "sessions": figures.map(|figures| figures.sessions),
        "submitted": figures.map(|figures| figures.submitted),
        "refused": figures.map(|figures| figures.refused()),
        "in_doubt": figures.map(|figures| figures.in_doubt),
        "tasks": state.map(|state| json!({
            "pending": state.count(TaskStatus::Pending),
            "running": state.count(TaskStatus::Running),
            "complete": state.count(TaskStatus::Complete),
            "failed": state.count(TaskStatus::Failed),
        })),
    });
    format!("{heartbeat:#}\n").into_bytes()
}
