//! A Slurm of six shell scripts, for what a real one cannot be made to do on demand.
//!
//! Its jobs are files; a test sets their states. It counts every call and keeps every argument.
#![expect(clippy::disallowed_methods, reason = "lists the fake jobs")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Study, executable};

/// Points to the directory of a fake cluster; its `bin` belongs on `PATH`.
pub struct FakeSlurm {
    dir: PathBuf,
}

const PROGRAM: &str = r#"#!/bin/bash
# One program under six names; see the test that made it.
D=$(dirname "$(dirname "$0")")
me=$(basename "$0")
# Files are what this cluster is made of; a real one has none that the caller's limits are about.
ulimit -f unlimited 2>/dev/null
# What `check` asks is no submission, and is counted under its own name.
case "$me $*" in
"sbatch --version"*) echo "slurm $(cat "$D/version" 2>/dev/null || echo 23.11.4)"; exit 0;;
"sbatch --test-only "*)
  if [ ! -f "$D/no-test-only" ]; then
    echo "sbatch --test-only" >> "$D/calls"
    printf '%q ' "$@" >> "$D/argv.test"; echo >> "$D/argv.test"
    [ -f "$D/sbatch.fail" ] && { cat "$D/sbatch.fail" >&2; exit 1; }
    echo "sbatch: Job 1 to start at 2026-01-02T03:04:05 using 1 processors on nodes node1 in partition debug" >&2
    exit 0
  fi;;
esac
echo "$me" >> "$D/calls"
[ -f "$D/$me.hang" ] && sleep 1000
gate() {
  [ "${FAKE_WAIT:-}" = "$me" ] || return 0
  echo "$me" >> "$FAKE_WAIT_FILE.reached"
  while [ -f "$FAKE_WAIT_FILE" ]; do sleep 0.02; done
}
# Job ids of an array's tasks, or of a job.
ids() { if [ -n "$2" ]; then seq -f "$1_%.0f" 0 "$2"; else echo "$1"; fi; }
if fail=$(cat "$D/$me.fail" 2>/dev/null); then printf '%s\n' "$fail" >&2; exit 1; fi
# What the caller wants between two fields.
S=
for a in "$@"; do case $a in
  --delimiter=*) S=${a#*=};;
  --format=%i*) S=${a#--format=%i}; S=${S%%%*};;
esac; done
case $me in
sbatch)
  gate
  n=$(grep -c '^sbatch$' "$D/calls")
  # Two calls at once must not get the same number.
  set -C
  until { : > "$D/ids/$n"; } 2>/dev/null; do
    # The test may be over, and all this gone.
    [ -d "$D/ids" ] || exit 1
    n=$((n + 1))
  done
  set +C
  printf '%q ' "$@" >> "$D/argv"; echo >> "$D/argv"
  env | grep -v '^_=' | sort > "$D/env.$n"
  if [ -f "$D/refuse.$n" ]; then cat "$D/refuse.$n" >&2; exit 1; fi
  last=
  for a in "$@"; do case $a in
    --job-name=*) name=${a#*=};; --comment=*) comment=${a#*=};;
    --array=0-*) last=${a##*-}; last=${last%%%*};; esac; done
  if [ -n "$last" ] && [ -f "$D/most" ] && [ "$last" -ge "$(cat "$D/most")" ]; then
    echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
    exit 1
  fi
  id=$((1000 + n))
  [ -n "$last" ] || echo PENDING > "$D/state/$id"
  printf '%s\n' "$name" "$comment" "$(date +%s)" "sbatch $*" "$last" > "$D/jobs/.$id"
  # Accepted in one step: a test may end this program at any moment.
  mv "$D/jobs/.$id" "$D/jobs/$id"
  [ -f "$D/silent.$n" ] && exit 0
  case "$*" in *--parsable*) echo "$id";; *) echo "Submitted batch job $id";; esac
  ;;
squeue)
  for f in "$D"/jobs/*; do
    [ -f "$f" ] || continue
    { read -r name; read -r comment; read -r submit; read -r line; read -r last; } < "$f"
    case "$*" in *--user=*) [ -f "$D/foreign/${f##*/}" ] && continue;; esac
    for id in $(ids "${f##*/}" "$last"); do
    state=PENDING; code=; [ -f "$D/state/$id" ] && read -r state code < "$D/state/$id"
    case $state in PENDING|RUNNING|SUSPENDED|COMPLETING)
      echo "$id$S$state$S${code:-None}$S$submit$S$submit$S$submit${S}node1${S}1:00:00$S$comment$S$name$S";;
    esac
    done
  done
  gate
  ;;
sacct)
  case "$*" in *"--format=JobID --jobs="*)
    for f in "$D"/jobs/*; do
      [ -f "$f" ] || continue
      { read -r name; read -r comment; read -r submit; read -r line; read -r last; } < "$f"
      for id in $(ids "${f##*/}" "$last"); do grep -q GONE "$D/state/$id" 2>/dev/null || echo "$id"; done
    done
    exit 0;;
  esac
  # What the Python program asks.
  case "$*" in *"--format=JobID,State "*)
    for f in "$D"/jobs/*; do
      [ -f "$f" ] || continue
      read -r state _ < "$D/state/${f##*/}"
      [ "$state" = GONE ] || echo "${f##*/}|$state"
    done
    exit 0;;
  esac
  case "$*" in *--helpformat*) echo "JobID State SubmitLine"; exit 0;; esac
  # The user has worked here before: accounting shows that it answers.
  case "$*" in *--jobs=*) ;; *)
    case "$*" in *SubmitLine*) said="sbatch x.sh$S";; *) said="";; esac
    echo "7${S}COMPLETED${S}0:0${S}1000${S}1000${S}1001${S}1${S}60${S}50M${S}1${S}1${S}node1${S}None${S}${said}earlier${S}";;
  esac
  for f in "$D"/jobs/*; do
    [ -f "$f" ] || continue
    { read -r name; read -r comment; read -r submit; read -r line; read -r last; } < "$f"
    case "$*" in *--uid=*) [ -f "$D/foreign/${f##*/}" ] && continue;; esac
    [ -f "$D/unrecorded/${f##*/}" ] && continue
    for id in $(ids "${f##*/}" "$last"); do
    state=PENDING; code=; memory=; limit=; node=; [ -f "$D/state/$id" ] && read -r state code memory limit node < "$D/state/$id"
    state=${state/_by_/ by }
    case "$*" in *SubmitLine*) said="$line$S";; *) said="";; esac
    case $state in PENDING|RUNNING) end=Unknown;; *) end=$submit;; esac
    [ "$state" = CANCELLED ] && state="CANCELLED by $(id -u)"
    case "$*" in *MaxRSS*)
      [ "$state" = GONE ] || printf "%s$S%s$S%s$S%s$S%s$S%s$S%s${S}main${S}lab${S}normal$S\n" \
        "$id" "$state" "${code:-0:0}" "$submit" 1 "" 00:01.500 \
        "$id.batch" "${state%% *}" "${code:-0:15}" "$submit" 1 2048K 00:01.500
      continue;;
    esac
    [ "$state" = GONE ] ||
    echo "$id$S$state$S${code:-0:0}$S$submit$S$submit$S$end${S}12${S}${limit:-60}${S}${memory:-50M}${S}1${S}1${S}${node:-node1}${S}None$S$said$name$S"
    done
  done
  ;;
scontrol)
  case "$*" in *partition*) cat "$D/partitions" 2>/dev/null; exit 0;; esac
  cat "$D/config" 2>/dev/null
  echo "MaxArraySize = $(cat "$D/max-array-size" 2>/dev/null || echo 1001)"
  ;;
scancel)
  for a in "$@"; do [ -f "$D/jobs/${a%%_*}" ] && echo "CANCELLED" > "$D/state/$a"; done
  ;;
esac
exit 0
"#;

impl FakeSlurm {
    /// Makes a cluster beside a study and puts it on the study's `PATH`.
    pub fn new(study: &mut Study) -> Self {
        let dir = study.at("fake-slurm");
        for part in ["bin", "ids", "jobs", "state"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        let programs = [
            "sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr",
        ];
        for program in programs {
            let path = dir.join("bin").join(program);
            fs::write(&path, PROGRAM).unwrap();
            executable(&path);
        }
        study.path.insert(0, dir.join("bin"));
        Self { dir }
    }

    /// Points to the cluster that a copied study has.
    pub fn of(study: &Study) -> Self {
        Self {
            dir: study.at("fake-slurm"),
        }
    }

    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// Sets what squeue and sacct say of a job: `COMPLETED`, `FAILED 1:0`, `GONE`,
    /// `CANCELLED_by_7`. Exit code, memory, limit in minutes and nodes may follow:
    /// `OUT_OF_MEMORY 0:125 32G 60 n1`.
    pub fn set(&self, job: &str, state: &str) {
        fs::write(self.at("state").join(job), format!("{state}\n")).unwrap();
    }

    /// Gives the jobs there are now to another user, as a wrapper around sbatch does.
    pub fn give_away(&self) {
        fs::create_dir_all(self.at("foreign")).unwrap();
        for (job, _) in self.jobs() {
            fs::write(self.at("foreign").join(job), "").unwrap();
        }
    }

    /// Keeps a job's record from accounting, as a database does that is behind.
    pub fn hide_record(&self, job: &str) {
        fs::create_dir_all(self.at("unrecorded")).unwrap();
        fs::write(self.at("unrecorded").join(job), "").unwrap();
    }

    /// Lists the job ids with their names, oldest first; of an array, its tasks.
    pub fn jobs(&self) -> Vec<(String, String)> {
        let mut jobs: Vec<(String, String)> = fs::read_dir(self.at("jobs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                !path
                    .file_name()
                    .unwrap()
                    .as_encoded_bytes()
                    .starts_with(b".")
            })
            .flat_map(|path| {
                let text = fs::read_to_string(&path).unwrap();
                let id = path.file_name().unwrap().to_string_lossy().into_owned();
                let name = text.lines().next().unwrap().to_owned();
                match text
                    .lines()
                    .nth(4)
                    .and_then(|last| last.parse::<usize>().ok())
                {
                    Some(last) => (0..=last)
                        .map(|index| (format!("{id}_{index}"), name.clone()))
                        .collect(),
                    None => vec![(id, name)],
                }
            })
            .collect();
        jobs.sort();
        jobs
    }

    /// Sets the state of all jobs.
    pub fn set_all(&self, state: &str) {
        for (job, _) in self.jobs() {
            self.set(&job, state);
        }
    }

    /// Makes the n-th sbatch call (from 1) fail with this text; `silent` makes it say nothing.
    pub fn refuse(&self, call: usize, text: &str) {
        fs::write(self.at(format!("refuse.{call}")), text).unwrap();
    }

    pub fn silent(&self, call: usize) {
        fs::write(self.at(format!("silent.{call}")), "").unwrap();
    }

    /// Refuses arrays of more tasks than this, as a limit of the user's jobs does.
    pub fn limit_arrays(&self, most: usize) {
        fs::write(self.at("most"), most.to_string()).unwrap();
    }

    /// Sets what `scontrol show config` says.
    pub fn set_max_array_size(&self, size: usize) {
        fs::write(self.at("max-array-size"), size.to_string()).unwrap();
    }

    /// Makes every call of a program fail with this text, until [`Self::heal`].
    pub fn break_program(&self, program: &str, text: &str) {
        fs::write(self.at(format!("{program}.fail")), text).unwrap();
    }

    pub fn heal(&self, program: &str) {
        fs::remove_file(self.at(format!("{program}.fail"))).unwrap();
    }

    /// Counts the calls of a program so far.
    pub fn calls(&self, program: &str) -> usize {
        fs::read_to_string(self.at("calls"))
            .unwrap_or_default()
            .lines()
            .filter(|line| *line == program)
            .count()
    }

    /// Returns the arguments of all sbatch calls, shell-quoted.
    pub fn argv(&self) -> String {
        fs::read_to_string(self.at("argv")).unwrap_or_default()
    }
}
