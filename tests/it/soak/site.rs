//! The site that is soaked: a cluster of its own, a study of a user who is not root, two login nodes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::node::{LoginNode, children, kill_process};
use super::plan::{Call, Command as Planned, Daemon, Kill};
use crate::harness::{Study, executable};
use crate::harness_slurm::{Cluster, lone_cluster};

/// A call that takes longer hangs: its own deadline is a minute.
const PATIENCE: Duration = Duration::from_secs(150);

pub const PROCEDURES: [&str; 3] = ["convert", "prep", "group"];

/// How the jobs of an attempt end is a function of seed, task and attempt, so it belongs to the plan too.
/// Jobs note their own starts and ends, and hold a lock for their task while they live.
/// Those that need too much memory offer themselves to the kernel, which otherwise sometimes kills `slurmstepd`
/// (in the same cgroup): 1 of 120 such jobs then stayed RUNNING until its time limit, 0 of 360 with this.
const STEP: &str = r#"#SBATCH --time=10
set -u
site=${SNBB_DERIVATIVES_ROOT%/*}
task=$SNBB_PROCEDURE,$SNBB_SUBJECT,$SNBB_SESSION
job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
note() { echo "$1 $job $task $SNBB_ATTEMPT ${SLURM_RESTART_COUNT:-0} $EPOCHSECONDS $2" >> "$site/truth/jobs.log"; }
output() { mkdir -p "$SNBB_OUTPUT_DIR" && echo "$job" > "$SNBB_OUTPUT_DIR/done" || exit 9; }
number=$(printf '%s' "$SOAK_SEED $task $SNBB_ATTEMPT" | cksum)
number=$((${number%% *} % 100))
if [ -e "$site/truth/calm" ]; then fate=good
elif [ $number -lt 58 ]; then fate=good
elif [ $number -lt 63 ]; then fate=slow
elif [ $number -lt 68 ]; then fate=fails
elif [ $number -lt 74 ]; then fate=fails75
elif [ $number -lt 78 ]; then fate=memory
elif [ $number -lt 82 ]; then fate=timeout
elif [ $number -lt 86 ]; then fate=silent
elif [ $number -lt 90 ]; then fate=late
elif [ $number -lt 93 ]; then fate=tardy
elif [ $number -lt 96 ]; then fate=betrays
elif [ $number -lt 98 ]; then fate=user
else fate=root
fi
exec 8>> "$site/truth/alive-$task"
if flock -n 8; then echo "$job" > "$site/truth/alive-$task"
else note overlap "$(cat "$site/truth/alive-$task")"
fi
note start $fate
# Some rename themselves; the world finds those of the group, and those that it has to end, by their names.
case $SNBB_PROCEDURE-$((number % 3))-$fate in
group-* | *-[12]-* | *-timeout | *-user | *-root) ;;
*) timeout 5 scontrol update "jobid=$job" "jobname=own_$number" > /dev/null 2>&1 ;;
esac
sleep 0.$((number % 10))$((number / 10))
code=0
case $fate in
good) output ;;
slow) sleep 7; output ;;
fails) code=3 ;;
fails75) code=75 ;;
memory) echo 1000 > /proc/self/oom_score_adj; x=$(head -c 200000000 /dev/zero | tr '\0' x); exit 9 ;;
betrays) output; code=1 ;;
timeout | user | root) sleep 600 ;;
esac
note end $fate
exit $code"#;

pub struct Site {
    pub cluster: Cluster,
    pub study: Study,
    pub uid: u32,
    pub nodes: Vec<LoginNode>,
    pub diary: Mutex<Diary>,
    began: Instant,
}

/// What was done to the site and to the program, and what was wrong at once.
#[derive(Default)]
pub struct Diary {
    pub counts: BTreeMap<String, usize>,
    pub acts: Vec<Act>,
    pub subjects: Vec<(String, u64)>,
    pub faults: Vec<String>,
    calls: usize,
}

/// Is what can end a job by no will of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// `scancel` of a job, by uid.
    Scancel(String, u32),
    /// `cancel` of a subject's tasks by the program.
    Cancel(String),
    /// `scontrol requeue` of a job.
    Requeue(String),
    NodeDown,
    ControllerRestart,
}

pub struct Said {
    /// None: it was killed.
    pub code: Option<i32>,
    pub err: String,
}

impl Site {
    /// Starts it all; none where there can be no cluster or no login nodes.
    pub fn start(seed: u64) -> Option<Self> {
        let settings = [("SNBB_DEV_MESSAGE_TIMEOUT", "3"), ("SNBB_DEV_CPUS", "24")];
        let cluster = lone_cluster("soak", &settings)?;
        let study = cluster.study("");
        study.configure(&format!(
            "slurm_partition: debug
slurm_account: snbb
settle_time: 30s
lost_grace: 40s
absence_grace: 40s
output_grace: 8s
deadline: 60s
lock_timeout: 5s
pause_after_failures: 6
retry:
  max_attempts: 3
  max_infrastructure: 4
  on:
    node_fail: {{delay: 2s}}
    launch_failed: {{delay: 2s}}
    out_of_memory: {{mem_factor: 1.5, mem_max: 100M}}
    exit_code: {{codes: [75], delay: 1s}}
    cancelled: {{delay: 1s}}
procedures:
  - {{name: convert, output_dir: convert, script: step.sh, completion_marker: done, mem: 30M, env: {{SOAK_SEED: '{seed}'}}}}
  - {{name: prep, output_dir: prep, script: step.sh, completion_marker: done, mem: 30M, depends_on: [convert], array: always, array_throttle: 4, env: {{SOAK_SEED: '{seed}'}}}}
  - {{name: group, output_dir: group, script: step.sh, completion_marker: done, scope: subject, depends_on: [prep], sbatch_args: [--requeue], env: {{SOAK_SEED: '{seed}'}}}}
"
        ));
        study.write("step.sh", &format!("#!/bin/bash\n{STEP}\n"));
        executable(&study.at("step.sh"));
        fs::create_dir_all(study.at("truth/calls")).unwrap();
        // A copy: the sources may be built anew during an hour.
        fs::copy(env!("CARGO_BIN_EXE_snbb-scheduler"), study.at("program")).unwrap();
        let chown = Command::new("chown")
            .args(["-R", &cluster.user])
            .arg(study.dir.path())
            .status();
        assert!(chown.unwrap().success());
        let uid = cluster
            .run("id", &["-u", &cluster.user])
            .trim()
            .parse()
            .unwrap();
        let nodes = ["login1", "login2"].map(LoginNode::start);
        Some(Self {
            cluster,
            study,
            uid,
            nodes: nodes.into(),
            diary: Mutex::default(),
            began: Instant::now(),
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().unwrap()
    }

    /// Writes down what was done.
    pub fn note(&self, kind: &str, detail: &str) {
        *self.diary().counts.entry(kind.to_owned()).or_default() += 1;
        let line = format!("{:8.2} {kind} {detail}\n", self.elapsed().as_secs_f64());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.study.at("truth/diary.log"));
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub fn fault(&self, text: String) {
        self.note("fault", &text);
        self.diary().faults.push(text);
    }

    /// Makes one planned call on a login node, and judges how it ended.
    pub fn planned_call(&self, node: usize, call: &Call) {
        let subject = |which: u64| {
            let diary = self.diary();
            let index = usize::try_from(which).unwrap() % diary.subjects.len().max(1);
            diary
                .subjects
                .get(index)
                .map(|(subject, _)| subject.clone())
        };
        let words: Vec<String> = match &call.command {
            Planned::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Planned::Cancel(which) => {
                let Some(subject) = subject(*which) else {
                    return;
                };
                self.diary().acts.push(Act::Cancel(subject.clone()));
                vec!["cancel".into(), "--subject".into(), subject]
            }
            Planned::Explain(which) => {
                let Some(subject) = subject(*which) else {
                    return;
                };
                vec!["explain".into(), subject]
            }
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.call(node, &words, call.kill);
    }

    /// Calls the program as the user of the study.
    pub fn call(&self, node: usize, arguments: &[&str], kill: Option<Kill>) -> Said {
        let number = {
            let mut diary = self.diary();
            diary.calls += 1;
            diary.calls
        };
        let begin = self.elapsed();
        let [out, err] =
            ["out", "err"].map(|end| self.study.at(&format!("truth/calls/{number:05}.{end}")));
        let mut child = self.nodes[node]
            .command(&self.cluster.user)
            .arg(self.study.at("program"))
            .args(arguments)
            .env_clear()
            .envs(self.study.environment())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let killed = self.watch(&mut child, kill, arguments);
        let status = child.wait().unwrap();
        let said = Said {
            code: status.code().filter(|_| !killed),
            err: fs::read_to_string(&err).unwrap_or_default(),
        };
        let took = self.elapsed().saturating_sub(begin).as_secs_f64();
        let name = arguments
            .iter()
            .take(2)
            .copied()
            .collect::<Vec<_>>()
            .join(" ");
        let code = said
            .code
            .map_or("killed".to_owned(), |code| format!("exit {code}"));
        self.note(
            &format!("call {}", arguments[0]),
            &format!("#{number} login{} {name}: {code}, {took:.2} s", node + 1),
        );
        let result = if killed {
            "killed -9".to_owned()
        } else {
            format!("ended with {code}")
        };
        self.note(&result, &format!("#{number}"));
        if !killed && !is_expected(arguments[0], &said) || said.err.contains("panicked") {
            self.fault(format!(
                "call {number} ({}) ended with {code}: {}",
                arguments.join(" "),
                said.err
            ));
        }
        // What went well needs no evidence.
        if fs::metadata(&out).is_ok_and(|file| file.len() > 20_000) {
            let _ = fs::remove_file(&out);
        }
        said
    }

    /// Waits for a call's end and kills it when its time has come. Returns whether it was.
    fn watch(&self, child: &mut Child, kill: Option<Kill>, arguments: &[&str]) -> bool {
        let since = Instant::now();
        loop {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            let is_due = kill.is_some_and(|kill| since.elapsed() >= kill.after);
            let hangs = since.elapsed() > PATIENCE;
            if is_due || hangs {
                // nsenter waits for the program, which is its only child.
                let programs = children(child.id());
                let below: Vec<u32> = programs.iter().flat_map(|pid| children(*pid)).collect();
                programs.iter().for_each(|pid| kill_process(*pid));
                if hangs || kill.is_some_and(|kill| kill.deep) {
                    below.iter().for_each(|pid| kill_process(*pid));
                }
                if hangs {
                    self.fault(format!("{arguments:?} hangs"));
                }
                if !programs.is_empty() {
                    return !matches!(child.wait().unwrap().code(), Some(0..=7));
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Signals a daemon. One that has been killed meanwhile hears nothing.
    pub fn signal(&self, daemon: Daemon, signal: &str) {
        let pid = self.cluster.daemon(daemon.name());
        let _ = self.slurm(true, &["kill", &format!("-{signal}"), &pid]);
    }

    /// `state verify` as JSON, with its exit code.
    pub fn verify(&self) -> (Option<i32>, String) {
        let output = Command::new(self.study.at("program"))
            .args(["state", "verify", "--format", "json"])
            .env("SNBB_CONFIG", self.study.at("config.yaml"))
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    /// Calls one of Slurm's commands as root, or as the user; nothing if it failed or took too long.
    pub fn slurm(&self, by_root: bool, words: &[&str]) -> Result<String, String> {
        let mut all = vec!["-k", "2", "12"];
        if !by_root {
            all.extend([
                "setpriv",
                "--reuid",
                &self.cluster.user,
                "--regid",
                &self.cluster.user,
                "--clear-groups",
            ]);
        }
        all.extend(words);
        let (code, said) = self.cluster.try_run("timeout", &all);
        if code == Some(0) { Ok(said) } else { Err(said) }
    }
}

/// The exit codes that the documentation gives a command on days like these.
fn is_expected(command: &str, said: &Said) -> bool {
    match (command, said.code) {
        (_, Some(0)) => true,
        // Told to clear what may still be running or is in doubt.
        ("retry", Some(1)) => !said.err.lines().any(|line| line.starts_with("error: ")),
        // The subject has no task on record yet.
        ("cancel", Some(2)) => said.err.contains("on record"),
        // Another call has the lock; Slurm cannot be reached.
        ("run" | "monitor" | "retry" | "cancel" | "pause" | "resume", Some(4)) => true,
        ("run" | "monitor" | "cancel" | "explain", Some(5)) => true,
        // The root with the DICOM files is gone.
        ("run" | "manifest" | "session-status" | "audit" | "explain", Some(6)) => {
            said.err.contains("dicom_root")
        }
        _ => false,
    }
}
