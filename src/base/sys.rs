//! The few facts of the outside that every command needs: time, environment, user, host.
//!
//! Modules that decide never call these: time, user and host come to them as arguments, so that they can be
//! tested with any. Those that act call them: `cli`, the executors, the lock and the files of the state.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that reads time and environment"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use chrono::{DateTime, Local, SubsecRound, Utc};

/// Returns the time of the system clock, cut to the microseconds that the state file stores.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

/// Begins anew without `TZ` if that leads to anything but a small regular file: to read a zone from a pipe or a
/// device would never end, here and in Slurm's programs. Does not return where it does so.
pub fn leave_unusable_zone() {
    // Where zones are looked for (tzset(3)); joined with an absolute path, the path itself.
    let Some(zone) = env("TZ") else { return };
    let name = zone.as_bytes();
    let name = OsStr::from_bytes(name.strip_prefix(b":").unwrap_or(name));
    let is_unusable = ZONES.iter().any(|dir| {
        let found = std::fs::metadata(Path::new(dir).join(name));
        found.is_ok_and(|found| !found.is_file() || found.len() > LARGEST_ZONE)
    });
    let mut words = std::env::args_os();
    if is_unusable && let (Some(called), Ok(program)) = (words.next(), std::env::current_exe()) {
        // Without an answer all goes on as it was called.
        let _ = std::process::Command::new(program)
            .arg0(called)
            .args(words)
            .env_remove("TZ")
            .exec();
    }
}

const ZONES: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/share/zoneinfo",
    "/etc/zoneinfo",
    "/usr/share/lib/zoneinfo",
];
/// In bytes; the zones that there are have a few thousand.
const LARGEST_ZONE: u64 = 1 << 20;

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

/// Writes a user id for people, with the name if the system knows one: `alice (uid 1000)`.
pub fn user(uid: u32) -> String {
    // A table may name a user in each row, and a name may have to be asked for over the network.
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = known.entry(uid).or_insert_with(|| {
        let found = uzers::get_user_by_uid(uid);
        let name = found.map(|user| user.name().to_string_lossy().into_owned());
        name.map_or_else(
            || format!("uid {uid}"),
            |name| format!("{name} (uid {uid})"),
        )
    });
    text.clone()
}

/// Lets a write above the limit on the size of files (`ulimit -f`) fail as any other can: without this, SIGXFSZ
/// ends the process without a word (setrlimit(2)).
///
/// By a handler, which ends with `exec`: a signal that is ignored would stay so in sbatch and in jobs.
pub fn survive_file_size_limit() {
    // Where it cannot be had, all is as if it had not been asked for.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::<AtomicBool>::default());
}

/// The signal that asked this process to end; 0: none did.
static INTERRUPTED_BY: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on SIGINT and SIGTERM are only noted, so that what is begun is finished; a second one ends the process.
pub fn catch_interrupts() {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let number = usize::try_from(signal).unwrap_or_default();
        // Where a handler cannot be had, the first one ends the process, as ever. They are called in this order.
        let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_second))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&is_second)))
            .and_then(|_| {
                signal_hook::flag::register_usize(signal, Arc::clone(&INTERRUPTED_BY), number)
            });
    }
}

/// True if a signal that was caught asks this process to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED_BY.load(Ordering::Relaxed) != 0
}

/// Ends the process by the signal that was caught, so that whoever started it (a shell's loop, systemd) sees why.
pub fn end_by_interrupt() {
    if let Ok(signal @ 1..) = i32::try_from(INTERRUPTED_BY.load(Ordering::Relaxed)) {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
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
