//! The few facts of the outside that every command needs: time, environment, user, host.
//!
//! Modules that decide never call these: time, user and host come to them as arguments, so that they can be
//! tested with any. Those that act call them: `cli`, the executors, the lock and the files of the state.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that reads time and environment"
)]

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chrono::{DateTime, Local, SubsecRound, Utc};

/// Returns the time of the system clock, cut to the microseconds that the state file stores.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

/// Writes a time for people, in their time zone: `2026-01-02 04:04 +01:00`. Files, CSV and JSON have UTC. The zone
/// decides nothing, so pure modules may call this for their texts.
pub fn local_time(at: DateTime<Utc>) -> String {
    let local = at.with_timezone(&Local);
    let zone = match local.offset().local_minus_utc() {
        0 => "UTC".to_owned(),
        _ => local.format("%:z").to_string(),
    };
    format!("{} {zone}", local.format("%Y-%m-%d %H:%M"))
}

/// Returns a number that no other process has: the time and the pid can be the same on two hosts.
pub fn random() -> u64 {
    // Seeded by the system for each process.
    RandomState::new().hash_one(std::process::id())
}

/// Returns an environment variable, or none if it is unset or empty.
pub fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the user id that files and jobs of this process belong to.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the user's name as the environment tells it, else the user id.
pub fn user_name() -> String {
    ["LOGNAME", "USER"].into_iter().find_map(env).map_or_else(
        || format!("user {}", effective_uid()),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Lets a write above the limit on the size of files (`ulimit -f`) fail as any other can: without this, SIGXFSZ
/// ends the process without a word (setrlimit(2)).
///
/// By a handler, which ends with `exec`: a signal that is ignored would stay so in sbatch and in jobs.
pub fn survive_file_size_limit() {
    // Where it cannot be had, all is as if it had not been asked for.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::<AtomicBool>::default());
}

/// Returns how many bytes a file may have that this process writes; none: there is no limit.
pub fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Returns the host's name as the kernel knows it.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
