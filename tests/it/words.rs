//! Slurm's words of all releases, as texts in `fixtures/slurm/words/` with their meaning beside them.
#![expect(clippy::disallowed_methods, reason = "lists the fixtures")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use snbb_scheduler::base::run::End;
use snbb_scheduler::executor::slurm::parse;
use snbb_scheduler::executor::slurm::parse::{Parsed, SEPARATOR};
use snbb_scheduler::executor::slurm::sbatch_answer::judge;
use snbb_scheduler::executor::{JobReport, Phase, Refusal, Submission};

/// Is one answer and what must be made of it.
struct Case {
    place: String,
    expected: Vec<String>,
    answer: String,
}

#[test]
fn every_word_of_squeue_means_what_stands_beside_it() {
    check("squeue", |_, text| parse::queue(text, SEPARATOR, None));
}

#[test]
fn every_word_of_sacct_means_what_stands_beside_it() {
    check("sacct", |file, text| {
        parse::accounting(text, SEPARATOR, file.contains("with-submit-line"), None)
    });
}

#[test]
fn every_answer_of_sbatch_means_what_stands_beside_it() {
    for case in cases("sbatch") {
        let mut code = None;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        for line in case.answer.lines().filter(|line| !line.is_empty()) {
            let (what, rest) = line.split_once(' ').expect(&case.place);
            match what {
                "exit" => code = rest.parse().ok(),
                "out" => stdout += &format!("{rest}\n"),
                "err" => stderr += &format!("{rest}\n"),
                other => panic!("{}: {other}", case.place),
            }
        }
        let meaning = match judge(End::Exit(code.expect(&case.place)), &stdout, &stderr) {
            Submission::Accepted { job_id, cluster } => {
                let cluster = cluster.map(|name| format!(";{name}")).unwrap_or_default();
                format!("accepted {job_id}{cluster}")
            }
            Submission::Refused { kind, .. } => match kind {
                Refusal::Permanent => "refused permanent".to_owned(),
                Refusal::Limit => "refused limit".to_owned(),
                Refusal::Transient => "refused transient".to_owned(),
                Refusal::ArraySize => "refused array size".to_owned(),
            },
            Submission::InDoubt { .. } => "in doubt".to_owned(),
        };
        assert_eq!([meaning], *case.expected, "{}", case.place);
    }
}

/// No word of a release may be without a fixture.
#[test]
fn every_state_word_is_shown() {
    let seen: BTreeSet<String> = ["squeue", "sacct"]
        .iter()
        .flat_map(|program| cases(program))
        .flat_map(|case| {
            case.answer
                .lines()
                .filter_map(|line| line.split(SEPARATOR).nth(1).map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    for word in [
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "CANCELLED",
        "CANCELLED by 1000",
        "CANCELLED by -2",
        "CANCELLED+",
        "FAILED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "OUT_OF_ME+",
        "DEADLINE",
        "NODE_FAIL",
        "BOOT_FAIL",
        "PREEMPTED",
        "COMPLETING",
        "CONFIGURING",
        "RESIZING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "REVOKED",
        "REQUEUED_CRON",
        "EXPEDITING",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "GETENV_FAILED",
        "POWER_UP_NODE",
        "UPDATE_DB",
        "?",
    ] {
        assert!(seen.contains(word), "no fixture shows {word}");
    }
}

fn check(program: &str, read: impl Fn(&str, &str) -> Parsed) {
    for case in cases(program) {
        let parsed = read(&case.place, &case.answer);
        let mut expected: Vec<String> = Vec::new();
        let (mut warnings, mut broken) = (0, false);
        for line in &case.expected {
            if let Some(text) = line.strip_prefix("warns ") {
                warnings += 1;
                assert!(
                    parsed.warnings.iter().any(|warning| warning.contains(text)),
                    "{}: no warning with '{text}' in {:?}",
                    case.place,
                    parsed.warnings
                );
            } else if line == "broken" {
                broken = true;
            } else {
                expected.extend(each(line));
            }
        }
        // Only as much is compared as is written there: id and phase, or the name and mark too.
        let fields = |text: &str| text.matches(" | ").count();
        let most = expected.iter().map(|line| fields(line)).max().unwrap_or(0);
        let mut found: Vec<String> = parsed.jobs.iter().map(|job| told(job, most)).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{}", case.place);
        assert_eq!(
            parsed.warnings.len(),
            warnings,
            "{}: {:?}",
            case.place,
            parsed.warnings
        );
        assert_eq!(
            parsed.broken.is_some(),
            broken,
            "{}: {:?}",
            case.place,
            parsed.broken
        );
    }
}

/// Writes a range of tasks (`4_2..5 queued`) out.
fn each(line: &str) -> Vec<String> {
    let (id, rest) = line.split_once(' ').expect(line);
    let Some((array, (first, last))) = id
        .split_once('_')
        .and_then(|(array, tasks)| Some((array, tasks.split_once("..")?)))
    else {
        return vec![line.to_owned()];
    };
    let number = |text: &str| text.parse::<u32>().expect(line);
    (number(first)..=number(last))
        .map(|task| format!("{array}_{task} {rest}"))
        .collect()
}

fn told(job: &JobReport, fields: usize) -> String {
    let phase = match job.phase {
        Phase::Queued => "queued".to_owned(),
        Phase::Held => "held".to_owned(),
        Phase::Running => "running".to_owned(),
        Phase::Suspended => "suspended".to_owned(),
        Phase::Completed => "completed".to_owned(),
        Phase::Failed(reason) => format!("failed {reason}"),
        Phase::Unknown => "unknown".to_owned(),
    };
    let tag = job
        .tag
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut text = format!("{} {phase}", job.id);
    for field in [&job.name, &tag].into_iter().take(fields) {
        text += " | ";
        text += field;
    }
    text
}

fn cases(program: &str) -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/slurm/words");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(&format!("{program}-")) && name.ends_with(".txt")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures of {program}");
    files.iter().flat_map(|file| cases_of(file)).collect()
}

fn cases_of(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            cases.push(Case {
                place: format!("{}: {title}", file.display()),
                expected: Vec::new(),
                answer: String::new(),
            });
        } else if let Some(case) = cases.last_mut() {
            match line.strip_prefix("=> ") {
                Some(expected) => case.expected.push(expected.replace('␟', SEPARATOR)),
                None => {
                    case.answer += &line.replace('␟', SEPARATOR);
                    case.answer.push('\n');
                }
            }
        }
    }
    cases
}
