//! A disk that is really full, with more and less room left on it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::skip;
use super::world::World;

/// The unit in which this file system takes room.
const PAGE: usize = 4096;

#[test]
fn full_disk_submits_nothing_unseen_and_is_left_well() {
    let test = "full_disk";
    let mut codes = Vec::new();
    for free in (0..=10).chain([40]) {
        for begun in [false, true] {
            let Some(disk) = Disk::mount(begun) else {
                return skip(test, "a small file system cannot be mounted (not root?)");
            };
            let expected = disk.expected();
            disk.fill(free);
            let what = format!("{free} pages free, begun {begun}");
            let before = disk.world.slurm.jobs().len();
            let said = disk.world.call(&["run"]);
            codes.push(said.code);
            let submitted = disk.world.slurm.jobs().len() - before;
            if said.code == 0 {
                assert_eq!(submitted, 2, "{what}: {}", said.err);
            } else {
                assert!(
                    said.code == 1
                        && disk.world.names_a_path(&said)
                        && !said.err.contains("panicked"),
                    "{what}: {}: {}",
                    said.code,
                    said.err
                );
            }
            let said = disk.world.call(&["status", "--format", "json"]);
            assert_eq!(said.code, 0, "{what}: {}", said.err);
            disk.every_job_has_its_intent(&what);

            fs::remove_file(disk.filler()).unwrap();
            let found = disk.world.settle_somehow(&["run"]).unwrap();
            assert_eq!(found.rows.len(), expected, "{what}");
            let mut names = found.jobs.clone();
            names.dedup();
            assert_eq!(names.len(), found.jobs.len(), "{what}: {:?}", found.jobs);
            assert_eq!(names.len(), expected, "{what}");
        }
    }
    assert!(codes.contains(&0) && codes.contains(&1), "{codes:?}");
}

/// Is a study whose state lies on a file system of its own; that goes before the study does.
struct Disk {
    world: World,
    at: PathBuf,
}

impl Disk {
    /// `begun`: there is a state already, with a job in flight.
    fn mount(begun: bool) -> Option<Self> {
        let world = World::two_due();
        let at = world.study.at("disk");
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(&at)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            return None;
        }
        let disk = Self { world, at };
        std::os::unix::fs::symlink("disk/state.parquet", disk.world.study.at("state.parquet"))
            .unwrap();
        if begun {
            disk.world.study.scan(&["sub-00/ses-01"]);
            disk.world.study.ok(&["run", "--subject", "00"]);
        }
        Some(disk)
    }

    /// Counts the tasks of the study.
    fn expected(&self) -> usize {
        2 + self.world.slurm.jobs().len()
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Fills the disk but for so many pages.
    fn fill(&self, free: usize) {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.filler())
            .unwrap();
        let mut length = 0;
        while file.write_all(&[1; PAGE]).is_ok() {
            length += PAGE;
        }
        file.set_len((length - free * PAGE) as u64).unwrap();
    }

    /// Looks whether the state or its journal names the submission of each job.
    fn every_job_has_its_intent(&self, what: &str) {
        let state = self.world.store().read().unwrap();
        for (id, name) in self.world.slurm.jobs() {
            let job = fs::read_to_string(self.world.slurm.at("jobs").join(&id)).unwrap();
            let comment = job.lines().nth(1).unwrap();
            let known = state.rows().iter().any(|row| {
                row.submission_id
                    .as_deref()
                    .is_some_and(|submission| comment.ends_with(submission))
            });
            assert!(known, "{what}: nothing is known of job {id} ({name})");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
