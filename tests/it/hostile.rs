//! Odd surroundings: variables, directories, descriptors and limits that a caller may leave to the
//! program change neither what Slurm's commands see nor what is decided.

#![expect(clippy::disallowed_methods, reason = "reads what the fakes wrote")]

mod clock;
mod cluster;
mod limits;
mod signals;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

/// Beginnings of variables that steer Slurm's commands.
const PREFIXES: [&str; 7] = [
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "SLURM_",
    "SALLOC_",
    "SPRIO_",
    "SLURM_JOB_",
];

/// Ends of such names, real ones and others.
const ENDS: [&str; 24] = [
    "STATES",
    "USERS",
    "FORMAT",
    "FORMAT2",
    "NAMES",
    "PARTITION",
    "ACCOUNT",
    "QOS",
    "WAIT",
    "ARRAY_INX",
    "TIME_FORMAT",
    "CLUSTERS",
    "EXPORT",
    "EXPORT_ENV",
    "JOB_NAME",
    "OUTPUT",
    "ERROR",
    "EXIT_ERROR",
    "BITSTR_LEN",
    "DEBUG",
    "ID",
    "MEM_PER_CPU",
    "CONF_SERVER",
    "X",
];

/// What the user's own surroundings are: they go on to sbatch, since the job inherits them.
const OWN: [&str; 8] = [
    "TZ", "LC_ALL", "LANG", "LANGUAGE", "COLUMNS", "LINES", "TERM", "NO_COLOR",
];

/// Holds all that a story left behind, without times, ids and the place of the study.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Each call of Slurm's commands: arguments, then environment.
    calls: Vec<(String, BTreeMap<String, String>)>,
    rows: Vec<String>,
    said: Vec<String>,
    /// The events of the audit log.
    events: Vec<String>,
}

/// Tells one story in some surroundings: jobs are submitted, end in different ways, and the next ones follow.
fn tell(surroundings: &[(OsString, OsString)], path: &str) -> Seen {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    spy(&mut study);
    study.configure(
        "project: p\nprocedures:\n\
         - {name: a, output_dir: a, script: a.sh, completion_marker: done, mem: 1G}\n\
         - {name: b, output_dir: b, script: b.sh, depends_on: [a], completion_marker: done}\n",
    );
    study.script("a.sh", "true");
    study.script("b.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01", "sub-03/ses-01"]);
    // Where the program is called from, a file that must not be taken for Slurm's.
    fs::create_dir(study.at("here")).unwrap();
    for program in ["sbatch", "squeue", "sacct"] {
        study.write(
            &format!("here/{program}"),
            "#!/bin/bash\necho evil >> evil\nexit 1\n",
        );
        executable(&study.at(&format!("here/{program}")));
    }
    let mut said = Vec::new();
    let mut call = |arguments: &[&str]| {
        let mut command = study.program();
        let plain = command.get_envs().find(|(name, _)| *name == "PATH");
        let mut search = OsString::from(path);
        search.push(plain.and_then(|(_, value)| value).unwrap());
        command
            .env("PATH", search)
            .env_remove("TZ")
            .envs(surroundings.iter().cloned())
            .current_dir(study.at("here"))
            .args(arguments);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!text.contains("panicked"), "{text}");
        said.push(format!("{arguments:?} {:?}", output.status.code()));
    };
    call(&["run"]);
    let jobs = slurm.jobs();
    study.write("derivatives/a/sub-01/ses-01/done", "");
    for (job, (_, name)) in jobs.iter().zip(&jobs) {
        let state = match name.as_str() {
            "a_sub-01_ses-01" => "COMPLETED",
            "a_sub-02_ses-01" => "FAILED 3:0",
            _ => "RUNNING",
        };
        slurm.set(&job.0, state);
    }
    call(&["monitor"]);
    call(&["status"]);
    call(&["run"]);
    call(&["retry", "--procedure", "a"]);
    call(&["run"]);
    assert!(
        !study.at("here/evil").exists(),
        "a program of the working directory was run"
    );
    let clean = Cleaner::new(&study);
    Seen {
        calls: calls(&study)
            .into_iter()
            .map(|(arguments, env)| {
                let env = env
                    .into_iter()
                    .map(|(name, value)| (name, clean.text(&value)))
                    .collect();
                (clean.text(&arguments), env)
            })
            .collect(),
        rows: study
            .rows()
            .iter()
            .map(|row| clean.text(&untimed(row)))
            .collect(),
        said,
        events: study
            .read("scheduler_audit.jsonl")
            .lines()
            .map(|line| clean.text(&untimed(&serde_json::from_str(line).unwrap())))
            .collect(),
    }
}

/// Puts programs before the fakes that write down arguments and environment, then go on as the fakes.
fn spy(study: &mut Study) {
    let behind = study.path[0].clone();
    for program in ["sbatch", "squeue", "sacct"] {
        let text = format!(
            "#!/bin/bash\nD={dir}\n\
             n=0; while [ -e $D/call.$n ]; do n=$((n + 1)); done\n\
             {{ printf '%q ' {program} \"$@\"; printf '\\0'; printf '%s\\0' \"$(tr '\\0' '\\1' < /proc/$$/environ)\"; }} > $D/call.$n\n\
             exec {behind}/{program} \"$@\"\n",
            dir = study.dir.path().join("spied").display(),
            behind = behind.display(),
        );
        study.write(&format!("spy/{program}"), &text);
        executable(&study.at(&format!("spy/{program}")));
    }
    fs::create_dir(study.at("spied")).unwrap();
    study.path.insert(0, study.at("spy"));
}

fn calls(study: &Study) -> Vec<(String, BTreeMap<String, String>)> {
    (0..)
        .map(|n| study.at(&format!("spied/call.{n}")))
        .map_while(|file| fs::read(file).ok())
        .map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (arguments, env) = text.split_once('\0').unwrap();
            let env = env
                .trim_end_matches('\0')
                .split('\u{1}')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            (arguments.to_owned(), env)
        })
        .collect()
}

/// Takes out what differs between two calls at any rate.
struct Cleaner {
    place: String,
    patterns: Vec<(Regex, &'static str)>,
}

impl Cleaner {
    fn new(study: &Study) -> Self {
        let pattern = |text, with| (Regex::new(text).unwrap(), with);
        Self {
            place: study.dir.path().display().to_string(),
            patterns: vec![
                // The study's mark and the separator are made of the state file's path.
                pattern(r"p@[0-9a-f]{8}", "p"),
                pattern(r"snbb:p:[0-9A-Za-z-]+", "snbb:p:ID"),
                pattern(r"\\037[0-9a-f]{16}\\037", "|"),
                pattern(r"--starttime=\S+", "--starttime=T"),
                // The canary is the job that ended last, and these two end within a second or not.
                pattern(r"--jobs=1003\\,100[12] ", "--jobs=1003,CANARY "),
                pattern(r"\d{8}T\d{6}Z-\d+-[0-9a-f]{8}", "RUN"),
            ],
        }
    }

    fn text(&self, text: &str) -> String {
        self.patterns
            .iter()
            .fold(text.replace(&self.place, "@"), |text, (pattern, with)| {
                pattern.replace_all(&text, *with).into_owned()
            })
    }
}

/// Shows a row or an event without its times and unique ids.
fn untimed(value: &Value) -> String {
    let mut value = value.clone();
    let map = value.as_object_mut().unwrap();
    map.retain(|key, _| {
        !key.ends_with("_at")
            && !["timestamp", "missing_since", "submission_id", "run_id"].contains(&key.as_str())
    });
    value.to_string()
}

/// Leaves the surroundings out that sbatch is meant to see, and checks that it sees them.
fn compare(plain: &Seen, mut hostile: Seen, surroundings: &[(OsString, OsString)]) {
    let kept = |name: &str| {
        ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"].contains(&name)
            || !PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    for ((arguments, env), (_, own)) in hostile.calls.iter_mut().zip(&plain.calls) {
        for (name, value) in surroundings {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let is_asking = !arguments.starts_with("sbatch");
            let told = env.get(&*name);
            if !kept(&name) {
                // `SLURM_TIME_FORMAT` and `SLURM_BITSTR_LEN` have our own values in a query.
                assert_eq!(told, own.get(&*name), "{name} went through to {arguments}");
            } else if is_asking && name == "LC_ALL" {
                assert_eq!(told.map(String::as_str), Some("C"));
            } else {
                assert_eq!(
                    told.map(String::as_str),
                    Some(&*value),
                    "{name} is gone in {arguments}"
                );
                env.remove(&*name);
            }
        }
        // With its oddities; only absolute directories of it are searched.
        env.remove("PATH");
    }
    let without_path = |seen: &Seen| -> Vec<(String, BTreeMap<String, String>)> {
        let mut calls = seen.calls.clone();
        for (_, env) in &mut calls {
            env.remove("PATH");
        }
        calls
    };
    assert_eq!(hostile.calls, without_path(plain));
    assert_eq!(hostile.rows, plain.rows);
    assert_eq!(hostile.said, plain.said);
    assert_eq!(hostile.events, plain.events);
}

fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    list.iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn variables_that_are_known_to_steer_change_nothing() {
    let plain = tell(&[], "");
    assert!(plain.calls.len() > 8 && plain.rows.len() == 4, "{plain:#?}");
    for list in [
        &[
            ("SQUEUE_STATES", "FAILED"),
            ("SQUEUE_USERS", "nobody"),
            ("SQUEUE_FORMAT", "%i"),
            ("SBATCH_WAIT", "1"),
            ("SBATCH_ARRAY_INX", "1-3"),
            ("SLURM_TIME_FORMAT", "relative"),
            ("SACCT_FORMAT", "JobID"),
            ("SLURM_CLUSTERS", "none"),
            ("SBATCH_EXPORT", "NONE"),
        ][..],
        // As from a job of somebody's, with what may pass.
        &[
            ("SLURM_CONF", "/etc/slurm/other.conf"),
            ("SLURM_JWT", "ey.token"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_CPUS_PER_TASK", "64"),
            ("SLURM_CONF_", "x"),
        ],
        &[
            ("TZ", "Australia/Lord_Howe"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("LANG", "tr_TR.UTF-8"),
            ("COLUMNS", "7"),
            ("SNBB_SUBJECT_X", "mine"),
        ],
    ] {
        let surroundings = pairs(list);
        compare(&plain, tell(&surroundings, ""), &surroundings);
    }
    // An empty entry and `.` mean the working directory, which has a program of that name.
    compare(&plain, tell(&[], ":.:here:./:/nonexistent:"), &[]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if snbb_scheduler::base::sys::env("SNBB_TEST_LONG").is_some() { 100 } else { 4 },
        max_shrink_iters: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_variable_changes_a_call_or_a_decision(
        steering in prop::collection::btree_map(
            (prop::sample::select(&PREFIXES[..]), prop::sample::select(&ENDS[..]))
                .prop_map(|(start, end)| format!("{start}{end}")),
            value(),
            5..60,
        ),
        own in prop::collection::btree_map(prop::sample::select(&OWN[..]), value(), 0..6),
        conf: bool,
    ) {
        let mut surroundings: Vec<(OsString, OsString)> = steering
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .chain(own.into_iter().map(|(name, value)| (name.into(), value)))
            .collect();
        if conf {
            surroundings.extend(pairs(&[("SLURM_CONF", "/x y/slurm.conf"), ("SLURM_JWT", "a.b")]));
        }
        thread_local! {
            static PLAIN: Seen = tell(&[], "");
        }
        PLAIN.with(|plain| compare(plain, tell(&surroundings, ""), &surroundings));
    }
}

/// Any bytes that a variable can hold, but for those that would end a name's or value's copy in a call's record.
fn value() -> impl Strategy<Value = OsString> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "0",
            "1",
            "ALL",
            "NONE",
            "relative",
            "%s",
            "all",
            "1-3",
            "-1",
            "Europe/Berlin",
            ":/etc/passwd",
            "C",
            "xx_XX.UTF-8",
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "%N %j",
            "; rm -rf x",
            "\"'`$(id)",
        ])
        .prop_map(OsString::from),
        prop::collection::vec(32..127u8, 0..20).prop_map(OsString::from_vec),
        "[é你\u{1b}\n\t]{0,6}".prop_map(|text| OsString::from_vec(text.as_bytes().to_vec())),
    ]
}

#[test]
fn bytes_that_are_no_text_reach_the_job_as_they_are() {
    let odd = vec![(
        OsString::from("MY_DIR"),
        OsString::from_vec(b"/data/\xff\xfe".to_vec()),
    )];
    let seen = tell(&odd, "");
    let (_, env) = &seen
        .calls
        .iter()
        .find(|(call, _)| call.starts_with("sbatch"))
        .unwrap();
    assert_eq!(env["MY_DIR"], odd[0].1.to_string_lossy());
}
