//! A small file system of its own, to be filled: what a full disk does, only a full disk shows.
#![expect(clippy::disallowed_methods, reason = "mounts and unmounts")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unit in which a tmpfs takes room.
pub const PAGE: usize = 4096;

/// Is mounted as long as this lives.
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs (`options`: `size=256k`) over a directory. None, and a line that says so: not root.
    pub fn mount(test: &str, at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("SKIPPED {test}: a small file system cannot be mounted (not root?)");
        }
        mounted.then(|| Self { at: at.to_owned() })
    }

    pub fn remount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.at)
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Fills it but for so many pages.
    pub fn fill(&self, free: usize) {
        let mut options = OpenOptions::new();
        let mut file = options
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

    /// Makes room again.
    pub fn relieve(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Lists the names on it, the filler aside.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.at)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "filler")
            .collect();
        names.sort();
        names
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
