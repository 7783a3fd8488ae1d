//! A disk that is really full, with more and less room left on it.

use super::world::World;
use crate::harness::disk::SmallDisk;

#[test]
fn full_disk_submits_nothing_unseen_and_is_left_well() {
    let test = "full_disk";
    let mut codes = Vec::new();
    for free in (0..=10).chain([40]) {
        for begun in [false, true] {
            let Some(disk) = Disk::mount(test, begun) else {
                return;
            };
            let expected = disk.expected();
            disk.disk.fill(free);
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
            disk.world.every_job_has_its_intent(&what);

            disk.disk.relieve();
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
    // Goes first.
    disk: SmallDisk,
    world: World,
}

impl Disk {
    /// `begun`: there is a state already, with a job in flight.
    fn mount(test: &str, begun: bool) -> Option<Self> {
        let world = World::two_due();
        let disk = SmallDisk::mount(test, &world.study.at("disk"), "size=256k")?;
        let disk = Self { disk, world };
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
}
