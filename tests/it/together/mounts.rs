//! Two login nodes that see the study through network mounts of their own. Each mount keeps attributes, names and
//! missing names for some seconds, as NFS does, so that one node does not see at once what the other has written.

use super::*;
use crate::harness_slurm::{Cluster, cluster};
use crate::soak::node::{LoginNode, children, kill_process};

/// Time for which a mount believes what it has seen.
const CACHE: Duration = Duration::from_secs(3);

const NODES: [&str; 2] = ["login1", "login2"];

struct Mounted<'a> {
    cluster: &'a Cluster,
    study: Study,
    nodes: Vec<LoginNode>,
}

impl<'a> Mounted<'a> {
    /// `None` where there is no Slurm, or no FUSE.
    fn new() -> Option<Self> {
        let cluster = cluster()?;
        // An sbatch outlives the invocation that is killed, and takes its time on a busy machine.
        let study = cluster.study(&PIPELINE.replace("settle_time: 2s", "settle_time: 10s"));
        study.script(
            "step.sh",
            "mkdir -p \"$SNBB_OUTPUT_DIR\"; echo x > \"$SNBB_OUTPUT_DIR/done\"",
        );
        let nodes = NODES.map(LoginNode::start);
        let cache = CACHE.as_secs();
        let options =
            format!("nonempty,attr_timeout={cache},entry_timeout={cache},negative_timeout={cache}");
        for node in &nodes {
            let mounted = node
                .command("root")
                .args(["bindfs", "-o", &options])
                .args([study.dir.path(), study.dir.path()])
                .output();
            if !mounted.is_ok_and(|output| output.status.success()) {
                tell("SKIPPED two_login_nodes_with_caches: needs FUSE and bindfs");
                return None;
            }
        }
        let mounted = Self {
            cluster,
            study,
            nodes: nodes.into(),
        };
        let probe = mounted.study.at("probe");
        let sees_probe = || {
            let mut command = mounted.nodes[0].command("root");
            command.arg("test").arg("-e").arg(&probe);
            command.status().unwrap().success()
        };
        assert!(!sees_probe());
        fs::write(&probe, "").unwrap();
        assert!(!sees_probe(), "the mount keeps no missing names");
        Some(mounted)
    }

    fn start(&self, node: usize, arguments: &[&str]) -> Child {
        self.nodes[node]
            .command("root")
            .arg(assert_cmd::cargo::cargo_bin("snbb-scheduler"))
            .args(arguments)
            .env_clear()
            .envs(self.study.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Jobs that Slurm has accepted, by task.
    fn jobs(&self) -> BTreeMap<String, usize> {
        let text = self.cluster.run(
            "sacct",
            &[
                "-X",
                "-n",
                "-P",
                "--format=JobName%200,SubmitLine%4000",
                "-S",
                "now-1day",
            ],
        );
        let place = self.study.dir.path().display().to_string();
        let mut jobs = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, line)) = line.split_once('|')
                && line.contains(&place)
            {
                *jobs.entry(name.to_owned()).or_default() += 1;
            }
        }
        jobs
    }
}

/// Waits for an invocation to do something, or to end.
fn wait_until_it(child: &mut Child, acts: &str, has_acted: impl Fn() -> bool) {
    let since = Instant::now();
    while !has_acted() && child.try_wait().unwrap().is_none() {
        let has_time = since.elapsed() < Duration::from_secs(120);
        assert!(has_time, "it never {acts}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn end(child: Child) -> Said {
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::new(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn two_login_nodes_with_caches_submit_each_task_once() {
    if !has_namespaces() {
        return tell("SKIPPED two_login_nodes_with_caches: needs root and namespaces");
    }
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let study = &mounted.study;
    let mut numbers = Numbers(20_261_129);
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..rounds(12) {
        // Both have seen that the new sessions, the state and the lock are not there.
        for node in [0, 1] {
            end(mounted.start(node, &["status"]));
            end(mounted.start(node, &["run", "--dry-run"]));
        }
        for session in 0..NEW {
            study.scan(&[&format!("sub-{round:03}/ses-{session}")]);
        }
        let first = usize::from(numbers.below(2) == 1);
        let mut one = mounted.start(first, &["run"]);
        let is_killed = round % 4 == 3;
        match round % 4 {
            0 => {}
            1 => std::thread::sleep(Duration::from_millis(numbers.below(1500))),
            2 => wait_until_it(&mut one, "ends", || false),
            _ => {
                let journal = study.at("state.journal.jsonl");
                wait_until_it(&mut one, "submits", || journal.exists());
            }
        }
        let two = mounted.start(1 - first, &["run"]);
        if is_killed {
            // The first time at once, so that one kill is not too late.
            let latest = if round == 3 { 1 } else { 300 };
            std::thread::sleep(Duration::from_millis(numbers.below(latest)));
            children(one.id()).into_iter().for_each(kill_process);
        }
        let mut last = Vec::new();
        for (said, is_killed) in [(end(one), is_killed), (end(two), false)] {
            match said.code {
                0 | 4 => {}
                // The other node has replaced the state that this one still saw.
                1 if gave_way(&said) => {}
                -1 if is_killed => {}
                code => panic!("round {round}: exit code {code}: {}", said.err),
            }
            *codes.entry(said.code).or_default() += 1;
            last.push(said);
        }
        let known = study.job_ids();
        for (name, id) in &rows {
            let new = known
                .get(name)
                .unwrap_or_else(|| panic!("{name} lost its row: {last:#?}"));
            // Of a submission in doubt it is not known yet.
            assert!(id.is_empty() || new == id, "{name} had {id}: {last:#?}");
        }
        rows = known;
    }
    tell(&format!(
        "two login nodes with caches of {CACHE:?}: {} rounds; invocations by exit code (-1: killed): {codes:?}",
        rounds(12)
    ));
    assert!(codes.contains_key(&-1), "every kill came too late");
    // The lock of an invocation that was killed is taken over on its own node.
    for node in [0, 1] {
        end(mounted.start(node, &["run"]));
    }
    let all = rounds(12) * NEW;
    study.until(&["run"], Duration::from_secs(120), |statuses| {
        statuses.len() == all
            && statuses
                .iter()
                .all(|status| status.ends_with("complete verified"))
    });
    let jobs = mounted.jobs();
    assert_eq!(jobs.len(), all, "{jobs:#?}");
    assert!(jobs.values().all(|count| *count == 1), "{jobs:#?}");
}
