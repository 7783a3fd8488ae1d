//! Room on the file systems that the program itself writes to.

use std::path::Path;

use rustix::io::Errno;

use super::SafetyStop;
use crate::model::config::Config;
use crate::store::state_file::resolve;

/// Holds what a file system has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Which file system it is: what is free on it changes from one look to the next.
    pub device: u64,
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

/// Looks at the file system of a directory that may not exist yet. None: it cannot be known.
pub fn of_directory(dir: &Path) -> Option<Room> {
    room(&dir.join("file"))
}

/// What counts is where a link leads to. The directory may not exist yet: then the nearest one above it
/// tells.
fn room(file: &Path) -> Option<Room> {
    let file = resolve(file).unwrap_or_else(|_| file.to_owned());
    for directory in file.ancestors().skip(1) {
        let looked = rustix::fs::stat(directory)
            .and_then(|there| Ok((there.st_dev, rustix::fs::statvfs(directory)?)));
        match looked {
            Ok((device, stat)) => {
                return Some(Room {
                    device,
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
        let device = |room: &Option<Room>| room.as_ref().map(|room| room.device);
        if stops.is_empty() || device(&rooms[0]) != device(&rooms[1]) {
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
    use crate::config::Overrides;
    use crate::config::load::interpret;

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
    fn one_file_system_stops_once_and_two_stop_twice() {
        let config = interpret(
            b"procedures: [{name: a, output_dir: a, script: a.sh, completion_marker: x}]\n",
            Some(Path::new("/s/config.yaml")),
            false,
            &|_| None,
            &Overrides::default(),
            Path::new("/"),
        )
        .unwrap();
        let room = |device, free| {
            Some(Room {
                device,
                free: Some(free),
                has_inodes: true,
            })
        };
        let names = |rooms| -> Vec<String> {
            let stops = judge(&config, &rooms);
            stops.into_iter().map(|stop| stop.name).collect()
        };
        let both = ["space/state_file", "space/log_file"];
        let much = u64::MAX;
        // Another program has written meanwhile.
        assert_eq!(names([room(1, 4096), room(1, 0)]), both[..1]);
        assert_eq!(names([room(1, 0), room(2, 0)]), both);
        assert_eq!(names([room(1, much), room(2, 0)]), both[1..]);
        assert_eq!(names([room(1, much), room(2, much)]), [""; 0]);
        assert_eq!(names([None, room(2, 0)]), both[1..]);
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
