use proptest::prelude::*;

use super::*;
use crate::model::state::Reason;

/// Reads a fixture: without its comments, with the real separator.
fn fixture(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.replace('␟', SEPARATOR) + "\n")
        .collect()
}

fn job<'a>(parsed: &'a Parsed, id: &str) -> &'a JobReport {
    let mut found = parsed.jobs.iter().filter(|job| job.id.as_str() == id);
    let job = found.next().unwrap_or_else(|| panic!("no job {id}"));
    assert!(found.next().is_none(), "job {id} twice");
    job
}

fn tag(project: &str, submission_id: &str) -> Option<JobTag> {
    Some(JobTag {
        project: project.to_owned(),
        submission_id: submission_id.to_owned(),
    })
}

#[test]
fn a_recorded_queue_is_read() {
    let text = fixture(include_str!("../../../../fixtures/slurm/squeue-22.05.txt"));
    let parsed = queue(&text, SEPARATOR, None);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    for (id, phase, name) in [
        (
            "31",
            Phase::Failed(Reason::ExitCode),
            "bids_sub-0001_ses-01",
        ),
        ("32", Phase::Completed, "bids_sub-0002_ses-01"),
        ("33", Phase::Failed(Reason::ExitCode), "killed"),
        ("34", Phase::Failed(Reason::OutOfMemory), "big"),
        ("35", Phase::Running, "a|b, c\"d"),
        ("37", Phase::Held, "held"),
        ("38", Phase::Held, "dep"),
        ("39", Phase::Failed(Reason::Dependency), "depkill"),
        ("40_0", Phase::Running, "arr"),
        ("40_2", Phase::Queued, "arr"),
        ("42", Phase::Held, "wide"),
        ("43", Phase::Queued, "again"),
        ("44", Phase::Suspended, "paused"),
        ("45", Phase::Failed(Reason::Cancelled), "stopped_by_hand"),
        ("46", Phase::Queued, "het"),
        ("48", Phase::Queued, "later"),
    ] {
        let job = job(&parsed, id);
        assert_eq!((job.phase, job.name.as_str()), (phase, name), "{id}");
    }
    let running = job(&parsed, "35");
    assert_eq!(running.tag, tag("study", "s-4"));
    assert_eq!(running.facts.ended_at, None);
    assert_eq!(
        running.facts.started_at.map(|time| time.timestamp()),
        Some(1_795_817_883)
    );
    let held = job(&parsed, "37");
    assert_eq!(held.pending_reason.as_deref(), Some("JobHeldUser"));
    assert_eq!(held.facts.node_list, None);
    assert_eq!(
        job(&parsed, "48").facts.started_at,
        None,
        "a forecast is not a start time"
    );
    assert_eq!(job(&parsed, "41").facts.time_limit_s, Some(60));
    assert_eq!(job(&parsed, "31").facts.time_limit_s, Some(365 * 86_400));
    assert_eq!(job(&parsed, "36").tag, None);
}

#[test]
fn recorded_accounting_is_read() {
    let text = fixture(include_str!("../../../../fixtures/slurm/sacct-22.05.txt"));
    let parsed = accounting(&text, SEPARATOR, false, None);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    for (id, phase, code) in [
        ("31", Phase::Failed(Reason::ExitCode), "3:0"),
        ("32", Phase::Completed, "0:0"),
        ("33", Phase::Failed(Reason::ExitCode), "0:9"),
        ("34", Phase::Failed(Reason::OutOfMemory), "0:125"),
        ("36", Phase::Failed(Reason::LaunchFailed), "0:53"),
        // Ended due to its dependency: the queue shows that, this record does not.
        ("39", Phase::Failed(Reason::Cancelled), "0:0"),
        ("41", Phase::Failed(Reason::Timeout), "0:0"),
        ("45", Phase::Failed(Reason::Cancelled), "0:0"),
    ] {
        let job = job(&parsed, id);
        assert_eq!(job.phase, phase, "{id}");
        assert_eq!(job.facts.exit_code.as_deref(), Some(code), "{id}");
    }
    let slow = job(&parsed, "41");
    assert_eq!(slow.name, "slow");
    assert_eq!(slow.facts.slurm_state.as_deref(), Some("TIMEOUT"));
    assert_eq!(slow.facts.time_limit_s, Some(60));
    assert_eq!(slow.facts.elapsed_s, Some(20));
    assert_eq!(slow.facts.req_mem_mb, Some(50));
    assert!(slow.facts.node_list.is_some());
}

#[test]
fn a_record_without_its_first_half_is_ignored() {
    let text = fixture(include_str!(
        "../../../../fixtures/slurm/sacct-22.05-early.txt"
    ));
    let parsed = accounting(&text, SEPARATOR, false, None);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    for id in ["31", "32", "34", "36", "39", "41", "45"] {
        assert_eq!(job(&parsed, id).phase, Phase::Unknown, "{id}");
    }
    assert_eq!(job(&parsed, "43").phase, Phase::Queued);
}

#[test]
fn e22_parts_are_jobs_but_steps_are_not() {
    for text in ["7.batch", "7_3.batch", "7+1.0"] {
        assert_eq!(ids(text), Some(Ids::Other), "{text}");
    }
    assert_eq!(ids("7+0"), Some(Ids::One(JobId::new("7"))));
    assert_eq!(ids("7+1"), Some(Ids::One(JobId::new("7+1"))));
    for text in ["x.batch", "7+x.0", "7+x", "x+1", "x+0", ""] {
        assert_eq!(ids(text), None, "{text}");
    }
}

/// The text of a line must not control the terminal.
#[test]
fn an_unreadable_line_is_shown_short_and_without_control_characters() {
    let line = format!("7{SEPARATOR}\u{1b}[31m{}", "x".repeat(200));
    let parsed = queue(&line, SEPARATOR, None);
    let shown = format!("7\\u{{1f}}\\u{{1b}}[31m{}", "x".repeat(73));
    assert_eq!(
        parsed.broken,
        Some(format!("squeue printed unexpected text: '{shown}'"))
    );
}

/// Seen on Slurm 22.05.8: a job that root cancelled as it started was for seconds `CANCELLED`, with nodes and
/// without `by`, as if the controller had lost it.
#[test]
fn an_end_without_its_time_is_ignored() {
    for (word, code, end, phase) in [
        ("CANCELLED", "0:0", "Unknown", Phase::Unknown),
        ("FAILED", "0:0", "Unknown", Phase::Unknown),
        ("COMPLETED", "0:0", "Unknown", Phase::Unknown),
        (
            "CANCELLED",
            "0:0",
            "1795842041",
            Phase::Failed(Reason::NodeFail),
        ),
        (
            "CANCELLED by 0",
            "0:0",
            "1795842037",
            Phase::Failed(Reason::Cancelled),
        ),
        ("RUNNING", "0:0", "Unknown", Phase::Running),
    ] {
        let text = fixture(&format!(
            "91␟{word}␟{code}␟1795842037␟1795842037␟{end}␟4␟10␟30M␟1␟1␟node-1␟None␟convert_sub-0010_ses-3"
        ));
        let parsed = accounting(&text, SEPARATOR, false, None);
        assert_eq!(parsed.warnings, Vec::<String>::new());
        assert_eq!(job(&parsed, "91").phase, phase, "{word} {end}");
    }
}

#[test]
fn the_tag_is_read_from_the_submit_line() {
    let text = fixture(include_str!(
        "../../../../fixtures/slurm/sacct-22.05-by-name.txt"
    ));
    let parsed = accounting(&text, SEPARATOR, true, None);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    let job = job(&parsed, "31");
    assert_eq!(job.name, "bids_sub-0001_ses-01");
    assert_eq!(job.tag, tag("study", "s-1"));
    for (line, expected) in [
        (
            "sbatch --parsable --comment=snbb:p:1 --wrap x",
            tag("p", "1"),
        ),
        ("sbatch --parsable --comment='snbb:p:1' x", tag("p", "1")),
        ("sbatch --comment=snbb:p:1:2", tag("p", "1")),
        // A wrapper's own comment comes first.
        ("sbatch --comment=mine --comment=snbb:p:1", tag("p", "1")),
        ("sbatch --comment=mine x.sh snbb:p:1", None),
        ("sbatch x.sh", None),
        ("", None),
    ] {
        assert_eq!(tag_of_submit_line(line), expected, "{line}");
    }
}

#[test]
fn queues_of_other_releases_are_read() {
    let text = fixture(include_str!("../../../../fixtures/slurm/squeue-other.txt"));
    let cluster: Arc<str> = Arc::from("big");
    let parsed = queue(&text, SEPARATOR, Some(&cluster));
    for (id, phase) in [
        ("1", Phase::Held),
        ("2", Phase::Running),
        ("3", Phase::Unknown),
        ("4_0", Phase::Queued),
        ("4_2", Phase::Running),
        ("4_8", Phase::Queued),
        ("4_15", Phase::Queued),
        ("5_22", Phase::Queued),
        ("6", Phase::Running),
        ("7", Phase::Running),
        ("8", Phase::Unknown),
        ("9", Phase::Running),
    ] {
        let job = job(&parsed, id);
        assert_eq!(job.phase, phase, "{id}");
        assert_eq!(job.facts.cluster.as_ref(), Some(&cluster));
    }
    let of_cut = parsed
        .jobs
        .iter()
        .filter(|job| job.id.as_str().starts_with("5_"));
    assert_eq!(of_cut.count(), 16, "the cut number is left out");
    assert_eq!(job(&parsed, "1").facts.time_limit_s, Some(3600));
    assert_eq!(job(&parsed, "2").facts.time_limit_s, Some(86_400));
    assert!(job(&parsed, "7").submitted_at.is_some(), "a local time");
    let warnings = parsed.warnings.join("\n");
    for part in ["REVOKED", "soon", "a part of the array tasks"] {
        assert!(warnings.contains(part), "{warnings}");
    }
}

#[test]
fn accounting_of_other_releases_is_read() {
    let text = fixture(include_str!("../../../../fixtures/slurm/sacct-other.txt"));
    let parsed = accounting(&text, SEPARATOR, false, None);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    for (id, phase) in [
        ("1", Phase::Completed),
        ("4", Phase::Failed(Reason::OutOfMemory)),
        ("5", Phase::Failed(Reason::Cancelled)),
        ("7", Phase::Failed(Reason::NodeFail)),
        ("9_4", Phase::Failed(Reason::ExitCode)),
        ("9_5", Phase::Failed(Reason::Cancelled)),
        ("9_6", Phase::Failed(Reason::Cancelled)),
        ("10", Phase::Completed),
        ("11", Phase::Failed(Reason::LaunchFailed)),
    ] {
        assert_eq!(job(&parsed, id).phase, phase, "{id}");
    }
    assert!(parsed.jobs.iter().all(|job| job.id.as_str() != "8"));
    for (id, megabytes) in [
        ("1", Some(8192)),
        ("2", Some(400)),
        ("3", Some(4000)),
        ("4", Some(1536)),
        ("5", None),
    ] {
        assert_eq!(job(&parsed, id).facts.req_mem_mb, megabytes, "{id}");
    }
    assert_eq!(job(&parsed, "3").facts.time_limit_s, None);
    assert_eq!(
        job(&parsed, "5").facts.slurm_state.as_deref(),
        Some("CANCELLED by 4294967294")
    );
}

#[test]
fn only_valid_ids_are_queried() {
    for id in ["1", "123_4", "67043328"] {
        assert!(is_askable(&JobId::new(id)), "{id}");
    }
    for id in [
        "", "local-7", "1,2", "1_", "_1", "1_[2]", "1.batch", "1+0", "-1", "1 2",
    ] {
        assert!(!is_askable(&JobId::new(id)), "{id}");
    }
}

#[test]
fn the_tag_of_our_array_gets_the_index_of_each_task() {
    let array = "array-0123456789abcdef";
    let line = |id: &str, mark: &str| {
        let fields = [
            id, "RUNNING", "None", "1", "1", "1", "n1", "1:00", mark, "name",
        ];
        fields.join(SEPARATOR) + "\n"
    };
    let mark = format!("snbb:p:{array}");
    let ours = |index: usize| tag("p", &format!("{array}.{index}"));
    let text = line("7_4", &mark)
        + &line("8", &mark)
        + &line("9_[1-2%4]", &mark)
        + &line("10_3", "snbb:p:0123456789abcdef")
        + &line("11_[1,30-3", &mark);
    let parsed = queue(&text, SEPARATOR, None);
    for (id, expected) in [
        ("7_4", ours(4)),
        ("8", tag("p", array)),
        ("9_1", ours(1)),
        ("9_2", ours(2)),
        ("10_3", tag("p", "0123456789abcdef")),
        ("11_1", ours(1)),
        // The tasks that were cut off are still in the array.
        ("11", tag("p", array)),
    ] {
        assert_eq!(job(&parsed, id).tag, expected, "{id}");
    }
    let comment = format!("sbatch --parsable --comment={mark} --array=0-9 w.sh");
    let fields = [
        "7_5", "RUNNING", "0:0", "1", "1", "Unknown", "1", "1", "1M", "1", "1", "n", "None",
        &comment, "name",
    ];
    let record = accounting(&fields.join(SEPARATOR), SEPARATOR, true, None);
    assert_eq!(job(&record, "7_5").tag, ours(5));
}

#[test]
fn huge_ranges_do_not_fill_the_memory() {
    let Some(Ids::Tasks { array, ranges, .. }) = ids("1_[0-4294967295,7]") else {
        panic!("no range");
    };
    for (left, count) in [(usize::MAX, 100_000), (5, 5), (0, 0)] {
        let (tasks, are_all) = tasks(&array, &ranges, left);
        assert_eq!((tasks.len(), are_all), (count, false));
    }
    // The array itself counts, because some of its tasks are missing.
    let rest = "PENDING,None,1700000000,N/A,N/A,,1:00,(null),name".replace(',', SEPARATOR);
    let line = |id: &str| format!("{id}{SEPARATOR}{rest}\n");
    let parsed = queue(&line("1_[0-4294967295]"), SEPARATOR, None);
    assert_eq!(parsed.jobs.len(), 100_001);
    assert!(parsed.broken.is_some());
    let parsed = queue(&line("1_[0-9]"), SEPARATOR, None);
    assert_eq!((parsed.jobs.len(), parsed.broken), (10, None));
}

/// Each warning is compared with all others, and printed.
#[test]
fn a_value_that_is_invalid_in_many_jobs_is_reported_for_some() {
    let rest = "PENDING,None,soon,N/A,N/A,,1:00,(null),name".replace(',', SEPARATOR);
    let lines = (1..=200).map(|id| format!("{id}{SEPARATOR}{rest}\n"));
    let parsed = queue(&lines.collect::<String>(), SEPARATOR, None);
    assert_eq!((parsed.jobs.len(), parsed.warnings.len()), (200, 100));
    let range = format!("1_[1-5000]{SEPARATOR}{rest}\n");
    let parsed = queue(&range, SEPARATOR, None);
    assert_eq!(parsed.jobs.len(), 5000);
    assert_eq!(
        parsed.warnings,
        ["invalid time 'soon' in Slurm's answer (job 1)"]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        queue(&text, SEPARATOR, None);
        accounting(&text, SEPARATOR, true, None);
        accounting(&text, SEPARATOR, false, None);
    }

    #[test]
    fn lines_of_any_fields_are_accepted(
        fields in proptest::collection::vec("[0-9_+.,:%\\[\\]A-Zc-n -]{0,12}", 0..20),
    ) {
        let line = fields.join(SEPARATOR);
        queue(&line, SEPARATOR, None);
        accounting(&line, SEPARATOR, true, None);
    }

    #[test]
    fn a_readable_line_is_never_an_absence(id in 1u32..99_999_999, rest in "[^\n\r\u{85}\u{2028}\u{2029}\u{b}\u{c}]{0,60}") {
        let text = format!("{id}{SEPARATOR}{rest}\n");
        let id = JobId::new(&id.to_string());
        prop_assert!(queue(&text, SEPARATOR, None).jobs.iter().any(|job| job.id == id));
        prop_assert!(accounting(&text, SEPARATOR, true, None).jobs.iter().any(|job| job.id == id));
    }
}
