//! Room on the file systems that the program itself writes to.

use std::path::Path;

use rustix::io::Errno;

use super::SafetyStop;
use crate::config::Config;
use crate::state::store::resolve;

/// Holds what a file system has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes for users without privileges; none: the file system does not tell.
    pub free: Option<u64>,
    /// False if no further file can be made.
    pub has_inodes: bool,
}

/// Looks at the file systems of the state and of the audit log, in this order. None: it cannot be
/// known.
pub fn look(config: &Config) -> [Option<Room>; 2] {
    [room(&config.state_file), room(&config.log_file)]
}

/// What counts is where a link leads to. The directory may not exist yet: then the nearest one above it
/// tells.
fn room(file: &Path) -> Option<Room> {
    let file = resolve(file).unwrap_or_else(|_| file.to_owned());
    for directory in file.ancestors().skip(1) {
        match rustix::fs::statvfs(directory) {
            Ok(stat) => {
                return Some(Room {
                    // Some network file systems say 0 of 0.
                    free: (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize)),
                    has_inodes: stat.f_files == 0 || stat.f_favail > 0,
                });
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Returns the stops of file systems that have too little room.
pub fn judge(config: &Config, rooms: &[Option<Room>; 2]) -> Vec<SafetyStop> {
    let needed = config.safety.min_free;
    if needed == 0 {
        return Vec::new();
    }
    let files = [
        ("state_file", &config.state_file),
        ("log_file", &config.log_file),
    ];
    let mut stops: Vec<SafetyStop> = Vec::new();
    for ((name, path), room) in files.into_iter().zip(rooms) {
        let Some(room) = room else { continue };
        let lack = match room.free {
            Some(free) if free < needed => {
                format!("{} free, {} needed", size(free), size(needed))
            }
            _ if !room.has_inodes => "no further file can be made (no free inodes)".to_owned(),
            _ => continue,
        };
        // Both mostly lie on one file system.
        if stops.is_empty() || rooms[0] != rooms[1] {
            stops.push(SafetyStop {
                name: format!("space/{name}"),
                figure: 1,
                message: format!("no room for {name} {}: {lack}", path.display()),
                hint:
                    "make room there; safety.min_free in the configuration says how much is needed"
                        .to_owned(),
                can_be_accepted: false,
            });
        }
    }
    stops
}

/// Writes bytes in the largest unit that leaves a whole number before the point.
fn size(bytes: u64) -> String {
    let units = [
        ("T", 1u64 << 40),
        ("G", 1 << 30),
        ("M", 1 << 20),
        ("K", 1 << 10),
    ];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((letter, unit)) if bytes.is_multiple_of(unit) => format!("{}{letter}", bytes / unit),
        // A figure for people: a rounded one will do.
        Some((letter, unit)) => format!("{:.1}{letter}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5K"),
            (16 << 20, "16M"),
            (5 << 30, "5G"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_has_the_room_of_the_one_above() {
        let tmp = tempfile::tempdir().unwrap();
        let here = room(&tmp.path().join("state.parquet")).unwrap();
        let below = room(&tmp.path().join("a/b/c/state.parquet")).unwrap();
        assert!(here.has_inodes);
        assert_eq!(here.free.is_some(), below.free.is_some());
    }
}
