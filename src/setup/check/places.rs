//! Where the program itself writes: the directories of state, audit log, jobs' logs and figures. Pure.

use std::path::{Path, PathBuf};

use super::Finding;
use crate::decide::safety::SafetyStop;
use crate::decide::safety::space::Room;

/// Holds what is known of one directory.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    pub topic: &'static str,
    /// The key in the configuration that names it.
    pub key: &'static str,
    pub dir: &'a Path,
    pub look: Look,
    /// Permission bits and the names of group and owner are of interest for the state only.
    pub mode: Option<u32>,
    /// The key of the data root that it lies below.
    pub below: Option<&'static str>,
}

/// Says what stands at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Writable,
    Unwritable,
    /// It is made when it is needed; `in_writable`: the directory above lets this user do that.
    Missing {
        in_writable: bool,
    },
    NotADirectory,
    /// The system's words.
    Unreadable(String),
}

/// Judges one directory. `matters`: without it `run` stops.
pub fn judge(place: &Place<'_>, matters: bool) -> Vec<Finding> {
    let (topic, key) = (place.topic, place.key);
    let about = place.dir.display().to_string();
    let bad = |text: &str, advice: String| {
        if matters {
            Finding::error(topic, about.clone(), text, advice)
        } else {
            Finding::warning(topic, about.clone(), text, advice)
        }
    };
    let elsewhere = format!("give this user write permission on it, or set {key} to another place");
    let mut findings = vec![match &place.look {
        Look::Writable => Finding::ok(topic, about.clone(), "is there and can be written to"),
        Look::Unwritable => bad("this user may write nothing in it", elsewhere),
        Look::Missing { in_writable: true } => {
            Finding::ok(topic, about.clone(), "is not there yet and will be made")
        }
        Look::Missing { in_writable: false } => bad(
            "is not there, and this user may not make it",
            format!("make it, or set {key} to another place"),
        ),
        Look::NotADirectory => bad(
            "is not a directory",
            format!("set {key} to another place, or move the file away"),
        ),
        Look::Unreadable(error) => bad(&format!("cannot be looked at: {error}"), elsewhere),
    }];
    if let Some(root) = place.below {
        findings.push(Finding::warning(
            topic,
            about.clone(),
            format!("is below {root}, where the program else writes nothing"),
            format!("set {key} to a place outside, unless this is on purpose: datasets are copied and validated as a whole"),
        ));
    }
    if topic == "state_file" && place.mode.is_some_and(|mode| mode & 0o1002 == 0o002) {
        findings.push(Finding::warning(
            topic,
            about,
            "every user of the machine may replace files in it",
            format!("chmod o-w {}", place.dir.display()),
        ));
    }
    findings
}

/// Judges the room for state and audit log. `free`: bytes, where the file system tells.
pub fn judge_room(
    stops: &[SafetyStop],
    free: Option<u64>,
    needed: u64,
    state_file: &Path,
) -> Vec<Finding> {
    if !stops.is_empty() {
        return stops
            .iter()
            .map(|stop| {
                let topic = match stop.name.as_str() {
                    "space/log_file" => "log_file",
                    _ => "state_file",
                };
                let text = format!("{}; `run` would submit nothing (safety stop)", stop.message);
                Finding::error(topic, "", text, &stop.hint)
            })
            .collect();
    }
    let Some(free) = free else {
        return Vec::new();
    };
    let about = state_file.display().to_string();
    if needed > 0 && free < needed.saturating_mul(10) {
        return vec![Finding::warning(
            "state_file",
            about,
            format!(
                "its file system has {} MB left; at {} MB runs stop",
                free >> 20,
                needed >> 20
            ),
            "make room there",
        )];
    }
    vec![Finding::ok(
        "state_file",
        about,
        format!("its file system has {} MB left", free >> 20),
    )]
}

/// Judges the room for the logs of jobs: Slurm fails a job that cannot write its own, and says nothing of why.
pub fn judge_log_room(dir: &Path, room: Option<Room>, needed: u64) -> Option<Finding> {
    let room = room?;
    let about = dir.display().to_string();
    let advice = "make room there: `clean --logs --older-than 90d` removes logs of complete tasks";
    if !room.has_inodes {
        let text = "no further file can be made on its file system (no free inodes): jobs fail without a log";
        return Some(Finding::error("log_dir", about, text, advice));
    }
    let free = room.free?;
    let text = format!("its file system has {} MB left", free >> 20);
    Some(if free < needed {
        let text = format!("{text}: jobs fail, or leave no log");
        Finding::error("log_dir", about, text, advice)
    } else if free < needed.saturating_mul(10) {
        Finding::warning("log_dir", about, text, advice)
    } else {
        Finding::ok("log_dir", about, text)
    })
}

/// Returns the key of the root that a path lies below.
pub fn root_above(path: &Path, roots: &[(&'static str, PathBuf)]) -> Option<&'static str> {
    let (key, _) = roots.iter().find(|(_, root)| path.starts_with(root))?;
    Some(*key)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_full_file_system_of_logs_is_an_error() {
        let dir = Path::new("/logs");
        let level = |free, has_inodes| {
            let room = Room {
                device: 1,
                free,
                has_inodes,
            };
            judge_log_room(dir, Some(room), 16 << 20).map(|finding| finding.level)
        };
        for (free, has_inodes, expected) in [
            (Some(0), true, Some(Level::Error)),
            (Some(1 << 40), false, Some(Level::Error)),
            (Some(100 << 20), true, Some(Level::Warning)),
            (Some(1 << 40), true, Some(Level::Ok)),
            (None, true, None),
        ] {
            assert_eq!(level(free, has_inodes), expected, "{free:?} {has_inodes}");
        }
        assert_eq!(judge_log_room(dir, None, 1), None);
    }

    fn place(look: Look) -> Place<'static> {
        Place {
            topic: "state_file",
            key: "state_file",
            dir: Path::new("/s"),
            look,
            mode: Some(0o2775),
            below: None,
        }
    }

    #[test]
    fn each_sight_of_a_directory_has_its_level() {
        for (look, expected) in [
            (Look::Writable, Level::Ok),
            (Look::Unwritable, Level::Error),
            (Look::Missing { in_writable: true }, Level::Ok),
            (Look::Missing { in_writable: false }, Level::Error),
            (Look::NotADirectory, Level::Error),
            (Look::Unreadable("Input/output error".into()), Level::Error),
        ] {
            let findings = judge(&place(look.clone()), true);
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].level, expected, "{look:?}");
            let minor = judge(&place(look.clone()), false);
            assert_eq!(minor[0].level, expected.min(Level::Warning), "{look:?}");
        }
    }

    #[test]
    fn a_place_below_a_root_or_open_to_all_is_a_warning() {
        let below = Place {
            below: Some("bids_root"),
            ..place(Look::Writable)
        };
        assert_eq!(judge(&below, true)[1].level, Level::Warning);
        for (mode, count) in [(0o777, 2), (0o1777, 1), (0o775, 1)] {
            let open = Place {
                mode: Some(mode),
                ..place(Look::Writable)
            };
            assert_eq!(judge(&open, true).len(), count, "{mode:o}");
        }
        let roots = [
            ("bids_root", PathBuf::from("/d/bids")),
            ("dicom_root", "/d/dicom".into()),
        ];
        assert_eq!(
            root_above(Path::new("/d/dicom/x"), &roots),
            Some("dicom_root")
        );
        assert_eq!(root_above(Path::new("/d/bids"), &roots), Some("bids_root"));
        assert_eq!(root_above(Path::new("/d/bids2"), &roots), None);
    }

    #[test]
    fn room_is_judged_by_what_a_run_needs() {
        let judged = |free: Option<u64>, needed| {
            let findings = judge_room(&[], free, needed, Path::new("/s"));
            findings.first().map(|finding| finding.level)
        };
        assert_eq!(judged(Some(1 << 40), 16 << 20), Some(Level::Ok));
        assert_eq!(judged(Some(100 << 20), 16 << 20), Some(Level::Warning));
        assert_eq!(judged(Some(0), 0), Some(Level::Ok));
        assert_eq!(judged(None, 16 << 20), None);
        let stop = SafetyStop {
            name: "space/log_file".into(),
            figure: 1,
            message: "no room".into(),
            hint: "make room".into(),
            can_be_accepted: false,
        };
        let findings = judge_room(&[stop], Some(0), 16 << 20, Path::new("/s"));
        assert_eq!(
            (findings[0].level, findings[0].topic),
            (Level::Error, "log_file")
        );
    }
}
