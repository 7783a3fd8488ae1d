//! Checks the directories that the program and its jobs' logs are written to.

use std::path::Path;

use super::{Findings, Level, Site, clock, trial};
use crate::config::root_above;
use crate::decide::safety::{self, Room};
use crate::setup::place::{self, Place};
use crate::store::state_file::Store;

const FEWER_LOGS: &str =
    "free space there: `clean --logs --older-than 90d` removes logs of complete tasks";

/// Checks the directories that the program writes to, and tests that of the state.
pub(super) fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    // Resolves links of the file itself, as for the state.
    let state_file = Store::at(&config.state_file)
        .map_or_else(|_| config.state_file.clone(), |store| store.paths.state);
    let state_dir = place::parent(&state_file);
    let log_file_dir = place::parent(&config.log_file);
    let log_dir = config.slurm.log_dir.clone();
    let mut dirs = vec![("state_file", "state_file", &state_file, state_dir.clone())];
    if log_file_dir != state_dir {
        dirs.push(("log_file", "log_file", &config.log_file, log_file_dir));
    }
    let logs = log_dir.as_ref();
    dirs.extend(logs.map(|dir| ("log_dir", "slurm_log_dir", dir, dir.clone())));
    for (topic, key, path, dir) in &dirs {
        let before = findings.list.len();
        let existing = place::existing(dir);
        findings.about(topic, path.display());
        let what = match *path == dir {
            true => "",
            false => "its directory ",
        };
        directory(
            Level::Error,
            (key, what),
            place::inspect(dir),
            place::is_writable(&existing),
            findings,
        );
        if let Some((root, _)) = root_above(config, dir) {
            findings.warning(
                format!("{what}is inside {root}, where the program writes nothing else"),
                format!("set {key} to a path outside, unless this is intended: datasets are copied and validated as a unit"),
            );
        }
        if *topic == "state_file" {
            permissions(dir, place::mode(dir), findings);
            let mut found = findings.list.iter().skip(before);
            if found.all(|finding| finding.level != Level::Error) {
                let trial = trial::run(&existing);
                trial::report(&existing, &trial, findings);
                if let Some(reading) = trial.written {
                    let (about, whose) = (existing.display(), "the file server's");
                    let why = "modification times decide whether outputs and DICOM files are new";
                    clock::compare(about, whose, reading, why, findings);
                }
            }
        }
        if *topic == "log_dir" {
            let room = safety::room_of(dir);
            judge_room(room, config.safety.min_free, FEWER_LOGS, findings);
        }
    }
    if config.slurm.log_dir.is_none() && site.is_slurm() {
        findings.about("log_dir", "").warning(
            "slurm_log_dir is not set: jobs write their logs to the directory that `run` was started in, and `logs` cannot find them",
            "set slurm_log_dir to a directory that all nodes can access",
        );
    }
    let rooms = safety::rooms(config);
    let stops = safety::space_stops(config, &rooms);
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
        let remedy = format!("free space there: below {} MB, runs stop", needed >> 20);
        findings.about("state_file", state_file.display());
        judge_room(rooms[0], needed, &remedy, findings);
    }
}

/// `level` is that of a directory that cannot be used; `what` a subject before the verb if the directory is not itself
/// the value of the key.
pub(super) fn directory(
    level: Level,
    (key, what): (&str, &str),
    place: Place,
    is_writable: bool,
    findings: &mut Findings,
) {
    let elsewhere = format!("set {key} to another path");
    let permit = format!("give this user write permission on the directory, or {elsewhere}");
    let (text, remedy) = match (place, is_writable) {
        (Place::Directory, true) => return findings.ok(format!("{what}exists and is writable")),
        (Place::Missing, true) => {
            return findings.ok(format!("{what}does not exist yet and will be created"));
        }
        (Place::Directory, false) => ("is not writable for this user".to_owned(), permit),
        (Place::Missing, false) => (
            "does not exist, and this user cannot create it".to_owned(),
            format!("create the directory, or {elsewhere}"),
        ),
        (Place::Other, _) => (
            "is not a directory".to_owned(),
            format!("{elsewhere}, or move the file"),
        ),
        (Place::Unreadable(error), _) => (format!("cannot be accessed: {error}"), permit),
    };
    findings.add(level, format!("{what}{text}"), remedy);
}

fn permissions(dir: &Path, mode: Option<u32>, findings: &mut Findings) {
    if mode.is_some_and(|mode| mode & 0o1002 == 0o002) {
        findings.warning(
            "every user of the machine can replace files in its directory",
            format!("run chmod o-w {}", dir.display()),
        );
    }
}

/// Reports the free space of a file system. Slurm fails a job that cannot write its log, without giving a reason.
fn judge_room(room: Option<Room>, needed: u64, remedy: &str, findings: &mut Findings) {
    match room {
        Some(room) if !room.has_inodes => findings.error(
            "its file system cannot store more files (no free inodes)",
            remedy,
        ),
        Some(Room {
            free: Some(free), ..
        }) => {
            let text = format!("its file system has {} MB free", free >> 20);
            if free < needed {
                findings.error(format!("{text}: jobs may fail or leave no log"), remedy);
            } else if free < needed.saturating_mul(10) {
                findings.warning(text, remedy);
            } else {
                findings.ok(text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Level, testing};
    use super::*;

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

    #[test]
    fn each_condition_of_a_directory_has_its_level() {
        let unreadable = Place::Unreadable("Input/output error".into());
        for (place, is_writable, expected) in [
            (Place::Directory, true, Level::Ok),
            (Place::Directory, false, Level::Error),
            (Place::Missing, true, Level::Ok),
            (Place::Missing, false, Level::Error),
            (Place::Other, false, Level::Error),
            (unreadable, false, Level::Error),
        ] {
            let findings = testing::judged(|out| {
                directory(
                    Level::Error,
                    ("state_file", ""),
                    place.clone(),
                    is_writable,
                    out,
                )
            });
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].level, expected, "{place:?}");
        }
    }

    #[test]
    fn a_directory_open_to_everyone_is_a_warning() {
        for (mode, count) in [(0o777, 1), (0o1777, 0), (0o775, 0)] {
            let findings = testing::judged(|out| permissions(Path::new("/s"), Some(mode), out));
            assert_eq!(findings.len(), count, "{mode:o}");
        }
    }
}
