//! Where the program itself and the logs of its jobs are written.

use std::path::Path;

use super::{Findings, Level, Site, clock, trial};
use crate::config::root_above;
use crate::decide::safety::space;
use crate::decide::safety::space::Room;
use crate::setup::place::{self, Place};
use crate::store::state_file::Store;

const FEWER_LOGS: &str =
    "make room there: `clean --logs --older-than 90d` removes logs of complete tasks";

/// A directory as it was seen.
#[derive(Debug, Clone)]
struct Written<'a> {
    topic: &'static str,
    /// The key in the configuration that names it.
    key: &'static str,
    dir: &'a Path,
    place: Place,
    /// This user may make files in it, or in the directory above that is there.
    is_writable: bool,
    /// Permission bits; of interest for the state only.
    mode: Option<u32>,
    /// The key of the data root that it lies below.
    below: Option<&'static str>,
}

/// Looks at the directories that the program writes to, and tries that of the state.
pub fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    // Links of the file itself are followed, as for the state.
    let state_file = Store::at(&config.state_file)
        .map_or_else(|_| config.state_file.clone(), |store| store.paths.state);
    let state_dir = place::parent(&state_file);
    let log_file_dir = place::parent(&config.log_file);
    let log_dir = config.slurm.log_dir.clone();
    let mut dirs = vec![("state_file", "state_file", state_dir.clone())];
    if log_file_dir != state_dir {
        dirs.push(("log_file", "log_file", log_file_dir));
    }
    dirs.extend(log_dir.map(|dir| ("log_dir", "slurm_log_dir", dir)));
    for (topic, key, dir) in &dirs {
        let is_state = *topic == "state_file";
        let written = Written {
            topic,
            key,
            dir,
            place: place::look(dir),
            is_writable: place::is_writable(&place::existing(dir)),
            mode: place::mode(dir).filter(|_| is_state),
            below: root_above(config, dir).map(|(key, _)| key),
        };
        let before = findings.list.len();
        judge(&written, findings);
        let mut found = findings.list.iter().skip(before);
        let is_usable = found.all(|finding| finding.level != Level::Error);
        if is_state && is_usable {
            try_out(&place::existing(dir), findings);
        }
        if *topic == "log_dir" {
            findings.about(topic, dir.display());
            let room = space::of_directory(dir);
            judge_room(room, config.safety.min_free, FEWER_LOGS, findings);
        }
    }
    if config.slurm.log_dir.is_none() && site.is_slurm() {
        findings.about("log_dir", "").warning(
            "there is no slurm_log_dir: jobs write to the directory that the call was made in, and `logs` finds nothing",
            "set slurm_log_dir to a directory that all nodes see",
        );
    }
    let rooms = space::observe(config);
    let stops = space::safety_stops(config, &rooms);
    let is_stopped = !stops.is_empty();
    for stop in stops {
        let topic = match stop.name.as_str() {
            "space/log_file" => "log_file",
            _ => "state_file",
        };
        let text = format!("{}; `run` would submit nothing (safety stop)", stop.message);
        findings.about(topic, "").error(text, stop.hint);
    }
    if !is_stopped {
        let needed = config.safety.min_free;
        let advice = format!("make room there: at {} MB runs stop", needed >> 20);
        findings.about("state_file", state_file.display());
        judge_room(rooms[0], needed, &advice, findings);
    }
}

/// Tries the directory of the state.
fn try_out(dir: &Path, findings: &mut Findings) {
    let trial = trial::run(dir);
    trial::judge(dir, &trial, findings);
    if let Some(reading) = trial.written {
        let why = "whether outputs and DICOM files are new is judged by their times";
        clock::judge(dir.display(), "the file server's", reading, why, findings);
    }
}

/// Judges one directory.
fn judge(written: &Written<'_>, findings: &mut Findings) {
    let (key, dir) = (written.key, written.dir.display());
    findings.about(written.topic, &dir);
    let elsewhere = format!("give this user write permission on it, or set {key} to another place");
    match (&written.place, written.is_writable) {
        (Place::Directory, true) => findings.ok("is there and can be written to"),
        (Place::Directory, false) => findings.error("this user may write nothing in it", elsewhere),
        (Place::Missing, true) => findings.ok("is not there yet and will be made"),
        (Place::Missing, false) => findings.error(
            "is not there, and this user may not make it",
            format!("make it, or set {key} to another place"),
        ),
        (Place::Other, _) => findings.error(
            "is not a directory",
            format!("set {key} to another place, or move the file away"),
        ),
        (Place::Unreadable(error), _) => {
            findings.error(format!("cannot be looked at: {error}"), elsewhere);
        }
    }
    if let Some(root) = written.below {
        findings.warning(
            format!("is below {root}, where the program else writes nothing"),
            format!("set {key} to a place outside, unless this is on purpose: datasets are copied and validated as a whole"),
        );
    }
    if written.mode.is_some_and(|mode| mode & 0o1002 == 0o002) {
        findings.warning(
            "every user of the machine may replace files in it",
            format!("chmod o-w {dir}"),
        );
    }
}

/// Judges what a file system has left, if it tells. Slurm fails a job that cannot write its log, and does not say why.
fn judge_room(room: Option<Room>, needed: u64, advice: &str, findings: &mut Findings) {
    match room {
        Some(room) if !room.has_inodes => findings.error(
            "no further file can be made on its file system (no free inodes)",
            advice,
        ),
        Some(Room {
            free: Some(free), ..
        }) => {
            let text = format!("its file system has {} MB left", free >> 20);
            if free < needed {
                findings.error(format!("{text}: jobs fail, or leave no log"), advice);
            } else if free < needed.saturating_mul(10) {
                findings.warning(text, advice);
            } else {
                findings.ok(text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;

    fn judged(written: &Written<'_>) -> Vec<Finding> {
        testing::judged(|out| judge(written, out))
    }

    #[test]
    fn a_full_file_system_is_an_error() {
        for (free, has_inodes, expected) in [
            (Some(0), true, Some(Level::Error)),
            (Some(1 << 40), false, Some(Level::Error)),
            (Some(100 << 20), true, Some(Level::Warning)),
            (Some(1 << 40), true, Some(Level::Ok)),
            (None, true, None),
        ] {
            let room = Room {
                device: 1,
                free,
                has_inodes,
            };
            let findings = testing::judged(|out| judge_room(Some(room), 16 << 20, "x", out));
            let level = findings.first().map(|finding| finding.level);
            assert_eq!(level, expected, "{free:?} {has_inodes}");
        }
        assert!(testing::judged(|out| judge_room(None, 1, "x", out)).is_empty());
    }

    fn written(place: Place, is_writable: bool) -> Written<'static> {
        Written {
            topic: "state_file",
            key: "state_file",
            dir: Path::new("/s"),
            place,
            is_writable,
            mode: Some(0o2775),
            below: None,
        }
    }

    #[test]
    fn each_sight_of_a_directory_has_its_level() {
        let unreadable = Place::Unreadable("Input/output error".into());
        for (place, is_writable, expected) in [
            (Place::Directory, true, Level::Ok),
            (Place::Directory, false, Level::Error),
            (Place::Missing, true, Level::Ok),
            (Place::Missing, false, Level::Error),
            (Place::Other, false, Level::Error),
            (unreadable, false, Level::Error),
        ] {
            let findings = judged(&written(place.clone(), is_writable));
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].level, expected, "{place:?}");
        }
    }

    #[test]
    fn a_place_below_a_root_or_open_to_all_is_a_warning() {
        let below = Written {
            below: Some("bids_root"),
            ..written(Place::Directory, true)
        };
        assert_eq!(judged(&below)[1].level, Level::Warning);
        for (mode, count) in [(0o777, 2), (0o1777, 1), (0o775, 1)] {
            let open = Written {
                mode: Some(mode),
                ..written(Place::Directory, true)
            };
            assert_eq!(judged(&open).len(), count, "{mode:o}");
        }
    }
}
