//! Time, environment, user and host.
//!
//! Modules that decide never call these: they get time, user and host as arguments, so that tests can choose
//! them. Modules that act do: `cli`, the executors, the lock and the files of the state.
#![expect(
    clippy::disallowed_methods,
    reason = "the one module that reads time and environment"
)]

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use chrono::{DateTime, Local, SubsecRound, Utc};

/// The current time, cut to the microseconds that the state file stores.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

/// A time for people, in their time zone: `2026-01-02 04:04 +01:00`. Files, CSV and JSON have UTC. No decision
/// depends on the zone, so pure modules may call this for their texts.
pub fn local_time(at: DateTime<Utc>) -> String {
    let local = at.with_timezone(&Local);
    let zone = match local.offset().local_minus_utc() {
        0 => "UTC".to_owned(),
        _ => local.format("%:z").to_string(),
    };
    format!("{} {zone}", local.format("%Y-%m-%d %H:%M"))
}

/// A number that no other process has: time and pid can be the same on two hosts.
pub fn random() -> u64 {
    // Seeded by the system for each process.
    RandomState::new().hash_one(std::process::id())
}

/// An environment variable; `None` if it is unset or empty.
pub fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The user id that owns the files and jobs of this process.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user's name from the environment, or else the user id.
pub fn user_name() -> String {
    ["LOGNAME", "USER"].into_iter().find_map(env).map_or_else(
        || format!("user {}", effective_uid()),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// A user id for people, with the name if the system knows one: `alice (uid 1000)`.
pub fn user(uid: u32) -> String {
    match uzers::get_user_by_uid(uid) {
        Some(user) => format!("{} (uid {uid})", user.name().to_string_lossy()),
        None => format!("uid {uid}"),
    }
}

/// Turns a write above the file size limit (`ulimit -f`) into an ordinary error: otherwise SIGXFSZ ends the process
/// without a message (setrlimit(2)).
///
/// Uses a handler, which `exec` resets: an ignored signal would stay ignored in sbatch and in jobs.
pub fn survive_file_size_limit() {
    // If this fails, the signal keeps its default action.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::<AtomicBool>::default());
}

/// The signal that asked this process to end; 0 if there was none.
static INTERRUPTED_BY: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on SIGINT and SIGTERM are only recorded, so that the current work is finished; a second one ends the
/// process.
pub fn catch_interrupts() {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let number = usize::try_from(signal).unwrap_or_default();
        // Handlers run in this order. If one cannot be installed, the first signal ends the process, as by default.
        let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_second))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&is_second)))
            .and_then(|_| {
                signal_hook::flag::register_usize(signal, Arc::clone(&INTERRUPTED_BY), number)
            });
    }
}

/// True if a caught signal has asked this process to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED_BY.load(Ordering::Relaxed) != 0
}

/// Ends the process by the caught signal, so that its parent (a shell's loop, systemd) sees why.
pub fn end_by_interrupt() {
    if let Ok(signal @ 1..) = i32::try_from(INTERRUPTED_BY.load(Ordering::Relaxed)) {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// The largest size in bytes of a file that this process may write; `None` if unlimited.
pub fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// The host's name, as the kernel knows it.
pub fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
