//! A real Slurm whose answers are lost: each task still gets one job, and its row knows it.
//!
//! An sbatch of the tests' own stands before the real one on the program's `PATH`, and runs it with one
//! fault at its first call for a task: killed or cut off by `strace`, its output lost, the controller frozen.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::harness::{Said, Study, executable, system_program};
use crate::harness_slurm::{Cluster, cluster};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than an sbatch of these tests lives, but for the one of the frozen controller, which is long over
/// when the controller answers again.
const SETTLE_S: u64 = 3;

/// Jobs of the session `ses-short` end at once and well; others live until they are cancelled.
const SCRIPT: &str = r#"[ "${2:-}" = ses-short ] || exec sleep 900
mkdir -p "$SNBB_OUTPUT_DIR"
echo "$SLURM_JOB_ID" > "$SNBB_OUTPUT_DIR/done""#;

struct Site {
    cluster: &'static Cluster,
    study: Study,
    procedure: String,
}

impl Site {
    /// Makes a study whose jobs are called by the procedure's name, which no other test uses.
    fn new(cluster: &'static Cluster, procedure: &str, calls: Option<Calls>) -> Self {
        let mut study = cluster.study(&format!(
            "settle_time: {SETTLE_S}s
procedures:
  - {{name: {procedure}, output_dir: out, script: step.sh, completion_marker: done}}
"
        ));
        study.script("step.sh", SCRIPT);
        fs::create_dir(study.at("faults")).unwrap();
        let calls = calls.unwrap_or(Calls {
            send: 0,
            receive: 0,
        });
        study.write(
            "bin/sbatch",
            &WRAPPER
                .replace("REAL", &system_program("sbatch").display().to_string())
                .replace("SEND", &calls.send.to_string())
                .replace("RECEIVE", &calls.receive.to_string())
                .replace("CONTROLLER", &cluster.daemon("slurmctld")),
        );
        executable(&study.at("bin/sbatch"));
        study.path.insert(0, study.at("bin"));
        Self {
            cluster,
            study,
            procedure: procedure.to_owned(),
        }
    }

    /// Lets the first sbatch for a subject's session suffer a fault of [`WRAPPER`].
    fn fault(&self, subject: &str, session: &str, fault: &str) {
        let name = format!("{}_{subject}_{session}", self.procedure);
        fs::write(self.study.at("faults").join(name), fault).unwrap();
        self.study.scan(&[&format!("{subject}/{session}")]);
    }

    /// Returns the job ids that Slurm knows, by job name: queue and accounting together.
    fn jobs(&self) -> BTreeMap<String, Vec<String>> {
        let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let queue = self
            .cluster
            .run("squeue", &["-h", "--states=all", "--format=%i %j %k"]);
        let records = self.cluster.run(
            "sacct",
            &[
                "-X",
                "-n",
                "-P",
                "--delimiter= ",
                "--starttime=now-1hour",
                "--format=JobID,JobName,SubmitLine",
            ],
        );
        for line in queue.lines().chain(records.lines()) {
            let mut words = line.splitn(3, ' ');
            let (id, name) = (words.next().unwrap(), words.next().unwrap());
            let rest = words.next().unwrap_or("");
            if name.starts_with(&format!("{}_", self.procedure))
                && rest.contains(&format!("snbb:{}:", self.project()))
            {
                let ids = jobs.entry(name.to_owned()).or_default();
                if !ids.contains(&id.to_owned()) {
                    ids.push(id.to_owned());
                }
            }
        }
        jobs
    }

    fn project(&self) -> String {
        let path = fs::canonicalize(self.study.dir.path()).unwrap();
        snbb_scheduler::decide::request::study_word(None, &path.join("state.parquet"))
    }

    /// The rows of submissions in doubt.
    fn in_doubt(&self) -> Vec<String> {
        let mut rows = self.study.statuses();
        rows.retain(|row| row.ends_with("pending submitting"));
        rows
    }

    fn rows(&self) -> BTreeMap<String, String> {
        self.study.job_ids()
    }

    /// Sees that each of so many tasks has exactly one job in Slurm, and that its row has that one.
    fn is_exact(&self, tasks: usize) {
        let jobs = self.jobs();
        for (name, ids) in &jobs {
            assert_eq!(ids.len(), 1, "{name} has the jobs {ids:?}");
        }
        assert_eq!(jobs.len(), tasks, "{jobs:#?}");
        let jobs: BTreeMap<String, String> = jobs
            .into_iter()
            .map(|(name, mut ids)| (name, ids.remove(0)))
            .collect();
        assert_eq!(self.rows(), jobs);
    }

    fn run_until(&self, done: impl Fn(&Said) -> bool) {
        let since = Instant::now();
        loop {
            let said = self.study.ok(&["run"]);
            if done(&said) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{}", said.err);
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for ids in self.jobs().values() {
            let _ = self.cluster.command("scancel").args(ids).output();
        }
    }
}

const WRAPPER: &str = r#"#!/bin/bash
# The fault for this task, once.
for word in "$@"; do case $word in --job-name=*) name=${word#*=} ;; esac; done
here=$(dirname "$(dirname "$0")")
fault=$(cat "$here/faults/$name" 2>/dev/null)
rm -f "$here/faults/$name"
inject() { exec strace -o /dev/null -e trace="${1%%:*}" -e inject="$1" REAL "${@:2}"; }
case $fault in
killed-after-send) inject recvfrom:signal=KILL:when=RECEIVE "$@" ;;
killed-before-send) inject sendto:signal=KILL:when=SEND "$@" ;;
reset) inject recvfrom:error=ECONNRESET:when=RECEIVE "$@" ;;
empty-answer) inject recvfrom:retval=0:when=RECEIVE "$@" ;;
no-space) inject write:error=ENOSPC:when=1+ "$@" ;;
closed) exec REAL "$@" >&- ;;
full) exec REAL "$@" >/dev/full ;;
frozen)
  kill -STOP CONTROLLER
  setsid sh -c 'sleep 13; kill -CONT CONTROLLER' </dev/null >/dev/null 2>&1 &
  exec REAL "$@" ;;
*) exec REAL "$@" ;;
esac
"#;

/// Which call of sbatch sends the job, and which receives the answer.
#[derive(Clone, Copy)]
struct Calls {
    send: usize,
    receive: usize,
}

/// Finds the calls in a trace of an sbatch that is left alone; none without strace.
fn calls(cluster: &Cluster) -> Option<Calls> {
    static FOUND: OnceLock<Option<Calls>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        let output = cluster
            .command("strace")
            .arg("-o")
            .arg(&trace)
            .args(["-e", "trace=sendto,recvfrom"])
            .arg(system_program("sbatch"))
            .args(["--parsable", "--account=snbb", "--job-name=baseline"])
            .args(["--output=/dev/null", "--wrap=true"])
            .output();
        if !output.is_ok_and(|output| output.status.success()) {
            let _ = writeln!(
                std::io::stderr(),
                "\n=== SKIPPED tests of doubt: strace does not work here ==="
            );
            return None;
        }
        let text = fs::read_to_string(trace).unwrap();
        let of = |call: &str| -> Vec<String> {
            text.lines()
                .filter(|line| line.starts_with(call))
                .map(str::to_owned)
                .collect()
        };
        let received = of("recvfrom(");
        // The calls before the answer only look whether the connection still stands.
        let receive = received
            .iter()
            .position(|line| !line.contains("= -1"))
            .unwrap();
        let found = Calls {
            send: of("sendto(").len(),
            receive: receive + 1,
        };
        // What is sent last is the job itself, the longest of all.
        let length = |line: &str| -> usize {
            line.rsplit("= ")
                .next()
                .unwrap()
                .trim()
                .parse()
                .unwrap_or(0)
        };
        let sent = of("sendto(");
        let longest = sent.iter().map(|line| length(line)).max();
        assert_eq!(sent.last().map(|line| length(line)), longest, "{text}");
        Some(found)
    })
}

/// What sbatch said is lost in seven ways, each for a job that lives and for one that has ended by the
/// next pass.
#[test]
fn a_lost_answer_of_sbatch_becomes_one_job() {
    let Some(cluster) = cluster() else { return };
    let Some(calls) = calls(cluster) else { return };
    let site = Site::new(cluster, "lost", Some(calls));
    let faults = [
        "killed-after-send",
        "killed-before-send",
        "reset",
        "empty-answer",
        "no-space",
        "closed",
        "full",
    ];
    for fault in faults {
        let subject = format!("sub-{}", fault.replace('-', ""));
        site.fault(&subject, "ses-long", fault);
        site.fault(&subject, "ses-short", fault);
    }
    site.study
        .scan(&["sub-whole/ses-long", "sub-whole/ses-short"]);
    // One fault after the other: a run gives up after three submissions without an answer in a row.
    for fault in faults {
        let subject = format!("sub-{}", fault.replace('-', ""));
        let said = site
            .study
            .ok(&["run", "--skip-monitor", "--subject", &subject]);
        assert_eq!(said.count("in doubt"), 2, "{fault}: {}", said.err);
        let doubts = site.in_doubt().into_iter();
        let doubts = doubts.filter(|row| row.contains(&format!(" {subject} ")));
        assert_eq!(doubts.count(), 2, "{fault}: {}", said.err);
    }
    let whole = site.study.ok(&["run", "--skip-monitor"]);
    assert_eq!(whole.count("submitted"), 2, "{}", whole.err);
    for ids in site.jobs().values() {
        assert_eq!(ids.len(), 1);
    }
    // The first pass gives the jobs that exist to their rows; the others are looked for once more.
    let second = site.study.ok(&["run"]);
    assert_eq!(second.count("submitted"), 0, "{}", second.err);
    site.run_until(|said| said.count("submitted") == 2);
    let statuses = |end: &str| {
        site.study
            .statuses()
            .iter()
            .filter(|status| status.ends_with(end))
            .count()
    };
    site.run_until(|_| statuses("complete verified") == 8 && statuses("running running") == 8);
    site.is_exact(16);
    let released = site.study.events("released").len();
    assert_eq!(released, 2, "only what was never sent");
}

/// A frozen controller lets sbatch fail, and makes the job when it wakes up.
#[test]
fn a_frozen_controller_makes_one_job() {
    if crate::harness_slurm::cluster().is_none() {
        return;
    }
    static OWN: OnceLock<Cluster> = OnceLock::new();
    let cluster = OWN.get_or_init(|| Cluster::start("doubt", &[]).unwrap());
    let site = Site::new(cluster, "frozen", None);
    site.fault("sub-1", "ses-long", "frozen");
    site.fault("sub-2", "ses-short", "");
    let first = site.study.ok(&["run"]);
    // The second sbatch may time out as well, or be answered at the end of the frost.
    assert_ne!(site.in_doubt(), [""; 0], "{}", first.err);
    // It answers again, and the jobs are found.
    site.run_until(|_| site.rows().values().filter(|id| !id.is_empty()).count() == 2);
    site.is_exact(2);

    // Frozen while nothing is in doubt: nothing is submitted, nothing concluded.
    site.study.scan(&["sub-3/ses-long"]);
    let before = site.study.statuses();
    let controller = cluster.daemon("slurmctld");
    cluster.run("kill", &["-STOP", &controller]);
    let said = site.study.call(&["run"]);
    cluster.run("kill", &["-CONT", &controller]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(site.study.statuses(), before);
    site.run_until(|_| site.rows().len() == 3);
    site.is_exact(3);
}

/// The state file is replaced by each older generation, and removed, while jobs live.
#[test]
fn an_older_state_takes_its_living_jobs_back() {
    let Some(cluster) = cluster() else { return };
    let site = Site::new(cluster, "rolled", None);
    let study = &site.study;
    study.scan(&["sub-1/ses-a", "sub-1/ses-b", "sub-2/ses-a", "sub-2/ses-b"]);
    let mut generations = Vec::new();
    for _ in 0..4 {
        study.ok(&["run", "--max-jobs", "1"]);
        generations.push(study.read_bytes("state.parquet"));
    }
    site.is_exact(4);
    let rows = site.rows();
    for (count, bytes) in generations.iter().enumerate() {
        fs::write(study.at("state.parquet"), bytes).unwrap();
        let before = study.events("adopted").len();
        let said = study.ok(&["run"]);
        assert_eq!(said.count("submitted"), 0, "{}", said.err);
        assert_eq!(study.events("adopted").len() - before, 3 - count);
        assert_eq!(site.rows(), rows);
    }
    // Removed: first the file alone, then all that stands beside it.
    fs::remove_file(study.at("state.parquet")).unwrap();
    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 0, "{}", said.err);
    assert_eq!(site.rows(), rows);
    for name in [
        "state.parquet",
        "state.parquet.bak",
        "state.attempts.parquet",
        "scheduler_audit.jsonl",
    ] {
        let _ = fs::remove_file(study.at(name));
    }
    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 0, "{}", said.err);
    site.is_exact(4);
    assert_eq!(site.rows(), rows);
}

/// Two studies of one user have the same subjects and procedures, and one of them is in doubt.
#[test]
fn studies_with_equal_names_keep_their_own_jobs() {
    let Some(cluster) = cluster() else { return };
    let Some(calls) = calls(cluster) else { return };
    let (one, two) = (
        Site::new(cluster, "equal", Some(calls)),
        Site::new(cluster, "equal", Some(calls)),
    );
    one.fault("sub-1", "ses-long", "full");
    one.fault("sub-2", "ses-long", "killed-before-send");
    one.fault("sub-3", "ses-short", "killed-before-send");
    two.study
        .scan(&["sub-1/ses-long", "sub-2/ses-long", "sub-3/ses-short"]);
    let said = one.study.call(&["run"]);
    assert_eq!(
        said.code, 5,
        "three in a row without an answer: {}",
        said.err
    );
    assert_eq!(one.in_doubt().len(), 3, "{}", said.err);
    // The other study's jobs have the names that are looked for, and come after the intents. Its first
    // run waits for the living job of an equal name: its state file might have been moved.
    let said = two.study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 2, "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
    let said = two.study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 1, "{}", said.err);
    one.run_until(|_| one.rows().values().all(|id| !id.is_empty()));
    one.is_exact(3);
    two.is_exact(3);
    // A state that is gone takes none of the other study's living jobs either.
    fs::remove_file(two.study.at("state.parquet")).unwrap();
    let _ = fs::remove_file(two.study.at("state.attempts.parquet"));
    two.study.ok(&["run"]);
    let rows = two.rows();
    for (name, ids) in two.jobs() {
        if name.ends_with("ses-long") {
            assert_eq!(ids, [rows[&name].clone()], "{name}");
        }
    }
    one.study.ok(&["run"]);
    one.is_exact(3);
}
