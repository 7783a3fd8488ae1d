//! Login nodes: each has a name, processes and a `/proc` of its own, on one machine.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than a node needs to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is a host name, a tree of processes and a `/proc` of their own. What a killed call leaves lives on there.
pub struct LoginNode {
    init: Child,
    /// Its first process, as seen from here.
    pid: u32,
}

impl LoginNode {
    pub fn start(name: &str) -> Self {
        let ready: PathBuf =
            std::env::temp_dir().join(format!("snbb-it-{}-{name}", std::process::id()));
        let body = format!(
            "echo {name} > /proc/sys/kernel/hostname; echo > {}; cat",
            ready.display()
        );
        let init = Command::new("unshare")
            .args([
                "--uts",
                "--pid",
                "--mount",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                &body,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let since = Instant::now();
        while !ready.exists() {
            assert!(since.elapsed() < PATIENCE, "no login node");
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(&ready);
        let pid = children(init.id())[0];
        Self { init, pid }
    }

    pub fn command(&self, user: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--target",
                &self.pid.to_string(),
                "--uts",
                "--pid",
                "--mount",
            ])
            .args([
                "setpriv",
                "--reuid",
                user,
                "--regid",
                user,
                "--clear-groups",
            ]);
        command
    }
}

impl Drop for LoginNode {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

/// Processes that any thread of a process has started.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

pub fn kill_process(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
