//! Things that can be reached by another name: a root by a second mount.
#![expect(clippy::disallowed_methods, reason = "mounts and unmounts")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{among, site};

/// The same directory by another path, which no link gives away.
#[test]
fn logs_below_a_root_by_another_mount_are_seen() {
    let (study, _slurm) = site();
    fs::create_dir(study.at("alias")).unwrap();
    let Some(_mounted) = Alias::mount(&study.at("bids"), study.at("alias")) else {
        eprintln!("SKIPPED: nothing can be mounted (not root?)");
        return;
    };
    let config = study.read("config.yaml");
    for dir in ["alias/logs", "alias", "alias/a/b/c"] {
        study.write(
            "config.yaml",
            &config.replace("slurm_log_dir: logs", &format!("slurm_log_dir: {dir}")),
        );
        among(&study, &[], "warning", "log_dir", "is below bids_root");
    }
}

/// Is a directory that stands at a second place as long as this lives.
struct Alias(PathBuf);

impl Alias {
    fn mount(directory: &Path, at: PathBuf) -> Option<Self> {
        let status = Command::new("mount")
            .arg("--bind")
            .args([directory, &at])
            .status();
        status
            .is_ok_and(|status| status.success())
            .then_some(Self(at))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
