//! The heartbeat: a small JSON file by which a watchdog tells that runs take place. Pure.

use serde::Serialize;

use super::{Call, Command, Memory};
use crate::model::state::{State, TaskStatus};
use crate::show::tables::utc_time;

/// The version of the file's form. It is raised when a key changes its meaning or goes.
const FORMAT: u32 = 1;

/// Is the file's form (`docs/output.md`).
#[derive(Debug, Serialize)]
struct Heartbeat<'a> {
    format: u32,
    time: String,
    /// The same, for shells.
    time_s: i64,
    command: Command,
    exit_code: u8,
    error: Option<&'a str>,
    started_at: String,
    duration_s: f64,
    last_good_run: Option<String>,
    host: &'a str,
    version: &'static str,
    sessions: Option<usize>,
    submitted: Option<usize>,
    refused: Option<usize>,
    in_doubt: Option<usize>,
    /// None: the state could not be read.
    tasks: Option<Tasks>,
}

#[derive(Debug, Serialize)]
struct Tasks {
    pending: usize,
    running: usize,
    complete: usize,
    failed: usize,
}

/// What each heartbeat holds.
pub const MARK: &str = "\"last_good_run\"";

/// Returns the content of the file.
///
/// # Errors
/// None is known.
pub fn render(
    call: &Call,
    memory: &Memory,
    state: Option<&State>,
    host: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let figures = call.figures.as_ref();
    let tasks = state.map(|state| {
        let count = |status| {
            let rows = state.rows().iter();
            rows.filter(|row| row.status == status).count()
        };
        Tasks {
            pending: count(TaskStatus::Pending),
            running: count(TaskStatus::Running),
            complete: count(TaskStatus::Complete),
            failed: count(TaskStatus::Failed),
        }
    });
    let heartbeat = Heartbeat {
        format: FORMAT,
        time: utc_time(call.ended_at),
        time_s: call.ended_at.timestamp(),
        command: call.command,
        exit_code: call.exit.code(),
        error: call.error.as_deref(),
        started_at: utc_time(call.started_at),
        duration_s: call.seconds(),
        last_good_run: memory.last_good_run.map(utc_time),
        host,
        version: env!("CARGO_PKG_VERSION"),
        sessions: figures.map(|figures| figures.sessions),
        submitted: figures.map(|figures| figures.submitted),
        refused: figures.map(|figures| figures.refused()),
        in_doubt: figures.map(|figures| figures.in_doubt),
        tasks,
    };
    let mut bytes = serde_json::to_vec_pretty(&heartbeat)?;
    bytes.push(b'\n');
    Ok(bytes)
}
