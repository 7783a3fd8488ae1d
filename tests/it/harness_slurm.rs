//! A private Slurm for the tests: one per test binary, started by the first test that wants it.
//!
//! Without root or packages the tests that need it are skipped with a line that cannot be
//! overlooked; `SNBB_REQUIRE_SLURM=1` makes that a failure.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the cluster and reads the environment"
)]

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use snbb_scheduler::slurm::{SlurmExecutor, SlurmSettings};

/// A running cluster.
pub struct Cluster {
    pub dir: PathBuf,
    /// The environment of this process, and where the cluster is.
    pub env: Vec<(OsString, OsString)>,
    /// A user who is not root and may submit.
    pub user: String,
    /// True if the kernel ends jobs that use more memory than they asked for.
    pub has_memory_cgroup: bool,
    /// Closing it (by the end of this process, whatever kind) ends the cluster.
    _keeper: Mutex<ChildStdin>,
}

/// Returns the cluster that all tests share; none (and says so) if this machine cannot have one.
pub fn cluster() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = SHARED
        .get_or_init(|| Cluster::start("shared", &[]).map_err(tell).ok())
        .as_ref();
    if cluster.is_none() {
        tell("SKIPPED a test that needs Slurm".to_owned());
        assert!(
            std::env::var_os("SNBB_REQUIRE_SLURM").is_none(),
            "SNBB_REQUIRE_SLURM is set and there is no Slurm"
        );
    }
    cluster
}

/// Writes past the test runner, which hides the output of tests that pass.
fn tell(text: String) {
    let _ = writeln!(std::io::stderr(), "\n=== {text} ===");
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/slurm-dev-cluster")
}

impl Cluster {
    /// Starts a cluster; an error if this machine cannot have one. Any other failure is a panic.
    pub fn start(name: &str, settings: &[(&str, &str)]) -> Result<Self, String> {
        let dir = std::env::temp_dir().join(format!("snbb-it-{}-{name}", std::process::id()));
        let up = Command::new(script())
            .arg("up")
            .arg(&dir)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("SKIPPED all Slurm tests: {error}"))?;
        let said = String::from_utf8_lossy(&up.stderr)
            .trim()
            .replace('\n', "; ");
        match up.status.code() {
            Some(0) => {}
            Some(3) => {
                let _ = std::fs::remove_dir_all(&dir);
                return Err(format!("SKIPPED all Slurm tests: {said}"));
            }
            _ => panic!("the development cluster does not start: {said}"),
        }
        #[expect(
            clippy::zombie_processes,
            reason = "it waits for the end of this process"
        )]
        let mut keeper = Command::new("setsid")
            .args([
                "sh",
                "-c",
                "cat; \"$1\" down \"$2\" && rm -rf \"$2\"",
                "keeper",
            ])
            .arg(script())
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setsid starts");
        let keeper = keeper.stdin.take().expect("it is piped");
        let told = Command::new(script())
            .arg("env")
            .arg(&dir)
            .output()
            .expect("the script runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let value = |name: &str| {
            told.lines()
                .find_map(|line| line.strip_prefix(&format!("export {name}=")))
                .unwrap_or_else(|| panic!("no {name} in {told}"))
                .to_owned()
        };
        let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        env.retain(|(name, _)| name != "SLURM_CONF");
        env.push(("SLURM_CONF".into(), value("SLURM_CONF").into()));
        Ok(Self {
            dir,
            env,
            user: value("SNBB_DEV_USER"),
            has_memory_cgroup: value("SNBB_DEV_MEMORY_RULE") == "cgroup",
            _keeper: Mutex::new(keeper),
        })
    }

    /// Ends the cluster now.
    pub fn stop(self) {
        let down = Command::new(script())
            .arg("down")
            .arg(&self.dir)
            .output()
            .expect("the script runs");
        assert!(
            down.status.success(),
            "{}",
            String::from_utf8_lossy(&down.stderr)
        );
    }

    /// A command in the environment of this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end and returns what it wrote to stdout; it must succeed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .expect("the command starts");
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The pid of one of its daemons.
    pub fn daemon(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join("pids"))
            .expect("the cluster is up")
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")))
            .and_then(|rest| rest.split(' ').next())
            .unwrap_or_else(|| panic!("no {name}"))
            .to_owned()
    }

    /// Settings of an executor for this process's user, with more variables in its environment.
    pub fn settings(&self, more_env: &[(&str, &str)]) -> SlurmSettings {
        let mut env = self.env.clone();
        env.extend(
            more_env
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        SlurmSettings {
            bin_dir: None,
            script_dir: None,
            config_dir: None,
            env,
            accounting: true,
            uid: snbb_scheduler::sys::effective_uid(),
            submit_timeout: SlurmSettings::SUBMIT_TIMEOUT,
            query_timeout: SlurmSettings::QUERY_TIMEOUT,
        }
    }

    pub fn executor(&self) -> SlurmExecutor {
        SlurmExecutor::new(self.settings(&[]))
    }
}
