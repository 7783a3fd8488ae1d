//! Free space on the file systems to which the program itself writes.

use std::path::Path;

use rustix::io::Errno;

use super::SafetyStop;
use crate::model::config::Config;
use crate::store::state_file::resolve;

/// The free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Identifies the file system, since its free space changes all the time.
    pub device: u64,
    /// Bytes for users without privileges; `None` if the file system does not report it.
    pub free: Option<u64>,
    /// False if no further file can be created.
    pub has_inodes: bool,
}

/// The file systems of the state and of the audit log; `None` if unknown.
pub fn observe(config: &Config) -> [Option<Room>; 2] {
    [room(&config.state_file), room(&config.log_file)]
}

/// The file system of a directory that may not exist yet; `None` if unknown.
pub fn of_directory(dir: &Path) -> Option<Room> {
    room(&dir.join("file"))
}

/// Follows links. If the directory does not exist yet, uses the nearest existing one above it.
fn room(file: &Path) -> Option<Room> {
    let file = resolve(file).unwrap_or_else(|_| file.to_owned());
    for directory in file.ancestors().skip(1) {
        let found = rustix::fs::stat(directory)
            .and_then(|stat| Ok((stat.st_dev, rustix::fs::statvfs(directory)?)));
        match found {
            Ok((device, stat)) => {
                return Some(Room {
                    device,
                    // Some network file systems report 0 of 0.
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

/// A stop for each file system with too little space.
pub fn safety_stops(config: &Config, rooms: &[Option<Room>; 2]) -> Vec<SafetyStop> {
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
                format!("{} MB free, {} MB needed", free >> 20, needed >> 20)
            }
            _ if !room.has_inodes => "no further file can be created (no free inodes)".to_owned(),
            _ => continue,
        };
        // Usually both are on one file system.
        let device = |room: &Option<Room>| room.as_ref().map(|room| room.device);
        if stops.is_empty() || device(&rooms[0]) != device(&rooms[1]) {
            stops.push(SafetyStop {
                name: format!("space/{name}"),
                figure: 1,
                message: format!("no space for {name} {}: {lack}", path.display()),
                hint: "free space there, or lower safety.min_free in the configuration".to_owned(),
                can_be_accepted: false,
            });
        }
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;
    use crate::config::load::interpret;

    #[test]
    fn each_full_file_system_causes_one_stop() {
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
            let stops = safety_stops(&config, &rooms);
            stops.into_iter().map(|stop| stop.name).collect()
        };
        let both = ["space/state_file", "space/log_file"];
        let much = u64::MAX;
        // Another program has used space in between.
        assert_eq!(names([room(1, 4096), room(1, 0)]), both[..1]);
        assert_eq!(names([room(1, 0), room(2, 0)]), both);
        assert_eq!(names([room(1, much), room(2, 0)]), both[1..]);
        assert_eq!(names([room(1, much), room(2, much)]), [""; 0]);
        assert_eq!(names([None, room(2, 0)]), both[1..]);
        let without_inodes = room(2, much).map(|room| Room {
            has_inodes: false,
            ..room
        });
        assert_eq!(names([room(1, much), without_inodes]), both[1..]);
    }

    #[test]
    fn a_missing_directory_has_the_space_of_its_parent() {
        let tmp = tempfile::tempdir().unwrap();
        let here = room(&tmp.path().join("state.parquet")).unwrap();
        let below = room(&tmp.path().join("a/b/c/state.parquet")).unwrap();
        assert!(here.has_inodes);
        assert_eq!(here.free.is_some(), below.free.is_some());
    }
}
