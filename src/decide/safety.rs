//! Safety stops: reasons not to trust the disk, checked before anything is submitted.
//!
//! A file system that is not mounted looks like a study without any results. The earlier counts are stored by name in
//! the state's metadata, so they move with the file. Pure except [`roots::observe`], [`rooms`], [`room`],
//! [`Trust::observe`] and [`before_submission`].

pub mod drop;
pub mod recheck;
pub mod roots;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::base::text::and_more;
use crate::gather::completion::{Completion, Completions, SubjectCompletions};
use crate::gather::disk::Unreadable;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::ProcedureId;
use crate::model::state::State;
use crate::store::state_file::resolve;

pub use drop::Counts;
pub use recheck::Trust;

/// The counts in the state's metadata, by name.
pub type Baselines = BTreeMap<String, u64>;

/// Prefix of the stops of the last run, so that the next one does not repeat them.
const STOPPED: &str = "stopped/";

/// One reason to submit nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SafetyStop {
    /// Its name in the metadata: `sessions`, `complete/qsiprep`, `root/bids_root`, `space/log_file`.
    pub name: String,
    /// Differs if the stop is not the same as before.
    pub figure: u64,
    /// One sentence with the numbers.
    pub message: String,
    pub hint: String,
    /// True if `--accept-drop` overrides it.
    pub can_be_accepted: bool,
}

/// Checks disk space and sudden drops, after all decisions. [`roots::safety_stops`] checks the roots before the scan.
pub fn before_submission(config: &Config, counts: &Counts, state: &State) -> Vec<SafetyStop> {
    let mut stops = space_stops(config, &rooms(config));
    stops.extend(drop::safety_stops(config, counts, &state.meta.baselines));
    stops
}

/// All stops in one sentence.
pub fn message(stops: &[SafetyStop]) -> String {
    let messages: Vec<&str> = stops.iter().map(|stop| stop.message.as_str()).collect();
    let shown = messages.get(..3).unwrap_or(&messages);
    format!("{}{}", shown.join("; "), and_more(messages.len(), 3))
}

/// The hints without duplicates.
pub fn hints(stops: &[SafetyStop]) -> String {
    let hints: BTreeSet<&str> = stops.iter().map(|stop| stop.hint.as_str()).collect();
    Vec::from_iter(hints).join("; ")
}

/// Records the stops of a run; true if they are new, because each stop is reported only once. All outputs are checked
/// until a run continues.
pub fn note_stops(state: &mut State, stops: &[SafetyStop]) -> bool {
    let baseline = |stop: &SafetyStop| (format!("{STOPPED}{}", stop.name), stop.figure);
    let now: Baselines = stops.iter().map(baseline).collect();
    let baselines = &mut state.meta.baselines;
    let forgets = !stops.is_empty() && recheck::forget(baselines);
    let is_stop = |(name, _): &(&String, &u64)| name.starts_with(STOPPED);
    let is_new = !baselines.iter().filter(is_stop).eq(&now);
    if is_new {
        baselines.retain(|name, _| !name.starts_with(STOPPED));
        baselines.extend(now);
    }
    if is_new || forgets {
        state.mark_changed();
    }
    is_new
}

/// What stopped the last run, for people.
pub fn stopped_by(baselines: &Baselines) -> Vec<String> {
    let text = |name: &str| match name.split_once('/') {
        Some(("complete", procedure)) => format!("complete tasks of {procedure}"),
        Some(("root", key)) => key.to_owned(),
        Some(("space", key)) => format!("space for {key}"),
        _ => name.to_owned(),
    };
    stop_names(baselines).map(text).collect()
}

fn stop_names(baselines: &Baselines) -> impl Iterator<Item = &str> {
    (baselines.keys()).filter_map(|name| name.strip_prefix(STOPPED))
}

/// The stop of the last run because of lost outputs, which only a check of the whole study can lift.
pub fn remembered(baselines: &Baselines) -> Option<SafetyStop> {
    let names = stop_names(baselines).filter_map(|name| name.strip_prefix("complete"));
    let names: Vec<&str> = names.map(|name| name.trim_start_matches('/')).collect();
    let of = match names.contains(&"") {
        true => String::new(),
        false => format!(" of {}", names.join(", ")),
    };
    (!names.is_empty()).then(|| SafetyStop {
        name: "complete".to_owned(),
        figure: 0,
        message: format!("in the last run, too many complete tasks{of} had lost their outputs"),
        hint: "run 'snbb-scheduler run --dry-run' to check whether this is still the case"
            .to_owned(),
        can_be_accepted: true,
    })
}

/// Outputs below a missing root, which are neither present nor absent.
#[derive(Debug, Clone)]
pub struct Blind {
    pub because: Unreadable,
}

impl Blind {
    pub fn because(stops: &[SafetyStop]) -> Self {
        let (path, error) = (PathBuf::new(), message(stops));
        Self {
            because: Unreadable { path, error },
        }
    }
}

impl Completions for Blind {
    fn for_subject<'a>(&'a self, _: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(self.clone())
    }
}

impl SubjectCompletions for Blind {
    fn completion(&self, _: ProcedureId, _: &SessionLabel) -> Completion {
        Completion::Unreadable(Box::new(self.because.clone()))
    }
}

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
pub fn rooms(config: &Config) -> [Option<Room>; 2] {
    [room(&config.state_file), room(&config.log_file)]
}

/// The file system of a file; `None` if unknown. Follows links. If the directory does not exist yet, uses the nearest existing one above it.
pub fn room(file: &Path) -> Option<Room> {
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
pub fn space_stops(config: &Config, rooms: &[Option<Room>; 2]) -> Vec<SafetyStop> {
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

    fn stop(name: &str, figure: u64) -> SafetyStop {
        SafetyStop {
            name: name.to_owned(),
            figure,
            message: format!("{name} {figure}"),
            hint: "mount it".to_owned(),
            can_be_accepted: true,
        }
    }

    #[test]
    fn each_stop_is_reported_once() {
        let mut state = State::default();
        assert!(!note_stops(&mut state, &[]));
        assert!(!state.is_changed());
        assert!(note_stops(&mut state, &[stop("sessions", 5)]));
        assert!(!note_stops(&mut state, &[stop("sessions", 5)]));
        assert!(note_stops(&mut state, &[stop("sessions", 4)]));
        assert!(note_stops(
            &mut state,
            &[stop("sessions", 4), stop("complete/qc", 1)]
        ));
        assert_eq!(
            stopped_by(&state.meta.baselines),
            ["complete tasks of qc", "sessions"]
        );
        let remembered = remembered(&state.meta.baselines).unwrap();
        assert_eq!(
            remembered.message,
            "in the last run, too many complete tasks of qc had lost their outputs"
        );
        assert!(note_stops(&mut state, &[]));
        assert!(state.meta.baselines.is_empty());
    }

    #[test]
    fn several_stops_share_one_line() {
        let stops = ["a", "b", "c", "d", "e"].map(|name| stop(name, 1));
        assert_eq!(message(&stops), "a 1; b 1; c 1 and 2 more");
        assert_eq!(hints(&stops), "mount it");
    }

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
            let stops = space_stops(&config, &rooms);
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
