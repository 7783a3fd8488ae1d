//! The file system that a path lies on, by `/proc/self/mountinfo`: does it outlive a restart, and do locks on it reach
//! other hosts. What else a state needs of one, the trial shows.

use std::path::{Path, PathBuf};

use super::{Findings, Site};
use crate::setup::place;

/// A mount, as proc_pid_mountinfo(5) describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    /// `ext4`, `nfs4`, `lustre`, ...
    kind: String,
    /// Of the mount and of the file system.
    options: Vec<String>,
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The program's own files and its lock.
    State,
    /// Written by jobs on compute nodes, or by the program.
    Log,
    /// A data root.
    Data,
}

/// Judges the file system that a path lies on, or will lie on.
pub fn check(site: &Site, topic: &'static str, purpose: Use, path: &Path, findings: &mut Findings) {
    let table = site.mountinfo.as_deref();
    let table = std::fs::read(table.unwrap_or(Path::new("/proc/self/mountinfo")));
    let mounts = parse(&String::from_utf8_lossy(&table.unwrap_or_default()));
    // Jobs of the local executor see what this host sees.
    let matters = purpose != Use::Data || site.is_slurm();
    if let Some(mount) = of(&mounts, &place::existing(path)).filter(|_| matters) {
        findings.about(topic, path.display());
        judge(purpose, mount, findings);
    }
}

/// Reads a table of mounts. Lines that are none are left out.
fn parse(table: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        let point = PathBuf::from(fields.nth(4)?.replace("\\040", " "));
        let own = fields.next()?;
        let mut rest = fields.skip_while(|field| *field != "-").skip(1);
        let kind = rest.next()?.to_owned();
        let of_file_system = rest.nth(1).unwrap_or_default();
        let options = own.split(',').chain(of_file_system.split(','));
        Some(Mount {
            point,
            kind,
            options: options.map(str::to_owned).collect(),
        })
    };
    table.lines().filter_map(mount).collect()
}

/// Finds the mount of a path without links. Of several at one point the last one counts.
fn of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.as_os_str().len())
}

fn judge(purpose: Use, mount: &Mount, findings: &mut Findings) {
    let kind = mount.kind.as_str();
    let first = |names: &[&str]| {
        let mut options = mount.options.iter();
        options.find(|option| names.contains(&option.as_str()))
    };
    match (kind, purpose) {
        ("tmpfs" | "ramfs", Use::Data) => findings.warning(
            format!("is on {kind}, which the compute nodes do not see and which is empty after a restart"),
            "keep the data on a file system that all nodes share",
        ),
        ("tmpfs" | "ramfs", _) => findings.warning(
            format!("is on {kind}, which is empty after a restart of the machine"),
            "set it to a place on a disk, for Slurm one that all nodes share",
        ),
        ("nfs" | "nfs4" | "lustre", Use::State) => {
            let (lack, remedy) = match (kind, first(&["localflock", "noflock"])) {
                ("lustre", _) if first(&["flock"]).is_some() => (None, ""),
                ("lustre", option) => (
                    Some(option.map_or("without flock", |option| option)),
                    "have it mounted with 'flock'",
                ),
                _ => (
                    first(&["nolock", "local_lock=all", "local_lock=flock"]).map(String::as_str),
                    "mount it without this option",
                ),
            };
            if let Some(lack) = lack {
                findings.warning(
                    format!(
                        "is on {kind}, {lack}: locks of the kernel do not reach other hosts; the program's own lock, a \
                         hard link, does"
                    ),
                    format!(
                        "nothing if one host alone calls the program; otherwise {remedy}, for the second barrier \
                         between two calls"
                    ),
                );
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Level, testing};
    use super::*;

    const TABLE: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        30 27 0:40 / /home rw,noatime shared:1 master:2 - nfs4 srv:/home rw,vers=4.2,hard,local_lock=none\n\
        31 30 0:41 / /home/a\\040b ro - nfs srv:/x rw,nolock\n\
        32 27 0:42 / /tmp rw - tmpfs tmpfs rw\n\
        33 32 0:43 / /tmp rw - ext4 /dev/vdb rw\nno mount\n";

    #[test]
    fn the_mount_of_a_path_is_the_longest_and_last() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 5);
        let kind = |path: &str| of(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(kind("/var/x"), Some("ext4"));
        assert_eq!(kind("/home/study"), Some("nfs4"));
        assert_eq!(kind("/homes"), Some("ext4"));
        assert_eq!(kind("/home/a b/state"), Some("nfs"));
        assert_eq!(of(&mounts, Path::new("/tmp/x")), mounts.get(4));
        assert_eq!(of(&[], Path::new("/")), None);
        assert!(mounts[2].options.contains(&"nolock".to_owned()));
        assert!(mounts[2].options.contains(&"ro".to_owned()));
    }

    #[test]
    fn each_kind_of_file_system_has_its_meaning() {
        for (kind, options, uses) in [
            ("ext4", "rw", [false, false, false]),
            ("tmpfs", "rw", [true, true, true]),
            ("nfs4", "rw,hard,local_lock=none", [false, false, false]),
            ("nfs", "rw,nolock", [true, false, false]),
            ("nfs", "rw,local_lock=flock", [true, false, false]),
            ("nfs4", "rw,local_lock=all", [true, false, false]),
            ("lustre", "rw,flock", [false, false, false]),
            ("lustre", "rw,localflock", [true, false, false]),
            ("lustre", "rw,noflock", [true, false, false]),
            ("lustre", "rw", [true, false, false]),
        ] {
            let mount = Mount {
                point: "/".into(),
                kind: kind.to_owned(),
                options: options.split(',').map(str::to_owned).collect(),
            };
            for (purpose, expected) in [Use::State, Use::Log, Use::Data].into_iter().zip(uses) {
                let findings = testing::judged(|out| judge(purpose, &mount, out));
                assert_eq!(findings.len(), usize::from(expected), "{kind} {options}");
                assert!(findings.iter().all(|f| f.level == Level::Warning));
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,300}") {
            let mounts = parse(&text);
            let _ = of(&mounts, Path::new("/a"));
        }
    }
}
