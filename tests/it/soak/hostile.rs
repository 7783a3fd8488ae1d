//! A site that makes everything hard which it may: a plugin renames each job and replaces its comment, `squeue` is a
//! cache, accounting is behind, jobs rename themselves, answers of sbatch get lost, other jobs have line breaks in
//! their comments, and the queue forgets ended jobs after seconds. Every task still gets one job and its own verdict.
//!
//! `SNBB_SOAK_HOSTILE=full` takes the times of a real site (`scripts/soak` sets it); else they are a sixth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use snbb_scheduler::base::sys;
use snbb_scheduler::executor::slurm::{parse, usage};

use crate::harness::{Study, executable, system_program};
use crate::harness_slurm::{Cluster, lone_cluster};

const SESSIONS: usize = 20;

const PROCEDURES: [&str; 3] = ["convert", "prep", "group"];

/// The times of the site, in seconds.
struct Times {
    /// How long squeue's answers are kept.
    cache: u64,
    /// How far accounting is behind.
    lag: u64,
    /// All must be over by then.
    patience: u64,
}

const PLUGIN: &str = r#"function slurm_job_submit(job, partitions, uid)
  if string.sub(job.name or "", 1, 6) ~= "other_" then
    job.name = "u_" .. (job.name or "")
    job.comment = "site\nuid=" .. uid
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"#;

/// Keeps each answer of squeue for a while, as a site does that has too many callers.
const SQUEUE: &str = r#"#!/bin/bash
kept=SITE/truth/cache-$(printf '%s\n' "$@" | md5sum | cut -c1-16)
if [ ! -e "$kept" ] || [ $(($(date +%s) - $(stat -c %Y "$kept"))) -ge CACHE ]; then
  REAL "$@" > "$kept.$$" || exit
  mv "$kept.$$" "$kept"
fi
cat "$kept"
"#;

/// Answers from the newest copy of accounting that is old enough. Records end with a separator and a line break.
const SACCT: &str = r#"#!/bin/bash
kind=jobs
for word in "$@"; do case $word in
  --helpformat) exec REAL --helpformat ;;
  --delimiter=*) wanted=${word#*=} ;;
  --jobs=*) ids=${word#*=} ;;
  --format=*MaxRSS*) kind=steps ;;
esac; done
limit=$(($(date +%s) - LAG))
copy=$(ls SITE/truth/accounting | awk -F. -v kind=$kind -v limit=$limit '$2 == kind && $1 <= limit' | sort -n | tail -n 1)
[ -n "$copy" ] || exit 0
awk -v RS=$'\x1f\x1e\n' -v FS=$'\x1f\x1e' -v OFS="$wanted" -v ids="$ids" '
  BEGIN { some = split(ids, list, ","); for (i in list) asked[list[i]] = 1 }
  { id = $1; sub(/\..*/, "", id); base = id; sub(/[_+].*/, "", base)
    if (!some || id in asked || base in asked) { $1 = $1; printf "%s%s\n", $0, OFS } }
' "SITE/truth/accounting/$copy"
"#;

/// Every eighth answer is lost.
const SBATCH: &str = r#"#!/bin/bash
echo . >> SITE/truth/submissions
[ $(($(wc -l < SITE/truth/submissions) % 8)) != 5 ] || exec > /dev/null
exec REAL "$@"
"#;

const STEP: &str = r#"#!/bin/bash
#SBATCH --time=10
site=${SNBB_DERIVATIVES_ROOT%/*}
job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
read -r _ _ fate < <(grep "^$SNBB_PROCEDURE $SNBB_SUBJECT " "$site/truth/fates")
echo "$SNBB_PROCEDURE $SNBB_SUBJECT $job $EPOCHSECONDS" >> "$site/truth/starts"
scontrol update "jobid=$job" "jobname=mine_$RANDOM"
mkdir -p "$SNBB_OUTPUT_DIR"
case $fate in
good) sleep 1; echo "$job" > "$SNBB_OUTPUT_DIR/done" ;;
long) sleep LONG; echo "$job" > "$SNBB_OUTPUT_DIR/done" ;;
fails) sleep 1; exit 3 ;;
half) echo "$job" > "$SNBB_OUTPUT_DIR/done"; sleep 2; exit 3 ;;
longhalf) echo "$job" > "$SNBB_OUTPUT_DIR/done"; sleep LONG; exit 3 ;;
silent) sleep 1 ;;
esac
"#;

/// What becomes of the job of a task, if it gets one.
fn fate(procedure: usize, session: usize) -> &'static str {
    match (procedure, session) {
        (0, 2) | (1, 8) | (2, 14) => "fails",
        (0, 4) | (1, 10) | (2, 16) => "half",
        (0, 6) | (1, 12) | (2, 18) => "longhalf",
        (0, 7) | (1, 13) | (2, 19) => "silent",
        (0, 9) | (1, 15) => "long",
        _ => "good",
    }
}

fn is_well(fate: &str) -> bool {
    matches!(fate, "good" | "long")
}

fn subject(session: usize) -> String {
    format!("sub-{session:02}")
}

fn start() -> Option<(Cluster, Study, Times)> {
    let is_full = std::env::var_os("SNBB_SOAK_HOSTILE").is_some_and(|value| value == "full");
    let times = match is_full {
        true => Times {
            cache: 60,
            lag: 30,
            patience: 1200,
        },
        false => Times {
            cache: 10,
            lag: 5,
            patience: 240,
        },
    };
    let settings = [("SNBB_DEV_MESSAGE_TIMEOUT", "5"), ("SNBB_DEV_CPUS", "48")];
    let cluster = lone_cluster("hostile", &settings)?;
    fs::write(cluster.conf().with_file_name("job_submit.lua"), PLUGIN).unwrap();
    cluster.set_conf("MinJobAge=2\nJobSubmitPlugins=lua");
    cluster.restart("slurmctld");
    let mut study = cluster.study(&format!(
        "settle_time: {}s
output_grace: {}s
lost_grace: {}s
procedures:
  - {{name: convert, output_dir: convert, script: step.sh, completion_marker: done}}
  - {{name: prep, output_dir: prep, script: step.sh, completion_marker: done, depends_on: [convert], array: always}}
  - {{name: group, output_dir: group, script: step.sh, completion_marker: done, depends_on: [prep]}}
",
        2 * (times.cache + times.lag),
        times.lag,
        20 * times.cache,
    ));
    let site = study.dir.path().display().to_string();
    let long = times.cache + times.lag + 5;
    study.write("step.sh", &STEP.replace("LONG", &long.to_string()));
    executable(&study.at("step.sh"));
    for (program, text) in [("squeue", SQUEUE), ("sacct", SACCT), ("sbatch", SBATCH)] {
        let text = text
            .replace("REAL", &system_program(program).display().to_string())
            .replace("SITE", &site)
            .replace("CACHE", &times.cache.to_string())
            .replace("LAG", &times.lag.to_string());
        study.write(&format!("bin/{program}"), &text);
        executable(&study.at(&format!("bin/{program}")));
    }
    study.path.insert(0, study.at("bin"));
    fs::create_dir_all(study.at("truth/accounting")).unwrap();
    let fates: String = (0..PROCEDURES.len())
        .flat_map(|procedure| {
            (0..SESSIONS).map(move |session| {
                let fate = fate(procedure, session);
                format!("{} {} {fate}\n", PROCEDURES[procedure], subject(session))
            })
        })
        .collect();
    study.write("truth/fates", &fates);
    for session in 0..SESSIONS {
        study.scan(&[&format!("{}/ses-1", subject(session))]);
    }
    Some((cluster, study, times))
}

/// Copies all of accounting, with and without steps, into files that are named by their time.
fn copy_accounting(cluster: &Cluster, study: &Study) {
    let fields = parse::accounting_fields(true);
    let uid = format!("--uid={}", sys::effective_uid());
    for (kind, more, fields) in [
        ("jobs", &["-X"][..], fields),
        ("steps", &[], usage::FIELDS.to_vec()),
    ] {
        let format = format!("--format={}", fields.join(","));
        let words = [
            &[
                "SLURM_TIME_FORMAT=%s",
                "SLURM_BITSTR_LEN=0",
                "sacct",
                "-D",
                "-n",
                "-p",
                "--delimiter=\u{1f}\u{1e}",
            ][..],
            &[&uid, "--starttime=2020-01-01", &format],
            more,
        ];
        let at = sys::now().timestamp();
        let (code, text) = cluster.try_run("env", &words.concat());
        if code == Some(0) {
            let file = study.at(&format!("truth/accounting/.{at}.{kind}"));
            fs::write(&file, text).unwrap();
            fs::rename(file, study.at(&format!("truth/accounting/{at}.{kind}"))).unwrap();
        }
    }
}

/// Calls `run` until nothing moves any more.
fn live(study: &Study, times: &Times) {
    let began = Instant::now();
    let mut before = Vec::new();
    let mut still = 0;
    // A submission that seems to have failed may show up as late as squeue and accounting do.
    while still < 4 {
        let said = study.call(&["run"]);
        assert!(
            matches!(said.code, 0 | 4 | 5),
            "{}: {}",
            said.code,
            said.err
        );
        let now = study.statuses();
        let is_moving = now != before
            || said.code != 0
            || now
                .iter()
                .any(|row| row.contains(": pending") || row.contains(": running"));
        still = if is_moving { 0 } else { still + 1 };
        before = now;
        let open: Vec<&String> = before
            .iter()
            .filter(|row| !row.contains(": complete"))
            .collect();
        assert!(
            began.elapsed().as_secs() < times.patience,
            "it does not end: {open:#?}\n{}",
            said.err
        );
        sleep(Duration::from_millis(700));
    }
}

/// The rows that must be there in the end.
fn expected() -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for session in 0..SESSIONS {
        for (procedure, name) in PROCEDURES.iter().enumerate() {
            let fate = fate(procedure, session);
            let verdict = match fate {
                "good" | "long" => "complete verified",
                "silent" => "failed no_output",
                _ => "failed exit_code",
            };
            rows.insert(format!("{name} {} ses-1: {verdict}", subject(session)));
            if !is_well(fate) {
                break;
            }
        }
    }
    rows
}

/// Judges by what the jobs wrote down and by what accounting says now.
fn faults(cluster: &Cluster, study: &Study) -> Vec<String> {
    let mut faults = Vec::new();
    let found: BTreeSet<String> = study.statuses().into_iter().collect();
    let expected = expected();
    faults.extend(
        expected
            .difference(&found)
            .map(|row| format!("missing: {row}")),
    );
    faults.extend(
        found
            .difference(&expected)
            .map(|row| format!("wrong: {row}")),
    );
    let text = cluster.run(
        "env",
        &[
            "SLURM_TIME_FORMAT=%s",
            "sacct",
            "-X",
            "-n",
            "-P",
            "--starttime=2020-01-01",
            "--format=JobID,State,End",
        ],
    );
    let ends: BTreeMap<&str, (&str, i64)> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.split('|');
            Some((parts.next()?, (parts.next()?, parts.next()?.parse().ok()?)))
        })
        .collect();
    let mut jobs: BTreeMap<(&str, &str), Vec<(&str, i64)>> = BTreeMap::new();
    let starts = study.read("truth/starts");
    for line in starts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [procedure, subject, job, at] = words[..] else {
            panic!("a job wrote '{line}'");
        };
        let entry = jobs.entry((procedure, subject)).or_default();
        entry.push((job, at.parse().unwrap()));
    }
    for ((procedure, subject), runs) in &jobs {
        if runs.len() != 1 {
            faults.push(format!("{procedure} {subject} ran as {runs:?}"));
        }
        let place = PROCEDURES
            .iter()
            .position(|name| name == procedure)
            .unwrap();
        let Some(input) = place.checked_sub(1) else {
            continue;
        };
        let started = runs[0].1;
        let input = jobs.get(&(PROCEDURES[input], subject));
        let end = input.and_then(|runs| ends.get(runs[0].0));
        if !end.is_some_and(|(state, end)| *state == "COMPLETED" && *end <= started) {
            faults.push(format!(
                "{procedure} {subject} started at {started}, its input ended: {end:?}"
            ));
        }
    }
    faults
}

#[test]
fn a_hostile_site_gets_each_task_one_job_and_its_own_verdict() {
    let Some((cluster, study, times)) = start() else {
        return;
    };
    let others: Vec<String> = ["x\ny", "\n7\u{1f}RUNNING\u{1f}", "a|b\r\n\r\n8"]
        .iter()
        .map(|text| {
            let comment = format!("--comment={text}");
            let options = [
                "--parsable",
                &comment,
                "--job-name=other_job",
                "--output=/dev/null",
                "--wrap=sleep 3000",
            ];
            cluster.run("sbatch", &options).trim().to_owned()
        })
        .collect();
    let stop = AtomicBool::new(false);
    let lived = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                copy_accounting(&cluster, &study);
                sleep(Duration::from_millis(800));
            }
        });
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(&study, &times)));
        stop.store(true, Ordering::Relaxed);
        lived
    });
    let faults = faults(&cluster, &study);
    for other in others {
        let _ = cluster.try_run("scancel", &[&other]);
    }
    cluster.stop();
    if lived.is_err() || !faults.is_empty() {
        let place = study.dir.keep();
        panic!(
            "the evidence is in {}:\n{}",
            place.display(),
            faults.join("\n")
        );
    }
}
