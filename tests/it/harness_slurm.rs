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
use std::time::{Duration, Instant};

use snbb_scheduler::executor::slurm::{Home, SlurmExecutor, SlurmSettings, parse};

use crate::harness::{Study, search_path};

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
        skip();
    }
    cluster
}

/// Starts a cluster whether or not there is a shared one; none where there can be none.
pub fn lone_cluster(name: &str, settings: &[(&str, &str)]) -> Option<Cluster> {
    let cluster = Cluster::start(name, settings).map_err(tell).ok();
    if cluster.is_none() {
        skip();
    }
    cluster
}

fn skip() {
    tell("SKIPPED a test that needs Slurm".to_owned());
    assert!(
        std::env::var_os("SNBB_REQUIRE_SLURM").is_none(),
        "SNBB_REQUIRE_SLURM is set and there is no Slurm"
    );
}

/// Starts a cluster of a test's own, for what would disturb others; none where there can be none.
pub fn private_cluster(name: &str) -> Option<Cluster> {
    cluster()?;
    let settings = [("SNBB_DEV_MESSAGE_TIMEOUT", "3"), ("SNBB_DEV_CPUS", "8")];
    Some(Cluster::start(name, &settings).expect("there is a shared one already"))
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
        env.retain(|(name, _)| name != "SLURM_CONF" && name != "PATH");
        env.push(("PATH".into(), search_path()));
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

    /// Runs a command that may fail; its exit code and all that it said.
    pub fn try_run(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .expect("the command starts");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    pub fn scontrol(&self, arguments: &[&str]) -> String {
        self.run("scontrol", arguments)
    }

    /// Runs scontrol until it succeeds.
    fn insist(&self, arguments: &[&str]) {
        let start = Instant::now();
        while let (code, answer) = self.try_run("scontrol", arguments)
            && code != Some(0)
        {
            assert!(start.elapsed() < Duration::from_secs(20), "{answer}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends a job's time limit now. Slurm refuses this in the second in which the job starts, because
    /// the end would not be after the start.
    pub fn end_time_limit(&self, job: &str) {
        self.insist(&["update", &format!("jobid={job}"), "EndTime=now"]);
    }

    /// Has slurm.conf read. A recent controller starts anew for that, and refuses requests meanwhile.
    pub fn reconfigure(&self) {
        self.insist(&["reconfigure"]);
        self.insist(&["ping"]);
        let start = Instant::now();
        let waits_for_nodes = || {
            let states = self.run("sinfo", &["-h", "-o", "%t"]);
            states.contains("unk") || states.contains('*')
        };
        while waits_for_nodes() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Changes accounts, limits and the like without a question.
    pub fn sacctmgr(&self, arguments: &[&str]) {
        self.run("sacctmgr", &[&["-i"], arguments].concat());
    }

    /// Appends lines to slurm.conf and has them read; a later value of a key replaces an earlier one.
    /// For a private cluster.
    pub fn set_conf(&self, lines: &str) {
        let path = self.conf();
        let keys: Vec<&str> = lines
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, _)| key)
            .collect();
        let mut text: String = std::fs::read_to_string(&path)
            .expect("slurm.conf is there")
            .lines()
            .filter(|line| {
                !line
                    .split_once('=')
                    .is_some_and(|(key, _)| keys.contains(&key))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        // An empty value takes the key out.
        for line in lines.lines().filter(|line| !line.ends_with('=')) {
            text.push_str(line);
            text.push('\n');
        }
        std::fs::write(path, text).expect("slurm.conf can be written");
        self.reconfigure();
    }

    pub fn conf(&self) -> PathBuf {
        let conf = self.env.iter().find(|(name, _)| name == "SLURM_CONF");
        PathBuf::from(&conf.expect("it is set").1)
    }

    /// The name of its only node.
    pub fn node(&self) -> String {
        let text = std::fs::read_to_string(self.dir.join("settings")).expect("the cluster is up");
        text.lines()
            .find_map(|line| line.strip_prefix("NAME="))
            .expect("it has a name")
            .to_owned()
    }

    /// Sends a signal to one of its daemons: `STOP`, `CONT`, `KILL`.
    pub fn signal(&self, daemon: &str, signal: &str) {
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &self.daemon(daemon)])
            .status();
        assert!(status.expect("kill starts").success(), "{daemon} {signal}");
    }

    /// Restarts slurmctld, slurmdbd or slurmd with its saved data.
    pub fn restart(&self, daemon: &str) {
        self.restart_with(daemon, &[]);
    }

    pub fn restart_with(&self, daemon: &str, options: &[&str]) {
        let output = Command::new(script())
            .arg("restart")
            .arg(&self.dir)
            .arg(daemon)
            .args(options)
            .output()
            .expect("the script runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }

    /// Runs a statement in the accounting database.
    pub fn sql(&self, statement: &str) {
        let socket = format!(
            "--socket={}",
            self.conf().with_file_name("db.sock").display()
        );
        self.run(
            "mariadb",
            &[
                "--no-defaults",
                "--user=root",
                &socket,
                "slurm_acct_db",
                "-e",
                statement,
            ],
        );
    }

    /// A study whose jobs run here, as root or another user of the cluster's.
    pub fn study(&self, config: &str) -> Study {
        let mut study = Study::new();
        let conf = self.conf().to_string_lossy().into_owned();
        study.env.push(("SLURM_CONF".into(), conf));
        study.configure(&format!(
            "slurm_partition: debug\nslurm_account: snbb\n{config}"
        ));
        study
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
            script_dirs: Vec::new(),
            env,
            accounting: true,
            owner: snbb_scheduler::base::sys::effective_uid(),
            caller: snbb_scheduler::base::sys::effective_uid(),
            project: None,
            home: Home::default(),
            separator: parse::separator(&"tests"),
            submit_timeout: SlurmSettings::SUBMIT_TIMEOUT,
            query_timeout: SlurmSettings::QUERY_TIMEOUT,
        }
    }

    pub fn executor(&self) -> SlurmExecutor {
        SlurmExecutor::new(self.settings(&[]))
    }
}
