use std::path::Path;

use chrono::{DateTime, Utc};

use super::super::{Finding, Level, testing};
use super::*;
use crate::executor::slurm::inspect::Tried;
use crate::executor::{ExecutorError, JobReport, Phase, Refusal};
use crate::model::state::JobFacts;

const CONFIG: &str =
    "Configuration data as of 1800000000\nMessageTimeout = 10 sec\nMinJobAge = 300 sec\n";

fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// A site without problems.
fn sound() -> Report {
    Report {
        programs: ["sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr"]
            .map(|name| (name, Ok(Path::new("/usr/bin").join(name))))
            .into(),
        version: Some(Ok("slurm 22.05.8\n".into())),
        queue: Some(Ok(Vec::new())),
        accounting: Some(Ok("99\n".into())),
        config: Some(Ok(CONFIG.into())),
        asked_at: Some((time(0), time(0))),
        partitions: Some(Ok(
            "PartitionName=debug Default=YES MaxTime=UNLIMITED State=UP\n\
             PartitionName=short MaxTime=01:00:00 State=UP\nPartitionName=shut MaxTime=UNLIMITED State=DOWN\n"
                .into(),
        )),
        associations: Some(Ok("snbb||\ntight||02:00:00\n".into())),
        qos: Some(Ok("normal|\nquick|00:30:00\n".into())),
        tried: vec![("prep".into(), Tried::Fine("Job 1 to start".into()))],
    }
}

fn wanted() -> Wanted {
    Wanted {
        procedure: "prep".into(),
        partition: Some("debug".into()),
        account: Some("snbb".into()),
        qos: None,
        time: Some(24 * 3600),
    }
}

fn judged_with(canary: Option<&str>, text: &str, wanted: Wanted, report: &Report) -> Vec<Finding> {
    let (study, config) = (("memory@1", canary), testing::config(text));
    testing::judged(|out| judge(&config, study, &[wanted], report, out))
}

fn judged(text: &str, wanted: Wanted, report: &Report) -> Vec<Finding> {
    judged_with(Some("99"), text, wanted, report)
}

fn trouble(text: &str, wanted: Wanted, report: &Report) -> (Level, &'static str, String) {
    let findings = judged(text, wanted, report);
    let found: Vec<&Finding> = findings.iter().filter(|f| f.level != Level::Ok).collect();
    assert_eq!(found.len(), 1, "{findings:#?}");
    assert!(found[0].remedy.is_some());
    (
        found[0].level,
        found[0].topic,
        format!("{}: {}", found[0].about, found[0].text),
    )
}

#[test]
fn a_good_site_has_no_problems() {
    let findings = judged("", wanted(), &sound());
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:#?}"
    );
    for topic in [
        "slurm",
        "queue",
        "accounting",
        "partition",
        "submission",
        "clock",
    ] {
        assert!(
            findings.iter().any(|f| f.topic == topic),
            "{topic}: {findings:#?}"
        );
    }
    // Where accounting is switched off for good.
    let off = Report {
        accounting: Some(Err(
            "sacct ended: Slurm accounting storage is disabled".into()
        )),
        config: Some(Ok(CONFIG.replace("300", "86400"))),
        ..sound()
    };
    let findings = judged("accounting: off\n", wanted(), &off);
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:#?}"
    );
}

#[test]
fn commands_and_versions() {
    for (program, level) in [
        ("sbatch", Some(Level::Error)),
        ("scancel", Some(Level::Error)),
        ("sacct", Some(Level::Error)),
        ("scontrol", Some(Level::Warning)),
        ("sacctmgr", None),
    ] {
        let mut report = sound();
        for (name, place) in &mut report.programs {
            if *name == program {
                *place = Err(ExecutorError::ProgramMissing {
                    program: (*name).to_owned(),
                    searched: "/usr/bin".to_owned(),
                });
            }
        }
        let findings = judged("", wanted(), &report);
        let worst = findings.iter().map(|f| f.level).max();
        assert_eq!(worst, level.or(Some(Level::Ok)), "{program}");
    }
    let report = Report {
        version: Some(Err("sbatch ended with exit code 1".to_owned())),
        ..sound()
    };
    let (level, topic, text) = trouble("", wanted(), &report);
    assert_eq!((level, topic), (Level::Warning, "slurm"));
    assert!(text.contains("exit code 1"), "{text}");
}

#[test]
fn queue_and_accounting() {
    let down = Report {
        queue: Some(Err(
            "squeue ended with exit code 1: Unable to contact slurm controller".into(),
        )),
        accounting: sound().accounting,
        programs: sound().programs,
        ..Report::default()
    };
    assert_eq!(trouble("", wanted(), &down).0, Level::Error);
    let with = |accounting: Result<&str, &str>, age: &str| Report {
        accounting: Some(accounting.map(str::to_owned).map_err(str::to_owned)),
        config: Some(Ok(CONFIG.replace("300", age))),
        ..sound()
    };
    let disabled = Err("Slurm accounting storage is disabled");
    for (text, report, level, part) in [
        (
            "",
            with(Ok(""), "300"),
            Level::Warning,
            "does not list job 99",
        ),
        ("", with(disabled, "86400"), Level::Warning, "no accounting"),
        (
            "",
            with(Err("Connection refused"), "300"),
            Level::Error,
            "accounting does not respond",
        ),
        (
            "accounting: off\n",
            with(Ok("99"), "86400"),
            Level::Warning,
            "although sacct responds",
        ),
        (
            "accounting: off\n",
            with(disabled, "300"),
            Level::Warning,
            "only 300 s",
        ),
    ] {
        let (found, topic, text) = trouble(text, wanted(), &report);
        assert_eq!((found, topic), (level, "accounting"), "{text}");
        assert!(text.contains(part), "{text}");
    }
    let none = judged_with(None, "", wanted(), &with(Ok(""), "300"));
    assert!(
        none.iter().all(|f| f.level == Level::Ok),
        "no job is known yet"
    );
}

#[test]
fn settings_of_the_controller() {
    let unreadable = Report {
        config: Some(Err("scontrol ended with exit code 1".into())),
        asked_at: None,
        ..sound()
    };
    assert_eq!(trouble("", wanted(), &unreadable).0, Level::Warning);
    for (host, expected) in [
        (0, None),
        (4, None),
        (-4, None),
        (90, Some("89 s behind")),
        (-90, Some("90 s ahead of")),
    ] {
        let report = Report {
            asked_at: Some((time(host), time(host))),
            ..sound()
        };
        match expected {
            None => assert!(
                judged("", wanted(), &report)
                    .iter()
                    .all(|f| f.level == Level::Ok)
            ),
            Some(part) => {
                let (_, topic, text) = trouble("", wanted(), &report);
                assert_eq!(topic, "clock");
                assert!(text.contains(part), "{text}");
            }
        }
    }
}

#[test]
fn limits_of_time_and_closed_partitions() {
    let fits =
        |partition: Option<&str>, account: Option<&str>, qos: Option<&str>, hours: u64| Wanted {
            partition: partition.map(str::to_owned),
            account: account.map(str::to_owned),
            qos: qos.map(str::to_owned),
            time: Some(hours * 3600),
            ..wanted()
        };
    for wanted in [
        fits(Some("short"), Some("snbb"), None, 1),
        fits(Some("short,debug"), Some("snbb"), None, 24),
        fits(None, None, None, 24),
        fits(Some("debug"), Some("tight"), None, 2),
        fits(Some("unknown"), Some("unknown"), Some("unknown"), 24),
        Wanted {
            time: None,
            partition: Some("short".into()),
            ..wanted()
        },
    ] {
        let findings = judged("", wanted.clone(), &sound());
        assert!(
            findings.iter().all(|f| f.level == Level::Ok),
            "{wanted:?} {findings:#?}"
        );
    }
    for (wanted, level, part) in [
        (
            fits(Some("short"), Some("snbb"), None, 2),
            Level::Error,
            "prep: requests 120 min, but partition short allows 60 min",
        ),
        (
            fits(Some("debug"), Some("tight"), None, 3),
            Level::Error,
            "account tight allows 120 min",
        ),
        (
            fits(Some("debug"), Some("snbb"), Some("quick"), 1),
            Level::Error,
            "qos quick allows 30 min",
        ),
        (
            fits(Some("shut"), Some("snbb"), None, 1),
            Level::Warning,
            "shut: is DOWN",
        ),
    ] {
        let (found, topic, text) = trouble("", wanted, &sound());
        assert_eq!((found, topic), (level, "partition"));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn answers_of_sbatch() {
    let refused = |kind, message: &str| Tried::Refused {
        kind,
        message: message.to_owned(),
    };
    for (tried, level, part, remedy) in [
        (
            refused(
                Refusal::Permanent,
                "Invalid account or account/partition combination specified",
            ),
            Level::Error,
            "would refuse",
            "slurm_account",
        ),
        (
            refused(Refusal::Permanent, "Invalid partition name specified"),
            Level::Error,
            "would refuse",
            "slurm_partition",
        ),
        (
            refused(Refusal::Permanent, "Invalid qos specification"),
            Level::Error,
            "",
            "qos",
        ),
        (
            refused(
                Refusal::Permanent,
                "Requested node configuration is not available",
            ),
            Level::Error,
            "",
            "less memory",
        ),
        (
            refused(Refusal::Permanent, "Invalid feature specification"),
            Level::Error,
            "",
            "--constraint",
        ),
        (
            refused(Refusal::Permanent, "something new"),
            Level::Error,
            "",
            "options",
        ),
        (
            refused(Refusal::Limit, "AssocMaxSubmitJobLimit"),
            Level::Warning,
            "at the moment",
            "limit",
        ),
        (
            refused(Refusal::Transient, "job queue full"),
            Level::Warning,
            "cannot find out",
            "later",
        ),
        (
            Tried::Unclear("Socket timed out".into()),
            Level::Warning,
            "cannot find out",
            "scontrol ping",
        ),
        (
            Tried::Submitted(JobId::new("17")),
            Level::Error,
            "submitted job 17",
            "scancel 17",
        ),
    ] {
        let report = Report {
            tried: vec![("prep".into(), tried.clone())],
            ..sound()
        };
        let findings = judged("", wanted(), &report);
        let finding = findings.iter().find(|f| f.topic == "submission").unwrap();
        assert_eq!(finding.level, level, "{tried:?}");
        assert!(finding.text.contains(part), "{finding:?}");
        assert!(
            finding.remedy.as_ref().unwrap().contains(remedy),
            "{finding:?}"
        );
    }
    let none = Report {
        tried: vec![("prep".into(), Tried::NoScript)],
        ..sound()
    };
    assert!(
        judged("", wanted(), &none)
            .iter()
            .all(|f| f.topic != "submission")
    );
}

#[test]
fn another_study_with_the_same_name_is_reported() {
    let warned = |word: &str, phase: Phase| {
        let job = JobReport {
            id: JobId::new("7"),
            name: "a_sub-01_ses-01".into(),
            phase,
            pending_reason: None,
            submitted_at: None,
            facts: JobFacts::default(),
            tag: JobTag::parse(&format!("snbb:{word}:0123456789abcdef")),
            has_submit_line: false,
        };
        let report = Report {
            queue: Some(Ok(vec![job])),
            ..sound()
        };
        let findings = judged("", wanted(), &report);
        findings.iter().any(|finding| finding.about == "project")
    };
    assert!(warned("memory@2", Phase::Running));
    assert!(!warned("memory@2", Phase::Completed), "it has ended");
    assert!(!warned("memory@1", Phase::Running), "its own");
    assert!(!warned("memory", Phase::Running), "of an earlier release");
    assert!(!warned("other@2", Phase::Running));
}
