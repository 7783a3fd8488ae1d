use proptest::prelude::*;

use super::*;
use crate::model::state::JobFacts;

fn cancelled(state: &str) -> JobReport {
    JobReport {
        id: JobId::new("8"),
        name: "a_sub-01".to_owned(),
        phase: Phase::Failed(Reason::Cancelled),
        facts: JobFacts {
            slurm_state: Some(state.into()),
            exit_code: Some("0:0".into()),
            started_at: DateTime::from_timestamp(1, 0),
            node_list: Some("n1".into()),
            elapsed_s: Some(1),
            ..JobFacts::default()
        },
        ..JobReport::default()
    }
}

#[test]
fn a_cancel_by_another_uid_counts_only_if_the_script_began() {
    let began = Usage {
        has_begun: true,
        ..Usage::default()
    };
    let never = Usage::default();
    let cancel = Phase::Failed(Reason::Cancelled);
    let launch = Phase::Failed(Reason::LaunchFailed);
    for (state, usage, uid, expected) in [
        ("CANCELLED by 0", Some(&began), 1000, cancel),
        ("CANCELLED by 0", Some(&never), 1000, launch),
        ("CANCELLED by 0", None, 1000, Phase::Unknown),
        ("CANCELLED by 7", Some(&began), 1000, cancel),
        ("CANCELLED by 7", Some(&never), 1000, launch),
        ("CANCELLED by 7", None, 1000, Phase::Unknown),
        ("CANCELLED by 1000", Some(&never), 1000, cancel),
        ("CANCELLED by 1000", None, 1000, cancel),
        ("CANCELLED by 0", Some(&began), 0, cancel),
        ("CANCELLED by 0", Some(&never), 0, launch),
        ("CANCELLED", Some(&never), 1000, cancel),
    ] {
        let mut record = cancelled(state);
        add(&mut record, usage, uid, true);
        assert_eq!(record.phase, expected, "{state} {usage:?} {uid}");
        if usage.is_none() {
            let mut record = cancelled(state);
            add(&mut record, usage, uid, false);
            assert_eq!(record.phase, cancel, "no steps will come: {state} {uid}");
        }
    }
}

#[test]
fn only_a_short_job_with_nodes_can_have_failed_in_its_prolog() {
    let changes: [fn(&mut JobFacts); 4] = [
        |facts| facts.node_list = None,
        |facts| facts.started_at = None,
        |facts| facts.elapsed_s = Some(LONGEST_PROLOG_S + 1),
        |facts| facts.exit_code = Some("1:0".into()),
    ];
    for change in changes {
        let mut record = cancelled("CANCELLED by 0");
        change(&mut record.facts);
        add(&mut record, None, 1000, true);
        assert_eq!(record.phase, Phase::Failed(Reason::Cancelled));
    }
}

fn read(text: &str) -> HashMap<Run, Usage> {
    let rows = text.lines().map(|row| format!("{row}|debug|lab|normal\n"));
    steps(&rows.collect::<String>(), "|").unwrap()
}

fn run(id: &str, submit: i64) -> Run {
    (JobId::new(id), DateTime::from_timestamp(submit, 0))
}

/// Recorded from Slurm 22.05.8.
#[test]
fn memory_is_the_greatest_and_cpu_time_the_sum() {
    let found = read(
        "7|COMPLETED|0:0|1795827101|4||01:02.500\n\
         7.batch|COMPLETED|0:0|1795827102|4|3244K|00:00.108\n\
         7.extern|COMPLETED|0:0|1795827102|4|0|00:00.001\n\
         7.0|COMPLETED|0:0|1795827103|4|1.20G|01:02.391\n\
         8|FAILED|1:0|1795827101|1||00:00:00\n",
    );
    assert_eq!(
        found[&run("7", 1_795_827_101)],
        Usage {
            alloc_cpus: Some(4),
            partition: Some("debug".into()),
            account: Some("lab".into()),
            qos: Some("normal".into()),
            max_rss_mb: Some(1229),
            cpu_ms: Some(62_500),
            has_begun: true,
        }
    );
    assert_eq!(
        found[&run("8", 1_795_827_101)],
        Usage {
            alloc_cpus: Some(1),
            max_rss_mb: None,
            cpu_ms: None,
            has_begun: false,
            ..found[&run("7", 1_795_827_101)].clone()
        }
    );
}

/// Recorded from Slurm 22.05.8: the prolog failed; a requeue; an administrator's cancel.
#[test]
fn a_batch_step_without_exit_code_never_began() {
    let found = read(
        "8|CANCELLED by 0|0:0|1795827108|1||00:00:00\n\
         8.batch|CANCELLED||1795827109|1||00:00:00\n\
         9|REQUEUED|0:0|1795827116|1||00:00:00\n\
         9.batch|CANCELLED||1795827116|1||00:00:00\n\
         9|CANCELLED by 0|0:0|1795827117|1||00:00:00\n\
         9.batch|CANCELLED|0:15|1795827119|1|3244K|00:00.001\n\
         10|CANCELLED by 0|0:0|1795827182|1||00:00:00\n\
         10.batch|CANCELLED|0:0|1795827182|1||00:00:00\n\
         32|CANCELLED by 0|0:0|1795827313|1||00:00:00\n\
         32.extern|CANCELLED|0:0|1795827313|1||00:00:00\n",
    );
    let begun = |id: &str, submit: i64| found[&run(id, submit)].has_begun;
    assert!(!begun("8", 1_795_827_108));
    assert!(!begun("9", 1_795_827_116));
    assert!(begun("9", 1_795_827_117));
    assert!(begun("10", 1_795_827_182));
    assert!(!begun("32", 1_795_827_313));
}

/// Any usage proves that the step began.
#[test]
fn any_usage_shows_that_a_step_began() {
    for (fields, begun) in [
        ("||00:00:00", false),
        ("|0K|00:00:00", false),
        ("0:0||00:00:00", true),
        ("|7M|00:00:00", true),
        ("||00:00.001", true),
    ] {
        let (code, rest) = fields.split_once('|').unwrap();
        let found = read(&format!(
            "7|CANCELLED|0:0|1795827101|1||00:00:00\n7.batch|CANCELLED|{code}|1795827101|1|{rest}\n"
        ));
        assert_eq!(found[&run("7", 1_795_827_101)].has_begun, begun, "{fields}");
    }
}

#[test]
fn zero_cpus_count_as_unknown() {
    for (cpus, expected) in [("0", None), ("1", Some(1)), ("", None), ("x", None)] {
        let found = read(&format!("7|RUNNING|0:0|1795827101|{cpus}||00:00:00\n"));
        let usage = &found[&run("7", 1_795_827_101)];
        assert_eq!(usage.alloc_cpus, expected, "{cpus}");
    }
}

#[test]
fn e4_an_answer_with_other_text_is_an_error() {
    let row = "7|RUNNING|0:0|1795827101|1||00:00:00|||";
    for (text, is_read) in [
        ("", true),
        (" \n", true),
        ("slurm_persist_conn_open: no connection\n", false),
        ("7|RUNNING|0:0\n", false),
        (row, true),
        (&format!("{row}|\n{row}|\n"), true),
        (&format!("a banner\n{row}\n"), false),
    ] {
        assert_eq!(steps(text, "|").is_ok(), is_read, "{text:?}");
    }
}

#[test]
fn array_tasks_and_heterogeneous_jobs_have_the_ids_of_their_rows() {
    let found = read(
        "5_3|COMPLETED|0:0|1795827101|2||00:10.000\n\
         5_3.batch|COMPLETED|0:0|1795827101|2|100M|00:10.000\n\
         22+0|COMPLETED|0:0|1795827101|1||00:00:00\n\
         22+0.batch|COMPLETED|0:0|1795827101|1|7M|00:01:00\n\
         22+1|COMPLETED|0:0|1795827101|1||00:00:00\n\
         22+1.0|COMPLETED|0:0|1795827101|1|900M|00:01:00\n\
         6.batch|COMPLETED|0:0|1795827101|1|900M|00:01:00\n",
    );
    assert_eq!(found[&run("5_3", 1_795_827_101)].max_rss_mb, Some(100));
    assert_eq!(found[&run("22", 1_795_827_101)].max_rss_mb, Some(7));
    assert_eq!(found[&run("22+1", 1_795_827_101)].max_rss_mb, Some(900));
    assert_eq!(found.len(), 3);
}

#[test]
fn values_are_read_in_all_forms() {
    for (text, mb) in [
        ("1234K", Some(2)),
        ("12.50M", Some(13)),
        ("1.2G", Some(1229)),
        ("2T", Some(2 * 1024 * 1024)),
        ("900", Some(1)),
        ("0", None),
        ("", None),
        ("16?", None),
        ("-3M", None),
        ("infK", None),
        ("1e300P", None),
        ("K", None),
    ] {
        assert_eq!(used_memory(text), mb, "{text}");
    }
    for (text, ms) in [
        ("00:00.108", Some(108)),
        ("01:02.5", Some(62_500)),
        ("00:01:00", Some(60_000)),
        ("1-02:03:04", Some(93_784_000)),
        ("1-02:03:04.250", Some(93_784_250)),
        ("1:2:3:4", None),
        ("INVALID", None),
        ("", None),
        ("00:-1", None),
        ("00:00.x", None),
    ] {
        assert_eq!(cpu_time_ms(text), ms, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_accepted(text in ".*", lines in prop::collection::vec("([0-9_+.\\[\\]a-z]{0,8}\u{1f}){0,7}[0-9:.\\-KMG]{0,12}", 0..8)) {
        let _ = steps(&text, "\u{1f}");
        let _ = steps(&lines.join("\n"), "\u{1f}");
    }
}
